//! A search tree over ranges of addresses, for tables whose addresses are too long for arrays.
//!
//! Prefixes that nest are cut into ranges that do not, and a lookup finds the one range that has its address: a
//! search, like that in a B+-tree, among the last addresses of neighbouring ranges. The idea of such trees without
//! pointers, gone down by whole batches of lookups, is that of PlanB (NSDI 2026); the code is our own, and so is
//! the way in which it changes.
//!
//! ```text
//!  first 22 bits ── direct[...] ── hop
//!                       └─ node: the next 32 bits against the last values of up to 16 ranges
//!                                each range ── hop
//!                                       ├─ node: divides the range further, or (deeper) one value by the next 32 bits
//!                                       └─ packed node: divides it by 16 bits among up to 32 hops
//! ```
//!
//! # Change
//!
//! Nodes are numbered places in one array. A change makes the smallest part of the tree anew that holds the prefix
//! and is worth it (some 32 ranges), in nodes that nobody reads, and publishes it with one store, of the entry above
//! it; the nodes of the old part are used again when the readers have left them. So a lookup finds for each address
//! what was there before or is there after, and no change waits for a rebuild of the whole, which happens only when
//! the array is full or thousands of prefixes change at once.

pub(crate) mod build;
mod change;
pub(crate) mod node;
mod ranges;
pub(crate) mod tree;

use epoch::{Reader, Table};

use self::build::Builder;
use self::node::MAX_NODES;
use self::tree::{Full, Slots, Tree};
use crate::lookup::{Beginnings, Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// With more changes than this at once, building a new tree is quicker than going to each.
const MANY_CHANGES: usize = 4096;
/// Room for nodes that an empty tree has.
const MIN_NODES: usize = 1024;

/// A tree of address ranges for either family, changed in place.
///
/// A lookup takes one access and then one for each factor of 16 in the number of ranges that share its first 22 bits
/// (IPv6), the last of them often of 32. An update takes microseconds, and for a prefix that is shorter than those bits
/// or has very many routes below it time in proportion to these.
pub struct RangeTree<A> {
    tree: Table<Tree<A>>,
}

impl<A: Address> Default for RangeTree<A> {
    fn default() -> Self {
        RangeTree::new()
    }
}

impl<A: Address> RangeTree<A> {
    /// A tree without routes, with a direct array that suits a full table.
    pub fn new() -> RangeTree<A> {
        RangeTree::with_slots(match A::FAMILY {
            Family::Ipv4 => Slots::new(Prefix::default(), 18, 0),
            // 2000::/3 is all that is given out to global unicast (RFC 4291, section 2.4, and IANA).
            Family::Ipv6 => Slots::new(Prefix::truncated(A::ONE << (A::BITS - 3), 3), 22, 16),
        })
    }

    /// A tree without routes whose direct array has 2^`bits` entries; `bits` is limited to 6 to 24.
    pub fn with_direct_bits(bits: u32) -> RangeTree<A> {
        RangeTree::with_slots(Slots::new(Prefix::default(), bits.clamp(6, 24), 0))
    }

    fn with_slots(slots: Slots<A>) -> RangeTree<A> {
        RangeTree { tree: Table::new(Tree::new(slots, MIN_NODES)) }
    }

    /// The tree of these routes.
    pub fn build(rib: &Rib<A>) -> RangeTree<A> {
        let tree = RangeTree::new();
        tree.update(rib, &[Prefix::default()]);
        tree
    }

    /// Makes a new tree with room for further changes.
    fn rebuild(&self, rib: &Rib<A>) {
        let (slots, used) = self.tree.with(|tree| (tree.slots, tree.free_nodes().reachable()));
        // A full table takes one node for seven routes, at most.
        let mut room = MIN_NODES.max(used + used / 2).max(rib.len() / 4);
        loop {
            let tree = Tree::new(slots, room);
            let filled = Builder { tree: &tree, free: &mut tree.free_nodes() }.fill(rib, Prefix::default());
            // Memory would end before the numbers of nodes do.
            if filled.is_ok() || room >= MAX_NODES {
                self.tree.replace(tree);
                return;
            }
            room *= 2;
        }
    }
}

impl<A: Address> Fib<A> for RangeTree<A> {
    #[inline]
    fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHopId> {
        NextHopId::from_bits(self.tree.read(reader).lookup(addr))
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        self.tree.read(reader).lookup_batch(&addrs, hops);
    }

    fn lookup_beginnings(&self, reader: &Reader, addrs: &Beginnings<'_, A>, hops: &mut [Option<NextHopId>]) {
        self.tree.read(reader).lookup_batch(addrs, hops);
    }

    fn update(&self, rib: &Rib<A>, changed: &[Prefix<A>]) {
        if changed.len() > MANY_CHANGES || changed.iter().any(|prefix| prefix.len() == 0) {
            return self.rebuild(rib);
        }
        let followed = self.tree.with(|tree| {
            let free = &mut *tree.free_nodes();
            free.recycle();
            let mut builder = Builder { tree, free };
            let followed: Result<(), Full> =
                changed.iter().try_for_each(|&prefix| builder.change(rib, prefix));
            free.settle();
            followed
        });
        if followed.is_err() {
            self.rebuild(rib);
        }
    }

    fn structure(&self) -> Option<Structure> {
        Some(Structure::RangeTree)
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.tree.with(Tree::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_is_full_is_rebuilt_with_more_room() {
        let hop = |i: u128| NextHopId::new((i % 5) as u32);
        let tree = RangeTree::<u128>::with_direct_bits(8);
        let bytes = || tree.memory().iter().map(|part| part.bytes).sum::<usize>();
        let (mut rib, mut reader, empty) = (Rib::new(), Reader::new(), bytes());
        // In an order that jumps about; /52 and /100 by turns.
        let prefix = |i: u128| {
            let place = i * 7919 % 20_000;
            Prefix::truncated(0x2001 << 112 | place << 78, if place.is_multiple_of(2) { 52 } else { 100 })
        };
        let grown = |count: std::ops::Range<u128>, rib: &mut Rib<u128>| {
            count
                .map(|i| {
                    rib.insert(prefix(i), hop(i).unwrap());
                    prefix(i)
                })
                .collect::<Vec<_>>()
        };
        for i in 0..12_000 {
            let changed = grown(i..i + 1, &mut rib);
            tree.update(&rib, &changed);
            reader.quiescent();
        }
        assert!(bytes() > empty);
        // More at once than are followed one by one.
        let changed = grown(12_000..20_000, &mut rib);
        tree.update(&rib, &changed);
        let addrs: Vec<_> = rib.iter().flat_map(|(p, _)| [p.first(), p.last(), p.last().next()]).collect();
        let mut found = vec![None; addrs.len()];
        tree.lookup_batch(&reader, &addrs, &mut found);
        let expected: Vec<_> = addrs.iter().map(|&addr| rib.lookup_hop(addr)).collect();
        assert_eq!((rib.len(), found == expected), (20_000, true));
    }
}
