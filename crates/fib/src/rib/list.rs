//! The few routes of a slot, in a list.

use epoch::prefetch;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};

use super::Wanted;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines that are asked for at once: few lists are longer.
const MOST_LINES: usize = 8;

/// A prefix and its next hop.
pub(super) type Entry<A> = (Prefix<A>, NextHopId);

/// Routes in the order of their prefixes, so that those within a prefix stand together: a list of the few routes of a
/// slot is one or two cache lines, where a trie has one for each node.
#[derive(Clone)]
pub(super) struct List<A> {
    entries: Vec<Entry<A>>,
}

impl<A: Address> List<A> {
    pub const fn new() -> List<A> {
        List { entries: Vec::new() }
    }

    pub fn entries(&self) -> &[Entry<A>] {
        &self.entries
    }

    /// Asks for the first lines of the entries.
    #[inline]
    pub fn prefetch(&self) {
        let each = LINE / size_of::<Entry<A>>();
        for line in 0..(self.entries.len() / each + 1).min(MOST_LINES) {
            prefetch(&self.entries, line * each);
        }
    }

    /// Where the route of `prefix` is, or would be.
    #[inline]
    fn find(&self, prefix: Prefix<A>) -> Result<usize, usize> {
        self.entries.binary_search_by(|(at, _)| at.cmp(&prefix))
    }

    /// Adds or replaces the route of `prefix`; returns the next hop that it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: NextHopId) -> Option<NextHopId> {
        match self.find(prefix) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, hop)),
            Err(at) => {
                self.entries.insert(at, (prefix, hop));
                None
            }
        }
    }

    /// Removes the route of `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHopId> {
        let (_, hop) = self.entries.remove(self.find(prefix).ok()?);
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        Some(hop)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        self.find(prefix).ok().map(|at| self.entries[at].1)
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    pub fn covering(&self, prefix: Prefix<A>) -> Option<Entry<A>> {
        let mut before = &self.entries[..];
        let mut end = prefix;
        loop {
            before = &before[..before.partition_point(|(at, _)| *at <= end)];
            let (last, others) = before.split_last()?;
            if last.0.covers(prefix) {
                return Some(*last);
            }
            // What covers `prefix` and comes before this one contains where it begins, too.
            end = last.0.common(prefix);
            before = others;
        }
    }

    /// The routes whose prefixes `prefix` covers.
    pub fn under(&self, prefix: Prefix<A>) -> &[Entry<A>] {
        let (first, last) = (prefix, prefix.last());
        let from = &self.entries[self.entries.partition_point(|(at, _)| *at < first)..];
        &from[..from.partition_point(|(at, _)| at.first() <= last)]
    }

    /// Bytes that the entries take.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<A>>()
    }
}

/// Cuts `area` into ranges of addresses that share a next hop, in order and without gaps but for those that are not
/// `wanted`; `entries` are the routes within.
pub(super) fn cut<A: Address>(
    area: Prefix<A>,
    entries: &[Entry<A>],
    inherited: Option<NextHopId>,
    wanted: Wanted<A>,
    each: &mut impl FnMut(A, A, Option<NextHopId>),
) {
    let (hop, mut entries) = match entries.split_first() {
        Some((&(prefix, hop), others)) if prefix == area && wanted.decided_by(prefix) => (Some(hop), others),
        _ => (inherited, entries),
    };
    // From here on no route has been looked at; `None` when the area is at its end.
    let mut next = Some(area.first());
    while let Some(&(prefix, _)) = entries.first() {
        let (part, whole) = wanted.part(area, prefix);
        let (within, others) = entries.split_at(entries.partition_point(|(at, _)| at.first() <= part.last()));
        if let Some(first) = next.filter(|&first| first < part.first()) {
            each(first, part.first().previous(), hop);
        }
        if whole {
            cut(part, within, hop, wanted.all(), each);
        } else if wanted.decided_by(prefix) {
            cut(part, within, hop, wanted, each);
        }
        next = (part.last() < area.last()).then(|| part.last().next());
        entries = others;
    }
    if let Some(first) = next {
        each(first, area.last(), hop);
    }
}
