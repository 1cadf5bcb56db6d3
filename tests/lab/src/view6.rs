//! Reads IPv6 packets that a router has sent.

use std::net::Ipv6Addr;

use crate::packets::{checksum, pseudo_header};
use crate::packets6::{HOP_BY_HOP, ICMP6};

/// Octets of an IPv6 header.
pub const HEADER: usize = 40;

/// A well-formed IPv6 packet: version and payload length agree with the octets that are there. Ethernet padding behind
/// it is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Packet6<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet6<'a> {
    /// Reads a packet; `None` if it is not well-formed.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet6<'a>> {
        let quoted = Packet6::quoted(bytes)?;
        let total = HEADER + usize::from(u16::from_be_bytes([quoted.bytes[4], quoted.bytes[5]]));
        Some(Packet6 { bytes: bytes.get(..total)? })
    }

    /// The start of a packet as ICMPv6 errors quote it: whole header, any part of the payload.
    pub fn quoted(bytes: &'a [u8]) -> Option<Packet6<'a>> {
        (bytes.len() >= HEADER && bytes[0] >> 4 == 6).then_some(Packet6 { bytes })
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER..]
    }

    /// The lower 16 bits of the flow label.
    pub fn flow_label(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    /// What the payload is.
    pub fn next_header(&self) -> u8 {
        self.bytes[6]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.bytes[7]
    }

    /// Source address.
    pub fn source(&self) -> Ipv6Addr {
        address(self.bytes, 8)
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv6Addr {
        address(self.bytes, 24)
    }

    /// The ICMPv6 message in it, if it is one with at least 8 octets, right behind the header.
    pub fn icmp6(&self) -> Option<Icmp6Message<'a>> {
        (self.next_header() == ICMP6 && self.payload().len() >= 8).then_some(Icmp6Message { packet: *self })
    }

    /// Whether it is the router's part in neighbour discovery (RFC 4861 §4), redirects included, or in listener
    /// discovery (RFC 2710 §3, RFC 9777 §5): kept up by each router as it likes, apart from the packets it forwards.
    pub fn is_of_the_link(&self) -> bool {
        let message = match self.next_header() {
            // Listener reports have a router alert option of 8 octets before them.
            HOP_BY_HOP if self.payload().first() == Some(&ICMP6) => self.payload().get(8),
            ICMP6 => self.payload().first(),
            _ => None,
        };
        match message {
            Some(133..=137) => self.hop_limit() == 255,
            Some(130..=132 | 143) => self.hop_limit() == 1,
            _ => false,
        }
    }

    /// For a neighbour solicitation: whose address is wanted.
    pub fn wanted(&self) -> Option<Ipv6Addr> {
        let message = self.icmp6().filter(|message| message.kind() == 135 && self.payload().len() >= 24)?;
        Some(address(message.data(), 0))
    }
}

/// An ICMPv6 message of at least 8 octets.
#[derive(Clone, Copy, Debug)]
pub struct Icmp6Message<'a> {
    packet: Packet6<'a>,
}

impl<'a> Icmp6Message<'a> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.packet.payload()[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.packet.payload()[1]
    }

    /// The four octets that depend on the type: MTU, pointer, or identifier and sequence number.
    pub fn rest(&self) -> [u8; 4] {
        let bytes = self.packet.payload();
        [bytes[4], bytes[5], bytes[6], bytes[7]]
    }

    /// What follows: for an error, the start of the packet which it is about.
    pub fn data(&self) -> &'a [u8] {
        &self.packet.payload()[8..]
    }

    /// Whether it is an error message, which quotes a packet (RFC 4443 §2.1).
    pub fn is_error(&self) -> bool {
        self.kind() < 128
    }

    /// Whether its checksum is right.
    pub fn checksum_is_right(&self) -> bool {
        let (ip, body) = (self.packet, self.packet.payload());
        let pseudo = pseudo_header(ip.source().into(), ip.destination().into(), ICMP6, body.len());
        checksum(&[&pseudo[..], body].concat()) == 0
    }
}

/// The address at this place, which must be there.
fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Mac, UDP};
    use crate::packets6::{Ip6, Neighbour, icmp6};
    use crate::view::Frame;

    const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

    #[test]
    fn what_was_built_is_read_back() {
        let packet = Ip6 { flow_label: 77, hop_limit: 9, ..Ip6::new(A, B, UDP, vec![1, 2, 3]) };
        let padded = [packet.build(), vec![0; 5]].concat();
        let ip = Packet6::parse(&padded).unwrap();
        assert_eq!((ip.source(), ip.destination(), ip.flow_label(), ip.hop_limit()), (A, B, 77, 9));
        assert_eq!((ip.next_header(), ip.payload()), (UDP, &[1, 2, 3][..]));
        assert!(ip.icmp6().is_none() && !ip.is_of_the_link());
        for wrong in [Ip6 { version: 4, ..packet.clone() }, Ip6 { payload_length: Some(4), ..packet }] {
            assert!(Packet6::parse(&wrong.build()).is_none(), "{wrong:?}");
        }
        assert!(Packet6::parse(&padded[..39]).is_none());
    }

    #[test]
    fn messages_are_told_apart() {
        for (kind, error) in [(1, true), (127, true), (128, false), (129, false)] {
            let bytes = Ip6::new(A, B, ICMP6, icmp6((A, B), (kind, 0), 5, b"data")).build();
            let message = Packet6::parse(&bytes).unwrap().icmp6().unwrap();
            assert_eq!(
                (message.is_error(), message.rest(), message.data()),
                (error, [0, 0, 0, 5], &b"data"[..])
            );
            assert!(message.checksum_is_right());
        }
        let frame = Neighbour::ask(A, Mac([2; 6]), B);
        let ip = Frame::parse(&frame).unwrap().ip6().unwrap();
        assert_eq!((ip.is_of_the_link(), ip.wanted()), (true, Some(B)));
    }
}
