//! The direct array and the nodes: looking up.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epoch::{LargeSlice, Padded, Ticket, prefetch, ticket};

use super::node::{Cell, Entry, MAX_NODES, Node, STAGE};
use crate::lookup::{Beginnings, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::simd::search::Simd;

/// Lookups that a word has bits for.
pub(crate) const LANES: usize = 64;
/// Words of lookups under way at once: more than a batch of routed packets has.
const WORDS: usize = 2;

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
        self.of_top(addr.top_bits())
    }

    /// [`of`](Self::of) an address with these first 64 bits.
    #[inline(always)]
    fn of_top(&self, top: u64) -> (usize, u32) {
        let within = ((top >> (64 - self.fine)) as usize & (self.in_window() - 1), self.fine);
        let elsewhere = (self.in_window() + (top >> 1 >> (63 - self.coarse)) as usize, self.coarse);
        if (top ^ self.top) & self.mask == 0 { within } else { elsewhere }
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

/// Where some lookups of a batch have come to.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes {
    /// The bits of each address that the keys of the next node hold.
    keys: [u32; LANES],
    /// Leaves, where there is no lookup.
    entries: [Entry; LANES],
    /// Where keys begin, if not where the slot ends.
    offsets: [u8; LANES],
}

impl Lanes {
    const EMPTY: Lanes = Lanes { keys: [0; LANES], entries: [Entry::leaf(0); LANES], offsets: [0; LANES] };
}

/// Addresses to look up.
pub(crate) trait Addresses<A> {
    /// How many.
    fn count(&self) -> usize;
    /// The first 64 bits of each from this place on.
    fn tops(&self, from: usize) -> impl Iterator<Item = u64>;
    /// The one at this place.
    fn whole(&self, place: usize) -> A;
}

impl<A: Address> Addresses<A> for &[A] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn tops(&self, from: usize) -> impl Iterator<Item = u64> {
        self.get(from..).unwrap_or_default().iter().map(|addr| addr.top_bits())
    }

    #[inline(always)]
    fn whole(&self, place: usize) -> A {
        self[place]
    }
}

impl<A: Address> Addresses<A> for Beginnings<'_, A> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.tops.len()
    }

    #[inline(always)]
    fn tops(&self, from: usize) -> impl Iterator<Item = u64> {
        self.tops.get(from..).unwrap_or_default().iter().copied()
    }

    #[inline(always)]
    fn whole(&self, place: usize) -> A {
        (self.whole)(place)
    }
}

/// What a lookup does, by the instructions that the processor has.
pub(crate) struct Steps<L, R, P, B> {
    /// Gives the first lanes, so many, the entries in these slots of the direct array.
    pub load: L,
    /// As [`Node::rank`].
    pub rank: R,
    /// As [`Node::packed_hop`].
    pub packed_hop: P,
    /// A bit for each lane whose entry comes before this one in the order of [`Entry`]s.
    pub below: B,
}

/// Entries of the direct array, one by one.
#[inline(always)]
pub(crate) fn load(direct: &[Cell], slots: &[u32; LANES], count: usize, entries: &mut [Entry; LANES]) {
    let slots = &slots[..count.min(LANES)];
    slots.iter().for_each(|&slot| prefetch(direct, slot as usize));
    for (entry, &slot) in entries.iter_mut().zip(slots) {
        *entry = direct[slot as usize].load();
    }
}

fn below(entries: &[Entry; LANES], limit: Entry) -> u64 {
    entries.iter().rev().fold(0, |bits, &entry| bits << 1 | u64::from(entry < limit))
}

/// The numbers of the bits that are set.
#[inline(always)]
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (next < LANES).then_some(next)
    })
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
            let key = key(addr, offset);
            if entry.is_packed() {
                return node.packed_hop(entry.pack(key));
            }
            entry = node.entry(node.rank(key)).load();
        }
        entry.hop()
    }

    pub fn lookup_batch(&self, addrs: &impl Addresses<A>, hops: &mut [Option<NextHopId>]) {
        match self.simd {
            Some(simd) => simd.lookup_batch(self, addrs, hops),
            None => self.lookup_batch_scalar(addrs, hops),
        }
    }

    pub fn lookup_batch_scalar(&self, addrs: &impl Addresses<A>, hops: &mut [Option<NextHopId>]) {
        self.lookup_batch_with(
            addrs,
            hops,
            &Steps { load, rank: Node::rank, packed_hop: Node::packed_hop, below },
        );
    }

    /// Looks up by these steps.
    #[inline(always)]
    pub fn lookup_batch_with<L, R, P, B>(
        &self,
        addrs: &impl Addresses<A>,
        hops: &mut [Option<NextHopId>],
        steps: &Steps<L, R, P, B>,
    ) where
        L: Fn(&[Cell], &[u32; LANES], usize, &mut [Entry; LANES]),
        R: Fn(&Node, u32) -> usize,
        P: Fn(&Node, u16) -> u32,
        B: Fn(&[Entry; LANES], Entry) -> u64,
    {
        const ROUND: usize = WORDS * LANES;
        let count = addrs.count().min(hops.len());
        for (round, hops) in hops[..count].chunks_mut(ROUND).enumerate() {
            let from = round * ROUND;
            if hops.len() > LANES {
                self.lookup_round::<WORDS, _, _, _, _>(addrs, from, hops, steps);
            } else {
                self.lookup_round::<1, _, _, _, _>(addrs, from, hops, steps);
            }
        }
    }

    /// As many lookups as there are lanes, at most, of the addresses from a place on, level by level: what a level needs is
    /// on its way while others are looked at. Words take turns, so that none waits for what it has just stored.
    #[inline(always)]
    fn lookup_round<const WORDS: usize, L, R, P, B>(
        &self,
        addrs: &impl Addresses<A>,
        from: usize,
        hops: &mut [Option<NextHopId>],
        steps: &Steps<L, R, P, B>,
    ) where
        L: Fn(&[Cell], &[u32; LANES], usize, &mut [Entry; LANES]),
        R: Fn(&Node, u32) -> usize,
        P: Fn(&Node, u16) -> u32,
        B: Fn(&[Entry; LANES], Entry) -> u64,
    {
        let nodes = &*self.nodes;
        let mut words = [Lanes::EMPTY; WORDS];
        for ((word, from), hops) in words.iter_mut().zip((from..).step_by(LANES)).zip(hops.chunks(LANES)) {
            self.begin(word, addrs.tops(from).take(hops.len()), hops.len(), &steps.load);
        }
        for (word, hops) in words.iter().zip(hops.chunks(LANES)) {
            let entries = word.entries.iter().take(hops.len());
            entries.for_each(|entry| prefetch(nodes, entry.number() as usize));
        }
        loop {
            self.go_down(&mut words, steps);
            self.end_in_packed(&mut words, steps);
            let mut is_deeper = false;
            for (word, from) in words.iter_mut().zip((from..).step_by(LANES)) {
                let deeper = (steps.below)(&word.entries, Entry::LEAF);
                if deeper != 0 {
                    is_deeper = true;
                    self.deepen(addrs, from, deeper, word);
                }
            }
            if !is_deeper {
                break;
            }
        }
        for (word, hops) in words.iter().zip(hops.chunks_mut(LANES)) {
            for (hop, entry) in hops.iter_mut().zip(&word.entries) {
                *hop = NextHopId::from_bits(entry.hop());
            }
        }
    }

    /// Gives each lane of a word, so many, the entry of its address in the direct array.
    #[inline(always)]
    fn begin(
        &self,
        word: &mut Lanes,
        tops: impl Iterator<Item = u64>,
        count: usize,
        load: &impl Fn(&[Cell], &[u32; LANES], usize, &mut [Entry; LANES]),
    ) {
        // A copy: what is loaded only for some addresses would be gathered.
        let shape = self.slots;
        let mut slots = [0; LANES];
        for ((slot, key), top) in slots.iter_mut().zip(&mut word.keys).zip(tops) {
            let (index, offset) = shape.of_top(top);
            *slot = index as u32;
            *key = ((top << offset) >> STAGE) as u32;
        }
        load(&self.direct, &slots, count, &mut word.entries);
        if let Some(beyond) = word.entries.get_mut(count..) {
            beyond.fill(Entry::leaf(0));
        }
    }

    /// Goes through nodes until no lookup is at one that is not packed.
    #[inline(always)]
    fn go_down<L, R, P, B>(&self, words: &mut [Lanes], steps: &Steps<L, R, P, B>)
    where
        R: Fn(&Node, u32) -> usize,
        B: Fn(&[Entry; LANES], Entry) -> u64,
    {
        let nodes = &*self.nodes;
        let mut is_below = true;
        while is_below {
            is_below = false;
            for word in &mut *words {
                let level = (steps.below)(&word.entries, Entry::PACKED);
                is_below |= level != 0;
                for i in ones(level) {
                    let node = &nodes[word.entries[i].number() as usize];
                    let entry = node.entry((steps.rank)(node, word.keys[i])).load();
                    prefetch(nodes, entry.number() as usize);
                    word.entries[i] = entry;
                }
            }
        }
    }

    /// Looks into the packed nodes that lookups have come to.
    #[inline(always)]
    fn end_in_packed<L, R, P, B>(&self, words: &mut [Lanes], steps: &Steps<L, R, P, B>)
    where
        P: Fn(&Node, u16) -> u32,
        B: Fn(&[Entry; LANES], Entry) -> u64,
    {
        let nodes = &*self.nodes;
        for word in words {
            for i in ones((steps.below)(&word.entries, Entry::DEEPER)) {
                let entry = word.entries[i];
                let node = &nodes[entry.number() as usize];
                word.entries[i] = Entry::leaf((steps.packed_hop)(node, entry.pack(word.keys[i])));
            }
        }
    }

    /// Gives these lanes, of the addresses from a place on, the keys that follow those they have.
    #[cold]
    fn deepen(&self, addrs: &impl Addresses<A>, from: usize, which: u64, word: &mut Lanes) {
        for i in ones(which) {
            let addr = addrs.whole(from + i);
            let offset = &mut word.offsets[i];
            if *offset == 0 {
                *offset = self.slots.of(addr).1 as u8;
            }
            *offset += STAGE as u8;
            word.keys[i] = key(addr, u32::from(*offset));
            word.entries[i] = word.entries[i].followed();
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
            self.below(entry).for_each(|below| self.retire(below, free));
        }
    }

    /// The entries of the node that an entry names; a packed one has none.
    pub fn below(&self, entry: Entry) -> impl Iterator<Item = Entry> {
        let node = (!entry.is_packed()).then(|| &self.nodes[entry.number() as usize]);
        node.into_iter().flat_map(Node::entries)
    }

    /// The number of ranges below an entry, counted up to about `limit`.
    pub fn count(&self, entry: Entry, limit: usize) -> usize {
        if entry.is_leaf() {
            return 1;
        }
        if entry.is_packed() {
            return self.nodes[entry.number() as usize].packed_len();
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

    /// The levels of nodes below an entry.
    pub fn depth(&self, entry: Entry) -> u32 {
        if entry.is_leaf() {
            return 0;
        }
        let below = self.below(entry).map(|below| self.depth(below));
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
