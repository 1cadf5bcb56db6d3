//! IPv6 together: `conf/ip6-router.click` between two hosts, frame by frame.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::harness::{Bench, Setup};
use io::memory::MemoryDevices;
use io::{Devices, Limits};
use packet::Pool;
use packet::wire::ethernet::{self, Mac};
use packet::wire::icmp6::{self, ADVERTISEMENT, Neighbour, OVERRIDE, ROUTER, SOLICITATION, SOLICITED};
use packet::wire::ipv6::{self, Header};
use std::net::Ipv6Addr;
use std::sync::Arc;

const CONFIG: &str = include_str!("../../../conf/ip6-router.click");
const ROUTES: &str = "2001:db8:1::/64 0\n2001:db8:2::/64 1\n2001:db8:100::/40 fe80::2:9 1\n";
const ROUTER_MACS: [Mac; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 2, 1]];
const HOST_MACS: [Mac; 2] = [[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 2, 2]];
const DEVICES: [&str; 2] = ["eth1", "eth2"];
/// Rounds after which nothing more is to come.
const ROUNDS: usize = 12;

fn ip(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().to_bits()
}

/// A packet, from its IPv6 header on.
fn packet(from: &str, to: &str, next_header: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit,
        source: ip(from),
        destination: ip(to),
    };
    [&header.bytes()[..], payload].concat()
}

/// An ICMPv6 message: type and code, second word, the rest.
fn icmp(from: &str, to: &str, hop_limit: u8, kind: [u8; 2], word: u32, body: &[u8]) -> Vec<u8> {
    let mut message = [&kind[..], &[0, 0], &word.to_be_bytes(), body].concat();
    icmp6::set_checksum(ip(from), ip(to), &mut message);
    packet(from, to, ipv6::ICMP, hop_limit, &message)
}

fn framed(to: Mac, from: Mac, packet: &[u8]) -> Vec<u8> {
    let header = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV6 };
    [&header.bytes()[..], packet].concat()
}

struct Net {
    bench: Bench,
    devices: Arc<MemoryDevices>,
}

impl Net {
    fn new(workers: usize, burst: usize) -> Net {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("routes.txt");
        std::fs::write(&table, ROUTES).unwrap();
        let text = CONFIG.replace("$TABLE routes.txt", &format!("$TABLE {}", table.display()));
        let limits = Limits { rx_queues: 1, tx_queues: 4 };
        let devices = Arc::new(MemoryDevices::new(Pool::heap(4096, 2304), &DEVICES, limits));
        let setup = Setup { workers, burst, devices: devices.clone(), ..Setup::default() };
        Net { bench: Bench::new(&text, &setup).unwrap_or_else(|e| panic!("{e}")), devices }
    }

    /// A frame into a port; what comes out of the two. Stops as soon as something does, so that time stands still.
    fn pass(&mut self, port: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        assert!(self.devices.memory(DEVICES[port]).unwrap().inject(&self.devices.pool(), 0, frame));
        for _ in 0..ROUNDS {
            self.bench.step();
            let sent = DEVICES.map(|name| self.devices.memory(name).unwrap().sent());
            if sent.iter().any(|frames| !frames.is_empty()) {
                return sent;
            }
        }
        Default::default()
    }

    /// A packet of the host on a link to the router, and the packet that the host on link `to` gets.
    fn exchange(&mut self, link: usize, packet: &[u8], to: usize, want: &[u8]) {
        let mut expected = [vec![], vec![]];
        expected[to] = vec![framed(HOST_MACS[to], ROUTER_MACS[to], want)];
        let sent = self.pass(link, &framed(ROUTER_MACS[link], HOST_MACS[link], packet));
        assert_eq!(sent, expected, "{packet:02x?}");
    }

    /// A packet to the router for which nothing may come.
    fn nothing(&mut self, link: usize, packet: &[u8]) {
        let sent = self.pass(link, &framed(ROUTER_MACS[link], HOST_MACS[link], packet));
        assert_eq!(sent, [const { Vec::<Vec<u8>>::new() }; 2], "{packet:02x?}");
    }

    /// A packet from one link for whose next hop, an address on the other, the router asks first.
    fn resolve(&mut self, link: usize, packet: &[u8], neighbour: &str, want: &[u8]) {
        let other = 1 - link;
        let own = ip(["fe80::1:1", "fe80::2:1"][other]);
        let destination = icmp6::solicited_node(ip(neighbour));
        let target = ip(neighbour);
        let mac = Some(ROUTER_MACS[other]);
        let ask = Neighbour { kind: SOLICITATION, flags: 0, target, mac, source: own, destination };
        let (frame, length) = ask.frame(ROUTER_MACS[other], icmp6::multicast_mac(destination));
        let mut expected = [vec![], vec![]];
        expected[other] = vec![frame[..length].to_vec()];
        let sent = self.pass(link, &framed(ROUTER_MACS[link], HOST_MACS[link], packet));
        assert_eq!(sent, expected);
        let mac = Some(HOST_MACS[other]);
        let flags = SOLICITED | OVERRIDE;
        let tell = Neighbour { kind: ADVERTISEMENT, flags, target, mac, source: target, destination: own };
        let (frame, length) = tell.frame(HOST_MACS[other], ROUTER_MACS[other]);
        expected[other] = vec![framed(HOST_MACS[other], ROUTER_MACS[other], want)];
        assert_eq!(self.pass(other, &frame[..length]), expected);
    }
}

const A: &str = "2001:db8:1::2";
const B: &str = "2001:db8:2::2";
const R0: &str = "2001:db8:1::1";
const R1: &str = "2001:db8:2::1";

/// Both hosts, and the router beyond the second, are known afterwards.
fn acquainted(net: &mut Net) {
    let datagram = |from, to, limit| packet(from, to, ipv6::UDP, limit, b"12345678");
    net.resolve(0, &datagram(A, B, 64), B, &datagram(A, B, 63));
    net.resolve(1, &datagram(B, A, 2), A, &datagram(B, A, 1));
    net.resolve(0, &datagram(A, "2001:db8:1ff::7", 9), "fe80::2:9", &datagram(A, "2001:db8:1ff::7", 8));
    net.exchange(0, &datagram(A, B, 64), 1, &datagram(A, B, 63));
}

#[test]
fn a_router_between_two_hosts() {
    for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
        let mut net = Net::new(workers, burst);
        acquainted(&mut net);
        // Hop limit, size, no route: told to the sender by the interface or by the router's first address.
        let last = packet(A, B, ipv6::UDP, 1, b"12345678");
        net.exchange(0, &last, 0, &icmp(R1, A, 63, [3, 0], 0, &last));
        let large = packet(A, B, ipv6::UDP, 64, &[7; 1361]);
        let mut seen = large[..1232].to_vec();
        seen[7] -= 1;
        net.exchange(0, &large, 0, &icmp(R1, A, 63, [2, 0], 1400, &seen));
        let fits = packet(A, B, ipv6::UDP, 64, &[7; 1360]);
        net.exchange(0, &fits, 1, &packet(A, B, ipv6::UDP, 63, &[7; 1360]));
        let lost = packet(B, "3fff::1", ipv6::UDP, 64, b"12345678");
        net.exchange(1, &lost, 1, &icmp(R0, B, 63, [1, 0], 0, &lost));
        // For the router itself.
        let ping = icmp(A, R1, 64, [128, 0], 0x0007_0001, b"are you there?");
        net.exchange(0, &ping, 0, &icmp(R1, A, 63, [129, 0], 0x0007_0001, b"are you there?"));
        let datagram = packet(A, R0, ipv6::UDP, 64, b"12345678");
        net.exchange(0, &datagram, 0, &icmp(R0, A, 63, [1, 4], 0, &datagram));
        let unknown = packet(A, R0, 99, 64, b"12345678");
        net.exchange(0, &unknown, 0, &icmp(R0, A, 63, [4, 1], 6, &unknown));
        // Errors about errors, and what may not come in.
        net.nothing(0, &icmp(A, "3fff::1", 64, [3, 0], 0, &last));
        net.nothing(0, &packet("::1", B, ipv6::UDP, 64, b""));
        net.nothing(0, &packet(R1, B, ipv6::UDP, 64, b""));
        net.nothing(0, &packet(A, "::1", ipv6::UDP, 64, b""));
        net.nothing(0, &datagram[..47]);
        let losses: Vec<String> = net.bench.losses().into_iter().filter(|l| !l.ends_with("= 0")).collect();
        let want = [
            "no_route.icmp = 1",
            "if0/check.bad_length = 1",
            "if0/check.bad_source = 2",
            "if0/check.bad_destination = 1",
        ];
        assert_eq!(losses, want);
        net.bench.end().unwrap();
    }
}

#[test]
fn solicitations_are_answered_on_their_link() {
    let mut net = Net::new(1, 32);
    for (link, target, known) in [
        (0, R0, true),
        (0, "fe80::1:1", true),
        (0, R1, false),
        (0, "fe80::2:1", false),
        (1, "fe80::2:1", true),
    ] {
        let asker = ip("fe80::5");
        let (target, mac) = (ip(target), Some(HOST_MACS[link]));
        let destination = icmp6::solicited_node(target);
        let ask = Neighbour { kind: SOLICITATION, flags: 0, target, mac, source: asker, destination };
        let (frame, length) = ask.frame(HOST_MACS[link], icmp6::multicast_mac(destination));
        let sent = net.pass(link, &frame[..length]);
        let tell = Neighbour {
            kind: ADVERTISEMENT,
            flags: ROUTER | SOLICITED | OVERRIDE,
            target,
            mac: Some(ROUTER_MACS[link]),
            source: target,
            destination: asker,
        };
        let (frame, length) = tell.frame(ROUTER_MACS[link], HOST_MACS[link]);
        let mut expected = [vec![], vec![]];
        if known {
            expected[link].push(frame[..length].to_vec());
        }
        assert_eq!(sent, expected, "{link} {target:x}");
    }
    net.bench.end().unwrap();
}

#[test]
fn link_local_packets_stay_on_their_link() {
    let mut net = Net::new(1, 32);
    acquainted(&mut net);
    // The neighbour of link 1 is known by its link-local address too, from the gateway; pings to either of the router's.
    for own in ["fe80::2:1", R1] {
        let ping = icmp("fe80::2:9", own, 64, [128, 0], 1, b"x");
        net.exchange(1, &ping, 1, &icmp(own, "fe80::2:9", 64, [129, 0], 1, b"x"));
    }
    let out = packet("fe80::2:9", A, ipv6::UDP, 64, b"12345678");
    net.exchange(1, &out, 1, &icmp(R1, "fe80::2:9", 64, [1, 2], 0, &out));
    net.nothing(1, &icmp("fe80::2:9", "fe80::77", 64, [128, 0], 1, b"x"));
    net.bench.end().unwrap();
}
