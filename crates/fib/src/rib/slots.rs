//! Routes by the first bits of their prefixes: a list for each value.

use std::ops::Range;
use std::sync::Arc;

use epoch::prefetch;

use super::list::{self, Entry, List};
use super::wanted::Wanted;
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};

/// Slots that are shared or copied together between clones.
const PAGE: usize = 128;
/// `bits` where there are no slots: longer than any prefix.
const NONE: u8 = u8::MAX;

/// Lists for neighbouring values of the first bits.
type Page<A> = Arc<[List<A>; PAGE]>;

/// A list of routes for each value of the first `bits` of their prefixes, which have these at least.
#[derive(Clone)]
pub(super) struct Slots<A> {
    bits: u8,
    pages: Arc<[Option<Page<A>>]>,
}

impl<A: Address> Slots<A> {
    /// Slots for values of so many bits; without these, none.
    pub fn new(bits: Option<u8>) -> Slots<A> {
        let pages = bits.map_or(0, |bits| (1usize << bits).div_ceil(PAGE));
        Slots { bits: bits.unwrap_or(NONE), pages: vec![None; pages].into() }
    }

    /// True when routes of this prefix belong here, if not into slots of more bits.
    #[inline]
    pub fn take(&self, prefix: Prefix<A>) -> bool {
        prefix.len() >= self.bits
    }

    /// The number of the slot of an address.
    #[inline]
    fn number(&self, addr: A) -> usize {
        addr.bits(0, u32::from(self.bits))
    }

    /// The list for `prefix`, which belongs here.
    #[inline]
    pub fn list(&self, prefix: Prefix<A>) -> Option<&List<A>> {
        let number = self.number(prefix.first());
        Some(&self.pages.get(number / PAGE)?.as_ref()?[number % PAGE])
    }

    /// The same, to be changed.
    #[inline]
    pub fn list_mut(&mut self, prefix: Prefix<A>) -> Option<&mut List<A>> {
        let number = self.number(prefix.first());
        let page = Arc::make_mut(&mut self.pages).get_mut(number / PAGE)?;
        let page = page.get_or_insert_with(|| Arc::new([const { List::new() }; PAGE]));
        Some(&mut Arc::make_mut(page)[number % PAGE])
    }

    /// Asks for the memory that says where the list for `prefix` is, which belongs here.
    #[inline]
    pub fn prefetch(&self, prefix: Prefix<A>) {
        let number = self.number(prefix.first());
        if let Some(Some(page)) = self.pages.get(number / PAGE) {
            prefetch(&page[..], number % PAGE);
        }
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    #[inline]
    pub fn covering(&self, prefix: Prefix<A>) -> Option<Entry<A>> {
        if self.take(prefix) { self.list(prefix)?.covering(prefix) } else { None }
    }

    /// The routes here whose prefixes `prefix` covers, in order.
    pub fn under(&self, prefix: Prefix<A>) -> Listed<'_, A> {
        if !self.take(prefix) {
            return Listed { now: [].iter(), lists: self.between(prefix.first(), prefix.last()) };
        }
        let entries = self.list(prefix).map_or(&[][..], |list| list.under(prefix));
        Listed { now: entries.iter(), lists: Lists { pages: &self.pages, numbers: 0..0 } }
    }

    /// The lists of the slots that the addresses from `first` to `last` are in.
    fn between(&self, first: A, last: A) -> Lists<'_, A> {
        let numbers = if self.bits == NONE { 0..0 } else { self.number(first)..self.number(last) + 1 };
        Lists { pages: &self.pages, numbers }
    }

    /// Takes ranges of addresses with their next hops, in order; hands them on, cut further by the routes here.
    pub fn refine<'s>(
        &'s self,
        wanted: Wanted<A>,
        each: &'s mut impl FnMut(A, A, Option<NextHopId>),
    ) -> impl FnMut(A, A, Option<NextHopId>) + 's {
        let mut lists = self.between(wanted.first, wanted.last);
        let mut list = lists.next();
        move |first, last, hop| {
            let mut rest = Some(first);
            while let Some((entries, (prefix, _))) = list.and_then(|list| Some((list, list.first()?))) {
                let area = Prefix::truncated(prefix.first(), self.bits);
                if area.first() > last {
                    break;
                }
                list = lists.next();
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
        }
    }

    /// Bytes held by the slots and their lists.
    pub fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counters beside what it holds.
        let counters = 2 * size_of::<usize>();
        let page = |page: &Page<A>| {
            size_of_val(&page[..]) + counters + page.iter().map(List::memory_bytes).sum::<usize>()
        };
        size_of_val(&self.pages[..]) + self.pages.iter().flatten().map(page).sum::<usize>()
    }
}

/// The lists that are not empty, in order.
struct Lists<'s, A> {
    pages: &'s [Option<Page<A>>],
    /// Those that are still to come.
    numbers: Range<usize>,
}

impl<'s, A: Address> Iterator for Lists<'s, A> {
    type Item = &'s [Entry<A>];

    fn next(&mut self) -> Option<&'s [Entry<A>]> {
        while let Some(number) = self.numbers.next() {
            match self.pages.get(number / PAGE)? {
                Some(page) => {
                    let entries = page[number % PAGE].entries();
                    if !entries.is_empty() {
                        return Some(entries);
                    }
                }
                // Not one of them.
                None => self.numbers.start = ((number / PAGE + 1) * PAGE).min(self.numbers.end),
            }
        }
        None
    }
}

/// Routes in order; see [`Slots::under`].
pub(super) struct Listed<'s, A> {
    now: std::slice::Iter<'s, Entry<A>>,
    /// What comes after these.
    lists: Lists<'s, A>,
}

impl<A: Address> Iterator for Listed<'_, A> {
    type Item = Entry<A>;

    fn next(&mut self) -> Option<Entry<A>> {
        loop {
            if let Some(entry) = self.now.next() {
                return Some(*entry);
            }
            self.now = self.lists.next()?.iter();
        }
    }
}
