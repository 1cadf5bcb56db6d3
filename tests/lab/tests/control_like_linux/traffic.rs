//! Random packets to where the operations lead, determined by a seed. Each can be sent again under another number.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use lab::packets::{DONT_FRAGMENT, ETHERTYPE_IP, ICMP, Ip, MORE_FRAGMENTS, Mac, UDP, ethernet, icmp, udp};
use lab::packets6::{ETHERTYPE_IP6, ICMP6, Ip6, icmp6};
use lab::random_extensions::extensions;
use lab::random_options;
use lab::rng::Rng;

use crate::operations::{POOL4, POOL6};

/// Ports of each router.
pub const PORTS: usize = 3;
/// Experimental protocol (RFC 3692).
const EXPERIMENT: u8 = 253;
/// Starts and ends each unit of eight octets of a payload, with the packet's number between.
const MARK: [u8; 3] = [0xd1, 0xff, 0xa5];
const END: u8 = 0x5a;

/// To whom a frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// The address that the router's interface has now.
    Router,
    /// The one that it had at first.
    First,
    /// Another one.
    Other,
    /// Everybody.
    Broadcast,
    /// A group.
    Group,
}

/// What follows the IP header and its extensions.
#[derive(Clone, Copy, Debug)]
enum Upper {
    Udp { ports: [u16; 2] },
    Echo,
    Other,
}

/// A packet without its number.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The port by which it goes in.
    pub port: usize,
    station: Station,
    net: Net,
    upper: Upper,
    /// Octets of the whole packet, at least.
    size: usize,
}

#[derive(Clone, Debug)]
enum Net {
    V4(Ip),
    /// With extension headers, the first of which is in the template.
    V6(Ip6, Vec<u8>),
}

impl Packet {
    /// The frame for a router whose interface has the address `router`.
    pub fn frame(&self, number: u32, router: Mac) -> Vec<u8> {
        let first = Mac([2, 0, 0, 0, 0, self.port as u8 + 1]);
        let to = match (self.station, &self.net) {
            (Station::Router, _) => router,
            (Station::First, _) => first,
            (Station::Other, _) => Mac([2, 0, 0, 0, 9, 9]),
            (Station::Broadcast, _) => Mac::BROADCAST,
            (Station::Group, Net::V4(_)) => Mac([1, 0, 0x5e, 1, 2, 3]),
            (Station::Group, Net::V6(..)) => Mac([0x33, 0x33, 0, 1, 2, 3]),
        };
        let from = Mac([2, 0, 0, 0, 0, 0x11 + self.port as u8]);
        match &self.net {
            Net::V4(template) => {
                let mut ip = template.clone();
                ip.id = number as u16;
                let header = 20 + ip.options.len().next_multiple_of(4);
                ip.payload = self.payload(number, header);
                ethernet(to, from, ETHERTYPE_IP, &ip.build())
            }
            Net::V6(template, headers) => {
                let mut ip = template.clone();
                ip.flow_label = number & 0xf_ffff;
                ip.payload = [&headers[..], &self.payload(number, 40 + headers.len())].concat();
                ethernet(to, from, ETHERTYPE_IP6, &ip.build())
            }
        }
    }

    /// What is behind a header of this length.
    fn payload(&self, number: u32, header: usize) -> Vec<u8> {
        let data = marks(number, self.size.saturating_sub(header + 8).max(16));
        match (self.upper, &self.net) {
            (Upper::Udp { ports }, Net::V4(ip)) => {
                udp((ip.source, ports[0]), (ip.destination, ports[1]), &data)
            }
            (Upper::Udp { ports }, Net::V6(ip, _)) => {
                udp((ip.source, ports[0]), (ip.destination, ports[1]), &data)
            }
            (Upper::Echo, Net::V4(_)) => icmp(8, 0, [1, 2, 3, 4], &data),
            (Upper::Echo, Net::V6(ip, _)) => icmp6((ip.source, ip.destination), (128, 0), 0x0102_0304, &data),
            (Upper::Other, _) => data,
        }
    }

    /// Source and destination.
    pub fn ends(&self) -> (std::net::IpAddr, std::net::IpAddr) {
        match &self.net {
            Net::V4(ip) => (ip.source.into(), ip.destination.into()),
            Net::V6(ip, _) => (ip.source.into(), ip.destination.into()),
        }
    }

    /// The type of service of an IPv4 packet.
    pub fn tos(&self) -> u8 {
        match &self.net {
            Net::V4(ip) => ip.tos,
            Net::V6(ip, _) => ip.traffic_class,
        }
    }

    /// True if it has IPv4 timestamp options, which hold what no two routers write alike.
    pub fn has_times(&self) -> bool {
        matches!(&self.net, Net::V4(ip) if ip.options.contains(&68))
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Packet { port, station, net, upper, size } = self;
        let (source, destination) = self.ends();
        write!(
            f,
            "port {} {station:?}: {source} -> {destination}, {size} octets, {upper:?}, tos {:#x}",
            port + 1,
            self.tos()
        )?;
        match net {
            Net::V4(ip) => {
                write!(f, ", TTL {}, fragment {:#06x}, options {:02x?}", ip.ttl, ip.fragment, ip.options)
            }
            Net::V6(ip, headers) => {
                write!(f, ", hop limit {}, headers {:02x?} of {}", ip.hop_limit, headers, ip.next_header)
            }
        }
    }
}

/// `length` octets that tell the packet's number wherever 15 of them are.
fn marks(number: u32, length: usize) -> Vec<u8> {
    let unit = [&MARK[..], &number.to_be_bytes(), &[END]].concat();
    unit.into_iter().cycle().take(length).collect()
}

/// The number in the first mark of a frame.
pub fn number_in(frame: &[u8]) -> Option<u32> {
    let unit = frame.windows(8).find(|unit| unit[..3] == MARK && unit[7] == END)?;
    Some(u32::from_be_bytes([unit[3], unit[4], unit[5], unit[6]]))
}

/// `count` packets of both families into all ports.
pub fn packets(seed: u64, count: usize) -> Vec<Packet> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| packet(&mut rng)).collect()
}

fn packet(rng: &mut Rng) -> Packet {
    let port = rng.index(PORTS);
    let station = rng.weighted(&[
        (Station::Router, 93),
        (Station::First, 3),
        (Station::Other, 1),
        (Station::Broadcast, 2),
        (Station::Group, 1),
    ]);
    let upper = match rng.within(1..=10) {
        1..=6 => {
            Upper::Udp { ports: [1024 + rng.within(0..=40_000) as u16, rng.pick(&[53, 7, 4000, 33_434])] }
        }
        7..=8 => Upper::Echo,
        _ => Upper::Other,
    };
    let size = match rng.within(1..=10) {
        1..=6 => rng.within(44..=200),
        7 => rng.within(44..=1500),
        _ => rng.pick(&[576, 1000, 1280, 1300, 1400, 1500]) + rng.pick(&[0, 0, 1]) - rng.pick(&[0, 0, 4]),
    };
    let size = size.min(1500) as usize;
    let hops = rng.weighted(&[(64, 84), (1, 7), (2, 6), (0, 1), (255, 2)]);
    let net = if rng.chance(55) { v4(rng, port, upper, hops) } else { v6(rng, port, upper, hops) };
    Packet { port, station, net, upper, size }
}

fn v4(rng: &mut Rng, port: usize, upper: Upper, hops: u8) -> Net {
    let source = source4(rng, port);
    let (destination, is_near) = destination4(rng);
    let protocol = match upper {
        Upper::Udp { .. } => UDP,
        Upper::Echo => ICMP,
        Upper::Other => EXPERIMENT,
    };
    let mut ip = Ip::new(source, destination, 0, protocol, Vec::new());
    ip.ttl = hops;
    ip.tos = rng.weighted(&[(0, 80), (0x10, 12), (0x08, 4), (0xb8, 4)]);
    if rng.chance(8) {
        ip.options = random_options::options(rng).0;
    }
    // What is for the router itself it would keep for half a minute.
    ip.fragment = match rng.within(1..=100) {
        1..=35 => DONT_FRAGMENT,
        36..=38 if !is_near => MORE_FRAGMENTS,
        39..=41 if !is_near => rng.within(1..=0x3ff) as u16,
        _ => 0,
    };
    Net::V4(ip)
}

fn v6(rng: &mut Rng, port: usize, upper: Upper, hops: u8) -> Net {
    let source = source6(rng, port);
    let (destination, is_near) = destination6(rng, port);
    let protocol = match upper {
        Upper::Udp { .. } => UDP,
        Upper::Echo => ICMP6,
        Upper::Other => EXPERIMENT,
    };
    let mut ip = Ip6::new(source, destination, protocol, Vec::new());
    ip.hop_limit = hops;
    ip.traffic_class = rng.weighted(&[(0, 85), (0x10, 10), (0xb8, 5)]);
    let mut headers = Vec::new();
    if !is_near && rng.chance(8) {
        let more = extensions(rng, protocol);
        ip.next_header = more.first;
        headers = more.bytes;
    }
    Net::V6(ip, headers)
}

fn source4(rng: &mut Rng, port: usize) -> Ipv4Addr {
    let n = port as u8 + 1;
    let any = rng.within(1..=PORTS as u32) as u8;
    // Linux tells one source at most once a second that there is no route: many sources.
    match rng.within(1..=100) {
        1..=76 => Ipv4Addr::new(10, 100 + n, rng.octet(), rng.octet()),
        77..=82 => Ipv4Addr::new(10, n, 0, rng.within(2..=9) as u8),
        83..=88 => Ipv4Addr::new(10, 100 + any, rng.octet(), rng.octet()),
        89..=93 => inside4(rng),
        94..=95 => Ipv4Addr::new(10, any, 0, 1),
        96 => Ipv4Addr::new(10, any, 0, 255),
        _ => Ipv4Addr::from(rng.pick(&[
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [127, 0, 0, 1],
            [127, 9, 9, 9],
            [224, 0, 0, 5],
            [255; 4],
            [240, 0, 0, 1],
            [169, 254, 3, 4],
        ])),
    }
}

/// Where to, and whether it may be for the router itself.
fn destination4(rng: &mut Rng) -> (Ipv4Addr, bool) {
    let n = rng.within(1..=PORTS as u32) as u8;
    match rng.within(1..=100) {
        1..=64 => (inside4(rng), true),
        65..=76 => (Ipv4Addr::new(10, n, rng.pick(&[0, 0, 0, 1, 5]), rng.within(0..=9) as u8), true),
        77..=81 => (Ipv4Addr::new(10, n, 0, 1), true),
        82..=87 => (Ipv4Addr::new(10, 100 + n, rng.octet(), rng.octet()), false),
        88..=92 => (Ipv4Addr::new(10, n, 0, 255), true),
        _ => (
            Ipv4Addr::from(rng.pick(&[
                [0, 0, 0, 0],
                [0, 1, 2, 3],
                [127, 0, 0, 1],
                [127, 9, 9, 9],
                [224, 0, 0, 5],
                [239, 1, 2, 3],
                [255; 4],
                [240, 0, 0, 1],
                [169, 254, 3, 4],
                [203, 0, 113, 7],
            ])),
            true,
        ),
    }
}

/// An address at an edge or amid one of the prefixes of routes; few of each, as each may become a neighbour.
fn inside4(rng: &mut Rng) -> Ipv4Addr {
    let (first, length) = rng.pick(&POOL4);
    let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    let offset = rng.pick(&[0, 1, 2, host / 2, host.wrapping_sub(1), host, host.wrapping_add(1)]);
    Ipv4Addr::from(u32::from(Ipv4Addr::from(first)).wrapping_add(offset))
}

fn source6(rng: &mut Rng, port: usize) -> Ipv6Addr {
    let n = port as u16 + 1;
    let any = rng.within(1..=PORTS as u32) as u16;
    match rng.within(1..=100) {
        1..=78 => Ipv6Addr::new(0x2001, 0xdb8, 0x100 + n, rng.word(), 0, 0, 0, 1 + rng.word() / 2),
        79..=84 => Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, rng.within(2..=9) as u16),
        85..=88 => Ipv6Addr::new(0x2001, 0xdb8, 0x100 + any, rng.word(), 0, 0, 0, 7),
        89..=91 => inside6(rng),
        92..=93 => Ipv6Addr::new(0x2001, 0xdb8, any, 0, 0, 0, 0, 1),
        94..=96 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, n, 2),
        _ => one_of(
            rng,
            &[
                "::",
                "::1",
                "::ffff:10.1.0.2",
                "::10.1.0.2",
                "ff02::1",
                "fec0::1",
                "fd00::7",
                "64:ff9b::1.2.3.4",
            ],
        ),
    }
}

fn destination6(rng: &mut Rng, port: usize) -> (Ipv6Addr, bool) {
    let n = rng.within(1..=PORTS as u32) as u16;
    match rng.within(1..=100) {
        1..=66 => (inside6(rng), true),
        67..=78 => (Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, rng.within(2..=9) as u16), true),
        79..=83 => (Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1), true),
        84..=90 => (Ipv6Addr::new(0x2001, 0xdb8, 0x100 + n, rng.word(), 0, 0, 0, 7), false),
        91..=93 => (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, port as u16 + 1, rng.pick(&[1, 2])), true),
        _ => {
            let choices = ["::", "::1", "::ffff:10.1.0.2", "ff02::1", "ff0e::1234", "fd77::7", "2600::1"];
            (one_of(rng, &choices), true)
        }
    }
}

fn inside6(rng: &mut Rng) -> Ipv6Addr {
    let (first, length) = rng.pick(&POOL6);
    let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
    let offset = rng.pick(&[0, 1, 2, host / 2, host.wrapping_sub(1), host, host.wrapping_add(1)]);
    Ipv6Addr::from_bits(Ipv6Addr::from(first).to_bits().wrapping_add(offset))
}

fn one_of(rng: &mut Rng, choices: &[&str]) -> Ipv6Addr {
    rng.pick(choices).parse().unwrap_or(Ipv6Addr::UNSPECIFIED)
}

#[test]
fn a_number_is_in_every_piece() {
    for packet in packets(1, 2000) {
        let frame = packet.frame(0x0102_0304, Mac([2; 6]));
        assert!(frame.len() <= 1514 + 400, "{packet}");
        assert_eq!(number_in(&frame), Some(0x0102_0304), "{packet}");
    }
    assert_eq!(number_in(&marks(77, 100)[41..56]), Some(77));
}
