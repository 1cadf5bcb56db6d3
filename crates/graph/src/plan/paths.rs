//! Which workers a path may use.
//!
//! Packets of a device with fewer receive queues than there are workers must be spread by hand to reach them all. Where
//! several such paths have nothing in common, each gets workers of its own instead, and what one worker receives stays with it.

use super::Plan;
use super::homes::Groups;
use super::queues::Queues;

/// Every so-manieth worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The first one.
    pub first: usize,
    step: usize,
    workers: usize,
}

impl Share {
    /// All workers.
    fn all(workers: usize) -> Share {
        Share { first: 0, step: 1, workers }
    }

    /// One of them.
    pub(super) fn one(worker: usize, workers: usize) -> Share {
        Share { first: worker, step: workers, workers }
    }

    /// Their numbers.
    pub fn workers(self) -> impl Iterator<Item = usize> + Clone {
        (self.first..self.workers).step_by(self.step.max(1))
    }

    /// How many they are, at least one.
    pub fn len(self) -> usize {
        self.workers().count().max(1)
    }
}

/// The workers of each element, by the path that it belongs to: all, unless there are several paths that do not meet, are
/// bound nowhere, and whose devices have a receive queue for some of the workers only.
pub(super) fn shares(plan: &Plan, workers: usize, groups: &Groups, queues: &[Option<Queues>]) -> Vec<Share> {
    let paths = Groups::of(plan, |_| true);
    let (mut divides, mut bound) = (vec![None; plan.nodes.len()], vec![false; plan.nodes.len()]);
    for id in plan.ids() {
        let root = paths.find(id.index());
        bound[root] |= groups.is_bound(id);
        if let Some(Some(Queues::Receive(n))) = queues.get(id.index()) {
            divides[root] = Some(divides[root].unwrap_or(true) && *n < workers);
        }
    }
    let divided = |root: usize| divides[root] == Some(true) && !bound[root];
    let mut roots: Vec<usize> = Vec::new();
    for root in (0..plan.nodes.len()).map(|i| paths.find(i)).filter(|root| divided(*root)) {
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    let step = roots.len().clamp(1, workers);
    let share = |i| match roots.iter().position(|root| *root == paths.find(i)) {
        Some(path) => Share { first: path % step, step, workers },
        None => Share::all(workers),
    };
    (0..plan.nodes.len()).map(share).collect()
}
