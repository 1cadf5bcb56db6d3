//! The two levels as readers see them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use epoch::on_large_pages;

use crate::lookup::MemoryPart;
use crate::next_hop::NextHopId;

/// Blocks (/24s) that one node stands for: as many as a node has bits.
pub(super) const SLOTS: usize = 32;
/// Nodes: one for each /19.
pub(super) const NODES: usize = (1 << 24) / SLOTS;
/// Groups are allocated in chunks, which never move: readers need no notice of growth.
pub(super) const CHUNK: u32 = 1 << 8;

/// A leaf: the bits of an `Option<NextHopId>`, or [`GROUP`](Leaf::GROUP) and the number of a group.
pub(super) trait Leaf: Default + Send + Sync {
    const GROUP: u32;
    /// Numbers of groups are below this.
    const GROUPS: u32;
    fn load(&self) -> u32;
    /// A release store: a reader that sees the leaf and then fences sees what was written before.
    fn store(&self, bits: u32);
}

impl Leaf for AtomicU16 {
    const GROUP: u32 = 1 << 15;
    const GROUPS: u32 = 1 << 15;

    #[inline]
    fn load(&self) -> u32 {
        u32::from(self.load(Ordering::Relaxed))
    }

    #[inline]
    fn store(&self, bits: u32) {
        debug_assert!(bits <= u32::from(u16::MAX));
        self.store(bits as u16, Ordering::Release);
    }
}

impl Leaf for AtomicU32 {
    const GROUP: u32 = 1 << 31;
    /// Twice the number of /24s: as many may wait to be used again as are in use.
    const GROUPS: u32 = 1 << 25;

    #[inline]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, bits: u32) {
        self.store(bits, Ordering::Release);
    }
}

/// What a node holds, in one word that changes at once.
///
/// The 32 blocks of a /19 are cut into runs of neighbours with the same leaf. Bit `i` of the low half is set when a run
/// begins at block `i` (never for block 0, where the first one begins); the high half says where in the array of
/// leaves the first run's is. The others follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node(pub u64);

impl Node {
    pub fn new(first_leaf: u32, starts: u32) -> Node {
        debug_assert!(starts & 1 == 0);
        Node(u64::from(first_leaf) << 32 | u64::from(starts))
    }

    #[inline]
    pub fn first_leaf(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline]
    pub fn starts(self) -> u32 {
        self.0 as u32
    }

    /// Number of runs.
    #[inline]
    pub fn runs(self) -> usize {
        self.starts().count_ones() as usize + 1
    }

    /// The place of the leaf of the block with these last five bits (others are not looked at).
    #[inline]
    pub fn leaf_of(self, block: u32) -> usize {
        // Bits up to the block's own, moved to the top: those of later blocks fall off.
        let starts = self.starts() << (!block & (SLOTS as u32 - 1));
        self.first_leaf() + starts.count_ones() as usize
    }
}

/// The next hops of one /24.
pub(super) type Group<L> = [L; 256];
/// Groups that are allocated together.
type Chunk<L> = Box<[Group<L>]>;

/// Nodes, leaves and groups. There is one writer at a time.
pub(super) struct Levels<L> {
    nodes: Box<[AtomicU64; NODES]>,
    leaves: Box<[L]>,
    chunks: Box<[OnceLock<Chunk<L>>]>,
}

impl<L: Leaf> Levels<L> {
    /// Room for so many leaves. All nodes have the first one, no route.
    pub fn new(leaves: usize) -> Levels<L> {
        #[expect(clippy::expect_used, reason = "the slice was made with this length")]
        let nodes = on_large_pages(NODES).try_into().ok().expect("one node for each /19");
        Levels {
            nodes,
            leaves: on_large_pages(leaves),
            chunks: (0..L::GROUPS / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Leaves that there is room for.
    pub fn capacity(&self) -> usize {
        self.leaves.len()
    }

    #[inline]
    pub fn lookup(&self, addr: u32) -> u32 {
        let bits = self.leaf(addr);
        if bits & L::GROUP == 0 { bits } else { self.lookup_group(bits, addr) }
    }

    pub fn lookup_batch(&self, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        // A first pass without branches, so that the processor has many loads under way at once.
        let mut seen = 0;
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            let bits = self.leaf(addr);
            seen |= bits;
            *hop = NextHopId::from_bits(bits);
        }
        if seen & L::GROUP == 0 {
            return;
        }
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            let bits = NextHopId::bits(*hop);
            if bits & L::GROUP != 0 {
                *hop = NextHopId::from_bits(self.lookup_group(bits, addr));
            }
        }
    }

    /// The leaf of the block that `addr` is in.
    #[inline]
    fn leaf(&self, addr: u32) -> u32 {
        // The node was stored after its leaves.
        let node = Node(self.nodes[(addr >> 13) as usize].load(Ordering::Acquire));
        self.leaves[node.leaf_of(addr >> 8)].load()
    }

    /// The bits that the group named by `leaf` has for `addr`.
    #[inline(never)]
    fn lookup_group(&self, leaf: u32, addr: u32) -> u32 {
        // The leaf was stored after the group was filled.
        fence(Ordering::Acquire);
        self.group(leaf & !L::GROUP).map_or(0, |group| group[(addr & 255) as usize].load())
    }

    #[inline]
    fn group(&self, number: u32) -> Option<&Group<L>> {
        self.chunks.get((number / CHUNK) as usize)?.get()?.get((number % CHUNK) as usize)
    }

    /// For the writer: the node of a /19.
    #[inline]
    pub fn node(&self, index: usize) -> Node {
        Node(self.nodes[index].load(Ordering::Relaxed))
    }

    /// For the writer: its leaves must have been written.
    #[inline]
    pub fn set_node(&self, index: usize, node: Node) {
        self.nodes[index].store(node.0, Ordering::Release);
    }

    /// For the writer.
    #[inline]
    pub fn leaves(&self, first: usize, count: usize) -> &[L] {
        &self.leaves[first..first + count]
    }

    /// For the writer: a group, of no routes if it was never written.
    pub fn group_to_fill(&self, number: u32) -> &Group<L> {
        let chunk = self.chunks[(number / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| std::array::from_fn(|_| L::default())).collect());
        &chunk[(number % CHUNK) as usize]
    }

    pub fn memory(&self) -> Vec<MemoryPart> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&chunk[..]));
        let bytes = chunks.sum::<usize>() + size_of_val(&self.chunks[..]);
        vec![
            MemoryPart::of("nodes", &self.nodes[..]),
            MemoryPart::of("leaves", &self.leaves),
            MemoryPart { part: "groups", bytes },
        ]
    }
}
