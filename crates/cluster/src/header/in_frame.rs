//! Headers in the form that they have in frames, for who reads or writes many.

use super::{ADJACENCIES, CLASSES, Header, HeaderError, LEN, LOCAL_UNICAST, Phase, SEQUENCES, VERSION};

/// The bits of the first 8 octets that say the adjacency.
const ADJACENCY_BITS: u64 = (ADJACENCIES as u64 - 1) << 16;

/// The octets of both numbers as three words, each read in little-endian order.
const fn in_words(front: u64, back: u32) -> [u32; 3] {
    [((front >> 32) as u32).swap_bytes(), (front as u32).swap_bytes(), back.swap_bytes()]
}

/// A header as it stands in a frame, whose fields are read when they are asked for: for who reads many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Glance {
    /// The first 8 octets.
    front: u64,
    /// The last 4.
    back: u32,
}

impl Glance {
    /// The header in front of a frame, whatever it says.
    #[inline(always)]
    pub fn new(frame: &[u8; LEN]) -> Glance {
        let [a, b, c, d, e, f, g, h, back @ ..] = *frame;
        let front = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Glance { front, back: u32::from_be_bytes(back) }
    }

    /// Whether it is one of ours, of the present version, and of a packet that does not travel whole. If not,
    /// [`Header::decode`] says what it is.
    #[inline(always)]
    pub fn is_usual(&self) -> bool {
        const MASK: u64 = 0b1100_0111 << 56 | 0b11 << 8;
        const USUAL: u64 = ((VERSION as u64) << 6 | LOCAL_UNICAST as u64) << 56 | (LOCAL_UNICAST as u64) << 8;
        self.front & MASK == USUAL
    }

    /// Whether this is the same as another but for adjacency and sequence number: packets of one stream for one line.
    #[inline(always)]
    pub fn is_like(&self, other: &Glance) -> bool {
        let front = (self.front ^ other.front) & !ADJACENCY_BITS;
        front | u64::from((self.back ^ other.back) & !(SEQUENCES - 1)) == 0
    }

    /// Of [`Glance::words`] the bits that [`Glance::is_like`] compares.
    pub const ALIKE: [u32; 3] = in_words(!(ADJACENCY_BITS), !(SEQUENCES - 1));

    /// The octets as three words, each read in little-endian order.
    #[inline]
    pub fn words(&self) -> [u32; 3] {
        in_words(self.front, self.back)
    }

    /// The last word, read in big-endian order, of one that is like this and has this number.
    #[inline]
    pub fn numbered(&self, sequence: u32) -> u32 {
        (self.back & !(SEQUENCES - 1)) | (sequence % SEQUENCES)
    }

    /// As [`Header::phase`].
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        if self.front & 1 << 61 == 0 { Phase::ToRelay } else { Phase::ToOutput }
    }

    /// As [`Header::class`].
    #[inline(always)]
    pub fn class(&self) -> u8 {
        (self.front >> 59 & 0b11) as u8
    }

    /// As [`Header::node`].
    #[inline(always)]
    pub fn node(&self) -> u16 {
        (self.front >> 44 & 0xFFF) as u16
    }

    /// As [`Header::port`].
    #[inline(always)]
    pub fn port(&self) -> u8 {
        (self.front >> 36) as u8
    }

    /// As [`Header::adjacency`].
    #[inline(always)]
    pub fn adjacency(&self) -> u32 {
        (self.front >> 16 & 0xF_FFFF) as u32
    }

    /// As [`Header::source`].
    #[inline(always)]
    pub fn source(&self) -> u16 {
        (self.front >> 4 & 0xFC0 | self.front >> 2 & 0x3F) as u16
    }

    /// As [`Header::worker`].
    #[inline(always)]
    pub fn worker(&self) -> u8 {
        (self.front as u8 & 0b11) << 4 | (self.back >> 28) as u8
    }

    /// As [`Header::incarnation`].
    #[inline(always)]
    pub fn incarnation(&self) -> u8 {
        (self.back >> 24 & 0xF) as u8
    }

    /// As [`Header::sequence`].
    #[inline(always)]
    pub fn sequence(&self) -> u32 {
        self.back % SEQUENCES
    }
}

/// A header of which all but adjacency and sequence number is known: for who writes many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Template {
    /// The first 8 octets, adjacency 0.
    front: u64,
    /// The last 4 octets as they stand in memory, number 0.
    back: u32,
}

impl Template {
    /// From a header whose adjacency and number do not matter.
    ///
    /// # Errors
    ///
    /// [`HeaderError::TooLarge`] if a field exceeds its bits.
    pub fn new(header: &Header) -> Result<Template, HeaderError> {
        let [a, b, c, d, e, f, g, h, back @ ..] = Header { adjacency: 0, sequence: 0, ..*header }.encode()?;
        let front = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Ok(Template { front, back: u32::from_ne_bytes(back) })
    }

    /// This one, of port 0, for another.
    #[inline(always)]
    pub fn to_port(&self, port: u8) -> Template {
        Template { front: self.front | u64::from(port) << 36, ..*self }
    }

    /// This one, of class 0, for another.
    #[inline]
    pub fn of_class(&self, class: u8) -> Template {
        Template { front: self.front | u64::from(class % CLASSES) << 59, ..*self }
    }

    /// The last 4 octets, with this number, of which only as many bits are taken as there are.
    #[inline(always)]
    pub fn end(&self, sequence: u32) -> [u8; 4] {
        (self.back | (sequence % SEQUENCES).to_be()).to_ne_bytes()
    }

    /// The header with these two, of which only as many bits are taken as there are.
    #[inline(always)]
    pub fn bytes(&self, adjacency: u32, sequence: u32) -> [u8; LEN] {
        let front = self.front | (u64::from(adjacency % ADJACENCIES) << 16);
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&front.to_be_bytes());
        bytes[8..].copy_from_slice(&self.end(sequence));
        bytes
    }
}
