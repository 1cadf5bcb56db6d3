//! Random IPv4 packets: valid, borderline and malformed ones, determined by a seed.

use std::net::{IpAddr, Ipv4Addr};

use crate::packets::{
    DONT_FRAGMENT, ETHERTYPE_IP, ICMP, Ip, MORE_FRAGMENTS, Mac, TCP, UDP, ethernet, icmp, tcp, udp,
};
use crate::packets6::ETHERTYPE_IP6;
use crate::random_options;
use crate::rng::Rng;
use crate::table::RouteTable;
use crate::topology::{HOSTS, Link, MTU, SMALL_MTU};
use crate::{Error, Result};

/// A packet to be sent, with notes on what is special about it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its identification, by which what comes out is matched to it.
    pub id: u16,
    /// The port of the router into which it is sent.
    pub port: usize,
    /// All of it, Ethernet header first.
    pub frame: Vec<u8>,
    /// What is special about it.
    pub notes: Vec<&'static str>,
}

/// Makes packets.
#[derive(Debug)]
pub struct Generator<'a> {
    rng: Rng,
    table: &'a RouteTable,
    made: usize,
}

/// Where a packet comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Prefix,
    Hole,
    Router,
    Multicast,
    Broadcast,
    Martian,
}

impl Place {
    fn note(self, source: bool) -> Option<&'static str> {
        Some(match (self, source) {
            (Place::Host | Place::Prefix, _) => return None,
            (Place::Hole, true) => "source without route",
            (Place::Hole, false) => "no route",
            (Place::Router, true) => "source is the router",
            (Place::Router, false) => "to the router",
            (Place::Multicast, true) => "source multicast",
            (Place::Multicast, false) => "multicast",
            (Place::Broadcast, true) => "source broadcast",
            (Place::Broadcast, false) => "broadcast",
            (Place::Martian, true) => "source martian",
            (Place::Martian, false) => "to a martian",
        })
    }
}

const SOURCES: [(Place, u32); 7] = [
    (Place::Host, 80),
    (Place::Prefix, 8),
    (Place::Hole, 3),
    (Place::Router, 1),
    (Place::Multicast, 2),
    (Place::Broadcast, 2),
    (Place::Martian, 4),
];
const DESTINATIONS: [(Place, u32); 7] = [
    (Place::Host, 35),
    (Place::Prefix, 40),
    (Place::Hole, 6),
    (Place::Router, 4),
    (Place::Multicast, 4),
    (Place::Broadcast, 4),
    (Place::Martian, 7),
];

impl<'a> Generator<'a> {
    /// A generator for routers with this table.
    pub fn new(seed: u64, table: &'a RouteTable) -> Generator<'a> {
        Generator { rng: Rng::new(seed), table, made: 0 }
    }

    /// The next packet.
    pub fn packet(&mut self) -> Result<Sent> {
        let id = (self.made % 60_000) as u16 + 1;
        self.made += 1;
        let port = self.rng.index(HOSTS);
        let mut notes = Vec::new();
        let (from, to) = (self.rng.weighted(&SOURCES), self.rng.weighted(&DESTINATIONS));
        notes.extend(from.note(true));
        notes.extend(to.note(false));
        // Most packets come from their own link. Linux tells one source at most once a second that there is no
        // route, and no namespace can have that otherwise: hence many sources.
        let refused = matches!(to, Place::Hole | Place::Martian);
        let source = match from {
            Place::Host if refused => Link { port }.behind().any(&mut self.rng),
            Place::Host if self.rng.chance(80) => Link { port }.host(),
            _ => self.address(from)?,
        };
        let destination = self.address(to)?;
        let mut ip = Ip::new(source, destination, id, UDP, Vec::new());
        // An answer to a bigger one would leave in fragments, which say nothing of what they answer.
        let mut room = if to == Place::Router { 1000 } else { usize::from(Link { port }.mtu()) - 20 };
        if self.rng.chance(15) {
            let (options, note) = random_options::options(&mut self.rng);
            room -= options.len().next_multiple_of(4);
            ip.options = options;
            notes.push(note);
        }
        let own_source = from == Place::Router;
        self.fill(&mut ip, room, own_source);
        self.set_ttl(&mut ip, &mut notes);
        if to != Place::Router {
            // The router would keep pieces for half a minute and complain when their keys are used again.
            self.set_fragment(&mut ip, &mut notes);
        }
        ip.tos = if self.rng.chance(30) { self.rng.octet() } else { 0 };
        if self.rng.chance(12) {
            notes.push(self.spoil(&mut ip));
        }
        let (group, link) = (Mac([1, 0, 0x5e, 1, 2, 3]), Link { port });
        let frame = frame(&mut self.rng, (ETHERTYPE_IP, &ip.build()), group, link, &mut notes);
        Ok(Sent { id, port, frame, notes })
    }

    /// An address of that sort, of any link or beyond.
    fn address(&mut self, place: Place) -> Result<Ipv4Addr> {
        let link = Link { port: self.rng.index(HOSTS) };
        Ok(match place {
            Place::Host => self.rng.pick(&[link.host(), link.neighbour()]),
            Place::Prefix => self.table_address()?,
            Place::Hole => self.table.hole(&mut self.rng)?,
            Place::Router => link.router(),
            Place::Multicast => {
                let groups =
                    [[224, 0, 0, 1], [224, 0, 0, 5], [224, 1, 2, 3], [232, 7, 7, 7], [239, 255, 0, 1]];
                Ipv4Addr::from(self.rng.pick(&groups))
            }
            Place::Broadcast => {
                let [a, b, c, _] = link.router().octets();
                let choices = [[255; 4], [a, b, c, 255]];
                Ipv4Addr::from(self.rng.pick(&choices))
            }
            Place::Martian => {
                let choices = [
                    [0, 0, 0, 0],
                    [0, 1, 2, 3],
                    [127, 0, 0, 1],
                    [127, 5, 5, 5],
                    [240, 0, 0, 1],
                    [250, 1, 1, 1],
                ];
                Ipv4Addr::from(self.rng.pick(&choices))
            }
        })
    }

    fn table_address(&mut self) -> Result<Ipv4Addr> {
        let routes = self.table.routes();
        for _ in 0..10_000 {
            let address = routes[self.rng.index(routes.len())].prefix.any(&mut self.rng);
            if self.table.lookup(address).is_some_and(|route| route.gateway.is_some()) {
                return Ok(address);
            }
        }
        Err(Error::new("the routing table has no gateways"))
    }

    /// A payload of at most `room` octets, often one that just fits the small MTU or just does not.
    fn fill(&mut self, ip: &mut Ip, room: usize, plain: bool) {
        let header = 20 + ip.options.len().next_multiple_of(4);
        let borders = [SMALL_MTU - 1, SMALL_MTU, SMALL_MTU + 1, MTU - 1, MTU];
        let size = payload_size(&mut self.rng, &borders, header).min(room);
        let (source, destination, id) = (ip.source, ip.destination, ip.id);
        let choice = if plain { 1 } else { self.rng.within(1..=10) };
        (ip.protocol, ip.payload) = match choice {
            1..=6 => transport(&mut self.rng, (source, id), destination, size, choice > 4),
            7..=8 => {
                let [high, low] = id.to_be_bytes();
                (ICMP, icmp(8, 0, [1, 2, high, low], &self.rng.octets(size.saturating_sub(8))))
            }
            9 => (ICMP, self.icmp_error(source, destination)),
            _ => (self.rng.pick(&UNKNOWN), self.rng.octets(size)),
        };
        ip.payload.truncate(room);
    }

    /// An ICMP error about an invented packet: routers must not answer it with another one (RFC 1122 §3.2.2).
    fn icmp_error(&mut self, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
        let about = Ip::new(destination, source, self.rng.word(), UDP, self.rng.octets(8)).build();
        let (kind, code) = self.rng.pick(&[(3, 0), (3, 3), (11, 0), (12, 0)]);
        icmp(kind, code, [0; 4], &about)
    }

    fn set_ttl(&mut self, ip: &mut Ip, notes: &mut Vec<&'static str>) {
        ip.ttl = hops(&mut self.rng);
        notes.extend(match ip.ttl {
            0 => Some("TTL 0"),
            1 => Some("TTL 1"),
            2 => Some("TTL 2"),
            255 => Some("TTL 255"),
            _ => None,
        });
    }

    fn set_fragment(&mut self, ip: &mut Ip, notes: &mut Vec<&'static str>) {
        ip.fragment = match self.rng.within(1..=100) {
            1..=30 => DONT_FRAGMENT,
            31..=34 => MORE_FRAGMENTS,
            35..=38 => MORE_FRAGMENTS | self.rng.within(1..=0x1fff) as u16,
            39..=42 => self.rng.within(1..=0x1fff) as u16,
            43..=44 => DONT_FRAGMENT | MORE_FRAGMENTS,
            45 => 0x8000 | self.rng.pick(&[0, DONT_FRAGMENT]),
            _ => 0,
        };
        match ip.fragment {
            0 => {}
            DONT_FRAGMENT => notes.push("DF"),
            bits if bits & 0x8000 != 0 => notes.push("reserved flag"),
            bits if bits & 0x1fff != 0 => notes.push("later fragment"),
            _ => notes.push("first fragment"),
        }
    }

    /// Makes a header wrong in one way.
    fn spoil(&mut self, ip: &mut Ip) -> &'static str {
        let built = ip.build();
        let length = built.len() as u16;
        match self.rng.within(1..=8) {
            1 => {
                ip.version = self.rng.pick(&[0, 1, 3, 5, 6, 15]);
                "version"
            }
            2 => {
                ip.header_words = Some(self.rng.within(0..=4) as u8);
                "header length below 5"
            }
            3 => {
                // May point into the payload, where chance decides whether options are right.
                ip.header_words = Some(self.rng.within(6..=15) as u8);
                "header length not that of the header"
            }
            4 => {
                ip.total_length = Some(length.saturating_add(self.rng.within(1..=2000) as u16));
                "total length over frame"
            }
            5 => {
                ip.total_length = Some(self.rng.within(0..=40) as u16);
                "total length small"
            }
            6 => {
                ip.total_length = Some(self.rng.within(0..=u32::from(length)) as u16);
                "total length below payload"
            }
            7 => {
                let any = self.rng.word();
                ip.checksum = Some(self.rng.pick(&[0, 0xffff, any]));
                "checksum replaced"
            }
            _ => {
                ip.checksum =
                    Some(u16::from_be_bytes([built[10], built[11]]) ^ (1 << self.rng.within(0..=15)));
                "checksum bit flipped"
            }
        }
    }
}

/// Upper layers that nobody looks into: ESP, OSPF, SCTP, experiments.
pub(crate) const UNKNOWN: [u8; 5] = [50, 89, 132, 253, 254];

/// Octets behind a network header of this length: few, any number up to an MTU, or as many as make a packet of the length
/// of one of `borders`.
pub(crate) fn payload_size(rng: &mut Rng, borders: &[u16], header: usize) -> usize {
    match rng.within(1..=10) {
        1..=5 => rng.within(0..=200) as usize,
        6..=8 => rng.within(0..=u32::from(MTU)) as usize,
        _ => usize::from(rng.pick(borders)) - header,
    }
}

/// UDP or TCP to any port, in at least as many octets as its header has: protocol and segment.
pub(crate) fn transport<A: Into<IpAddr>>(
    rng: &mut Rng,
    source: (A, u16),
    destination: A,
    size: usize,
    is_tcp: bool,
) -> (u8, Vec<u8>) {
    if is_tcp {
        let flags = rng.pick(&[0x02, 0x10, 0x12, 0x18, 0x11]);
        let data = rng.octets(size.saturating_sub(20));
        return (TCP, tcp(source, (destination, rng.word()), flags, &data));
    }
    let data = rng.octets(size.saturating_sub(8));
    (UDP, udp(source, (destination, rng.word()), &data))
}

/// A TTL or hop limit, often one at which something ends.
pub(crate) fn hops(rng: &mut Rng) -> u8 {
    match rng.within(1..=100) {
        1..=8 => 1,
        9..=11 => 0,
        12..=18 => 2,
        19..=28 => 255,
        _ => rng.within(3..=254) as u8,
    }
}

/// A frame from a link's host with a packet of this EtherType, now and then to another station, a link-layer group or
/// of another type, with octets behind the packet, or cut.
pub(crate) fn frame(
    rng: &mut Rng,
    (ethertype, packet): (u16, &[u8]),
    group: Mac,
    link: Link,
    notes: &mut Vec<&'static str>,
) -> Vec<u8> {
    let router = link.router_mac();
    let (to, ethertype, note) = match rng.within(1..=100) {
        1 => (Mac([2, 0, 0, 0, 9, 9]), ethertype, Some("other station's frame")),
        2 => (Mac::BROADCAST, ethertype, Some("link broadcast")),
        3 => (group, ethertype, Some("link multicast")),
        4 => {
            let other = if ethertype == ETHERTYPE_IP { ETHERTYPE_IP6 } else { ETHERTYPE_IP };
            (router, rng.pick(&[0x0801, 0x8847, other, 0x0040]), Some("EtherType"))
        }
        _ => (router, ethertype, None),
    };
    notes.extend(note);
    let mut frame = ethernet(to, link.host_mac(), ethertype, packet);
    match rng.within(1..=100) {
        1..=5 if frame.len() < 200 => {
            let extra = rng.within(1..=46) as usize;
            frame.extend(rng.octets(extra));
            notes.push("octets behind the packet");
        }
        6..=7 => {
            let left = 15 + rng.index(frame.len() - 15);
            frame.truncate(left);
            notes.push("truncated");
        }
        _ => {}
    }
    frame
}
