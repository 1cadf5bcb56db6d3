//! Trees of address ranges.
mod build;
mod change;
mod node;
mod ranges;
mod simd;
mod tree;

use epoch::{Reader, Table};

use self::build::Builder;
use self::node::MAX_NODES;
use self::tree::{Full, Slots, Tree};
use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};
use crate::rib::Rib;

/// With more changes than this at once, building a new tree is quicker than going to each.
const MANY_CHANGES: usize = 4096;
/// Room for nodes that an empty tree has.
const MIN_NODES: usize = 1024;

/// A tree of address ranges for either family, changed in place.
pub struct RangeTree<A> {
    tree: Table<Tree<A>>,
}

impl<A: Address> Default for RangeTree<A> {
    fn default() -> Self {
        RangeTree::new()
    }
}

impl<A: Address> RangeTree<A> {
    /// A tree without routes.
    pub fn new() -> RangeTree<A> {
        RangeTree::with_slots(match A::FAMILY {
            Family::Ipv4 => Slots::new(Prefix::default(), 18, 0),
            // 2000::/3 is all that is given out (RFC 4291).
            Family::Ipv6 => Slots::new(Prefix::truncated(A::ONE << (A::BITS - 3), 3), 24, 16),
        })
    }

    /// A tree without routes whose direct array has 2^`bits` entries; `bits` is limited to 6 to 24.
    pub fn with_direct_bits(bits: u32) -> RangeTree<A> {
        RangeTree::with_slots(Slots::new(Prefix::default(), bits.clamp(6, 24), 0))
    }

    fn with_slots(slots: Slots<A>) -> RangeTree<A> {
        RangeTree { tree: Table::new(Tree::new(slots, MIN_NODES)) }
    }

    /// x
    pub fn fine(b: u32) -> Self {
        RangeTree::with_slots(Slots::new(Prefix::truncated(A::ONE << (A::BITS - 3), 3), b, 16))
    }
    /// The tree of these routes.
    pub fn build(rib: &Rib<A>) -> RangeTree<A> {
        let tree = RangeTree::new();
        tree.update(rib, &[Prefix::default()]);
        tree
    }

    /// Makes a new tree with room for further changes.
    fn rebuild(&self, rib: &Rib<A>) {
        let (slots, used) = self.tree.with(|tree| (tree.slots, tree.free_nodes().in_use()));
        let mut room = MIN_NODES.max(used + used / 2).max(rib.len() / 2);
        loop {
            let tree = Tree::new(slots, room);
            let filled = Builder { tree: &tree, free: &mut tree.free_nodes() }.fill(rib, Prefix::default());
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

    fn memory(&self) -> Vec<MemoryPart> {
        self.tree.with(Tree::memory)
    }
}
