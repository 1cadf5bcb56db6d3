//! Keeping bursts of a flow on one path.
//!
//! Packets of a flow that follow each other within δ belong to one flowlet, and go the same way as long as they fit there
//! (RouteBricks, SOSP 2009, §6.1). If δ is longer than the delays of two paths can differ, a flow that changes its path
//! between flowlets is not reordered. The paper's δ is 100 ms; [`crate::delay`] derives one from what the cluster does.

/// The paper's δ, in nanoseconds.
pub const PAPER_GAP: u64 = 100_000_000;

/// Ticks are 1,024 ns, so that an entry is 8 bytes. They come round after 73 minutes; a flow that was silent just as long
/// stays on its old path, which does no harm.
const TICK: u32 = 10;

/// The paths of flowlets, by a hash of the flow. Flows whose hashes agree in the low bits share an entry, that is, they
/// are one flow: never a cause of reordering, and rare in a table with more entries than there are flows in δ.
#[derive(Debug, Clone)]
pub struct FlowletTable {
    entries: Box<[Entry]>,
    gap: u32,
}

/// What is known of a flowlet.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    last: u32,
    path: u16,
}

/// No path.
const NONE: u16 = u16::MAX;
/// The direct path, wherever to: flows that share an entry need not have one output node.
pub const DIRECT: u16 = u16::MAX - 1;

impl FlowletTable {
    /// A table of `entries` entries, rounded up to a power of two (at most 2²⁴), for flowlets with gaps of `gap`
    /// nanoseconds.
    pub fn new(entries: usize, gap: u64) -> FlowletTable {
        let entries = entries.clamp(1, 1 << 24).next_power_of_two();
        let mut table = FlowletTable { entries: vec![Entry { last: 0, path: NONE }; entries].into(), gap: 0 };
        table.set_gap(gap);
        table
    }

    /// Changes δ, in nanoseconds.
    pub fn set_gap(&mut self, gap: u64) {
        self.gap = u32::try_from(gap >> TICK).unwrap_or(u32::MAX).max(1);
    }

    /// The path of the flowlet that a packet of this flow at `now` belongs to; `None` if it begins one. Notes that there
    /// was a packet.
    #[inline]
    pub fn path(&mut self, flow: u32, now: u64) -> Option<u16> {
        let now = (now >> TICK) as u32;
        let gap = self.gap;
        let entry = self.entry(flow);
        let age = now.wrapping_sub(entry.last);
        entry.last = now;
        (entry.path != NONE && age < gap).then_some(entry.path)
    }

    /// From now on the flowlet goes this path, a number below 65,534 or [`DIRECT`].
    #[inline]
    pub fn set_path(&mut self, flow: u32, path: u16) {
        self.entry(flow).path = path;
    }

    /// Where what is known of a flow is: to have it near by when it is asked for.
    #[inline]
    pub fn at(&self, flow: u32) -> Option<&Entry> {
        self.entries.get(flow as usize & (self.entries.len() - 1))
    }

    #[inline]
    fn entry(&mut self, flow: u32) -> &mut Entry {
        let last = self.entries.len() - 1;
        &mut self.entries[flow as usize & last]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_gap_ends_a_flowlet() {
        let mut table = FlowletTable::new(100, PAPER_GAP);
        assert_eq!(table.path(7, 0), None);
        table.set_path(7, 3);
        assert_eq!(table.path(7, 99 * MS), Some(3));
        assert_eq!(table.path(7, 198 * MS), Some(3), "each packet prolongs it");
        assert_eq!(table.path(7 + 128, 199 * MS), Some(3), "one entry, one flow");
        assert_eq!(table.path(7, 300 * MS), None);
        assert_eq!(table.path(7, 301 * MS), Some(3), "nobody said otherwise");
        table.set_gap(MS);
        assert_eq!(table.path(7, 303 * MS), None);
    }

    proptest! {
        #[test]
        fn as_a_map_of_flows(packets in prop::collection::vec((0u32..64, 0u64..40, 0u16..4), 1..500)) {
            let mut table = FlowletTable::new(64, PAPER_GAP);
            let mut naive: HashMap<u32, (u64, u16)> = HashMap::new();
            // A tick that divides everything, so that rounding does not show.
            let mut now = 0;
            for (flow, gap, path) in packets {
                now += gap << TICK << 10;
                let expected = naive.get(&flow)
                    .filter(|(last, _)| (now - last) >> TICK < PAPER_GAP >> TICK)
                    .map(|&(_, path)| path);
                prop_assert_eq!(table.path(flow, now), expected);
                let path = expected.unwrap_or(path);
                table.set_path(flow, path);
                naive.insert(flow, (now, path));
            }
        }
    }
}
