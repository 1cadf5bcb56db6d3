//! A value that many threads read without locks and one thread at a time replaces.

#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use crate::domain::{Reader, Ticket, oldest, ticket};
use crate::padded::Padded;
use crate::sync::{AtomicPtr, Mutex, Ordering, lock};

/// A value read without locks and replaced by one writer at a time.
///
/// Reading costs one load. A writer builds the new value beside the old one and swaps a pointer; the old value
/// is kept until every online [`Reader`] has passed a quiescent point, and freed by a later edit, by
/// [`collect`](Table::collect) or with the table. Writers never wait for readers.
pub struct Table<T> {
    /// Always from `Box::into_raw`, owned by the table, replaced only under the lock of `retired`.
    current: AtomicPtr<T>,
    /// Elsewhere: who takes the lock must not take the line with `current` from the readers.
    retired: Box<Padded<Mutex<Vec<Retired<T>>>>>,
}

/// An unlinked value, owned by the list that it is in, and the ticket drawn after its unlinking.
struct Retired<T> {
    value: NonNull<T>,
    ticket: Ticket,
}

// SAFETY: a `Retired` owns its value and hands out no reference to it; it may be dropped wherever a `T` may.
unsafe impl<T: Send> Send for Retired<T> {}

impl<T> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: the value came from `Box::into_raw`, is owned by this object alone, and a `Retired` is dropped
        // only when its ticket has passed or when the table, which every reference borrows, is dropped.
        drop(unsafe { Box::from_raw(self.value.as_ptr()) });
    }
}

// The raw pointer makes `Table` neither `Send` nor `Sync` by itself.
// SAFETY: the table owns its values. They may be dropped on whichever thread drops the table or edits it (`Send`).
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: sharing the table lets several threads hold `&T` (`Sync`), and drops on one thread values that came
// from another (`Send`).
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T> Table<T> {
    /// A table that holds `value`.
    pub fn new(value: T) -> Table<T> {
        Table {
            current: AtomicPtr::new(Box::into_raw(Box::new(value))),
            retired: Box::new(Padded(Mutex::new(Vec::new()))),
        }
    }

    /// The value now: one load, no lock. The reference lives until the reader's next quiescent point.
    #[inline]
    pub fn read<'c>(&'c self, _reader: &'c Reader) -> &'c T {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: `current` was published whole (release). It is freed only after a ticket drawn after its
        // unlinking has passed; the reader is online (it can be neither offline nor quiescent while it is
        // borrowed for `'c`), so that ticket cannot pass before `'c` ends. The table outlives `'c` as well.
        unsafe { &*current }
    }

    /// The value now, for a thread without a [`Reader`]. Takes the writers' lock: `look` must not edit this
    /// table.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let _writer = lock(&self.retired);
        look(self.locked())
    }

    /// Replaces the value by one made from it. `make` must not edit this table; if it panics nothing changes.
    pub fn edit(&self, make: impl FnOnce(&T) -> T) {
        let done: Result<(), std::convert::Infallible> = self.try_edit(|old| Ok(make(old)));
        let Ok(()) = done;
    }

    /// Replaces the value by one made from it, or leaves all as it is when `make` fails.
    pub fn try_edit<E>(&self, make: impl FnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        let mut retired = lock(&self.retired);
        let new = make(self.locked())?;
        self.publish(new, &mut retired);
        let freed = passed(&mut retired);
        drop(retired);
        // Outside the lock: a value's destructor is not ours to know.
        drop(freed);
        Ok(())
    }

    /// Replaces the value.
    pub fn replace(&self, value: T) {
        self.edit(|_| value);
    }

    /// Changes a copy of the value and publishes it; returns what `change` returns.
    pub fn modify<R>(&self, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Clone,
    {
        let mut result = None;
        self.edit(|old| {
            let mut new = old.clone();
            result = Some(change(&mut new));
            new
        });
        #[expect(clippy::expect_used, reason = "`edit` calls its closure exactly once, or unwinds")]
        result.expect("edit has run the closure")
    }

    /// Frees the replaced values that no reader can hold any more; returns how many are still kept.
    pub fn collect(&self) -> usize {
        let mut retired = lock(&self.retired);
        let freed = passed(&mut retired);
        let kept = retired.len();
        drop(retired);
        drop(freed);
        kept
    }

    /// The value now; the caller holds the lock of `retired`.
    fn locked(&self) -> &T {
        // SAFETY: only a holder of the lock replaces and frees values, and the caller holds it for longer than
        // it uses the reference.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    fn publish(&self, value: T, retired: &mut Vec<Retired<T>>) {
        let new = Box::into_raw(Box::new(value));
        let old = self.current.swap(new, Ordering::AcqRel);
        if let Some(value) = NonNull::new(old) {
            retired.push(Retired { value, ticket: ticket() });
        }
    }
}

/// Takes out of the list what no reader can hold any more.
fn passed<T>(retired: &mut Vec<Retired<T>>) -> Vec<Retired<T>> {
    if retired.is_empty() {
        return Vec::new();
    }
    let oldest = oldest();
    // Tickets in the list ascend: they are drawn under its lock.
    let count = retired.partition_point(|r| r.ticket.0 <= oldest);
    retired.drain(..count).collect()
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // Not `get_mut`: loom's twin of the atomic has none.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: `current` came from `Box::into_raw`, and the table, borrowed by every reference, has none left.
        drop(unsafe { Box::from_raw(current) });
    }
}

impl<T: Default> Default for Table<T> {
    fn default() -> Self {
        Table::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| f.debug_tuple("Table").field(value).finish())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::per_worker::tests::domain_lock;

    #[test]
    fn edits_are_seen_and_old_values_kept_as_long_as_a_reader_may_hold_them() {
        let _alone = domain_lock();
        let first = Arc::new(1);
        let table = Table::new(Arc::clone(&first));
        let mut reader = Reader::new();
        let held = table.read(&reader);
        table.replace(Arc::new(2));
        assert_eq!((**held, **table.read(&reader)), (1, 2));
        assert_eq!((table.collect(), Arc::strong_count(&first)), (1, 2));
        reader.quiescent();
        assert_eq!((table.collect(), Arc::strong_count(&first)), (0, 1));
    }

    #[test]
    fn a_later_edit_collects() {
        let _alone = domain_lock();
        let first = Arc::new(1);
        let table = Table::new(Arc::clone(&first));
        let mut reader = Reader::new();
        table.edit(|old| Arc::new(**old + 1));
        reader.quiescent();
        table.edit(|old| Arc::new(**old + 1));
        assert_eq!(Arc::strong_count(&first), 1);
        assert_eq!(**table.read(&reader), 3);
    }

    #[test]
    fn dropping_the_table_frees_what_was_kept() {
        let _alone = domain_lock();
        let first = Arc::new(1);
        let table = Table::new(Arc::clone(&first));
        let _reader = Reader::new();
        table.replace(Arc::new(2));
        assert_eq!(Arc::strong_count(&first), 2);
        drop(table);
        assert_eq!(Arc::strong_count(&first), 1);
    }

    #[test]
    fn a_failed_or_panicking_edit_changes_nothing() {
        let table = Table::new(vec![1]);
        assert_eq!(table.try_edit(|_| Err("no")), Err("no"));
        let edit = std::panic::AssertUnwindSafe(|| table.edit(|_| std::panic::resume_unwind(Box::new(()))));
        assert!(std::panic::catch_unwind(edit).is_err());
        assert_eq!(table.modify(|list| list.pop()), Some(1));
        assert_eq!(table.with(Vec::len), 0);
    }

    #[test]
    fn a_destructor_may_use_the_table() {
        struct Nosy(Option<Arc<Table<Nosy>>>);
        impl Drop for Nosy {
            fn drop(&mut self) {
                if let Some(table) = &self.0 {
                    table.collect();
                }
            }
        }
        let _alone = domain_lock();
        let table = Arc::new(Table::new(Nosy(None)));
        table.replace(Nosy(Some(Arc::clone(&table))));
        table.replace(Nosy(None));
        assert_eq!((table.collect(), Arc::strong_count(&table)), (0, 1));
    }
}
