//! What leads out of a node: a link or a line, sent at its rate, shared fairly by input node.

use cluster::fairness::Drr;
use cluster::utilisation::{Bucket, SECOND};
use graph::{Nanos, Out};
use packet::{Batch, Packet};
use std::collections::VecDeque;

/// What Ethernet adds to each frame on the wire: preamble, check sequence and gap.
pub const OVERHEAD: u32 = 24;
/// What may be sent in one go however slow the outlet is: 16 long frames.
const LEAST_BURST: u32 = 16 * (1514 + OVERHEAD);
/// In how many bursts a second an outlet could send at its rate.
const BURSTS: u64 = 10_000;

/// What a frame waits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// With those on their first way, before all others.
    First,
    /// In its fair turn, with others of its input node.
    Fair(u16),
}

/// A link or a line, in its direction out. What is asked for while nothing waits is in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Outlet {
    /// What was sent, draining at the rate: below `burst` there is room.
    bucket: Bucket,
    /// Sent.
    pub packets: u64,
    /// Sent, without [`OVERHEAD`].
    pub bytes: u64,
    waiting: usize,
    now: Nanos,
    /// Bytes that may be sent in one go.
    burst: u32,
    /// The node that it leads to: this one, if it is a line.
    pub node: u16,
    first_bytes: u32,
    /// What goes out at the end of this call.
    staged: Batch,
    /// The output of the element.
    output: usize,
    /// Bits per second.
    rate: u64,
    first: VecDeque<Packet>,
    /// Most packets in `first`, and of each input node in `fair`.
    most: usize,
    /// Most of `first_bytes`, and of each input node's in `fair`.
    limit: u32,
    fair: Drr<Packet>,
}

/// Bytes that a frame takes on the wire.
#[inline]
pub fn length(packet: &Packet) -> u32 {
    // A packet's length has 16 bits.
    packet.len() as u32 + OVERHEAD
}

/// Bytes that may be sent in one go at this rate.
fn burst(rate: u64) -> u32 {
    u32::try_from(rate / 8 / BURSTS).unwrap_or(u32::MAX / 4).clamp(LEAST_BURST, u32::MAX / 4)
}

impl Outlet {
    /// An outlet by this output to this node of this rate, for frames of `inputs` nodes, each of which may have so many bytes and
    /// packets waiting.
    pub fn new((output, node): (usize, u16), rate: u64, inputs: u16, (limit, most): (u32, usize)) -> Outlet {
        let burst = burst(rate);
        Outlet {
            output,
            node,
            rate,
            burst,
            bucket: Bucket::new(rate),
            now: 0,
            first: VecDeque::new(),
            first_bytes: 0,
            limit,
            most,
            fair: Drr::new(inputs.into(), limit).of_packets(most),
            waiting: 0,
            staged: Batch::empty(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Changes the rate.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        self.burst = burst(rate);
        self.bucket.set_rate(rate);
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes that wait.
    pub fn waiting_bytes(&self) -> u64 {
        u64::from(self.first_bytes) + self.fair.bytes()
    }

    /// Lets time pass. To be called before it is asked whether something can go, and before anything is sent but by
    /// [`Outlet::charge_many`].
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        self.now = now;
        self.bucket.advance(now);
    }

    /// Whether a frame can go now.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.room() > 0
    }

    /// Bytes after which it may be that no frame can go; 0 if none can now.
    #[inline]
    pub fn room(&self) -> u32 {
        if self.waiting == 0 { self.burst.saturating_sub(self.bucket.last_level()) } else { 0 }
    }

    /// Whether [`Outlet::send`] would take a frame that takes so many bytes on the wire.
    #[inline]
    pub fn admits(&self, turn: Turn, length: u32) -> bool {
        self.is_free() || self.has_room(turn, length)
    }

    fn has_room(&self, turn: Turn, length: u32) -> bool {
        match turn {
            Turn::First => {
                length <= self.limit.saturating_sub(self.first_bytes) && self.first.len() < self.most
            }
            Turn::Fair(node) => self.fair.admits(node.into(), length),
        }
    }

    /// Sends a frame when its turn has come.
    ///
    /// # Errors
    /// The frame, if too many wait.
    #[inline]
    pub fn send(&mut self, packet: Packet, turn: Turn, out: &mut Out<'_>) -> Result<(), Packet> {
        if self.is_free() {
            self.send_now(packet, out);
            return Ok(());
        }
        self.wait(packet, turn)
    }

    /// Counts frames that take so many bytes together, and go out now by other means.
    #[inline(always)]
    pub fn charge_many(&mut self, packets: u32, length: u32, now: Nanos) {
        self.bucket.add(now, length);
        self.packets += u64::from(packets);
        self.bytes += u64::from(length - packets * OVERHEAD);
    }

    /// Sends a frame before all others.
    #[inline]
    pub fn send_now(&mut self, packet: Packet, out: &mut Out<'_>) {
        self.charge_many(1, length(&packet), self.now);
        self.staged.push(packet);
        if self.staged.room() == 0 {
            self.flush(out);
        }
    }

    #[cold]
    fn wait(&mut self, packet: Packet, turn: Turn) -> Result<(), Packet> {
        let length = length(&packet);
        match turn {
            Turn::First if self.has_room(turn, length) => {
                self.first_bytes += length;
                self.first.push_back(packet);
            }
            Turn::First => return Err(packet),
            Turn::Fair(node) => self.fair.push(node.into(), length, packet)?,
        }
        self.waiting += 1;
        Ok(())
    }

    /// Hands over what is to go out.
    #[inline]
    pub fn flush(&mut self, out: &mut Out<'_>) {
        if !self.staged.is_empty() {
            out.emit(self.output, std::mem::take(&mut self.staged));
        }
    }

    /// Sends what waits and whose time has come.
    pub fn serve(&mut self, out: &mut Out<'_>) {
        while self.bucket.last_level() < self.burst
            && let Some(packet) = self.next()
        {
            self.waiting -= 1;
            self.send_now(packet, out);
        }
    }

    fn next(&mut self) -> Option<Packet> {
        if let Some(packet) = self.first.pop_front() {
            self.first_bytes -= length(&packet);
            return Some(packet);
        }
        self.fair.pop().map(|(_, _, packet)| packet)
    }

    /// When something that waits is to be sent: when there is room for a part of a burst, so that frames go out together.
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        let surplus = u64::from(self.bucket.last_level().saturating_sub(self.burst - self.burst / 4)) + 1;
        let time = u128::from(surplus) * 8 * u128::from(SECOND) / u128::from(self.rate.max(1));
        (self.waiting > 0)
            .then(|| now.saturating_add(u64::try_from(time).unwrap_or(u64::MAX)).saturating_add(1))
    }

    /// Takes out all that waits.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> {
        self.waiting = 0;
        self.first_bytes = 0;
        self.first.drain(..).chain(self.fair.drain())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // Held when the router ends: neither sent nor lost.
        self.drain().for_each(Packet::free_held);
        std::mem::take(&mut self.staged).free_held();
    }
}
