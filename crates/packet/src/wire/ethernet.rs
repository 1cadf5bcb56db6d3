//! Ethernet II frames (IEEE 802.3, RFC 894).

/// A MAC address.
pub type Mac = [u8; 6];

/// Length of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// The broadcast address.
pub const BROADCAST: Mac = [0xff; 6];
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// EtherType of an 802.1ad service tag.
pub const SERVICE_VLAN: u16 = 0x88a8;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;

/// True if the group bit is set (broadcast included).
#[inline]
pub fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// The parts of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination address.
    pub destination: Mac,
    /// Source address.
    pub source: Mac,
    /// EtherType.
    pub ethertype: u16,
}

/// Writes a header in two pieces that fit registers and overlap.
#[inline(always)]
pub fn put_header(to: &mut [u8; HEADER_LEN], header: &[u8; HEADER_LEN]) {
    let [front, back] = [0, HEADER_LEN - 8].map(|at| at..at + 8);
    to[front.clone()].copy_from_slice(&header[front]);
    to[back.clone()].copy_from_slice(&header[back]);
}

impl Header {
    /// Reads the header at the front of a frame; `None` if the frame is shorter than a header.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<Header> {
        let h: &[u8; HEADER_LEN] = frame.first_chunk()?;
        Some(Header {
            destination: [h[0], h[1], h[2], h[3], h[4], h[5]],
            source: [h[6], h[7], h[8], h[9], h[10], h[11]],
            ethertype: u16::from_be_bytes([h[12], h[13]]),
        })
    }

    /// The header as bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut h = [0; HEADER_LEN];
        h[..6].copy_from_slice(&self.destination);
        h[6..12].copy_from_slice(&self.source);
        h[12..].copy_from_slice(&self.ethertype.to_be_bytes());
        h
    }
}

/// Text form of a MAC address as Click prints it: `02-00-00-00-00-01`, upper-case hexadecimal.
pub fn text(mac: &Mac) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{f:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_and_bytes_are_inverse() {
        let frame = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00];
        let header = Header::parse(&frame).unwrap();
        assert_eq!(header.destination, [1, 2, 3, 4, 5, 6]);
        assert_eq!(header.ethertype, IPV4);
        assert_eq!(header.bytes(), frame);
        assert_eq!(Header::parse(&frame[..13]), None);
    }

    #[test]
    fn text_is_clicks() {
        assert_eq!(text(&[2, 0, 0, 0, 0xab, 1]), "02-00-00-00-AB-01");
    }
}
