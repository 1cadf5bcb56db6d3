//! The direct array and the nodes: looking up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epoch::{LargeSlice, Padded, Ticket, prefetch, ticket};

use super::node::{Cell, Entry, MAX_NODES, NUMBER_BITS, Node, STAGE};
use crate::lookup::MemoryPart;
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::simd::search::Simd;

/// Lookups under way at once.
const LANES: usize = 64;

/// The tree with room for a fixed number of nodes.
pub(crate) struct Tree<A> {
    simd: Option<Simd>,
    pub slots: Slots<A>,
    pub direct: LargeSlice<Cell>,
    pub nodes: LargeSlice<Node>,
    /// Only the one writer locks this; readers must keep the line with the fields above.
    free: Padded<Mutex<FreeNodes>>,
}

/// Which nodes are in use.
#[derive(Default)]
pub(crate) struct FreeNodes {
    /// Nodes from this one on have never been used.
    fresh: usize,
    /// Nodes that no reader can look at.
    ready: Vec<u32>,
    /// Nodes out of use, in the order of their tickets.
    waiting: VecDeque<(Ticket, u32)>,
    /// Nodes taken out of use by the update that is being made.
    pub retired: Vec<u32>,
}

/// There is no node left.
#[derive(Debug)]
pub(crate) struct Full;

/// How the direct array is divided: into slots of `fine` bits within a window, where nearly all routes are, and of
/// `coarse` bits elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Slots<A> {
    window: Prefix<A>,
    /// The window in the first 64 bits of an address.
    mask: u64,
    top: u64,
    fine: u32,
    coarse: u32,
}

impl<A: Address> Slots<A> {
    /// Slots of `fine` bits within `window`, which is shorter, and of `coarse` bits elsewhere, neither of them of more
    /// than [`STAGE`] bits.
    pub fn new(window: Prefix<A>, fine: u32, coarse: u32) -> Slots<A> {
        // The bits in which the first and the last address agree.
        let mask = (window.first() ^ !window.last()).top_bits();
        Slots { window, mask, top: window.first().top_bits(), fine, coarse }
    }

    pub fn count(&self) -> usize {
        self.in_window() + (1 << self.coarse)
    }

    #[inline]
    fn in_window(&self) -> usize {
        1 << (self.fine - u32::from(self.window.len()))
    }

    /// The slot of an address, and how many bits of it the slot decides.
    #[inline]
    pub fn of(&self, addr: A) -> (usize, u32) {
        let top = addr.top_bits();
        let within = ((top >> (64 - self.fine)) as usize & (self.in_window() - 1), self.fine);
        let elsewhere = (self.in_window() + (top >> 1 >> (63 - self.coarse)) as usize, self.coarse);
        if (top ^ self.top) & self.mask == 0 { within } else { elsewhere }
    }

    /// How many bits of an address a slot decides.
    #[inline]
    pub fn bits(&self, slot: usize) -> u32 {
        if slot < self.in_window() { self.fine } else { self.coarse }
    }

    /// The last address up to which slots are alike.
    pub fn alike(&self, addr: A) -> A {
        if self.window.contains(addr) {
            self.window.last()
        } else if addr < self.window.first() {
            self.window.first().previous()
        } else {
            !A::default()
        }
    }
}

/// A lookup that has come to a node: the bits of the address that the node's keys hold, which lookup of the batch it
/// is, and the number of the node, from the top.
#[derive(Clone, Copy, Default)]
struct Lane(u64);

const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

impl Lane {
    #[inline(always)]
    fn new(index: usize, key: u32, entry: Entry) -> Lane {
        Lane(u64::from(key) << 32 | (index as u64) << NUMBER_BITS | u64::from(entry.number()))
    }

    /// The same lookup, one node further.
    #[inline(always)]
    fn at(self, entry: Entry) -> Lane {
        Lane(self.0 & !NUMBER | u64::from(entry.number()))
    }

    #[inline(always)]
    fn key(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 >> NUMBER_BITS) as usize % LANES
    }

    #[inline(always)]
    fn node(self) -> usize {
        (self.0 & NUMBER) as usize
    }
}

/// The bits of `addr` that keys hold which begin at bit `offset`.
#[inline]
pub(crate) fn key<A: Address>(addr: A, offset: u32) -> u32 {
    addr.bits(offset, STAGE) as u32
}

impl<A: Address> Tree<A> {
    /// Without routes, with room for `nodes` nodes.
    pub fn new(slots: Slots<A>, nodes: usize) -> Tree<A> {
        let tree = Tree {
            simd: Simd::detect(),
            slots,
            direct: LargeSlice::new(slots.count()),
            nodes: LargeSlice::new(nodes.min(MAX_NODES)),
            free: Padded::default(),
        };
        tree.direct.iter().for_each(|cell| cell.store(Entry::leaf(0)));
        tree
    }

    #[inline]
    pub fn lookup(&self, addr: A) -> u32 {
        let (slot, mut offset) = self.slots.of(addr);
        let mut entry = self.direct[slot].load();
        while !entry.is_leaf() {
            offset += if entry.is_deeper() { STAGE } else { 0 };
            let node = &self.nodes[entry.number() as usize];
            entry = node.entry(node.rank(key(addr, offset))).load();
        }
        entry.hop()
    }

    pub fn lookup_batch(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        match self.simd {
            Some(simd) => simd.lookup_batch(self, addrs, hops),
            None => self.lookup_batch_scalar(addrs, hops),
        }
    }

    pub fn lookup_batch_scalar(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        self.lookup_batch_with(addrs, hops, Node::rank);
    }

    /// Looks up with `rank` to find the place of a value in a node.
    #[inline(always)]
    pub fn lookup_batch_with(
        &self,
        addrs: &[A],
        hops: &mut [Option<NextHopId>],
        rank: impl Fn(&Node, u32) -> usize,
    ) {
        for (addrs, hops) in addrs.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            self.lookup_lanes(addrs, hops, &rank);
        }
    }

    /// Up to [`LANES`] lookups, level by level: what a level needs is on its way while others are looked at.
    #[inline(always)]
    fn lookup_lanes(&self, addrs: &[A], hops: &mut [Option<NextHopId>], rank: &impl Fn(&Node, u32) -> usize) {
        let (direct, nodes) = (&*self.direct, &*self.nodes);
        let mut slots = [0; LANES];
        for (slot, &addr) in slots.iter_mut().zip(addrs) {
            let (index, _) = self.slots.of(addr);
            prefetch(direct, index);
            *slot = index as u32;
        }
        let mut entries = [Entry::leaf(0); LANES];
        let mut offsets = [0; LANES];
        // Those that have not come to a leaf.
        let mut lanes = [Lane::default(); LANES];
        let mut count = 0;
        for (i, (&slot, addr)) in slots.iter().zip(addrs).enumerate() {
            let entry = direct[slot as usize].load();
            let offset = self.slots.bits(slot as usize);
            let key = (addr.top_bits() << offset) >> STAGE;
            prefetch(nodes, entry.number() as usize);
            entries[i] = entry;
            offsets[i] = offset as u8;
            lanes[count % LANES] = Lane::new(i, key as u32, entry);
            count += entry.is_node();
        }
        while count > 0 {
            let mut left = 0;
            for k in 0..count.min(LANES) {
                let mut lane = lanes[k];
                let node = &nodes[lane.node()];
                let entry = node.entry(rank(node, lane.key())).load();
                prefetch(nodes, entry.number() as usize);
                let i = lane.index();
                entries[i] = entry;
                lane = lane.at(entry);
                if entry.is_deeper() {
                    offsets[i] += STAGE as u8;
                    lane = Lane::new(i, key(addrs[i], u32::from(offsets[i])), entry);
                }
                lanes[left % LANES] = lane;
                left += entry.is_node();
            }
            count = left;
        }
        for (hop, entry) in hops.iter_mut().zip(&entries) {
            *hop = NextHopId::from_bits(entry.hop());
        }
    }

    /// The writer's part.
    pub fn free_nodes(&self) -> MutexGuard<'_, FreeNodes> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores `new` in a cell that readers may look at, and takes the nodes below the old entry out of use.
    pub fn replace(&self, cell: &Cell, new: Entry, free: &mut FreeNodes) {
        let old = cell.load();
        if old != new {
            cell.store(new);
            self.retire(old, free);
        }
    }

    fn retire(&self, entry: Entry, free: &mut FreeNodes) {
        if !entry.is_leaf() {
            free.retired.push(entry.number());
            self.nodes[entry.number() as usize].entries().for_each(|below| self.retire(below, free));
        }
    }

    /// The number of ranges below an entry, counted up to about `limit`.
    pub fn count(&self, entry: Entry, limit: usize) -> usize {
        if entry.is_leaf() {
            return 1;
        }
        let mut count = 0;
        for below in self.nodes[entry.number() as usize].entries() {
            count += self.count(below, limit.saturating_sub(count));
            if count > limit {
                break;
            }
        }
        count
    }

    /// The levels of nodes below an entry.
    pub fn depth(&self, entry: Entry) -> u32 {
        if entry.is_leaf() {
            return 0;
        }
        let below = self.nodes[entry.number() as usize].entries().map(|below| self.depth(below));
        1 + below.max().unwrap_or(0)
    }

    pub fn memory(&self) -> Vec<MemoryPart> {
        vec![MemoryPart::of("direct", &self.direct), MemoryPart::of("nodes", &self.nodes)]
    }
}

impl FreeNodes {
    /// A node that no reader can look at.
    pub fn allocate(&mut self, capacity: usize) -> Result<u32, Full> {
        if let Some(node) = self.ready.pop() {
            return Ok(node);
        }
        let node = u32::try_from(self.fresh).ok().filter(|_| self.fresh < capacity).ok_or(Full)?;
        self.fresh += 1;
        Ok(node)
    }

    /// Takes back the nodes that readers have left. To be called before an update.
    pub fn recycle(&mut self) {
        let mut passed = None;
        while let Some(&(ticket, node)) = self.waiting.front()
            && (passed == Some(ticket) || ticket.passed())
        {
            passed = Some(ticket);
            self.ready.push(node);
            self.waiting.pop_front();
        }
    }

    /// Marks the end of an update: when the readers of now are gone, the nodes that it took out of use can be used
    /// again.
    pub fn settle(&mut self) {
        if !self.retired.is_empty() {
            let ticket = ticket();
            self.waiting.extend(self.retired.drain(..).map(|node| (ticket, node)));
        }
    }

    /// Nodes that are neither free nor wait for readers.
    pub fn reachable(&self) -> usize {
        self.fresh - self.ready.len() - self.waiting.len()
    }
}
