//! A node and what its entries say.

use std::sync::atomic::{AtomicU32, Ordering};

/// Ranges that a node tells apart.
pub(super) const FAN: usize = 8;
/// Bits of an address that the keys of a node hold.
pub(super) const STAGE: u32 = 32;

/// Entries of an array that fit into the memory of a node.
pub(super) const CELLS: usize = 2 * FAN;
/// Bits that an array decides at most.
pub(super) const MAX_STRIDE: u32 = 16;

/// What is known about the addresses of a range: their next hop, or the node or array that divides them further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u32);

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All its addresses have this next hop: the bits of an `Option<NextHopId>`.
    Leaf(u32),
    /// The node with this number divides them. If `deeper`, its keys hold the bits after those of the node above it.
    Node { number: u32, deeper: bool },
    /// The array in the node with this number and those after it divides them by their next `stride` bits.
    Array { number: u32, stride: u32 },
}

/// Set: the other bits are those of a next hop.
const LEAF: u32 = 1 << 31;
/// Set in an entry of a deeper node or, with [`ARRAY`], of an array.
const DEEPER: u32 = 1 << 30;
const ARRAY: u32 = DEEPER | 1 << 29;
/// Where the stride of an array less one stands, above the number.
const STRIDE: u32 = 25;
/// Numbers of nodes are below this.
pub(super) const MAX_NODES: usize = 1 << STRIDE;

impl Entry {
    /// A next hop; those whose number takes 32 bits count as none.
    pub fn leaf(hop: u32) -> Entry {
        Entry(if hop < LEAF { LEAF | hop } else { LEAF })
    }

    pub fn node(number: u32) -> Entry {
        debug_assert!(number < 1 << STRIDE);
        Entry(number)
    }

    /// An array of 2^`stride` entries, 1 to [`MAX_STRIDE`].
    pub fn array(number: u32, stride: u32) -> Entry {
        debug_assert!(number < 1 << STRIDE && (1..=MAX_STRIDE).contains(&stride));
        Entry(ARRAY | (stride - 1) << STRIDE | number)
    }

    /// The same node, as one whose keys hold further bits than those of the node above it.
    pub fn deeper(self) -> Entry {
        Entry(self.0 | DEEPER)
    }

    pub fn kind(self) -> Kind {
        if self.is_leaf() {
            Kind::Leaf(self.hop())
        } else if self.is_array() == 1 {
            Kind::Array { number: self.number(), stride: self.stride() }
        } else {
            Kind::Node { number: self.number(), deeper: self.is_deeper() }
        }
    }

    #[inline]
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// 1 for an array, else 0.
    #[inline]
    pub fn is_array(self) -> usize {
        usize::from(self.0 & (LEAF | ARRAY) == ARRAY)
    }

    /// 1 for an entry that names a node, else 0.
    #[inline]
    pub fn is_node(self) -> usize {
        usize::from(self.0 & (LEAF | ARRAY) < ARRAY)
    }

    /// Of an entry that is no array's, true for a deeper node's.
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
        self.0 & ((1 << STRIDE) - 1)
    }

    /// The bits that an array decides; 1 to [`MAX_STRIDE`] for any entry.
    #[inline]
    pub fn stride(self) -> u32 {
        (self.0 >> STRIDE & (MAX_STRIDE - 1)) + 1
    }
}

/// An entry that one thread changes while others read it.
#[derive(Default)]
pub(super) struct Cell(AtomicU32);

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

/// Up to [`FAN`] neighbouring ranges, in one cache line: the last value of each, then the entry of each. Only the
/// entries change while readers can reach it. Or [`CELLS`] entries of an array.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Node {
    words: [Cell; CELLS],
}

impl Node {
    /// The place of the range that has `value`, which is not beyond its last range.
    #[inline(always)]
    pub fn rank(&self, value: u32) -> usize {
        let below = |i: usize| usize::from(self.key(i) < value);
        let mut rank = 4 * below(3);
        rank += 2 * below(rank + 1);
        rank + below(rank)
    }

    /// All its words; the keys are the first [`FAN`].
    #[inline]
    pub fn words(&self) -> &[Cell; CELLS] {
        &self.words
    }

    #[inline]
    pub fn entry(&self, rank: usize) -> &Cell {
        &self.words[FAN + rank % FAN]
    }

    #[inline]
    pub fn key(&self, rank: usize) -> u32 {
        self.words[rank % FAN].0.load(Ordering::Relaxed)
    }

    /// An entry of an array.
    #[inline]
    pub fn cell(&self, index: usize) -> &Cell {
        &self.words[index % CELLS]
    }

    /// Fills a node that no reader can reach with ranges, at least one: their last values and entries.
    pub fn fill(&self, ranges: &[(u32, Entry)]) {
        let mut filling = (u32::MAX, Entry::leaf(0));
        for i in 0..FAN {
            // The last range is repeated where there is none: no address gets there.
            filling = ranges.get(i).copied().unwrap_or(filling);
            self.words[i].0.store(filling.0, Ordering::Relaxed);
            self.words[FAN + i].0.store(filling.1.0, Ordering::Relaxed);
        }
    }

    /// The entries of its ranges.
    pub fn entries(&self) -> &[Cell] {
        let len = (1..FAN).find(|&i| self.key(i) == self.key(i - 1)).unwrap_or(FAN);
        &self.words[FAN..FAN + len]
    }
}
