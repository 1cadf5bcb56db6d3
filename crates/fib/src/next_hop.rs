//! Where packets go next, and the short numbers that lookups give for it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::simd::results::results_in;
use foldhash::fast::RandomState;
use serde::{Serialize, Serializer};

/// The number of a next hop in its [`NextHops`].
///
/// `Option<NextHopId>` is as small as the number itself; [`bits`](NextHopId::bits) gives it as it is best kept
/// in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(NonZeroU32);

impl NextHopId {
    /// The number of the first next hop.
    pub const MIN: NextHopId = NextHopId(NonZeroU32::MIN);

    /// The number of the next hop at `index`, which must be below 2³²−1.
    #[inline]
    pub const fn new(index: u32) -> Option<NextHopId> {
        match NonZeroU32::new(index.wrapping_add(1)) {
            Some(bits) => Some(NextHopId(bits)),
            None => None,
        }
    }

    /// Its index in the list of next hops.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// The result of a lookup in 32 bits: 0 means no route, else index + 1.
    #[inline]
    pub const fn bits(hop: Option<NextHopId>) -> u32 {
        match hop {
            Some(hop) => hop.0.get(),
            None => 0,
        }
    }

    /// Places for results of lookups, where their [`bits`](NextHopId::bits) stand.
    #[inline]
    pub fn in_bits(bits: &mut [u32]) -> &mut [Option<NextHopId>] {
        results_in(bits)
    }

    /// The result of a lookup from its 32 bits.
    #[inline]
    pub const fn from_bits(bits: u32) -> Option<NextHopId> {
        match NonZeroU32::new(bits) {
            Some(bits) => Some(NextHopId(bits)),
            None => None,
        }
    }
}

impl fmt::Debug for NextHopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index())
    }
}

/// Out of which port, and to whom there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// The router to send to; `None` when the destination itself is on the link. Its family may differ from the
    /// route's (RFC 8950).
    pub gateway: Option<IpAddr>,
    /// The output port.
    pub port: u32,
}

/// As routes write it: `[gateway] port`.
impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "{gateway} {}", self.port),
            None => write!(f, "{}", self.port),
        }
    }
}

impl Serialize for NextHop {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// There are more distinct next hops than numbers for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} distinct next hops", limit = NextHops::LIMIT)]
pub struct TooManyNextHops;

/// The distinct next hops, numbered in the order in which they came. Numbers are not taken back by themselves: a table
/// that sees ever new gateways grows by 24 bytes for each, up to [`NextHops::LIMIT`], unless those that are out of use
/// are retired and their numbers freed.
#[derive(Debug, Clone, Default)]
pub struct NextHops {
    list: Vec<NextHop>,
    /// Those that are not retired.
    index: HashMap<NextHop, NextHopId, RandomState>,
    /// Numbers to be given again, the one that has waited longest first.
    free: VecDeque<NextHopId>,
    /// What was given a number since the last [`take_new`](Self::take_new), with what the number stood for before.
    new: Vec<(NextHopId, Option<NextHop>)>,
}

impl NextHops {
    /// How many there can be.
    pub const LIMIT: usize = 1 << 24;

    /// The number of `hop`, a new one if need be.
    pub fn intern(&mut self, hop: NextHop) -> Result<NextHopId, TooManyNextHops> {
        if let Some(&id) = self.index.get(&hop) {
            return Ok(id);
        }
        let id = u32::try_from(self.list.len())
            .ok()
            .filter(|_| self.list.len() < Self::LIMIT)
            .and_then(NextHopId::new)
            .ok_or(TooManyNextHops)?;
        self.put(id, hop);
        Ok(id)
    }

    /// As [`intern`](Self::intern), but rather a [free](Self::free) number than one that has never been. Whoever asks
    /// sees to it that nobody takes it for what it was.
    pub(crate) fn intern_anew(&mut self, hop: NextHop) -> Result<NextHopId, TooManyNextHops> {
        if let Some(id) = self.find(hop) {
            return Ok(id);
        }
        match self.free.pop_front() {
            Some(id) => {
                self.put(id, hop);
                Ok(id)
            }
            None => self.intern(hop),
        }
    }

    /// Gives a number to a next hop: one of the list's, or the next one.
    fn put(&mut self, id: NextHopId, hop: NextHop) {
        let old = match self.list.get_mut(id.index()) {
            Some(place) => Some(std::mem::replace(place, hop)),
            None => {
                self.list.push(hop);
                None
            }
        };
        if let Some(old) = old.filter(|old| self.index.get(old) == Some(&id)) {
            self.index.remove(&old);
        }
        self.index.insert(hop, id);
        self.new.push((id, old));
    }

    /// Gives a number to a next hop as another table has done: one that may stand for something else so far, or the
    /// next one.
    ///
    /// # Errors
    /// If numbers would be left out before it, or there are too many.
    pub(crate) fn set(&mut self, id: NextHopId, hop: NextHop) -> Result<(), TooManyNextHops> {
        if id.index() > self.list.len() || id.index() >= Self::LIMIT {
            return Err(TooManyNextHops);
        }
        if self.list.get(id.index()) != Some(&hop) {
            self.put(id, hop);
        } else {
            self.index.insert(hop, id);
        }
        Ok(())
    }

    /// Gives these numbers to no packet any more: their next hops get others when they come again. The list keeps
    /// them, because workers may still hold the numbers.
    pub(crate) fn retire(&mut self, ids: &[NextHopId]) {
        for id in ids {
            if let Some(hop) = self.get(*id).filter(|hop| self.index.get(hop) == Some(id)) {
                self.index.remove(&hop);
            }
        }
    }

    /// Numbers of retired next hops can be given to others.
    pub(crate) fn free(&mut self, ids: &[NextHopId]) {
        self.free.extend(ids.iter().filter(|id| id.index() < self.list.len()));
    }

    /// Numbers that wait to be given again.
    pub(crate) fn free_numbers(&self) -> impl Iterator<Item = NextHopId> + '_ {
        self.free.iter().copied()
    }

    /// The numbers given since the last call, and to whom.
    pub(crate) fn take_new(&mut self) -> Vec<(NextHopId, NextHop)> {
        let new = std::mem::take(&mut self.new);
        new.into_iter().filter_map(|(id, _)| Some((id, self.get(id)?))).collect()
    }

    /// Takes back the numbers given since the last [`take_new`](Self::take_new).
    pub(crate) fn take_back(&mut self) {
        while let Some((id, old)) = self.new.pop() {
            if let Some(hop) = self.get(id).filter(|hop| self.index.get(hop) == Some(&id)) {
                self.index.remove(&hop);
            }
            match (old, self.list.get_mut(id.index())) {
                (Some(old), Some(place)) => {
                    *place = old;
                    self.free.push_front(id);
                }
                // The newest number is the last of the list.
                _ => drop(self.list.pop()),
            }
        }
    }

    /// The number of `hop`, if it has one.
    pub fn find(&self, hop: NextHop) -> Option<NextHopId> {
        self.index.get(&hop).copied()
    }

    /// The next hop with this number.
    pub fn get(&self, id: NextHopId) -> Option<NextHop> {
        self.list.get(id.index()).copied()
    }

    /// All, in the order of their numbers.
    pub fn as_slice(&self) -> &[NextHop] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_next_hops_share_a_number() {
        let mut hops = NextHops::default();
        let direct = NextHop { gateway: None, port: 3 };
        let via = NextHop { gateway: Some([10, 0, 0, 1].into()), port: 3 };
        let ids = [direct, via, direct].map(|hop| hops.intern(hop).unwrap());
        assert_eq!(ids.map(NextHopId::index), [0, 1, 0]);
        assert_eq!((hops.get(ids[1]), hops.find(via), hops.as_slice().len()), (Some(via), Some(ids[1]), 2));
        assert_eq!(hops.get(NextHopId::new(2).unwrap()), None);
        assert_eq!((direct.to_string(), via.to_string()), ("3".into(), "10.0.0.1 3".into()));
        hops.take_back();
        assert_eq!((hops.find(via), hops.as_slice().len()), (None, 0));
    }

    #[test]
    fn numbers_out_of_use_are_given_again() {
        let hop = |port| NextHop { gateway: None, port };
        let mut hops = NextHops::default();
        let ids: Vec<_> = (0..3).map(|port| hops.intern(hop(port)).unwrap()).collect();
        assert_eq!(hops.take_new().len(), 3);
        hops.retire(&ids[..2]);
        // Not yet free: it gets a new number, and the old one still says what it was.
        let again = hops.intern(hop(0)).unwrap();
        assert_eq!((again.index(), hops.get(ids[0]), hops.find(hop(1))), (3, Some(hop(0)), None));
        hops.take_new();
        hops.free(&ids[..2]);
        let anew = [7, 0, 8].map(|port| hops.intern_anew(hop(port)));
        assert_eq!(anew, [Ok(ids[0]), Ok(again), Ok(ids[1])]);
        assert_eq!(hops.as_slice(), [7, 8, 2, 0].map(hop));
        hops.take_back();
        assert_eq!(hops.as_slice(), [0, 1, 2, 0].map(hop));
        assert_eq!((hops.find(hop(7)), hops.find(hop(0))), (None, Some(again)));
        assert_eq!([9, 10].map(|port| hops.intern_anew(hop(port))), [Ok(ids[0]), Ok(ids[1])]);
        assert_eq!(hops.take_new(), [(ids[0], hop(9)), (ids[1], hop(10))]);
        // As another table says.
        hops.set(ids[2], hop(9)).unwrap();
        assert_eq!((hops.find(hop(9)), hops.find(hop(2))), (Some(ids[2]), None));
        assert_eq!(hops.set(NextHopId::new(5).unwrap(), hop(1)), Err(TooManyNextHops));
    }

    #[test]
    fn a_number_fits_its_32_bits() {
        let last = NextHopId::new(u32::MAX - 1);
        assert_eq!(NextHopId::bits(last), u32::MAX);
        assert_eq!(NextHopId::from_bits(u32::MAX), last);
        assert_eq!(
            (NextHopId::new(u32::MAX), NextHopId::from_bits(0), NextHopId::bits(None)),
            (None, None, 0)
        );
        assert_eq!(size_of::<Option<NextHopId>>(), 4);
    }

    #[test]
    fn there_is_room_for_more_than_65_536() {
        let mut hops = NextHops::default();
        for port in 0..70_000 {
            let id = hops.intern(NextHop { gateway: None, port }).unwrap();
            assert_eq!(id.index(), port as usize);
        }
    }
}
