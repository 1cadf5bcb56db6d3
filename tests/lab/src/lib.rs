//! Whole routers between real Linux hosts in network namespaces.
//!
//! The crate has four storeys:
//!
//! * plumbing: [`netns`], [`veth`], [`process`], [`capture`], [`trace`], [`snmp`], [`wait`];
//! * packets: [`packets`] builds them, [`view`] reads them back, [`exchange`] passes them through a router
//!   and waits until everything that comes out has come out;
//! * routing: [`twins`] is a router that Linux drives with its neighbours, [`daemons`] are FRR and BIRD, [`probe`] is a
//!   paced stream that tells what was lost and for how long;
//! * whole stories: [`topology`] and [`router`] set the stage, [`checks`] says what was expected and seen,
//!   [`internet`] puts a router between providers, [`cluster`] makes four
//!   nodes one router, [`pcap_ports`] runs a router on capture files, [`replay`] and [`differential`] judge a router packet by packet.
//!
//! Every check works with any [`router::Router`]. Linux itself is one of them, which proves the checks.

pub mod capture;
pub mod checks;
pub mod cluster;
pub mod daemons;
pub mod differential;
pub mod error;
pub mod exchange;
pub mod hosts;
pub mod internet;
pub mod linux;
pub mod netns;
pub mod output;
pub mod packets;
pub mod packets6;
pub mod pcap_ports;
pub mod probe;
pub mod process;
pub mod random_extensions;
pub mod random_options;
pub mod random_packets;
pub mod random_packets6;
pub mod replay;
pub mod report;
pub mod rng;
pub mod routebricks;
pub mod router;
pub mod snmp;
pub mod steps;
pub mod table;
pub mod table6;
pub mod topology;
pub mod trace;
pub mod twins;
pub mod veth;
pub mod view;
pub mod view6;
pub mod wait;

pub use error::{Context, Error, Result};
