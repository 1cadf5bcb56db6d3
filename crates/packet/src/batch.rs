//! A batch: the unit of work of the whole router.
#![allow(unsafe_code)]

use crate::due::Due;
use crate::frame::{self, Frame, MAX};
use crate::header::Header;
use crate::packet::{Packet, count_held, count_unaccounted};
use crate::pool;
use crate::settle::Settle;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// Up to [`Batch::MAX`] packets, owned. Moving it moves one pointer; an empty one owns nothing.
///
/// What a driver leaves in the headers of packets that it received is put in order when somebody first looks at them, and
/// what elements found of all packets and noted once ([`Headers`](crate::Headers), [`Columns`](crate::Columns)) is noted on
/// each: packets that are only passed on, or routed and sent, need not be touched.
///
/// Dropping a batch frees its packets in bulk and counts them as [`crate::unaccounted`]; [`Batch::free`] is the
/// deliberate way.
#[derive(Default)]
pub struct Batch(pub(crate) Option<Box<Frame>>);

impl Batch {
    /// The most packets that a batch holds.
    pub const MAX: usize = MAX;

    /// A batch without packets. Costs nothing.
    pub const fn empty() -> Batch {
        Batch(None)
    }

    /// A batch of one packet.
    pub fn one(packet: Packet) -> Batch {
        let mut batch = Batch::empty();
        batch.push(packet);
        batch
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |f| f.len)
    }

    /// True if there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more packets fit.
    #[inline]
    pub fn room(&self) -> usize {
        MAX - self.len()
    }

    /// Sum of the packets' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.inspected().iter().map(|p| p.len() as u64).sum()
    }

    /// Puts the headers in order if that is still due.
    #[inline(always)]
    pub(crate) fn settle(&self) {
        if let Some(frame) = &self.0
            && frame.due.get() != Due::NOTHING
        {
            frame.settle();
        }
    }

    /// Appends a packet.
    ///
    /// # Panics
    /// If the batch is full: callers work in steps of at most [`Batch::MAX`].
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.settle();
        let frame = self.0.get_or_insert_with(frame::take);
        let len = frame.len;
        assert!(len < MAX, "a batch holds at most {MAX} packets");
        frame.packets[len].write(packet);
        frame.len = len + 1;
    }

    /// Removes the last packet.
    pub fn pop(&mut self) -> Option<Packet> {
        self.settle();
        let frame = self.0.as_mut()?;
        frame.len = frame.len.checked_sub(1)?;
        // SAFETY: slots below the old len are initialised, and the slot is now outside the batch: moved out once.
        Some(unsafe { frame.packets[frame.len].assume_init_read() })
    }

    /// The packets.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        self.settle();
        match &self.0 {
            // SAFETY: the first `len` slots are initialised; MaybeUninit<Packet> has the layout of Packet.
            Some(f) => unsafe { std::slice::from_raw_parts(f.packets.as_ptr().cast::<Packet>(), f.len) },
            None => &[],
        }
    }

    /// The packets, to change.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        self.settle();
        match &mut self.0 {
            // SAFETY: as in `as_slice`; `&mut self` is the only access.
            Some(f) => unsafe {
                std::slice::from_raw_parts_mut(f.packets.as_mut_ptr().cast::<Packet>(), f.len)
            },
            None => &mut [],
        }
    }

    /// Iterates over the packets.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.as_slice().iter()
    }

    /// Iterates over the packets, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.as_mut_slice().iter_mut()
    }

    /// Splits off the packets from index `at` on.
    pub fn split_off(&mut self, at: usize) -> Batch {
        let mut rest = Batch::empty();
        if at >= self.len() {
            // All stay, and what is due can wait.
            return rest;
        }
        self.settle();
        let Some(frame) = self.0.as_mut() else { return rest };
        let tail = rest.0.insert(frame::take());
        for i in at..frame.len {
            // SAFETY: slots below len are initialised; len is cut to `at` below, so each is moved out once. Nothing
            // between can panic.
            tail.packets[i - at].write(unsafe { frame.packets[i].assume_init_read() });
        }
        tail.len = frame.len - at;
        frame.len = at;
        rest
    }

    /// Moves packets of `other` to the end of this batch until one is empty or the other full.
    pub fn append(&mut self, other: &mut Batch) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let rest = other.split_off(self.room().min(other.len()));
        let mut more = std::mem::replace(other, rest);
        match (&mut self.0, &mut more.0) {
            (Some(to), Some(from)) if to.is_noted_as(from) => {
                // SAFETY: they are not in the other frame any more once it is empty.
                unsafe { to.take_over(from, 0..from.len) };
                from.len = 0;
                from.due.set(Due::NOTHING);
            }
            _ => more.into_iter().for_each(|packet| self.push(packet)),
        }
    }

    /// Gives all buffers back to their pools, in bulk.
    pub fn free(mut self) {
        self.free_packets();
    }

    /// Gives all buffers back because their owner ends, and counts them as [`crate::held`].
    pub fn free_held(self) {
        count_held(self.len());
        self.free();
    }

    fn free_packets(&mut self) {
        if let Some(mut frame) = self.0.take() {
            let len = std::mem::replace(&mut frame.len, 0);
            frame.due.set(Due::NOTHING);
            // SAFETY: the first `len` slots are initialised and no longer part of the batch; a Packet is a
            // transparent NonNull<Header>.
            let raw = unsafe {
                std::slice::from_raw_parts_mut(frame.packets.as_mut_ptr().cast::<NonNull<Header>>(), len)
            };
            pool::free(raw);
            frame::recycle(frame);
        }
    }

    /// What a receive function brings: `fill` gets room for at most `max` pointers and returns how many it wrote, and what
    /// the headers need before anybody looks at them.
    ///
    /// # Safety
    /// As for [`fill_raw`](Self::fill_raw): so `n` is no more than `fill` got room for.
    #[inline(always)]
    pub unsafe fn receive_raw(
        max: usize,
        fill: impl FnOnce(&mut [MaybeUninit<NonNull<Header>>]) -> (usize, Settle),
    ) -> Batch {
        let mut frame = frame::take();
        let room = &mut frame.packets[..max.min(MAX)];
        let asked = room.len();
        // SAFETY: Packet is a transparent NonNull<Header>, so the slots have the same layout.
        let raw = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), asked) };
        let (n, due) = fill(raw);
        debug_assert!(n <= asked, "fill returned more packets than it was asked for");
        if n == 0 {
            return Batch::without_any(frame);
        }
        (frame.len, frame.mac) = (n, 0);
        frame.due.set(due.into());
        Batch(Some(frame))
    }

    /// Lets `fill` append buffers: it gets room for at most `max` pointers behind the present packets and returns how
    /// many it wrote.
    ///
    /// # Safety
    /// `fill` returns `n` only after it has written `n` pointers that each satisfy [`Packet::from_raw`].
    pub unsafe fn fill_raw(
        &mut self,
        max: usize,
        fill: impl FnOnce(&mut [MaybeUninit<NonNull<Header>>]) -> usize,
    ) {
        self.settle();
        let frame = self.0.get_or_insert_with(frame::take);
        let end = MAX.min(frame.len.saturating_add(max));
        let room = &mut frame.packets[frame.len..end];
        let asked = room.len();
        // SAFETY: Packet is a transparent NonNull<Header>, so the slots have the same layout.
        let raw = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), asked) };
        let n = fill(raw);
        assert!(n <= asked, "fill returned more packets than it was asked for");
        frame.len += n;
        if frame.len == 0
            && let Some(frame) = self.0.take()
        {
            frame::recycle(frame);
        }
    }

    /// The packets' headers, as they are: only what has been stripped is taken off.
    #[inline]
    pub fn as_raw(&self) -> &[NonNull<Header>] {
        let Some(frame) = &self.0 else { return &[] };
        frame.strip();
        frame.raw()
    }

    /// Lets a transmit function take packets from the front: `send` gets all pointers and returns how many it took.
    /// Returns that number and the rest, in order.
    ///
    /// # Safety
    /// `send` does not unwind, takes ownership of exactly the first `n` buffers, where `n` is what it returns, and leaves
    /// the array as it was.
    #[inline(always)]
    pub unsafe fn send_raw(self, send: impl FnOnce(&mut [NonNull<Header>]) -> usize) -> (usize, Batch) {
        let mut batch = ManuallyDrop::new(self);
        let Some(mut frame) = batch.0.take() else { return (0, Batch::empty()) };
        frame.strip();
        // SAFETY: the first `len` slots are initialised; a Packet is a transparent NonNull<Header>.
        let raw = unsafe {
            std::slice::from_raw_parts_mut(frame.packets.as_mut_ptr().cast::<NonNull<Header>>(), frame.len)
        };
        let sent = send(raw);
        if sent < frame.len {
            return (sent, Batch::without_first(frame, sent));
        }
        let sent = std::mem::replace(&mut frame.len, 0);
        frame.due.set(Due::NOTHING);
        frame::recycle(frame);
        (sent, Batch::empty())
    }

    /// Of a frame into which nothing came. By itself: so said, nothing needs to be kept for it over the driver's call.
    #[inline(never)]
    fn without_any(frame: Box<Frame>) -> Batch {
        frame::recycle(frame);
        Batch::empty()
    }

    /// What is left of a frame whose first packets are no longer ours.
    #[cold]
    fn without_first(mut frame: Box<Frame>, gone: usize) -> Batch {
        frame.drop_first(gone);
        frame.settle();
        Batch(Some(frame))
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            count_unaccounted(self.len());
            self.free_packets();
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} packets)", self.len())
    }
}

impl FromIterator<Packet> for Batch {
    /// # Panics
    /// If there are more than [`Batch::MAX`] packets.
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        let mut batch = Batch::empty();
        for packet in packets {
            batch.push(packet);
        }
        batch
    }
}

/// Iterator that takes the packets out of a batch, first to last.
#[derive(Debug)]
pub struct BatchIntoIter {
    batch: Batch,
    next: usize,
    end: usize,
}

impl Iterator for BatchIntoIter {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        let frame = self.batch.0.as_mut()?;
        if self.next == self.end {
            return None;
        }
        let i = self.next;
        self.next += 1;
        // SAFETY: slots next..end are initialised and outside the batch (its len is 0): each is moved out once.
        Some(unsafe { frame.packets[i].assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for BatchIntoIter {}

impl Drop for BatchIntoIter {
    fn drop(&mut self) {
        for packet in &mut *self {
            drop(packet);
        }
        if let Some(frame) = self.batch.0.take() {
            frame::recycle(frame);
        }
    }
}

impl IntoIterator for Batch {
    type Item = Packet;
    type IntoIter = BatchIntoIter;

    #[inline]
    fn into_iter(mut self) -> BatchIntoIter {
        self.settle();
        let end = self.0.as_mut().map_or(0, |f| std::mem::replace(&mut f.len, 0));
        BatchIntoIter { batch: self, next: 0, end }
    }
}
