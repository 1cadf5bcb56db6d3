//! The only road between workers: a mailbox for wake-ups and orders, and a ring per pair of workers for packets.

use crate::NodeId;
use crate::engine::Engine;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// Something for a worker to do between two tasks.
pub type Order = Box<dyn FnOnce(&mut Engine) + Send>;

/// One worker's mailbox.
#[derive(Default)]
pub struct Mailbox {
    dirty: AtomicBool,
    sleeping: AtomicBool,
    letters: Mutex<Letters>,
    thread: OnceLock<Thread>,
}

/// What lies in a mailbox.
#[derive(Default)]
pub struct Letters {
    /// Tasks to wake.
    pub wakes: Vec<NodeId>,
    /// Orders to carry out.
    pub orders: Vec<Order>,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox(dirty: {:?}, sleeping: {:?})", self.dirty, self.sleeping)
    }
}

impl Mailbox {
    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a task of the worker, and the worker if it sleeps.
    pub fn wake(&self, node: NodeId) {
        {
            let mut letters = self.letters();
            // A task that is on the list already needs no second letter.
            if !letters.wakes.contains(&node) {
                letters.wakes.push(node);
            }
        }
        self.ring();
    }

    /// Leaves an order for the worker, and wakes it if it sleeps.
    pub fn order(&self, order: Order) {
        self.letters().orders.push(order);
        self.ring();
    }

    /// Says that something has come: by letter or by ring.
    pub fn ring(&self) {
        self.dirty.store(true, Ordering::Release);
        self.rouse();
    }

    /// Wakes the worker's thread if it sleeps.
    pub fn rouse(&self) {
        // Pairs with the fence in `may_sleep`: either it sees what we left, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Takes the letters, if there are any.
    pub fn take(&self) -> Option<Letters> {
        if !self.dirty.load(Ordering::Relaxed) {
            return None;
        }
        self.dirty.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Some(std::mem::take(&mut *self.letters()))
    }

    /// True if something has come that the worker has not taken yet.
    pub fn is_rung(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// The worker's thread says who it is.
    pub fn attach(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// The worker is about to sleep. False if something has come and it must not; else it calls [`Mailbox::slept`]
    /// afterwards.
    pub fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.dirty.load(Ordering::Relaxed) {
            self.slept();
            return false;
        }
        true
    }

    /// The worker is awake again.
    pub fn slept(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}
