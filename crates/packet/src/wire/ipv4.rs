//! IPv4 headers (RFC 791).

use super::checksum;
use std::hint::cold_path;

/// Length of a header without options.
pub const MIN_HEADER_LEN: usize = 20;
/// First byte of a header without options: version 4, five words.
pub const PLAIN: u8 = 0x45;
/// More-fragments bit of the fragment word.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Don't-fragment bit of the fragment word.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Fragment offset bits of the fragment word, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// View of an IPv4 header at the front of some bytes. Only the presence of the first 20 bytes is known; see
/// [`Ipv4::check`].
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    bytes: &'a [u8],
    head: &'a [u8; MIN_HEADER_LEN],
}

impl<'a> Ipv4<'a> {
    /// Views the header at the front of `bytes`; `None` if there are fewer than 20 bytes. Nothing else is checked.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Ipv4<'a>> {
        Some(Ipv4 { bytes, head: bytes.first_chunk()? })
    }

    /// Views a header without options. Nothing is checked.
    #[inline]
    pub fn of(head: &'a [u8; MIN_HEADER_LEN]) -> Ipv4<'a> {
        Ipv4 { bytes: head, head }
    }

    /// Views a header that is known to be sound: version 4, header and total length consistent and within `bytes`.
    /// The checksum is not looked at.
    #[inline]
    pub fn check(bytes: &'a [u8]) -> Option<Ipv4<'a>> {
        let ip = Ipv4::new(bytes)?;
        let (header, total) = (ip.header_len(), usize::from(ip.total_len()));
        (ip.version() == 4 && header >= MIN_HEADER_LEN && header <= total && total <= bytes.len())
            .then_some(ip)
    }

    /// Version; 4 in a sound header.
    #[inline]
    pub fn version(&self) -> u8 {
        self.head[0] >> 4
    }

    /// Header length in bytes, options included, as the header says (0–60).
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head[0] & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.head[1]
    }

    /// Total length in bytes, header included, as the header says.
    #[inline]
    pub fn total_len(&self) -> u16 {
        u16::from_be_bytes([self.head[2], self.head[3]])
    }

    /// Identification.
    #[inline]
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.head[4], self.head[5]])
    }

    /// Flags and fragment offset.
    #[inline]
    pub fn fragment_word(&self) -> u16 {
        u16::from_be_bytes([self.head[6], self.head[7]])
    }

    /// Fragment offset in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_word() & OFFSET_MASK) * 8
    }

    /// True for any fragment: offset not zero or more to come.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment_word() & (OFFSET_MASK | MORE_FRAGMENTS) != 0
    }

    /// True if it has no fragment before it, so that the transport header is in it.
    #[inline]
    pub fn is_first_fragment(&self) -> bool {
        self.fragment_word() & OFFSET_MASK == 0
    }

    /// Don't-fragment flag.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment_word() & DONT_FRAGMENT != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.head[8]
    }

    /// Protocol number.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.head[9]
    }

    /// Header checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.head[10], self.head[11]])
    }

    /// Source address, host order.
    #[inline]
    pub fn source(&self) -> u32 {
        u32::from_be_bytes([self.head[12], self.head[13], self.head[14], self.head[15]])
    }

    /// Destination address, host order.
    #[inline]
    pub fn destination(&self) -> u32 {
        u32::from_be_bytes([self.head[16], self.head[17], self.head[18], self.head[19]])
    }

    /// True if the header sums to all ones; false also if it claims to be longer than the bytes.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        if self.head[0] & 0x0f == 5 {
            return checksum::is_valid_20(self.head);
        }
        self.bytes.get(..self.header_len()).is_some_and(checksum::is_valid)
    }

    /// The options; empty if there are none or the header claims to be longer than the bytes.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.bytes.get(MIN_HEADER_LEN..self.header_len()).unwrap_or(&[])
    }

    /// The bytes after the header, up to the total length or the end of the bytes.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let end = usize::from(self.total_len()).min(self.bytes.len());
        self.bytes.get(self.header_len()..end).unwrap_or(&[])
    }
}

/// TTL, protocol, high and low byte of the checksum, from the least significant byte up. The TTL is the high byte of
/// its 16-bit word, so when it goes down the high byte of the checksum goes up by 1, and here its carry goes where
/// end-around carry would take it: to the low byte.
#[inline(always)]
fn ttl_word(header: &mut [u8; MIN_HEADER_LEN]) -> &mut [u8; 4] {
    &mut header.as_chunks_mut().0[2]
}

/// Of such a word: one addition decrements the TTL and updates the checksum, as there is no carry and the TTL is at least 2.
#[inline(always)]
const fn is_plain(word: u32) -> bool {
    word & 0xfe != 0 && word < 0xfffe_0000
}

/// Added to such a word.
const ONE_HOP: u32 = (1 << 16) - 1;

/// True if [`decrement_plain_ttl`] does what [`decrement_ttl`] does.
#[inline(always)]
pub fn has_plain_ttl(header: &[u8; MIN_HEADER_LEN]) -> bool {
    is_plain(u32::from_le_bytes(header.as_chunks().0[2]))
}

/// [`decrement_ttl`] of a header that [has a plain TTL](has_plain_ttl); any other one is spoilt.
#[inline(always)]
pub fn decrement_plain_ttl(header: &mut [u8; MIN_HEADER_LEN]) {
    let bytes = ttl_word(header);
    *bytes = u32::from_le_bytes(*bytes).wrapping_add(ONE_HOP).to_le_bytes();
}

/// [`decrement_ttl`] where that is one addition; false, and nothing changed, if it is not.
#[inline(always)]
pub fn decrement_ttl_usual(header: &mut [u8; MIN_HEADER_LEN]) -> bool {
    let bytes = ttl_word(header);
    let word = u32::from_le_bytes(*bytes);
    // Two branches that are never taken cost less than one on both conditions.
    if word & 0xfe == 0 {
        cold_path();
        return false;
    }
    if word >= 0xfffe_0000 {
        cold_path();
        return false;
    }
    *bytes = (word + ONE_HOP).to_le_bytes();
    true
}

/// Decrements the TTL and updates the checksum (RFC 1624). False, and nothing changed, if it is 1 or 0: the packet has
/// expired (RFC 1812 §5.3.1).
#[inline]
pub fn decrement_ttl(header: &mut [u8; MIN_HEADER_LEN]) -> bool {
    if decrement_ttl_usual(header) {
        return true;
    }
    let bytes = ttl_word(header);
    let word = u32::from_le_bytes(*bytes);
    if word & 0xff <= 1 {
        return false;
    }
    // Checksum 0xffff: the low byte has a carry, too. 0xfeff: the sum is 0xffff, which recomputing would give as 0.
    let checksum = if word >= 0xffff_0000 { 1 << 16 } else { 0 };
    *bytes = ((word & 0xffff) - 1 + checksum).to_le_bytes();
    true
}

/// Computes and stores the header checksum. False, and nothing changed, if the header is not whole.
pub fn set_checksum(bytes: &mut [u8]) -> bool {
    let Some(len) = Ipv4::new(bytes).map(|ip| ip.header_len()) else { return false };
    let Some(header) = bytes.get_mut(..len).filter(|h| h.len() >= MIN_HEADER_LEN) else { return false };
    header[10..12].fill(0);
    let sum = checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// One option of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpOption<'a> {
    /// Offset of the option's type byte from the start of the IP header.
    pub offset: usize,
    /// Type byte: copy bit, class, number.
    pub kind: u8,
    /// The whole option: type, length and data.
    pub bytes: &'a [u8],
}

/// What stands in the option area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionItem<'a> {
    /// An option other than no-operation and end-of-list.
    Option(IpOption<'a>),
    /// A length that is impossible; the offset, from the start of the IP header, of the length byte (where the
    /// pointer of an ICMP parameter problem points to).
    Malformed(usize),
}

/// Walks the options of a header. Stops after a malformed one.
pub fn options<'a>(ip: &Ipv4<'a>) -> impl Iterator<Item = OptionItem<'a>> {
    let area = ip.options();
    let mut at = 0;
    std::iter::from_fn(move || {
        while area.get(at) == Some(&1) {
            at += 1;
        }
        let kind = *area.get(at)?;
        if kind == 0 {
            at = area.len();
            return None;
        }
        let offset = MIN_HEADER_LEN + at;
        let len = area.get(at + 1).map_or(0, |&l| usize::from(l));
        let Some(bytes) = area.get(at..at + len).filter(|b| b.len() >= 2) else {
            at = area.len();
            return Some(OptionItem::Malformed(offset + 1));
        };
        at += len;
        Some(OptionItem::Option(IpOption { offset, kind, bytes }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> [u8; 20] {
        let mut h = *b"\x45\x00\x00\x54\x12\x34\x40\x00\x40\x01\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02";
        assert!(set_checksum(&mut h));
        h
    }

    #[test]
    fn fields() {
        let h = header();
        let ip = Ipv4::new(&h).unwrap();
        assert_eq!((ip.version(), ip.header_len(), ip.total_len()), (4, 20, 84));
        assert_eq!((ip.ttl(), ip.protocol(), ip.dont_fragment(), ip.is_fragment()), (64, ICMP, true, false));
        assert_eq!((ip.source(), ip.destination()), (0x0a00_0001, 0x0a00_0002));
        assert!(ip.checksum_is_valid());
        assert!(Ipv4::check(&h).is_none(), "the total length is more than the bytes");
    }

    #[test]
    fn decrementing_gives_the_checksum_that_recomputing_gives() {
        for (ttl, id) in (0..=255).flat_map(|ttl| (0..=u16::MAX).step_by(255).map(move |id| (ttl, id))) {
            let mut h = header();
            h[8] = ttl;
            h[4..6].copy_from_slice(&id.to_be_bytes());
            set_checksum(&mut h);
            let before = h;
            if !decrement_ttl(&mut h) {
                assert!(ttl <= 1 && h == before);
                continue;
            }
            assert_eq!(h[8], ttl - 1);
            let mut recomputed = h;
            set_checksum(&mut recomputed);
            assert_eq!(h, recomputed);
            assert!(Ipv4::new(&h).unwrap().checksum_is_valid(), "ttl {ttl}");
        }
    }

    #[test]
    fn options_are_walked_and_malformed_ones_located() {
        let mut h = vec![0x48, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        h.extend([1, 7, 7, 4, 9, 9, 9, 9, 148, 20, 0, 0]);
        let ip = Ipv4::check(&h).unwrap();
        let items: Vec<_> = options(&ip).collect();
        assert_eq!(
            items,
            [
                OptionItem::Option(IpOption { offset: 21, kind: 7, bytes: &[7, 7, 4, 9, 9, 9, 9] }),
                OptionItem::Malformed(29)
            ]
        );
    }
}
