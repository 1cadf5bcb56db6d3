//! Test: error messages, ping replies and fragments are byte for byte what scapy makes of the same packets.

use super::error::{MAX_LEN, Message};
use super::icmp_ping_responder::answer;
use crate::ip::AddressSet;
use crate::ip::fragments::Cut;
use packet::wire::{icmp, ipv4};
use packet::{PacketType, Pool};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const CASES: usize = 300;

/// Reads lines `error|ping|cut HEX number HEX...` and prints those with which it does not agree.
const JUDGE: &str = r#"
import sys
try:
    from scapy.layers.inet import IP, ICMP, fragment
    from scapy.packet import Raw
except ImportError:
    print("no scapy")
    sys.exit(0)

def error(original, kind, code):
    ip = IP(original)
    quote = original[:576 - 28]
    rest = {(3, 4): dict(nexthopmtu=1400), (12, 0): dict(ptr=21)}.get((kind, code), {})
    head = IP(src="10.0.0.254", dst=ip.src, tos=(ip.tos & 0x1e) | 0xc0, id=77, ttl=255, flags=0)
    return [bytes(head / ICMP(type=kind, code=code, **rest) / Raw(quote))]

def ping(original, _):
    ip = IP(original)
    echo = ip[ICMP]
    head = IP(src=ip.dst, dst=ip.src, tos=ip.tos, id=ip.id, ttl=255, flags=0)
    return [bytes(head / ICMP(type=0, code=echo.code, id=echo.id, seq=echo.seq) / Raw(bytes(echo.payload)))]

def cut(original, mtu):
    ip = IP(original)
    ip.flags = 0
    payload = bytes(ip.payload)
    whole = ip.copy()
    whole.remove_payload()
    del whole.chksum, whole.len
    pieces = fragment(whole / Raw(payload), (mtu - 20) // 8 * 8)
    # scapy has a last piece of its own for a rest that would fit; RFC 791 compares the rest with the MTU.
    rest = b"".join(bytes(p.payload) for p in pieces[-2:])
    if len(pieces) > 1 and len(rest) <= mtu - 20:
        last = pieces[-2].copy()
        last.remove_payload()
        del last.chksum, last.len
        last.flags = pieces[-1].flags
        pieces[-2:] = [last / Raw(rest)]
    return [bytes(p) for p in pieces]

checked = 0
for line in sys.stdin:
    word, original, number, *got = line.split()
    original, number, got = bytes.fromhex(original), int(number), [bytes.fromhex(g) for g in got]
    want = {"error": lambda: error(original, number >> 8, number & 255),
            "ping": lambda: ping(original, number), "cut": lambda: cut(original, number)}[word]()
    checked += 1
    if want != got:
        print(line, "want", " ".join(w.hex() for w in want))
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

    fn packet(&mut self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x45, self.below(256) as u8];
        p.extend(((20 + payload.len()) as u16).to_be_bytes());
        p.extend(self.bytes(2));
        p.extend([0, 0, 1 + self.below(255) as u8, protocol, 0, 0]);
        p.extend([1 + self.below(126) as u8, 1, 2, 3, 1 + self.below(126) as u8, 4, 5, 6]);
        p.extend(payload);
        ipv4::set_checksum(&mut p);
        p
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn error_case(random: &mut Random, lines: &mut String) {
    let kinds = [(3u8, 1u8, [0; 4]), (3, 4, [0, 0, 5, 120]), (11, 0, [0; 4]), (12, 0, [21, 0, 0, 0])];
    let (kind, code, rest) = kinds[random.below(4) as usize];
    let length = 8 + random.below(1000);
    let payload = random.bytes(length);
    let original = random.packet(17, &payload);
    let message = Message { source: 0x0a00_00fe, kind, code, bad: AddressSet::new(), limit: MAX_LEN };
    let headers = message.answer(&original, PacketType::Host, rest, 77).unwrap();
    let got = [headers.bytes(), &original[..headers.quoted]].concat();
    let number = u32::from(kind) * 256 + u32::from(code);
    writeln!(lines, "error {} {number} {}", hex(&original), hex(&got)).unwrap();
}

fn ping_case(random: &mut Random, lines: &mut String) {
    let length = random.below(200);
    let code = random.below(256) as u8;
    let mut message = [&[icmp::ECHO, code, 0, 0][..], &random.bytes(4), &random.bytes(length)].concat();
    icmp::set_checksum(&mut message);
    let original = random.packet(ipv4::ICMP, &message);
    let mut packet = Pool::heap(1, 1024).packet(&original).unwrap();
    packet.set_network_offset(0);
    assert!(answer(&mut packet));
    writeln!(lines, "ping {} 0 {}", hex(&original), hex(packet.data())).unwrap();
    packet.free();
}

fn cut_case(random: &mut Random, lines: &mut String) {
    let mtu = 68 + random.below(1000);
    let length = mtu - 19 + random.below(3000);
    let payload = random.bytes(length);
    let original = random.packet(99, &payload);
    write!(lines, "cut {} {mtu}", hex(&original)).unwrap();
    for (header, range) in Cut::new(&original, mtu as usize).unwrap().pieces() {
        write!(lines, " {}{}", hex(header.bytes()), hex(&payload[range])).unwrap();
    }
    lines.push('\n');
}

#[test]
fn scapy_agrees() {
    let (mut random, mut lines) = (Random(1), String::new());
    for _ in 0..CASES {
        error_case(&mut random, &mut lines);
        ping_case(&mut random, &mut lines);
        cut_case(&mut random, &mut lines);
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
    assert_eq!(text.trim(), format!("checked {}", 3 * CASES));
}
