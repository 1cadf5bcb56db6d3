//! `CheckReversePath`: loses IPv4 packets whose source address packets of this port should not have (uRPF, RFC 3704).
//!
//! Sources are looked up, a whole batch at a time, in the table that destinations are looked up in.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up: `DirectIPLookup` or one of its kin.
//! - `ADJACENCIES`: a name: that of the `AdjacencyRewrite` behind it, which knows the outputs of next-hop objects and of groups.
//! - `PORT`: the port that packets come from; needed for `MODE strict` unless `INTERFACES` is given.
//! - `INTERFACES`: a name, as that of the lookup: sources of packets of interfaces in a VRF are looked up there. Without
//!   `PORT` packets come from the interface that `FindInterface` has noted on each.
//! - `MODE`: `strict` = the best route to the source leads out of `PORT`, if it is one with several ways any of them;
//!   `loose` = there is a route to the source, perhaps the default one, that is no black hole; `linux` = what Linux has set for
//!   the interface (`rp_filter`); `off` = all packets pass. Default `strict`.
//! - `NOWHERE`: a port number that stands for no route where a route names it without a gateway, and in strict mode for
//!   other ports where there is one: in the tables of `routebricks router`, 4294967295.
//! - `POLICY`: a port number that a route names if somebody else decides about packets from there: they leave by the second
//!   output. In the tables of `routebricks router`, 2147483648. Without it such sources are right.
//!
//! A route over a next-hop object or a group of which no neighbour is known yet is taken as one out of `PORT`: what comes
//! from there may be what makes Linux find the neighbour out.
//!
//! # Ports
//! One push input, one or two push outputs. The IP header must be marked (`CheckIPHeader`, `MarkIPHeader`).
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `mode` | rw | `strict`, `loose`, `linux` or `off`, as the argument |
//!
//! # Losses
//! - `no_header`: the IP header is not marked, or cut short.
//! - `reverse_path`: the route to the source is another one, or there is none.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 5) -> MarkIPHeader(0) -> GetIPAddress(16)
//!   -> check :: CheckReversePath(rt, PORT 1) -> rt :: DirectIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1);
//! rt[0] -> Discard;
//! rt[1] -> Discard;
//! // check.drops = 5
//! ```

use super::reverse_path::{ReversePath, Source};
use super::table_of;
use fib::RouteTable;
use graph::{Initialize, NodeId};
use packet::Packet;
use packet::wire::ipv4::{Ipv4, MIN_HEADER_LEN};
use std::sync::Arc;

/// IPv4, for [`CheckReversePath`].
pub struct Sources4;

/// See the module.
pub type CheckReversePath = ReversePath<Sources4>;

impl Source for Sources4 {
    type Address = u32;
    const CLASS: &'static str = "CheckReversePath";
    const VERSION: u8 = 4;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u32>>> {
        table_of(cx, lookup)
    }

    #[inline(always)]
    fn source(packet: &mut Packet) -> Option<u32> {
        packet.network_head_mut::<MIN_HEADER_LEN>().map(|head| Ipv4::of(head).source())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes};

    /// 10.1/16 by port 0; 10.2/16 by port 1; 10.3/16 by 0 or 1; 10.4/16 by a group out of 0; 10.5/16 nowhere; 10.6/16 by
    /// none of the ports.
    fn passed(mode: &str) -> (Vec<u8>, Vec<String>) {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> CheckIPHeader(OFFSET 14)
               -> check :: CheckReversePath(rt, ADJACENCIES a, NOWHERE 60000, {mode})
               -> rt :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 192.168.0.1 1, 10.3.0.0/16 100, 10.4.0.0/16 101,
                                       10.5.0.0/16 60000, 10.6.0.0/16 192.168.9.9 60000, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, ADJACENCIES a, 0 - 2:0:0:0:0:1 2:0:0:0:0:2,
                                        group 100 - 0 - 1 1 192.168.0.1 1, group 101 - 0 - 1);
             a[0] -> k :: Keep; a[1] -> Discard;"
        ));
        for from in 1..=7 {
            let mut ip = *b"\x45\x00\x00\x15\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x01\x00\x01";
            ip[13] = from;
            packet::wire::ipv4::set_checksum(&mut ip);
            lab.at(
                0,
                "f",
                &Frame::new(&[&bytes("ffffffffffff ffffffffffff 0800")[..], &ip, &[from]].concat()),
            );
        }
        lab.run();
        let tags = lab.kept("k").iter().filter_map(|frame| frame.bytes.last().copied()).collect();
        (tags, lab.0.losses())
    }

    #[test]
    fn loose_is_any_route_that_leads_somewhere() {
        let (passed, losses) = passed("MODE loose");
        assert_eq!((passed, losses), (vec![1, 2, 3, 4, 6], vec!["check.reverse_path = 2".to_owned()]));
    }

    #[test]
    fn strict_is_a_route_out_of_the_port() {
        for (port, from, lost) in [(0, vec![1, 3, 4], 4), (1, vec![2, 3], 5), (2, vec![], 7)] {
            let (passed, losses) = passed(&format!("PORT {port}"));
            assert_eq!((passed, losses), (from, vec![format!("check.reverse_path = {lost}")]), "{port}");
        }
    }

    #[test]
    fn what_others_decide_about_leaves_by_the_second_output() {
        let mut lab = Lab::new(
            "f :: Feed -> MarkIPHeader(0) -> check :: CheckReversePath(rt, PORT 0, NOWHERE 60000, POLICY 50000, MODE off)
               -> k :: Keep; check[1] -> p :: Keep;
             Idle -> rt :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 50000, 10.3.0.0/16 60000, ONE_OUTPUT true); rt -> Discard;",
        );
        for (mode, counts) in [("off", [4, 0]), ("loose", [1, 1]), ("strict", [1, 1])] {
            lab.0.write("check.mode", mode).unwrap();
            for from in 1..=4 {
                let text = format!("45000014 00000000 40110000 0a0{from}0001 0a010001");
                lab.at(0, "f", &Frame::new(&bytes(&text)));
            }
            lab.run();
            assert_eq!([lab.kept("k").len(), lab.kept("p").len()], counts, "{mode}");
        }
        let error = crate::testing::errors(
            "Idle -> CheckReversePath(rt, PORT 0, POLICY 5) -> rt :: DirectIPLookup(0.0.0.0/0 0) -> Discard;",
        );
        assert!(error.contains("needs a second output"), "{error}");
    }

    #[test]
    fn modes_can_change() {
        let mut lab = Lab::new(
            "f :: Feed -> MarkIPHeader(0) -> check :: CheckReversePath(rt, PORT 0, MODE off)
               -> k :: Keep; Idle -> rt :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1); rt[0], rt[1] -> Discard;
             Idle -> other :: CheckReversePath(rt, MODE loose) -> Discard;",
        );
        for (mode, passed) in [("", 3), ("loose", 2), ("strict", 1), ("off", 3)] {
            if !mode.is_empty() {
                lab.0.write("check.mode", mode).unwrap();
                assert_eq!(lab.0.read("check.mode"), mode);
            }
            for from in 1..=3 {
                lab.at(
                    0,
                    "f",
                    &Frame::new(&bytes(&format!("45000014 00000000 40110000 0a0{from}0001 0a010001"))),
                );
            }
            lab.run();
            assert_eq!((mode, lab.kept("k").len()), (mode, passed));
        }
        assert_eq!(
            lab.0.write("check.mode", "tight"),
            Err("expected strict, loose, linux or off".to_owned())
        );
        assert_eq!(lab.0.write("other.mode", "off"), Ok(()));
        let error = lab.0.write("other.mode", "strict").unwrap_err();
        assert!(error.contains("MODE strict needs PORT"), "{error}");
    }

    #[test]
    fn what_it_needs() {
        let error = |arguments: &str| {
            let text = format!(
                "Idle -> CheckReversePath({arguments}) -> rt :: DirectIPLookup(0.0.0.0/0 0) -> c :: Counter -> Discard;"
            );
            crate::testing::errors(&text)
        };
        assert!(error("rt").contains("MODE strict needs PORT"));
        assert!(error("c, PORT 0").contains("not an element that looks up IPv4 routes"));
        assert!(error("rt, MODE tight").contains("expected strict, loose, linux or off"));
    }
}
