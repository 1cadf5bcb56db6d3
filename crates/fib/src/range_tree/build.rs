//! From ranges to nodes.

use super::node::{Cell, Entry, FAN, MAX_STRIDE, STAGE};
use super::ranges::{Range, ranges};
use super::tree::{FreeNodes, Full, Tree, key};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// Entries that an array may have for each range that it divides.
const ROOM: usize = 4;

/// Makes nodes of one tree, and puts them in the place of others.
pub(super) struct Builder<'t, A> {
    pub tree: &'t Tree<A>,
    pub free: &'t mut FreeNodes,
}

/// The addresses after bit `offset`, all ones.
pub(super) fn host_mask<A: Address>(offset: u32) -> A {
    A::host_mask(offset.min(A::BITS) as u8)
}

impl<A: Address> Builder<'_, A> {
    /// Derives the direct entries of `area`, which consists of whole slots, and all below them anew.
    pub fn fill(&mut self, rib: &Rib<A>, area: Prefix<A>) -> Result<(), Full> {
        let (mut all, mut begun) = (Vec::new(), Vec::new());
        ranges(rib, area.first(), area.last(), &mut all);
        let mut first = area.first();
        for Range { last, hop } in all {
            // By turns: the end of a slot that has begun, whole slots, the beginning of a slot.
            loop {
                let (slot, bits) = self.tree.slots.of(first);
                let inner = host_mask::<A>(bits);
                let mut end = last.min(first | inner);
                let whole = begun.is_empty() && first & inner == A::default() && end & inner == inner;
                if whole {
                    end = last.min(self.tree.slots.alike(first));
                    if end & inner != inner {
                        end = (end & !inner).previous();
                    }
                    for cell in &self.tree.direct[slot..=self.tree.slots.of(end).0] {
                        self.tree.replace(cell, Entry::leaf(hop), self.free);
                    }
                } else {
                    begun.push(Range { last: end, hop });
                }
                if !whole && end & inner == inner {
                    let entry = self.slot(first & !inner, &begun, bits)?;
                    self.tree.replace(&self.tree.direct[slot], entry, self.free);
                    begun.clear();
                }
                first = end.next();
                if end == last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Derives a part of the tree anew: what is at this place.
    pub fn derive(&mut self, rib: &Rib<A>, place: &Place<'_, A>) -> Result<Entry, Full> {
        let mut found = Vec::new();
        ranges(rib, place.first, place.last, &mut found);
        match place.slot {
            true => self.slot(place.first, &found, place.offset),
            false => self.stage(place.first, &found, place.offset),
        }
    }

    /// The entry for all addresses with the same first `offset` bits.
    fn slot(&mut self, first: A, ranges: &[Range<A>], offset: u32) -> Result<Entry, Full> {
        let Some(stride) = stride(ranges, offset) else {
            return self.stage(first, ranges, offset);
        };
        let number = self.free.allocate_array(stride, self.tree.nodes.len())?;
        let inner = host_mask::<A>(offset + stride);
        let (mut first, mut left) = (first, ranges);
        let mut within = Vec::new();
        for index in 0..1 << stride {
            let end = first | inner;
            let count = left.iter().take_while(|range| range.last < end).count();
            within.clear();
            within.extend_from_slice(&left[..left.len().min(count + 1)]);
            if let Some(range) = within.last_mut() {
                range.last = end;
            }
            let entry = self.slot(first, &within, offset + stride)?;
            self.tree.cell(number, index).store(entry);
            let ended = left.get(count).is_some_and(|range| range.last == end);
            (first, left) = (end.next(), &left[left.len().min(count + usize::from(ended))..]);
        }
        Ok(Entry::array(number, stride))
    }

    /// The entry for neighbouring ranges, the first of which begins at `first`. Keys begin at bit `offset`.
    fn stage(&mut self, first: A, ranges: &[Range<A>], offset: u32) -> Result<Entry, Full> {
        if let [range] = ranges {
            return Ok(Entry::leaf(range.hop));
        }
        let inner = host_mask::<A>(offset + STAGE);
        let mut items = Vec::with_capacity(ranges.len());
        let mut first = first;
        let mut left = ranges;
        while let Some((&Range { last, hop }, after)) = left.split_first() {
            if last & inner == inner {
                items.push((key(last, offset), Entry::leaf(hop)));
                (first, left) = (last.next(), after);
                continue;
            }
            // The range ends within a value of the key: what has that value is told apart by the next bits.
            let (cut, end) = (last & !inner, last | inner);
            if first < cut {
                items.push((key(cut.previous(), offset), Entry::leaf(hop)));
            }
            let count = left.partition_point(|range| range.last < end);
            let mut within = left[..left.len().min(count + 1)].to_vec();
            if let Some(range) = within.last_mut() {
                range.last = end;
            }
            let entry = self.stage(cut, &within, offset + STAGE)?;
            items.push((key(cut, offset), entry.deeper()));
            let ended = left.get(count).is_some_and(|range| range.last == end);
            (first, left) = (end.next(), &left[left.len().min(count + usize::from(ended))..]);
        }
        self.nodes(&items)
    }

    /// The root of a tree over neighbouring ranges, with as few nodes as can be, and of the least depth.
    fn nodes(&mut self, items: &[(u32, Entry)]) -> Result<Entry, Full> {
        if let [(_, entry)] = items {
            return Ok(*entry);
        }
        let number = self.free.allocate(self.tree.nodes.len())?;
        if items.len() <= FAN {
            self.tree.nodes[number as usize].fill(items);
            return Ok(Entry::node(number));
        }
        // What a child holds that is full, and how many ranges there are beyond one for each child.
        let mut capacity = FAN;
        while capacity * FAN < items.len() {
            capacity *= FAN;
        }
        let mut beyond = items.len() - FAN;
        let mut children = [(0, Entry::leaf(0)); FAN];
        let mut left = items;
        for child in &mut children {
            let extra = beyond.min(capacity - 1);
            beyond -= extra;
            let (mine, others) = left.split_at(1 + extra);
            left = others;
            *child = (mine[extra].0, self.nodes(mine)?);
        }
        self.tree.nodes[number as usize].fill(&children);
        Ok(Entry::node(number))
    }
}

/// The stride of the array that divides these ranges better than nodes do, if there is one. Nodes take a level for
/// each factor of [`FAN`]; an array takes one level and leaves less for nodes, but may not be much larger than what it
/// divides.
fn stride<A: Address>(ranges: &[Range<A>], offset: u32) -> Option<u32> {
    let most = (ranges.len() * ROOM).ilog2().min(MAX_STRIDE).min(A::BITS.min(64).saturating_sub(offset));
    if ranges.len() <= FAN || most == 0 {
        return None;
    }
    // Levels of nodes, for each range.
    let levels = |count: usize| if count == 1 { 0 } else { (count - 1).ilog(FAN) as usize + 1 };
    let mut sum = 0;
    for within in ranges.chunk_by(|a, b| a.last.bits(offset, most) == b.last.bits(offset, most)) {
        // The last range of a slot may be the first of the next.
        sum += within.len() * levels(within.len() + 1);
    }
    (sum + ranges.len() < ranges.len() * levels(ranges.len())).then_some(most)
}

/// A place in the tree and the addresses whose way leads through it.
#[derive(Clone, Copy)]
pub(super) struct Place<'t, A> {
    pub cell: &'t Cell,
    pub first: A,
    pub last: A,
    /// Where the keys of the node begin that the cell names, if it names one.
    pub offset: u32,
    /// All addresses with the same first `offset` bits go through it.
    pub slot: bool,
}
