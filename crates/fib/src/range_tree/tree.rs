//! The direct array and the nodes: looking up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epoch::{Ticket, on_large_pages, prefetch, ticket};

use super::node::{CELLS, Cell, Entry, Kind, MAX_NODES, MAX_STRIDE, Node, STAGE};
use super::simd::Avx2;
use crate::lookup::MemoryPart;
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};

/// Lookups under way at once.
const LANES: usize = 64;

/// The tree with room for a fixed number of nodes.
pub(super) struct Tree<A> {
    avx2: Option<Avx2>,
    pub slots: Slots<A>,
    pub direct: Box<[Cell]>,
    pub nodes: Box<[Node]>,
    /// Only the one writer locks this.
    free: Mutex<FreeNodes>,
}

/// Which nodes are in use.
#[derive(Default)]
pub(super) struct FreeNodes {
    /// Nodes from this one on have never been used.
    fresh: usize,
    /// Nodes that no reader can look at, alone and in groups of 2, 4, 8 and so on.
    ready: [Vec<u32>; (MAX_STRIDE - CELLS.ilog2() + 1) as usize],
    /// Entries whose nodes are out of use, in the order of their tickets.
    waiting: VecDeque<(Ticket, Entry)>,
    /// Entries whose nodes are taken out of use by the update that is being made.
    pub retired: Vec<Entry>,
}

/// There is no node left.
#[derive(Debug)]
pub(super) struct Full;

/// How the direct array is divided: into slots of `fine` bits within a window, where nearly all routes are, and of
/// `coarse` bits elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Slots<A> {
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

/// The bits of `addr` that keys hold which begin at bit `offset`.
#[inline]
pub(super) fn key<A: Address>(addr: A, offset: u32) -> u32 {
    addr.bits(offset, STAGE) as u32
}

impl<A: Address> Tree<A> {
    /// Without routes, with room for `nodes` nodes.
    pub fn new(slots: Slots<A>, nodes: usize) -> Tree<A> {
        let tree = Tree {
            avx2: Avx2::detect(),
            slots,
            direct: on_large_pages(slots.count()),
            nodes: on_large_pages(nodes.min(MAX_NODES)),
            free: Mutex::default(),
        };
        tree.direct.iter().for_each(|cell| cell.store(Entry::leaf(0)));
        tree
    }

    #[inline]
    pub fn lookup(&self, addr: A) -> u32 {
        let (slot, mut offset) = self.slots.of(addr);
        let mut entry = self.direct[slot].load();
        loop {
            entry = match entry.kind() {
                Kind::Leaf(hop) => return hop,
                Kind::Array { number, stride } => {
                    let index = addr.bits(offset, stride);
                    offset += stride;
                    self.cell(number, index).load()
                }
                Kind::Node { number, deeper } => {
                    offset += if deeper { STAGE } else { 0 };
                    let node = &self.nodes[number as usize];
                    node.entry(node.rank(key(addr, offset))).load()
                }
            };
        }
    }

    /// An entry of the array that begins at a node.
    #[inline]
    pub fn cell(&self, number: u32, index: usize) -> &Cell {
        self.nodes[number as usize + index / CELLS].cell(index)
    }

    pub fn lookup_batch(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        match self.avx2 {
            Some(avx2) => avx2.lookup_batch(self, addrs, hops),
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
        let mut lanes = Lanes::new();
        let mut open = Open { arrays: 0, nodes: 0 };
        for (i, (&slot, &addr)) in slots.iter().zip(addrs).enumerate() {
            let entry = direct[slot as usize].load();
            lanes.enter(&mut open, nodes, i, entry, self.slots.bits(slot as usize), addr);
        }
        while open.arrays > 0 {
            for k in 0..std::mem::take(&mut open.arrays).min(LANES) {
                let i = usize::from(lanes.at_array[k]);
                let (entry, index) = (lanes.entries[i % LANES], lanes.indices[i % LANES] as usize);
                let offset = u32::from(lanes.offsets[i % LANES]) + entry.stride();
                let entry = nodes[entry.number() as usize + index / CELLS].cell(index).load();
                lanes.enter(&mut open, nodes, i, entry, offset, addrs[i]);
            }
        }
        while open.nodes > 0 {
            for k in 0..std::mem::take(&mut open.nodes).min(LANES) {
                let i = usize::from(lanes.at_node[k]);
                let lane = i % LANES;
                let node = &nodes[lanes.entries[lane].number() as usize];
                let entry = node.entry(rank(node, lanes.keys[lane])).load();
                prefetch(nodes, entry.number() as usize);
                lanes.entries[lane] = entry;
                if entry.is_deeper() {
                    lanes.offsets[lane] += STAGE as u8;
                    lanes.keys[lane] = key(addrs[lane], u32::from(lanes.offsets[lane]));
                }
                // Below a node there is no array.
                lanes.at_node[open.nodes % LANES] = i as u8;
                open.nodes += usize::from(!entry.is_leaf());
            }
        }
        for (hop, entry) in hops.iter_mut().zip(&lanes.entries) {
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
            free.retired.push(entry);
            self.below(entry).for_each(|below| self.retire(below, free));
        }
    }

    /// The entries of the node or array that an entry names.
    fn below(&self, entry: Entry) -> impl Iterator<Item = Entry> {
        let (array, node): (&[Node], &[Cell]) = match entry.kind() {
            Kind::Leaf(_) => (&[], &[]),
            Kind::Node { number, .. } => (&[], self.nodes[number as usize].entries()),
            Kind::Array { number, stride } => (&self.nodes[number as usize..][..nodes_of(stride)], &[]),
        };
        let cells = 1 << if array.is_empty() { 0 } else { entry.stride() };
        array.iter().flat_map(Node::words).take(cells).chain(node).map(Cell::load)
    }

    /// The number of ranges below an entry, counted up to about `limit`.
    pub fn count(&self, entry: Entry, limit: usize) -> usize {
        if entry.is_leaf() {
            return 1;
        }
        let mut count = 0;
        for below in self.below(entry) {
            count += self.count(below, limit.saturating_sub(count));
            if count > limit {
                break;
            }
        }
        count
    }

    /// The levels of nodes and arrays below an entry.
    pub fn depth(&self, entry: Entry) -> u32 {
        if entry.is_leaf() {
            0
        } else {
            1 + self.below(entry).map(|below| self.depth(below)).max().unwrap_or(0)
        }
    }

    pub fn memory(&self) -> Vec<MemoryPart> {
        vec![MemoryPart::of("direct", &self.direct), MemoryPart::of("nodes", &self.nodes)]
    }
}

/// The nodes that an array takes.
fn nodes_of(stride: u32) -> usize {
    (1usize << stride).div_ceil(CELLS)
}

impl FreeNodes {
    /// A node that no reader can look at.
    pub fn allocate(&mut self, capacity: usize) -> Result<u32, Full> {
        self.allocate_array(1, capacity)
    }

    /// Neighbouring nodes for an array of 2^`stride` entries.
    pub fn allocate_array(&mut self, stride: u32, capacity: usize) -> Result<u32, Full> {
        let count = nodes_of(stride);
        if let Some(node) = self.ready[count.ilog2() as usize].pop() {
            return Ok(node);
        }
        let node = u32::try_from(self.fresh).ok().filter(|_| self.fresh + count <= capacity).ok_or(Full)?;
        self.fresh += count;
        Ok(node)
    }

    /// Takes back the nodes that readers have left. To be called before an update.
    pub fn recycle(&mut self) {
        let mut passed = None;
        while let Some(&(ticket, entry)) = self.waiting.front()
            && (passed == Some(ticket) || ticket.passed())
        {
            passed = Some(ticket);
            let count = match entry.kind() {
                Kind::Array { stride, .. } => nodes_of(stride),
                _ => 1,
            };
            self.ready[count.ilog2() as usize].push(entry.number());
            self.waiting.pop_front();
        }
    }

    /// Marks the end of an update: when the readers of now are gone, the nodes that it took out of use can be used
    /// again.
    pub fn settle(&mut self) {
        if !self.retired.is_empty() {
            let ticket = ticket();
            self.waiting.extend(self.retired.drain(..).map(|entry| (ticket, entry)));
        }
    }

    /// Nodes that are in use or wait for readers.
    pub fn in_use(&self) -> usize {
        self.fresh - self.ready.iter().enumerate().map(|(class, free)| free.len() << class).sum::<usize>()
    }
}

/// Lookups that are on their way down.
struct Lanes {
    /// How far each has come.
    entries: [Entry; LANES],
    /// The bits of each address that the entry decides.
    offsets: [u8; LANES],
    /// The next bits, as the keys of a node hold them.
    keys: [u32; LANES],
    /// The place in the array to look at, where the entry is an array's.
    indices: [u32; LANES],
    /// Those that have come to an array, and those that have come to a node.
    at_array: [u8; LANES],
    at_node: [u8; LANES],
}

/// How many lookups have come to an array, and to a node.
struct Open {
    arrays: usize,
    nodes: usize,
}

impl Lanes {
    #[inline(always)]
    fn new() -> Lanes {
        Lanes {
            entries: [Entry::leaf(0); LANES],
            offsets: [0; LANES],
            keys: [0; LANES],
            indices: [0; LANES],
            at_array: [0; LANES],
            at_node: [0; LANES],
        }
    }

    /// Takes lookup `i` to an entry of the direct array, or of an array; it decides `offset` bits, at most 64.
    #[inline(always)]
    fn enter<A: Address>(&mut self, open: &mut Open, nodes: &[Node], i: usize, entry: Entry, offset: u32, addr: A) {
        let lane = i % LANES;
        // Arrays end with the first 64 bits of an address.
        let index = (addr.top_bits() << (offset % 64)) >> (64 - entry.stride());
        let line = index as usize / CELLS * entry.is_array();
        prefetch(nodes, entry.number() as usize + line);
        self.entries[lane] = entry;
        self.offsets[lane] = offset as u8;
        self.keys[lane] = key(addr, offset);
        self.indices[lane] = index as u32;
        self.at_array[open.arrays % LANES] = i as u8;
        open.arrays += entry.is_array();
        self.at_node[open.nodes % LANES] = i as u8;
        open.nodes += entry.is_node();
    }
}
