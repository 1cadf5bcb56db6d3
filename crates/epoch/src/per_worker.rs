//! One cell per worker, each written by that worker alone and read by anybody.
//!
//! ```
//! use epoch::{PerWorker, Tally};
//! let tallies: PerWorker<Tally> = PerWorker::new(2);
//! tallies[0].add(3, 180);
//! tallies[1].add(1, 60);
//! assert_eq!((tallies.sum(Tally::packets), tallies.sum(Tally::bytes)), (4, 240));
//! tallies.rebase();
//! tallies[1].add(1, 64);
//! assert_eq!((tallies.sum(Tally::packets), tallies.sum(Tally::bytes)), (1, 64));
//! ```

use std::ops::{Deref, Index};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::padded::Padded;

/// One cell per worker, padded to cache lines.
///
/// A cell has one writer, the worker of its number, so writing needs no locked instruction. Nothing breaks when
/// two threads write one cell, but counts get lost. Counters only grow; to start from zero the reading side moves
/// a base line ([`rebase`](PerWorker::rebase)), so the writer stays single.
#[derive(Debug)]
pub struct PerWorker<T> {
    cells: Box<[Arc<Padded<T>>]>,
    /// What the cells added up to when they were last rebased.
    base: Mutex<T>,
}

/// A worker's cell of a [`PerWorker`].
#[derive(Debug)]
pub struct WorkerCell<T>(Arc<Padded<T>>);

impl<T> Deref for WorkerCell<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.0
    }
}

impl<T: Default> Default for WorkerCell<T> {
    /// A cell that belongs to nobody.
    fn default() -> WorkerCell<T> {
        WorkerCell(Arc::default())
    }
}

impl<T: Default> PerWorker<T> {
    /// Cells for workers `0..workers`.
    pub fn new(workers: usize) -> PerWorker<T> {
        PerWorker { cells: (0..workers).map(|_| Arc::default()).collect(), base: Mutex::default() }
    }
}

impl<T> PerWorker<T> {
    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.cells.len()
    }

    /// The cell of a worker, to be kept by it: one step nearer than by way of all cells. `None` when there is no such
    /// worker.
    pub fn cell(&self, worker: usize) -> Option<WorkerCell<T>> {
        self.cells.get(worker).cloned().map(WorkerCell)
    }

    /// The cells in the workers' order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.cells.iter().map(|cell| &cell.0)
    }

    /// What `value` gives over all cells since the last [`rebase`](PerWorker::rebase), modulo 2⁶⁴.
    pub fn sum(&self, value: impl Fn(&T) -> u64) -> u64 {
        let base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        self.iter().map(&value).fold(0, u64::wrapping_add).wrapping_sub(value(&base))
    }
}

impl<T: Accumulate> PerWorker<T> {
    /// Starts all sums from zero, without touching the cells.
    pub fn rebase(&self) {
        let sum = T::default();
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        self.iter().for_each(|cell| sum.accumulate(cell));
        *base = sum;
    }
}

impl<T> Index<usize> for PerWorker<T> {
    type Output = T;

    /// The cell of a worker. Panics when there is no such worker.
    #[inline]
    fn index(&self, worker: usize) -> &T {
        &self.cells[worker].0
    }
}

/// A set of counters that can be added to another of its kind.
pub trait Accumulate: Default {
    /// Adds `other`'s counts to these. Only the owner of `self` calls it.
    fn accumulate(&self, other: &Self);
}

/// A counter with one writer, readable by anybody at any time.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`, modulo 2⁶⁴; for the one writer.
    #[inline]
    pub fn add(&self, n: u64) {
        // A load and a store instead of a locked add: nobody else writes.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The count so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Accumulate for Count {
    fn accumulate(&self, other: &Self) {
        self.add(other.get());
    }
}

impl<C: Accumulate, const N: usize> Accumulate for [C; N]
where
    [C; N]: Default,
{
    fn accumulate(&self, other: &Self) {
        self.iter().zip(other).for_each(|(mine, theirs)| mine.accumulate(theirs));
    }
}

/// Packets and bytes. Each is exact; the two read together may be one batch apart.
#[derive(Debug, Default)]
pub struct Tally {
    packets: Count,
    bytes: Count,
}

impl Tally {
    /// Counts `packets` packets of `bytes` bytes altogether; for the one writer.
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets.get()
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

impl Accumulate for Tally {
    fn accumulate(&self, other: &Self) {
        self.add(other.packets(), other.bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::MutexGuard;

    use super::*;

    /// Tests that count tickets need the one domain of the process for themselves.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn domain_lock() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn cells_are_alone_on_their_lines() {
        let cells: PerWorker<Count> = PerWorker::new(3);
        let at = |i: usize| std::ptr::from_ref(&cells[i]).addr();
        assert_eq!(([0, 1, 2].map(|i| at(i) % 128), size_of::<Padded<Count>>()), ([0; 3], 128));
        assert_eq!(cells.workers(), 3);
    }

    #[test]
    fn a_kept_cell_is_the_workers_own() {
        let cells: PerWorker<Count> = PerWorker::new(2);
        cells.cell(1).unwrap().add(5);
        assert_eq!((cells[0].get(), cells[1].get(), cells.cell(2).is_none()), (0, 5, true));
        WorkerCell::<Count>::default().add(7);
        assert_eq!(cells.sum(Count::get), 5);
    }

    #[test]
    fn sums_start_from_the_base_line_and_wrap() {
        let cells: PerWorker<[Count; 2]> = PerWorker::new(2);
        cells[0][0].add(u64::MAX);
        cells[1][0].add(3);
        cells[1][1].add(7);
        assert_eq!((cells.sum(|c| c[0].get()), cells.sum(|c| c[1].get())), (2, 7));
        cells.rebase();
        assert_eq!((cells.sum(|c| c[0].get()), cells.sum(|c| c[1].get())), (0, 0));
        cells[0][1].add(5);
        assert_eq!((cells.sum(|c| c[0].get()), cells.sum(|c| c[1].get())), (0, 5));
        assert_eq!(cells.iter().map(|c| c[1].get()).collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn no_count_is_lost_while_others_read_and_rebase() {
        let tallies: PerWorker<Tally> = PerWorker::new(2);
        let rounds: u64 = if cfg!(miri) { 200 } else { 200_000 };
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let tallies = &tallies;
                scope.spawn(move || (0..rounds).for_each(|_| tallies[worker].add(1, 60)));
            }
            for _ in 0..100 {
                tallies.rebase();
                assert!(tallies.sum(Tally::packets) <= 2 * rounds);
            }
        });
        assert_eq!(tallies.iter().map(Tally::packets).sum::<u64>(), 2 * rounds);
        assert_eq!(tallies.iter().map(Tally::bytes).sum::<u64>(), 120 * rounds);
    }
}
