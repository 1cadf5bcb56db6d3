//! One line of text about an IPv4 packet, in the manner of tcpdump.

use crate::icmp::names;
use packet::wire::ipv4::{self, Ipv4};
use packet::wire::{be16, be32, tcp, udp};
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

/// Header fields that are told beside the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub id: bool,
    pub ttl: bool,
    pub tos: bool,
    pub length: bool,
}

/// How bytes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dump {
    #[default]
    None,
    Hex,
    Ascii,
}

/// Seconds with microseconds, or nanoseconds where they are not zero.
pub(crate) fn time(to: &mut String, nanos: u64) -> fmt::Result {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    match nanos % 1000 {
        0 => write!(to, "{seconds}.{:06}", nanos / 1000),
        _ => write!(to, "{seconds}.{nanos:09}"),
    }
}

/// Describes the packet whose IP header `bytes` begin with.
pub(crate) fn describe(to: &mut String, bytes: &[u8], fields: Fields) -> fmt::Result {
    let Some(ip) = Ipv4::new(bytes) else { return write!(to, "truncated-ip, {} bytes", bytes.len()) };
    if fields.id {
        write!(to, "id {} ", ip.id())?;
    }
    if fields.ttl {
        write!(to, "ttl {} ", ip.ttl())?;
    }
    if fields.tos {
        write!(to, "tos {} ", ip.tos())?;
    }
    if fields.length {
        write!(to, "length {} ", ip.total_len())?;
    }
    let [source, destination] = [ip.source(), ip.destination()].map(Ipv4Addr::from_bits);
    let payload = ip.payload();
    let has_ports = ip.is_first_fragment() && matches!(ip.protocol(), ipv4::TCP | ipv4::UDP);
    match (be16(payload, 0), be16(payload, 2)) {
        (Some(from), Some(to_port)) if has_ports => {
            write!(to, "{source}.{from} > {destination}.{to_port}: ")?;
        }
        _ => write!(to, "{source} > {destination}: ")?,
    }
    if ip.is_first_fragment() {
        transport(to, &ip, payload)?;
    } else {
        to.push_str(&protocol(ip.protocol()));
    }
    fragment(to, &ip)
}

fn protocol(number: u8) -> String {
    match number {
        ipv4::ICMP => "icmp".to_owned(),
        ipv4::TCP => "tcp".to_owned(),
        ipv4::UDP => "udp".to_owned(),
        other => format!("ip-proto-{other}"),
    }
}

/// Length of what follows the IP header as the header's own fields have it, even if they are bogus.
fn claimed(ip: &Ipv4<'_>) -> i64 {
    i64::from(ip.total_len()) - ip.header_len() as i64
}

fn transport(to: &mut String, ip: &Ipv4<'_>, payload: &[u8]) -> fmt::Result {
    match ip.protocol() {
        ipv4::TCP => match tcp::Header::parse(payload) {
            Some(header) => segment(to, &header, claimed(ip), payload),
            None => to.write_str("truncated-tcp"),
        },
        ipv4::UDP => match udp::Header::parse(payload) {
            Some(header) => write!(to, "udp {}", i64::from(header.length) - udp::HEADER_LEN as i64),
            None => to.write_str("truncated-udp"),
        },
        ipv4::ICMP => icmp_message(to, payload),
        other => write!(to, "{} {}", protocol(other), claimed(ip)),
    }
}

pub(super) fn segment(to: &mut String, header: &tcp::Header, claimed: i64, bytes: &[u8]) -> fmt::Result {
    const FLAGS: [(u8, char); 6] =
        [(tcp::SYN, 'S'), (tcp::FIN, 'F'), (tcp::RST, 'R'), (tcp::PSH, 'P'), (0x80, 'W'), (0x40, 'E')];
    let before = to.len();
    to.extend(FLAGS.iter().filter(|(bit, _)| header.flags & bit != 0).map(|(_, letter)| letter));
    if to.len() == before {
        to.push('.');
    }
    let data = claimed - header.header_len as i64;
    // Sequence numbers are modulo 2^32, so are bogus lengths.
    let end = header.sequence.wrapping_add(data as u32);
    write!(to, " {}:{end}({data})", header.sequence)?;
    if header.flags & tcp::ACK != 0 {
        write!(to, " ack {}", header.acknowledgement)?;
    }
    write!(to, " win {}", header.window)?;
    match be16(bytes, 18) {
        Some(urgent) if header.flags & tcp::URG != 0 => write!(to, " urg {urgent}"),
        _ => Ok(()),
    }
}

fn icmp_message(to: &mut String, message: &[u8]) -> fmt::Result {
    let &[kind, code, ..] = message else { return to.write_str("truncated-icmp") };
    match (names::type_name(kind), names::code_name(kind, code)) {
        (Some(name), Some(code)) => write!(to, "icmp: {name} {code}")?,
        (Some(name), None) if code == 0 => write!(to, "icmp: {name}")?,
        (Some(name), None) => write!(to, "icmp: {name} code {code}")?,
        (None, _) => write!(to, "icmp: type {kind} code {code}")?,
    }
    match (kind, be16(message, 4), be16(message, 6)) {
        (0 | 8 | 13..=18, Some(id), Some(sequence)) => write!(to, " ({id}, {sequence})"),
        (3, Some(_), Some(mtu)) if code == 4 && mtu != 0 => write!(to, " (mtu {mtu})"),
        (5, ..) => match be32(message, 4) {
            Some(gateway) => write!(to, " (to {})", Ipv4Addr::from_bits(gateway)),
            None => Ok(()),
        },
        (12, Some(word), _) if code == 0 => write!(to, " (byte {})", word >> 8),
        _ => Ok(()),
    }
}

/// `(frag ID:LENGTH@OFFSET+)`, `+` if there is more to come.
fn fragment(to: &mut String, ip: &Ipv4<'_>) -> fmt::Result {
    if !ip.is_fragment() {
        return Ok(());
    }
    let more = if ip.fragment_word() & ipv4::MORE_FRAGMENTS != 0 { "+" } else { "" };
    write!(to, " (frag {}:{}@{}{more})", ip.id(), claimed(ip), ip.fragment_offset())
}

/// Shows bytes, sixteen a line in hexadecimal or sixty-four a line as text, each line after a line end.
pub(crate) fn dump(to: &mut String, bytes: &[u8], how: Dump) -> fmt::Result {
    match how {
        Dump::None => {}
        Dump::Hex => {
            for (row, line) in bytes.chunks(16).enumerate() {
                write!(to, "\n  {:04x}: ", row * 16)?;
                for pair in line.chunks(2) {
                    to.push(' ');
                    pair.iter().try_for_each(|byte| write!(to, "{byte:02x}"))?;
                }
            }
        }
        Dump::Ascii => {
            for line in bytes.chunks(64) {
                to.push_str("\n  ");
                to.extend(
                    line.iter().map(|&b| if b == b' ' || b.is_ascii_graphic() { b as char } else { '.' }),
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(bytes: &[u8]) -> String {
        let mut text = String::new();
        describe(&mut text, bytes, Fields::default()).unwrap();
        text
    }

    /// A header from 1.0.0.1 to 2.0.0.2 of this length in words, fragment word and protocol, then the payload.
    fn packet(words: u8, total: u16, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x40 + words, 4, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2];
        p[2..4].copy_from_slice(&total.to_be_bytes());
        p[6..8].copy_from_slice(&fragment.to_be_bytes());
        p.extend(payload);
        p
    }

    const TCP: &[u8] = b"\x00\x50\x04\x00\x00\x00\x00\x0a\x00\x00\x00\x05\x50\x10\x02\x00\x00\x00\x00\x07";

    #[test]
    fn tcp_ranges_come_from_the_header_lengths() {
        assert_eq!(line(&packet(5, 50, 0, 6, TCP)), "1.0.0.1.80 > 2.0.0.2.1024: . 10:20(10) ack 5 win 512");
        // An IP header of 40 bytes, and lengths that leave less than nothing.
        let long = [&[0; 20][..], TCP].concat();
        assert_eq!(
            line(&packet(10, 70, 0, 6, &long)),
            "1.0.0.1.80 > 2.0.0.2.1024: . 10:20(10) ack 5 win 512"
        );
        assert_eq!(line(&packet(10, 60, 0, 6, &long)), "1.0.0.1.80 > 2.0.0.2.1024: . 10:10(0) ack 5 win 512");
        let mut flags = TCP.to_vec();
        (flags[12], flags[13]) = (0xf0, 0x2b);
        assert_eq!(
            line(&packet(5, 40, 0, 6, &flags)),
            "1.0.0.1.80 > 2.0.0.2.1024: SFP 10:4294967266(-40) win 512 urg 7"
        );
        assert_eq!(line(&packet(5, 30, 0, 6, TCP)), "1.0.0.1.80 > 2.0.0.2.1024: truncated-tcp");
    }

    #[test]
    fn other_protocols() {
        let udp = b"\x00\x35\x00\x43\x00\x0c\x00\x00abcd";
        assert_eq!(line(&packet(5, 32, 0, 17, udp)), "1.0.0.1.53 > 2.0.0.2.67: udp 4");
        let icmp = |kind, code, rest: [u8; 4]| {
            line(&packet(5, 28, 0, 1, &[&[kind, code, 0, 0][..], &rest].concat())).split_off(19)
        };
        assert_eq!(icmp(8, 0, [0, 7, 0, 1]), "icmp: echo (7, 1)");
        assert_eq!(icmp(11, 0, [0; 4]), "icmp: timeexceeded transit");
        assert_eq!(icmp(3, 4, [0, 0, 5, 120]), "icmp: unreachable needfrag (mtu 1400)");
        assert_eq!(icmp(5, 1, [10, 0, 0, 1]), "icmp: redirect host (to 10.0.0.1)");
        assert_eq!(icmp(12, 0, [21, 0, 0, 0]), "icmp: parameterproblem erroratptr (byte 21)");
        assert_eq!(
            (icmp(99, 1, [0; 4]), icmp(4, 7, [0; 4])),
            ("icmp: type 99 code 1".into(), "icmp: sourcequench code 7".into())
        );
        assert_eq!(line(&packet(5, 44, 0, 89, &[0; 24])), "1.0.0.1 > 2.0.0.2: ip-proto-89 24");
        assert_eq!(line(&[0x45; 19]), "truncated-ip, 19 bytes");
    }

    #[test]
    fn fragments_and_fields() {
        let udp = b"\x00\x35\x00\x43\x00\x0c\x00\x00abcd";
        assert_eq!(line(&packet(5, 36, 0x2000, 17, udp)), "1.0.0.1.53 > 2.0.0.2.67: udp 4 (frag 9:16@0+)");
        assert_eq!(line(&packet(5, 36, 0x0002, 17, udp)), "1.0.0.1 > 2.0.0.2: udp (frag 9:16@16)");
        let mut text = String::new();
        let all = Fields { id: true, ttl: true, tos: true, length: true };
        describe(&mut text, &packet(5, 20, 0, 89, &[]), all).unwrap();
        assert_eq!(text, "id 9 ttl 64 tos 4 length 20 1.0.0.1 > 2.0.0.2: ip-proto-89 0");
    }

    #[test]
    fn times_and_dumps() {
        let shown = |nanos| {
            let mut text = String::new();
            time(&mut text, nanos).unwrap();
            text
        };
        assert_eq!((shown(1_500_000_000), shown(7)), ("1.500000".into(), "0.000000007".into()));
        let mut text = String::new();
        dump(&mut text, &[0x41; 17], Dump::Hex).unwrap();
        assert_eq!(text, "\n  0000:  4141 4141 4141 4141 4141 4141 4141 4141\n  0010:  41");
        text.clear();
        dump(&mut text, b"a b\n\xff", Dump::Ascii).unwrap();
        assert_eq!(text, "\n  a b..");
    }

    proptest! {
        #[test]
        fn any_bytes_give_one_line(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(!line(&bytes).contains('\n'));
        }
    }
}
