//! The buffer header: our own copy of the layout of `struct rte_mbuf`.

#![allow(unsafe_code)]

use std::ffi::c_void;

/// Bytes of private area that follow each header: Click's 48 annotation bytes, a timestamp, room to grow.
pub const PRIVATE_SIZE: usize = 64;

/// Header of one packet buffer, with the field layout of DPDK's `struct rte_mbuf` (22.11 and later).
///
/// Between receive and transmit some fields that the drivers use only at receive carry our hot per-packet facts, so
/// that the usual way of a packet touches one cache line of metadata:
///
/// | field | ours |
/// |---|---|
/// | `port` | offset of the MAC header in the buffer, 0 = not marked |
/// | `packet_type` | next hop (adjacency) number |
/// | `vlan_tci` | offset of the transport header, 0 = not marked |
/// | `hash_lo` | flow hash (RSS where the device computes it) |
/// | `hash_hi` | annotation bytes 0–3: destination IPv4 address |
/// | `vlan_tci_outer` | offset of the network header, 0 = not marked |
#[repr(C, align(64))]
#[derive(Debug)]
#[allow(missing_docs, reason = "the names and meanings are those of struct rte_mbuf")]
pub struct Header {
    pub buf_addr: *mut u8,
    pub buf_iova: u64,
    pub data_off: u16,
    pub refcnt: u16,
    pub nb_segs: u16,
    pub port: u16,
    pub ol_flags: u64,
    pub packet_type: u32,
    pub pkt_len: u32,
    pub data_len: u16,
    pub vlan_tci: u16,
    pub hash_lo: u32,
    pub hash_hi: u32,
    pub vlan_tci_outer: u16,
    pub buf_len: u16,
    pub pool: *mut c_void,
    pub next: *mut Header,
    pub tx_offload: u64,
    pub shinfo: *mut c_void,
    pub priv_size: u16,
    pub timesync: u16,
    pub dynfield1: [u32; 9],
}

impl Header {
    /// Sets the length of the packet in bytes.
    #[inline(always)]
    pub(crate) fn set_len(&mut self, len: u16) {
        self.data_len = len;
        self.pkt_len = u32::from(len);
    }

    /// Where the bytes of the buffer begin that has its header there: behind the private ones.
    #[inline(always)]
    pub fn buffer(header: *mut Header) -> *mut u8 {
        header.cast::<u8>().wrapping_add(size_of::<Header>() + PRIVATE_SIZE)
    }

    /// Asks the processor to load the first bytes of the packet, to be used soon.
    #[inline(always)]
    pub fn prefetch_data(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let header = std::ptr::from_ref(self).cast_mut();
            let data = Header::buffer(header).wrapping_add(usize::from(self.data_off));
            // SAFETY: a prefetch of any address has no effect but on the cache.
            unsafe { _mm_prefetch(data.cast::<i8>(), _MM_HINT_T0) };
        }
    }
}

/// What lies behind the header in memory.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub(crate) struct Private {
    /// Click's annotation bytes; bytes 0–3 are unused here, they live in the header (`hash_hi`).
    pub anno: [u8; 48],
    /// Nanoseconds since the Unix epoch; 0 = none.
    pub timestamp: u64,
    /// Click's packet type (host, broadcast, …) as `PacketType as u8`.
    pub packet_type: u8,
    pub spare: [u8; 7],
}

impl Private {
    pub(crate) const EMPTY: Private = Private { anno: [0; 48], timestamp: 0, packet_type: 0, spare: [0; 7] };
}

const _: () = {
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<Private>() == PRIVATE_SIZE);
    assert!(std::mem::offset_of!(Header, data_off) == 16);
    assert!(std::mem::offset_of!(Header, ol_flags) == 24);
    assert!(std::mem::offset_of!(Header, hash_lo) == 44);
    assert!(std::mem::offset_of!(Header, pool) == 56);
    assert!(std::mem::offset_of!(Header, next) == 64);
    assert!(std::mem::offset_of!(Header, dynfield1) == 92);
};
