//! Notifiers: how a storage element tells sleeping movers and sources that there is something to do.

use crate::NodeId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A task that wants to be woken: worker and element.
pub type Listener = (usize, NodeId);

/// The face of a storage element (`Queue`) towards notification: how much is in it, how much fits.
///
/// "Empty" notification: tasks that pull from it sleep while it is empty. "Full" notification: sources that push into
/// it sleep while it is full (only if [`Notifier::with_full`]).
#[derive(Debug)]
pub struct Notifier {
    len: AtomicUsize,
    capacity: AtomicUsize,
    full: bool,
    one_worker: bool,
    pullers: OnceLock<Box<[Listener]>>,
    pushers: OnceLock<Box<[Listener]>>,
}

impl Notifier {
    /// Notifies of empty and of full.
    pub fn with_full(capacity: usize) -> Notifier {
        Notifier {
            len: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
            full: true,
            one_worker: false,
            pullers: OnceLock::new(),
            pushers: OnceLock::new(),
        }
    }

    /// Notifies of empty only.
    pub fn without_full(capacity: usize) -> Notifier {
        Notifier { full: false, ..Notifier::with_full(capacity) }
    }

    /// Places are reserved and released by one worker only. Others may look. Then they are counted without locked
    /// instructions, each of which waits until all that the worker has stored is in the cache.
    #[must_use]
    pub fn of_one_worker(self) -> Notifier {
        Notifier { one_worker: true, ..self }
    }

    /// Packets held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that may be held.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the number of packets that may be held.
    pub fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Free places; "infinitely many" without full notification.
    pub fn room(&self) -> usize {
        if self.full { self.capacity().saturating_sub(self.len()) } else { usize::MAX }
    }

    /// Reserves up to `n` places; returns how many were got, and whether the storage was empty before.
    pub fn reserve(&self, n: usize) -> (usize, bool) {
        let capacity = self.capacity();
        let mut len = self.len.load(Ordering::Relaxed);
        loop {
            let got = n.min(capacity.saturating_sub(len));
            if got == 0 {
                return (0, false);
            }
            if self.one_worker {
                self.len.store(len + got, Ordering::Release);
                return (got, len == 0);
            }
            match self.len.compare_exchange_weak(len, len + got, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (got, len == 0),
                Err(now) => len = now,
            }
        }
    }

    /// Gives back `n` places; true if the storage was full before.
    pub fn release(&self, n: usize) -> bool {
        let before = if self.one_worker {
            let len = self.len.load(Ordering::Relaxed);
            self.len.store(len - n, Ordering::Release);
            len
        } else {
            self.len.fetch_sub(n, Ordering::AcqRel)
        };
        n > 0 && before >= self.capacity()
    }

    /// Tasks that sleep while the storage is empty.
    pub fn pullers(&self) -> &[Listener] {
        self.pullers.get().map_or(&[], |l| l)
    }

    /// Tasks that sleep while the storage is full.
    pub fn pushers(&self) -> &[Listener] {
        if self.full { self.pushers.get().map_or(&[], |l| l) } else { &[] }
    }

    /// Set once, by the plan.
    pub(crate) fn connect(&self, pullers: Vec<Listener>, pushers: Vec<Listener>) {
        // A second plan over the same class value cannot happen: class values are made by the plan.
        let _ = self.pullers.set(pullers.into());
        let _ = self.pushers.set(pushers.into());
    }
}
