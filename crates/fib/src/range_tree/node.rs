//! A node and what its entries say.

use std::sync::atomic::{AtomicU32, Ordering};

/// Ranges that a node tells apart.
pub(crate) const FAN: usize = 16;
/// Bits of an address that the keys of a node hold.
pub(crate) const STAGE: u32 = 32;

/// What is known about the addresses of a range: their next hop, or the node that divides them further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(u32);

/// Set: the other bits are those of an `Option<NextHopId>`. Else they are the number of a node.
const LEAF: u32 = 1 << 31;
/// Set beside the number of a node whose keys hold the next [`STAGE`] bits of the address.
pub(crate) const DEEPER: u32 = 1 << 30;
/// Bits of the number of a node.
const NUMBER_BITS: u32 = 25;
/// Numbers of nodes are below this.
pub(crate) const MAX_NODES: usize = 1 << NUMBER_BITS;

impl Entry {
    /// A next hop; those whose number takes 32 bits count as none.
    pub fn leaf(hop: u32) -> Entry {
        Entry(if hop < LEAF { LEAF | hop } else { LEAF })
    }

    pub fn node(number: u32) -> Entry {
        debug_assert!(number < 1 << NUMBER_BITS);
        Entry(number)
    }

    /// The same node, as one whose keys hold further bits than those of the node above it.
    pub fn deeper(self) -> Entry {
        Entry(self.0 | DEEPER)
    }

    #[inline]
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    #[inline]
    pub fn is_deeper(self) -> bool {
        self.0.cast_signed() >= DEEPER.cast_signed()
    }

    /// The bits of the next hop; only a leaf's have a meaning.
    #[inline]
    pub fn hop(self) -> u32 {
        self.0 & !LEAF
    }

    /// The number of the node; only without meaning for a leaf.
    #[inline]
    pub fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// An entry that one thread changes while others read it.
#[derive(Default)]
pub(crate) struct Cell(AtomicU32);

impl Cell {
    /// Acquires the node that the entry names.
    #[inline]
    pub fn load(&self) -> Entry {
        Entry(self.0.load(Ordering::Acquire))
    }

    /// Publishes the node that the entry names.
    pub fn store(&self, entry: Entry) {
        self.0.store(entry.0, Ordering::Release);
    }
}

/// Up to [`FAN`] neighbouring ranges, in two cache lines. Only its entries change while readers can reach it.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Node {
    /// The last value of each range.
    keys: [AtomicU32; FAN],
    entries: [Cell; FAN],
}

impl Node {
    /// The place of the range that has `value`, which is not beyond its last range.
    #[inline(always)]
    pub fn rank(&self, value: u32) -> usize {
        let below = |i: usize| usize::from(self.keys[i & (FAN - 1)].load(Ordering::Relaxed) < value);
        let mut rank = 8 * below(7);
        rank += 4 * below(rank + 3);
        rank += 2 * below(rank + 1);
        rank + below(rank)
    }

    #[inline]
    pub fn keys(&self) -> &[AtomicU32; FAN] {
        &self.keys
    }

    #[inline]
    pub fn entry(&self, rank: usize) -> &Cell {
        &self.entries[rank & (FAN - 1)]
    }

    pub fn key(&self, rank: usize) -> u32 {
        self.keys[rank & (FAN - 1)].load(Ordering::Relaxed)
    }

    /// Fills a node that no reader can reach with ranges, at least one: their last values and entries.
    pub fn fill(&self, ranges: &[(u32, Entry)]) {
        let mut filling = (u32::MAX, Entry::leaf(0));
        for (i, (key, cell)) in self.keys.iter().zip(&self.entries).enumerate() {
            // The last range is repeated where there is none: no address gets there.
            filling = ranges.get(i).copied().unwrap_or(filling);
            key.store(filling.0, Ordering::Relaxed);
            cell.0.store(filling.1.0, Ordering::Relaxed);
        }
    }

    /// The entries of its ranges.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let len = (1..FAN).find(|&i| self.key(i) == self.key(i - 1)).unwrap_or(FAN);
        self.entries[..len].iter().map(Cell::load)
    }
}
