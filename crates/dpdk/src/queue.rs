//! Receive and transmit queues: the way in and out of every packet.
#![allow(unsafe_code)]

use crate::pool::DpdkPool;
use crate::raw;
use io::{RxQueue, TxQueue};
use packet::{Batch, Header, Packet, Pool};
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Drivers with vector code return nothing when asked for fewer packets than a step of theirs.
const LEAST: usize = 32;
/// The shortest frame that can be sent: an Ethernet header.
const SHORTEST: u16 = 14;

/// The header as little-endian words: fewer instructions than field by field, which shows at 30 cycles a packet.
const WORDS: usize = size_of::<Header>() / 8;
/// `data_off`, `refcnt`, `nb_segs`, `port`.
const REARM: usize = offset_of!(Header, data_off) / 8;
const FLAGS: usize = offset_of!(Header, ol_flags) / 8;
/// `data_len`, `vlan_tci`, `hash_lo`.
const LENGTH: usize = offset_of!(Header, data_len) / 8;
/// `hash_hi`, `vlan_tci_outer`, `buf_len`.
const HASH_HI: usize = offset_of!(Header, hash_hi) / 8;
/// One reference, one segment.
const ALONE: u64 = 1 << 16 | 1 << 32;
const ALONE_MASK: u64 = 0xffff_ffff << 16;
const VLAN_TCI: u64 = 0xffff << 16;
const HASH_LO: u64 = 0xffff_ffff << 32;
const HASH_HI_AND_OUTER: u64 = 0xffff_ffff_ffff;
const _: () = {
    assert!(cfg!(target_endian = "little"));
    assert!(offset_of!(Header, refcnt) == 18 && offset_of!(Header, nb_segs) == 20);
    assert!(offset_of!(Header, vlan_tci) == 42 && offset_of!(Header, hash_lo) == 44);
    assert!(offset_of!(Header, vlan_tci_outer) == 52);
};

/// Which queue of which port, and what keeps both usable.
pub(crate) struct Place {
    pub port: u16,
    pub queue: u16,
    pub pool: Arc<DpdkPool>,
    /// The port does not close while a queue holds a clone of this. Last, so that it is let go of last.
    pub _alive: Arc<()>,
}

/// A receive queue.
pub(crate) struct DpdkRx {
    place: Place,
    /// The device's queues that this one reads, in turn; nearly always one.
    reads: Box<[u16]>,
    turn: usize,
    /// The device computes flow hashes.
    hashes: bool,
    /// Packets received but not yet asked for.
    ahead: Batch,
    losses: [(&'static str, u64); 2],
}

impl DpdkRx {
    pub(crate) fn new(place: Place, reads: Box<[u16]>, hashes: bool) -> DpdkRx {
        DpdkRx {
            place,
            reads,
            turn: 0,
            hashes,
            ahead: Batch::empty(),
            losses: [("oversized", 0), ("no_buffer", 0)],
        }
    }

    /// Receives behind what is in the batch.
    #[inline]
    fn receive(&mut self, batch: &mut Batch, max: usize) {
        if self.reads.len() > 1 {
            self.turn = (self.turn + 1) % self.reads.len();
            self.place.queue = self.reads[self.turn];
        }
        let hashes = self.hashes;
        let DpdkRx { place, losses, .. } = self;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let room = slots.len() as u16;
            // SAFETY: the queue is ours alone and its port is open; there is room for as many pointers.
            let n = unsafe { raw::rb_rx_burst(place.port, place.queue, slots.as_mut_ptr().cast(), room) };
            let got = &mut slots[..usize::from(n.min(room))];
            // SAFETY: the driver wrote n pointers to packets that are ours now.
            let got: &mut [NonNull<Header>] =
                unsafe { std::slice::from_raw_parts_mut(got.as_mut_ptr().cast(), got.len()) };
            let plain = match hashes {
                _ if got.is_empty() => true,
                true => prepare::<true>(got),
                false => prepare::<false>(got),
            };
            if plain { got.len() } else { own(got, place, losses) }
        };
        // SAFETY: after `prepare` or `own` each pointer is a packet of its own in one buffer of its own; drivers take
        // buffers from the pool that their queue was set up with, which is ours, and set offsets and lengths.
        unsafe { batch.fill_raw(max, fill) };
    }
}

impl RxQueue for DpdkRx {
    #[inline]
    fn rx(&mut self, batch: &mut Batch, max: usize) -> usize {
        let before = batch.len();
        if self.ahead.is_empty() && max.min(batch.room()) >= LEAST {
            self.receive(batch, max);
        } else {
            self.rx_few(batch, max);
        }
        batch.len() - before
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

impl DpdkRx {
    #[cold]
    fn rx_few(&mut self, batch: &mut Batch, max: usize) {
        if self.ahead.is_empty() {
            let mut ahead = Batch::empty();
            self.receive(&mut ahead, LEAST);
            self.ahead = ahead;
        }
        let rest = self.ahead.split_off(max.min(batch.room()));
        batch.append(&mut self.ahead);
        self.ahead = rest;
    }
}

impl Drop for DpdkRx {
    fn drop(&mut self) {
        std::mem::take(&mut self.ahead).free();
    }
}

/// Marks the MAC header and clears the other marks, and the hash unless the device computed it (never if not `HASHES`). True if all are plain: one
/// segment, unshared, the buffer's own memory. Stays within the first cache line of each header.
///
/// What the driver noted in `ol_flags` stays; it notes only facts of receive there, and those that ask a device for
/// something at transmit are other bits.
#[inline]
fn prepare<const HASHES: bool>(packets: &mut [NonNull<Header>]) -> bool {
    // References and segments are never 0, so if all together have no other bit than 1, each is 1.
    let (mut rearm, mut flags) = (0, 0);
    let mut one = |packet: &mut NonNull<Header>| {
        // SAFETY: the driver gave us the packet, so its header is live and ours, and a header is that many words.
        let words = unsafe { packet.cast::<[u64; WORDS]>().as_mut() };
        rearm |= words[REARM];
        flags |= words[FLAGS];
        let hash = if HASHES && words[FLAGS] & raw::RB_RX_RSS_HASH != 0 { 0 } else { HASH_LO };
        words[LENGTH] &= !(VLAN_TCI | hash);
        words[HASH_HI] &= !HASH_HI_AND_OUTER;
        // SAFETY: as above; `words` is not used any more.
        let h = unsafe { packet.as_mut() };
        h.port = h.data_off;
        h.packet_type = 0;
    };
    let (fours, rest) = packets.as_chunks_mut::<4>();
    fours.iter_mut().flatten().for_each(&mut one);
    rest.iter_mut().for_each(&mut one);
    rearm & ALONE_MASK == ALONE && flags & raw::RB_NOT_OURS == 0
}

/// Copies packets that are not plain into buffers of their own; loses those that do not fit. Returns how many are
/// left, in order, at the front.
#[cold]
fn own(packets: &mut [NonNull<Header>], place: &Place, losses: &mut [(&'static str, u64); 2]) -> usize {
    let pool = place.pool.raw().as_ptr();
    let mut kept = 0;
    for i in 0..packets.len() {
        let mut packet = packets[i];
        // The marks were cleared already; asking again only tells whether this one is plain.
        if !prepare::<true>(&mut packets[i..=i]) {
            let mut too_long = 0;
            // SAFETY: the packet is ours; it is freed by the call.
            let copy = unsafe { raw::rb_own(pool, packet.as_ptr().cast(), &raw mut too_long) };
            let Some(copy) = NonNull::new(copy.cast::<Header>()) else {
                losses[usize::from(too_long == 0)].1 += 1;
                continue;
            };
            packet = copy;
            prepare::<true>(std::slice::from_mut(&mut packet));
        }
        packets[kept] = packet;
        kept += 1;
    }
    kept
}

/// A transmit queue.
pub(crate) struct DpdkTx {
    place: Place,
    /// The device is hardware: too short a frame may make it stop sending.
    strict: bool,
    /// Packets that could not be sent; counted with the port's errors.
    refused: Arc<AtomicU64>,
}

impl DpdkTx {
    pub(crate) fn new(place: Place, strict: bool, refused: Arc<AtomicU64>) -> DpdkTx {
        DpdkTx { place, strict, refused }
    }

    /// The pool as a header names it.
    #[inline]
    fn pool(&self) -> *mut c_void {
        self.place.pool.raw().as_ptr().cast()
    }

    /// Hands packets from the front of the batch to the driver; none if one of them is not sendable.
    #[inline]
    fn send(&self, batch: &mut Batch) -> Option<usize> {
        let pool = self.pool();
        let mut good = true;
        let send = |packets: &mut [NonNull<Header>]| {
            good = all_of(packets, |h| h.pool == pool) && (!self.strict || all_of(packets, is_frame));
            if !good {
                return 0;
            }
            // SAFETY: the queue is ours alone and its port is open. All packets are of our pool, unshared and of one
            // segment, without flags that ask the driver for anything.
            let n = unsafe {
                raw::rb_tx_burst(
                    self.place.port,
                    self.place.queue,
                    packets.as_mut_ptr().cast(),
                    packets.len() as u16,
                )
            };
            usize::from(n)
        };
        // SAFETY: the driver takes the first n packets and leaves the others alone.
        let sent = unsafe { batch.send_raw(send) };
        good.then_some(sent)
    }

    /// Makes every packet sendable: copies those of other pools, drops and counts those that are no frames or find no
    /// buffer. Returns how many were dropped.
    #[cold]
    fn mend(&self, batch: &mut Batch) -> usize {
        let pool = Pool::new(self.place.pool.clone());
        let old = std::mem::take(batch);
        let count = old.len();
        for packet in old {
            let raw = packet.into_raw();
            // SAFETY: we own the packet.
            let header = unsafe { raw.as_ref() };
            let good = header.pool == self.pool() && (!self.strict || is_frame(header));
            let frame = is_frame(header);
            // SAFETY: the pointer came from a packet just now.
            let packet = unsafe { Packet::from_raw(raw) };
            if good {
                batch.push(packet);
                continue;
            }
            if let Some(copy) = frame.then(|| pool.packet(packet.data())).flatten() {
                batch.push(copy);
            }
            packet.free();
        }
        let dropped = count - batch.len();
        self.refused.fetch_add(dropped as u64, Ordering::Relaxed);
        dropped
    }
}

/// True if all headers are as asked for.
#[inline]
fn all_of(packets: &[NonNull<Header>], good: impl Fn(&Header) -> bool) -> bool {
    // SAFETY: the caller owns the packets, so their headers are live.
    let good = |p: &NonNull<Header>| good(unsafe { p.as_ref() });
    let (fours, rest) = packets.as_chunks::<4>();
    fours.iter().all(|f| good(&f[0]) && good(&f[1]) && good(&f[2]) && good(&f[3])) && rest.iter().all(good)
}

/// True if the packet has at least an Ethernet header.
#[inline]
fn is_frame(header: &Header) -> bool {
    header.data_len >= SHORTEST
}

impl TxQueue for DpdkTx {
    #[inline]
    fn tx(&mut self, batch: &mut Batch) -> usize {
        match self.send(batch) {
            Some(sent) => sent,
            None => {
                let dropped = self.mend(batch);
                dropped + self.send(batch).unwrap_or(0)
            }
        }
    }
}
