//! Which storages a mover pulls from and a source pushes into, through elements that store nothing.

use super::{Kind, Plan};
use crate::NodeId;
use crate::spec::flows;
use std::collections::{BTreeSet, VecDeque};

/// The storages that pulls of `node` reach; `None` if one of the ways ends at an element that cannot tell whether it
/// has something. `is_storage` says which elements are storages.
pub fn upstream_storages(
    plan: &Plan,
    node: NodeId,
    is_storage: impl Fn(NodeId) -> bool,
) -> Option<Vec<NodeId>> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut ask: Vec<(NodeId, usize)> = pull_inputs(plan, node).collect();
    while let Some(input) = ask.pop() {
        if !seen.insert(input) {
            continue;
        }
        for c in plan.connections.iter().filter(|c| c.to == input) {
            let (up, output) = c.from;
            if is_storage(up) {
                found.insert(up);
                continue;
            }
            let code = plan.node(up).spec().flow;
            let further: Vec<_> = pull_inputs(plan, up).filter(|(_, i)| flows(code, *i, output)).collect();
            if further.is_empty() {
                return None;
            }
            ask.extend(further);
        }
    }
    Some(found.into_iter().collect())
}

fn pull_inputs(plan: &Plan, node: NodeId) -> impl Iterator<Item = (NodeId, usize)> + '_ {
    let kinds = plan.node(node).inputs.iter().enumerate();
    kinds.filter(|(_, k)| **k == Kind::Pull).map(move |(i, _)| (node, i))
}

/// The storages that emissions of `node` reach through push connections.
pub fn downstream_storages(plan: &Plan, node: NodeId, is_storage: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut ask: Vec<(NodeId, usize)> = (0..plan.node(node).outputs.len()).map(|o| (node, o)).collect();
    while let Some(output) = ask.pop() {
        if !seen.insert(output) {
            continue;
        }
        for c in plan.connections.iter().filter(|c| c.from == output && plan.kind(c) == Kind::Push) {
            let (down, input) = c.to;
            if is_storage(down) {
                found.insert(down);
                continue;
            }
            let n = plan.node(down);
            ask.extend((0..n.outputs.len()).filter(|o| flows(n.spec().flow, input, *o)).map(|o| (down, o)));
        }
    }
    found.into_iter().collect()
}

/// The elements that emissions of `node` by `output` may reach through push connections, nearest first.
pub fn downstream(plan: &Plan, node: NodeId, output: usize) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut ask = VecDeque::from([(node, output)]);
    while let Some(output) = ask.pop_front() {
        for c in plan.connections.iter().filter(|c| c.from == output && plan.kind(c) == Kind::Push) {
            let (down, input) = c.to;
            if !seen.insert((down, input)) {
                continue;
            }
            if !found.contains(&down) {
                found.push(down);
            }
            let n = plan.node(down);
            ask.extend((0..n.outputs.len()).filter(|o| flows(n.spec().flow, input, *o)).map(|o| (down, o)));
        }
    }
    found
}
