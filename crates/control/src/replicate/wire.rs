//! Frames on the stream, and the fields in them.
//!
//! A frame: length of what follows (4 bytes, big-endian, at least 1), kind (1 byte), body. Numbers are big-endian, or
//! *short*: seven bits a byte, the lowest first, the high bit set in all bytes but the last (LEB128).

/// The longest frame without its length; one group with all the buckets and members that it can have is shorter.
pub const MAX_FRAME: usize = 1 << 20;
/// Bytes of a frame's length.
const LENGTH: usize = 4;

/// What came is not this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame is longer than there are, or empty.
    #[error("a frame of {0} bytes: expected 1 to {max}", max = MAX_FRAME)]
    Length(usize),
    /// A frame of a kind that the version does not have.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// A frame that has its time elsewhere.
    #[error("{0} came out of turn")]
    Turn(&'static str),
    /// What a frame holds is not as it should be.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// It speaks no version that is spoken here.
    #[error("it speaks versions {0} to {1} of the protocol")]
    Version(u8, u8),
    /// More routes or next hops than can be.
    #[error("too many {0}")]
    TooMany(&'static str),
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes that came and are not yet a frame: at most one frame, as long as whoever feeds takes all frames out.
    waiting: Vec<u8>,
}

impl Frames {
    /// Takes `bytes` from the stream and hands kind and body of each complete frame to `take`.
    ///
    /// # Errors
    /// If it is not this protocol, or those of `take`; the stream is then of no more use.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(u8, &[u8]) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        self.waiting.extend_from_slice(bytes);
        let mut rest = &self.waiting[..];
        while let Some((length, after)) = rest.split_first_chunk::<LENGTH>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length == 0 || length > MAX_FRAME {
                return Err(ProtocolError::Length(length));
            }
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            if let Some((kind, body)) = frame.split_first() {
                take(*kind, body)?;
            }
            rest = after;
        }
        let left = rest.len();
        self.waiting.drain(..self.waiting.len() - left);
        Ok(())
    }
}

/// Writes one frame.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// A frame of this kind, with nothing in it.
    pub fn new(kind: u8) -> Writer {
        Writer(vec![0, 0, 0, 0, kind])
    }

    /// Bytes so far, with the length.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds one byte.
    pub fn u8(&mut self, value: u8) -> &mut Writer {
        self.bytes(&[value])
    }

    /// Adds two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.bytes(&value.to_be_bytes())
    }

    /// Adds four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.bytes(&value.to_be_bytes())
    }

    /// Adds eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Writer {
        self.bytes(&value.to_be_bytes())
    }

    /// Adds a short number.
    pub fn short(&mut self, mut value: u32) -> &mut Writer {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// Adds text with its length in one byte; what is longer is cut.
    pub fn text(&mut self, text: &str) -> &mut Writer {
        let cut = text.floor_char_boundary(usize::from(u8::MAX));
        self.u8(cut as u8).bytes(&text.as_bytes()[..cut])
    }

    /// The frame, ready for the stream.
    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - LENGTH) as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// Reads the fields of one body, `None` where it ends too early or a field has no such value.
#[derive(Clone, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// At the beginning of a body.
    pub fn new(body: &'a [u8]) -> Cursor<'a> {
        Cursor(body)
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes so many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Takes as many bytes as the array has.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a short number, written in as few bytes as it can be.
    pub fn short(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 { None } else { u32::try_from(value).ok() };
            }
        }
        None
    }

    /// Takes text.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u8()?;
        std::str::from_utf8(self.bytes(usize::from(length))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_as_they_went(numbers in prop::collection::vec(any::<u32>(), 0..20), text in ".{0,60}") {
            let mut writer = Writer::new(7);
            writer.text(&text).u64(u64::MAX - 1).u16(0x1234);
            for number in &numbers {
                writer.short(*number).u32(*number);
            }
            let bytes = writer.finish();
            let mut frames = Frames::default();
            let mut seen = 0;
            // However the stream is cut.
            for piece in bytes.chunks(3) {
                frames.feed(piece, |kind, body| {
                    let mut cursor = Cursor::new(body);
                    assert_eq!((kind, cursor.text()), (7, Some(&text[..])));
                    assert_eq!((cursor.u64(), cursor.u16()), (Some(u64::MAX - 1), Some(0x1234)));
                    for number in &numbers {
                        assert_eq!((cursor.short(), cursor.u32()), (Some(*number), Some(*number)));
                    }
                    assert!(cursor.is_empty() && cursor.u8().is_none());
                    seen += 1;
                    Ok(())
                }).unwrap();
            }
            prop_assert_eq!((seen, frames.waiting.len()), (1, 0));
        }
    }

    #[test]
    fn lengths_have_bounds() {
        let feed = |bytes: &[u8]| Frames::default().feed(bytes, |_, _| Ok(()));
        assert_eq!(feed(&[0, 0, 0, 0]), Err(ProtocolError::Length(0)));
        assert_eq!(feed(&[0, 0x10, 0, 1]), Err(ProtocolError::Length(MAX_FRAME + 1)));
        assert_eq!(feed(b"GET / HTTP/1.1\r\n"), Err(ProtocolError::Length(0x4745_5420)));
        assert_eq!(feed(&[0, 0x10, 0, 0, 9]), Ok(()));
        // A short number is written in one way only, and has 32 bits.
        for bytes in [&[0x80, 0][..], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0x80; 6], &[0x80]] {
            assert_eq!(Cursor::new(bytes).short(), None);
        }
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).short(), Some(u32::MAX));
        assert_eq!(Cursor::new(&[2, 0xc3, 0x28]).text(), None);
    }
}
