//! Poptrie: a multiway trie whose nodes find their children by counting bits.
//!
//! H. Asai, Y. Ohara, "Poptrie: a compressed trie with population count for fast and scalable software IP routing
//! table lookup", SIGCOMM 2015: the idea; the code is our own.
//!
//! ```text
//!  first 16 or 18 bits ── direct[...] ── hop
//!                               └─ node: 64 slots for the next 6 bits
//!                                    children: bit i set: slot i goes on in nodes[first_child + rank]
//!                                    leaves:   bit i set: a new hop begins at slot i, leaves[first_leaf + rank]
//! ```

mod build;

use epoch::{Reader, Table};

use crate::lookup::{Fib, FirstLevel, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// Bits that a node decides.
const STRIDE: u32 = 6;
/// Lookups under way at once.
const LANES: usize = 32;
/// Marks a direct entry that holds the bits of a next hop; others hold the number of a node.
const LEAF: u32 = 1 << 31;

/// Poptrie for either family.
///
/// An update builds a new trie (a twentieth of a second for a full IPv4 table) and publishes it whole: put many
/// changes into one update.
pub struct Poptrie<A> {
    direct_bits: u32,
    width: Table<Width<A>>,
}

enum Width<A> {
    /// Leaves of 2 bytes, while all next hops fit.
    Narrow(Trie<A, u16>),
    /// Leaves of 4 bytes.
    Wide(Trie<A, u32>),
}

impl<A: Address> Default for Poptrie<A> {
    fn default() -> Self {
        Poptrie::new()
    }
}

impl<A: Address> Poptrie<A> {
    /// A trie without routes, with as many bits of direct pointing as suit a full table: 18 for IPv4, 16 for IPv6.
    pub fn new() -> Poptrie<A> {
        Poptrie::with_direct_bits(match A::FAMILY {
            Family::Ipv4 => 18,
            Family::Ipv6 => 16,
        })
    }

    /// A trie without routes whose direct array has 2^`bits` entries; `bits` is limited to 6 to 24.
    pub fn with_direct_bits(bits: u32) -> Poptrie<A> {
        let direct_bits = bits.clamp(STRIDE, 24);
        Poptrie { direct_bits, width: Table::new(build::build(&Rib::new(), direct_bits)) }
    }

    /// The trie of these routes.
    pub fn build(rib: &Rib<A>) -> Poptrie<A> {
        let trie = Poptrie::new();
        trie.update(rib, &[Prefix::default()]);
        trie
    }
}

impl<A: Address> Fib<A> for Poptrie<A> {
    #[inline]
    fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHopId> {
        NextHopId::from_bits(match self.width.read(reader) {
            Width::Narrow(trie) => trie.lookup(addr),
            Width::Wide(trie) => trie.lookup(addr),
        })
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        match self.width.read(reader) {
            Width::Narrow(trie) => trie.lookup_batch(addrs, hops),
            Width::Wide(trie) => trie.lookup_batch(addrs, hops),
        }
    }

    fn first_level(&self, reader: &Reader) -> Option<FirstLevel> {
        match self.width.read(reader) {
            Width::Narrow(trie) => FirstLevel::of(&trie.direct, trie.direct_bits),
            Width::Wide(trie) => FirstLevel::of(&trie.direct, trie.direct_bits),
        }
    }

    fn update(&self, rib: &Rib<A>, _changed: &[Prefix<A>]) {
        self.width.replace(build::build(rib, self.direct_bits));
    }

    fn structure(&self) -> Option<Structure> {
        Some(Structure::Poptrie)
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.width.with(|width| match width {
            Width::Narrow(trie) => trie.memory(),
            Width::Wide(trie) => trie.memory(),
        })
    }
}

/// The bits of an `Option<NextHopId>`, in as few bytes as they need.
trait Leaf: Copy + Send + Sync {
    fn new(bits: u32) -> Option<Self>;
    fn bits(self) -> u32;
}

impl Leaf for u16 {
    fn new(bits: u32) -> Option<u16> {
        u16::try_from(bits).ok()
    }

    #[inline]
    fn bits(self) -> u32 {
        u32::from(self)
    }
}

impl Leaf for u32 {
    fn new(bits: u32) -> Option<u32> {
        Some(bits)
    }

    #[inline]
    fn bits(self) -> u32 {
        self
    }
}

#[derive(Clone, Copy, Default)]
struct Node {
    children: u64,
    leaves: u64,
    first_child: u32,
    first_leaf: u32,
}

struct Trie<A, L> {
    direct_bits: u32,
    direct: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<L>,
    family: std::marker::PhantomData<fn(A)>,
}

impl Node {
    /// The number of the child at `slot`, which is one.
    #[inline]
    fn child(&self, slot: u32) -> u32 {
        self.first_child + rank(self.children, slot) - 1
    }
}

/// A lookup that is on its way down.
#[derive(Clone, Copy)]
struct Lane<A> {
    /// Which one of the batch.
    index: usize,
    /// The node it has come to.
    node: u32,
    /// The bits of the address that are still to be looked at, from the top.
    rest: A,
}

/// The ones of `word` up to and including bit `slot`.
#[inline]
fn rank(word: u64, slot: u32) -> u32 {
    (word & (2u64 << slot).wrapping_sub(1)).count_ones()
}

impl<A: Address, L: Leaf> Trie<A, L> {
    #[inline]
    fn lookup(&self, addr: A) -> u32 {
        self.finish(self.direct[addr.bits(0, self.direct_bits)], addr)
    }

    fn lookup_batch(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        for (addrs, hops) in addrs.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            // Most IPv4 lookups end at the first node: keeping lanes costs more there than it gains.
            match A::FAMILY {
                Family::Ipv4 => self.lookup_each(addrs, hops),
                Family::Ipv6 => self.lookup_lanes(addrs, hops),
            }
        }
    }

    /// Up to [`LANES`] lookups: all direct entries, then one lookup after the other.
    fn lookup_each(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let mut entries = [0; LANES];
        for (entry, &addr) in entries.iter_mut().zip(addrs) {
            *entry = self.direct[addr.bits(0, self.direct_bits)];
        }
        for ((hop, &addr), &entry) in hops.iter_mut().zip(addrs).zip(&entries) {
            *hop = NextHopId::from_bits(self.finish(entry, addr));
        }
    }

    /// Up to [`LANES`] lookups, level by level, so that the processor has many loads under way at once.
    fn lookup_lanes(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let mut lanes = [Lane { index: 0, node: 0, rest: A::default() }; LANES];
        let mut count = 0;
        for (index, (hop, &addr)) in hops.iter_mut().zip(addrs).enumerate() {
            let entry = self.direct[addr.bits(0, self.direct_bits)];
            *hop = NextHopId::from_bits(entry & !LEAF);
            lanes[count] = Lane { index, node: entry, rest: addr << self.direct_bits };
            count += usize::from(entry & LEAF == 0);
        }
        while count > 0 {
            let mut left = 0;
            for i in 0..count {
                let Lane { index, node, rest } = lanes[i];
                let node = &self.nodes[node as usize];
                let slot = rest.bits(0, STRIDE) as u32;
                if node.children >> slot & 1 == 0 {
                    hops[index] = NextHopId::from_bits(self.leaf(node, slot));
                } else {
                    lanes[left] = Lane { index, node: node.child(slot), rest: rest << STRIDE };
                    left += 1;
                }
            }
            count = left;
        }
    }

    /// From the direct entry of `addr` to the bits of its next hop.
    #[inline]
    fn finish(&self, entry: u32, addr: A) -> u32 {
        if entry & LEAF != 0 {
            return entry & !LEAF;
        }
        let mut node = &self.nodes[entry as usize];
        let mut rest = addr << self.direct_bits;
        loop {
            let slot = rest.bits(0, STRIDE) as u32;
            if node.children >> slot & 1 == 0 {
                return self.leaf(node, slot);
            }
            node = &self.nodes[node.child(slot) as usize];
            rest = rest << STRIDE;
        }
    }

    /// The bits that the leaf at `slot` holds.
    #[inline]
    fn leaf(&self, node: &Node, slot: u32) -> u32 {
        // The first slot that is no child begins a leaf, so the rank is at least 1.
        self.leaves[(node.first_leaf + rank(node.leaves, slot) - 1) as usize].bits()
    }

    fn memory(&self) -> Vec<MemoryPart> {
        vec![
            MemoryPart::of("direct", &self.direct),
            MemoryPart::of("nodes", &self.nodes),
            MemoryPart::of("leaves", &self.leaves),
        ]
    }
}
