//! Where the two ends of a ring are: who may touch which slot when.
//!
//! ```text
//!   consumed ──▶│ full │ full │ full │◀── produced        both only grow, and wrap at 2³²
//!               └ the receiver's ────┘└ the sender's … up to consumed + slots
//! ```
//!
//! The sender writes slots and then publishes `produced`; the receiver reads them and then publishes `consumed`. Each end keeps
//! its own number to itself and reads the other's as a claim that may be wrong: one that cannot be gives nobody a slot that is
//! not there, or is the other end's by the rules.

use std::sync::atomic::{AtomicU32, Ordering};

/// A number in memory that both ends see, and one of them writes.
pub trait Word {
    /// What the other end published, and everything that it did before.
    fn read(&self) -> u32;
    /// Lets the other end see the number, and everything that was done before.
    fn publish(&self, value: u32);
}

impl Word for AtomicU32 {
    #[inline]
    fn read(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn publish(&self, value: u32) {
        self.store(value, Ordering::Release);
    }
}

/// The sender's view. The number of slots is a power of two.
#[derive(Debug)]
pub struct Producer {
    slots: u32,
    /// The next slot to fill.
    next: u32,
    /// The receiver had done with those before this one, when last looked at; `next - consumed` is at most `slots`.
    consumed: u32,
}

impl Producer {
    /// Goes on where somebody else was, who may not have come to his end in good order.
    pub fn resume(slots: u32, produced: &impl Word, consumed: &impl Word) -> Producer {
        let (next, consumed) = (produced.read(), consumed.read());
        if next.wrapping_sub(consumed) <= slots {
            return Producer { slots, next, consumed };
        }
        produced.publish(consumed);
        Producer { slots, next: consumed, consumed }
    }

    /// Slots that can be filled. The other end is asked only if fewer than `wanted` are known to be free.
    #[inline]
    pub fn room(&mut self, wanted: u32, consumed: &impl Word) -> u32 {
        let free = |producer: &Producer| producer.slots - producer.next.wrapping_sub(producer.consumed);
        if free(self) < wanted {
            let claimed = consumed.read();
            if self.next.wrapping_sub(claimed) <= self.slots {
                self.consumed = claimed;
            }
        }
        free(self)
    }

    /// The place of the `i`th slot to fill.
    #[inline]
    pub fn slot(&self, i: u32) -> u32 {
        self.next.wrapping_add(i) & (self.slots - 1)
    }

    /// So many more are filled; no more than there was room for.
    #[inline]
    pub fn publish(&mut self, filled: u32, produced: &impl Word) {
        self.next = self.next.wrapping_add(filled);
        produced.publish(self.next);
    }
}

/// The receiver's view.
#[derive(Debug)]
pub struct Consumer {
    slots: u32,
    /// The next slot to read.
    next: u32,
    /// The sender had filled those before this one, when last looked at; `produced - next` is at most `slots`.
    produced: u32,
}

impl Consumer {
    /// Begins behind everything that was sent to somebody else.
    pub fn resume(slots: u32, produced: &impl Word, consumed: &impl Word) -> Consumer {
        let next = produced.read();
        consumed.publish(next);
        Consumer { slots, next, produced: next }
    }

    /// Slots that can be read. The other end is asked only if fewer than `wanted` are known to be filled. `None` if it says
    /// what cannot be: what there may have been is given up, and receiving goes on behind it.
    #[inline]
    pub fn ready(&mut self, wanted: u32, produced: &impl Word) -> Option<u32> {
        if self.produced.wrapping_sub(self.next) < wanted {
            let claimed = produced.read();
            self.produced = claimed;
            if claimed.wrapping_sub(self.next) > self.slots {
                self.next = claimed;
                return None;
            }
        }
        Some(self.produced.wrapping_sub(self.next))
    }

    /// The place of the `i`th slot to read.
    #[inline]
    pub fn slot(&self, i: u32) -> u32 {
        self.next.wrapping_add(i) & (self.slots - 1)
    }

    /// So many more are read; no more than were ready.
    #[inline]
    pub fn publish(&mut self, read: u32, consumed: &impl Word) {
        self.next = self.next.wrapping_add(read);
        consumed.publish(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_round() {
        let (produced, consumed) = (AtomicU32::new(u32::MAX - 1), AtomicU32::new(u32::MAX - 1));
        let mut producer = Producer::resume(4, &produced, &consumed);
        let mut consumer = Consumer::resume(4, &produced, &consumed);
        assert_eq!(consumer.ready(1, &produced), Some(0));
        assert_eq!(producer.room(9, &consumed), 4);
        assert_eq!([0, 1, 2, 3].map(|i| producer.slot(i)), [2, 3, 0, 1]);
        producer.publish(3, &produced);
        assert_eq!((producer.room(1, &consumed), producer.room(2, &consumed)), (1, 1));
        assert_eq!((consumer.ready(1, &produced), consumer.slot(2)), (Some(3), 0));
        consumer.publish(2, &consumed);
        assert_eq!((producer.room(1, &consumed), producer.room(2, &consumed)), (1, 3));
        assert_eq!(consumer.ready(1, &produced), Some(1));
    }

    #[test]
    fn what_cannot_be_gives_no_slots() {
        let (produced, consumed) = (AtomicU32::new(0), AtomicU32::new(0));
        let mut producer = Producer::resume(4, &produced, &consumed);
        let mut consumer = Consumer::resume(4, &produced, &consumed);
        for claimed in [1, 5, u32::MAX - 4, 1 << 31] {
            consumed.store(claimed, Ordering::Relaxed);
            assert_eq!(producer.room(5, &consumed), 4, "{claimed}");
        }
        producer.publish(4, &produced);
        for (claimed, room) in [(5, 0), (u32::MAX, 0), (0, 0), (1, 1), (4, 4), (2, 2)] {
            consumed.store(claimed, Ordering::Relaxed);
            assert_eq!(producer.room(5, &consumed), room, "{claimed}");
        }
        produced.store(5, Ordering::Relaxed);
        assert_eq!(consumer.ready(1, &produced), None);
        assert_eq!((consumer.ready(1, &produced), consumer.slot(0)), (Some(0), 1));
        produced.store(9, Ordering::Relaxed);
        assert_eq!(consumer.ready(1, &produced), Some(4));
        produced.store(7, Ordering::Relaxed);
        assert_eq!((consumer.ready(4, &produced), consumer.ready(5, &produced)), (Some(4), Some(2)));
    }

    #[test]
    fn whoever_comes_later_goes_on() {
        let (produced, consumed) = (AtomicU32::new(7), AtomicU32::new(4));
        let words = || [&produced, &consumed].map(|word| word.load(Ordering::Relaxed));
        let mut producer = Producer::resume(4, &produced, &consumed);
        assert_eq!((producer.room(4, &consumed), producer.slot(0), words()), (1, 3, [7, 4]));
        let mut consumer = Consumer::resume(4, &produced, &consumed);
        assert_eq!((consumer.ready(1, &produced), words()), (Some(0), [7, 7]));
        produced.store(99, Ordering::Relaxed);
        let mut producer = Producer::resume(4, &produced, &consumed);
        assert_eq!((producer.room(4, &consumed), words()), (4, [7, 7]));
        producer.publish(4, &produced);
        assert_eq!((consumer.ready(1, &produced), words()), (Some(4), [11, 7]));
    }
}
