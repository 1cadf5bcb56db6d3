//! `RouteCounter`: counts for each route the IPv4 packets that are looked up by it, and their bytes.
//!
//! It looks their destinations up itself, in front of the element that does it again to send them: next hops are shared by
//! many routes, so that what that one finds does not tell which route it was. For a full table that takes some 90 MB of
//! memory, and 15 MB for each worker. A route is counted from when it comes, whatever next hops it leads to meanwhile; one that
//! goes and comes again, from then.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up: `DirectIPLookup` or one of its kin. Elements with the same table count
//!   together. Its handlers `counts` and `vrf_counts` give what was counted.
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
//! InfiniteSource(DATA \<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 5) -> MarkIPHeader(0) -> GetIPAddress(16)
//!   -> RouteCounter(rt) -> rt :: DirectIPLookup(10.1.0.0/16 0) -> Discard;
//! // rt.counts = 10.1.0.0/16        5 100
//! ```

use super::counted::{Counted, Destination};
use super::table_of;
use fib::{Dir24_8, RouteTable};
use graph::{Initialize, NodeId};
use packet::Batch;
use std::sync::Arc;

/// IPv4, for [`RouteCounter`].
pub struct Destinations4;

/// See the module.
pub type RouteCounter = Counted<Destinations4>;

impl Destination for Destinations4 {
    type Address = u32;
    type Numbers = Dir24_8;
    const CLASS: &'static str = "RouteCounter";
    const VERSION: u8 = 4;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u32>>> {
        table_of(cx, lookup)
    }

    #[inline]
    fn destinations(batch: &mut Batch, addresses: &mut [u32]) {
        addresses.copy_from_slice(batch.destinations());
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::{Frame, Lab, bytes};
    use fib::{Dir24_8, Interface, Interfaces, NextHop, Route, RouteChange, RouteTable, Tags, Vrf};

    /// A packet of 20 bytes to 10.`high`.0.`low`.
    fn packet(high: u8, low: u8) -> Frame {
        Frame::new(&bytes(&format!("45000014 00000000 40110000 0a000001 0a{high:02x}00{low:02x}")))
    }

    #[test]
    fn routes_count_from_when_they_come_to_when_they_go() {
        for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
            let text = "f :: Feed -> MarkIPHeader(0) -> GetIPAddress(16) -> RouteCounter(rt) -> rt :: DirectIPLookup(10.0.0.0/15 0);
                        g :: Feed -> MarkIPHeader(0) -> GetIPAddress(16) -> RouteCounter(rt) -> rt;
                        rt[0] -> Discard; Idle -> other :: RadixIPLookup(10.0.0.0/8 0) -> Discard;";
            let mut lab = Lab(Bench::new(text, &Setup { workers, burst, ..Setup::default() }).unwrap());
            let mut counts = |change: &str| {
                if !change.is_empty() {
                    lab.0.write("rt.ctrl", change).unwrap();
                }
                (0..4).for_each(|low| lab.at(0, "f", &packet(1, low)));
                [(0, 7), (2, 0), (1, 9)].iter().for_each(|(high, low)| lab.at(1, "g", &packet(*high, *low)));
                lab.run();
                lab.0.read("rt.counts").split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(counts(""), "10.0.0.0/15 6 120");
            assert_eq!(counts("add 10.1.0.0/24 0"), "10.0.0.0/15 7 140 10.1.0.0/24 5 100");
            // Another next hop is not another route.
            assert_eq!(counts("set 10.1.0.0/24 10.9.9.9 0"), "10.0.0.0/15 8 160 10.1.0.0/24 10 200");
            assert_eq!(counts("remove 10.1.0.0/24"), "10.0.0.0/15 14 280");
            assert_eq!(
                counts("set 10.1.0.9 0\nadd 10.1.0.0/24 0"),
                "10.0.0.0/15 15 300 10.1.0.0/24 4 80 10.1.0.9/32 1 20"
            );
            assert_eq!(counts("flush"), "");
            assert_eq!(counts("add 10.2.0.0/16 0"), "10.2.0.0/16 1 20");
            assert_eq!(lab.0.read("other.counts"), "");
        }
    }

    #[test]
    fn what_is_in_a_vrf_counts_there() {
        let setup = Setup::default();
        let all = setup.tables.get_or("main", || Interfaces::new(1));
        let text =
            "f :: Feed -> v :: FindInterface(PORT 0, INTERFACES main); v[1], v[2], v[3], v[4], v[5], v[6] -> Discard;
             v[0] -> CheckIPHeader(OFFSET 18) -> RouteCounter(rt, INTERFACES main)
               -> rt :: DirectIPLookup(TABLE main, INTERFACES main);
             g :: Feed -> CheckIPHeader(OFFSET 14) -> RouteCounter(one, INTERFACES main, PORT 1)
               -> one :: DirectIPLookup(TABLE main, INTERFACES main, PORT 1);
             rt[0], one[0] -> Discard;";
        let shared = setup.tables.get_or("main", || RouteTable::<u32>::new(Dir24_8::new()));
        let mut lab = Lab(Bench::new(text, &setup).unwrap());
        let hop = NextHop { gateway: None, port: 0 };
        let number = shared.numbers(&[hop]).unwrap()[0];
        let route =
            |prefix: &str, next_hop| RouteChange::Set(Route { prefix: prefix.parse().unwrap(), next_hop });
        shared.apply(&[route("10.0.0.0/8", hop)]).unwrap();
        let red = all.vrf("red", 20);
        red.routes4
            .apply(&[route("10.0.0.0/16", Vrf::hop(number)), route("10.1.0.0/16", Vrf::hop(number))])
            .unwrap();
        let one = |port, id, vrf: bool| {
            let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap_or_default();
            let (name, vrf) = (format!("{port}.{id}"), vrf.then(|| red.clone()));
            Some(Interface {
                name,
                port,
                tags,
                mac: [2, 0, 0, 0, 0, 1],
                mtu: 0,
                up: true,
                settings: fib::InterfaceSettings::default(),
                vrf,
                counts: all.counts(),
            })
        };
        all.set(vec![one(0, 0, false), one(1, 0, true), one(0, 10, false), one(0, 20, true)]);
        let frame = |id: u16, high: u8| {
            let mut ip =
                *b"\x45\x00\x00\x15\x00\x01\x00\x00\x40\x11\x00\x00\x0b\x00\x00\x01\x0a\x00\x00\x01-";
            ip[17] = high;
            packet::wire::ipv4::set_checksum(&mut ip[..20]);
            let head = if id == 0 { String::new() } else { format!("8100{id:04x}") };
            Frame::new(&[&bytes(&format!("020000000001 020000000009 {head} 0800"))[..], &ip].concat())
        };
        for (id, high) in [(10, 0), (20, 0), (20, 1), (10, 1), (10, 2), (20, 2), (20, 1)] {
            lab.at(0, "f", &frame(id, high));
        }
        lab.at(0, "g", &frame(0, 1));
        lab.run();
        let words =
            |handler| lab.0.read(handler).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words("rt.counts"), "10.0.0.0/8 3 117");
        assert_eq!(words("rt.vrf_counts"), "red 20 10.0.0.0/16 1 39 red 20 10.1.0.0/16 3 113");
        assert_eq!(words("one.vrf_counts"), words("rt.vrf_counts"));
    }

    #[test]
    fn mistakes() {
        let error = |arguments: &str| {
            let text = format!(
                "Idle -> RouteCounter({arguments}) -> rt :: DirectIPLookup(0.0.0.0/0 0) -> c :: Counter -> Discard;"
            );
            crate::testing::errors(&text)
        };
        assert!(error("c").contains("LOOKUP: not an element that looks up IPv4 routes"));
        assert!(error("x").contains("no element named 'x'"));
        assert!(error("").contains("LOOKUP"));
    }
}
