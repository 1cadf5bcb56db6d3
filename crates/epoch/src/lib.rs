//! Quiescent-state reclamation: tables read without locks, changed by one writer.
//!
//! ```text
//!  worker 0   read … read │ read … read │ read …        │ = quiescent point (one load, one store)
//!  worker 1   read … │ read … │ (offline: asleep) │ read …
//!  writer          edit ─ swap ─ ticket ─ ─ ─ ─ ─ ─ ─ ─ ─ collect: every reader has passed a point
//! ```
//!
//! A worker owns one [`Reader`]. What it reads from a [`Table`] borrows that reader, and passing a quiescent
//! point needs it mutably, so the compiler proves that no reference is held there. Structures that change in
//! place instead of by copy use a [`Ticket`] to learn when a slot that they took out of use can be used again.
//!
//! [`PerWorker`] counters and the time-stamp counter ([`tsc`]) live here too, because every crate that touches
//! a worker needs them; so do arrays on large pages ([`LargeSlice`], [`LargeArray`])
//! and values alone on their cache lines ([`Padded`]).
//!
//! # Checking
//!
//! `cargo test -p epoch` runs the stress tests. All interleavings of small programs are explored by loom:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p epoch --release --test loom
//! ```

mod domain;
mod padded;
mod pages;
pub mod per_worker;
mod prefetch;
mod sync;
mod table;
mod tsc;

pub use domain::{Reader, Ticket, ticket};
pub use padded::Padded;
pub use pages::{LargeArray, LargeSlice};
pub use per_worker::{Accumulate, Count, PerWorker, Tally, WorkerCell};
pub use prefetch::{Ahead, prefetch};
pub use table::Table;
pub use tsc::{tsc, tsc_hz};
