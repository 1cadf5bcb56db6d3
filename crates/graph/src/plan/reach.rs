//! Which workers may have packets for which element.

use super::homes::Homes;
use super::{Kind, Plan};
use crate::NodeId;

/// By element and worker: true if the worker may bring packets to a push input of the element, before it hands any over. What
/// an element without push inputs, or with pull inputs, emits comes from the workers of its task; what others emit from
/// those that bring them something. Which input it was does not matter: an answer at one input may let go what came by
/// another one.
pub(super) fn reach(plan: &Plan, workers: usize, homes: &Homes) -> Vec<Vec<bool>> {
    let mut next: Vec<Vec<NodeId>> = vec![Vec::new(); plan.nodes.len()];
    for c in plan.connections.iter().filter(|c| plan.kind(c) == Kind::Push) {
        next[c.from.0.index()].push(c.to.0);
    }
    let mut brought = vec![vec![false; workers]; plan.nodes.len()];
    let mut ask: Vec<NodeId> = plan.ids().collect();
    while let Some(id) = ask.pop() {
        let emits = emitters(plan, workers, homes, id, &brought[id.index()]);
        for to in &next[id.index()] {
            let there = &mut brought[to.index()];
            let more = there.iter().zip(&emits).any(|(there, emits)| *emits && !there);
            if more {
                there.iter_mut().zip(&emits).for_each(|(there, emits)| *there |= emits);
                ask.push(*to);
            }
        }
    }
    brought
}

/// The workers that emit what leaves an element to which some workers bring packets.
fn emitters(plan: &Plan, workers: usize, homes: &Homes, id: NodeId, brought: &[bool]) -> Vec<bool> {
    let mut emits = vec![false; workers];
    let kinds = &plan.node(id).inputs;
    if kinds.contains(&Kind::Pull) || !kinds.contains(&Kind::Push) {
        match homes.task[id.index()] {
            Some(home) => emits[home] = true,
            None => homes.share[id.index()].workers().for_each(|w| emits[w] = true),
        }
    }
    for (worker, _) in brought.iter().enumerate().filter(|(_, brought)| **brought) {
        emits[homes.taker(id, worker)] = true;
    }
    emits
}
