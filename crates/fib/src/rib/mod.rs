//! All routes, from which the lookup structures are derived.
//!
//! ```text
//!  IPv4: routes shorter than /10 ── short: a path-compressed binary trie
//!        /10 to /17 ── middle[first 10 bits] ── a sorted list for each /10
//!        all others ── long[first 18 bits] ── a sorted list for each /18
//!  IPv6: all routes ── short
//! ```
//!
//! The slots save an update most of the way down a trie of a million routes, where nearly every step misses the cache.

mod list;
mod slots;
mod trie;
mod wanted;

use std::fmt;
use std::iter::Peekable;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};

use slots::{Listed, Slots};
use trie::{Root, Routes};
use wanted::Wanted;

/// So many steps ahead, memory is asked for.
const AHEAD: usize = 4;

/// The routes of one family: at most one next hop for each prefix.
///
/// Cloning takes constant time: clones share what neither has changed since, so a clone serves as a snapshot, and
/// (see [`Radix`](crate::Radix)) as a table to look up in.
#[derive(Clone)]
pub struct Rib<A> {
    /// Routes whose prefixes do not determine a slot.
    short: Root<A>,
    /// All others; there are no slots in IPv6.
    middle: Slots<A>,
    long: Slots<A>,
    len: usize,
}

impl<A: Address> Default for Rib<A> {
    fn default() -> Self {
        Rib::new()
    }
}

impl<A: Address> Rib<A> {
    /// No routes.
    pub fn new() -> Rib<A> {
        let (middle, long) = match A::FAMILY {
            Family::Ipv4 => (Some(10), Some(18)),
            Family::Ipv6 => (None, None),
        };
        Rib { short: None, middle: Slots::new(middle), long: Slots::new(long), len: 0 }
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots that routes of this prefix are in, if they are in some.
    #[inline]
    fn slots(&self, prefix: Prefix<A>) -> Option<&Slots<A>> {
        [&self.long, &self.middle].into_iter().find(|slots| slots.take(prefix))
    }

    #[inline]
    fn slots_mut(&mut self, prefix: Prefix<A>) -> Option<&mut Slots<A>> {
        [&mut self.long, &mut self.middle].into_iter().find(|slots| slots.take(prefix))
    }

    /// Asks for the list that `prefix` is in, if it is in one.
    #[inline]
    pub(crate) fn prefetch(&self, prefix: Prefix<A>) {
        if let Some(list) = self.slots(prefix).and_then(|slots| slots.list(prefix)) {
            list.prefetch();
        }
    }

    /// Asks for the slot that `prefix` is in, which says where its list is.
    #[inline]
    pub(crate) fn prefetch_slot(&self, prefix: Prefix<A>) {
        if let Some(slots) = self.slots(prefix) {
            slots.prefetch(prefix);
        }
    }

    /// Asks for what [`get`](Rib::get), [`insert`](Rib::insert) and [`remove`](Rib::remove) will look at soon: `ahead` says
    /// whose turn it is after so many others.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, ahead: impl Fn(usize) -> Option<Prefix<A>>) {
        if let Some(prefix) = ahead(2 * AHEAD) {
            self.prefetch_slot(prefix);
        }
        if let Some(prefix) = ahead(AHEAD) {
            self.prefetch(prefix);
        }
    }

    /// Adds or replaces the route of `prefix`; returns the next hop that it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: NextHopId) -> Option<NextHopId> {
        let old = match self.slots_mut(prefix).and_then(|slots| slots.list_mut(prefix)) {
            Some(list) => list.insert(prefix, hop),
            None => trie::insert(&mut self.short, prefix, hop),
        };
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes the route of `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHopId> {
        // Looks first: what is not changed stays shared.
        let old = self.get(prefix)?;
        match self.slots_mut(prefix).and_then(|slots| slots.list_mut(prefix)) {
            Some(list) => drop(list.remove(prefix)),
            None => trie::remove(&mut self.short, prefix),
        }
        self.len -= 1;
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        match self.slots(prefix) {
            Some(slots) => slots.list(prefix)?.get(prefix),
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
        let listed = self.listed(Prefix::host(addr)).map(|(_, hop)| hop);
        listed.or_else(|| trie::lookup_hop(self.short.as_deref(), addr))
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    pub fn covering(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        self.listed(prefix).or_else(|| trie::covering(self.short.as_deref(), prefix))
    }

    /// As [`covering`](Rib::covering), among the routes in slots.
    #[inline]
    fn listed(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        self.long.covering(prefix).or_else(|| self.middle.covering(prefix))
    }

    /// All routes, in the order of their prefixes.
    pub fn iter(&self) -> Iter<'_, A> {
        self.iter_under(Prefix::default())
    }

    /// The routes whose prefixes `prefix` covers, in order.
    pub fn iter_under(&self, prefix: Prefix<A>) -> Iter<'_, A> {
        let short = Routes::new(trie::under(self.short.as_deref(), prefix).1);
        Iter {
            short: short.peekable(),
            middle: self.middle.under(prefix).peekable(),
            long: self.long.under(prefix).peekable(),
        }
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
        let Some(slots) = self.slots(area) else {
            let (inherited, node) = trie::under(self.short.as_deref(), area);
            let long = &mut self.long.refine(wanted, each);
            trie::cut(area, node, inherited, wanted, &mut self.middle.refine(wanted, long));
            return;
        };
        let entries = slots.list(area).map_or(&[][..], |list| list.under(area));
        // What the whole area has a route of its own for inherits nothing.
        let inherits = entries.first().is_none_or(|(prefix, _)| *prefix != area);
        let inherited = if inherits { self.covering(area).map(|(_, hop)| hop) } else { None };
        if self.long.take(area) {
            list::cut(area, entries, inherited, wanted, each);
        } else {
            list::cut(area, entries, inherited, wanted, &mut self.long.refine(wanted, each));
        }
    }

    /// Bytes held by the trie, the slots and their lists.
    pub fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counters beside what it holds.
        let node = size_of::<trie::Node<A>>() + 2 * size_of::<usize>();
        trie::count(self.short.as_deref()) * node + self.middle.memory_bytes() + self.long.memory_bytes()
    }
}

/// Iterator over routes; see [`Rib::iter`].
pub struct Iter<'r, A: Address> {
    short: Peekable<Routes<'r, A>>,
    middle: Peekable<Listed<'r, A>>,
    long: Peekable<Listed<'r, A>>,
}

impl<A: Address> Iterator for Iter<'_, A> {
    type Item = (Prefix<A>, NextHopId);

    fn next(&mut self) -> Option<Self::Item> {
        // The one whose prefix comes first.
        let place = |next: Option<&(Prefix<A>, NextHopId)>| next.map(|(prefix, _)| *prefix);
        let [short, middle, long] =
            [place(self.short.peek()), place(self.middle.peek()), place(self.long.peek())];
        let before = |a: Option<Prefix<A>>, b: Option<Prefix<A>>| match (a, b) {
            (Some(a), Some(b)) => a < b,
            (a, _) => a.is_some(),
        };
        if before(short, middle) && before(short, long) {
            self.short.next()
        } else if before(middle, long) {
            self.middle.next()
        } else {
            self.long.next()
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
