//! IPv6 packets as the tests send and expect them, made apart from the router's own code.

use std::net::Ipv6Addr;

use crate::packets::{Mac, checksum, ethernet, pseudo_header};

/// EtherType of IPv6.
pub const ETHERTYPE_IP6: u16 = 0x86dd;
/// Next header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: routing header.
pub const ROUTING: u8 = 43;
/// Next header: fragment header.
pub const FRAGMENT: u8 = 44;
/// Next header: destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// Next header: ICMPv6.
pub const ICMP6: u8 = 58;

/// An IPv6 packet (RFC 8200 §3).
#[derive(Clone, Debug)]
pub struct Ip6 {
    /// Version, 6 if right.
    pub version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Payload length in octets; `None`: the right one.
    pub payload_length: Option<u16>,
    /// Hop limit.
    pub hop_limit: u8,
    /// What the payload is.
    pub next_header: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// What follows the header.
    pub payload: Vec<u8>,
}

impl Ip6 {
    /// A packet with hop limit 64.
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, payload: Vec<u8>) -> Ip6 {
        Ip6 {
            version: 6,
            traffic_class: 0,
            flow_label: 0,
            payload_length: None,
            hop_limit: 64,
            next_header,
            source,
            destination,
            payload,
        }
    }

    /// The packet as bytes.
    pub fn build(&self) -> Vec<u8> {
        let word =
            u32::from(self.version) << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        let length = self.payload_length.unwrap_or(self.payload.len() as u16).to_be_bytes();
        [
            &word.to_be_bytes()[..],
            &length,
            &[self.next_header, self.hop_limit],
            &self.source.octets(),
            &self.destination.octets(),
            &self.payload,
        ]
        .concat()
    }
}

/// An ICMPv6 message (RFC 4443 §2.1) between these addresses: type and code, second word, the rest.
pub fn icmp6(ends: (Ipv6Addr, Ipv6Addr), kind: (u8, u8), word: u32, data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind.0, kind.1, 0, 0][..], &word.to_be_bytes(), data].concat();
    let pseudo = pseudo_header(ends.0.into(), ends.1.into(), ICMP6, message.len());
    let sum = checksum(&[&pseudo[..], &message].concat());
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Frames of neighbour discovery (RFC 4861 §4).
#[derive(Debug)]
pub struct Neighbour;

impl Neighbour {
    /// Who has this address?
    pub fn ask(source: Ipv6Addr, mac: Mac, wanted: Ipv6Addr) -> Vec<u8> {
        let [.., a, b, c] = wanted.octets();
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
        let body = [&wanted.octets()[..], &[1, 1], &mac.0].concat();
        let message = icmp6((source, group), (135, 0), 0, &body);
        let packet = Ip6 { hop_limit: 255, ..Ip6::new(source, group, ICMP6, message) };
        ethernet(Mac([0x33, 0x33, 0xff, a, b, c]), mac, ETHERTYPE_IP6, &packet.build())
    }

    /// This address is mine, in answer to a question.
    pub fn tell(address: Ipv6Addr, mac: Mac, asker: Ipv6Addr, asker_mac: Mac) -> Vec<u8> {
        let body = [&address.octets()[..], &[2, 1], &mac.0].concat();
        let message = icmp6((address, asker), (136, 0), 0x6000_0000, &body);
        let packet = Ip6 { hop_limit: 255, ..Ip6::new(address, asker, ICMP6, message) };
        ethernet(asker_mac, mac, ETHERTYPE_IP6, &packet.build())
    }
}
