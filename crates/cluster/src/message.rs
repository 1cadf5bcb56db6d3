//! What nodes tell each other on internal links beside packets: hellos and markers.
//!
//! Both follow an internal header ([`crate::header`]) under [`crate::header::ETHERTYPE_CONTROL`], and are 16 octets:
//!
//! ```text
//!  octet 0      1        2..8       8..16
//!  kind         flags    0          stamp: the sender's clock in nanoseconds
//! ```
//!
//! The header has the rest: who, in which incarnation, and for a marker the stream and the number it is about. The version
//! is the header's. Octets that are 0 here are ignored by who reads them.

use thiserror::Error;

/// Length of a message.
pub const LEN: usize = 16;

const HELLO: u8 = 1;
const MARKER: u8 = 2;
/// Flag of a hello.
const HEARS: u8 = 1;

/// What follows the internal header of a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// I am here.
    Hello {
        /// The sender hears the receiver, in the receiver's present incarnation.
        hears: bool,
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
        let (kind, flags, stamp) = match *self {
            Message::Hello { hears, stamp } => (HELLO, u8::from(hears) * HEARS, stamp),
            Message::Marker { stamp } => (MARKER, 0, stamp),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[1] = flags;
        bytes[8..].copy_from_slice(&stamp.to_be_bytes());
        bytes
    }

    /// Reads what follows the EtherType.
    ///
    /// # Errors
    ///
    /// [`MessageError::Short`] or [`MessageError::Kind`].
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let [kind, flags, _, _, _, _, _, _, stamp @ ..] =
            *bytes.first_chunk::<LEN>().ok_or(MessageError::Short)?;
        let stamp = u64::from_be_bytes(stamp);
        match kind {
            HELLO => Ok(Message::Hello { hears: flags & HEARS != 0, stamp }),
            MARKER => Ok(Message::Marker { stamp }),
            _ => Err(MessageError::Kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_written() {
        let hello = Message::Hello { hears: true, stamp: 0x0102_0304_0506_0708 };
        assert_eq!(hello.encode(), [1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        for message in [hello, Message::Hello { hears: false, stamp: u64::MAX }, Message::Marker { stamp: 7 }]
        {
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
        let bytes = [1, 0xFE, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(Message::decode(&bytes), Ok(Message::Hello { hears: false, stamp: 5 }));
    }
}
