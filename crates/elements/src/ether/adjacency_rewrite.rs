//! `AdjacencyRewrite`: makes forwarded IPv4 packets into frames for their next hops.
//!
//! It takes the place of a `DecIPTTL` and an `EtherEncap` or `EtherRewrite` for each next hop: the TTL is decremented, the
//! checksum updated, and the 14 bytes before the IP header become the Ethernet header of the packet's next hop, all in one
//! visit to each packet. What stood before them is cut off; where there is nothing, room is made.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up for these packets: `DirectIPLookup` or one of its kin, with `ONE_OUTPUT
//!   true`.
//! - `ADJACENCY`...: neighbours, each `port gateway|- source destination`: packets of routes with this port and gateway
//!   (`-` = none) leave by output `port`, with these Ethernet addresses. Or groups, each `group port gateway|-` and its
//!   members, each `port gateway|- weight`: packets of routes with this port (of the table, no output) and gateway are
//!   spread over the members by weight, those of a flow (addresses, protocol, ports) always to the same one.
//! - `EXPIRED`: output for packets whose TTL is 1 or 0, as they came. Default: they are lost.
//! - `ADJACENCIES`: a name; elements with the same one have the same adjacencies. `routebricks router` publishes the
//!   neighbours of Linux in `main`.
//! - `INTERFACES`: a name; those of its interfaces that are VLANs have tags, which stand in frames to neighbours there.
//!   `routebricks router` publishes the VLANs of Linux in `main`.
//! - `TOO_LONG`: output for packets longer than the MTU of the interface that they would leave by, or of their route, as they
//!   came. Only adjacencies of `routebricks router` have MTUs. Default: they are lost.
//! - `UNRESOLVED`: output for packets whose next hop is none of the `ADJACENCY`s, as they came. Default: they are lost.
//! - `SETTLE`: how long packets are held after their neighbour became known, if others to the same destination left by `UNRESOLVED`
//!   in the last 4 s: those may still be on their way through Linux, and must not be overtaken. At most 1,024 packets are held.
//!   Default 0 = not at all. `routebricks router` has 10 ms, a cluster's node 50 ms.
//! - `ONE_OUTPUT`: true = all packets leave by output 0, for `ClusterSwitch`; the ports of adjacencies are then no outputs,
//!   and tags are left to it. Default false.
//!
//! # Ports
//! One push input; push outputs. The IP header must be marked (`CheckIPHeader`, `MarkIPHeader`).
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | the adjacencies, a line each, as in the arguments |
//! | `groups` | r | the groups, a line each, as in the arguments; a member's buckets, which are its share, behind its weight |
//! | `lookup` | r | with `port gateway\|-` as parameter: source and destination |
//! | `set` | w | an adjacency or a group as in the arguments, new or in place of that of the next hop |
//! | `remove` | w | `port gateway\|-`: forgets an adjacency or a group |
//!
//! # Losses
//! - `no_header`: the IP header is not marked, or cut short.
//! - `unresolved`: the next hop has no adjacency, and no `UNRESOLVED` is given.
//! - `expired`: the TTL was 1 or 0, and no `EXPIRED` is given.
//! - `too_long`: the packet is longer than the MTU, and no `TOO_LONG` is given.
//! - `no_room`: there is no room for the Ethernet header before the packet.
//! - `blackhole`: `routebricks router` has a route that says so.
//! - `settling`: as many packets are held as may be (`SETTLE`).
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 5) -> MarkIPHeader(0) -> GetIPAddress(16)
//!   -> rt :: DirectIPLookup(10.1.0.0/16 192.168.0.1 1, ONE_OUTPUT true)
//!   -> rewrite :: AdjacencyRewrite(rt, 1 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:2);
//! rewrite[0] -> Discard;
//! rewrite[1] -> Classifier(0/020000000002020000000001 12/080045 22/3f) -> c :: Counter -> Discard;
//! // c.count = 5
//! ```

use super::rewrite::{ETHERNET, Network, NextHops};
use crate::flow_hash::ipv4_hash;
use crate::ip::table_of;
use fib::{Adjacency, RouteTable};
use graph::{Initialize, NodeId};
use packet::Packet;
use packet::wire::ethernet::{self, put_header};
use packet::wire::ipv4::{self, MIN_HEADER_LEN};
use std::sync::Arc;

/// Ethernet and IPv4 header.
const HEADERS: usize = ETHERNET + MIN_HEADER_LEN;

/// IPv4, for [`AdjacencyRewrite`].
pub struct Ip4;

/// See the module.
pub type AdjacencyRewrite = NextHops<Ip4>;

impl Network for Ip4 {
    type Address = u32;
    const CLASS: &'static str = "AdjacencyRewrite";
    const ETHERTYPE: u16 = ethernet::IPV4;
    const HEADER: usize = MIN_HEADER_LEN;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u32>>> {
        table_of(cx, lookup)
    }

    #[inline(always)]
    fn rewrite_usual<const PLAIN: bool>(packet: &mut Packet, adjacency: &Adjacency) -> Option<()> {
        let (link, network) = packet.first_mut::<HEADERS>()?.split_first_chunk_mut::<ETHERNET>()?;
        let network = network.first_chunk_mut::<MIN_HEADER_LEN>()?;
        if !adjacency.is_plain() {
            return None;
        }
        if PLAIN {
            ipv4::decrement_plain_ttl(network);
        } else if !ipv4::decrement_ttl_usual(network) {
            return None;
        }
        put_header(link, &adjacency.header);
        Some(())
    }

    fn decrement(packet: &mut Packet) -> Option<bool> {
        packet.network_head_mut::<MIN_HEADER_LEN>().map(ipv4::decrement_ttl)
    }

    fn flow_hash(packet: &Packet) -> Option<u32> {
        ipv4_hash(packet.network()?)
    }

    fn destination(packet: &Packet) -> Option<u64> {
        let [.., a, b, c, d] = *packet.network()?.first_chunk::<MIN_HEADER_LEN>()?;
        // Not 0.
        Some(1 << 32 | u64::from(u32::from_be_bytes([a, b, c, d])))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, hex};

    const ROUTES: &str = "10.1.0.0/16 0, 10.2.0.0/16 192.168.0.1 1, 10.3.0.0/16 192.168.0.9 1";

    /// `Feed` at one end, a `Keep` at each of four outputs: two ports, the expired and the unresolved.
    fn lab(strip: usize) -> Lab {
        Lab::new(&format!(
            "f :: Feed -> CheckIPHeader(14) -> Strip({strip}) -> rt :: DirectIPLookup({ROUTES}, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2, 1 192.168.0.1 2:0:0:0:0:3 2:0:0:0:0:4,
                                        EXPIRED 2, UNRESOLVED 3);
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep; a[2] -> k2 :: Keep; a[3] -> k3 :: Keep;"
        ))
    }

    /// A frame to `destination` with a TTL, its last byte `tag`.
    fn frame(destination: [u8; 4], ttl: u8, tag: u8) -> Frame {
        let mut ip = *b"\x45\x00\x00\x15\x00\x01\x00\x00\x00\x11\x00\x00\x0a\x00\x00\x01\x00\x00\x00\x00";
        ip[8] = ttl;
        ip[16..].copy_from_slice(&destination);
        packet::wire::ipv4::set_checksum(&mut ip);
        Frame::new(&[&bytes("ffffffffffff ffffffffffff 0800")[..], &ip, &[tag]].concat())
    }

    fn tags(lab: &Lab, keep: &str) -> Vec<u8> {
        lab.kept(keep).iter().filter_map(|f| f.bytes.last().copied()).collect()
    }

    #[test]
    fn each_packet_gets_the_header_of_its_next_hop_and_leaves_by_its_port() {
        for strip in [0, 14] {
            let mut lab = lab(strip);
            for (i, to) in [1, 2, 1, 3, 2, 1].into_iter().enumerate() {
                lab.at(0, "f", &frame([10, to, 0, 7], 64, i as u8));
            }
            lab.at(0, "f", &frame([10, 2, 0, 7], 1, 6));
            lab.run();
            let kept = [0, 1, 2, 3].map(|k| lab.kept_hex(&format!("k{k}")));
            let tags = kept.each_ref().map(|k| k.iter().map(|hex| &hex[hex.len() - 1..]).collect::<String>());
            assert_eq!(tags, ["025", "14", "6", "3"]);
            let sent = "020000000004020000000003080045000015000100003f1167ce0a0000010a02000701";
            assert_eq!((&kept[1][0][..], strip), (sent, strip));
            assert_eq!(kept[2][0], hex(&frame([10, 2, 0, 7], 1, 6).bytes[strip..]), "as it came");
        }
    }

    #[test]
    fn packets_to_one_next_hop_expire_by_themselves() {
        // TTLs of packets to the second next hop, the only one; which go on, and which expire.
        for (ttls, sent, expired) in
            [(&[64, 1, 64, 0][..], "02", "13"), (&[1, 1], "", "01"), (&[9; 18], "0123456789abcdef01", "")]
        {
            let mut lab = lab(0);
            for (tag, ttl) in (0..).zip(ttls) {
                lab.at(0, "f", &frame([10, 2, 0, 7], *ttl, tag % 16));
            }
            lab.run();
            let kept = [0, 1, 2, 3].map(|k| lab.kept_hex(&format!("k{k}")));
            let tags = kept.each_ref().map(|k| k.iter().map(|hex| &hex[hex.len() - 1..]).collect::<String>());
            assert_eq!(tags, ["", sent, expired, ""]);
            assert!(kept[1].iter().all(|hex| hex.starts_with("0200000000040200000000030800")), "{kept:?}");
        }
    }

    #[test]
    fn neighbours_and_routes_come_and_go() {
        let mut lab = lab(0);
        lab.0.write("a.set", "1 192.168.0.9 2:0:0:0:0:5 2:0:0:0:0:6").unwrap();
        lab.0.write("a.remove", "0 -").unwrap();
        lab.0.write("rt.add", "10.4.0.0/16 192.168.0.1 1").unwrap();
        // A next hop that no route had before, with a neighbour known before the route comes.
        lab.0.write("a.set", "0 192.168.5.5 2:0:0:0:0:7 2:0:0:0:0:8").unwrap();
        lab.0.write("rt.add", "10.5.0.0/16 192.168.5.5 0").unwrap();
        for to in 1..=5 {
            lab.at(0, "f", &frame([10, to, 0, 7], 64, to));
        }
        lab.run();
        assert_eq!(
            [0, 1, 2, 3].map(|k| tags(&lab, &format!("k{k}"))),
            [vec![5], vec![2, 3, 4], vec![], vec![1]]
        );
        assert_eq!(
            lab.0.read("a.table"),
            "0 192.168.5.5 02-00-00-00-00-07 02-00-00-00-00-08\n1 192.168.0.1 02-00-00-00-00-03 02-00-00-00-00-04\n\
             1 192.168.0.9 02-00-00-00-00-05 02-00-00-00-00-06\n"
        );
        assert_eq!(lab.0.write("a.remove", "0 -"), Err("no such adjacency".to_owned()));
        assert_eq!(
            lab.0.write("a.set", "4 - 2:0:0:0:0:1 2:0:0:0:0:2"),
            Err("port: no output 4, there are 4".to_owned())
        );
    }

    #[test]
    fn who_was_diverted_is_not_overtaken() {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> CheckIPHeader(14) -> rt :: DirectIPLookup({ROUTES}, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2, UNRESOLVED 2, SETTLE 10ms);
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep; a[2] -> k2 :: Keep;"
        ));
        let all = |lab: &Lab| [0, 1, 2].map(|k| tags(lab, &format!("k{k}")));
        lab.at(0, "f", &frame([10, 2, 0, 7], 64, 0));
        lab.run();
        lab.0.write("a.set", "1 192.168.0.1 2:0:0:0:0:3 2:0:0:0:0:4").unwrap();
        // Others by the same neighbour, or by another, wait for nobody.
        for (ms, to, host, tag) in [(1000, 2, 7, 1), (1001, 2, 8, 2), (1002, 1, 7, 3), (1009, 2, 7, 4)] {
            lab.at(ms, "f", &frame([10, to, 0, host], 64, tag));
        }
        lab.run();
        assert_eq!(all(&lab), [vec![3], vec![2, 1, 4], vec![0]], "those that wait go on by themselves");
        lab.at(1011, "f", &frame([10, 2, 0, 7], 64, 5));
        lab.run();
        assert_eq!(all(&lab)[1], [5]);
        // Of too many the last are lost.
        lab.0.write("a.remove", "1 192.168.0.1").unwrap();
        lab.at(2000, "f", &frame([10, 2, 0, 7], 64, 6));
        lab.run();
        lab.0.write("a.set", "1 192.168.0.1 2:0:0:0:0:3 2:0:0:0:0:4").unwrap();
        (0..1030).for_each(|_| lab.at(2001, "f", &frame([10, 2, 0, 7], 64, 7)));
        lab.run();
        assert_eq!((all(&lab)[1].len(), lab.0.losses()), (1024, vec!["a.settling = 6".to_owned()]));
    }

    #[test]
    fn what_cannot_be_sent_is_lost_by_name() {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> c :: CheckIPHeader(14) -> rt :: RadixIPLookup({ROUTES}, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2) -> k :: Keep;
             g :: Feed -> rt;"
        ));
        lab.at(0, "f", &frame([10, 1, 0, 7], 1, 0));
        lab.at(0, "f", &frame([10, 2, 0, 7], 9, 1));
        lab.at(0, "f", &frame([10, 9, 0, 7], 9, 2));
        lab.at(0, "f", &frame([10, 1, 0, 7], 9, 3));
        let mut unmarked = frame([10, 1, 0, 7], 9, 4);
        unmarked.dst = u32::from_be_bytes([10, 1, 0, 7]);
        lab.at(0, "g", &unmarked);
        lab.run();
        assert_eq!(tags(&lab, "k"), [3]);
        assert_eq!(
            lab.0.losses(),
            ["rt.no_route = 1", "a.no_header = 1", "a.unresolved = 1", "a.expired = 1"]
        );
    }

    /// Sends a packet of each of 200 flows, twice, to a network behind the group.
    fn sent_by_flow(lab: &mut Lab) -> (Vec<u8>, Vec<u8>) {
        for round in 0..2 {
            for flow in 0..200 {
                let mut one = frame([10, 9, flow, 7], 64, flow);
                // Not what tells flows apart.
                one.bytes[19] = round;
                packet::wire::ipv4::set_checksum(&mut one.bytes[14..34]);
                lab.at(0, "f", &one);
            }
        }
        lab.run();
        (tags(lab, "k0"), tags(lab, "k1"))
    }

    #[test]
    fn a_group_spreads_flows_by_weight_and_keeps_each_on_its_way() {
        let mut lab = Lab::new(
            "f :: Feed -> CheckIPHeader(14) -> rt :: DirectIPLookup(10.9.0.0/16 7, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2, 1 192.168.0.1 2:0:0:0:0:3 2:0:0:0:0:4,
                                        group 7 - 0 - 1 1 192.168.0.1 3);
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep;",
        );
        assert_eq!(lab.0.read("a.groups"), "group 7 - 0 - 1 (64) 1 192.168.0.1 3 (192)\n");
        let (light, heavy) = sent_by_flow(&mut lab);
        assert_eq!(light.len() + heavy.len(), 400);
        assert!((60..140).contains(&light.len()), "{}", light.len());
        assert!(light.iter().all(|flow| !heavy.contains(flow)));
        // The same members in another order, and back: no flow moves.
        lab.0.write("a.set", "group 7 - 1 192.168.0.1 3 0 - 1").unwrap();
        assert_eq!(sent_by_flow(&mut lab), (light.clone(), heavy));
        // A light member that becomes heavier keeps its flows.
        lab.0.write("a.set", "group 7 - 0 - 2 1 192.168.0.1 3").unwrap();
        let (heavier, lighter) = sent_by_flow(&mut lab);
        assert_eq!(heavier.len() + lighter.len(), 400);
        assert!(light.iter().all(|flow| heavier.contains(flow)) && heavier.len() > light.len());
        // Without its neighbour a member's flows are lost: who knows of neighbours takes the member out.
        lab.0.write("a.set", "group 7 - 1 192.168.0.1 3").unwrap();
        let (none, all) = sent_by_flow(&mut lab);
        assert_eq!((none.len(), all.len()), (0, 400));
        lab.0.write("a.remove", "7 -").unwrap();
        assert_eq!(lab.0.read("a.groups"), "");
        sent_by_flow(&mut lab);
        assert_eq!(lab.0.losses(), ["a.unresolved = 400"]);
        let error = |text: &str| lab.0.write("a.set", text).unwrap_err();
        assert_eq!(error("group 7 - 2 - 1"), "port: no output 2, there are 2");
        assert_eq!(error("group 7 - 0 - 0"), "the weight of next hop #1 is 0");
        assert_eq!(error("group 7 -"), "port missing");
        assert_eq!(error("32768 - 2:0:0:0:0:1 2:0:0:0:0:2"), "port: must be below 32768");
        assert_eq!(lab.0.write("a.remove", "7 -"), Err("no such adjacency".to_owned()));
    }

    #[test]
    fn neighbours_behind_vlans_get_tags() {
        let mut lab = Lab::new(
            "f :: Feed -> v :: FindInterface(PORT 0, INTERFACES i, 2 eth0.100 0 100 2:0:0:0:0:1,
                                             3 eth1.7.5 1 ad:7.5 2:0:0:0:0:3);
             c :: CheckIPHeader(OFFSET 18); v[0] -> c; v[2] -> v2 :: CheckIPHeader(OFFSET 22);
             v[1], v[3], v[4], v[5], v[6] -> Discard; c, v2
               -> rt :: DirectIPLookup(10.1.0.0/16 0, 10.2.0.0/16 192.168.0.1 2, 10.3.0.0/16 3, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, INTERFACES i, 0 - 2:0:0:0:0:1 2:0:0:0:0:2,
                                        2 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:4, 3 - 2:0:0:0:0:3 2:0:0:0:0:6, EXPIRED 2);
             g :: Feed -> CheckIPHeader(OFFSET 14) -> rt;
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep; a[2] -> k2 :: Keep;",
        );
        let tagged = |to: u8, ttl: u8, tag: u8| {
            let Frame { bytes: plain, .. } = frame([10, to, 0, 7], ttl, tag);
            Frame::new(&[&bytes("020000000001 ffffffffffff 8100 0064")[..], &plain[12..]].concat())
        };
        for (i, to) in [1, 2, 3, 2].into_iter().enumerate() {
            lab.at(0, "f", &tagged(to, 64, i as u8));
            lab.at(0, "g", &frame([10, to, 0, 7], 64, 8 + i as u8));
        }
        lab.at(0, "f", &tagged(2, 1, 7));
        lab.run();
        assert_eq!(
            [0, 1, 2].map(|k| tags(&lab, &format!("k{k}"))),
            [vec![0, 1, 3, 8, 9, 11], vec![2, 10], vec![7]]
        );
        for (to, ttl) in [(1, 64), (2, 64), (3, 64), (2, 1)] {
            lab.at(0, "f", &tagged(to, ttl, 0));
        }
        lab.run();
        let heads = [
            "020000000002 020000000001 0800 45",
            "020000000004 020000000001 8100 0064 0800 45",
            "020000000006 020000000003 88a8 0007 8100 0005 0800 45",
        ]
        .map(|head| head.replace(' ', ""));
        let kept = ["k0", "k1"].map(|keep| lab.kept_hex(keep)).concat();
        assert_eq!(kept.len(), 3);
        kept.iter().zip(&heads).for_each(|(kept, head)| assert!(kept.starts_with(head), "{kept}"));
        assert_eq!(lab.kept_hex("k2"), [hex(&tagged(2, 1, 0).bytes)], "as it came");
        assert!(lab.0.read("v.table").ends_with("- - 9 351 5 195\n"), "{}", lab.0.read("v.table"));
        assert_eq!(
            lab.0.write("a.set", "9 - 2:0:0:0:0:1 2:0:0:0:0:2"),
            Err("port: no output or VLAN 9, there are 3 outputs".to_owned())
        );
        lab.end();
    }
}
