//! From routes to disjoint ranges of addresses.

use crate::next_hop::NextHopId;
use crate::prefix::Address;
use crate::rib::Rib;

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
    rib.ranges_between(first, last, |_, last, hop| {
        let hop = NextHopId::bits(hop);
        match found.last_mut() {
            Some(range) if range.hop == hop => range.last = last,
            _ => found.push(Range { last, hop }),
        }
    });
}
