//! Several servers as one router: `cluster.toml`, and the processes that it comes to on this machine.
//!
//! ```text
//!   caller's namespace:   ext0 ext1 … (twins of all lines)   ip, FRR, BIRD …      supervisor
//!                           │ control node                                           │ starts, watches
//!   a namespace per node:   a: eth1, to-b, to-c      b: eth2, to-a, to-c      c: … ◄─┘
//!                                  └── veth pairs ──────────┘
//! ```

mod carriers;
pub mod config;
mod election;
mod growth;
mod life;
mod member;
pub mod node;
mod office;
mod orders;
pub mod places;
pub mod requests;
mod seat;
pub mod supervisor;
mod tables;
mod text;
#[cfg(test)]
mod vlan_tests;

pub use text::{SWITCH, text};
