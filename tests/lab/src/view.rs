//! Reads frames that a router has sent.

use std::net::Ipv4Addr;

use crate::packets::{ETHERNET, ETHERTYPE_ARP, ETHERTYPE_IP, ICMP, Mac, checksum};
use crate::packets6::ETHERTYPE_IP6;
use crate::view6::Packet6;

/// A frame with its Ethernet header taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Destination address.
    pub to: Mac,
    /// Source address.
    pub from: Mac,
    /// EtherType.
    pub ethertype: u16,
    /// What follows.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a frame apart; `None` if it has no whole header.
    pub fn parse(bytes: &'a [u8]) -> Option<Frame<'a>> {
        let (header, payload) = bytes.split_at_checked(ETHERNET)?;
        let to = Mac(header[..6].try_into().ok()?);
        let from = Mac(header[6..12].try_into().ok()?);
        Some(Frame { to, from, ethertype: word(header, 12)?, payload })
    }

    /// The IPv4 packet in it, if there is a well-formed one.
    pub fn ip(&self) -> Option<Packet<'a>> {
        if self.ethertype == ETHERTYPE_IP { Packet::parse(self.payload) } else { None }
    }

    /// The IPv6 packet in it, if there is a well-formed one.
    pub fn ip6(&self) -> Option<Packet6<'a>> {
        if self.ethertype == ETHERTYPE_IP6 { Packet6::parse(self.payload) } else { None }
    }

    /// For an ARP request (RFC 826): who asks (hardware and IP address), and for which address.
    pub fn arp_request(&self) -> Option<(Mac, Ipv4Addr, Ipv4Addr)> {
        if self.ethertype != ETHERTYPE_ARP || word(self.payload, 6)? != 1 {
            return None;
        }
        let sender = Mac(self.payload.get(8..14)?.try_into().ok()?);
        Some((sender, address(self.payload, 14)?, address(self.payload, 24)?))
    }
}

/// A well-formed IPv4 packet: version, header length and total length agree with the octets that are there.
/// Ethernet padding behind it is cut off. The checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_length: usize,
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None` if it is not well-formed.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let first = *bytes.first()?;
        let header_length = usize::from(first & 0x0f) * 4;
        let total = usize::from(word(bytes, 2)?);
        if first >> 4 != 4 || header_length < 20 || total < header_length {
            return None;
        }
        Some(Packet { bytes: bytes.get(..total)?, header_length })
    }

    /// The start of a packet as ICMP errors quote it: whole header, any part of the payload.
    pub fn quoted(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let first = *bytes.first()?;
        let header_length = usize::from(first & 0x0f) * 4;
        if first >> 4 != 4 || header_length < 20 || bytes.len() < header_length {
            return None;
        }
        Some(Packet { bytes, header_length })
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header with its options.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header_length]
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_length..]
    }

    /// Identification.
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[4], self.bytes[5]])
    }

    /// DF, MF and offset.
    pub fn fragment(&self) -> u16 {
        u16::from_be_bytes([self.bytes[6], self.bytes[7]])
    }

    /// Where its payload belongs in the whole payload, in octets.
    pub fn offset(&self) -> usize {
        usize::from(self.fragment() & 0x1fff) * 8
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.bytes[8]
    }

    /// Protocol of the payload.
    pub fn protocol(&self) -> u8 {
        self.bytes[9]
    }

    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.bytes[12], self.bytes[13], self.bytes[14], self.bytes[15])
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.bytes[16], self.bytes[17], self.bytes[18], self.bytes[19])
    }

    /// Whether the header checksum is right.
    pub fn checksum_is_right(&self) -> bool {
        checksum(self.header()) == 0
    }

    /// The ICMP message in it, if it is one with at least 8 octets.
    pub fn icmp(&self) -> Option<IcmpMessage<'a>> {
        let body = self.payload();
        if self.protocol() != ICMP || self.offset() != 0 || body.len() < 8 {
            return None;
        }
        Some(IcmpMessage { bytes: body })
    }
}

/// An ICMP message of at least 8 octets.
#[derive(Clone, Copy, Debug)]
pub struct IcmpMessage<'a> {
    bytes: &'a [u8],
}

impl<'a> IcmpMessage<'a> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.bytes[1]
    }

    /// The four octets that depend on the type: MTU, pointer, gateway, or identifier and sequence number.
    pub fn rest(&self) -> [u8; 4] {
        [self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]]
    }

    /// What follows: for an error, the start of the packet which it is about.
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[8..]
    }

    /// Whether it is an error message, which quotes a packet (RFC 1122 §3.2.2): unreachable, source quench,
    /// redirect, time exceeded, parameter problem.
    pub fn is_error(&self) -> bool {
        matches!(self.kind(), 3 | 4 | 5 | 11 | 12)
    }

    /// Whether its checksum is right.
    pub fn checksum_is_right(&self) -> bool {
        checksum(self.bytes) == 0
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(octets))
}

/// A hex dump, 16 octets a line, with the offset in front.
pub fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, octets) in bytes.chunks(16).enumerate() {
        text.push_str(&format!("  {:04x} ", line * 16));
        for octet in octets {
            text.push_str(&format!(" {octet:02x}"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Ip, UDP, ethernet, icmp};

    #[test]
    fn what_was_built_is_read_back() {
        let (a, b) = (Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 2, 2));
        let mut packet = Ip::new(a, b, 77, UDP, vec![1, 2, 3]);
        packet.fragment = 0x2003;
        packet.ttl = 9;
        let mut frame = ethernet(Mac::BROADCAST, Mac([2; 6]), ETHERTYPE_IP, &packet.build());
        frame.extend([0; 20]);
        let frame = Frame::parse(&frame).unwrap();
        assert_eq!((frame.to, frame.from), (Mac::BROADCAST, Mac([2; 6])));
        let ip = frame.ip().unwrap();
        assert_eq!((ip.source(), ip.destination(), ip.id(), ip.ttl()), (a, b, 77, 9));
        assert_eq!((ip.offset(), ip.fragment() & 0x2000), (24, 0x2000));
        assert_eq!(ip.payload(), [1, 2, 3]);
        assert!(ip.checksum_is_right());
    }

    #[test]
    fn malformed_packets_are_refused() {
        let good = Ip::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 1, UDP, vec![0; 8]);
        assert!(Packet::parse(&good.build()).is_some());
        for spoil in [
            Ip { version: 6, ..good.clone() },
            Ip { header_words: Some(4), ..good.clone() },
            Ip { header_words: Some(8), ..good.clone() },
            Ip { total_length: Some(19), ..good.clone() },
            Ip { total_length: Some(29), ..good },
        ] {
            assert!(Packet::parse(&spoil.build()).is_none(), "{spoil:?}");
        }
        assert!(Packet::parse(&[]).is_none());
    }

    #[test]
    fn errors_are_told_from_queries() {
        let message =
            |kind| Ip::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 1, ICMP, icmp(kind, 0, [0; 4], b""));
        for (kind, error) in [(0, false), (3, true), (5, true), (8, false), (11, true), (12, true)] {
            let bytes = message(kind).build();
            let icmp = Packet::parse(&bytes).unwrap().icmp().unwrap();
            assert_eq!(icmp.is_error(), error, "type {kind}");
            assert!(icmp.checksum_is_right());
        }
    }
}
