//! Following one changed prefix: which part of the tree is made anew.

use super::build::{Builder, Place, host_mask};
use super::node::{FAN, STAGE};
use super::tree::{Full, key};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// A part with up to this many ranges is made anew as a whole: small enough to take microseconds, large enough to
/// keep nodes full.
const PART: usize = 32;

impl<'t, A: Address> Builder<'t, A> {
    /// Follows a change of the routes of `prefix`.
    pub fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        let (_, bits) = self.tree.slots.of(prefix.first());
        if u32::from(prefix.len()) <= bits {
            return self.fill(rib, prefix);
        }
        let path = self.path(prefix);
        let small = path.iter().rposition(|place| self.tree.count(place.cell.load(), PART) > PART);
        let mut at = path.len().min(small.map_or(0, |large| large + 1));
        // A wide prefix may have no small place.
        at = at.min(path.len() - 1);
        let before = self.tree.depth(path[at].cell.load());
        let entry = self.derive(rib, path[at].first, path[at].last, path[at].offset)?;
        let depth = self.tree.depth(entry);
        self.tree.replace(path[at].cell, entry, self.free);
        if depth > before {
            self.balance(rib, &path[..at], depth)?;
        }
        Ok(())
    }

    /// Places from a direct entry down to the last one through which all addresses of `prefix` go and whose entry can
    /// change.
    fn path(&self, prefix: Prefix<A>) -> Vec<Place<'t, A>> {
        let (slot, bits) = self.tree.slots.of(prefix.first());
        let inner = host_mask::<A>(bits);
        let (first, last) = (prefix.first(), prefix.last());
        let mut place =
            Place { cell: &self.tree.direct[slot], first: first & !inner, last: first | inner, offset: bits };
        let mut path = vec![place];
        loop {
            let entry = place.cell.load();
            if entry.is_leaf() || entry.is_packed() {
                return path;
            }
            let offset = place.offset + if entry.is_deeper() { STAGE } else { 0 };
            let node = &self.tree.nodes[entry.number() as usize];
            let rank = node.rank(key(first, offset));
            if rank != node.rank(key(last, offset)) {
                return path;
            }
            let inner = host_mask::<A>(offset + STAGE);
            // The addresses whose keys have this value, of which the place has the last.
            let value = |key: u32| {
                let shift = A::BITS.saturating_sub(offset + STAGE);
                let cut = (offset + STAGE).saturating_sub(A::BITS);
                let own = A::from_low_bits(u128::from(key >> cut)) << shift;
                (place.first & !host_mask::<A>(offset)) | own | inner
            };
            let last = if node.key(rank) == node.key(FAN - 1) { place.last } else { value(node.key(rank)) };
            let first = if rank == 0 { place.first } else { value(node.key(rank - 1)).next() };
            place = Place { cell: node.entry(rank), first, last, offset };
            path.push(place);
        }
    }

    /// After a place below the last of `path` has grown to `depth` levels: makes the lowest place anew that is much
    /// deeper than it need be.
    fn balance(&mut self, rib: &Rib<A>, path: &[Place<'t, A>], depth: u32) -> Result<(), Full> {
        let mut depth = depth;
        for place in path.iter().rev() {
            depth += 1;
            // So many ranges need a level less, at best two.
            let few = depth.checked_sub(2).map_or(0, |levels| FAN.saturating_pow(levels));
            if self.tree.count(place.cell.load(), few) < few {
                let entry = self.derive(rib, place.first, place.last, place.offset)?;
                self.tree.replace(place.cell, entry, self.free);
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use epoch::Reader;
    use proptest::prelude::*;

    use super::super::node::Entry;
    use super::super::tree::{Slots, Tree};
    use super::*;
    use crate::next_hop::NextHopId;

    fn tree(nodes: usize) -> Tree<u128> {
        Tree::new(Slots::new(Prefix::default(), 8, 0), nodes)
    }

    fn change(tree: &Tree<u128>, rib: &Rib<u128>, prefix: Prefix<u128>) -> Result<(), Full> {
        let free = &mut *tree.free_nodes();
        free.recycle();
        let done = Builder { tree, free }.change(rib, prefix);
        free.settle();
        done
    }

    /// Nodes below an entry.
    fn nodes(tree: &Tree<u128>, entry: Entry) -> usize {
        if entry.is_leaf() {
            return 0;
        }
        1 + tree.below(entry).map(|below| nodes(tree, below)).sum::<usize>()
    }

    fn all_nodes(tree: &Tree<u128>) -> usize {
        tree.direct.iter().map(|cell| nodes(tree, cell.load())).sum()
    }

    /// Changes what may have to wait for room: readers of other tests keep nodes from being used again for a while.
    fn change_at_last(tree: &Tree<u128>, rib: &Rib<u128>, prefix: Prefix<u128>) {
        let begun = std::time::Instant::now();
        while change(tree, rib, prefix).is_err() {
            assert!(begun.elapsed().as_secs() < 60, "no room for {prefix}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn routes_that_come_in_order_make_no_deep_tree_and_leave_no_node_behind() {
        let tree = tree(4096);
        let mut rib = Rib::new();
        // 6,000 ranges below one direct entry: three levels at best.
        let prefixes: Vec<_> = (0..6000u128).map(|i| Prefix::truncated(0x20 << 120 | i << 81, 48)).collect();
        for (i, &prefix) in prefixes.iter().enumerate() {
            rib.insert(prefix, NextHopId::new(i as u32 % 7).unwrap());
            change_at_last(&tree, &rib, prefix);
        }
        let cell = &tree.direct[0x20];
        assert!((4..=5).contains(&tree.depth(cell.load())), "{}", tree.depth(cell.load()));
        // Neighbours with the same next hop may stay apart where one part of the tree ends and the next begins.
        assert!((12_000..12_100).contains(&tree.count(cell.load(), usize::MAX)));
        for i in (0..6000u32).step_by(11) {
            let addr = prefixes[i as usize].first();
            assert_eq!(tree.lookup(addr | 77), i % 7 + 1);
            assert_eq!(tree.lookup(addr.wrapping_sub(1)), 0);
        }
        for &prefix in &prefixes {
            rib.remove(prefix);
            change_at_last(&tree, &rib, prefix);
        }
        assert_eq!((all_nodes(&tree), tree.free_nodes().reachable()), (0, 0));
    }

    #[test]
    fn nodes_are_used_again_only_after_the_readers() {
        let tree = tree(4);
        let mut rib = Rib::new();
        let prefix: Prefix<u128> = "2001:db8::/32".parse().unwrap();
        let mut reader = Reader::new();
        for i in 0..4 {
            rib.insert(prefix, NextHopId::new(i).unwrap());
            assert!(change(&tree, &rib, prefix).is_ok());
        }
        rib.insert(prefix, NextHopId::new(4).unwrap());
        assert!(change(&tree, &rib, prefix).is_err());
        assert_eq!(tree.lookup(prefix.first()), 4);
        reader.quiescent();
        // Readers of other tests may be online for a while.
        while change(&tree, &rib, prefix).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(tree.lookup(prefix.first()), 5);
    }

    proptest! {
        /// Prefixes crowd below few values at every depth, so that keys are deeper, parts merge and parts are split.
        #[test]
        fn each_change_is_followed_and_no_node_is_lost(
            steps in prop::collection::vec((0..4096u128, 0..6u32, 0..=128u8, prop::option::weighted(0.7, 0..5u32)), 1..300),
        ) {
            let tree = tree(1 << 14);
            let mut rib = Rib::new();
            for (bits, place, len, hop) in steps {
                let prefix = Prefix::truncated(0x2001_0DB8 << 96 | bits << (place * 22), len);
                match hop.and_then(NextHopId::new) {
                    Some(hop) => rib.insert(prefix, hop),
                    None => rib.remove(prefix),
                };
                prop_assert!(change(&tree, &rib, prefix).is_ok());
                for addr in [prefix.first(), prefix.last(), prefix.first().previous(), prefix.last().next()] {
                    prop_assert_eq!(NextHopId::from_bits(tree.lookup(addr)), rib.lookup_hop(addr));
                }
            }
            for (prefix, _) in &rib {
                for addr in [prefix.first(), prefix.last(), prefix.first().previous(), prefix.last().next()] {
                    prop_assert_eq!(NextHopId::from_bits(tree.lookup(addr)), rib.lookup_hop(addr));
                }
            }
            prop_assert_eq!(tree.free_nodes().reachable(), all_nodes(&tree));
        }
    }
}
