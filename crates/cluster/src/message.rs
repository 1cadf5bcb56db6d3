//! What nodes tell each other on internal links beside packets: hellos and markers.
//!
//! Both follow an internal header ([`crate::header`]) under [`crate::header::ETHERTYPE_CONTROL`], and begin with 16 octets:
//!
//! ```text
//!  octet 0      1        2..4       4..8       8..16
//!  kind         flags    0          spread     stamp: the sender's clock in nanoseconds
//! ```
//!
//! A hello goes on with the sender's [`Neighbours`], and in a fly with [`crate::news`]. The header has the rest: who, in which incarnation, and for a marker the
//! stream and the number it is about. Its adjacency is 0, which no packet has. The version is the header's. Octets that
//! are 0 here, and those behind what is known, are ignored by who reads them.

use thiserror::Error;

/// Length of a message, without what follows a hello.
pub const LEN: usize = 16;

const HELLO: u8 = 1;
const MARKER: u8 = 2;
/// Flags of a hello.
const HEARS: u8 = 1;
const DRAINS: u8 = 2;
const CLASSES: u8 = 4;

/// What follows the internal header of a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// I am here.
    Hello {
        /// The sender hears the receiver, in the receiver's present incarnation.
        hears: bool,
        /// The sender asks not to be chosen as relay.
        drains: bool,
        /// The sender knows what classes of packets mean ([`crate::class`]).
        classes: bool,
        /// How far the delays of paths from the receiver to the sender are apart, in microseconds.
        spread: u32,
        /// The sender's clock, in nanoseconds.
        stamp: u64,
    },
    /// On this path, everything before the number in the header has been sent.
    Marker {
        /// The sender's clock, in nanoseconds.
        stamp: u64,
    },
}

/// Why a control frame is lost. The text is the name that the loss is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Shorter than a message.
    #[error("short_message")]
    Short,
    /// A kind that this code does not know.
    #[error("unknown_message")]
    Kind,
}

impl Message {
    /// The octets that follow the EtherType.
    pub fn encode(&self) -> [u8; LEN] {
        let (kind, flags, spread, stamp) = match *self {
            Message::Hello { hears, drains, classes, spread, stamp } => {
                let flags = [(hears, HEARS), (drains, DRAINS), (classes, CLASSES)];
                (HELLO, flags.map(|(is, flag)| u8::from(is) * flag).iter().sum(), spread, stamp)
            }
            Message::Marker { stamp } => (MARKER, 0, 0, stamp),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[1] = flags;
        bytes[4..8].copy_from_slice(&spread.to_be_bytes());
        bytes[8..].copy_from_slice(&stamp.to_be_bytes());
        bytes
    }

    /// Reads what follows the EtherType.
    ///
    /// # Errors
    ///
    /// [`MessageError::Short`] or [`MessageError::Kind`].
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let [kind, flags, _, _, a, b, c, d, stamp @ ..] =
            *bytes.first_chunk::<LEN>().ok_or(MessageError::Short)?;
        let stamp = u64::from_be_bytes(stamp);
        let spread = u32::from_be_bytes([a, b, c, d]);
        match kind {
            HELLO => {
                let [hears, drains, classes] = [HEARS, DRAINS, CLASSES].map(|flag| flags & flag != 0);
                Ok(Message::Hello { hears, drains, classes, spread, stamp })
            }
            MARKER => Ok(Message::Marker { stamp }),
            _ => Err(MessageError::Kind),
        }
    }
}

/// The nodes to which the sender of a hello has a link that is up: a number of nodes in 2 octets, and a bit for each, node
/// 0 being the highest of the first octet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbours {
    nodes: u16,
    bits: Box<[u8]>,
}

impl Neighbours {
    /// None of so many nodes.
    pub fn new(nodes: u16) -> Neighbours {
        Neighbours { nodes, bits: vec![0; usize::from(nodes).div_ceil(8)].into() }
    }

    /// Whether there is a link to this node.
    pub fn has(&self, node: u16) -> bool {
        let octet = self.bits.get(usize::from(node / 8)).copied().unwrap_or(0);
        octet & 0x80 >> (node % 8) != 0
    }

    /// Says whether there is a link to a node; nodes out of range have none.
    pub fn set(&mut self, node: u16, up: bool) {
        if node < self.nodes
            && let Some(octet) = self.bits.get_mut(usize::from(node / 8))
        {
            let bit = 0x80 >> (node % 8);
            *octet = if up { *octet | bit } else { *octet & !bit };
        }
    }

    /// Drops all that are not among these, too.
    pub fn retain(&mut self, others: &Neighbours) {
        self.bits.iter_mut().zip(&others.bits).for_each(|(octet, other)| *octet &= other);
    }

    /// The octets that follow a hello.
    pub fn encode(&self) -> impl Iterator<Item = u8> {
        self.nodes.to_be_bytes().into_iter().chain(self.bits.iter().copied())
    }

    /// What stands behind the neighbours in what follows a hello; nothing if they are cut short.
    pub fn behind(bytes: &[u8]) -> &[u8] {
        let nodes = bytes.split_first_chunk().map_or(0, |(nodes, _)| u16::from_be_bytes(*nodes));
        bytes.get(2 + usize::from(nodes).div_ceil(8)..).unwrap_or_default()
    }

    /// Takes over what follows a hello, and says whether that changed anything. The sender may know of fewer nodes, or of
    /// more, which are left out; what is cut short changes nothing.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        let Some((nodes, bits)) = bytes.split_first_chunk() else { return false };
        let there = u16::from_be_bytes(*nodes);
        let Some(bits) = bits.get(..usize::from(there).div_ceil(8)) else { return false };
        let sent = Neighbours { nodes: there, bits: bits.into() };
        let mut new = Neighbours::new(self.nodes);
        (0..self.nodes.min(there)).filter(|&node| sent.has(node)).for_each(|node| new.set(node, true));
        let changed = new.bits != self.bits;
        self.bits = new.bits;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_written() {
        let hello = Message::Hello {
            hears: true,
            drains: false,
            classes: false,
            spread: 0x0A0B_0C0D,
            stamp: 0x0102_0304_0506_0708,
        };
        assert_eq!(hello.encode(), [1, 1, 0, 0, 10, 11, 12, 13, 1, 2, 3, 4, 5, 6, 7, 8]);
        let flags =
            |drains, classes| Message::Hello { hears: false, drains, classes, spread: u32::MAX, stamp: 9 };
        assert_eq!(flags(false, true).encode()[1], 4);
        for message in [hello, flags(true, false), flags(false, true), Message::Marker { stamp: 7 }] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
            assert_eq!(Message::decode(&message.encode()[..LEN - 1]), Err(MessageError::Short));
        }
    }

    #[test]
    fn other_kinds_are_unknown_and_other_flags_ignored() {
        for kind in (0..=255).filter(|kind| ![HELLO, MARKER].contains(kind)) {
            let mut bytes = [0xFF; LEN];
            bytes[0] = kind;
            assert_eq!(Message::decode(&bytes), Err(MessageError::Kind));
        }
        let bytes = [1, 0xF8, 9, 9, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5];
        let hello = Message::Hello { hears: false, drains: false, classes: false, spread: 2, stamp: 5 };
        assert_eq!(Message::decode(&bytes), Ok(hello));
    }

    #[test]
    fn neighbours_are_read_as_written() {
        let mut sent = Neighbours::new(11);
        [0, 7, 8, 10, 11, 16, 4095].into_iter().for_each(|node| sent.set(node, true));
        sent.set(7, false);
        let bytes: Vec<u8> = sent.encode().collect();
        assert_eq!(bytes, [0, 11, 0x80, 0xA0]);
        let mut read = Neighbours::new(11);
        assert!(read.read(&[&bytes[..], &[9]].concat()), "what follows is ignored");
        assert!(!read.read(&bytes), "nothing new");
        assert_eq!((0..4096).filter(|&node| read.has(node)).collect::<Vec<_>>(), [0, 8, 10]);
        for wrong in [&bytes[..3], &bytes[..1], &[]] {
            assert!(!read.read(wrong));
        }
        assert_eq!(read, sent);
        // From one that knows of more nodes, and from one that knows of fewer.
        assert!(!read.read(&[0, 17, 0x80, 0xBF, 0x80]), "nothing new about those known here");
        assert_eq!((0..4096).filter(|&node| read.has(node)).collect::<Vec<_>>(), [0, 8, 10]);
        assert!(read.read(&[0, 3, 0xFF]));
        assert_eq!((0..4096).filter(|&node| read.has(node)).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(read.read(&bytes));
        assert_eq!(Neighbours::behind(&[&bytes[..], &[7, 8]].concat()), [7, 8]);
        assert_eq!([&bytes[..], &bytes[..3], &bytes[..1], &[]].map(Neighbours::behind), [&[0; 0][..]; 4]);
        let mut others = Neighbours::new(11);
        [8, 9, 10].into_iter().for_each(|node| others.set(node, true));
        read.retain(&others);
        assert_eq!((0..11).filter(|&node| read.has(node)).collect::<Vec<_>>(), [8, 10]);
    }
}
