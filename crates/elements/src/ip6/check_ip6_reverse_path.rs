//! `CheckIP6ReversePath`: loses IPv6 packets whose source address packets of this port should not have (uRPF, RFC 3704).
//!
//! Sources are looked up, a whole batch at a time, in the table that destinations are looked up in.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up: `LookupIP6Route`.
//! - `ADJACENCIES`: a name: that of the `IP6AdjacencyRewrite` behind it, which knows the outputs of next-hop objects and of groups.
//! - `PORT`: the port that packets come from; needed for `MODE strict` unless `INTERFACES` is given.
//! - `INTERFACES`: a name, as that of the lookup: sources of packets of interfaces in a VRF are looked up there. Without
//!   `PORT` packets come from the interface that `FindInterface` has noted on each.
//! - `MODE`: `strict` = the best route to the source leads out of `PORT`, if it is one with several ways any of them;
//!   `loose` = there is a route to the source, perhaps the default one, that is no black hole; `off` = all packets pass. Default
//!   `strict`.
//! - `NOWHERE`: a port number that stands for no route where a route names it without a gateway, and in strict mode for
//!   other ports where there is one: in the tables of `routebricks router`, 4294967295.
//! - `POLICY`: a port number that a route names if somebody else decides about packets from there: they leave by the second
//!   output. In the tables of `routebricks router`, 2147483648. Without it such sources are right.
//!
//! A route over a next-hop object or a group of which no neighbour is known yet is taken as one out of `PORT`: what comes
//! from there may be what makes Linux find the neighbour out.
//!
//! # Ports
//! One push input, one or two push outputs. The IPv6 header must be marked (`CheckIP6Header`, `MarkIP6Header`).
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `mode` | rw | `strict`, `loose` or `off`, as the argument |
//!
//! # Losses
//! - `no_header`: the IPv6 header is not marked, or cut short.
//! - `reverse_path`: the route to the source is another one, or there is none.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000100000000000000000002>, LIMIT 5)
//!   -> CheckIP6Header -> CheckIP6ReversePath(rt, PORT 0) -> rt :: LookupIP6Route(2001:db8::/48 0, 2001:db8:1::/48 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 5
//! ```

use super::table_of;
use crate::ip::{ReversePath, Source};
use fib::RouteTable;
use graph::{Initialize, NodeId};
use packet::Packet;
use packet::wire::ipv6::{HEADER_LEN, Ipv6};
use std::sync::Arc;

/// IPv6, for [`CheckIP6ReversePath`].
pub struct Sources6;

/// See the module.
pub type CheckIP6ReversePath = ReversePath<Sources6>;

impl Source for Sources6 {
    type Address = u128;
    const CLASS: &'static str = "CheckIP6ReversePath";
    const VERSION: u8 = 6;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u128>>> {
        table_of(cx, lookup)
    }

    #[inline(always)]
    fn source(packet: &mut Packet) -> Option<u128> {
        packet.network_head_mut::<HEADER_LEN>().map(|head| Ipv6::of(head).source())
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};

    /// Packets of 5 that pass, from an address of the first network.
    fn passed(mode: &str, routes: &str) -> (String, Vec<String>) {
        let text = format!(
            "InfiniteSource(DATA \\<60000000 00003b40 20010db8000000000000000000000001
                                    20010db8000100000000000000000002>, LIMIT 5)
               -> CheckIP6Header -> check :: CheckIP6ReversePath(rt, {mode})
               -> rt :: LookupIP6Route({routes}, 2001:db8:1::/48 1);
             rt[0] -> Discard; rt[1] -> c :: Counter -> Discard;"
        );
        let mut bench = Bench::new(&text, &Setup::default()).unwrap();
        bench.run().unwrap();
        let seen = (bench.read("c.count"), bench.losses());
        bench.end().unwrap();
        seen
    }

    #[test]
    fn sources_of_other_ports_are_lost() {
        let ours = "2001:db8::/48 0";
        let lost = vec!["check.reverse_path = 5".to_owned()];
        for (mode, routes, count, losses) in [
            ("PORT 0", ours, "5", vec![]),
            ("PORT 1", ours, "0", lost.clone()),
            ("MODE loose", ours, "5", vec![]),
            ("MODE loose", "2001:db8:2::/48 0", "0", lost.clone()),
            ("PORT 0", "2001:db8:2::/48 0", "0", lost),
        ] {
            assert_eq!(passed(mode, routes), (count.to_owned(), losses), "{mode} {routes}");
        }
    }
}
