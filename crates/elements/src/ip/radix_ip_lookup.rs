//! `RadixIPLookup`: sends packets where the longest matching prefix of their destination annotation leads; a trie, quick to change.
//!
//! # Arguments
//! - `ROUTE`...: routes, each `address/mask [gateway] port`, the mask as a length or dotted. A bare address is a /32;
//!   `10/8` is 10.0.0.0/8. A later route replaces an earlier one for the same prefix. A port that is not an output is an
//!   error.
//! - `FILE`: a file of routes, one a line, `prefix [gateway] port`; `#` begins a comment. Routes given as arguments
//!   replace those of the file; IPv6 routes in it are left out.
//! - `ONE_OUTPUT`: true = all packets leave by output 0, whatever port their route names, and the destination annotation
//!   stays: for `AdjacencyRewrite`, which takes the port from the number of the next hop. Default false.
//! - `TABLE`: a name; elements with the same one look up in the same table, that of whichever class is first.
//!   `routebricks router` publishes the routes of Linux in `main`.
//! - `STRUCTURE`: what the table is looked up in: `dir24_8`, `range_tree`, `poptrie`, `radix`, `linear`; or `quickest`: those that suit large tables are built and
//!   measured with its routes on this machine, again when it has four times or a quarter as many, and one that changes of
//!   routes would build anew is left with the first change. Default `radix`. Of elements with the same `TABLE` the last one
//!   that says it decides.
//! - `INTERFACES`: a name; packets of interfaces that are in a VRF are looked up in the routes of the VRF. `routebricks
//!   router` publishes the interfaces of Linux in `main`.
//! - `PORT`: the port that all packets came in by. Default: the interface is that which `FindInterface` has noted on each.
//!
//! # Ports
//! One push input; a packet leaves by the push output that its route names. If the route has a gateway other than
//! 0.0.0.0 the gateway becomes the destination annotation. The number of the next hop is noted on the packet.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | all routes, a line each: prefix, gateway or `-`, port |
//! | `vrfs` | r | the routes of all VRFs, a line each: name and table of the VRF, then as in `table` |
//! | `count` | r | number of routes |
//! | `counts` | r | behind a `RouteCounter`: what was counted for each route, a line each: prefix, packets, bytes |
//! | `vrf_counts` | r | the same of all VRFs, with name and table of the VRF before it |
//! | `lookup` | r | with an address as parameter: `port [gateway]`; -1 where no route leads |
//! | `structure` | rw | what the table is looked up in; if that is the quickest, then what those cost that were measured, a line each: lookup, building, memory. Written: a name as in `STRUCTURE` |
//! | `add` | w | adds a route; fails if its prefix has one |
//! | `set` | w | adds a route in place of the one that its prefix may have |
//! | `remove` | w | removes a route: `address/mask [[gateway] port]` |
//! | `ctrl` | w | lines of `add`, `set`, `remove`, `flush`: all are done at once, or none |
//! | `flush` | w | removes all routes |
//!
//! # Losses
//! - `no_route`: no prefix contains the address.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<0a010203>, LIMIT 5) -> GetIPAddress(0) -> rt :: RadixIPLookup(10.0.0.0/8 0, 10.1.0.0/16 192.168.0.1 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 5
//! // rt.count = 2
//! ```

use super::lookup::{IPLookup, Structure};
use fib::{Radix, RouteTable};

/// The structure behind [`RadixIPLookup`].
#[derive(Debug)]
pub struct TrieRoutes;

impl Structure for TrieRoutes {
    const NAME: &'static str = "RadixIPLookup";
    const CHANGEABLE: bool = true;

    fn table() -> RouteTable<u32> {
        RouteTable::new(Radix::new())
    }
}

/// See the module.
pub type RadixIPLookup = IPLookup<TrieRoutes>;
