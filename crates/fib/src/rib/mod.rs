//! All routes, in path-compressed binary tries from which the lookup structures are derived.
//!
//! ```text
//!  IPv4: routes shorter than /18 ── short
//!        all others ── slots[first 18 bits] ── a trie for each /18
//!  IPv6: all routes ── short
//! ```
//!
//! The slots save an update most of the way down a trie of a million routes, where nearly every step misses the cache.

mod trie;

use std::fmt;
use std::iter::Peekable;
use std::sync::{Arc, OnceLock};

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Family, Prefix};

pub(crate) use trie::Node;
use trie::{Own, Root, Routes};

/// Slots that are shared or copied together between clones.
const PAGE: usize = 256;

/// Tries for neighbouring values of the first bits.
type Page<A> = Arc<[Root<A>; PAGE]>;

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
    /// `short` and the slots in one trie, for those who ask for that.
    joined: OnceLock<Root<A>>,
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
        Rib { short: None, pages: vec![None; pages].into(), joined: OnceLock::new(), len: 0 }
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

    /// The trie with this number.
    #[inline]
    fn slot(&self, number: usize) -> Option<&Node<A>> {
        self.pages[number / PAGE].as_ref()?[number % PAGE].as_deref()
    }

    /// The trie that routes of `prefix` are in.
    #[inline]
    fn root(&self, prefix: Prefix<A>) -> Option<&Node<A>> {
        match self.slot_number(prefix) {
            Some(number) => self.slot(number),
            None => self.short.as_deref(),
        }
    }

    fn root_mut(&mut self, prefix: Prefix<A>) -> &mut Root<A> {
        // First: as long as it is there it shares all nodes.
        self.joined.take();
        match self.slot_number(prefix) {
            Some(number) => {
                let page = Arc::make_mut(&mut self.pages)[number / PAGE]
                    .get_or_insert_with(|| Arc::new([const { None }; PAGE]));
                &mut Arc::make_mut(page)[number % PAGE]
            }
            None => &mut self.short,
        }
    }

    /// Adds or replaces the route of `prefix`; returns the next hop that it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: NextHopId) -> Option<NextHopId> {
        let old = trie::insert(self.root_mut(prefix), prefix, hop);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes the route of `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHopId> {
        let old = self.get(prefix)?;
        trie::remove(self.root_mut(prefix), prefix);
        self.len -= 1;
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        trie::get(self.root(prefix), prefix)
    }

    /// The route with the longest prefix that contains `addr`.
    pub fn lookup(&self, addr: A) -> Option<(Prefix<A>, NextHopId)> {
        self.covering(Prefix::host(addr))
    }

    /// The next hop of the longest prefix that contains `addr`.
    #[inline]
    pub(crate) fn lookup_hop(&self, addr: A) -> Option<NextHopId> {
        let long = self.slot_number(Prefix::host(addr)).and_then(|number| self.slot(number));
        trie::lookup_hop(long, addr).or_else(|| trie::lookup_hop(self.short.as_deref(), addr))
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    pub fn covering(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        let long = self.slot_number(prefix).and_then(|number| self.slot(number));
        trie::covering(long, prefix).or_else(|| trie::covering(self.short.as_deref(), prefix))
    }

    /// All routes, in the order of their prefixes.
    pub fn iter(&self) -> Iter<'_, A> {
        self.iter_under(Prefix::default())
    }

    /// The routes whose prefixes `prefix` covers, in order.
    pub fn iter_under(&self, prefix: Prefix<A>) -> Iter<'_, A> {
        if self.slot_number(prefix).is_some() {
            let routes = Routes::new(trie::under(self.root(prefix), prefix).1);
            return Iter { short: Routes::new(None).peekable(), rib: self, slots: 0..0, long: routes };
        }
        let short = Routes::new(trie::under(self.short.as_deref(), prefix).1).peekable();
        Iter { short, rib: self, slots: self.slots_under(prefix), long: Routes::new(None) }
    }

    /// The numbers of the slots that `prefix`, which is not in one, covers.
    fn slots_under(&self, prefix: Prefix<A>) -> std::ops::Range<usize> {
        let bits = u32::from(slot_bits::<A>());
        if bits == 0 { 0..0 } else { prefix.first().bits(0, bits)..prefix.last().bits(0, bits) + 1 }
    }

    /// The first of `slots` that has routes, which is taken out with all before it.
    fn next_slot(&self, slots: &mut std::ops::Range<usize>) -> Option<(usize, &Node<A>)> {
        while let Some(number) = slots.next() {
            match &self.pages[number / PAGE] {
                Some(page) => {
                    if let Some(node) = page[number % PAGE].as_deref() {
                        return Some((number, node));
                    }
                }
                // Not one of them.
                None => slots.start = (number / PAGE + 1).saturating_mul(PAGE).min(slots.end),
            }
        }
        None
    }

    /// The topmost node covered by `prefix`, and the next hop that addresses in `prefix` inherit from routes with
    /// shorter prefixes. The first such question after a change takes milliseconds in a full IPv4 table.
    pub(crate) fn under(&self, prefix: Prefix<A>) -> (Option<NextHopId>, Option<&Node<A>>) {
        if let Some(number) = self.slot_number(prefix) {
            let (inherited, node) = trie::under(self.slot(number), prefix);
            return (inherited.or_else(|| self.inherited(prefix)), node);
        }
        let root = match slot_bits::<A>() {
            0 => &self.short,
            _ => self.joined.get_or_init(|| self.join(Prefix::default(), self.short.as_ref())),
        };
        trie::under(root.as_deref(), prefix)
    }

    /// The next hop of the longest route that does not determine a slot and covers `prefix`.
    fn inherited(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        trie::lookup_hop(self.short.as_deref(), prefix.first())
    }

    /// All routes in `area`, of which `short` is the topmost node among the short ones, as one trie.
    fn join(&self, area: Prefix<A>, short: Option<&Arc<Node<A>>>) -> Root<A> {
        if let Some(number) = self.slot_number(area) {
            return self.pages[number / PAGE].as_ref()?[number % PAGE].clone();
        }
        if short.is_none() && self.next_slot(&mut self.slots_under(area)).is_none() {
            return None;
        }
        let here = short.filter(|node| node.prefix == area);
        let below = |upper: bool| {
            let half = area.half(upper);
            let node = match here {
                Some(node) => node.children[usize::from(upper)].as_ref(),
                None => short,
            };
            self.join(half, node.filter(|node| half.covers(node.prefix)))
        };
        let children = [below(false), below(true)];
        let hop = here.and_then(|node| node.hop);
        match children {
            [Some(_), Some(_)] => {}
            [lower, upper] if hop.is_none() => return lower.or(upper),
            _ => {}
        }
        Some(Arc::new(Node { prefix: area, hop, children }))
    }

    /// Cuts `prefix` into ranges of addresses that share a next hop, in order and without gaps: calls `each` with
    /// first address, last address and the next hop of every address between. Neighbours may share a next hop.
    pub fn ranges(&self, prefix: Prefix<A>, mut each: impl FnMut(A, A, Option<NextHopId>)) {
        self.cut(prefix, None, &mut each);
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
            self.cut(Prefix::truncated(prefix.first(), whole), None, &mut each);
        } else {
            self.cut(prefix, Some(Own { prefix, whole }), &mut each);
        }
    }

    fn cut(&self, prefix: Prefix<A>, own: Option<Own<A>>, each: &mut impl FnMut(A, A, Option<NextHopId>)) {
        if let Some(number) = self.slot_number(prefix) {
            let (inherited, node) = trie::under(self.slot(number), prefix);
            // What the whole area has a route of its own for inherits nothing.
            let inherits = node.is_none_or(|node| node.prefix != prefix || node.hop.is_none());
            let inherited = if inherits { inherited.or_else(|| self.inherited(prefix)) } else { None };
            trie::cut(prefix, node, inherited, own, each);
            return;
        }
        let (inherited, node) = trie::under(self.short.as_deref(), prefix);
        if slot_bits::<A>() == 0 {
            trie::cut(prefix, node, inherited, own, each);
            return;
        }
        let mut slots = self.slots_under(prefix);
        let mut slot = self.next_slot(&mut slots);
        trie::cut(prefix, node, inherited, own, &mut |first, last, hop| {
            let mut rest = Some(first);
            while let Some((_, node)) = slot {
                let area = Prefix::truncated(node.prefix.first(), slot_bits::<A>());
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
                trie::cut(area, Some(node), hop, own, each);
                rest = (area.last() < last).then(|| area.last().next());
            }
            if let Some(first) = rest {
                each(first, last, hop);
            }
        });
    }

    /// The number of nodes.
    fn nodes(&self) -> usize {
        let mut slots = 0..self.pages.len() * PAGE;
        let mut nodes = trie::count(self.short.as_deref());
        while let Some((_, node)) = self.next_slot(&mut slots) {
            nodes += trie::count(Some(node));
        }
        nodes
    }

    /// Bytes held by the nodes and the slots.
    pub fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counters beside what it holds.
        let counters = 2 * size_of::<usize>();
        let pages = self.pages.iter().flatten().count() * (size_of::<[Root<A>; PAGE]>() + counters);
        size_of_val(&self.pages[..]) + pages + self.nodes() * (size_of::<Node<A>>() + counters)
    }
}

/// Iterator over routes; see [`Rib::iter`].
pub struct Iter<'r, A: Address> {
    short: Peekable<Routes<'r, A>>,
    rib: &'r Rib<A>,
    /// Those that are still to come.
    slots: std::ops::Range<usize>,
    /// What is left of the slot that it has come to.
    long: Routes<'r, A>,
}

impl<A: Address> Iterator for Iter<'_, A> {
    type Item = (Prefix<A>, NextHopId);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(route) = self.long.next() {
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
                Some((_, node)) => self.long.restart(node),
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
