//! The arrays behind batches, and those that wait for the next batch.
#![allow(unsafe_code)]

use crate::due::Due;
use crate::header::Header;
use crate::packet::Packet;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

/// The most packets that a frame holds.
pub(crate) const MAX: usize = 256;
/// Frames that a thread keeps for reuse: more than the deepest stack of batches seen, little memory (4 KB each).
const KEPT: usize = 64;

/// The arrays behind a batch. Only the first `len` slots hold packets.
#[repr(C, align(64))]
pub(crate) struct Frame {
    pub len: usize,
    /// What is to be done to all packets before anybody looks at one; never anything while there is none.
    pub due: Cell<Due>,
    /// Where the MAC header is that a driver received, where `due` says so: an offset in [`Packet::data`] that wraps, as what
    /// has been stripped lies before.
    pub mac: u16,
    /// How many bytes are to be taken off the front of each packet, where `due` says so. Each has had as many.
    pub front: u16,
    /// What is the same for all packets, where `due` says so. These may wrap, too.
    pub headers: Headers,
    /// The next hop of all packets, if the column has been looked through and it is the same one, else [`Frame::DIFFER`]. Of
    /// meaning only where `due` says that next hops stand in their column.
    pub only: u32,
    /// Whose headers packets begin with, where `due` says so.
    pub list: u64,
    pub packets: [MaybeUninit<Packet>; MAX],
    /// A number for each packet, where `due` says so: the destination annotation, the next hop.
    pub destinations: [u32; MAX],
    pub next_hops: [u32; MAX],
}

/// Where the headers are that one element found in all packets of a batch, as offsets in [`Packet::data`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Of the network header.
    pub network: u16,
    /// Of the transport header.
    pub transport: u16,
}

impl Frame {
    /// In place of a next hop: no list has as many.
    pub const DIFFER: u32 = u32::MAX;

    /// The headers of the packets.
    #[inline(always)]
    pub fn raw(&self) -> &[NonNull<Header>] {
        // SAFETY: the first `len` slots are initialised; a Packet is a transparent NonNull<Header>.
        unsafe { std::slice::from_raw_parts(self.packets.as_ptr().cast(), self.len) }
    }

    /// The packets, as they are.
    #[inline(always)]
    pub fn as_they_are(&self) -> &[Packet] {
        // SAFETY: the first `len` slots are initialised; MaybeUninit<Packet> has the layout of Packet.
        unsafe { std::slice::from_raw_parts(self.packets.as_ptr().cast(), self.len) }
    }

    /// The packets, as they are, with the columns of destinations and next hops.
    #[inline(always)]
    pub fn columns(&mut self) -> (&mut [Packet], &mut [u32], &mut [u32]) {
        let len = self.len;
        // SAFETY: the first `len` slots are initialised; MaybeUninit<Packet> has the layout of Packet; `&mut self` is the
        // only access.
        let packets = unsafe { std::slice::from_raw_parts_mut(self.packets.as_mut_ptr().cast(), len) };
        (packets, &mut self.destinations[..len], &mut self.next_hops[..len])
    }

    /// Does what is due.
    #[inline(never)]
    pub fn settle(&self) {
        // SAFETY: the batch owns the packets, and nobody has a reference to one: who gets one calls this first.
        unsafe { self.due.take().settle(self) };
    }

    /// Notes of all packets what is noted of those of another frame.
    #[inline(always)]
    pub fn note_as(&mut self, other: &Frame) {
        (self.mac, self.front, self.headers, self.list) = (other.mac, other.front, other.headers, other.list);
        self.only = other.only;
    }

    /// True if the same is noted of the packets of both, column for column.
    pub fn is_noted_as(&self, other: &Frame) -> bool {
        let due = self.due.get();
        due == other.due.get()
            && (!due.is_received() || self.mac == other.mac)
            && (!due.has(Due::STRIP) || self.front == other.front)
            && (!due.has(Due::HEADERS) || self.headers == other.headers)
            && (!due.has(Due::FRAMED) || self.list == other.list)
    }

    /// Adds packets of another frame, with what stands in the columns beside them.
    ///
    /// # Panics
    /// If it has fewer, or there is no room for them here.
    ///
    /// # Safety
    /// From then on nobody takes them from the other frame, or looks at them there.
    pub unsafe fn take_over(&mut self, other: &Frame, range: Range<usize>) {
        assert!(range.end <= other.len, "packets of the other frame");
        let to = self.len..self.len + range.len();
        let (from, slots) = (&other.packets[range.clone()], &mut self.packets[to.clone()]);
        // SAFETY: both slices have this length, and are of two frames; MaybeUninit<Packet> is not dropped. Whose packets they
        // are is seen to by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), slots.as_mut_ptr(), from.len()) };
        if other.due.get().is_in_columns() {
            self.destinations[to.clone()].copy_from_slice(&other.destinations[range.clone()]);
            self.next_hops[to.clone()].copy_from_slice(&other.next_hops[range]);
        }
        if self.only != other.only {
            self.only = Frame::DIFFER;
        }
        self.len = to.end;
    }

    /// How many bytes are still to be taken off the front of the packets as they are.
    #[inline(always)]
    pub fn stripped(&self) -> u16 {
        if self.due.get().has(Due::STRIP) { self.front } else { 0 }
    }

    /// Takes them off: for who looks at packets as they are, and does not count with these bytes.
    #[inline(always)]
    pub fn strip(&self) {
        let due = self.due.get();
        if due.has(Due::STRIP) {
            self.due.set(due.without(Due::STRIP));
            // SAFETY: as in `settle`.
            unsafe { Due::STRIP.settle(self) };
        }
    }

    /// Notes that all packets begin `by` bytes earlier now.
    #[inline(always)]
    pub fn move_front(&mut self, by: u16) {
        let Headers { network, transport } = self.headers;
        self.mac = self.mac.wrapping_add(by);
        self.headers = Headers { network: network.wrapping_add(by), transport: transport.wrapping_add(by) };
    }

    /// Forgets the first `gone` packets, which belong to somebody else now.
    pub fn drop_first(&mut self, gone: usize) {
        let rest = gone..self.len;
        self.len = rest.len();
        // Copies of what is now outside of the batch; MaybeUninit<Packet> is not dropped.
        let slots: *mut MaybeUninit<Packet> = self.packets.as_mut_ptr();
        // SAFETY: both ranges lie in the array: `rest` ends at the old len.
        unsafe { std::ptr::copy(slots.add(rest.start), slots, rest.len()) };
        self.destinations.copy_within(rest.clone(), 0);
        self.next_hops.copy_within(rest, 0);
    }
}

/// A thread's frames without packets. A plain array behind a plain cell that nothing has to be done for when the thread
/// ends: every batch passes here twice.
struct Kept {
    /// [`NEW`] before the first frame, [`CLOSED`] once the thread ends.
    len: Cell<usize>,
    frames: UnsafeCell<[MaybeUninit<Box<Frame>>; KEPT]>,
}

/// In place of a number of frames: there have been none yet.
const NEW: usize = usize::MAX;
/// In place of a number of frames: none are to be kept.
const CLOSED: usize = usize::MAX - 1;

/// Frees a thread's frames when it ends.
struct Closing;

thread_local! {
    static FRAMES: Kept =
        const { Kept { len: Cell::new(NEW), frames: UnsafeCell::new([const { MaybeUninit::uninit() }; KEPT]) } };
    static CLOSING: Closing = const { Closing };
}

impl Kept {
    #[inline(always)]
    fn pop(&self) -> Option<Box<Frame>> {
        let last = self.len.get().wrapping_sub(1);
        if last >= KEPT {
            return None;
        }
        self.len.set(last);
        // SAFETY: slots below the old `len` (at most KEPT) are initialised, and this one is now above it: moved out once.
        // The cell is this thread's alone and no reference into it outlives a call.
        Some(unsafe { (*self.frames.get()).get_unchecked(last).assume_init_read() })
    }

    #[inline(always)]
    fn push(&self, frame: Box<Frame>) {
        let len = self.len.get();
        if len < KEPT {
            // SAFETY: see `pop`.
            unsafe { (*self.frames.get()).get_unchecked_mut(len).write(frame) };
            self.len.set(len + 1);
        } else {
            self.push_otherwise(frame);
        }
    }

    /// [`push`](Self::push) of the first frame, or of one too many.
    #[cold]
    #[inline(never)]
    fn push_otherwise(&self, frame: Box<Frame>) {
        if self.open() {
            self.push(frame);
        }
    }

    /// Before the first frame: sees to it that frames are freed when the thread ends. False if it is not the first.
    fn open(&self) -> bool {
        let is_new = self.len.get() == NEW;
        if is_new {
            self.len.set(if CLOSING.try_with(|_| ()).is_ok() { 0 } else { CLOSED });
        }
        is_new
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        FRAMES.with(|kept| {
            while let Some(frame) = kept.pop() {
                drop(frame);
            }
            kept.len.set(CLOSED);
        });
    }
}

/// A frame without packets.
#[inline(always)]
pub(crate) fn take() -> Box<Frame> {
    FRAMES.with(Kept::pop).unwrap_or_else(make)
}

#[cold]
#[inline(never)]
fn make() -> Box<Frame> {
    Box::new(Frame {
        len: 0,
        due: Cell::new(Due::NOTHING),
        mac: 0,
        front: 0,
        headers: Headers::default(),
        only: Frame::DIFFER,
        list: 0,
        packets: [const { MaybeUninit::uninit() }; MAX],
        destinations: [0; MAX],
        next_hops: [0; MAX],
    })
}

/// Keeps a frame without packets for the next batch.
#[inline(always)]
pub(crate) fn recycle(frame: Box<Frame>) {
    FRAMES.with(|kept| kept.push(frame));
}
