//! One control plane for many nodes: the tables of the control node, copied to all others.
//!
//! ```text
//!   control node                                              every other node
//!   Publisher ─▶ Tables ─ watch ─▶ Log ─▶ Feed ─▶ TLS 1.3 ─▶ Replica ─▶ Tables ─▶ workers
//!                                   ▲                           │
//!                                 Nodes ◀─── acknowledgements ──┘
//! ```
//!
//! A node gets everything once, as a snapshot, and then the numbered changes. When it comes back it goes on where it was,
//! if what has changed since is still there. Routes, neighbours and the numbers of next hops are the same on all nodes. A
//! node whose control node is gone keeps forwarding as it was told last.

mod adopt;
pub mod apart;
mod change;
mod channel;
mod client;
mod feed;
mod half;
mod log;
mod message;
mod nodes;
mod reclaim;
mod renumber;
mod replica;
mod scope;
mod server;
mod snapshot;
mod tls;
mod watch;
mod wire;

pub use client::{Client, ClientSettings, ClientStatus, StartError};
pub use feed::Feed;
pub use log::{Log, Ring};
pub use message::{Hello, Message, OLDEST, VERSION};
pub use nodes::{LINGER, NodeStatus, Nodes};
pub use reclaim::Reclaim;
pub use replica::{Answer, Counts as ReplicaCounts, Replica};
pub use server::{Server, ServerSettings, ServerStatus};
pub use snapshot::Snapshot;
pub use tls::{Authority, Identity, IdentityError};
pub use wire::{Frames, ProtocolError};
