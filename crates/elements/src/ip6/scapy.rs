//! Test: what scapy makes of the same packets: where their upper layer is, ICMPv6 errors, ping replies, solicitations and
//! advertisements.

use super::addresses::AddressSet6;
use super::icmp6_message::{MAX_LEN, Message};
use super::icmp6_ping_responder::answer;
use packet::wire::icmp6::{self, Neighbour};
use packet::wire::ipv6::{Header, Ipv6};
use packet::{PacketType, Pool};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const CASES: usize = 200;

/// Reads lines `error|ping|ask|tell|chain HEX number HEX` and prints those with which it does not agree.
const JUDGE: &str = r#"
import sys
try:
    from scapy.all import Ether, Raw, conf
    from scapy.layers.inet import TCP, UDP
    from scapy.layers.inet6 import (IPv6, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS,
        ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded)
except ImportError:
    print("no scapy")
    sys.exit(0)

def error(original, number):
    kind, code = number >> 8, number & 255
    body = {1: ICMPv6DestUnreach(code=code), 2: ICMPv6PacketTooBig(mtu=1400), 3: ICMPv6TimeExceeded(code=code),
        4: ICMPv6ParamProblem(code=code, ptr=6)}[kind]
    head = IPv6(src="2001:db8::fe", dst=IPv6(original).src, hlim=64)
    return bytes(head / body / Raw(original[:1280 - 48]))

def ping(original, _):
    ip = IPv6(original)
    echo = ip[ICMPv6EchoRequest]
    head = IPv6(src=ip.dst, dst=ip.src, tc=ip.tc, hlim=64)
    return bytes(head / ICMPv6EchoReply(code=echo.code, id=echo.id, seq=echo.seq, data=echo.data))

def ask(target, _):
    target = IPv6(dst=target and ":".join("%x" % (target[i] * 256 + target[i + 1]) for i in range(0, 16, 2))).dst
    return bytes(Ether(src="02:00:00:00:00:01") / IPv6(src="fe80::1", dst=group(target), hlim=255)
        / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01"))[6:]

def tell(target, _):
    target = ":".join("%x" % (target[i] * 256 + target[i + 1]) for i in range(0, 16, 2))
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IPv6(src=target, dst="fe80::9", hlim=255)
        / ICMPv6ND_NA(tgt=target, R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:01"))[6:]

def group(address):
    import socket
    last = socket.inet_pton(socket.AF_INET6, address)[-3:]
    return "ff02::1:ff%02x:%02x%02x" % tuple(last)

def chain(original, _):
    packet = IPv6(original)
    for layer in (TCP, UDP):
        if layer in packet:
            rest = bytes(packet[layer])
            return (len(original) - len(rest)).to_bytes(2, "big")
    return b""

checked = 0
judges = {"error": error, "ping": ping, "ask": ask, "tell": tell, "chain": chain}
for line in sys.stdin:
    word, original, number, got = line.split()
    want = judges[word](bytes.fromhex(original), int(number))
    checked += 1
    if want != bytes.fromhex(got):
        print(line, "want", want.hex())
print("checked", checked)
"#;

/// A small generator, so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn bytes(&mut self, n: u64) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }

    fn address(&mut self) -> u128 {
        self.bytes(14).iter().fold(0x2001, |sum, byte| sum << 8 | u128::from(*byte))
    }

    fn packet(&mut self, next_header: u8, payload: &[u8], source: u128, destination: u128) -> Vec<u8> {
        let header = Header {
            traffic_class: self.below(256) as u8,
            flow_label: self.below(1 << 20) as u32,
            payload_len: payload.len() as u16,
            next_header,
            hop_limit: self.below(256) as u8,
            source,
            destination,
        };
        [&header.bytes()[..], payload].concat()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn error_case(random: &mut Random, lines: &mut String) {
    let kinds = [(1u8, 0u8, 0), (1, 4, 0), (2, 0, 1400), (3, 0, 0), (3, 1, 0), (4, 1, 6)];
    let (kind, code, rest) = kinds[random.below(6) as usize];
    let length = 8 + random.below(1450);
    let (payload, source, destination) = (random.bytes(length), random.address(), random.address());
    let original = random.packet(17, &payload, source, destination);
    let own = 0x2001_0db8 << 96 | 0xfe;
    let message = Message { source: own, kind, code, bad: AddressSet6::new(), limit: MAX_LEN };
    let headers = message.answer(&original, PacketType::Host, rest).unwrap();
    let got = [&headers.bytes[..], &original[..headers.quoted]].concat();
    let number = u32::from(kind) * 256 + u32::from(code);
    writeln!(lines, "error {} {number} {}", hex(&original), hex(&got)).unwrap();
}

fn ping_case(random: &mut Random, lines: &mut String) {
    let length = random.below(200);
    let code = random.below(256) as u8;
    let mut message = [&[icmp6::ECHO, code, 0, 0][..], &random.bytes(4), &random.bytes(length)].concat();
    let (source, destination) = (random.address(), random.address());
    icmp6::set_checksum(source, destination, &mut message);
    let original = random.packet(58, &message, source, destination);
    let mut packet = Pool::heap(1, 1024).packet(&original).unwrap();
    packet.set_network_offset(0);
    assert!(answer(&mut packet));
    writeln!(lines, "ping {} 0 {}", hex(&original), hex(packet.data())).unwrap();
    packet.free();
}

/// The frames from their source address on: scapy would look the destination up.
fn neighbour_case(random: &mut Random, lines: &mut String) {
    let (target, mac) = (random.address(), [2, 0, 0, 0, 0, 1]);
    let (link, all) = (0xfe80 << 112, icmp6::ROUTER | icmp6::SOLICITED | icmp6::OVERRIDE);
    let ask = Neighbour {
        kind: icmp6::SOLICITATION,
        flags: 0,
        target,
        mac: Some(mac),
        source: link | 1,
        destination: icmp6::solicited_node(target),
    };
    let tell =
        Neighbour { kind: icmp6::ADVERTISEMENT, flags: all, source: target, destination: link | 9, ..ask };
    for (word, message) in [("ask", ask), ("tell", tell)] {
        let (frame, length) = message.frame(mac, [2, 0, 0, 0, 0, 2]);
        writeln!(lines, "{word} {} 0 {}", hex(&target.to_be_bytes()), hex(&frame[6..length])).unwrap();
    }
}

fn chain_case(random: &mut Random, lines: &mut String) {
    let last = [6, 17][random.below(2) as usize];
    let mut chain = random.bytes(20);
    if last == 6 {
        chain[12] = 0x50;
    } else {
        chain[4..6].copy_from_slice(&20u16.to_be_bytes());
    }
    let mut next = last;
    for place in (0..random.below(5)).rev() {
        // Hop-by-hop options in front only; routing, a first fragment, destination options.
        let kind = [if place == 0 { 0 } else { 60 }, 43, 44, 60][random.below(4) as usize];
        let units = match kind {
            44 => 0,
            // Whole addresses.
            43 => 2 * random.below(3) as usize,
            _ => random.below(4) as usize,
        };
        let mut extension = vec![0; 8 + 8 * units];
        (extension[0], extension[1]) = (next, units as u8);
        match kind {
            44 => extension[3] = 1,
            // One option of padding.
            0 | 60 => (extension[2], extension[3]) = (1, (4 + 8 * units) as u8),
            // Type 0, with no segments left.
            _ => {}
        }
        chain = [&extension[..], &chain].concat();
        next = kind;
    }
    let (source, destination) = (random.address(), random.address());
    let original = random.packet(next, &chain, source, destination);
    let upper = Ipv6::check(&original).unwrap().upper_layer().unwrap();
    assert_eq!(upper.protocol, last);
    writeln!(lines, "chain {} 0 {:04x}", hex(&original), upper.offset).unwrap();
}

#[test]
fn scapy_agrees() {
    let (mut random, mut lines) = (Random(1), String::new());
    for _ in 0..CASES {
        error_case(&mut random, &mut lines);
        ping_case(&mut random, &mut lines);
        neighbour_case(&mut random, &mut lines);
        chain_case(&mut random, &mut lines);
    }
    // Debian's own Python has Debian's scapy, whatever else is in the path.
    let judge = Command::new("/usr/bin/python3")
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut judge) = judge else {
        println!("skipped: there is no /usr/bin/python3");
        return;
    };
    // The judge stops reading when it has no scapy.
    let _ = judge.stdin.take().unwrap().write_all(lines.as_bytes());
    let verdict = judge.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&verdict.stdout);
    if text.trim() == "no scapy" {
        println!("skipped: /usr/bin/python3 has no scapy");
        return;
    }
    assert!(verdict.status.success());
    assert_eq!(text.trim(), format!("checked {}", 5 * CASES));
}
