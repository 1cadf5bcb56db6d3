//! One end of a ring as a port.

use super::attachment::Attachment;
use super::indices::{Consumer, Producer};
use super::memory::Side;
use crate::port::{Limits, Link, Port, PortStats, Received, RxQueue, Sent, TxQueue};
use crate::refusal::{Refusal, Refusals};
use packet::wire::ethernet::Mac;
use packet::{Batch, Packet, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a sender asks whether the other end is there, while that takes nothing.
const LOOK: Duration = Duration::from_millis(1);
/// Why received packets are given up.
const LOSSES: [&str; 1] = ["rx_error"];

/// An end of a ring that is taken.
#[derive(Debug)]
pub struct RingPort {
    name: String,
    mtu: u16,
    pool: Pool,
    shared: Arc<Shared>,
    rx_taken: AtomicBool,
    tx_taken: AtomicBool,
}

/// What the port has in common with its queues.
#[derive(Debug)]
struct Shared {
    end: Attachment,
    counts: Counts,
}

/// See [`PortStats`]. Each is written by one queue.
#[derive(Debug, Default)]
struct Counts {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_errors: AtomicU64,
    rx_no_buffer: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
    /// Of these, packets that could be no frame of the ring.
    tx_oversized: AtomicU64,
}

/// Counts more, where nobody else writes.
#[inline]
fn add(count: &AtomicU64, more: usize) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more as u64), Ordering::Relaxed);
}

/// Packets of a batch, or bytes of a packet, which are at most 65,535.
#[inline]
fn number(small: usize) -> u32 {
    u32::try_from(small).unwrap_or(u32::MAX)
}

impl RingPort {
    /// The port that a configuration calls by this name; received packets go into buffers of the pool.
    pub fn new(name: &str, mtu: u16, pool: Pool, end: Attachment) -> RingPort {
        RingPort {
            name: name.to_owned(),
            mtu,
            pool,
            shared: Arc::new(Shared { end, counts: Counts::default() }),
            rx_taken: AtomicBool::new(false),
            tx_taken: AtomicBool::new(false),
        }
    }
}

impl Port for RingPort {
    fn name(&self) -> &str {
        &self.name
    }

    /// Two addresses for the two ends, the same each time.
    fn mac(&self) -> Option<Mac> {
        let hash = self.shared.end.path_hash().to_be_bytes();
        let side = u8::from(self.shared.end.side() == Side::Second);
        // Administered locally, and not a group's.
        Some([2, hash[0], hash[1], hash[2], hash[3], hash[4] & !1 | side])
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn link(&self) -> Link {
        Link { up: self.shared.end.look_for_peer(), speed_mbps: None, full_duplex: true }
    }

    fn stats(&self) -> PortStats {
        let counts = &self.shared.counts;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PortStats {
            rx_packets: get(&counts.rx_packets),
            rx_bytes: get(&counts.rx_bytes),
            rx_missed: 0,
            rx_errors: get(&counts.rx_errors),
            rx_no_buffer: get(&counts.rx_no_buffer),
            tx_packets: get(&counts.tx_packets),
            tx_bytes: get(&counts.tx_bytes),
            tx_errors: get(&counts.tx_errors),
        }
    }

    fn driver(&self) -> String {
        "ring".to_owned()
    }

    fn queues(&self) -> Limits {
        super::LIMITS
    }

    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>> {
        (queue == 0 && !self.rx_taken.swap(true, Ordering::Relaxed))
            .then(|| Box::new(RingRx::new(self.shared.clone(), self.pool.clone())) as Box<dyn RxQueue>)
    }

    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>> {
        (queue == 0 && !self.tx_taken.swap(true, Ordering::Relaxed))
            .then(|| Box::new(RingTx::new(self.shared.clone())) as Box<dyn TxQueue>)
    }
}

/// How far the memory of frames was asked for before they are copied. What the other end's processor had last takes a hundred
/// cycles and more to come, for each line of a cache; several come at a time.
#[derive(Default)]
struct Ahead {
    /// Frames whose memory was asked for.
    frames: u32,
    /// Bytes that were asked for and not yet copied, as far as it is known.
    bytes: usize,
}

impl Ahead {
    /// So many bytes are enough to be under way.
    const WINDOW: usize = 2048;

    /// Whether to ask for another of so many frames.
    #[inline]
    fn wants(&self, of: u32) -> bool {
        self.frames < of && self.bytes < Ahead::WINDOW
    }

    #[inline]
    fn asked(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes;
    }

    #[inline]
    fn copied(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The receiving half.
struct RingRx {
    shared: Arc<Shared>,
    pool: Pool,
    /// The side that fills what is read here.
    from: Side,
    indices: Consumer,
    losses: [(&'static str, u64); 1],
}

impl RingRx {
    fn new(shared: Arc<Shared>, pool: Pool) -> RingRx {
        let (memory, from) = (shared.end.memory(), shared.end.side().other());
        // What was sent to whoever was here before is not for us.
        let indices = Consumer::resume(memory.geometry().slots, memory.produced(from), memory.consumed(from));
        RingRx { from, indices, pool, losses: LOSSES.map(|why| (why, 0)), shared }
    }

    /// Fills a fresh packet with the `i`th frame that is ready. False if there is none of a length that can be.
    #[inline]
    fn fill(&self, i: u32, packet: &mut Packet) -> bool {
        let (memory, slot) = (self.shared.end.memory(), self.indices.slot(i));
        let length = memory.length(self.from, slot).load(Ordering::Relaxed) as usize;
        if length == 0 || !packet.put(length) {
            return false;
        }
        packet.set_mac_offset(0);
        memory.read(self.from, slot, packet.data_mut())
    }

    /// Something was there that cannot be.
    #[cold]
    fn garbled(&mut self, packets: usize) {
        add(&self.shared.counts.rx_errors, packets);
        self.losses[0].1 += packets as u64;
    }
}

impl RxQueue for RingRx {
    fn rx(&mut self, max: usize) -> Received {
        let memory = self.shared.end.memory();
        let wanted = max.min(Batch::MAX);
        let Some(ready) = self.indices.ready(number(wanted), memory.produced(self.from)) else {
            self.indices.publish(0, memory.consumed(self.from));
            self.garbled(1);
            return Received { batch: Batch::empty(), lost: 1 };
        };
        let count = wanted.min(ready as usize);
        if count == 0 {
            return Received::default();
        }
        let fresh = self.pool.alloc_batch(count);
        let (taken, mut batch, mut bytes) = (fresh.len(), Batch::empty(), 0);
        let mut ahead = Ahead::default();
        for (i, mut packet) in (0..).zip(fresh) {
            while ahead.wants(number(taken)) {
                let slot = self.indices.slot(ahead.frames);
                let length = memory.length(self.from, slot).load(Ordering::Relaxed) as usize;
                memory.expect_read(self.from, slot, length);
                ahead.asked(length);
            }
            if self.fill(i, &mut packet) {
                bytes += packet.len();
                ahead.copied(packet.len());
                batch.push(packet);
            } else {
                packet.free();
            }
        }
        self.indices.publish(number(taken), memory.consumed(self.from));
        let counts = &self.shared.counts;
        add(&counts.rx_packets, batch.len());
        add(&counts.rx_bytes, bytes);
        // They stay where they are until there are buffers.
        add(&counts.rx_no_buffer, count - taken);
        let lost = taken - batch.len();
        if lost > 0 {
            self.garbled(lost);
        }
        Received { batch, lost }
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

/// The sending half.
struct RingTx {
    shared: Arc<Shared>,
    side: Side,
    indices: Producer,
    /// When the system was last asked for the other end.
    looked: Option<Instant>,
}

impl RingTx {
    fn new(shared: Arc<Shared>) -> RingTx {
        let (memory, side) = (shared.end.memory(), shared.end.side());
        let indices = Producer::resume(memory.geometry().slots, memory.produced(side), memory.consumed(side));
        RingTx { side, indices, looked: None, shared }
    }

    /// Whether the other end, which takes nothing, may have been killed; asked now and then.
    #[cold]
    fn has_lost_peer(&mut self) -> bool {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return false;
        }
        self.looked = Some(Instant::now());
        !self.shared.end.look_for_peer()
    }

    /// A wire that leads nowhere takes everything.
    #[cold]
    fn lose(&self, batch: Batch) -> Sent {
        let packets = batch.len();
        add(&self.shared.counts.tx_errors, packets);
        batch.free();
        Sent { packets, refused: packets, rest: Batch::empty() }
    }
}

impl TxQueue for RingTx {
    fn tx(&mut self, mut batch: Batch) -> Sent {
        let memory = self.shared.end.memory();
        if !self.shared.end.has_peer() {
            return self.lose(batch);
        }
        let room = self.indices.room(number(batch.len()), memory.consumed(self.side)) as usize;
        if room < batch.len() && self.has_lost_peer() {
            return self.lose(batch);
        }
        if room == 0 {
            // Nothing is published: whoever asks again and again would take the line from the other end each time.
            return Sent { rest: batch, ..Sent::default() };
        }
        let rest = batch.split_off(room.min(batch.len()));
        let packets = batch.len();
        let (memory, mut filled, mut bytes) = (self.shared.end.memory(), 0, 0);
        let mut ahead = Ahead::default();
        for packet in batch.as_slice() {
            while ahead.wants(number(packets)) {
                let length = batch.as_slice().get(ahead.frames as usize).map_or(0, Packet::len);
                memory.expect_write(self.side, self.indices.slot(ahead.frames), length);
                ahead.asked(length);
            }
            let (frame, slot) = (packet.data(), self.indices.slot(filled));
            if !frame.is_empty() && memory.write(self.side, slot, frame) {
                memory.length(self.side, slot).store(number(frame.len()), Ordering::Relaxed);
                filled += 1;
                bytes += frame.len();
                ahead.copied(frame.len());
            }
        }
        batch.free();
        self.indices.publish(filled, memory.produced(self.side));
        let counts = &self.shared.counts;
        add(&counts.tx_packets, filled as usize);
        add(&counts.tx_bytes, bytes);
        let refused = packets - filled as usize;
        if refused > 0 {
            add(&counts.tx_errors, refused);
            add(&counts.tx_oversized, refused);
        }
        Sent { packets, refused, rest }
    }

    fn refusals(&self) -> Refusals {
        let counts = &self.shared.counts;
        let [all, oversized] =
            [&counts.tx_errors, &counts.tx_oversized].map(|count| count.load(Ordering::Relaxed));
        let mut refusals = Refusals::default();
        refusals[Refusal::Oversized] = oversized;
        refusals[Refusal::LinkDown] = all - oversized;
        refusals
    }
}
