//! Receive and transmit queues: the way in and out of every packet.
#![allow(unsafe_code)]

use crate::ops::Ops;
use crate::plain::are_plain;
use crate::pool::DpdkPool;
use crate::raw;
use io::linux::Interface;
use io::{Received, Refusal, Refusals, RxQueue, Sent, TxQueue};
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
    pub ops: Ops,
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
    /// Whoever asks for enough gets what the driver brings: there is nothing ahead.
    is_straight: bool,
    /// The device computes flow hashes.
    hashes: bool,
    place: Place,
    losses: [(&'static str, u64); 2],
}

impl DpdkRx {
    pub(crate) fn new(place: Place, hashes: bool) -> DpdkRx {
        DpdkRx {
            is_straight: true,
            place,
            hashes,
            ahead: Batch::empty(),
            losses: [("oversized", 0), ("no_buffer", 0)],
        }
    }

    /// Receives up to `max` packets, which the driver takes to be many.
    #[inline(always)]
    fn receive(&mut self, max: usize) -> Received {
        let mut lost = 0;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let Place { ops, queue, .. } = self.place;
            // SAFETY: the queue is ours alone and its port is open; there is room for as many pointers.
            let n = unsafe { ops.receive(queue, slots.as_mut_ptr().cast(), slots.len() as u16) };
            let n = usize::from(n);
            // SAFETY: the driver wrote n pointers, no more than it was asked for, to packets that are ours now.
            let got: &mut [NonNull<Header>] =
                unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), n) };
            let due = if self.hashes { Settle::KeepHash } else { Settle::ClearHash };
            // SAFETY: the driver gave us the packets, so their headers are live and ours.
            if unsafe { are_plain(got) } {
                return (n, due);
            }
            let kept;
            (kept, lost) = own(got, &self.place, &mut self.losses);
            (kept, due)
        };
        // SAFETY: after `are_plain` or `own` each pointer is a packet of its own in one buffer of its own; drivers take
        // buffers from the pool that their queue was set up with, which is ours, and set offsets and lengths.
        let batch = unsafe { Batch::receive_raw(max, fill) };
        Received { batch, lost }
    }
}

impl RxQueue for DpdkRx {
    #[inline]
    fn rx(&mut self, max: usize) -> Received {
        if max >= LEAST && self.is_straight { self.receive(max) } else { self.rx_otherwise(max) }
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

impl DpdkRx {
    /// Receives fewer packets than drivers may give at once.
    #[inline(never)]
    fn rx_otherwise(&mut self, max: usize) -> Received {
        let mut got = Received::default();
        if self.ahead.is_empty() {
            got = self.receive(max.max(LEAST));
            self.ahead = std::mem::take(&mut got.batch);
        }
        let rest = self.ahead.split_off(max);
        self.is_straight = rest.is_empty();
        Received { batch: std::mem::replace(&mut self.ahead, rest), ..got }
    }
}

impl Drop for DpdkRx {
    fn drop(&mut self) {
        std::mem::take(&mut self.ahead).free();
    }
}

/// Copies packets that are not plain into buffers of their own; loses those that do not fit. Those that are left stand
/// at the front, in order; returns how many, and how many are lost.
#[cold]
#[inline(never)]
fn own(
    packets: &mut [NonNull<Header>],
    place: &Place,
    losses: &mut [(&'static str, u64); 2],
) -> (usize, usize) {
    let pool = place.pool.raw().as_ptr();
    let mut kept = 0;
    for i in 0..packets.len() {
        let mut packet = packets[i];
        // SAFETY: as in `receive`.
        if !unsafe { are_plain(&[packet]) } {
            let mut too_long = 0;
            // SAFETY: the packet is ours; it is freed by the call.
            let copy = unsafe { raw::rb_own(pool, packet.as_ptr().cast(), &raw mut too_long) };
            let Some(copy) = NonNull::new(copy.cast::<Header>()) else {
                losses[usize::from(too_long == 0)].1 += 1;
                continue;
            };
            packet = copy;
        }
        packets[kept] = packet;
        kept += 1;
    }
    (kept, packets.len() - kept)
}

/// A transmit queue.
#[repr(C, align(64))]
pub(crate) struct DpdkTx {
    /// The device is hardware: too short a frame may make it stop sending.
    strict: bool,
    place: Place,
    /// Packets that could not be sent, by reason.
    refusals: Refusals,
    /// All of them; counted with the port's errors.
    refused: Arc<AtomicU64>,
    device: Mtu,
}

/// Where the MTU of a device is found.
pub(crate) struct Mtu {
    pub id: u16,
    /// The Linux interface below, where there is one: DPDK does not hear of changes.
    pub interface: Option<Interface>,
}

impl Mtu {
    /// Largest IP packet in bytes now.
    pub(crate) fn mtu(&self) -> u32 {
        if let Some(mtu) = self.interface.as_ref().and_then(|interface| interface.mtu().ok()) {
            return mtu;
        }
        let mut mtu = 0;
        // SAFETY: points to a number; the port number is checked by DPDK.
        let code = unsafe { raw::rte_eth_dev_get_mtu(self.id, &raw mut mtu) };
        if code == 0 { mtu.into() } else { u32::from(u16::MAX) }
    }
}

impl DpdkTx {
    pub(crate) fn new(place: Place, strict: bool, refused: Arc<AtomicU64>, device: Mtu) -> DpdkTx {
        DpdkTx { place, strict, refusals: Refusals::default(), refused, device }
    }

    /// The pool as a header names it.
    #[inline]
    fn pool(&self) -> *mut c_void {
        self.place.pool.raw().as_ptr().cast()
    }

    /// True if the driver may have all of them.
    #[inline(always)]
    fn can_send(&self, batch: &Batch) -> bool {
        (!packet::heap_used() || self.all_ours(batch)) && (!self.strict || all_of(batch.as_raw(), is_frame))
    }

    #[inline(never)]
    fn all_ours(&self, batch: &Batch) -> bool {
        let pool = self.pool();
        all_of(batch.as_raw(), |h| h.pool == pool)
    }

    #[cold]
    #[inline(never)]
    fn mend_and_send(&mut self, mut batch: Batch) -> Sent {
        let unfit = self.mend(&mut batch);
        let sent = self.send(batch);
        Sent { packets: unfit + sent.packets, refused: unfit + sent.refused, rest: sent.rest }
    }

    /// The driver took none of these packets. Drops those at the front that are longer than the device sends, since some
    /// drivers would refuse them for ever, and tries again.
    #[cold]
    #[inline(never)]
    fn refuse_long(&mut self, mut batch: Batch) -> Sent {
        let longest = self.device.mtu() as usize + io::FRAME_EXTRA;
        let long = batch.iter().take_while(|packet| packet.len() > longest).count();
        let rest = batch.split_off(long);
        batch.free();
        self.count(Refusal::Oversized, long);
        let sent =
            if long > 0 && !rest.is_empty() { self.send(rest) } else { Sent { rest, ..Sent::default() } };
        Sent { packets: long + sent.packets, refused: long + sent.refused, rest: sent.rest }
    }

    fn count(&mut self, why: Refusal, packets: usize) {
        self.refusals[why] += packets as u64;
        self.refused.fetch_add(packets as u64, Ordering::Relaxed);
    }

    /// Hands packets, of which each is sendable, to the driver.
    #[inline(always)]
    fn send(&mut self, batch: Batch) -> Sent {
        let send = |packets: &mut [NonNull<Header>]| {
            let Place { ops, queue, .. } = self.place;
            // SAFETY: the queue is ours alone and its port is open. All packets are unshared, of one segment, without
            // flags that ask the driver for anything, and of our pool: `can_send` or `mend` saw to that, or no heap buffer
            // has ever been, and then all are of the only other pool that a process has (its name admits no second one).
            let n = unsafe { ops.send(queue, packets.as_mut_ptr().cast(), packets.len() as u16) };
            usize::from(n)
        };
        // SAFETY: the driver takes the first n packets and leaves the others alone; C does not unwind.
        let (packets, rest) = unsafe { batch.send_raw(send) };
        if packets == 0 && !rest.is_empty() {
            return self.refuse_long(rest);
        }
        Sent { packets, refused: 0, rest }
    }

    /// Makes every packet sendable: copies those of other pools, drops and counts those that are no frames or find no
    /// buffer. Returns how many were dropped.
    fn mend(&mut self, batch: &mut Batch) -> usize {
        let pool = Pool::new(self.place.pool.clone());
        let (mut bad, mut no_buffer) = (0, 0);
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
            match frame.then(|| pool.packet(packet.data())) {
                Some(Some(copy)) => batch.push(copy),
                Some(None) => no_buffer += 1,
                None => bad += 1,
            }
            packet.free();
        }
        self.count(Refusal::BadFrame, bad);
        self.count(Refusal::NoBuffer, no_buffer);
        bad + no_buffer
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
    fn tx(&mut self, batch: Batch) -> Sent {
        if !self.can_send(&batch) {
            return self.mend_and_send(batch);
        }
        self.send(batch)
    }

    fn refusals(&self) -> Refusals {
        self.refusals
    }
}
