//! Keeping bursts of a flow on one path.
//!
//! Packets of a flow that follow each other within δ belong to one flowlet, and go the same way as long as they fit there
//! (RouteBricks, SOSP 2009, §6.1). If δ is longer than the delays of two paths can differ, a flow that changes its path
//! between flowlets is not reordered. The paper's δ is 100 ms; [`crate::delay`] derives one from what the cluster does.

/// The paper's δ, in nanoseconds.
pub const PAPER_GAP: u64 = 100_000_000;

/// Ticks are 2¹⁶ ns, so that an entry is 4 bytes. They come round after 34 s; a flow that was silent just as long stays on its
/// old path, which does no harm.
const TICK: u32 = 16;
/// Bits of an entry that say the path; the others are ticks.
const PATH_BITS: u32 = 13;
/// No path.
pub const NONE: u16 = (1 << PATH_BITS) - 1;

/// The direct path, wherever to: flows that share an entry need not have one output node. The path by link `l` is `l + 1`.
pub const DIRECT: u16 = 0;

/// The paths of flowlets, by a hash of the flow. Flows whose hashes agree in the low bits share an entry, that is, they
/// are one flow: never a cause of reordering, and rare in a table with more entries than there are flows in δ.
#[derive(Debug, Clone)]
pub struct FlowletTable {
    /// As many as a power of two.
    entries: Box<[Entry]>,
    /// In ticks.
    gap: u32,
}

/// What is known of a flowlet: when it had its last packet, in ticks, and its path.
#[derive(Debug, Clone, Copy)]
pub struct Entry(u32);

impl FlowletTable {
    /// A table of `entries` entries, rounded up to a power of two (at most 2²⁴), for flowlets with gaps of `gap`
    /// nanoseconds.
    pub fn new(entries: usize, gap: u64) -> FlowletTable {
        let entries = entries.clamp(1, 1 << 24).next_power_of_two();
        let mut table = FlowletTable { entries: vec![Entry::new(0, NONE.into()); entries].into(), gap: 0 };
        table.set_gap(gap);
        table
    }

    /// Changes δ, in nanoseconds: a multiple of 65,536 ns, from one of them to 34 s.
    pub fn set_gap(&mut self, gap: u64) {
        self.gap = (gap >> TICK).clamp(1, (1 << (u32::BITS - PATH_BITS)) - 1) as u32;
    }

    /// The path of the flowlet that a packet of this flow at `now` belongs to; `None` if it begins one. Notes that there
    /// was a packet.
    #[inline]
    pub fn path(&mut self, flow: u32, now: u64) -> Option<u16> {
        let (now, gap) = ((now >> TICK) as u32, self.gap);
        let entry = self.entry(flow);
        let path = entry.0 as u16 & NONE;
        let is_known = path != NONE && entry.is_within(now, gap);
        *entry = Entry::new(now, entry.0);
        is_known.then_some(path)
    }

    /// [`FlowletTable::path`] for the packets of a batch, which are there at `now`: [`NONE`] where it says `None`, and then it is
    /// to be asked again when the packet's turn has come.
    #[inline(never)]
    pub fn paths(&mut self, flows: &[u32], now: u64, paths: &mut [u16]) {
        let (now, gap, last) = ((now >> TICK) as u32, self.gap, self.entries.len() - 1);
        for (flow, path) in flows.iter().zip(paths) {
            let entry = self.entries.get_mut(*flow as usize & last);
            *path = match entry.filter(|entry| entry.is_within(now, gap)) {
                Some(entry) => {
                    *entry = Entry::new(now, entry.0);
                    entry.0 as u16 & NONE
                }
                None => NONE,
            };
        }
    }

    /// A packet of this flow goes another way than others before: those behind it in its batch follow.
    #[cold]
    pub fn follow(&self, flow: u32, flows: &[u32], paths: &mut [u16]) {
        let last = self.entries.len() as u32 - 1;
        let new = self.at(flow).map_or(NONE, |entry| entry.0 as u16 & NONE);
        for (other, path) in flows.iter().zip(paths) {
            *path = if (other ^ flow) & last == 0 { new } else { *path };
        }
    }

    /// From now on the flowlet goes this path, a number below 8,191.
    #[inline]
    pub fn set_path(&mut self, flow: u32, path: u16) {
        let entry = self.entry(flow);
        *entry = Entry::new(entry.0 >> PATH_BITS, path.min(NONE).into());
    }

    /// From now on every flow has a flowlet on this path, as if it had just had a packet at `now`.
    pub fn put_all_on(&mut self, path: u16, now: u64) {
        self.entries.fill(Entry::new((now >> TICK) as u32, path.min(NONE).into()));
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

impl Entry {
    /// With this time in ticks, and the path in the low bits of `path`.
    #[inline(always)]
    fn new(now: u32, path: u32) -> Entry {
        Entry(now << PATH_BITS | path & u32::from(NONE))
    }

    /// Whether a packet at this time belongs to the same flowlet as the last one.
    #[inline(always)]
    fn is_within(self, now: u32, gap: u32) -> bool {
        // Full of ones below the ticks, so that nothing is borrowed from these; and they may come round.
        Entry::new(now, NONE.into()).0.wrapping_sub(self.0) < gap << PATH_BITS
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
        fn as_a_map_of_flows(packets in prop::collection::vec((0u32..16, 0u64..40, 0u16..4), 1..500)) {
            let mut table = FlowletTable::new(64, PAPER_GAP);
            let mut naive: HashMap<u32, (u64, u16)> = HashMap::new();
            // Ticks divide everything, so that rounding does not show, and do not come round.
            let mut now = 0;
            for (flow, gap, path) in packets {
                now += gap << TICK << 4;
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
