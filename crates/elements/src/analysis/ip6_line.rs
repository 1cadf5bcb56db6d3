//! One line of text about an IPv6 packet, in the manner of tcpdump.

use super::ip_line::segment;
use crate::ip6::icmp6_names as names;
use packet::wire::ipv6::{self, Ipv6, UpperLayer};
use packet::wire::{be16, be32, icmp6, tcp, udp};
use std::fmt::{self, Write};
use std::net::Ipv6Addr;

/// Header fields that are told beside the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub hop_limit: bool,
    pub class: bool,
    pub flow: bool,
    pub length: bool,
}

/// Describes the packet whose IPv6 header `bytes` begin with.
pub(super) fn describe(to: &mut String, bytes: &[u8], fields: Fields) -> fmt::Result {
    let Some(ip) = Ipv6::new(bytes) else { return write!(to, "truncated-ip6, {} bytes", bytes.len()) };
    if fields.hop_limit {
        write!(to, "hlim {} ", ip.hop_limit())?;
    }
    if fields.class {
        write!(to, "class {} ", ip.traffic_class())?;
    }
    if fields.flow {
        write!(to, "flow {:#x} ", ip.flow_label())?;
    }
    if fields.length {
        write!(to, "length {} ", ip.payload_len())?;
    }
    let [source, destination] = [ip.source(), ip.destination()].map(Ipv6Addr::from_bits);
    let Some(upper) = ip.upper_layer() else {
        return write!(to, "{source} > {destination}: bad extension headers");
    };
    let end = ip.total_len().min(bytes.len());
    let payload = bytes.get(upper.offset..end).unwrap_or_default();
    let has_ports = upper.fragment_offset == 0 && matches!(upper.protocol, ipv6::TCP | ipv6::UDP);
    match (be16(payload, 0), be16(payload, 2)) {
        (Some(from), Some(to_port)) if has_ports => {
            write!(to, "{source}.{from} > {destination}.{to_port}: ")?;
        }
        _ => write!(to, "{source} > {destination}: ")?,
    }
    if upper.fragment_offset > 0 {
        return write!(to, "{} (frag {}@{})", protocol(upper.protocol), payload.len(), upper.fragment_offset);
    }
    transport(to, &ip, upper, payload)
}

fn protocol(number: u8) -> String {
    match number {
        ipv6::ICMP => "icmp6".to_owned(),
        ipv6::TCP => "tcp".to_owned(),
        ipv6::UDP => "udp".to_owned(),
        ipv6::NO_NEXT => "no-next-header".to_owned(),
        other => format!("ip-proto-{other}"),
    }
}

fn transport(to: &mut String, ip: &Ipv6<'_>, upper: UpperLayer, payload: &[u8]) -> fmt::Result {
    // As the header has it, even if that is bogus.
    let claimed = ip.total_len() as i64 - upper.offset as i64;
    match upper.protocol {
        ipv6::TCP => match tcp::Header::parse(payload) {
            Some(header) => segment(to, &header, claimed, payload),
            None => to.write_str("truncated-tcp"),
        },
        ipv6::UDP => match udp::Header::parse(payload) {
            Some(header) => write!(to, "udp {}", i64::from(header.length) - udp::HEADER_LEN as i64),
            None => to.write_str("truncated-udp"),
        },
        ipv6::ICMP => icmp_message(to, payload),
        ipv6::NO_NEXT => to.write_str("no-next-header"),
        other => write!(to, "{} {claimed}", protocol(other)),
    }
}

fn icmp_message(to: &mut String, message: &[u8]) -> fmt::Result {
    let &[kind, code, ..] = message else { return to.write_str("truncated-icmp6") };
    match (names::type_name(kind), names::code_name(kind, code)) {
        (Some(name), Some(code)) => write!(to, "icmp6: {name} {code}")?,
        (Some(name), None) if code == 0 => write!(to, "icmp6: {name}")?,
        (Some(name), None) => write!(to, "icmp6: {name} code {code}")?,
        (None, _) => write!(to, "icmp6: type {kind} code {code}")?,
    }
    let target =
        message.get(8..).and_then(|m| m.first_chunk()).map(|b| Ipv6Addr::from_bits(u128::from_be_bytes(*b)));
    match (kind, be32(message, 4), target) {
        (icmp6::ECHO | icmp6::ECHO_REPLY, Some(word), _) => {
            write!(to, " ({}, {})", word >> 16, word & 0xffff)
        }
        (icmp6::TOO_BIG, Some(mtu), _) => write!(to, " (mtu {mtu})"),
        (icmp6::PARAMETER_PROBLEM, Some(byte), _) => write!(to, " (byte {byte})"),
        (icmp6::SOLICITATION | icmp6::ADVERTISEMENT, _, Some(target)) => write!(to, " ({target})"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes;

    fn told(next: &str, payload: &str, fields: Fields) -> String {
        let payload = bytes(payload);
        let mut packet = bytes(&format!(
            "6a512345 {:04x}{next}40 20010db8000000000000000000000001 20010db8000000000000000000000002",
            payload.len()
        ));
        packet.extend(payload);
        let mut text = String::new();
        describe(&mut text, &packet, fields).unwrap();
        text
    }

    #[test]
    fn lines() {
        let usual = |next: &str, payload: &str| {
            let text = told(next, payload, Fields::default());
            text.replace("2001:db8::", "")
        };
        assert_eq!(usual("11", "00350043 000c0000 01020304"), "1.53 > 2.67: udp 4");
        assert_eq!(
            usual("06", "00010002 00000003 00000000 50021000 00000000"),
            "1.1 > 2.2: S 3:3(0) win 4096"
        );
        assert_eq!(usual("3a", "8000 0000 0007 0009"), "1 > 2: icmp6: echo (7, 9)");
        assert_eq!(usual("3a", "0200 0000 00000500"), "1 > 2: icmp6: packettoobig (mtu 1280)");
        assert_eq!(usual("3a", "0104 0000 00000000"), "1 > 2: icmp6: unreachable port");
        assert_eq!(usual("3a", "0401 0000 00000028"), "1 > 2: icmp6: parameterproblem nextheader (byte 40)");
        assert_eq!(
            usual("3a", "8700 0000 00000000 fe800000000000000000000000000009"),
            "1 > 2: icmp6: neighborsolicit (fe80::9)"
        );
        assert_eq!(usual("3a", "80"), "1 > 2: truncated-icmp6");
        assert_eq!(usual("3b", ""), "1 > 2: no-next-header");
        assert_eq!(usual("29", "0102"), "1 > 2: ip-proto-41 2");
        assert_eq!(usual("00", "1101010400000000"), "1 > 2: bad extension headers");
        assert_eq!(usual("3c", "1100010400000000 00350043 00080000"), "1.53 > 2.67: udp 0");
        assert_eq!(usual("2c", "110005a1 00000009 0102"), "1 > 2: udp (frag 2@1440)");
        let all = Fields { hop_limit: true, class: true, flow: true, length: true };
        assert_eq!(
            told("3b", "", all),
            "hlim 64 class 165 flow 0x12345 length 0 2001:db8::1 > 2001:db8::2: no-next-header"
        );
        let mut text = String::new();
        describe(&mut text, &[0x60; 39], all).unwrap();
        assert_eq!(text, "truncated-ip6, 39 bytes");
    }
}
