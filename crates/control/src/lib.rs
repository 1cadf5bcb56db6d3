//! Linux as control plane.
//!
//! ```text
//!  kernel ── netlink ──▶ Follower ─▶ Model ─▶ Publisher ─▶ RouteTable, Adjacencies ─▶ workers
//!  FRR ───── FPM ──────────────────────┘
//! ```
//!
//! Linux resolves neighbours and owns addresses; FRR or BIRD own routes. [`Model`] is what the kernel has told us, or,
//! for routes, what FRR has; [`Publisher`] turns it into the tables that workers read. [`Control`] is the thread that
//! does it all.

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]
#![forbid(unsafe_code)]

mod cables;
mod carriers;
pub mod carry;
pub mod fpm;
pub mod kernel;
pub mod link;
mod link_watch;
pub mod netlink;
pub mod offload;
mod priority;
mod publish;
pub mod replicate;
mod service;
mod socket;

pub use cables::Cables;
pub use kernel::{Follower, Model};
pub use link_watch::LinkWatch;
pub use publish::{
    BLACKHOLE, BY_POLICY, Counts as PublishCounts, PUNT, Publisher, Tables, object_number, set_number,
};
pub use service::{Control, Handle, Settings, Source, Status};
pub use socket::{NetlinkSocket, Read};
