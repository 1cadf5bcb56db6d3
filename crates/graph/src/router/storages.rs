//! Who is woken when a storage is no longer empty, or no longer full.

use crate::NodeId;
use crate::class::AnyShared;
use crate::engine::core::Storages;
use crate::plan::{Homes, Kind, Plan, downstream_storages, upstream_storages};
use std::sync::Arc;

/// Tells storages whom to wake, and tasks which storages to look at.
pub(super) fn connect_storages(
    plan: &Plan,
    shared: &[Arc<dyn AnyShared>],
    homes: &Homes,
    workers: usize,
) -> Arc<[Storages]> {
    let notifier = |id: NodeId| shared[id.index()].notifier();
    let is_storage = |id: NodeId| notifier(id).is_some();
    let mut pullers = vec![Vec::new(); plan.nodes.len()];
    let mut pushers = vec![Vec::new(); plan.nodes.len()];
    let mut all = Vec::with_capacity(plan.nodes.len());
    for id in plan.ids() {
        let node = plan.node(id);
        let listeners = || homes.active(id, workers).into_iter().map(move |w| (w, id));
        let mut storages = Storages::default();
        if node.inputs.contains(&Kind::Pull) {
            let upstream = upstream_storages(plan, id, is_storage);
            if !node.outputs.contains(&Kind::Pull) {
                // Even with an input that cannot tell, the others' news must not wait.
                let known = upstream.clone().unwrap_or_default();
                known.iter().for_each(|s| pullers[s.index()].extend(listeners()));
            }
            storages.upstream =
                upstream.map(|ids| ids.into_iter().filter_map(|s| notifier(s).cloned()).collect());
        }
        if node.outputs.contains(&Kind::Push) && !node.inputs.contains(&Kind::Push) {
            let downstream = downstream_storages(plan, id, is_storage);
            downstream.iter().for_each(|s| pushers[s.index()].extend(listeners()));
            storages.downstream = downstream.into_iter().filter_map(|s| notifier(s).cloned()).collect();
        }
        all.push(storages);
    }
    for (id, (pullers, pushers)) in plan.ids().zip(pullers.into_iter().zip(pushers)) {
        if let Some(n) = notifier(id) {
            n.connect(pullers, pushers);
        }
    }
    all.into()
}
