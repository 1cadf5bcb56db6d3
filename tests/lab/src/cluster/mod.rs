//! A cluster of four nodes on this machine, with a host behind each.

pub mod iperf;
mod probe;
mod show;
mod stage;

pub use probe::{Probe, Seen};
pub use show::Show;
pub use stage::{BEHIND, FIFTH, LIMIT, NODES, START, Stage};
