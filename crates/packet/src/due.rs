//! What is to be done to the packets of a batch before anybody looks at one of them: what a driver left in their headers is
//! put in order, and what elements found of all of them, and noted once, is noted on each.
#![allow(unsafe_code)]

use crate::frame::{Frame, Headers, MAX};
use crate::header::Header;
use crate::settle::{Settle, settle_all};
use std::cell::Cell;
use std::ptr::NonNull;

/// A set of such things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due(u8);

/// A number for each slot of a frame.
type Column = [u32; MAX];

impl Due {
    pub const NOTHING: Due = Due(0);
    const CLEAR_HASH: Due = Due(1);
    const KEEP_HASH: Due = Due(2);
    /// The network and transport headers are to be marked.
    pub const HEADERS: Due = Due(4);
    /// The destination annotations stand in the frame.
    pub const DESTINATIONS: Due = Due(8);
    /// The next hops stand in the frame.
    pub const NEXT_HOPS: Due = Due(16);
    /// The network headers are of IPv4 and have plain TTLs. Asks for nothing, and is gone once somebody may change packets.
    pub const PLAIN_TTLS: Due = Due(32);
    /// The packets begin with headers of the list that the frame names, each with that of its next hop. Asks for nothing, and is
    /// gone once somebody may change packets or next hops.
    pub const FRAMED: Due = Due(64);
    /// Bytes that somebody has stripped are still to be taken off the front of the packets; never of packets that are not as a
    /// driver left them.
    pub const STRIP: Due = Due(128);
    /// What holds only as long as nobody may change packets.
    pub const UNCHANGED: Due = Due(Due::PLAIN_TTLS.0 | Due::FRAMED.0);
    /// What a look at network headers brings.
    pub const FOUND: Due = Due(Due::HEADERS.0 | Due::DESTINATIONS.0);

    /// Both sets.
    #[inline(always)]
    pub const fn and(self, other: Due) -> Due {
        Due(self.0 | other.0)
    }

    /// This set without `other`.
    #[inline(always)]
    pub const fn without(self, other: Due) -> Due {
        Due(self.0 & !other.0)
    }

    /// True if all of `other` is in it.
    #[inline(always)]
    pub const fn has(self, other: Due) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any of `other` is in it.
    #[inline(always)]
    pub const fn has_any(self, other: Due) -> bool {
        self.0 & other.0 != 0
    }

    /// True if any of it stands in columns.
    #[inline(always)]
    pub const fn is_in_columns(self) -> bool {
        self.has_any(Due::DESTINATIONS.and(Due::NEXT_HOPS))
    }

    /// True if the headers are as a driver left them.
    #[inline(always)]
    pub const fn is_received(self) -> bool {
        self.has_any(Due::CLEAR_HASH.and(Due::KEEP_HASH))
    }

    /// What is due of the headers as a driver left them.
    fn received(self) -> Option<Settle> {
        if self.has(Due::CLEAR_HASH) {
            Some(Settle::ClearHash)
        } else if self.has(Due::KEEP_HASH) {
            Some(Settle::KeepHash)
        } else {
            None
        }
    }

    /// Does it all to the packets of this frame.
    ///
    /// # Safety
    /// Nobody has a reference to one of them.
    pub unsafe fn settle(self, frame: &Frame) {
        let (all, found, mac) = (frame.raw(), frame.headers, frame.mac);
        let Frame { destinations, next_hops, .. } = frame;
        // First, as all offsets are from where packets begin without these bytes.
        if self.has(Due::STRIP) {
            // SAFETY: as the caller says.
            unsafe { strip(all, frame.front) };
        }
        // What has been routed, perhaps straight from a driver: all at once.
        if let Some(received) = self.received()
            && self.has(Due::FOUND)
        {
            // SAFETY: the frame's packets are live, and nobody else has them.
            return unsafe {
                if self.has(Due::NEXT_HOPS) {
                    received.settle_found(all, mac, found, destinations, |i| next_hops[i]);
                } else {
                    received.settle_found(all, mac, found, destinations, |_| 0);
                }
            };
        }
        // SAFETY: as above.
        unsafe {
            if let Some(received) = self.received() {
                received.settle(all, mac);
            }
            if self.has(Due::FOUND.and(Due::NEXT_HOPS)) {
                return each(all, |i, h| {
                    found.mark(h);
                    (h.packet_type, h.hash_hi) = (next_hops[i], destinations[i]);
                });
            }
            if self.has(Due::HEADERS) {
                each(all, |_, h| found.mark(h));
            }
            if self.has(Due::DESTINATIONS) {
                each(all, |i, h| h.hash_hi = destinations[i]);
            }
            if self.has(Due::NEXT_HOPS) {
                each(all, |i, h| h.packet_type = next_hops[i]);
            }
        }
    }
}

impl From<Settle> for Due {
    #[inline(always)]
    fn from(settle: Settle) -> Due {
        match settle {
            Settle::ClearHash => Due::CLEAR_HASH,
            Settle::KeepHash => Due::KEEP_HASH,
        }
    }
}

impl Settle {
    /// [`settle`](Settle::settle) and marks all at once, for headers that somebody has found.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn settle_found(
        self,
        all: &[NonNull<Header>],
        mac: u16,
        found: Headers,
        destinations: &Column,
        next_hop: impl Fn(usize) -> u32,
    ) {
        let i = Cell::new(0);
        let mark = |h: &mut Header| {
            let at = i.replace(i.get() + 1) % MAX;
            found.mark(h);
            (h.packet_type, h.hash_hi) = (next_hop(at), destinations[at]);
        };
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Settle::ClearHash => settle_all::<false>(all, mac, mark),
                Settle::KeepHash => settle_all::<true>(all, mac, mark),
            }
        }
    }
}

impl Headers {
    /// Marks them.
    #[inline(always)]
    fn mark(self, h: &mut Header) {
        h.vlan_tci = h.data_off.wrapping_add(self.transport);
        h.vlan_tci_outer = h.data_off.wrapping_add(self.network);
    }
}

/// Takes so many bytes off the front of packets, or as many as there are.
///
/// # Safety
/// As for [`each`].
#[inline(never)]
unsafe fn strip(all: &[NonNull<Header>], front: u16) {
    // SAFETY: as the caller says.
    unsafe {
        each(all, |_, h| {
            let by = front.min(h.data_len);
            h.data_off += by;
            h.set_len(h.data_len - by);
        });
    }
}

/// Does so to each of at most [`MAX`] headers, with its place.
///
/// # Safety
/// All are live and the caller's alone.
#[inline(always)]
unsafe fn each(all: &[NonNull<Header>], what: impl Fn(usize, &mut Header)) {
    for (i, header) in all.iter().enumerate().take(MAX) {
        // SAFETY: live and the caller's alone.
        what(i, unsafe { &mut *header.as_ptr() });
    }
}
