//! The control side of one router in a process of its own, on a Unix socket to the router.
//!
//! ```text
//!   control process                                         router process
//!   kernel, FRR ─▶ Publisher ─▶ Tables ─▶ Log ─▶ [`Side`] ─────▶ [`follow`] ─▶ Replica ─▶ Tables ─▶ workers
//!                                 ▲                 ▲               │
//!                                 └─ at its start ──┴── everything ◀┘
//! ```
//!
//! The router's tables are what lasts. A control process that starts is told all that is in them, numbers, groups and
//! all, and makes that its own tables; from then on it sends what it changes. So it changes only what the kernel no
//! longer says, and what it does not know yet stays.

mod follow;
mod pipe;
mod side;

pub use super::channel::ChannelError;
pub use follow::{Reins, follow};
pub use side::Side;
