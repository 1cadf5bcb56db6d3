//! `IP6RouteCounter`: counts for each route the IPv6 packets that are looked up by it, and their bytes.
//!
//! It looks their destinations up itself, in front of the element that does it again to send them: next hops are shared by
//! many routes, so that what that one finds does not tell which route it was. A route is counted from when it comes, whatever
//! next hops it leads to meanwhile; one that goes and comes again, from then.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up: `LookupIP6Route`. Elements with the same table count together. Its handlers
//!   `counts` and `vrf_counts` give what was counted.
//! - `INTERFACES`: a name, as that of the lookup: packets of interfaces in a VRF are looked up there. VRFs that come later are
//!   counted.
//! - `PORT`: the port that all packets came in by. Default: the interface is that which `FindInterface` has noted on each.
//!
//! # Ports
//! One push input, one push output: all packets pass. Those that no route leads to are not counted. Bytes are those of packets as
//! they come, with their Ethernet header if they have it.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000100000000000000000002>, LIMIT 5)
//!   -> CheckIP6Header -> IP6RouteCounter(rt) -> rt :: LookupIP6Route(2001:db8:1::/48 0) -> Discard;
//! // rt.counts = 2001:db8:1::/48              5 200
//! ```

use super::{addresses, table_of};
use crate::ip::{Counted, Destination};
use fib::{RangeTree, RouteTable};
use graph::{Initialize, NodeId};
use packet::Batch;
use std::sync::Arc;

/// IPv6, for [`IP6RouteCounter`].
pub struct Destinations6;

/// See the module.
pub type IP6RouteCounter = Counted<Destinations6>;

impl Destination for Destinations6 {
    type Address = u128;
    type Numbers = RangeTree<u128>;
    const CLASS: &'static str = "IP6RouteCounter";
    const VERSION: u8 = 6;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u128>>> {
        table_of(cx, lookup)
    }

    #[inline]
    fn destinations(batch: &mut Batch, addresses: &mut [u128]) {
        addresses::destinations(batch, addresses);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes};

    #[test]
    fn the_longest_prefix_counts() {
        let text = "f :: Feed -> CheckIP6Header -> IP6RouteCounter(rt)
            -> rt :: LookupIP6Route(2001:db8::/32 0, 2001:db8::7 fe80::9 0) -> Discard;
            Idle -> IP6RouteCounter(other) -> other :: LookupIP6Route(::/0 0) -> Discard;";
        let mut lab = Lab::new(text);
        for last in [1, 7, 2, 7, 3] {
            let ip =
                format!("60000000 00003b40 {} 20010db8{}{last:02x}", "00".repeat(15) + "01", "00".repeat(11));
            lab.at(0, "f", &Frame::new(&bytes(&ip)));
        }
        lab.run();
        let counts = lab.0.read("rt.counts");
        assert_eq!(
            counts.split_whitespace().collect::<Vec<_>>(),
            ["2001:db8::/32", "3", "120", "2001:db8::7/128", "2", "80"]
        );
        assert_eq!(lab.0.read("other.counts").split_whitespace().collect::<Vec<_>>(), ["::/0", "0", "0"]);
        let error = crate::testing::errors("Idle -> IP6RouteCounter(c) -> c :: Counter -> Discard;");
        assert!(error.contains("LOOKUP: not an element that looks up IPv6 routes"), "{error}");
    }
}
