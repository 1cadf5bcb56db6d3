//! UDP (RFC 768).

/// Length of the header.
pub const HEADER_LEN: usize = 8;

/// The parts of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Length of header and data.
    pub length: u16,
    /// Checksum; 0 = none.
    pub checksum: u16,
}

impl Header {
    /// Reads the header at the front of the bytes; `None` if there are too few.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        Some(Header {
            source: u16::from_be_bytes([b[0], b[1]]),
            destination: u16::from_be_bytes([b[2], b[3]]),
            length: u16::from_be_bytes([b[4], b[5]]),
            checksum: u16::from_be_bytes([b[6], b[7]]),
        })
    }

    /// The header as bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let [a, b] = self.source.to_be_bytes();
        let [c, d] = self.destination.to_be_bytes();
        let [e, f] = self.length.to_be_bytes();
        let [g, h] = self.checksum.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}
