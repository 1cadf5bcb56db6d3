//! A complete router with Linux as its control plane.
//!
//! ```text
//!   caller's namespace:   eth1 (twin, a tap)   ip, FRR, BIRD, ping …      control ── tables ──┐
//!                          │ punt / inject                                                    ▼
//!   private namespace:    eth1 (the port) ─► CheckIPHeader ─► lookup ─► rewrite ─► eth2 (the port)
//! ```

mod config;
pub mod keeper;
mod namespaces;
mod twins;

pub use config::{PuntLimits, ReversePath, lookup, text};
pub use namespaces::Namespaces;
pub use twins::{Port, Twins, hand_over, take_back};

use control::{Cables, Control, Handle, Settings, Source, Tables};
use fib::{Adjacencies, Dir24_8, RangeTree, RouteTable};
use std::io;

/// The name of the tables in the configuration.
const TABLE: &str = "main";

/// The tables in which elements and control meet.
pub fn tables(of: &graph::Tables) -> Tables {
    Tables {
        routes4: of.get_or(TABLE, || RouteTable::<u32>::new(Dir24_8::new())),
        adjacencies4: of.get_or(TABLE, Adjacencies::default),
        routes6: of.get_or(TABLE, || RouteTable::<u128>::new(RangeTree::new())),
        // Elements for IPv4 and IPv6 write different EtherTypes before the same neighbours.
        adjacencies6: of.get_or("main6", Adjacencies::default),
    }
}

/// Starts to listen to the kernel of the current network namespace.
///
/// # Errors
/// Those of the system.
pub fn follow(twins: &[u32], cables: Cables, source: Source, tables: Tables) -> io::Result<Handle> {
    let settings = Settings { ports: twins.to_vec(), source, buffer: Settings::BUFFER };
    Control::start(&settings, Some(cables), tables)
}
