//! How packets enter and leave: ports, their queues, taps and raw sockets of Linux, rings between processes, memory and pcap
//! back ends; and how lines
//! for people leave ([`say!`]).
//!
//! A [`Port`] is a device with receive and transmit queues. Each queue is handed out once, as an owned value, so that
//! exactly one worker uses it ("one core per queue"). [`Devices`] is where elements get ports from: they *claim* what
//! they need while the configuration is being read, and take their queues after all claims were granted and the
//! device was started.

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod devices;
pub mod linux;
pub mod memory;
pub mod pcap;
mod port;
mod refusal;
pub mod ring;
mod rss;
mod say;

pub use devices::{Devices, NoDevices, OpenError, PoolSize};
pub use port::{Claim, FRAME_EXTRA, Limits, Link, Port, PortStats, Received, RxQueue, Sent, TxQueue};
pub use refusal::{Refusal, Refusals};
pub use rss::{Rss, RssFields, RssKey, RssKeyBytes, RssOffer, RssRefusal, RssState};
pub use say::{settle, tell, tell_panics, tell_patiently};
