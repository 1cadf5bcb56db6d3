//! Whether received packets are what batches hold: of one segment each, unshared, in their buffers' own memory.
#![allow(unsafe_code)]

use crate::raw;
use packet::Header;
use std::ptr::NonNull;

/// True if all packets from the driver are plain.
///
/// References and segments are never 0, so if all together have no other bit than 1, each is 1.
///
/// # Safety
/// The headers are live and the caller's.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn are_plain(packets: &[NonNull<Header>]) -> bool {
    use std::arch::x86_64::*;
    // The sixteen bytes that are looked at begin with `data_off` and end with `ol_flags`.
    const { assert!(std::mem::offset_of!(Header, data_off) == 16) };
    const { assert!(std::mem::offset_of!(Header, refcnt) == 18 && std::mem::offset_of!(Header, nb_segs) == 20) };
    const { assert!(std::mem::offset_of!(Header, ol_flags) == 24 && align_of::<Header>() >= 16) };
    // SAFETY: every x86-64 has SSE2. What is loaded are sixteen bytes of a live header, of initialised fields, at a multiple of
    // sixteen bytes. Any bits are a `u64`.
    let [counts, flags]: [u64; 2] = unsafe {
        let mut any = _mm_setzero_si128();
        for packet in packets {
            any = _mm_or_si128(any, _mm_load_si128(packet.as_ptr().cast::<__m128i>().add(1)));
        }
        std::mem::transmute(any)
    };
    let plain = counts & MORE_THAN_ONE == 0 && flags & raw::RB_NOT_OURS == 0;
    debug_assert!(!plain || packets.iter().all(|packet| has_its_bytes_behind(*packet)));
    plain
}

/// True if the buffer's bytes are where [`packet::Packet`] expects them. DPDK puts them there when a pool is made, and only
/// packets that are not plain have theirs elsewhere.
fn has_its_bytes_behind(packet: NonNull<Header>) -> bool {
    // SAFETY: as asked of the caller of `are_plain`.
    unsafe { packet.as_ref() }.buf_addr == Header::buffer(packet.as_ptr())
}

/// In the four numbers beginning with `data_off`: all bits of references and segments but the lowest.
#[cfg(target_arch = "x86_64")]
const MORE_THAN_ONE: u64 = 0x0000_fffe_fffe_0000;

/// True if all packets from the driver are plain.
///
/// # Safety
/// The headers are live and the caller's.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn are_plain(packets: &[NonNull<Header>]) -> bool {
    packets.iter().all(|packet| {
        // SAFETY: as asked of the caller.
        let h = unsafe { packet.as_ref() };
        let plain = h.refcnt == 1 && h.nb_segs == 1 && h.ol_flags & raw::RB_NOT_OURS == 0;
        debug_assert!(!plain || has_its_bytes_behind(*packet));
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    /// Changes one of 33 headers, at each place; true if nobody minds.
    fn all_plain_with(change: impl Fn(&mut Header)) -> bool {
        let pool = Pool::heap(33, 256);
        let found = (0..33).map(|at| {
            let packets: Vec<_> =
                (0..33).map(|_| pool.packet(&[0; 60]).expect("a buffer").into_raw()).collect();
            // SAFETY: the packet came from its owner just now.
            let header = unsafe { &mut *packets[at].as_ptr() };
            let (refcnt, nb_segs, ol_flags) = (header.refcnt, header.nb_segs, header.ol_flags);
            change(header);
            // SAFETY: they came from their owners just now.
            let plain = unsafe { are_plain(&packets) };
            (header.refcnt, header.nb_segs, header.ol_flags) = (refcnt, nb_segs, ol_flags);
            // SAFETY: each came from a packet, and is as it was where it matters.
            packets.into_iter().for_each(|p| unsafe { packet::Packet::from_raw(p) }.free());
            plain
        });
        let found: Vec<bool> = found.collect();
        assert!(found.iter().all(|plain| *plain == found[0]), "{found:?}");
        found[0]
    }

    #[test]
    fn only_what_a_batch_cannot_hold_is_not_plain() {
        // SAFETY: there are none.
        assert!(unsafe { are_plain(&[]) });
        assert!(all_plain_with(|_| ()));
        for bit in 1..16 {
            assert!(!all_plain_with(|h| h.refcnt = 1 << bit | 1), "references {bit}");
            assert!(!all_plain_with(|h| h.nb_segs = 1 << bit | 1), "segments {bit}");
        }
        for bit in 0..64 {
            let plain = all_plain_with(|h| h.ol_flags = 1 << bit);
            assert_eq!(plain, raw::RB_NOT_OURS & 1 << bit == 0, "flag {bit}");
        }
        assert!(all_plain_with(|h| (h.data_off, h.port) = (u16::MAX, u16::MAX)));
    }
}
