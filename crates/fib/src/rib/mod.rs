//! All routes, from which the lookup structures are derived.
//!
//! ```text
//!  IPv4: routes shorter than /18 ── short: a path-compressed binary trie
//!        all others ── slots[first 18 bits] ── a sorted list for each /18
//!  IPv6: all routes ── short
//! ```
//!
//! The slots save an update most of the way down a trie of a million routes, where nearly every step misses the cache.

mod list;
mod trie;
mod wanted;

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;

use epoch::prefetch;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};

use list::{Entry, List};
use trie::{Root, Routes};
use wanted::Wanted;

/// Slots that are shared or copied together between clones.
const PAGE: usize = 128;

/// Lists for neighbouring values of the first bits.
type Page<A> = Arc<[List<A>; PAGE]>;

/// The routes of one family: at most one next hop for each prefix.
///
/// Cloning takes constant time: clones share what neither has changed since, so a clone serves as a snapshot, and
/// (see [`Radix`](crate::Radix)) as a table to look up in.
#[derive(Clone)]
pub struct Rib<A> {
    /// Routes whose prefixes do not determine a slot.
    short: Root<A>,
    /// All others; there are no slots in IPv6.
    pages: Arc<[Option<Page<A>>]>,
    len: usize,
}

/// Bits of an address that are the number of its slot.
fn slot_bits<A: Address>() -> u8 {
    match A::FAMILY {
        Family::Ipv4 => 18,
        Family::Ipv6 => 0,
    }
}

impl<A: Address> Default for Rib<A> {
    fn default() -> Self {
        Rib::new()
    }
}

impl<A: Address> Rib<A> {
    /// No routes.
    pub fn new() -> Rib<A> {
        let pages = match slot_bits::<A>() {
            0 => 0,
            bits => (1usize << bits) / PAGE,
        };
        Rib { short: None, pages: vec![None; pages].into(), len: 0 }
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the slot that routes of this prefix are in, if they are in one.
    #[inline]
    fn slot_number(&self, prefix: Prefix<A>) -> Option<usize> {
        let bits = slot_bits::<A>();
        (bits > 0 && prefix.len() >= bits).then(|| prefix.first().bits(0, u32::from(bits)))
    }

    /// The list with this number.
    #[inline]
    fn slot(&self, number: usize) -> Option<&List<A>> {
        Some(&self.pages[number / PAGE].as_ref()?[number % PAGE])
    }

    /// The routes within a prefix that is in the slot with this number.
    fn entries_under(&self, number: usize, prefix: Prefix<A>) -> &[Entry<A>] {
        self.slot(number).map_or(&[], |list| list.under(prefix))
    }

    /// Asks for the list that `prefix` is in, if it is in one.
    #[inline]
    pub(crate) fn prefetch(&self, prefix: Prefix<A>) {
        if let Some(list) = self.slot_number(prefix).and_then(|number| self.slot(number)) {
            list.prefetch();
        }
    }

    /// Asks for the slot that `prefix` is in, which says where its list is.
    #[inline]
    pub(crate) fn prefetch_slot(&self, prefix: Prefix<A>) {
        if let Some(number) = self.slot_number(prefix)
            && let Some(page) = &self.pages[number / PAGE]
        {
            prefetch(&page[..], number % PAGE);
        }
    }

    /// Adds or replaces the route of `prefix`; returns the next hop that it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: NextHopId) -> Option<NextHopId> {
        let old = match self.slot_number(prefix) {
            Some(number) => {
                let page = Arc::make_mut(&mut self.pages)[number / PAGE]
                    .get_or_insert_with(|| Arc::new([const { List::new() }; PAGE]));
                Arc::make_mut(page)[number % PAGE].insert(prefix, hop)
            }
            None => trie::insert(&mut self.short, prefix, hop),
        };
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes the route of `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHopId> {
        // Looks first: what is not changed stays shared.
        let old = self.get(prefix)?;
        match self.slot_number(prefix) {
            Some(number) => {
                let page = Arc::make_mut(&mut self.pages)[number / PAGE].as_mut()?;
                Arc::make_mut(page)[number % PAGE].remove(prefix);
            }
            None => trie::remove(&mut self.short, prefix),
        }
        self.len -= 1;
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        match self.slot_number(prefix) {
            Some(number) => self.slot(number)?.get(prefix),
            None => trie::get(self.short.as_deref(), prefix),
        }
    }

    /// The route with the longest prefix that contains `addr`.
    pub fn lookup(&self, addr: A) -> Option<(Prefix<A>, NextHopId)> {
        self.covering(Prefix::host(addr))
    }

    /// The next hop of the longest prefix that contains `addr`.
    #[inline]
    pub(crate) fn lookup_hop(&self, addr: A) -> Option<NextHopId> {
        let long = self.longest(Prefix::host(addr)).map(|(_, hop)| hop);
        long.or_else(|| trie::lookup_hop(self.short.as_deref(), addr))
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    pub fn covering(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        self.longest(prefix).or_else(|| trie::covering(self.short.as_deref(), prefix))
    }

    /// As [`covering`](Rib::covering), among the routes in slots.
    #[inline]
    fn longest(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        self.slot(self.slot_number(prefix)?)?.covering(prefix)
    }

    /// All routes, in the order of their prefixes.
    pub fn iter(&self) -> Iter<'_, A> {
        self.iter_under(Prefix::default())
    }

    /// The routes whose prefixes `prefix` covers, in order.
    pub fn iter_under(&self, prefix: Prefix<A>) -> Iter<'_, A> {
        if let Some(number) = self.slot_number(prefix) {
            let long = self.entries_under(number, prefix).iter();
            return Iter { short: Routes::new(None).peekable(), rib: self, slots: 0..0, long };
        }
        let short = Routes::new(trie::under(self.short.as_deref(), prefix).1).peekable();
        Iter { short, rib: self, slots: self.slots_between(prefix.first(), prefix.last()), long: [].iter() }
    }

    /// The numbers of the slots that these addresses are in.
    fn slots_between(&self, first: A, last: A) -> std::ops::Range<usize> {
        let bits = u32::from(slot_bits::<A>());
        if bits == 0 { 0..0 } else { first.bits(0, bits)..last.bits(0, bits) + 1 }
    }

    /// The routes of the first of `slots` that has some; it is taken out with all before it.
    fn next_slot(&self, slots: &mut std::ops::Range<usize>) -> Option<&[Entry<A>]> {
        while let Some(number) = slots.next() {
            match &self.pages[number / PAGE] {
                Some(page) => {
                    let entries = page[number % PAGE].entries();
                    if !entries.is_empty() {
                        return Some(entries);
                    }
                }
                // Not one of them.
                None => slots.start = (number / PAGE + 1).saturating_mul(PAGE).min(slots.end),
            }
        }
        None
    }

    /// Cuts `prefix` into ranges of addresses that share a next hop, in order and without gaps: calls `each` with
    /// first address, last address and the next hop of every address between. Neighbours may share a next hop.
    pub fn ranges(&self, prefix: Prefix<A>, mut each: impl FnMut(A, A, Option<NextHopId>)) {
        self.cut(prefix, Wanted::between(prefix.first(), prefix.last()), &mut each);
    }

    /// As [`ranges`](Rib::ranges), for the addresses from `first` to `last`.
    pub(crate) fn ranges_between(&self, first: A, last: A, mut each: impl FnMut(A, A, Option<NextHopId>)) {
        let area = Prefix::host(first).common(Prefix::host(last));
        self.cut(area, Wanted::between(first, last), &mut |from, to, hop| {
            if from <= last && first <= to {
                each(from.max(first), to.min(last), hop);
            }
        });
    }

    /// As [`ranges`](Rib::ranges), but leaves out those that other routes within `prefix` decide: what is left is all
    /// that changes with the route of `prefix`. Of areas of `whole` bits within which routes part, everything comes.
    pub(crate) fn own_ranges(
        &self,
        prefix: Prefix<A>,
        whole: u8,
        mut each: impl FnMut(A, A, Option<NextHopId>),
    ) {
        if prefix.len() >= whole {
            self.ranges(Prefix::truncated(prefix.first(), whole), each);
        } else {
            self.cut(prefix, Wanted::own(prefix, whole), &mut each);
        }
    }

    fn cut(&self, area: Prefix<A>, wanted: Wanted<A>, each: &mut impl FnMut(A, A, Option<NextHopId>)) {
        if let Some(number) = self.slot_number(area) {
            let entries = self.entries_under(number, area);
            // What the whole area has a route of its own for inherits nothing.
            let inherits = entries.first().is_none_or(|(prefix, _)| *prefix != area);
            let inherited = if inherits { self.covering(area).map(|(_, hop)| hop) } else { None };
            list::cut(area, entries, inherited, wanted, each);
            return;
        }
        let (inherited, node) = trie::under(self.short.as_deref(), area);
        let mut slots = self.slots_between(wanted.first, wanted.last);
        let mut slot = self.next_slot(&mut slots);
        trie::cut(area, node, inherited, wanted, &mut |first, last, hop| {
            let mut rest = Some(first);
            while let Some((entries, (prefix, _))) =
                slot.and_then(|entries| Some((entries, entries.first()?)))
            {
                let area = Prefix::truncated(prefix.first(), slot_bits::<A>());
                if area.first() > last {
                    break;
                }
                slot = self.next_slot(&mut slots);
                if area.last() < first {
                    // In what was left out.
                    continue;
                }
                if let Some(first) = rest.filter(|&first| first < area.first()) {
                    each(first, area.first().previous(), hop);
                }
                list::cut(area, entries, hop, wanted, each);
                rest = (area.last() < last).then(|| area.last().next());
            }
            if let Some(first) = rest {
                each(first, last, hop);
            }
        });
    }

    /// Bytes held by the trie, the slots and their lists.
    pub fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counters beside what it holds.
        let counters = 2 * size_of::<usize>();
        let pages = self.pages.iter().flatten();
        let page = |page: &Page<A>| {
            size_of_val(&page[..]) + counters + page.iter().map(List::memory_bytes).sum::<usize>()
        };
        let nodes = trie::count(self.short.as_deref()) * (size_of::<trie::Node<A>>() + counters);
        size_of_val(&self.pages[..]) + pages.map(page).sum::<usize>() + nodes
    }
}

/// Iterator over routes; see [`Rib::iter`].
pub struct Iter<'r, A: Address> {
    short: Peekable<Routes<'r, A>>,
    rib: &'r Rib<A>,
    /// Those that are still to come.
    slots: std::ops::Range<usize>,
    /// What is left of the slot that it has come to.
    long: std::slice::Iter<'r, Entry<A>>,
}

impl<A: Address> Iterator for Iter<'_, A> {
    type Item = (Prefix<A>, NextHopId);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(&route) = self.long.next() {
                return Some(route);
            }
            // A short route comes before the slots that it covers.
            let limit = self
                .short
                .peek()
                .map(|(prefix, _)| prefix.first().bits(0, u32::from(slot_bits::<A>()).max(1)));
            let end = self.slots.end;
            let mut before = self.slots.start..limit.map_or(end, |limit| limit.clamp(self.slots.start, end));
            let found = self.rib.next_slot(&mut before);
            self.slots.start = before.start.max(self.slots.start);
            match found {
                Some(entries) => self.long = entries.iter(),
                None => return self.short.next(),
            }
        }
    }
}

impl<A: Address> fmt::Debug for Rib<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'r, A: Address> IntoIterator for &'r Rib<A> {
    type Item = (Prefix<A>, NextHopId);
    type IntoIter = Iter<'r, A>;

    fn into_iter(self) -> Iter<'r, A> {
        self.iter()
    }
}

impl<A: Address> Extend<(Prefix<A>, NextHopId)> for Rib<A> {
    fn extend<I: IntoIterator<Item = (Prefix<A>, NextHopId)>>(&mut self, routes: I) {
        for (prefix, hop) in routes {
            self.insert(prefix, hop);
        }
    }
}

impl<A: Address> FromIterator<(Prefix<A>, NextHopId)> for Rib<A> {
    fn from_iter<I: IntoIterator<Item = (Prefix<A>, NextHopId)>>(routes: I) -> Self {
        let mut rib = Rib::new();
        rib.extend(routes);
        rib
    }
}

#[cfg(test)]
mod tests;
