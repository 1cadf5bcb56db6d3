//! A complete router with Linux as its control plane.
//!
//! ```text
//!   caller's namespace:   eth1 (twin, a tap)   ip, FRR, BIRD, ping …      control ── tables ──┐
//!                          │ punt / inject                                                    ▼
//!   private namespace:    eth1 (the port) ─► CheckIPHeader ─► lookup ─► rewrite ─► eth2 (the port)
//! ```

pub mod apart;
mod config;
mod control_side;
mod eligible;
pub mod follow;
mod forwarding;
mod interface_state;
pub mod keeper;
mod lookup;
mod mirror;
mod namespaces;
mod pin;
pub mod recover;
mod sockets;
mod supervise;
mod sysctls;
mod twins;

pub use config::{Extras, PuntLimits, ReversePath, lookup, text};
pub use control_side::{ControlSide, Mode};
pub use eligible::check_router;
pub use interface_state::find_routes;
pub use lookup::Lookup;
#[cfg(test)]
pub use lookup::Wanted;
pub use mirror::Mirror;
pub use namespaces::Namespaces;
pub use sockets::Watch;
pub use twins::{Port, Twins, hand_over, take_back};

use control::Tables;
use fib::{Adjacencies, Dir24_8, Interfaces, RangeTree, RebuildLimit, RouteTable, Structure};
use io::say;

/// The name of the tables in the configuration.
const TABLE: &str = "main";

/// What the tables are looked up in unless the settings say something else.
const STRUCTURE4: Structure = Structure::Dir24_8;
/// The same for IPv6.
const STRUCTURE6: Structure = Structure::RangeTree;

/// The router's own addresses, of which its elements know.
pub fn own_addresses(of: &graph::Tables) -> std::sync::Arc<elements::ip::OwnAddresses> {
    of.get_or(TABLE, elements::ip::OwnAddresses::default)
}

/// What a handler says that is to change a table which the control side fills.
const ROUTES_OWNER: &str = "the routes of this table are Linux's: change them there (ip route, FRR, BIRD)";
const NEIGHBOURS_OWNER: &str = "the neighbours of this table are Linux's: change them there (ip neigh)";

/// Routes of Linux for which a structure may be built anew with each change.
const MOST_REBUILT: usize = 1_000;

fn tell_left(family: &str, left: Structure) {
    say!(
        "warning: [lookup] {family} = \"{left}\": built anew for each change, it would fall behind the changes of more than \
         {MOST_REBUILT} routes: the table is a {} from now on",
        Structure::RangeTree
    );
}

/// The tables in which elements and control meet, in a router with so many workers. Handlers do not change them.
pub fn tables(of: &graph::Tables, workers: usize) -> Tables {
    let tables = Tables {
        routes4: of.get_or(TABLE, || RouteTable::<u32>::new(Dir24_8::new())),
        adjacencies4: of.get_or(TABLE, Adjacencies::default),
        routes6: of.get_or(TABLE, || RouteTable::<u128>::new(RangeTree::new())),
        // Elements for IPv4 and IPv6 write different EtherTypes before the same neighbours.
        adjacencies6: of.get_or("main6", Adjacencies::default),
        interfaces: Some(of.get_or(TABLE, || Interfaces::new(workers))),
    };
    tables
        .routes4
        .limit_rebuilds(RebuildLimit { routes: MOST_REBUILT, tell: |left| tell_left("ipv4", left) });
    tables
        .routes6
        .limit_rebuilds(RebuildLimit { routes: MOST_REBUILT, tell: |left| tell_left("ipv6", left) });
    tables.routes4.set_owner(ROUTES_OWNER);
    tables.routes6.set_owner(ROUTES_OWNER);
    tables.adjacencies4.set_owner(NEIGHBOURS_OWNER);
    tables.adjacencies6.set_owner(NEIGHBOURS_OWNER);
    tables
}
