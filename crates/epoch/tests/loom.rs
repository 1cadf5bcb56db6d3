//! Every interleaving, as the C11 memory model allows it, of a reader and a writer.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p epoch --release --test loom`
#![cfg(loom)]
#![allow(unsafe_code)]

use std::sync::Arc as StdArc;

use epoch::{Reader, Table, ticket};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

const ALIVE: u32 = 7;

/// A value whose every use loom checks against its destruction: a read that is not ordered before the drop, or
/// not after the making, is reported as a causality violation.
struct Watched {
    number: usize,
    // Not part of the value's memory, so that a bug is reported and not executed.
    cell: StdArc<UnsafeCell<u32>>,
}

impl Watched {
    fn new(number: usize) -> Watched {
        Watched { number, cell: StdArc::new(UnsafeCell::new(ALIVE)) }
    }

    fn check(&self) -> usize {
        // SAFETY: loom's cell fails the test when this read races with the write in `drop`.
        self.cell.with(|cell| assert_eq!(unsafe { *cell }, ALIVE));
        self.number
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: as in `check`.
        self.cell.with_mut(|cell| unsafe { *cell = 0 });
    }
}

#[test]
fn a_reader_never_sees_a_freed_value() {
    loom::model(|| {
        let table = Arc::new(Table::new(Watched::new(0)));
        let mut reader = Reader::new();
        let shared = Arc::clone(&table);
        let worker = thread::spawn(move || {
            let first = shared.read(&reader).check();
            reader.quiescent();
            let second = shared.read(&reader);
            let again = shared.read(&reader);
            assert!(first <= second.check() && second.check() <= again.check());
        });
        table.replace(Watched::new(1));
        table.replace(Watched::new(2));
        table.collect();
        worker.join().unwrap();
        assert_eq!(table.collect(), 0);
    });
}

#[test]
fn a_reader_that_comes_online_never_sees_a_freed_value() {
    loom::model(|| {
        let table = Arc::new(Table::new(Watched::new(0)));
        let mut reader = Reader::new();
        let shared = Arc::clone(&table);
        let worker = thread::spawn(move || {
            reader.offline(|| ());
            shared.read(&reader).check();
        });
        table.replace(Watched::new(1));
        table.collect();
        worker.join().unwrap();
    });
}

#[test]
fn a_reader_that_registers_late_never_sees_a_freed_value() {
    loom::model(|| {
        let table = Arc::new(Table::new(Watched::new(0)));
        let shared = Arc::clone(&table);
        let worker = thread::spawn(move || {
            let reader = Reader::new();
            shared.read(&reader).check();
        });
        table.replace(Watched::new(1));
        table.collect();
        worker.join().unwrap();
    });
}

#[test]
fn no_update_is_lost_between_writers() {
    loom::model(|| {
        let table = Arc::new(Table::new(Watched::new(0)));
        let shared = Arc::clone(&table);
        let other = thread::spawn(move || shared.edit(|old| Watched::new(old.number + 1)));
        table.edit(|old| Watched::new(old.number + 1));
        other.join().unwrap();
        assert_eq!(table.with(Watched::check), 2);
    });
}

#[test]
fn a_slot_is_used_again_only_after_its_ticket_has_passed() {
    loom::model(|| {
        // `place` names the slot to look at; the writer moves readers to slot 1, then uses slot 0 for itself.
        let place = Arc::new(AtomicUsize::new(0));
        let slot = StdArc::new(UnsafeCell::new(ALIVE));
        let mut reader = Reader::new();
        let (shared, looked_at) = (Arc::clone(&place), StdArc::clone(&slot));
        let worker = thread::spawn(move || {
            for _ in 0..2 {
                if shared.load(Ordering::Relaxed) == 0 {
                    // SAFETY: loom's cell fails the test when this read races with the writer.
                    looked_at.with(|cell| assert_eq!(unsafe { *cell }, ALIVE));
                }
                reader.quiescent();
            }
        });
        place.store(1, Ordering::Relaxed);
        if ticket().passed() {
            // SAFETY: as above.
            slot.with_mut(|cell| unsafe { *cell = 0 });
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_slot_is_safe_from_a_reader_that_comes_online() {
    loom::model(|| {
        let place = Arc::new(AtomicUsize::new(0));
        let slot = StdArc::new(UnsafeCell::new(ALIVE));
        let mut reader = Reader::new();
        let (shared, looked_at) = (Arc::clone(&place), StdArc::clone(&slot));
        let worker = thread::spawn(move || {
            reader.offline(|| ());
            if shared.load(Ordering::Relaxed) == 0 {
                // SAFETY: loom's cell fails the test when this read races with the writer.
                looked_at.with(|cell| assert_eq!(unsafe { *cell }, ALIVE));
            }
            reader.quiescent();
        });
        place.store(1, Ordering::Relaxed);
        if ticket().passed() {
            // SAFETY: as above.
            slot.with_mut(|cell| unsafe { *cell = 0 });
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_number_behind_an_entry_leads_to_a_place_that_was_filled_and_is_not_used_again() {
    // As a table of two levels does it: an entry sends the reader to a number, the number to a place.
    const ELSEWHERE: usize = 9;
    loom::model(|| {
        let entry = Arc::new(AtomicUsize::new(ELSEWHERE));
        let number = Arc::new(AtomicUsize::new(0));
        let places = [ALIVE, 0].map(|value| StdArc::new(UnsafeCell::new(value)));
        let mut reader = Reader::new();
        let (entry_read, number_read, places_read) =
            (Arc::clone(&entry), Arc::clone(&number), places.clone());
        let worker = thread::spawn(move || {
            if entry_read.load(Ordering::Relaxed) == ELSEWHERE {
                fence(Ordering::Acquire);
                let place = number_read.load(Ordering::Acquire);
                // SAFETY: loom's cell fails the test when this read races with a write.
                places_read[place].with(|cell| assert_eq!(unsafe { *cell }, ALIVE));
            }
            reader.quiescent();
        });
        // The entry leads nowhere for a while, then to another place, filled before.
        entry.store(1, Ordering::Release);
        // SAFETY: as above.
        places[1].with_mut(|cell| unsafe { *cell = ALIVE });
        number.store(1, Ordering::Release);
        entry.store(ELSEWHERE, Ordering::Release);
        if ticket().passed() {
            // SAFETY: as above.
            places[0].with_mut(|cell| unsafe { *cell = 0 });
        }
        worker.join().unwrap();
    });
}
