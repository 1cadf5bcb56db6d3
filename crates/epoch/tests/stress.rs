//! Readers against a writer on real threads; small enough for Miri.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use epoch::{Reader, Table, ticket};

const EDITS: u64 = if cfg!(miri) { 60 } else { 20_000 };

/// Values made and not yet dropped.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Two halves that belong together: a torn or freed value would show different ones.
struct Pair(Box<u64>, Box<u64>);

impl Pair {
    fn new(n: u64) -> Pair {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Pair(Box::new(n), Box::new(!n))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        *self.0 = 1;
        *self.1 = 1;
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_whole_values_in_order_and_everything_is_freed() {
    let table = Table::new(Pair::new(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                let mut reader = Reader::new();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..8 {
                        let pair = table.read(&reader);
                        assert_eq!(*pair.0, !*pair.1);
                        assert!(*pair.0 >= last);
                        last = *pair.0;
                    }
                    if worker == 2 { reader.offline(std::thread::yield_now) } else { reader.quiescent() }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| (0..EDITS / 2).for_each(|_| table.edit(|old| Pair::new(*old.0 + 1))));
        }
        let (table, done) = (&table, &done);
        scope.spawn(move || {
            while table.with(|pair| *pair.0) < EDITS {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    assert_eq!(table.with(|pair| *pair.0), EDITS);
    drop(table);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn a_slot_is_not_used_again_while_a_reader_may_look_at_it() {
    // `place` names the slot in use; a slot out of use is poisoned only after its ticket has passed.
    const POISON: u64 = u64::MAX;
    let slots = [AtomicU64::new(0), AtomicU64::new(POISON)];
    let place = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Reader::new();
            while !done.load(Ordering::Relaxed) {
                let slot = place.load(Ordering::Acquire);
                for _ in 0..4 {
                    assert_ne!(slots[slot].load(Ordering::Relaxed), POISON);
                }
                reader.quiescent();
            }
        });
        for n in 0..EDITS {
            let old = place.load(Ordering::Relaxed);
            slots[1 - old].store(n, Ordering::Relaxed);
            place.store(1 - old, Ordering::Release);
            let ticket = ticket();
            while !ticket.passed() {
                std::thread::yield_now();
            }
            slots[old].store(POISON, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
}
