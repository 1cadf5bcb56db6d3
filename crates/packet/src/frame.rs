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

/// A thread's frames without packets. A plain array behind a plain cell: every batch passes here twice.
struct Kept {
    len: Cell<usize>,
    frames: UnsafeCell<[MaybeUninit<Box<Frame>>; KEPT]>,
}

thread_local! {
    static FRAMES: Kept =
        const { Kept { len: Cell::new(0), frames: UnsafeCell::new([const { MaybeUninit::uninit() }; KEPT]) } };
}

impl Kept {
    #[inline(always)]
    fn pop(&self) -> Option<Box<Frame>> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        // SAFETY: slots below the old `len` (at most KEPT) are initialised, and this one is now above it: moved out once.
        // The cell is this thread's alone and no reference into it outlives a call.
        Some(unsafe { (*self.frames.get()).get_unchecked(len).assume_init_read() })
    }

    #[inline(always)]
    fn push(&self, frame: Box<Frame>) {
        let len = self.len.get();
        if len < KEPT {
            // SAFETY: see `pop`.
            unsafe { (*self.frames.get()).get_unchecked_mut(len).write(frame) };
            self.len.set(len + 1);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        while let Some(frame) = self.pop() {
            drop(frame);
        }
    }
}

/// A frame without packets.
#[inline(always)]
pub(crate) fn take() -> Box<Frame> {
    FRAMES.try_with(Kept::pop).ok().flatten().unwrap_or_else(make)
}

#[cold]
#[inline(never)]
fn make() -> Box<Frame> {
    Box::new(Frame { len: 0, due: Cell::new(None), packets: [const { MaybeUninit::uninit() }; MAX] })
}

/// Keeps a frame without packets for the next batch.
#[inline(always)]
pub(crate) fn recycle(frame: Box<Frame>) {
    // During thread exit the list may be gone: then the frame is simply freed.
    let _ = FRAMES.try_with(|kept| kept.push(frame));
}
