//! A map by prefix that large IPv4 tables do not make slow.

use fib::{Address, Family, Prefix};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;

/// Slots that come together.
const PAGE: usize = 256;
/// Bits of an IPv4 address that are the number of its slot.
const SLOT_BITS: u32 = 18;

type Map<A, V> = BTreeMap<Prefix<A>, V>;
type Page<A, V> = Box<[Map<A, V>]>;

/// Values by prefix, in the order of prefixes.
///
/// ```text
///  IPv4: prefixes shorter than /18 ── short
///        all others ── pages[first 10 bits][next 8 bits] ── a tree for each /18
///  IPv6: all ── short
/// ```
///
/// A tree of a million prefixes has seven levels, of which the lower three are in no cache when prefixes change in no order.
/// A slot has hardly ever more than one in a full table; what anybody announces there can make it no worse than the one tree.
#[derive(Clone, Debug)]
pub struct Prefixes<A: Address, V> {
    short: Map<A, V>,
    pages: Vec<Option<Page<A, V>>>,
    /// In the slots.
    len: usize,
}

impl<A: Address, V> Default for Prefixes<A, V> {
    fn default() -> Prefixes<A, V> {
        Prefixes { short: Map::new(), pages: Vec::new(), len: 0 }
    }
}

/// The page and the slot that a prefix is in, if it is in one.
#[inline]
fn slot<A: Address>(prefix: Prefix<A>) -> Option<(usize, usize)> {
    let is_slotted = A::FAMILY == Family::Ipv4 && u32::from(prefix.len()) >= SLOT_BITS;
    let number = || prefix.first().bits(0, SLOT_BITS);
    is_slotted.then(|| (number() / PAGE, number() % PAGE))
}

impl<A: Address, V> Prefixes<A, V> {
    fn map(&self, prefix: Prefix<A>) -> Option<&Map<A, V>> {
        match slot(prefix) {
            Some((page, slot)) => self.pages.get(page)?.as_ref()?.get(slot),
            None => Some(&self.short),
        }
    }

    fn map_mut(&mut self, prefix: Prefix<A>) -> Option<&mut Map<A, V>> {
        match slot(prefix) {
            Some((page, slot)) => self.pages.get_mut(page)?.as_mut()?.get_mut(slot),
            None => Some(&mut self.short),
        }
    }

    /// What there is of this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<&V> {
        self.map(prefix)?.get(&prefix)
    }

    /// Changes what there is of this prefix, and takes it out if `change` says that it may go. False if there is nothing.
    pub fn reduce(&mut self, prefix: Prefix<A>, change: impl FnOnce(&mut V) -> bool) -> bool {
        let Some(Entry::Occupied(mut entry)) = self.map_mut(prefix).map(|map| map.entry(prefix)) else {
            return false;
        };
        if change(entry.get_mut()) {
            entry.remove();
            self.len -= usize::from(slot(prefix).is_some());
        }
        true
    }

    /// The same; if there is nothing of it, the default is there from now on.
    pub fn get_or_default(&mut self, prefix: Prefix<A>) -> &mut V
    where
        V: Default,
    {
        let Some((page, slot)) = slot(prefix) else { return self.short.entry(prefix).or_default() };
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| (0..PAGE).map(|_| Map::new()).collect());
        let len = &mut self.len;
        page[slot].entry(prefix).or_insert_with(|| {
            *len += 1;
            V::default()
        })
    }

    /// Takes out all for which `stays` is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&Prefix<A>, &mut V) -> bool) {
        self.short.retain(&mut stays);
        let slots = self.pages.iter_mut().flatten().flat_map(|page| page.iter_mut());
        self.len = slots
            .map(|map| {
                map.retain(&mut stays);
                map.len()
            })
            .sum();
    }

    /// True when there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.short.is_empty()
    }

    /// All, in the order of prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, &V)> {
        let slots = self.pages.iter().flatten().flat_map(|page| page.iter()).flatten();
        Merged { left: self.short.iter().peekable(), right: slots.peekable() }.map(|(prefix, v)| (*prefix, v))
    }
}

/// What two iterators give in order, in order.
struct Merged<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<K: Ord, V, L: Iterator<Item = (K, V)>, R: Iterator<Item = (K, V)>> Iterator for Merged<L, R> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let is_right = match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) => right < left,
            (left, _) => left.is_none(),
        };
        if is_right { self.right.next() } else { self.left.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> impl Strategy<Value = Prefix<u32>> {
        (0..4u32, 0..4u32, prop::sample::select(vec![0, 8, 16, 17, 18, 19, 24, 32])).prop_map(
            |(high, low, len)| {
                Prefix::new(
                    (high << 24 | low << 16 | low << 8 | low) & (u64::MAX << (32 - u32::from(len))) as u32,
                    len,
                )
                .unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn it_is_a_map_in_order(steps in prop::collection::vec((prefix(), 0..5u8), 0..200)) {
            let (mut map, mut expected) = (Prefixes::default(), BTreeMap::new());
            for (n, (prefix, kind)) in steps.into_iter().enumerate() {
                match kind {
                    0 => prop_assert_eq!(map.reduce(prefix, |_| true), expected.remove(&prefix).is_some()),
                    2 => {
                        let change = |value: &mut usize| {
                            *value /= 2;
                            *value == 0
                        };
                        let (had, goes) = (expected.get_mut(&prefix).map(change)).map_or((false, false), |goes| (true, goes));
                        if goes {
                            expected.remove(&prefix);
                        }
                        prop_assert_eq!(map.reduce(prefix, change), had);
                    }
                    1 if n % 7 == 0 => {
                        map.retain(|_, value: &mut usize| value.is_multiple_of(2));
                        expected.retain(|_, value| value.is_multiple_of(2));
                    }
                    _ => {
                        *map.get_or_default(prefix) = n;
                        expected.insert(prefix, n);
                    }
                }
                prop_assert_eq!((map.get(prefix), map.is_empty()), (expected.get(&prefix), expected.is_empty()));
            }
            prop_assert!(map.iter().eq(expected.iter().map(|(prefix, value)| (*prefix, value))));
            prop_assert_eq!(map.len + map.short.len(), expected.len());
        }
    }
}
