//! Cutting an IPv4 packet into fragments (RFC 791 §3.2).

use super::options;
use packet::wire::ipv4::{self, DONT_FRAGMENT, Ipv4, MIN_HEADER_LEN, MORE_FRAGMENTS, OFFSET_MASK};
use std::ops::Range;

/// A header of at most 60 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    bytes: [u8; 60],
    len: usize,
}

impl Header {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// How a packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    first: Header,
    /// The header of all fragments but the first, which lacks options that are not copied.
    later: Header,
    /// Fragment offset of the packet itself, in units of eight bytes.
    base: u16,
    /// The packet's flags other than DF.
    flags: u16,
    /// Length of the payload.
    payload: usize,
    /// Room for payload in the first fragment, and in each later one. Only the last one of all may have a part of eight bytes.
    rooms: [usize; 2],
}

impl Cut {
    /// How to cut `packet` (from its IP header on) into pieces of at most `mtu` bytes. `None` if it has no sound header
    /// or the MTU leaves no room for eight bytes of payload.
    pub fn new(packet: &[u8], mtu: usize) -> Option<Cut> {
        let ip = Ipv4::check(packet)?;
        let first = header(packet.get(..ip.header_len())?)?;
        let (kept, kept_len) = options::copied(ip.options());
        let mut later = [0; 60];
        later[..MIN_HEADER_LEN].copy_from_slice(packet.get(..MIN_HEADER_LEN)?);
        later[MIN_HEADER_LEN..].copy_from_slice(&kept);
        let later_len = MIN_HEADER_LEN + kept_len;
        later[0] = 0x40 | (later_len / 4) as u8;
        let rooms = [first.len, later_len].map(|len| mtu.saturating_sub(len));
        if rooms.iter().any(|room| *room < 8) {
            return None;
        }
        Some(Cut {
            first,
            later: Header { bytes: later, len: later_len },
            base: ip.fragment_word() & OFFSET_MASK,
            flags: ip.fragment_word() & !OFFSET_MASK & !DONT_FRAGMENT,
            payload: ip.payload().len(),
            rooms,
        })
    }

    /// Header and payload range of each fragment.
    pub fn pieces(self) -> impl Iterator<Item = (Header, Range<usize>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= self.payload {
                return None;
            }
            let (mut header, room) =
                if at == 0 { (self.first, self.rooms[0]) } else { (self.later, self.rooms[1]) };
            let left = self.payload - at;
            let range = at..at + if left <= room { left } else { room & !7 };
            let more = if range.end < self.payload { MORE_FRAGMENTS } else { 0 };
            // All lengths and offsets come from a packet of at most 65,535 bytes.
            let offset = (self.base + (at / 8) as u16) & OFFSET_MASK;
            let total = (header.len + range.len()) as u16;
            header.bytes[2..4].copy_from_slice(&total.to_be_bytes());
            header.bytes[6..8].copy_from_slice(&(self.flags | more | offset).to_be_bytes());
            ipv4::set_checksum(&mut header.bytes[..header.len]);
            at = range.end;
            Some((header, range))
        })
    }
}

fn header(bytes: &[u8]) -> Option<Header> {
    let mut header = Header { bytes: [0; 60], len: bytes.len() };
    header.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(options: &[u8], payload: usize, fragment_word: u16) -> Vec<u8> {
        let total = 20 + options.len() + payload;
        let mut p = vec![
            0x45 + (options.len() / 4) as u8,
            0,
            0,
            0,
            0xab,
            0xcd,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            1,
            11,
            0,
            0,
            2,
        ];
        p[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        p[6..8].copy_from_slice(&fragment_word.to_be_bytes());
        p.extend(options);
        p.extend((0..payload).map(|i| (i * 7) as u8));
        ipv4::set_checksum(&mut p);
        p
    }

    fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let payload = Ipv4::check(packet).unwrap().payload();
        let piece = |(header, range): (Header, Range<usize>)| [header.bytes(), &payload[range]].concat();
        Cut::new(packet, mtu).unwrap().pieces().map(piece).collect()
    }

    /// Length, fragment word and header length of each piece.
    fn shape(pieces: &[Vec<u8>]) -> Vec<(usize, u16, usize)> {
        let of = |p: &Vec<u8>| {
            let ip = Ipv4::check(p).unwrap();
            assert!(ip.checksum_is_valid());
            assert_eq!(usize::from(ip.total_len()), p.len());
            (p.len(), ip.fragment_word(), ip.header_len())
        };
        pieces.iter().map(of).collect()
    }

    #[test]
    fn offsets_flags_and_checksums() {
        let pieces = cut(&packet(&[], 100, 0), 68);
        assert_eq!(shape(&pieces), [(68, 0x2000, 20), (68, 0x2006, 20), (24, 0x000c, 20)]);
        let want = b"\x45\x00\x00\x44\xab\xcd\x20\x06\x40\x11\x99\xd3\x0a\x00\x00\x01\x0b\x00\x00\x02";
        assert_eq!(pieces[1][..20], want[..]);
    }

    #[test]
    fn a_rest_that_fits_is_not_cut_again() {
        // RFC 791 §3.2; what Linux sends over a link with MTU 576.
        let lengths = |payload| -> Vec<usize> {
            cut(&packet(&[], payload, 0), 576).iter().map(|piece| piece.len() - 20).collect()
        };
        assert_eq!(lengths(1105), [552, 553]);
        assert_eq!(lengths(1108), [552, 556]);
        assert_eq!(lengths(1109), [552, 552, 5]);
        assert_eq!(lengths(556), [556]);
    }

    #[test]
    fn fragments_of_fragments_keep_their_place() {
        assert_eq!(shape(&cut(&packet(&[], 48, 0x2010), 44)), [(44, 0x2010, 20), (44, 0x2013, 20)]);
        assert_eq!(shape(&cut(&packet(&[], 30, 0x0010), 44)), [(44, 0x2010, 20), (26, 0x0013, 20)]);
        assert_eq!(
            shape(&cut(&packet(&[], 30, 0x4000), 44)),
            [(44, 0x2000, 20), (26, 0x0003, 20)],
            "DF goes"
        );
    }

    #[test]
    fn later_fragments_have_only_copied_options() {
        let options = [7, 7, 4, 0, 0, 0, 0, 131, 7, 4, 1, 2, 3, 4, 0, 0];
        let pieces = cut(&packet(&options, 80, 0), 68);
        assert_eq!(shape(&pieces), [(68, 0x2000, 36), (68, 0x2004, 28), (36, 0x0009, 28)]);
        assert_eq!((&pieces[0][20..36], &pieces[1][20..28]), (&options[..], &[131, 7, 4, 1, 2, 3, 4, 0][..]));
        let malformed = [148, 4, 0, 0, 131, 0, 0, 0];
        assert_eq!(cut(&packet(&malformed, 80, 0), 68)[1][20..24], [148, 4, 0, 0]);
    }

    #[test]
    fn what_cannot_be_cut() {
        assert_eq!(Cut::new(&packet(&[], 100, 0), 27), None);
        assert!(Cut::new(&packet(&[], 100, 0), 28).is_some());
        assert_eq!(Cut::new(&packet(&[1; 40], 100, 0), 67), None);
        assert_eq!(Cut::new(&packet(&[], 100, 0)[..50], 68), None);
    }

    proptest! {
        #[test]
        fn the_payload_comes_together_again(
            options in prop::collection::vec(any::<u8>(), 0..11),
            payload in 1usize..3000, word in 0u16..0x1e00, mtu in 68usize..1600,
        ) {
            let options: Vec<u8> = options.into_iter().flat_map(|b| [b, 4, 0, 0]).take(40).collect();
            let whole = packet(&options, payload, word);
            let mut end = 0;
            let pieces = cut(&whole, mtu);
            for (i, piece) in pieces.iter().enumerate() {
                let ip = Ipv4::check(piece).unwrap();
                prop_assert!(piece.len() <= mtu && ip.checksum_is_valid());
                prop_assert_eq!(usize::from(ip.fragment_word() & OFFSET_MASK), usize::from(word) + end / 8);
                prop_assert_eq!(ip.fragment_word() & MORE_FRAGMENTS != 0, i + 1 < pieces.len());
                // As long as can be.
                let room = mtu - ip.header_len() - ip.payload().len();
                prop_assert!(i + 1 == pieces.len() || room < 8);
                let at = whole.len() - payload + end;
                prop_assert_eq!(ip.payload(), &whole[at..at + ip.payload().len()]);
                end += ip.payload().len();
            }
            prop_assert_eq!(end, payload);
        }
    }
}
