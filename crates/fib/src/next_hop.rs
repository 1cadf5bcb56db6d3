//! Where packets go next, and the short numbers that lookups give for it.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

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

/// The distinct next hops, numbered in the order in which they came. Numbers are never taken back: a table that
/// sees ever new gateways grows by 24 bytes for each, up to [`NextHops::LIMIT`].
#[derive(Debug, Clone, Default)]
pub struct NextHops {
    list: Vec<NextHop>,
    index: HashMap<NextHop, NextHopId>,
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
        self.list.push(hop);
        self.index.insert(hop, id);
        Ok(id)
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

    /// Forgets those numbered `count` and above.
    pub(crate) fn truncate(&mut self, count: usize) {
        for hop in self.list.drain(count.min(self.list.len())..) {
            self.index.remove(&hop);
        }
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
        hops.truncate(1);
        assert_eq!((hops.find(via), hops.intern(via)), (None, Ok(ids[1])));
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
