//! Timers: at most one per element and worker.

use crate::NodeId;
use crate::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pending timers of one worker. Timers of equal time fire in the order in which they were set.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, NodeId)>>,
    /// The valid entry of each node: time and serial number. Others in the heap are stale.
    set: Vec<Option<(Nanos, u64)>>,
    serial: u64,
}

impl Timers {
    /// For elements numbered below `nodes`.
    pub fn new(nodes: usize) -> Timers {
        Timers { set: vec![None; nodes], ..Timers::default() }
    }

    /// Sets the element's timer; replaces an earlier one.
    pub fn set(&mut self, node: NodeId, time: Nanos) {
        let Some(slot) = self.set.get_mut(node.index()) else { return };
        if slot.is_some_and(|(t, _)| t == time) {
            return;
        }
        self.serial += 1;
        *slot = Some((time, self.serial));
        self.heap.push(Reverse((time, self.serial, node)));
        if self.heap.len() > 64 + 4 * self.set.len() {
            let set = &self.set;
            self.heap.retain(|Reverse((t, s, n))| set[n.index()] == Some((*t, *s)));
        }
    }

    /// Cancels the element's timer.
    pub fn cancel(&mut self, node: NodeId) {
        if let Some(slot) = self.set.get_mut(node.index()) {
            *slot = None;
        }
    }

    /// When the next timer is due.
    pub fn next_due(&mut self) -> Option<Nanos> {
        while let Some(Reverse((time, serial, node))) = self.heap.peek().copied() {
            if self.set[node.index()] == Some((time, serial)) {
                return Some(time);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next timer that is due at `now`.
    pub fn pop_due(&mut self, now: Nanos) -> Option<NodeId> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((_, _, node)) = self.heap.pop()?;
        self.set[node.index()] = None;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_are_replaced() {
        let mut t = Timers::new(4);
        t.set(NodeId(0), 50);
        t.set(NodeId(1), 20);
        t.set(NodeId(2), 20);
        t.set(NodeId(1), 40);
        t.set(NodeId(3), 10);
        t.cancel(NodeId(3));
        assert_eq!(t.next_due(), Some(20));
        assert_eq!(t.pop_due(19), None);
        let fired: Vec<_> = std::iter::from_fn(|| t.pop_due(100)).map(|n| n.0).collect();
        assert_eq!(fired, [2, 1, 0]);
        assert_eq!(t.next_due(), None);
    }

    #[test]
    fn replacing_for_ever_takes_no_memory() {
        let mut t = Timers::new(1);
        for i in 0..100_000 {
            t.set(NodeId(0), i);
        }
        assert!(t.heap.len() <= 69, "{}", t.heap.len());
    }
}
