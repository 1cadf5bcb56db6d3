//! Adjacencies: what a frame to a next hop begins with, and where it leaves.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use epoch::{Reader, Table};

use crate::next_hop::NextHop;

/// What a packet to a next hop needs: the Ethernet header of its link, and the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Adjacency {
    /// Destination, source, EtherType, as they stand in a frame.
    pub header: [u8; Adjacency::HEADER_LEN],
    /// The output; [`Adjacency::NO_OUTPUT`] while the neighbour's address is not known.
    pub output: u16,
}

impl Adjacency {
    /// Bytes of an Ethernet header.
    pub const HEADER_LEN: usize = 14;
    /// In place of an output: packets to this next hop cannot be sent now.
    pub const NO_OUTPUT: u16 = u16::MAX;
    /// Of a next hop whose neighbour is not known.
    pub const UNRESOLVED: Adjacency = Adjacency { header: [0; Self::HEADER_LEN], output: Self::NO_OUTPUT };
}

/// The adjacencies of the next hops of one [`RouteTable`](crate::RouteTable): changed by whoever knows neighbours, read by
/// workers at the number that a lookup gave.
#[derive(Debug)]
pub struct Adjacencies {
    /// What is known, also of next hops that no route has led to yet.
    known: Mutex<HashMap<NextHop, Adjacency>>,
    /// By the bits of a next hop's number ([`NextHopId::bits`](crate::NextHopId::bits)); the first is that of no route.
    by_number: Table<Vec<Adjacency>>,
}

impl Default for Adjacencies {
    fn default() -> Adjacencies {
        Adjacencies { known: Mutex::default(), by_number: Table::new(vec![Adjacency::UNRESOLVED]) }
    }
}

impl Adjacencies {
    /// The adjacencies now, by the bits of the numbers of next hops. It may be shorter than the list of next hops: see
    /// [`cover`](Self::cover).
    #[inline]
    pub fn read<'c>(&'c self, reader: &'c Reader) -> &'c [Adjacency] {
        self.by_number.read(reader)
    }

    /// Makes all changes at once: `None` forgets a neighbour. `hops` are the table's next hops by number.
    pub fn change(&self, changes: &[(NextHop, Option<Adjacency>)], hops: &[NextHop]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (hop, adjacency) in changes {
            match adjacency {
                Some(adjacency) => known.insert(*hop, *adjacency),
                None => known.remove(hop),
            };
        }
        self.by_number.edit(|list| numbered(&known, hops, list.len()));
    }

    /// Sees to it that each of these next hops, the table's by number, can be [`read`](Self::read). Takes a lock; to be
    /// called when a number is beyond the end of the list.
    pub fn cover(&self, hops: &[NextHop]) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if self.by_number.with(|list| list.len() <= hops.len()) {
            self.by_number.edit(|list| numbered(&known, hops, list.len()));
        }
    }

    /// The adjacency of a next hop, if its neighbour is known.
    pub fn get(&self, hop: NextHop) -> Option<Adjacency> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&hop).copied()
    }

    /// All next hops whose neighbours are known, by port and gateway.
    pub fn known(&self) -> Vec<(NextHop, Adjacency)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.iter().map(|(hop, adjacency)| (*hop, *adjacency)).collect();
        all.sort_unstable_by_key(|(hop, _)| (hop.port, hop.gateway));
        all
    }
}

/// The list by number; at least as long as before, because who changes it may not have seen the newest next hops.
fn numbered(known: &HashMap<NextHop, Adjacency>, hops: &[NextHop], least: usize) -> Vec<Adjacency> {
    let of = |hop: &NextHop| known.get(hop).copied().unwrap_or(Adjacency::UNRESOLVED);
    let mut list = vec![Adjacency::UNRESOLVED];
    list.extend(hops.iter().map(of));
    list.resize(list.len().max(least), Adjacency::UNRESOLVED);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: Some([10, 0, 0, 1].into()), port }
    }

    fn adjacency(output: u16) -> Adjacency {
        Adjacency { header: [7; 14], output }
    }

    #[test]
    fn numbers_and_neighbours_may_come_in_any_order() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        assert_eq!(all.read(&reader), [Adjacency::UNRESOLVED]);
        all.change(&[(hop(2), Some(adjacency(2)))], &[hop(1)]);
        assert_eq!(all.read(&reader), [Adjacency::UNRESOLVED; 2]);
        all.cover(&[hop(1), hop(2)]);
        assert_eq!(all.read(&reader), [Adjacency::UNRESOLVED, Adjacency::UNRESOLVED, adjacency(2)]);
        all.change(&[(hop(1), Some(adjacency(1))), (hop(2), None)], &[hop(1), hop(2)]);
        assert_eq!(all.read(&reader), [Adjacency::UNRESOLVED, adjacency(1), Adjacency::UNRESOLVED]);
        assert_eq!((all.get(hop(1)), all.get(hop(2))), (Some(adjacency(1)), None));
        assert_eq!(all.known(), [(hop(1), adjacency(1))]);
        // A writer that has not heard of the second next hop does not take its place away.
        all.change(&[], &[hop(1)]);
        assert_eq!(all.read(&reader).len(), 3);
    }

    #[test]
    fn an_adjacency_is_one_load_away() {
        assert_eq!((size_of::<Adjacency>(), align_of::<Adjacency>()), (16, 16));
    }
}
