//! TCP headers (RFC 9293).

/// Length of a header without options.
pub const MIN_HEADER_LEN: usize = 20;
/// FIN flag.
pub const FIN: u8 = 0x01;
/// SYN flag.
pub const SYN: u8 = 0x02;
/// RST flag.
pub const RST: u8 = 0x04;
/// PSH flag.
pub const PSH: u8 = 0x08;
/// ACK flag.
pub const ACK: u8 = 0x10;
/// URG flag.
pub const URG: u8 = 0x20;

/// The fixed parts of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Header length in bytes, options included, as the header says (0–60).
    pub header_len: usize,
    /// Flags: the low eight bits.
    pub flags: u8,
    /// Window.
    pub window: u16,
}

impl Header {
    /// Reads the header at the front of the bytes; `None` if there are too few.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let b: &[u8; MIN_HEADER_LEN] = bytes.first_chunk()?;
        Some(Header {
            source: u16::from_be_bytes([b[0], b[1]]),
            destination: u16::from_be_bytes([b[2], b[3]]),
            sequence: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
            acknowledgement: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
            header_len: usize::from(b[12] >> 4) * 4,
            flags: b[13],
            window: u16::from_be_bytes([b[14], b[15]]),
        })
    }
}
