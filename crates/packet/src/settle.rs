//! What is done to headers as a driver leaves them, before anybody looks at the packets.
#![allow(unsafe_code)]

use crate::header::Header;
use std::ptr::NonNull;

/// `RTE_MBUF_F_RX_RSS_HASH`: the device has computed the flow hash.
pub const RX_RSS_HASH: u64 = 1 << 1;

/// Marks the MAC header, clears the other marks and asks for the first bytes of the packet. Stays within the first cache
/// line of each header.
///
/// What the driver noted in `ol_flags` stays; it notes only facts of receive there, and those that ask a device for
/// something at transmit are other bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// The device computes no flow hashes: they are cleared, too.
    ClearHash,
    /// The device computes flow hashes: they are cleared where [`RX_RSS_HASH`] says that there is none.
    KeepHash,
}

impl Settle {
    /// Does so to these headers; `mac`: where the MAC header is, see [`Frame::mac`](crate::frame::Frame::mac).
    ///
    /// # Safety
    /// All are live and the caller's alone.
    #[inline]
    pub(crate) unsafe fn settle(self, headers: &[NonNull<Header>], mac: u16) {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Settle::ClearHash => settle_all::<false>(headers, mac, unmark),
                Settle::KeepHash => settle_all::<true>(headers, mac, unmark),
            }
        }
    }
}

/// Clears the marks behind that of the MAC header. As `Packet::clear_marks`, in the order in which the compiler makes three
/// stores of it.
#[inline(always)]
fn unmark(h: &mut Header) {
    h.prefetch_data();
    (h.packet_type, h.vlan_tci, h.vlan_tci_outer, h.hash_hi) = (0, 0, 0, 0);
}

/// With what `mark` does to each in its turn.
///
/// # Safety
/// See [`Settle::settle`].
#[inline(always)]
pub(crate) unsafe fn settle_all<const HASHES: bool>(
    headers: &[NonNull<Header>],
    mac: u16,
    mark: impl Fn(&mut Header),
) {
    let mut flags = u64::MAX;
    let mut one = |header: &NonNull<Header>| {
        // Field by field: a driver has stored them one by one just now, and a load of several would wait for all.
        // SAFETY: live and the caller's alone.
        let h = unsafe { &mut *header.as_ptr() };
        h.port = h.data_off.wrapping_add(mac);
        mark(h);
        if HASHES {
            flags &= h.ol_flags;
        } else {
            h.hash_lo = 0;
        }
    };
    let (fours, rest) = headers.as_chunks::<4>();
    fours.iter().flatten().for_each(&mut one);
    rest.iter().for_each(&mut one);
    if HASHES && flags & RX_RSS_HASH == 0 {
        // SAFETY: as the caller says.
        unsafe { clear_hashes(headers) };
    }
}

/// Clears the hash of packets for which the device computed none.
///
/// # Safety
/// See [`Settle::settle`].
#[cold]
unsafe fn clear_hashes(headers: &[NonNull<Header>]) {
    for header in headers {
        // SAFETY: live and the caller's alone.
        let h = unsafe { &mut *header.as_ptr() };
        if h.ol_flags & RX_RSS_HASH == 0 {
            h.hash_lo = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Packet, Pool};

    /// Two packets as a driver may leave them, the second without a hash of the device.
    fn received(pool: &Pool, due: Settle) -> Batch {
        let raw = [1, 2].map(|i| {
            let mut packet = pool.packet(&[i; 60]).unwrap();
            let h = packet.header_mut();
            (h.port, h.packet_type, h.vlan_tci) = (7, 0x11, 5);
            (h.hash_lo, h.hash_hi, h.vlan_tci_outer) = (0xabcd, 9, 3);
            h.ol_flags = if i == 1 { RX_RSS_HASH } else { 0 };
            packet.into_raw()
        });
        // SAFETY: both came from packets just now.
        unsafe {
            Batch::receive_raw(8, |slots| {
                slots[0].write(raw[0]);
                slots[1].write(raw[1]);
                (2, due)
            })
        }
    }

    /// Offsets of the marked headers; next hop, destination, flow hash.
    type Marks = ([Option<usize>; 3], [u32; 3]);

    fn marks(batch: &Batch) -> Vec<Marks> {
        let of = |p: &Packet| {
            let marked = [p.mac_offset(), p.network_offset(), p.transport_offset()];
            (marked, [p.next_hop(), p.dst_ip(), p.flow_hash()])
        };
        batch.iter().map(of).collect()
    }

    #[test]
    fn whoever_looks_sees_clean_marks() {
        let pool = Pool::heap(8, 256);
        let clean = |hash| ([Some(0), None, None], [0, 0, hash]);
        for (due, hashes) in [(Settle::ClearHash, [0, 0]), (Settle::KeepHash, [0xabcd, 0])] {
            let batch = received(&pool, due);
            assert_eq!(batch.len(), 2);
            assert_eq!(marks(&batch), hashes.map(clean));
            batch.free();
            let mut batch = received(&pool, due);
            let last = batch.pop().unwrap();
            assert_eq!((last.data()[0], last.flow_hash(), last.mac_offset()), (2, hashes[1], Some(0)));
            batch.push(last);
            assert_eq!(marks(&batch), hashes.map(clean));
            batch.free();
            let packets: Vec<_> = received(&pool, due).into_iter().collect();
            assert_eq!(packets[0].flow_hash(), hashes[0]);
            packets.into_iter().for_each(Packet::free);
        }
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn what_was_marked_since_stays() {
        let pool = Pool::heap(8, 256);
        let mut batch = received(&pool, Settle::ClearHash);
        batch.as_mut_slice()[0].set_dst_ip(77);
        let mut other = received(&pool, Settle::ClearHash);
        batch.append(&mut other);
        assert_eq!(batch.iter().map(Packet::dst_ip).collect::<Vec<_>>(), [77, 0, 0, 0]);
        let more = pool.packet(&[3; 60]).unwrap().into_raw();
        // SAFETY: it came from a packet just now.
        unsafe {
            batch.fill_raw(1, |slots| {
                slots[0].write(more);
                1
            });
        }
        assert_eq!(batch.iter().map(Packet::dst_ip).collect::<Vec<_>>(), [77, 0, 0, 0, 0]);
        assert_eq!(marks(&batch)[..4], [77, 0, 0, 0].map(|dst| ([Some(0), None, None], [0, dst, 0])));
        batch.free();
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn what_is_only_sent_is_not_touched() {
        let pool = Pool::heap(8, 256);
        let batch = received(&pool, Settle::ClearHash);
        // SAFETY: both packets are taken and given back to the pool.
        let (sent, rest) = unsafe {
            batch.send_raw(|raw| {
                for header in &*raw {
                    assert_eq!((header.as_ref().port, header.as_ref().hash_hi), (7, 9));
                    Packet::from_raw(*header).free();
                }
                raw.len()
            })
        };
        assert_eq!((sent, rest.len(), pool.in_use()), (2, 0, 0));
    }

    #[test]
    fn what_was_not_sent_is_settled() {
        let pool = Pool::heap(8, 256);
        let batch = received(&pool, Settle::ClearHash);
        // SAFETY: the first packet is taken and given back to the pool.
        let (sent, rest) = unsafe {
            batch.send_raw(|raw| {
                Packet::from_raw(raw[0]).free();
                1
            })
        };
        assert_eq!((sent, rest.len()), (1, 1));
        assert_eq!(marks(&rest), [([Some(0), None, None], [0, 0, 0])]);
        rest.free();
        assert_eq!(pool.in_use(), 0);
    }
}
