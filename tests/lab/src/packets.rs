//! Builds frames, right ones and wrong ones. Nothing here is shared with the router under test.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// EtherType of IPv4.
pub const ETHERTYPE_IP: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Octets of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// The DF bit in [`Ip::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The MF bit in [`Ip::fragment`].
pub const MORE_FRAGMENTS: u16 = 0x2000;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The Internet checksum (RFC 1071) of `data`: 0 if it already holds a right one.
pub fn checksum(data: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in data.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An Ethernet frame.
pub fn ethernet(to: Mac, from: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.to_be_bytes(), payload].concat()
}

/// An IPv4 packet (RFC 791 §3.1). A field that is `None` gets its right value when the packet is built.
#[derive(Clone, Debug)]
pub struct Ip {
    /// Version, 4 if right.
    pub version: u8,
    /// Header length in 32-bit words.
    pub header_words: Option<u8>,
    /// Type of service.
    pub tos: u8,
    /// Total length in octets.
    pub total_length: Option<u16>,
    /// Identification.
    pub id: u16,
    /// DF, MF, and the offset in units of 8 octets.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Header checksum.
    pub checksum: Option<u16>,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Options; filled up with zeros to a multiple of 4 octets.
    pub options: Vec<u8>,
    /// What follows the header.
    pub payload: Vec<u8>,
}

impl Ip {
    /// A right packet with TTL 64 and no options.
    pub fn new(source: Ipv4Addr, destination: Ipv4Addr, id: u16, protocol: u8, payload: Vec<u8>) -> Ip {
        Ip {
            version: 4,
            header_words: None,
            tos: 0,
            total_length: None,
            id,
            fragment: 0,
            ttl: 64,
            protocol,
            checksum: None,
            source,
            destination,
            options: Vec::new(),
            payload,
        }
    }

    /// The octets on the wire. A right checksum covers as much as the header length field claims and is there.
    pub fn build(&self) -> Vec<u8> {
        let padding = self.options.len().next_multiple_of(4) - self.options.len();
        let header = 20 + self.options.len() + padding;
        let words = self.header_words.unwrap_or((header / 4) as u8 & 0x0f);
        let total = self.total_length.unwrap_or((header + self.payload.len()).min(0xffff) as u16);
        let mut packet = vec![(self.version << 4) | (words & 0x0f), self.tos];
        packet.extend(total.to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(&self.options);
        packet.extend(vec![0; padding]);
        packet.extend(&self.payload);
        let covered = (usize::from(words & 0x0f) * 4).min(packet.len());
        let sum = self.checksum.unwrap_or_else(|| checksum(&packet[..covered]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

/// The pseudo header that the checksums of TCP, UDP and ICMPv6 cover (RFC 768, RFC 9293 §3.1, RFC 8200 §8.1).
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    // The sum is the same for 32-bit fields as for those of IPv4, whose upper halves are 0.
    let length = (length as u32).to_be_bytes();
    [&octets(source)[..], &octets(destination), &length, &[0, 0, 0, protocol]].concat()
}

/// A UDP datagram with its checksum.
pub fn udp<A: Into<IpAddr>>(source: (A, u16), destination: (A, u16), data: &[u8]) -> Vec<u8> {
    let length = ((8 + data.len()).min(0xffff) as u16).to_be_bytes();
    let (from, to) = (source.1.to_be_bytes(), destination.1.to_be_bytes());
    let mut datagram = [&from[..], &to, &length, &[0, 0], data].concat();
    let pseudo = pseudo_header(source.0.into(), destination.0.into(), UDP, datagram.len());
    // A sum of 0 is sent as all ones, since 0 means that there is none.
    let sum = match checksum(&[pseudo, datagram.clone()].concat()) {
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// A TCP segment without options, with its checksum. `flags` is the 14th octet of the header.
pub fn tcp<A: Into<IpAddr>>(source: (A, u16), destination: (A, u16), flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = [source.1.to_be_bytes(), destination.1.to_be_bytes()].concat();
    // Sequence and acknowledgement numbers, 5 words of header, window, no checksum yet, no urgent data.
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 5 << 4, flags, 0x40, 0, 0, 0, 0, 0]);
    segment.extend(data);
    let pseudo = pseudo_header(source.0.into(), destination.0.into(), TCP, segment.len());
    let sum = checksum(&[pseudo, segment.clone()].concat());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// An ICMP message: type, code, the four octets that depend on the type, data (RFC 792).
pub fn icmp(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// An ARP reply (RFC 826): `sender` says that it has `sender_address`.
pub fn arp_reply(sender: Mac, sender_address: Ipv4Addr, target: Mac, target_address: Ipv4Addr) -> Vec<u8> {
    ethernet(target, sender, ETHERTYPE_ARP, &arp(2, (sender, sender_address), (target, target_address)))
}

/// An ARP request (RFC 826): `sender` asks everybody who has `wanted`.
pub fn arp_request(sender: Mac, sender_address: Ipv4Addr, wanted: Ipv4Addr) -> Vec<u8> {
    let body = arp(1, (sender, sender_address), (Mac([0; 6]), wanted));
    ethernet(Mac::BROADCAST, sender, ETHERTYPE_ARP, &body)
}

fn arp(operation: u8, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let fixed = [0, 1, 0x08, 0x00, 6, 4, 0, operation];
    [&fixed[..], &sender.0.0, &sender.1.octets(), &target.0.0, &target.1.octets()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(172, 16, 10, 99);
    const B: Ipv4Addr = Ipv4Addr::new(172, 16, 10, 12);

    #[test]
    fn the_checksum_of_a_known_header() {
        // A widely printed example header whose checksum is b1e6.
        let header = [
            0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0, 0, 0xac, 0x10, 0x0a, 0x63, 0xac, 0x10, 0x0a,
            0x0c,
        ];
        assert_eq!(checksum(&header), 0xb1e6);
        let mut packet = Ip::new(A, B, 0x1c46, TCP, vec![0; 40]);
        packet.fragment = DONT_FRAGMENT;
        let bytes = packet.build();
        assert_eq!(bytes[10..12], [0xb1, 0xe6]);
        assert_eq!(checksum(&bytes[..20]), 0);
    }

    #[test]
    fn options_are_padded_and_counted() {
        let mut packet = Ip::new(A, B, 1, UDP, vec![9; 5]);
        packet.options = vec![7, 7, 4, 0, 0, 0, 0];
        let bytes = packet.build();
        assert_eq!(bytes.len(), 28 + 5);
        assert_eq!(bytes[0], 0x47);
        assert_eq!(bytes[2..4], [0, 33]);
        assert_eq!(checksum(&bytes[..28]), 0);
    }

    #[test]
    fn transport_checksums_add_up() {
        for (protocol, body) in [(UDP, udp((A, 1), (B, 2), b"abc")), (TCP, tcp((A, 1), (B, 2), 4, b"abc"))] {
            let pseudo = pseudo_header(A.into(), B.into(), protocol, body.len());
            assert_eq!(checksum(&[pseudo, body].concat()), 0, "protocol {protocol}");
        }
        assert_eq!(checksum(&icmp(8, 0, [0, 1, 0, 2], b"xyz")), 0);
    }
}
