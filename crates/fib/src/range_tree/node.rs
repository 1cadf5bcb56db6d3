//! A node and what its entries say.

use std::sync::atomic::{AtomicU32, Ordering};

/// Ranges that a node tells apart.
pub(crate) const FAN: usize = 16;
/// Bits of an address that the keys of a node hold.
pub(crate) const STAGE: u32 = 32;

/// What is known about the addresses of a range: their next hop, or the node that divides them further.
///
/// In order: nodes, packed nodes ([`Entry::PACKED`] and on), both of those with further bits of the address
/// ([`Entry::DEEPER`] and on), leaves ([`Entry::LEAF`] and on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Entry(u32);

/// Set: the other bits are those of an `Option<NextHopId>`. Else they are the number of a node.
const LEAF: u32 = 1 << 31;
/// Set beside the number of a node whose keys hold the next [`STAGE`] bits of the address.
const DEEPER: u32 = 1 << 30;
/// Beside the number of a packed node, from this bit on: one more than what its keys leave out.
const PACKED: u32 = NUMBER_BITS;
/// Codes of packed nodes.
const PACKED_MASK: u32 = 0b11111 << PACKED;
/// Ranges that a packed node tells apart.
pub(crate) const PACKED_FAN: usize = 2 * FAN;
/// Keys of a packed node have so many bits.
pub(crate) const PACKED_BITS: u32 = 16;
/// Bits of the number of a node.
const NUMBER_BITS: u32 = 25;
/// Numbers of nodes are below this.
pub(crate) const MAX_NODES: usize = 1 << NUMBER_BITS;

impl Entry {
    /// The first in the order that names a packed node.
    pub const PACKED: Entry = Entry(1 << PACKED);
    /// The first that names a node with further bits of the address.
    pub const DEEPER: Entry = Entry(DEEPER);
    /// The first with a next hop.
    pub const LEAF: Entry = Entry(LEAF);

    /// A next hop; those whose number takes 32 bits count as none.
    pub const fn leaf(hop: u32) -> Entry {
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

    /// The same node, when the further bits are at hand.
    pub fn followed(self) -> Entry {
        Entry(self.0 & !DEEPER)
    }

    /// The bits of it.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    #[inline]
    pub fn is_deeper(self) -> bool {
        self.0.cast_signed() >= DEEPER.cast_signed()
    }

    /// A packed node, whose keys are without the last `shift` bits, at most [`PACKED_BITS`], of those of other nodes.
    pub fn packed(number: u32, shift: u32) -> Entry {
        debug_assert!(number < 1 << NUMBER_BITS && shift <= PACKED_BITS);
        Entry(number | (shift + 1) << PACKED)
    }

    /// True of what names a packed node.
    #[inline]
    pub fn is_packed(self) -> bool {
        !self.is_leaf() && self.0 & PACKED_MASK != 0
    }

    /// What the keys of the packed node hold of a value.
    #[inline]
    pub fn pack(self, value: u32) -> u16 {
        (value >> (((self.0 & PACKED_MASK) >> PACKED).wrapping_sub(1) % u32::BITS)) as u16
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
///
/// Or, packed, up to [`PACKED_FAN`] ranges with next hops: two keys, and two next hops, in the place of one, the lower
/// half first. Nothing of it changes while readers can reach it.
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

    /// Fills a node that no reader can reach with ranges, at least one, as a packed one: their last values and the bits
    /// of their next hops.
    pub fn fill_packed(&self, ranges: &[(u16, u16)]) {
        let Some((&(_, last), inner)) = ranges.split_last() else { return };
        let range = |i: usize| inner.get(i).copied().unwrap_or((u16::MAX, last));
        for (i, (key, cell)) in self.keys.iter().zip(&self.entries).enumerate() {
            let (even, odd) = (range(2 * i), range(2 * i + 1));
            key.store(u32::from(even.0) | u32::from(odd.0) << 16, Ordering::Relaxed);
            cell.0.store(u32::from(even.1) | u32::from(odd.1) << 16, Ordering::Relaxed);
        }
    }

    #[inline]
    fn packed_key(&self, rank: usize) -> u16 {
        (self.key(rank / 2) >> (16 * (rank % 2))) as u16
    }

    /// The bits of the next hop of the range of a packed node that has `value`.
    #[inline]
    pub fn packed_hop(&self, value: u16) -> u32 {
        let mut rank = 0;
        for step in [16, 8, 4, 2, 1] {
            rank += step * usize::from(self.packed_key(rank + step - 1) < value);
        }
        let hops = self.entry(rank / 2).0.load(Ordering::Relaxed);
        hops >> (16 * (rank % 2)) & u32::from(u16::MAX)
    }

    /// How many ranges a packed node has.
    pub fn packed_len(&self) -> usize {
        let last = (0..PACKED_FAN).find(|&i| self.packed_key(i) == u16::MAX);
        last.map_or(PACKED_FAN, |last| last + 1)
    }

    #[inline]
    pub fn cells(&self) -> &[Cell; FAN] {
        &self.entries
    }

    /// The entries of its ranges.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let len = (1..FAN).find(|&i| self.key(i) == self.key(i - 1)).unwrap_or(FAN);
        self.entries[..len].iter().map(Cell::load)
    }
}
