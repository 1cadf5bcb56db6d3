//! Receive and transmit queues: the way in and out of every packet.
#![allow(unsafe_code)]

use crate::pool::DpdkPool;
use crate::raw;
use io::{Moved, RxQueue, TxQueue};
use packet::{Batch, Header, Packet, Pool, Settle};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Drivers with vector code return nothing when asked for fewer packets than a step of theirs.
const LEAST: usize = 32;
/// The shortest frame that can be sent: an Ethernet header.
const SHORTEST: u16 = 14;

const _: () = assert!(packet::RX_RSS_HASH == raw::RB_RX_RSS_HASH);

/// Which queue of which port, and what keeps both usable.
#[repr(C)]
pub(crate) struct Place {
    pub port: u16,
    pub queue: u16,
    pub pool: Arc<DpdkPool>,
    /// The port does not close while a queue holds a clone of this. Last, so that it is let go of last.
    pub _alive: Arc<()>,
}

/// A receive queue; what each burst uses comes first.
#[repr(C, align(64))]
pub(crate) struct DpdkRx {
    /// Packets received but not yet asked for.
    ahead: Batch,
    /// The device computes flow hashes.
    hashes: bool,
    /// The device's queues that this one reads, in turn; nearly always one.
    reads: Box<[u16]>,
    place: Place,
    turn: usize,
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

    /// Receives a batch; `moved` becomes what that was.
    #[inline(always)]
    fn receive(&mut self, max: usize, moved: &mut Moved) -> Batch {
        if self.reads.len() > 1 {
            self.turn = (self.turn + 1) % self.reads.len();
            self.place.queue = self.reads[self.turn];
        }
        let due = if self.hashes { Settle::KeepHash } else { Settle::ClearHash };
        let DpdkRx { place, losses, .. } = self;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let room = slots.len() as u16;
            // SAFETY: the queue is ours alone and its port is open; there is room for as many pointers.
            let n = unsafe { raw::rb_rx_burst(place.port, place.queue, slots.as_mut_ptr().cast(), room) };
            let n = usize::from(n.min(room));
            // SAFETY: the driver wrote n pointers, at most as many as there is room for, to packets that are ours now.
            let got: &mut [NonNull<Header>] =
                unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), n) };
            *moved = if are_plain(got) { Moved { packets: n, lost: 0 } } else { own(got, place, losses) };
            moved.packets
        };
        // SAFETY: after `are_plain` or `own` each pointer is a packet of its own in one buffer of its own; drivers take
        // buffers from the pool that their queue was set up with, which is ours, and set offsets and lengths.
        unsafe { Batch::receive_raw(max, due, fill) }
    }
}

impl RxQueue for DpdkRx {
    #[inline]
    fn rx(&mut self, batch: &mut Batch, max: usize) -> Moved {
        if max < LEAST || !batch.is_empty() || !self.ahead.is_empty() {
            return self.rx_few(batch, max);
        }
        let mut moved = Moved::default();
        *batch = self.receive(max, &mut moved);
        moved
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

impl DpdkRx {
    /// Receives fewer than drivers may give at once, or behind packets.
    #[cold]
    fn rx_few(&mut self, batch: &mut Batch, max: usize) -> Moved {
        let mut got = Moved::default();
        if self.ahead.is_empty() {
            self.ahead = self.receive(LEAST, &mut got);
        }
        let rest = self.ahead.split_off(max.min(batch.room()));
        let moved = Moved { lost: got.lost, ..Moved::all(&self.ahead) };
        batch.append(&mut self.ahead);
        self.ahead = rest;
        moved
    }
}

impl Drop for DpdkRx {
    fn drop(&mut self) {
        std::mem::take(&mut self.ahead).free();
    }
}

/// True if all packets from the driver are plain: one segment, unshared, the buffer's own memory.
#[inline(always)]
fn are_plain(packets: &[NonNull<Header>]) -> bool {
    let (mut counts, mut flags) = (PLAIN, 0);
    for packet in packets {
        // SAFETY: the driver gave us the packet, so its header is live and ours.
        let h = unsafe { packet.as_ref() };
        // One load, and no more than that: these two a driver leaves as they are in the pool, but what it stores field
        // by field, a load of several fields would wait for.
        counts |= u32::from(h.refcnt) | u32::from(h.nb_segs) << 16;
        flags |= h.ol_flags;
    }
    // References and segments are never 0, so if all together have no other bit than 1, each is 1.
    counts == PLAIN && flags & raw::RB_NOT_OURS == 0
}

/// One reference, one segment.
const PLAIN: u32 = 0x0001_0001;

/// Copies packets that are not plain into buffers of their own; loses those that do not fit. Those that are left stand
/// at the front, in order.
#[cold]
fn own(packets: &mut [NonNull<Header>], place: &Place, losses: &mut [(&'static str, u64); 2]) -> Moved {
    let pool = place.pool.raw().as_ptr();
    let mut moved = Moved::default();
    for i in 0..packets.len() {
        let mut packet = packets[i];
        if !are_plain(&[packet]) {
            let mut too_long = 0;
            // SAFETY: the packet is ours; it is freed by the call.
            let copy = unsafe { raw::rb_own(pool, packet.as_ptr().cast(), &raw mut too_long) };
            let Some(copy) = NonNull::new(copy.cast::<Header>()) else {
                losses[usize::from(too_long == 0)].1 += 1;
                moved.lost += 1;
                continue;
            };
            packet = copy;
        }
        packets[moved.packets] = packet;
        moved.packets += 1;
    }
    moved
}

/// A transmit queue.
#[repr(C, align(64))]
pub(crate) struct DpdkTx {
    /// The device is hardware: too short a frame may make it stop sending.
    strict: bool,
    place: Place,
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

    /// True if the driver may have all of them.
    #[inline]
    fn can_send(&self, packets: &[NonNull<Header>]) -> bool {
        (!packet::heap_used() || self.all_ours(packets)) && (!self.strict || all_of(packets, is_frame))
    }

    #[inline(never)]
    fn all_ours(&self, packets: &[NonNull<Header>]) -> bool {
        let pool = self.pool();
        all_of(packets, |h| h.pool == pool)
    }

    #[cold]
    fn mend_and_send(&mut self, batch: &mut Batch) -> Moved {
        let mut gone = self.mend(batch);
        // Not back here: all that is left can be sent.
        gone += self.tx(batch);
        gone
    }

    /// Hands packets from the front of the batch to the driver; none if one of them is not sendable.
    #[inline(always)]
    fn send(&self, batch: &mut Batch) -> Option<Moved> {
        let mut good = true;
        let send = |packets: &mut [NonNull<Header>]| {
            good = self.can_send(packets);
            if !good {
                return 0;
            }
            // SAFETY: the queue is ours alone and its port is open. All packets are unshared, of one segment, without
            // flags that ask the driver for anything, and of our pool: `can_send` saw to that, or no heap buffer has ever
            // been, and then all are of the only other pool that a process has (its name admits no second one).
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
        let packets = unsafe { batch.send_raw(send) };
        good.then_some(Moved { packets, lost: 0 })
    }

    /// Makes every packet sendable: copies those of other pools, drops and counts those that are no frames or find no
    /// buffer. Returns what was dropped.
    #[cold]
    fn mend(&self, batch: &mut Batch) -> Moved {
        let pool = Pool::new(self.place.pool.clone());
        let mut dropped = Moved::default();
        for packet in std::mem::take(batch) {
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
            match frame.then(|| pool.packet(packet.data())).flatten() {
                Some(copy) => batch.push(copy),
                None => dropped.packets += 1,
            }
            packet.free();
        }
        self.refused.fetch_add(dropped.packets as u64, Ordering::Relaxed);
        dropped
    }
}

/// True if all headers are as asked for.
#[inline]
fn all_of(packets: &[NonNull<Header>], mut good: impl FnMut(&Header) -> bool) -> bool {
    // SAFETY: the caller owns the packets, so their headers are live.
    let mut good = |p: &NonNull<Header>| good(unsafe { p.as_ref() });
    let (fours, rest) = packets.as_chunks::<4>();
    fours.iter().all(|[a, b, c, d]| good(a) && good(b) && good(c) && good(d)) && rest.iter().all(good)
}

/// True if the packet has at least an Ethernet header.
#[inline]
fn is_frame(header: &Header) -> bool {
    header.data_len >= SHORTEST
}

impl TxQueue for DpdkTx {
    #[inline]
    fn tx(&mut self, batch: &mut Batch) -> Moved {
        self.send(batch).unwrap_or_else(|| self.mend_and_send(batch))
    }
}
