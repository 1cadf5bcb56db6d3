//! Every interleaving of the two ends of a ring, as the C11 memory model allows it: loom watches the slots.
#![allow(unsafe_code, dead_code)]

#[path = "../src/ring/indices.rs"]
mod indices;

use indices::{Consumer, Producer, Word};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

const SLOTS: u32 = 2;

struct Watched(AtomicU32);

impl Word for Watched {
    fn read(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn publish(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }
}

struct Ring {
    produced: Watched,
    consumed: Watched,
    slots: [UnsafeCell<u32>; SLOTS as usize],
}

impl Ring {
    fn new(start: u32) -> Arc<Ring> {
        let [produced, consumed] = [start; 2].map(|start| Watched(AtomicU32::new(start)));
        Arc::new(Ring { produced, consumed, slots: [0, 0].map(UnsafeCell::new) })
    }

    fn producer(&self) -> Producer {
        Producer::resume(SLOTS, &self.produced, &self.consumed)
    }

    /// Sends as many of the numbers as there is room for; returns how many.
    fn send(&self, producer: &mut Producer, numbers: &[u32]) -> usize {
        let room = producer.room(numbers.len() as u32, &self.consumed).min(numbers.len() as u32);
        for (i, number) in (0..room).zip(numbers) {
            // SAFETY: loom's cell fails the test if anybody else is there.
            self.slots[producer.slot(i) as usize].with_mut(|slot| unsafe { *slot = *number });
        }
        producer.publish(room, &self.produced);
        room as usize
    }

    fn receive(&self, consumer: &mut Consumer, numbers: &mut Vec<u32>) {
        let Some(ready) = consumer.ready(2, &self.produced) else { panic!("both keep to the rules") };
        for i in 0..ready {
            // SAFETY: as in `send`.
            numbers.push(self.slots[consumer.slot(i) as usize].with(|slot| unsafe { *slot }));
        }
        consumer.publish(ready, &self.consumed);
    }
}

#[test]
fn what_is_sent_arrives_once_and_in_order() {
    loom::model(|| {
        let ring = Ring::new(u32::MAX - 1);
        let mut consumer = Consumer::resume(SLOTS, &ring.produced, &ring.consumed);
        let theirs = ring.clone();
        let sender = thread::spawn(move || {
            let mut producer = theirs.producer();
            let mut sent = theirs.send(&mut producer, &[1, 2]);
            sent += theirs.send(&mut producer, &[3, 4][..]);
            sent
        });
        let mut got = Vec::new();
        ring.receive(&mut consumer, &mut got);
        ring.receive(&mut consumer, &mut got);
        let sent = sender.join().unwrap();
        ring.receive(&mut consumer, &mut got);
        assert_eq!(got, [1, 2, 3, 4][..sent]);
    });
}

#[test]
fn a_receiver_may_come_at_any_time() {
    loom::model(|| {
        let ring = Ring::new(7);
        let theirs = ring.clone();
        let sender = thread::spawn(move || {
            let mut producer = theirs.producer();
            theirs.send(&mut producer, &[1]) + theirs.send(&mut producer, &[2])
        });
        let mut got = Vec::new();
        let mut consumer = Consumer::resume(SLOTS, &ring.produced, &ring.consumed);
        ring.receive(&mut consumer, &mut got);
        assert_eq!(sender.join().unwrap(), 2);
        ring.receive(&mut consumer, &mut got);
        // What was there before is not for it; of what comes then, nothing is missing.
        assert!([&[1, 2][..], &[2], &[]].contains(&&got[..]), "{got:?}");
    });
}

#[test]
fn a_sender_goes_on_where_another_was() {
    loom::model(|| {
        let ring = Ring::new(0);
        let mut consumer = Consumer::resume(SLOTS, &ring.produced, &ring.consumed);
        let theirs = ring.clone();
        let senders = thread::spawn(move || {
            let sent = theirs.send(&mut theirs.producer(), &[1, 2]);
            sent + theirs.send(&mut theirs.producer(), &[3])
        });
        let mut got = Vec::new();
        ring.receive(&mut consumer, &mut got);
        let sent = senders.join().unwrap();
        ring.receive(&mut consumer, &mut got);
        assert_eq!(got, [1, 2, 3][..sent]);
    });
}
