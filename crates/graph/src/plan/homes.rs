//! Which worker runs what.
//!
//! Elements that are connected by pull connections work together on one worker; so does an element of
//! [`State::Home`]. Everything else has an instance that is active on every worker, unless the configuration binds it.
//! Which workers those are for a path, and which of them have the queues of devices, is said in `paths` and `queues`.

use super::paths::{Share, shares};
use super::queues::{Queues, assign_queues};
use super::reach::reach;
use super::{Kind, Plan};
use crate::NodeId;
use crate::spec::State;
use lang::{Diagnostic, Span};
use std::sync::Arc;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    /// The one worker on which an element's task may run; `None` = all.
    pub task: Vec<Option<usize>>,
    /// By the worker that has packets for an element, the one that it hands them to; `None` = each keeps its own.
    pub packets: Vec<Option<Arc<[usize]>>>,
    /// The worker of each queue of an element.
    pub queues: Vec<Vec<usize>>,
    /// The workers that an element's task may run on, or that what it receives is spread over.
    pub share: Vec<Share>,
}

/// Assigns homes. `queues` says which elements have queues of devices.
pub fn assign_homes(plan: &Plan, workers: usize, groups: &Groups, queues: &[Option<Queues>]) -> Homes {
    let share = shares(plan, workers, groups, queues);
    let task = group_homes(plan, workers, groups, &share);
    let none = vec![None; plan.nodes.len()];
    let mut homes = Homes { task, packets: none, queues: Vec::new(), share };
    settle_single(plan, workers, groups, &mut homes);
    assign_queues(plan, workers, queues, &mut homes);
    homes
}

/// Notes what follows from the homes that are known.
fn note(plan: &Plan, workers: usize, homes: &mut Homes) {
    for id in plan.ids() {
        if let Some(home) = homes.task[id.index()] {
            homes.share[id.index()] = Share::one(home, workers);
            if plan.node(id).spec().state == State::Home && is_pushed_to(plan, id) {
                homes.packets[id.index()] = Some(vec![home; workers].into());
            }
        }
    }
}

fn is_pushed_to(plan: &Plan, id: NodeId) -> bool {
    plan.node(id).inputs.contains(&Kind::Push)
}

/// The workers of bound elements and of pull groups. The latter are dealt out over their share of the workers: each is one
/// port's queues and scheduler, as a rule.
fn group_homes(plan: &Plan, workers: usize, groups: &Groups, share: &[Share]) -> Vec<Option<usize>> {
    let mut homes = groups.bound.clone();
    let mut dealt = vec![0; workers];
    for i in 0..plan.nodes.len() {
        let root = groups.find(i);
        if homes[root].is_none() && groups.size[root] > 1 {
            let next = &mut dealt[share[i].first];
            homes[root] = share[i].workers().nth(*next % share[i].len());
            *next += 1;
        }
    }
    (0..plan.nodes.len()).map(|i| homes[groups.find(i)]).collect()
}

/// Gives the other elements of [`State::Home`] a worker: the first of their share, or the first that brings packets if that
/// one brings none.
fn settle_single(plan: &Plan, workers: usize, groups: &Groups, homes: &mut Homes) {
    let undecided: Vec<NodeId> =
        plan.ids().filter(|id| homes.task[id.index()].is_none() && groups.is_lone(plan, *id)).collect();
    for id in undecided.iter().filter(|id| !is_pushed_to(plan, **id)) {
        homes.task[id.index()] = Some(homes.share[id.index()].first);
    }
    note(plan, workers, homes);
    let reach = reach(plan, workers, homes);
    for id in undecided.iter().filter(|id| is_pushed_to(plan, **id)) {
        let (first, brought) = (homes.share[id.index()].first, &reach[id.index()]);
        let other = brought.iter().position(|b| *b).filter(|_| !brought[first]);
        homes.task[id.index()] = Some(other.unwrap_or(first));
    }
    note(plan, workers, homes);
}

/// Which elements have to be on one worker together, and on which if the configuration says so.
pub struct Groups {
    parent: Vec<usize>,
    size: Vec<usize>,
    /// By a group's first element.
    bound: Vec<Option<usize>>,
}

impl Groups {
    /// Those that pull connections make. `bound` gives the worker that an element was bound to, and where. Elements that must
    /// live together and were bound to different workers are errors.
    pub fn new(plan: &Plan, bound: &[Option<(usize, Span)>], errors: &mut Vec<Diagnostic>) -> Groups {
        let mut groups = Groups::of(plan, |kind| kind == Kind::Pull);
        let mut said: Vec<Option<(usize, Span)>> = vec![None; plan.nodes.len()];
        for id in plan.ids() {
            let Some((worker, span)) = bound.get(id.index()).copied().flatten() else { continue };
            let slot = &mut said[groups.find(id.index())];
            match *slot {
                Some((other, other_span)) if other != worker => {
                    let text = format!(
                        "'{}' pulls from or is pulled by an element of thread {other}, so it cannot be on thread {worker}",
                        plan.node(id).name
                    );
                    errors.push(Diagnostic::error(span, text).note(other_span, "bound here"));
                }
                _ => *slot = Some((worker, span)),
            }
        }
        groups.bound = said.into_iter().map(|said| said.map(|(worker, _)| worker)).collect();
        groups
    }

    /// Elements joined by connections of these kinds, none bound.
    pub(super) fn of(plan: &Plan, kinds: impl Fn(Kind) -> bool) -> Groups {
        let n = plan.nodes.len();
        let mut groups = Groups { parent: (0..n).collect(), size: vec![1; n], bound: vec![None; n] };
        for c in plan.connections.iter().filter(|c| kinds(plan.kind(c))) {
            groups.join(c.from.0.index(), c.to.0.index());
        }
        groups
    }

    /// The element that stands for the group of element `i`.
    pub(super) fn find(&self, mut i: usize) -> usize {
        while self.parent[i] != i {
            i = self.parent[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            // The smaller one below the larger one, so that ways up stay short.
            let (above, below) = if self.size[a] >= self.size[b] { (a, b) } else { (b, a) };
            self.parent[below] = above;
            self.size[above] += self.size[below];
        }
    }

    /// True if the configuration says where the element runs, be it by another one that it is joined to.
    pub(super) fn is_bound(&self, id: NodeId) -> bool {
        self.bound[self.find(id.index())].is_some()
    }

    /// True if the element's task runs on one worker only.
    pub fn is_lone(&self, plan: &Plan, id: NodeId) -> bool {
        self.is_bound(id) || self.size[self.find(id.index())] > 1 || plan.node(id).spec().state == State::Home
    }
}

impl Homes {
    /// The workers on which an element's task may run.
    pub fn active(&self, node: NodeId, workers: usize) -> Vec<usize> {
        match self.task.get(node.index()).copied().flatten() {
            Some(w) => vec![w],
            None => (0..workers).collect(),
        }
    }

    /// The worker that takes the packets that `worker` has for an element.
    pub fn taker(&self, node: NodeId, worker: usize) -> usize {
        taker(&self.packets, node, worker)
    }
}

/// [`Homes::taker`], by [`Homes::packets`].
pub fn taker(packets: &[Option<Arc<[usize]>>], node: NodeId, worker: usize) -> usize {
    packets.get(node.index()).and_then(|by| by.as_ref()?.get(worker).copied()).unwrap_or(worker)
}
