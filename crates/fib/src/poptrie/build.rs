//! From routes to a trie.

use super::{LEAF, Leaf, Node, STRIDE, Trie, Width};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// The trie of these routes, with the narrowest leaves that hold its next hops.
pub(super) fn build<A: Address>(rib: &Rib<A>, direct_bits: u32) -> Width<A> {
    if let Some(trie) = Builder::<A, u16>::build(rib, direct_bits) {
        return Width::Narrow(trie);
    }
    let empty = || Trie {
        direct_bits,
        direct: vec![LEAF; 1 << direct_bits],
        nodes: Vec::new(),
        leaves: Vec::new(),
        family: std::marker::PhantomData,
    };
    Width::Wide(Builder::<A, u32>::build(rib, direct_bits).unwrap_or_else(empty))
}

/// What lies behind one value of the next bits of an address.
struct Slot<'r, A> {
    /// The bits of the next hop that addresses here have unless a route below says otherwise.
    hop: u32,
    /// The routes below, in their order; each is longer than the bits that lead here.
    below: &'r [(Prefix<A>, NextHopId)],
}

impl<A> Clone for Slot<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Slot<'_, A> {}

impl<'r, A: Address> Slot<'r, A> {
    /// Divides what lies behind this slot by the bits from `depth` to `end` of the address.
    fn divide(self, depth: u32, end: u32, slots: &mut [Slot<'r, A>]) {
        slots.fill(Slot { hop: self.hop, below: &[] });
        let mut routes = self.below;
        // Shorter prefixes come before the longer ones that they cover.
        while let Some((&(prefix, hop), others)) = routes.split_first() {
            let len = u32::from(prefix.len());
            let first = prefix.first().bits(depth, end - depth);
            if len <= end {
                let hop = NextHopId::bits(Some(hop));
                slots[first..first + (1 << (end - len))].fill(Slot { hop, below: &[] });
                routes = others;
            } else {
                let count = routes.partition_point(|(at, _)| at.first().bits(depth, end - depth) == first);
                (slots[first].below, routes) = routes.split_at(count);
            }
        }
    }
}

struct Builder<A, L> {
    trie: Trie<A, L>,
}

impl<A: Address, L: Leaf> Builder<A, L> {
    /// `None` when a next hop does not fit into `L` or into a direct entry.
    fn build(rib: &Rib<A>, direct_bits: u32) -> Option<Trie<A, L>> {
        let nothing = Slot { hop: NextHopId::bits(None), below: &[] };
        let mut slots = vec![nothing; 1 << direct_bits];
        let mut routes = Vec::with_capacity(rib.len());
        routes.extend(rib);
        Slot { below: &routes[..], ..nothing }.divide(0, direct_bits, &mut slots);
        let mut builder = Builder {
            trie: Trie {
                direct_bits,
                direct: Vec::with_capacity(slots.len()),
                nodes: Vec::new(),
                leaves: Vec::new(),
                family: std::marker::PhantomData,
            },
        };
        for slot in slots {
            let entry = builder.direct_entry(slot)?;
            builder.trie.direct.push(entry);
        }
        builder.trie.nodes.shrink_to_fit();
        builder.trie.leaves.shrink_to_fit();
        Some(builder.trie)
    }

    fn direct_entry(&mut self, slot: Slot<'_, A>) -> Option<u32> {
        if slot.below.is_empty() {
            return (slot.hop < LEAF).then_some(LEAF | slot.hop);
        }
        let at = self.trie.nodes.len();
        self.trie.nodes.push(Node::default());
        self.fill(at, slot, self.trie.direct_bits)?;
        u32::try_from(at).ok().filter(|at| at & LEAF == 0)
    }

    /// Makes node `at` decide the bits from `depth` on of what lies behind `slot`.
    fn fill(&mut self, at: usize, slot: Slot<'_, A>, depth: u32) -> Option<()> {
        let mut slots = [Slot { hop: 0, below: &[] }; 1 << STRIDE];
        slot.divide(depth, depth + STRIDE, &mut slots);
        let first_child = self.trie.nodes.len();
        let mut node = Node {
            first_child: u32::try_from(first_child).ok()?,
            first_leaf: u32::try_from(self.trie.leaves.len()).ok()?,
            ..Node::default()
        };
        // Slots that are children have no leaf, so a run of equal leaves goes on across them.
        let mut run = None;
        for (i, slot) in slots.iter().enumerate() {
            if !slot.below.is_empty() {
                node.children |= 1 << i;
                self.trie.nodes.push(Node::default());
            } else if run != Some(slot.hop) {
                node.leaves |= 1 << i;
                self.trie.leaves.push(L::new(slot.hop)?);
                run = Some(slot.hop);
            }
        }
        self.trie.nodes[at] = node;
        let children = slots.into_iter().filter(|slot| !slot.below.is_empty());
        for (i, slot) in children.enumerate() {
            self.fill(first_child + i, slot, depth + STRIDE)?;
        }
        Some(())
    }
}
