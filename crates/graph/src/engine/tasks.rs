//! Which task runs next: stride scheduling (Click's), so that each gets its share of runs by its tickets.

use crate::NodeId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Tickets of a task that nobody changed.
pub const DEFAULT_TICKETS: u32 = 1024;
/// The most tickets a task can have.
pub const MAX_TICKETS: u32 = 32_768;
const STRIDE_1: u64 = 1 << 32;

#[derive(Clone, Copy, Debug)]
struct Task {
    scheduled: bool,
    stride: u64,
    pass: u64,
}

/// Which tasks of one worker are ready or running, by element: for whoever looks in from outside.
pub type Shown = Arc<[AtomicBool]>;

/// The tasks of one worker.
#[derive(Debug)]
pub struct Tasks {
    tasks: Vec<Task>,
    shown: Shown,
    /// Ready tasks and their passes, the least first; of the same ones first who was woken first. Who has just run nearly always
    /// goes to the end, or close to it.
    ready: VecDeque<(u64, NodeId)>,
    /// Pass of the task that ran last: a task that wakes up starts from here, it cannot save up its turns.
    pass: u64,
}

impl Tasks {
    /// Sleeping tasks, one for each place in `shown`.
    pub fn new(shown: Shown) -> Tasks {
        let stride = STRIDE_1 / u64::from(DEFAULT_TICKETS);
        Tasks {
            tasks: vec![Task { scheduled: false, stride, pass: 0 }; shown.len()],
            shown,
            ready: VecDeque::new(),
            pass: 0,
        }
    }

    /// Gives a task this share (1 to [`MAX_TICKETS`]).
    pub fn set_tickets(&mut self, node: NodeId, tickets: u32) {
        if let Some(task) = self.tasks.get_mut(node.index()) {
            task.stride = STRIDE_1 / u64::from(tickets.clamp(1, MAX_TICKETS));
        }
    }

    /// Makes a task ready to run; no effect if it is already.
    pub fn wake(&mut self, node: NodeId) {
        let Some(task) = self.tasks.get_mut(node.index()) else { return };
        if !task.scheduled {
            task.scheduled = true;
            task.pass = task.pass.max(self.pass);
            let pass = task.pass;
            if self.ready.back().is_none_or(|(last, _)| *last <= pass) {
                self.ready.push_back((pass, node));
            } else {
                let earlier = self.ready.partition_point(|(other, _)| *other <= pass);
                self.ready.insert(earlier, (pass, node));
            }
            self.show(node, true);
        }
    }

    /// Takes a task out of its turn, until something wakes it.
    pub fn unschedule(&mut self, node: NodeId) {
        if let Some(task) = self.tasks.get_mut(node.index()) {
            task.scheduled = false;
            self.ready.retain(|(_, other)| *other != node);
            self.show(node, false);
        }
    }

    /// Takes a task out of its turn for good: nothing wakes it any more.
    pub fn bar(&mut self, node: NodeId) {
        self.unschedule(node);
        if let Some(task) = self.tasks.get_mut(node.index()) {
            // Whoever wakes it finds it awake.
            task.scheduled = true;
        }
    }

    /// After a run and what it woke: shows that the task sleeps, if it does.
    pub fn ended(&self, node: NodeId) {
        if self.tasks.get(node.index()).is_some_and(|task| !task.scheduled) {
            self.show(node, false);
        }
    }

    fn show(&self, node: NodeId, ready: bool) {
        // Stored only when it changes: others may be reading.
        if let Some(shown) = self.shown.get(node.index()).filter(|shown| shown.load(Relaxed) != ready) {
            shown.store(ready, Relaxed);
        }
    }

    /// Counts `n` turns of `node`, the task that had its turn last, which it took because no other was ready: as
    /// [`wake`](Self::wake) and [`pop`](Self::pop) so many times, at a fraction of the price.
    #[inline]
    pub fn repeated(&mut self, node: NodeId, n: usize) {
        if n > 0
            && let Some(task) = self.tasks.get_mut(node.index())
        {
            self.pass = task.pass + task.stride * (n as u64 - 1);
            task.pass = self.pass + task.stride;
        }
    }

    /// Takes the task whose turn it is. It must be woken to run again.
    pub fn pop(&mut self) -> Option<NodeId> {
        let (pass, node) = self.ready.pop_front()?;
        let task = self.tasks.get_mut(node.index())?;
        task.scheduled = false;
        self.pass = pass;
        task.pass = pass + task.stride;
        Some(node)
    }

    /// Ready tasks.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_tickets() {
        let mut t = Tasks::new([false; 2].map(AtomicBool::new).into());
        t.set_tickets(NodeId(0), 1024);
        t.set_tickets(NodeId(1), 3072);
        t.wake(NodeId(0));
        t.wake(NodeId(1));
        let mut runs = [0; 2];
        for _ in 0..4000 {
            let node = t.pop().unwrap();
            runs[node.index()] += 1;
            t.wake(node);
        }
        assert!((999..=1001).contains(&runs[0]), "{runs:?}");
    }

    #[test]
    fn only_a_lone_task_runs_again_at_once_and_it_saves_up_nothing() {
        let mut t = Tasks::new([false; 2].map(AtomicBool::new).into());
        let (a, b) = (NodeId(0), NodeId(1));
        t.wake(a);
        assert_eq!(t.pop(), Some(a));
        t.repeated(a, 1000);
        t.wake(b);
        t.wake(a);
        let mut order = Vec::new();
        for _ in 0..6 {
            let node = t.pop().unwrap();
            order.push(node.0);
            t.wake(node);
        }
        assert_eq!(order.iter().filter(|n| **n == 1).count(), 3, "{order:?}");
    }

    #[test]
    fn a_barred_task_never_has_its_turn_again() {
        let mut t = Tasks::new([false; 2].map(AtomicBool::new).into());
        let (a, b) = (NodeId(0), NodeId(1));
        t.wake(a);
        t.wake(b);
        t.bar(a);
        t.wake(a);
        assert_eq!((t.pop(), t.pop()), (Some(b), None));
    }

    #[test]
    fn a_task_is_shown_while_it_is_ready_or_running() {
        let shown: Shown = [false; 2].map(AtomicBool::new).into();
        let seen = || [0, 1].map(|node: usize| shown[node].load(Relaxed));
        let mut t = Tasks::new(shown.clone());
        let (a, b) = (NodeId(0), NodeId(1));
        t.wake(a);
        t.wake(b);
        assert_eq!((t.pop(), seen()), (Some(a), [true, true]));
        t.ended(a);
        assert_eq!(seen(), [false, true]);
        t.unschedule(b);
        assert_eq!((t.pop(), seen()), (None, [false, false]));
        t.wake(b);
        assert_eq!((t.ready(), seen()), (1, [false, true]));
    }

    #[test]
    fn a_sleeper_does_not_save_up_turns() {
        let mut t = Tasks::new([false; 2].map(AtomicBool::new).into());
        t.wake(NodeId(0));
        for _ in 0..1000 {
            let n = t.pop().unwrap();
            t.wake(n);
        }
        t.wake(NodeId(1));
        t.wake(NodeId(1));
        let first: Vec<_> = (0..6)
            .map(|_| {
                t.pop()
                    .map(|n| {
                        t.wake(n);
                        n.0
                    })
                    .unwrap()
            })
            .collect();
        assert_eq!(first.iter().filter(|n| **n == 1).count(), 3, "{first:?}");
    }
}
