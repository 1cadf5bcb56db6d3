//! Receive and transmit queues: the way in and out of every packet.
#![allow(unsafe_code)]

use crate::pool::DpdkPool;
use crate::raw;
use io::{RxQueue, TxQueue};
use packet::{Batch, Header, Packet, Pool};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Drivers with vector code return nothing when asked for fewer packets than a step of theirs.
const LEAST: usize = 32;
/// The shortest frame that can be sent: an Ethernet header.
const SHORTEST: u16 = 14;

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
    /// Packets received but not yet asked for.
    ahead: Batch,
    losses: [(&'static str, u64); 2],
}

impl DpdkRx {
    pub(crate) fn new(place: Place, reads: Box<[u16]>) -> DpdkRx {
        DpdkRx { place, reads, turn: 0, ahead: Batch::empty(), losses: [("oversized", 0), ("no_buffer", 0)] }
    }

    /// Receives behind what is in the batch.
    #[inline]
    fn receive(&mut self, batch: &mut Batch, max: usize) {
        if self.reads.len() > 1 {
            self.turn = (self.turn + 1) % self.reads.len();
            self.place.queue = self.reads[self.turn];
        }
        let DpdkRx { place, losses, .. } = self;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let room = slots.len() as u16;
            // SAFETY: the queue is ours alone and its port is open; there is room for as many pointers.
            let n = unsafe { raw::rb_rx_burst(place.port, place.queue, slots.as_mut_ptr().cast(), room) };
            let got = &mut slots[..usize::from(n.min(room))];
            // SAFETY: the driver wrote n pointers to packets that are ours now.
            let got: &mut [NonNull<Header>] =
                unsafe { std::slice::from_raw_parts_mut(got.as_mut_ptr().cast(), got.len()) };
            if prepare(got, place.pool.raw().as_ptr().cast()) { got.len() } else { own(got, place, losses) }
        };
        // SAFETY: after `prepare` or `own` each pointer is a packet of its own in one buffer of our pool; the driver
        // set its offsets and lengths.
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

/// Clears flags and marks, and the hash where the device computed none. True if all are plain: one segment, unshared, in
/// a buffer of `pool` itself. Stays within the first cache line of each header.
#[inline]
fn prepare(packets: &mut [NonNull<Header>], pool: *mut c_void) -> bool {
    let mut plain = true;
    for packet in packets {
        // SAFETY: the driver gave us the packet, so its header is live and ours.
        let h = unsafe { packet.as_mut() };
        plain &= h.refcnt == 1 && h.nb_segs == 1 && h.pool == pool && h.ol_flags & raw::RB_NOT_OURS == 0;
        if h.ol_flags & raw::RB_RX_RSS_HASH == 0 {
            h.hash_lo = 0;
        }
        // Nobody reads what the device found out, and nothing may ask the device for anything at transmit.
        h.ol_flags = 0;
        h.port = 0;
        h.packet_type = 0;
        h.vlan_tci = 0;
        h.vlan_tci_outer = 0;
        h.hash_hi = 0;
    }
    plain
}

/// Copies packets that are not plain into buffers of their own; loses those that do not fit. Returns how many are
/// left, in order, at the front.
#[cold]
fn own(packets: &mut [NonNull<Header>], place: &Place, losses: &mut [(&'static str, u64); 2]) -> usize {
    let pool = place.pool.raw().as_ptr();
    let mut kept = 0;
    for i in 0..packets.len() {
        let mut packet = packets[i];
        if !prepare(&mut packets[i..=i], pool.cast()) {
            let mut too_long = 0;
            // SAFETY: the packet is ours; it is freed by the call.
            let copy = unsafe { raw::rb_own(pool, packet.as_ptr().cast(), &raw mut too_long) };
            let Some(copy) = NonNull::new(copy.cast::<Header>()) else {
                losses[usize::from(too_long == 0)].1 += 1;
                continue;
            };
            packet = copy;
            prepare(std::slice::from_mut(&mut packet), pool.cast());
        }
        packets[kept] = packet;
        kept += 1;
    }
    kept
}

/// A transmit queue.
pub(crate) struct DpdkTx {
    place: Place,
    /// Packets that cannot be frames; counted with the port's errors.
    refused: Arc<AtomicU64>,
}

impl DpdkTx {
    pub(crate) fn new(place: Place, refused: Arc<AtomicU64>) -> DpdkTx {
        DpdkTx { place, refused }
    }

    /// Hands packets from the front of the batch to the driver; none if one of them is not sendable.
    #[inline]
    fn send(&self, batch: &mut Batch) -> Option<usize> {
        let pool = self.place.pool.raw().as_ptr().cast();
        let mut good = true;
        let send = |packets: &mut [NonNull<Header>]| {
            // SAFETY: the batch owns the packets, so their headers are live.
            good = packets.iter().fold(true, |all, p| all & sendable(unsafe { p.as_ref() }, pool));
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
            let ours = sendable(unsafe { raw.as_ref() }, self.place.pool.raw().as_ptr().cast());
            // SAFETY: the pointer came from a packet just now.
            let packet = unsafe { Packet::from_raw(raw) };
            if ours {
                batch.push(packet);
                continue;
            }
            let frame = packet.len() >= usize::from(SHORTEST);
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

/// True if the packet is a frame in a buffer of `pool`.
#[inline]
fn sendable(header: &Header, pool: *mut c_void) -> bool {
    (header.pool == pool) & (header.data_len >= SHORTEST)
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
