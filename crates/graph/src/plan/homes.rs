//! Which worker runs what.
//!
//! Elements that are connected by pull connections work together on one worker; so does an element of
//! [`State::Home`]. Everything else has an instance that is active on every worker, unless the configuration binds it.

use super::{Kind, Plan};
use crate::NodeId;
use crate::spec::State;
use lang::{Diagnostic, Span};

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// The one worker on which an element's task may run; `None` = all.
    pub task: Vec<Option<usize>>,
    /// The one worker that packets for an element must be handed to; `None` = whichever has them.
    pub packets: Vec<Option<usize>>,
}

/// Assigns homes. `bound` gives the worker that an element was bound to, and where.
///
/// # Errors
/// If elements that must live together were bound to different workers.
pub fn assign_homes(
    plan: &Plan,
    workers: usize,
    bound: &[Option<(usize, Span)>],
) -> Result<Homes, Vec<Diagnostic>> {
    let mut groups = Groups::new(plan.nodes.len());
    for c in plan.connections.iter().filter(|c| plan.kind(c) == Kind::Pull) {
        groups.join(c.from.0.index(), c.to.0.index());
    }
    let mut home_of_group: Vec<Option<(usize, Option<Span>)>> = vec![None; plan.nodes.len()];
    let mut errors = Vec::new();
    for id in plan.ids() {
        let Some((worker, span)) = bound.get(id.index()).copied().flatten() else { continue };
        let slot = &mut home_of_group[groups.find(id.index())];
        match *slot {
            Some((other, Some(other_span))) if other != worker => {
                let text = format!(
                    "'{}' pulls from or is pulled by an element of thread {other}, so it cannot be on thread {worker}",
                    plan.node(id).name
                );
                errors.push(Diagnostic::error(span, text).note(other_span, "bound here"));
            }
            _ => *slot = Some((worker, Some(span))),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(fill(plan, workers, &mut groups, home_of_group))
}

fn fill(
    plan: &Plan,
    workers: usize,
    groups: &mut Groups,
    mut home_of_group: Vec<Option<(usize, Option<Span>)>>,
) -> Homes {
    let mut homes = Homes { task: vec![None; plan.nodes.len()], packets: vec![None; plan.nodes.len()] };
    let mut next = 0;
    for id in plan.ids() {
        let i = id.index();
        let root = groups.find(i);
        let state = plan.node(id).spec().state;
        if home_of_group[root].is_none() {
            if groups.size(root) > 1 {
                // Pull groups are spread over the workers: each is one port's queues and scheduler, as a rule.
                home_of_group[root] = Some((next % workers.max(1), None));
                next += 1;
            } else if state == State::Home {
                home_of_group[root] = Some((0, None));
            }
        }
        homes.task[i] = home_of_group[root].map(|(w, _)| w);
        if state == State::Home && plan.node(id).inputs.contains(&Kind::Push) {
            homes.packets[i] = homes.task[i];
        }
    }
    homes
}

/// Union-find.
struct Groups {
    parent: Vec<usize>,
    size: Vec<usize>,
}

impl Groups {
    fn new(n: usize) -> Groups {
        Groups { parent: (0..n).collect(), size: vec![1; n] }
    }

    fn find(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }

    fn size(&self, root: usize) -> usize {
        self.size[root]
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            self.parent[b] = a;
            self.size[a] += self.size[b];
        }
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
}
