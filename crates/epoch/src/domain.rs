//! Who reads, and how far each has come.
//!
//! There is one epoch for the process. A writer that has unlinked something raises it and remembers the new
//! value, its ticket; a reader copies it into its own slot at each quiescent point. A ticket has passed when no
//! online reader's slot is below it.
//!
//! Why that is enough. A reader that stored an epoch not below the ticket has read it from the writer's raise
//! (acquire from release), so whatever it loads afterwards shows the unlinking; its store is a release, so what
//! it loaded before happened before the writer that sees the store. A reader that comes online fences between
//! its slot and its first load, and the writer fences between the unlinking and its look at the slots: either
//! the writer sees the reader, or the reader sees the unlinking.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, fence, lock};

/// What the slot of an offline reader holds. Epochs start at 1.
const OFFLINE: u64 = 0;

/// The epoch that one reader has seen, alone on its cache lines (two, because of the adjacent-line prefetcher).
#[repr(align(128))]
struct Slot {
    seen: AtomicU64,
}

/// The epoch and the registered readers.
struct Domain {
    epoch: AtomicU64,
    slots: Mutex<Vec<Arc<Slot>>>,
}

#[cfg(not(loom))]
static DOMAIN: Domain = Domain { epoch: AtomicU64::new(OFFLINE + 1), slots: Mutex::new(Vec::new()) };

#[cfg(loom)]
loom::lazy_static! {
    static ref DOMAIN: Domain =
        Domain { epoch: AtomicU64::new(OFFLINE + 1), slots: Mutex::new(Vec::new()) };
}

/// The lowest epoch that an online reader has seen; `u64::MAX` when none is online.
pub(crate) fn oldest() -> u64 {
    fence(Ordering::SeqCst);
    lock(&DOMAIN.slots)
        .iter()
        .map(|slot| slot.seen.load(Ordering::Acquire))
        .filter(|&seen| seen != OFFLINE)
        .min()
        .unwrap_or(u64::MAX)
}

/// A thread's right to read tables, registered with the process for as long as it lives.
///
/// It may be sent to another thread but not shared between threads. References read through it borrow it, and
/// [`quiescent`](Reader::quiescent) needs it mutably:
///
/// ```
/// let table = epoch::Table::new(1);
/// let mut reader = epoch::Reader::new();
/// let value = *table.read(&reader);
/// reader.quiescent();
/// assert_eq!(value, 1);
/// ```
///
/// so that a reference cannot outlive a quiescent point:
///
/// ```compile_fail,E0502
/// let table = epoch::Table::new(1);
/// let mut reader = epoch::Reader::new();
/// let value = table.read(&reader);
/// reader.quiescent();
/// assert_eq!(*value, 1);
/// ```
///
/// nor be held through a sleep:
///
/// ```compile_fail,E0502
/// let table = epoch::Table::new(1);
/// let mut reader = epoch::Reader::new();
/// let value = table.read(&reader);
/// reader.offline(|| std::thread::yield_now());
/// assert_eq!(*value, 1);
/// ```
pub struct Reader {
    slot: Arc<Slot>,
    /// Makes the reader `!Sync`.
    one_thread: PhantomData<Cell<()>>,
}

impl Reader {
    /// Registers a reader; takes a lock.
    pub fn new() -> Reader {
        let mut slots = lock(&DOMAIN.slots);
        // A writer looks at the slots under the same lock: it finds this one, or has unlinked before.
        let slot = Arc::new(Slot { seen: AtomicU64::new(DOMAIN.epoch.load(Ordering::Acquire)) });
        slots.push(Arc::clone(&slot));
        Reader { slot, one_thread: PhantomData }
    }

    /// Passes a quiescent point: the caller holds nothing that it read through this reader.
    ///
    /// One load of a line that only writers change, one store to a line of the reader's own. An online reader
    /// must come by here regularly (each round of its loop), or go [offline](Reader::offline): until it does,
    /// no replaced value is freed.
    #[inline]
    pub fn quiescent(&mut self) {
        self.slot.seen.store(DOMAIN.epoch.load(Ordering::Acquire), Ordering::Release);
    }

    /// Runs `idle` (a sleep, a blocking wait) while this reader is offline, when it delays nobody.
    ///
    /// A closure rather than a pair of calls: this way nothing can be read through an offline reader.
    pub fn offline<R>(&mut self, idle: impl FnOnce() -> R) -> R {
        /// Comes back online also when `idle` unwinds.
        struct Online<'r>(&'r Slot);
        impl Drop for Online<'_> {
            fn drop(&mut self) {
                self.0.seen.store(DOMAIN.epoch.load(Ordering::Acquire), Ordering::Release);
                fence(Ordering::SeqCst);
            }
        }
        self.slot.seen.store(OFFLINE, Ordering::Release);
        let _online = Online(&self.slot);
        idle()
    }
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&DOMAIN.slots).retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("seen", &self.slot.seen.load(Ordering::Relaxed)).finish()
    }
}

/// A moment after which something is no longer reachable for readers that come anew; see [`ticket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Draws a ticket. Unlink first (a relaxed store will do), then draw, and use the place again only when the
/// ticket has [passed](Ticket::passed).
pub fn ticket() -> Ticket {
    Ticket(DOMAIN.epoch.fetch_add(1, Ordering::AcqRel) + 1)
}

impl Ticket {
    /// True when every reader that was online when the ticket was drawn has since passed a quiescent point,
    /// gone offline or gone away. Takes a lock; never waits for a reader.
    pub fn passed(self) -> bool {
        self.0 <= oldest()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::per_worker::tests::domain_lock;

    #[test]
    fn a_ticket_passes_when_the_online_readers_have_moved_on() {
        let _alone = domain_lock();
        let mut a = Reader::new();
        let mut b = Reader::new();
        let t = ticket();
        assert!(!t.passed());
        a.quiescent();
        assert!(!t.passed());
        b.quiescent();
        assert!(t.passed());
    }

    #[test]
    fn offline_late_and_gone_readers_delay_nobody() {
        let _alone = domain_lock();
        let mut sleeper = Reader::new();
        let gone = Reader::new();
        let t = ticket();
        let late = Reader::new();
        assert!(!t.passed());
        drop(gone);
        assert!(!t.passed());
        assert!(sleeper.offline(|| t.passed()));
        assert!(t.passed());
        drop(late);
    }

    #[test]
    fn a_reader_comes_back_online_from_a_panic() {
        let _alone = domain_lock();
        let mut reader = Reader::new();
        let idle =
            std::panic::AssertUnwindSafe(|| reader.offline(|| std::panic::resume_unwind(Box::new(()))));
        assert!(std::panic::catch_unwind(idle).is_err());
        let t = ticket();
        assert!(!t.passed());
        reader.quiescent();
        assert!(t.passed());
    }

    #[test]
    fn with_no_reader_a_ticket_passes_at_once() {
        let _alone = domain_lock();
        assert!(ticket().passed());
    }
}
