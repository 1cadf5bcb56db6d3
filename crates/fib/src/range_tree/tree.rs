//! The direct array and the nodes: looking up.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epoch::{Ticket, on_large_pages, ticket};

use super::node::{Cell, Entry, MAX_NODES, Node, STAGE};
use crate::lookup::MemoryPart;
use crate::next_hop::NextHopId;
use crate::prefix::Address;

/// Lookups under way at once.
const LANES: usize = 64;

/// The tree with room for a fixed number of nodes.
pub(super) struct Tree<A> {
    pub direct_bits: u32,
    pub direct: Box<[Cell]>,
    pub nodes: Box<[Node]>,
    /// Only the one writer locks this.
    free: Mutex<FreeNodes>,
    family: PhantomData<fn(A)>,
}

/// Which nodes are in use.
#[derive(Default)]
pub(super) struct FreeNodes {
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
pub(super) struct Full;

/// A lookup that is on its way down.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Which one of the batch.
    index: u32,
    /// The node it has come to.
    node: u32,
    /// The bits of the address that the node's keys hold.
    key: u32,
    /// Where they begin.
    offset: u32,
}

/// The bits of `addr` that keys hold which begin at bit `offset`.
#[inline]
pub(super) fn key<A: Address>(addr: A, offset: u32) -> u32 {
    addr.bits(offset, STAGE) as u32
}

impl<A: Address> Tree<A> {
    /// Without routes, with room for `nodes` nodes.
    pub fn new(direct_bits: u32, nodes: usize) -> Tree<A> {
        let tree = Tree {
            direct_bits,
            direct: on_large_pages(1 << direct_bits),
            nodes: on_large_pages(nodes.min(MAX_NODES)),
            free: Mutex::default(),
            family: PhantomData,
        };
        tree.direct.iter().for_each(|cell| cell.store(Entry::leaf(0)));
        tree
    }

    #[inline]
    pub fn lookup(&self, addr: A) -> u32 {
        let mut entry = self.direct[addr.bits(0, self.direct_bits)].load();
        let mut offset = self.direct_bits;
        while !entry.is_leaf() {
            offset += if entry.is_deeper() { STAGE } else { 0 };
            let node = &self.nodes[entry.number() as usize];
            entry = node.entry(node.rank(key(addr, offset))).load();
        }
        entry.hop()
    }

    pub fn lookup_batch(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        for (addrs, hops) in addrs.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            self.lookup_lanes(addrs, hops);
        }
    }

    /// Up to [`LANES`] lookups, level by level, so that the processor has many loads under way at once.
    fn lookup_lanes(&self, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        let mut lanes = [Lane::default(); LANES];
        let mut count = 0;
        for (index, (hop, &addr)) in hops.iter_mut().zip(addrs).enumerate() {
            let entry = self.direct[addr.bits(0, self.direct_bits)].load();
            *hop = NextHopId::from_bits(entry.hop());
            let offset = self.direct_bits;
            lanes[count] = Lane { index: index as u32, node: entry.number(), key: key(addr, offset), offset };
            count += usize::from(!entry.is_leaf());
        }
        while count > 0 {
            let mut left = 0;
            for i in 0..count {
                let lane = lanes[i];
                let node = &self.nodes[lane.node as usize];
                let entry = node.entry(node.rank(lane.key)).load();
                hops[lane.index as usize] = NextHopId::from_bits(entry.hop());
                lanes[left] = Lane { node: entry.number(), ..lane };
                if entry.is_deeper() {
                    let offset = lane.offset + STAGE;
                    lanes[left].offset = offset;
                    lanes[left].key = key(addrs[lane.index as usize], offset);
                }
                left += usize::from(!entry.is_leaf());
            }
            count = left;
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

    /// Nodes that are in use or wait for readers.
    pub fn in_use(&self) -> usize {
        self.fresh - self.ready.len()
    }
}
