//! `IP6AdjacencyRewrite`: makes forwarded IPv6 packets into frames for their next hops.
//!
//! It takes the place of a `DecIP6HLIM` and an `EtherEncap` or `EtherRewrite` for each next hop: the hop limit is
//! decremented, and the 14 bytes before the IPv6 header become the Ethernet header of the packet's next hop, all in one
//! visit to each packet. What stood before them is cut off; where there is nothing, room is made.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up for these packets: `LookupIP6Route` with `ONE_OUTPUT true`.
//! - `ADJACENCY`...: neighbours, each `port gateway|- source destination`: packets of routes with this port and gateway
//!   (`-` = none) leave by output `port`, with these Ethernet addresses. Or groups, each `group port gateway|-` and its
//!   members, each `port gateway|- weight`: packets of routes with this port (of the table, no output) and gateway are
//!   spread over the members by weight, those of a flow (addresses, protocol, ports) always to the same one.
//! - `EXPIRED`: output for packets whose hop limit is 1 or 0, as they came. Default: they are lost.
//! - `ADJACENCIES`: a name; elements with the same one have the same adjacencies, so not one that `AdjacencyRewrite` has:
//!   the EtherType is part of them. `routebricks router` publishes the neighbours of Linux in `main6`.
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
//! One push input; push outputs. The IPv6 header must be marked (`CheckIP6Header`, `MarkIP6Header`).
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
//! - `no_header`: the IPv6 header is not marked, or cut short.
//! - `unresolved`: the next hop has no adjacency, and no `UNRESOLVED` is given.
//! - `expired`: the hop limit was 1 or 0, and no `EXPIRED` is given.
//! - `too_long`: the packet is longer than the MTU, and no `TOO_LONG` is given.
//! - `no_room`: there is no room for the Ethernet header before the packet.
//! - `blackhole`: `routebricks router` has a route that says so.
//! - `settling`: as many packets are held as may be (`SETTLE`).
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000100000000000000000002>, LIMIT 5)
//!   -> CheckIP6Header -> rt :: LookupIP6Route(2001:db8:1::/48 fe80::1 1, ONE_OUTPUT true)
//!   -> rewrite :: IP6AdjacencyRewrite(rt, 1 fe80::1 2:0:0:0:0:1 2:0:0:0:0:2);
//! rewrite[0] -> Discard;
//! rewrite[1] -> Classifier(0/020000000002020000000001 12/86dd60 21/3f) -> c :: Counter -> Discard;
//! // c.count = 5
//! ```

use super::rewrite::{ETHERNET, Network, NextHops};
use crate::flow_hash::ipv6_hash;
use crate::ip6::table_of;
use fib::{Adjacency, RouteTable};
use graph::{Initialize, NodeId};
use packet::Packet;
use packet::wire::ethernet::{self, put_header};
use packet::wire::ipv6::{self, HEADER_LEN};
use std::sync::Arc;

/// Ethernet and IPv6 header.
const HEADERS: usize = ETHERNET + HEADER_LEN;

/// IPv6, for [`IP6AdjacencyRewrite`].
pub struct Ip6;

/// See the module.
pub type IP6AdjacencyRewrite = NextHops<Ip6>;

impl Network for Ip6 {
    type Address = u128;
    const CLASS: &'static str = "IP6AdjacencyRewrite";
    const ETHERTYPE: u16 = ethernet::IPV6;
    const HEADER: usize = HEADER_LEN;

    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<u128>>> {
        table_of(cx, lookup)
    }

    #[inline(always)]
    fn rewrite_usual<const PLAIN: bool>(packet: &mut Packet, adjacency: &Adjacency) -> Option<()> {
        let (link, network) = packet.first_mut::<HEADERS>()?.split_first_chunk_mut::<ETHERNET>()?;
        if !adjacency.is_plain() || !ipv6::decrement_hop_limit(network.first_chunk_mut::<HEADER_LEN>()?) {
            return None;
        }
        put_header(link, &adjacency.header);
        Some(())
    }

    fn decrement(packet: &mut Packet) -> Option<bool> {
        packet.network_head_mut::<HEADER_LEN>().map(ipv6::decrement_hop_limit)
    }

    fn flow_hash(packet: &Packet) -> Option<u32> {
        ipv6_hash(packet.network()?)
    }

    fn destination(packet: &Packet) -> Option<u64> {
        let header = packet.network()?.first_chunk::<HEADER_LEN>()?;
        let (_, destination) = header.split_last_chunk::<16>()?;
        let address = u128::from_be_bytes(*destination);
        // Hosts of one network differ, and so do most of any two. Not 0.
        let mixed = ((address >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ address as u64;
        Some(mixed.max(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, hex};

    /// A frame to 2001:db8:`to`::`host` with a hop limit, its last byte `tag`.
    fn frame(to: u8, host: u8, limit: u8, tag: u8) -> Frame {
        let head = format!("ffffffffffff ffffffffffff 86dd 60000000 0001 3b {limit:02x}");
        let source = "20010db8 0009 0000 0000 0000 0000 0001";
        let destination = format!("20010db8 00{to:02x} 0000 0000 0000 0000 00{host:02x}");
        Frame::new(&bytes(&format!("{head} {source} {destination} {tag:02x}")))
    }

    fn tags(lab: &Lab, keep: &str) -> Vec<u8> {
        lab.kept(keep).iter().filter_map(|f| f.bytes.last().copied()).collect()
    }

    /// Two ports, the expired and the unresolved; routes of prefix 3 have no neighbour, those of 4 a group.
    fn lab(strip: usize) -> Lab {
        Lab::new(&format!(
            "f :: Feed -> CheckIP6Header(OFFSET 14) -> Strip({strip})
               -> rt :: LookupIP6Route(2001:db8:1::/48 0, 2001:db8:2::/48 fe80::1 1, 2001:db8:3::/48 fe80::9 1,
                                       2001:db8:4::/48 9, ONE_OUTPUT true)
               -> a :: IP6AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2, 1 fe80::1 2:0:0:0:0:3 2:0:0:0:0:4,
                                           group 9 - 0 - 1 1 fe80::1 1, EXPIRED 2, UNRESOLVED 3);
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep; a[2] -> k2 :: Keep; a[3] -> k3 :: Keep;"
        ))
    }

    #[test]
    fn each_packet_gets_the_header_of_its_next_hop_and_leaves_by_its_port() {
        for strip in [0, 14] {
            let mut lab = lab(strip);
            for (i, to) in [1, 2, 1, 3, 2, 1, 9].into_iter().enumerate() {
                lab.at(0, "f", &frame(to, 7, 64, i as u8));
            }
            lab.at(0, "f", &frame(2, 7, 1, 0x66));
            lab.at(0, "f", &frame(1, 7, 0, 0x67));
            lab.run();
            let kept = ["k0", "k1", "k2", "k3"].map(|keep| lab.kept_hex(keep));
            let tags = kept.each_ref().map(|k| k.iter().map(|hex| &hex[hex.len() - 2..]).collect::<String>());
            assert_eq!(tags, ["000205", "0104", "6667", "03"]);
            let mut sent = frame(2, 7, 63, 1).bytes;
            sent[..12].copy_from_slice(&bytes("020000000004 020000000003"));
            assert_eq!((&kept[1][0], strip), (&hex(&sent), strip));
            assert_eq!(kept[2][0], hex(&frame(2, 7, 1, 0x66).bytes[strip..]), "as it came");
            assert_eq!(lab.0.losses(), ["rt.no_route = 1"]);
        }
    }

    #[test]
    fn a_group_keeps_each_flow_on_its_way() {
        let mut lab = lab(0);
        for flow in (0..200).chain(0..200) {
            lab.at(0, "f", &frame(4, flow, 64, flow));
        }
        lab.run();
        let [one, other] = ["k0", "k1"].map(|keep| tags(&lab, keep));
        assert_eq!(one.len() + other.len(), 400);
        assert!((140..260).contains(&one.len()), "{}", one.len());
        assert!(one.iter().all(|flow| !other.contains(flow)));
    }
}
