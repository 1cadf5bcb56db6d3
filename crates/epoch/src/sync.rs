//! The primitives that loom replaces when it explores interleavings.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicPtr, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use std::sync::PoisonError;

/// Locks, also after a panic elsewhere: every critical section here leaves its data whole at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
