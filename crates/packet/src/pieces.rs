//! A batch taken apart from its front, some packets at a time.
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::frame::{self, Frame};
use std::fmt;

/// What is left of a batch. What is noted once of all its packets is noted once of those of each piece: nobody has to look at
/// packets that only wait for their turn.
///
/// As with a [`Batch`], packets that are dropped with it count as [`crate::unaccounted`].
#[derive(Default)]
pub struct Pieces {
    /// The packets are those from `next` on; there is at least one.
    frame: Option<Box<Frame>>,
    next: usize,
}

impl From<Batch> for Pieces {
    fn from(mut batch: Batch) -> Pieces {
        if batch.is_empty() { Pieces::default() } else { Pieces { frame: batch.0.take(), next: 0 } }
    }
}

impl Pieces {
    /// Packets that are left.
    #[inline]
    pub fn len(&self) -> usize {
        self.frame.as_ref().map_or(0, |frame| frame.len - self.next)
    }

    /// True if nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frame.is_none()
    }

    /// The first packets of what is left, `max` at most.
    pub fn take(&mut self, max: usize) -> Batch {
        if max >= self.len() {
            return self.take_all();
        }
        let mut piece = Batch::empty();
        if let Some(frame) = self.frame.as_ref().filter(|_| max > 0) {
            let to = piece.0.insert(frame::take());
            to.note_as(frame);
            to.due.set(frame.due.get());
            // SAFETY: who takes more begins behind them.
            unsafe { to.take_over(frame, self.next..self.next + max) };
            self.next += max;
        }
        piece
    }

    /// All that is left.
    pub fn take_all(&mut self) -> Batch {
        let mut frame = self.frame.take();
        let gone = std::mem::take(&mut self.next);
        if let Some(frame) = frame.as_mut().filter(|_| gone > 0) {
            frame.drop_first(gone);
        }
        Batch(frame)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pieces({} packets)", self.len())
    }
}
