//! ARP for IPv4 over Ethernet (RFC 826).

use super::ethernet::{self, Mac};
use std::net::Ipv4Addr;

/// Length of an ARP packet for IPv4 over Ethernet, link-layer header not counted.
pub const LEN: usize = 28;
/// Operation: who has this address?
pub const REQUEST: u16 = 1;
/// Operation: this is my address.
pub const REPLY: u16 = 2;

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// [`REQUEST`], [`REPLY`] or another operation.
    pub operation: u16,
    /// Link-layer address of the sender.
    pub sender_mac: Mac,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Link-layer address of the target (zero in requests).
    pub target_mac: Mac,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Reads an ARP packet; `None` if it is too short or not IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<Arp> {
        let b: &[u8; LEN] = bytes.first_chunk()?;
        if b[..6] != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        Some(Arp {
            operation: u16::from_be_bytes([b[6], b[7]]),
            sender_mac: [b[8], b[9], b[10], b[11], b[12], b[13]],
            sender_ip: Ipv4Addr::new(b[14], b[15], b[16], b[17]),
            target_mac: [b[18], b[19], b[20], b[21], b[22], b[23]],
            target_ip: Ipv4Addr::new(b[24], b[25], b[26], b[27]),
        })
    }

    /// The packet as bytes.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        b[6..8].copy_from_slice(&self.operation.to_be_bytes());
        b[8..14].copy_from_slice(&self.sender_mac);
        b[14..18].copy_from_slice(&self.sender_ip.octets());
        b[18..24].copy_from_slice(&self.target_mac);
        b[24..].copy_from_slice(&self.target_ip.octets());
        b
    }

    /// A broadcast frame that asks for the MAC address of `target`.
    pub fn request_frame(
        sender_mac: Mac,
        sender_ip: Ipv4Addr,
        target: Ipv4Addr,
    ) -> [u8; ethernet::HEADER_LEN + LEN] {
        let arp = Arp { operation: REQUEST, sender_mac, sender_ip, target_mac: [0; 6], target_ip: target };
        arp.frame(ethernet::BROADCAST)
    }

    /// The packet in an Ethernet frame from its sender to `destination`.
    pub fn frame(&self, destination: Mac) -> [u8; ethernet::HEADER_LEN + LEN] {
        let mut frame = [0; ethernet::HEADER_LEN + LEN];
        let header = ethernet::Header { destination, source: self.sender_mac, ethertype: ethernet::ARP };
        frame[..ethernet::HEADER_LEN].copy_from_slice(&header.bytes());
        frame[ethernet::HEADER_LEN..].copy_from_slice(&self.bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_and_bytes_are_inverse() {
        let frame =
            Arp::request_frame([2, 0, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let arp = Arp::parse(&frame[14..]).unwrap();
        assert_eq!(arp.operation, REQUEST);
        assert_eq!(arp.target_ip, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(arp.bytes(), frame[14..]);
        assert_eq!(Arp::parse(&frame[15..]), None);
        assert_eq!(Arp::parse(&[0; LEN]), None);
    }
}
