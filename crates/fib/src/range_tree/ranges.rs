//! From routes to disjoint ranges of addresses.

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::{Node, Rib};

/// The last address of a range, which begins after the range before, and the bits of its next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range<A> {
    pub last: A,
    pub hop: u32,
}

/// Cuts the addresses from `first` to `last` into ranges that share a next hop, in order and without gaps. Neighbours
/// differ in their next hops.
pub(crate) fn ranges<A: Address>(rib: &Rib<A>, first: A, last: A, found: &mut Vec<Range<A>>) {
    found.clear();
    let area = Prefix::host(first).common(Prefix::host(last));
    let (inherited, node) = rib.under(area);
    Cutter { first, last, found }.cut(area, node, NextHopId::bits(inherited));
}

struct Cutter<'f, A> {
    first: A,
    last: A,
    found: &'f mut Vec<Range<A>>,
}

impl<A: Address> Cutter<'_, A> {
    /// Cuts what lies in `area`, whose routes are all at `node` or below it.
    fn cut(&mut self, area: Prefix<A>, node: Option<&Node<A>>, inherited: u32) {
        if area.last() < self.first || self.last < area.first() {
            return;
        }
        let Some(node) = node else {
            return self.push(area.last(), inherited);
        };
        let prefix = node.prefix;
        if area.first() < prefix.first() {
            self.push(prefix.first().previous(), inherited);
        }
        let hop = node.hop.map_or(inherited, |hop| NextHopId::bits(Some(hop)));
        if node.has_children() {
            for upper in [false, true] {
                self.cut(prefix.half(upper), node.child(upper), hop);
            }
        } else {
            self.push(prefix.last(), hop);
        }
        if prefix.last() < area.last() {
            self.push(area.last(), inherited);
        }
    }

    /// The addresses up to `last` that are not in a range yet have this next hop.
    fn push(&mut self, last: A, hop: u32) {
        if last < self.first || self.found.last().is_some_and(|range| range.last >= self.last) {
            return;
        }
        let last = last.min(self.last);
        match self.found.last_mut() {
            Some(range) if range.hop == hop => range.last = last,
            _ => self.found.push(Range { last, hop }),
        }
    }
}
