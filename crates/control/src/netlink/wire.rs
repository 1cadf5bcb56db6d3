//! Netlink's framing: messages in a datagram, attributes in a message (linux/netlink.h). Everything is in the byte order
//! of the machine and aligned to four bytes.

/// Bytes of `struct nlmsghdr`.
pub const HEADER_LEN: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE_LEN: usize = 4;
/// Flags in the upper bits of an attribute's type: nested, and network byte order.
const TYPE_MASK: u16 = 0x3fff;

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`: that of the request which this answers, 0 for news.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// A message or an attribute says that it is longer than what it is in, or shorter than its own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed netlink message")]
pub struct Malformed;

/// The messages of a datagram; the first malformed one is the last.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// The messages in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages(bytes)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Raw<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let raw = u32_at(all, 0).and_then(|len| {
            let len = usize::try_from(len).ok()?;
            Some((
                Raw {
                    kind: u16_at(all, 4)?,
                    flags: u16_at(all, 6)?,
                    sequence: u32_at(all, 8)?,
                    body: all.get(HEADER_LEN..len)?,
                },
                len,
            ))
        });
        let Some((raw, len)) = raw else { return Some(Err(Malformed)) };
        self.0 = all.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(raw))
    }
}

/// The attributes of a message, as type and value; ends at the first malformed one.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes(bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let all = std::mem::take(&mut self.0);
        let len = usize::from(u16_at(all, 0)?);
        let kind = u16_at(all, 2)? & TYPE_MASK;
        let value = all.get(ATTRIBUTE_LEN..len)?;
        self.0 = all.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// The 16 bits at `offset`, in the byte order of the machine.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

/// The 32 bits at `offset`, in the byte order of the machine.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// A message under construction, for requests and for tests.
#[derive(Clone, Debug)]
pub struct Builder(Vec<u8>);

impl Builder {
    /// A message with this header and this fixed part of its body.
    pub fn new(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Builder {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(body);
        let mut message = Builder(bytes);
        message.pad();
        message
    }

    /// The same with an attribute; one of more than 65,531 bytes is left out.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Builder {
        if let Ok(len) = u16::try_from(value.len() + ATTRIBUTE_LEN) {
            self.0.extend_from_slice(&len.to_ne_bytes());
            self.0.extend_from_slice(&kind.to_ne_bytes());
            self.0.extend_from_slice(value);
            self.pad();
        }
        self
    }

    /// Attributes alone, to stand in one of a message.
    pub fn attributes() -> Builder {
        Builder(Vec::new())
    }

    /// The bytes of attributes alone.
    pub fn contents(self) -> Vec<u8> {
        self.0
    }

    /// The bytes of the message.
    pub fn bytes(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(field) = self.0.first_chunk_mut() {
            *field = len.to_ne_bytes();
        }
        self.0
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let one = Builder::new(24, 5, 7, &[1, 2, 3]).with(1, &[9; 5]).with(2 | 0x8000, &[]).bytes();
        let both = [one, Builder::new(3, 2, 8, &[]).bytes()].concat();
        let all: Vec<_> = Messages::new(&both).map(Result::unwrap).collect();
        assert_eq!((all.len(), all[0].kind, all[0].flags, all[0].sequence), (2, 24, 5, 7));
        assert_eq!((all[1].kind, all[1].sequence, all[1].body), (3, 8, &[][..]));
        let attributes: Vec<_> = Attributes::new(&all[0].body[4..]).collect();
        assert_eq!(attributes, [(1, &[9; 5][..]), (2, &[][..])]);
    }

    #[test]
    fn lengths_that_lie_end_the_reading() {
        let good = Builder::new(24, 0, 0, &[]).with(1, &[1, 2, 3, 4]).bytes();
        for len in [0u32, 15, 25, u32::MAX] {
            let mut bad = good.clone();
            bad[..4].copy_from_slice(&len.to_ne_bytes());
            let all: Vec<_> = Messages::new(&bad).collect();
            assert_eq!(all, [Err(Malformed)]);
        }
        for len in [0u16, 3, 9, u16::MAX] {
            let mut bad = good[HEADER_LEN..].to_vec();
            bad[..2].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(Attributes::new(&bad).count(), 0);
        }
    }
}
