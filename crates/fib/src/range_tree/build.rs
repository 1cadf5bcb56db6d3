//! From ranges to nodes.

use super::node::{Cell, Entry, FAN, PACKED_BITS, PACKED_FAN, STAGE};
use super::ranges::{Range, ranges};
use super::tree::{FreeNodes, Full, Tree, key};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// Makes nodes of one tree, and puts them in the place of others.
pub(crate) struct Builder<'t, A> {
    pub tree: &'t Tree<A>,
    pub free: &'t mut FreeNodes,
}

/// The addresses after bit `offset`, all ones.
pub(crate) fn host_mask<A: Address>(offset: u32) -> A {
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
                    let entry = self.stage(first & !inner, &begun, bits)?;
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

    /// Derives a part of the tree anew: that of the addresses from `first` to `last`, whose first `offset` bits are
    /// decided and which end where values of a key end.
    pub fn derive(&mut self, rib: &Rib<A>, first: A, last: A, offset: u32) -> Result<Entry, Full> {
        let mut found = Vec::new();
        ranges(rib, first, last, &mut found);
        self.stage(first, &found, offset)
    }

    /// The entry for neighbouring ranges, the first of which begins at `first`. Keys begin at bit `offset`.
    fn stage(&mut self, first: A, ranges: &[Range<A>], offset: u32) -> Result<Entry, Full> {
        if let [range] = ranges {
            return Ok(Entry::leaf(range.hop));
        }
        let inner = host_mask::<A>(offset + STAGE);
        let mut items = Vec::with_capacity(ranges.len());
        let low = key(first, offset);
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
        self.nodes(low, &items)
    }

    /// The root of a tree over neighbouring ranges, the first of which begins with the value `low`.
    fn nodes(&mut self, low: u32, items: &[(u32, Entry)]) -> Result<Entry, Full> {
        if let [(_, entry)] = items {
            return Ok(*entry);
        }
        if items.len() <= PACKED_FAN
            && let (len, shift) = packable(low, items)
            && len == items.len()
        {
            return self.group(items, Some(shift));
        }
        let groups = groups(low, items);
        if groups.iter().all(|group| group.shift.is_none()) {
            return self.spread(items);
        }
        // Ranges of small groups go into the node above, if they fit in there.
        let mut places = groups.len();
        let mut above = Vec::with_capacity(groups.len().max(FAN));
        let mut left = items;
        for group in groups {
            let (mine, others) = left.split_at(group.len);
            left = others;
            if group.len > 1 && places > 1 && places - 1 + group.len <= FAN {
                places += group.len - 1;
                above.extend_from_slice(mine);
            } else {
                above.push((mine[mine.len() - 1].0, self.group(mine, group.shift)?));
            }
        }
        self.spread(&above)
    }

    /// The node of a group of ranges, packed if there is a `shift`.
    fn group(&mut self, items: &[(u32, Entry)], shift: Option<u32>) -> Result<Entry, Full> {
        let Some(shift) = shift else { return self.spread(items) };
        let number = self.free.allocate(self.tree.nodes.len())?;
        let entry = Entry::packed(number, shift);
        let mut ranges = [(0, 0); PACKED_FAN];
        for (range, &(key, leaf)) in ranges.iter_mut().zip(items) {
            *range = (entry.pack(key), leaf.hop() as u16);
        }
        self.tree.nodes[number as usize].fill_packed(&ranges[..items.len()]);
        Ok(entry)
    }

    /// The root of a tree over neighbouring ranges or groups of them, with as few nodes as can be, and of the least
    /// depth.
    fn spread(&mut self, items: &[(u32, Entry)]) -> Result<Entry, Full> {
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
            *child = (mine[extra].0, self.spread(mine)?);
        }
        self.tree.nodes[number as usize].fill(&children);
        Ok(Entry::node(number))
    }
}

/// Neighbouring ranges that share a node.
struct Group {
    /// How many.
    len: usize,
    /// If the node is a packed one: what its keys leave out.
    shift: Option<u32>,
}

/// Cuts ranges, the first of which begins with the value `low`, into groups of up to [`PACKED_FAN`], of [`FAN`] where
/// they cannot be packed.
fn groups(low: u32, items: &[(u32, Entry)]) -> Vec<Group> {
    // If two nodes are needed, both keep room for changes.
    let two = PACKED_FAN < items.len() && items.len() <= 2 * PACKED_FAN;
    let most = if two { items.len().div_ceil(2) } else { PACKED_FAN };
    let mut groups = Vec::new();
    let (mut low, mut left) = (low, items);
    while !left.is_empty() {
        let (len, shift) = packable(low, &left[..left.len().min(most)]);
        let group = match len {
            0 | 1 => Group { len: left.len().min(FAN), shift: None },
            _ if len >= FAN || len == left.len() => Group { len, shift: Some(shift) },
            _ => Group { len: left.len().min(FAN), shift: None },
        };
        low = left[group.len - 1].0.wrapping_add(1);
        left = &left[group.len..];
        groups.push(group);
    }
    groups
}

/// How many of these ranges, the first of which begins with the value `low`, one packed node can tell apart, and what
/// its keys leave out.
fn packable(low: u32, items: &[(u32, Entry)]) -> (usize, u32) {
    let (mut len, mut shift) = (0, PACKED_BITS);
    let mut least = shift;
    for &(key, entry) in items {
        // The values that come to the node must differ in the bits of its keys only.
        let above = |value: u32| u64::from(value) >> (least + PACKED_BITS);
        if !entry.is_leaf() || entry.hop() > u32::from(u16::MAX) || above(low) != above(key) {
            break;
        }
        (len, shift) = (len + 1, least);
        least = least.min(key.trailing_ones());
    }
    (len, shift)
}

/// A place in the tree and the addresses whose way leads through it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'t, A> {
    pub cell: &'t Cell,
    pub first: A,
    pub last: A,
    /// Where the keys of the node begin that the cell names, if it names one.
    pub offset: u32,
}
