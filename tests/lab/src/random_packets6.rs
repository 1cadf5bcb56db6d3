//! Random IPv6 packets: valid, borderline and malformed ones, determined by a seed.

use std::net::Ipv6Addr;

use crate::packets::{Mac, TCP, UDP};
use crate::packets6::{ETHERTYPE_IP6, ICMP6, Ip6, icmp6};
use crate::random_extensions::{Extensions, extensions};
use crate::random_packets::{Sent, UNKNOWN, frame, hops, payload_size, transport};
use crate::rng::Rng;
use crate::table6::{Route6, Way, hole};
use crate::topology::{Link, MTU, SMALL_MTU};
use crate::view6::HEADER;

/// Makes packets.
#[derive(Debug)]
pub struct Generator6<'a> {
    rng: Rng,
    routes: &'a [Route6],
    links: &'a [Link],
    made: usize,
}

/// Where a packet comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Prefix,
    Hole,
    Router,
    LinkLocal,
    RouterLocal,
    Multicast,
    Martian,
}

const SOURCES: [(Place, u32); 8] = [
    (Place::Host, 70),
    (Place::Prefix, 8),
    (Place::Hole, 4),
    (Place::Router, 2),
    (Place::LinkLocal, 6),
    (Place::RouterLocal, 1),
    (Place::Multicast, 3),
    (Place::Martian, 6),
];
const DESTINATIONS: [(Place, u32); 8] = [
    (Place::Host, 30),
    (Place::Prefix, 40),
    (Place::Hole, 6),
    (Place::Router, 8),
    (Place::LinkLocal, 3),
    (Place::RouterLocal, 3),
    (Place::Multicast, 4),
    (Place::Martian, 6),
];

impl Place {
    fn note(self, source: bool) -> Option<&'static str> {
        Some(match (self, source) {
            (Place::Host | Place::Prefix, _) => return None,
            (Place::Hole, true) => "source without route",
            (Place::Hole, false) => "no route",
            (Place::Router, true) => "source is the router",
            (Place::Router, false) => "to the router",
            (Place::LinkLocal, true) => "source link-local",
            (Place::LinkLocal, false) => "to a link-local address",
            (Place::RouterLocal, true) => "source is the router's link-local address",
            (Place::RouterLocal, false) => "to the router's link-local address",
            (Place::Multicast, true) => "source multicast",
            (Place::Multicast, false) => "multicast",
            (Place::Martian, true) => "source martian",
            (Place::Martian, false) => "to a martian",
        })
    }

    fn is_router(self) -> bool {
        matches!(self, Place::Router | Place::RouterLocal)
    }

    /// Whether the router itself may take what goes there. The anycast addresses of the subnets are left out: this router
    /// does not have them, and keeps packets until somebody says that he does.
    fn is_local(self) -> bool {
        self.is_router() || self == Place::Multicast
    }
}

impl<'a> Generator6<'a> {
    /// A generator for routers with these routes and links.
    pub fn new(seed: u64, routes: &'a [Route6], links: &'a [Link]) -> Generator6<'a> {
        Generator6 { rng: Rng::new(seed), routes, links, made: 0 }
    }

    /// The next packet.
    pub fn packet(&mut self) -> Sent {
        let id = (self.made % 60_000) as u16 + 1;
        self.made += 1;
        let link = self.rng.pick(self.links);
        let mut notes = Vec::new();
        let (from, to) = (self.rng.weighted(&SOURCES), self.rng.weighted(&DESTINATIONS));
        notes.extend(from.note(true));
        notes.extend(to.note(false));
        // Most packets come from their own link.
        let source = match from {
            Place::Host if self.rng.chance(80) => link.host6(),
            _ => self.address(from, link, &mut notes),
        };
        let destination = self.address(to, link, &mut notes);
        let mut ip = Ip6::new(source, destination, UDP, Vec::new());
        // The routers keep the label, and quote it: it says what an output belongs to.
        ip.flow_label = self.rng.within(0..=15) << 16 | u32::from(id);
        // An answer to a bigger one would leave in fragments, which say nothing of what they answer.
        let room = if to.is_local() { 1000 } else { usize::from(MTU) - HEADER };
        let plain = from.is_router();
        self.fill(&mut ip, room, plain, &mut notes);
        if !plain && self.rng.chance(20) {
            self.extend(&mut ip, room, to.is_local(), &mut notes);
        }
        self.set_hop_limit(&mut ip, &mut notes);
        ip.traffic_class = if self.rng.chance(30) { self.rng.octet() } else { 0 };
        if self.rng.chance(10) {
            notes.push(self.spoil(&mut ip));
        }
        let group = Mac([0x33, 0x33, 0, 1, 2, 3]);
        let frame = frame(&mut self.rng, (ETHERTYPE_IP6, &ip.build()), group, link, &mut notes);
        Sent { id, port: link.port, frame, notes }
    }

    /// An address of that sort, of any link or beyond; a link-local one is of the link on which the packet is sent.
    fn address(&mut self, place: Place, on: Link, notes: &mut Vec<&'static str>) -> Ipv6Addr {
        let link = self.rng.pick(self.links);
        match place {
            Place::Host => self.rng.pick(&[link.host6(), link.neighbour6()]),
            Place::Prefix => {
                let route = self.rng.pick(self.routes);
                match route.way {
                    Way::Via(..) => {}
                    Way::Unreachable => notes.push("unreachable"),
                    Way::Prohibited => notes.push("prohibited"),
                    Way::BlackHole => notes.push("black hole"),
                }
                route.any(&mut self.rng)
            }
            Place::Hole => hole(&mut self.rng),
            Place::Router => link.router6(),
            Place::LinkLocal => on.host_local(),
            Place::RouterLocal => on.router_local(),
            Place::Multicast => {
                let groups = [
                    "ff01::1",
                    "ff02::1",
                    "ff02::2",
                    "ff02::5",
                    "ff02::9",
                    "ff05::2",
                    "ff0e::1234",
                    "ff00::1",
                ];
                self.parse(&groups)
            }
            Place::Martian => self.parse(&[
                "::",
                "::1",
                "::ffff:10.0.1.2",
                "::ffff:127.0.0.1",
                "::10.0.1.2",
                "fec0::1",
                "fd00::7",
                "64:ff9b::1.2.3.4",
                "2002:a00:102::1",
                "100::1",
            ]),
        }
    }

    fn parse(&mut self, choices: &[&str]) -> Ipv6Addr {
        // All choices are written right: a test makes all of them.
        self.rng.pick(choices).parse().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// A payload of at most `room` octets, often one that just fits the small MTU or just does not.
    fn fill(&mut self, ip: &mut Ip6, room: usize, plain: bool, notes: &mut Vec<&'static str>) {
        let borders = [1279, 1280, 1281, SMALL_MTU - 1, SMALL_MTU, SMALL_MTU + 1, MTU - 1, MTU];
        let size = payload_size(&mut self.rng, &borders, HEADER).min(room);
        let (source, destination, id) = (ip.source, ip.destination, ip.flow_label as u16);
        let choice = if plain { 1 } else { self.rng.within(1..=10) };
        (ip.next_header, ip.payload) = match choice {
            1..=6 => transport(&mut self.rng, (source, id), destination, size, choice > 4),
            7..=8 => {
                let word = 0x0102_0000 | u32::from(id);
                let code = if self.rng.chance(5) { 1 } else { 0 };
                (
                    ICMP6,
                    icmp6((source, destination), (128, code), word, &self.rng.octets(size.saturating_sub(8))),
                )
            }
            9 => (ICMP6, self.other_message(source, destination)),
            _ => (self.rng.pick(&UNKNOWN), self.rng.octets(size)),
        };
        ip.payload.truncate(room);
        if self.rng.chance(8) && !plain && self.spoil_checksum(ip) {
            notes.push("wrong upper-layer checksum");
        }
    }

    /// An ICMPv6 error about an invented packet: routers must not answer it with another one (RFC 4443 §2.4 (e)). Or a
    /// message of a type that nobody knows.
    fn other_message(&mut self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let about = Ip6::new(destination, source, UDP, self.rng.octets(8)).build();
        let errors = [(1, 0), (1, 4), (2, 0), (3, 0), (4, 1), (100, 0), (127, 0), (129, 0), (200, 0)];
        // Of neighbour and listener discovery, about addresses that nobody has.
        let of_links = [(130, 0), (132, 0), (133, 0), (134, 0), (135, 0), (136, 0), (137, 0), (143, 0)];
        let kind = if self.rng.chance(75) { self.rng.pick(&errors) } else { self.rng.pick(&of_links) };
        icmp6((source, destination), kind, 0, &about)
    }

    fn spoil_checksum(&mut self, ip: &mut Ip6) -> bool {
        let at = match ip.next_header {
            UDP => 6,
            TCP => 16,
            ICMP6 => 2,
            _ => return false,
        };
        let zero = self.rng.chance(30);
        let flipped = 1 << self.rng.within(0..=7);
        match ip.payload.get_mut(at..at + 2) {
            Some(sum) if zero => sum.fill(0),
            Some(sum) => sum[1] ^= flipped,
            None => return false,
        }
        true
    }

    /// Puts extension headers before the upper layer. The router would keep fragments for a minute, so none go to it.
    fn extend(&mut self, ip: &mut Ip6, room: usize, local: bool, notes: &mut Vec<&'static str>) {
        let Extensions { first, bytes, note } = extensions(&mut self.rng, ip.next_header);
        if local && note == "fragment" {
            return;
        }
        ip.next_header = first;
        ip.payload.splice(0..0, bytes);
        ip.payload.truncate(room);
        notes.push(note);
    }

    fn set_hop_limit(&mut self, ip: &mut Ip6, notes: &mut Vec<&'static str>) {
        ip.hop_limit = hops(&mut self.rng);
        notes.extend(match ip.hop_limit {
            0 => Some("hop limit 0"),
            1 => Some("hop limit 1"),
            2 => Some("hop limit 2"),
            255 => Some("hop limit 255"),
            _ => None,
        });
    }

    /// Makes a header wrong in one way.
    fn spoil(&mut self, ip: &mut Ip6) -> &'static str {
        let length = ip.payload.len() as u16;
        match self.rng.within(1..=5) {
            1 => {
                ip.version = self.rng.pick(&[0, 1, 4, 5, 7, 15]);
                "version"
            }
            2 => {
                ip.payload_length = Some(length.saturating_add(self.rng.within(1..=2000) as u16));
                "payload length over frame"
            }
            3 => {
                ip.payload_length = Some(self.rng.within(0..=u32::from(length.min(8))) as u16);
                "payload length small"
            }
            4 => {
                ip.payload_length = Some(0);
                "payload length 0"
            }
            _ => {
                ip.payload_length = Some(self.rng.within(0..=u32::from(length)) as u16);
                "payload length below payload"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table6::synthetic;

    #[test]
    fn packets_fit_their_links_and_are_of_all_sorts() {
        let links = [0, 1].map(|port| Link { port });
        let routes = synthetic(50, 1, &links);
        let mut generator = Generator6::new(1, &routes, &links);
        let mut notes = std::collections::BTreeSet::new();
        for _ in 0..20_000 {
            let sent = generator.packet();
            assert!(sent.frame.len() <= 1514, "{sent:?}");
            notes.extend(sent.notes);
        }
        for (place, _) in DESTINATIONS {
            let named = [true, false].into_iter().filter_map(|source| place.note(source));
            assert!(named.into_iter().all(|note| notes.contains(note)), "{place:?}: {notes:?}");
        }
    }
}
