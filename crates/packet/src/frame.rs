//! The arrays behind batches, and those that wait for the next batch.
#![allow(unsafe_code)]

use crate::header::Header;
use crate::packet::Packet;
use crate::settle::Settle;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The most packets that a frame holds.
pub(crate) const MAX: usize = 256;
/// Frames that a thread keeps for reuse: more than the deepest stack of batches seen, little memory (2 KB each).
const KEPT: usize = 64;

/// The array behind a batch. Only the first `len` slots hold packets.
#[repr(C, align(64))]
pub(crate) struct Frame {
    pub len: usize,
    /// What is to be done to all packets before anybody looks at one; never anything while there is none.
    pub due: Cell<Option<Settle>>,
    pub packets: [MaybeUninit<Packet>; MAX],
}

impl Frame {
    /// Does what is due.
    #[inline(never)]
    pub fn settle(&self) {
        let Some(settle) = self.due.take() else { return };
        // SAFETY: the first `len` slots are initialised; a Packet is a transparent NonNull<Header>, of which these are
        // copied.
        let all =
            unsafe { std::slice::from_raw_parts(self.packets.as_ptr().cast::<NonNull<Header>>(), self.len) };
        // SAFETY: the batch owns the packets, and nobody has a reference to one: who gets one calls this first.
        unsafe { settle.settle(all) };
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
    Box::new(Frame { len: 0, due: Cell::new(None), packets: [const { MaybeUninit::uninit() }; MAX] })
}

/// Keeps a frame without packets for the next batch.
#[inline(always)]
pub(crate) fn recycle(frame: Box<Frame>) {
    FRAMES.with(|kept| kept.push(frame));
}
