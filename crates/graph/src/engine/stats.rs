//! What each worker counts for each element. One writer per cell; anybody may read at any time.

use crate::NodeId;
use crate::wires::Wire;
use epoch::Count;

/// What is to be known of an element to run it, to count it, and to pass on what it sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFacts {
    /// The element.
    pub node: NodeId,
    /// Number of own loss reasons.
    pub losses: u16,
    /// Where its output 0 leads: for most elements that is all there is.
    pub output: Wire,
    /// It has a push input: its packets are counted as they come in, not again as they leave.
    pub pushed_to: bool,
    /// It has a pull input.
    pub pulls: bool,
}

/// Counts of one element on one worker. What every call changes lies in one cache line.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct NodeStats {
    /// The element, here because each task run and each delivery comes by.
    pub facts: NodeFacts,
    /// Calls that brought or fetched packets, or ran the task usefully.
    pub calls: Count,
    /// Packets that were pushed to it, pulled through it or moved by its task.
    pub(super) handled: Count,
    /// Packets that came into being here.
    pub made: Count,
    /// Packets whose way ended here on purpose.
    pub gone: Count,
    /// Task runs that found nothing to do.
    pub empty_polls: Count,
    /// TSC cycles of the calls that were timed, empty polls not included.
    pub timed_cycles: Count,
    /// Calls that were timed.
    pub timed_calls: Count,
    /// Packets of the calls that were timed.
    pub timed_packets: Count,
    /// TSC cycles of the empty polls that were timed.
    pub timed_empty_cycles: Count,
}

/// A call that seems to have taken so many cycles was interrupted by another program: 256 packets of 4,000 cycles each take
/// less.
const INTERRUPTED: u64 = 1 << 20;

impl NodeStats {
    /// Packets that were pushed to it; of an element without inputs, those that it made; of others, those that its task
    /// moved or that were pulled through.
    pub fn packets(&self) -> u64 {
        let is_source = !(self.facts.pushed_to || self.facts.pulls);
        if is_source { self.made.get() } else { self.handled.get() }
    }

    /// Counts a call that was timed, or one that found nothing to do if `packets` is `None`.
    pub fn add_timed(&self, packets: Option<u64>, cycles: u64) {
        if cycles >= INTERRUPTED {
            return;
        }
        let Some(packets) = packets else { return self.timed_empty_cycles.add(cycles) };
        self.timed_calls.add(1);
        self.timed_packets.add(packets);
        self.timed_cycles.add(cycles);
    }
}

/// Counts of one worker.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct WorkerStats {
    /// By element.
    pub nodes: Box<[NodeStats]>,
    /// Task runs.
    pub runs: Count,
    /// Rounds of the scheduler.
    pub rounds: Count,
    /// First loss cell of each element.
    loss_base: Box<[u32]>,
    losses: Box<[Count]>,
    /// Task runs that were timed.
    pub timed_runs: Count,
}

/// Reasons for which the engine itself loses packets, behind an element's own.
pub const ENGINE_LOSSES: [&str; 3] = ["unconnected", "loop", "handoff_full"];

impl WorkerStats {
    /// For these elements.
    pub fn new(nodes: &[NodeFacts]) -> WorkerStats {
        let mut base = Vec::with_capacity(nodes.len());
        let mut total = 0;
        for node in nodes {
            base.push(u32::try_from(total).unwrap_or(u32::MAX));
            total += usize::from(node.losses) + ENGINE_LOSSES.len();
        }
        let fresh = |facts: &NodeFacts| NodeStats { facts: *facts, ..NodeStats::default() };
        WorkerStats {
            nodes: nodes.iter().map(fresh).collect(),
            loss_base: base.into(),
            losses: (0..total).map(|_| Count::default()).collect(),
            rounds: Count::default(),
            runs: Count::default(),
            timed_runs: Count::default(),
        }
    }

    /// The cell of loss reason `index` (own reasons first, then [`ENGINE_LOSSES`]) of an element.
    #[inline]
    pub fn loss(&self, node: usize, index: usize) -> Option<&Count> {
        let base = *self.loss_base.get(node)? as usize;
        self.losses.get(base + index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_interrupted_is_not_timed() {
        let s = NodeStats::default();
        s.add_timed(Some(3), 300);
        s.add_timed(Some(5), INTERRUPTED);
        s.add_timed(None, 20);
        s.add_timed(None, INTERRUPTED);
        let timed = [&s.timed_calls, &s.timed_packets, &s.timed_cycles, &s.timed_empty_cycles];
        assert_eq!(timed.map(Count::get), [1, 3, 300, 20]);
    }
}
