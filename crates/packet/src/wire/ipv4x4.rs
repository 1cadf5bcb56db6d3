//! The IPv4 headers of four packets, looked at together.

use super::ipv4::MIN_HEADER_LEN;
use crate::lanes::U32x4;
use crate::packet::Packet;

/// Four headers, word by word; lane i is of packet i, bytes are as they came.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4x4 {
    words: [U32x4; 5],
    /// Bytes from the header to the end of the packet.
    room: U32x4,
}

impl Ipv4x4 {
    /// The headers that begin at `offset`; `None` if a packet has fewer than 20 bytes from there on.
    #[inline(always)]
    pub fn new(packets: &[Packet; 4], offset: usize) -> Option<Ipv4x4> {
        let [a, b, c, d] = packets;
        let heads = [a.head(offset)?, b.head(offset)?, c.head(offset)?, d.head(offset)?];
        // A packet has less than 2^16 bytes, and has more than the offset.
        let len = U32x4::from_array([a, b, c, d].map(|p| p.len() as u32));
        Some(Ipv4x4::of(heads, len - U32x4::splat(offset as u32)))
    }

    #[inline(always)]
    fn of(heads: [&[u8; MIN_HEADER_LEN]; 4], room: U32x4) -> Ipv4x4 {
        // A header is five words, so there are the first four.
        let [a, b, c, d] = U32x4::columns(heads.map(|head| head.first_chunk().unwrap_or(&[0; 16])));
        let last = U32x4::from_array(heads.map(|head| u32::from_le_bytes(head.as_chunks().0[4])));
        Ipv4x4 { words: [a, b, c, d, last], room }
    }

    /// Not 0 in the lanes whose header has options or is not of version 4, or whose total length is below 20 bytes or more
    /// than the packet has.
    #[inline(always)]
    pub fn unusual(&self) -> U32x4 {
        let total = self.total_len();
        let version = (self.words[0] & U32x4::splat(0xff)) ^ U32x4::splat(0x45);
        version | total.above(self.room) | U32x4::splat(MIN_HEADER_LEN as u32).above(total)
    }

    /// Not 0 in the lanes whose first 20 bytes do not sum to all ones (RFC 1071).
    #[inline(always)]
    pub fn bad_checksum(&self) -> U32x4 {
        let sum = U32x4::sum_of_halves(self.words);
        // Ten 16-bit words: folding once is enough to tell. In either byte order all ones stay what they are.
        let all_ones = U32x4::splat(0xffff);
        ((sum & all_ones) + sum.high_halves()) ^ all_ones
    }

    /// Total lengths as the headers say.
    #[inline(always)]
    pub fn total_len(&self) -> U32x4 {
        self.words[0].swap_bytes() & U32x4::splat(0xffff)
    }

    /// Bytes from the header to the end of the packet.
    #[inline(always)]
    pub fn room(&self) -> U32x4 {
        self.room
    }

    /// Source addresses, network order in memory.
    #[inline(always)]
    pub fn source(&self) -> U32x4 {
        self.words[3]
    }

    /// Destination addresses, network order in memory.
    #[inline(always)]
    pub fn destination(&self) -> U32x4 {
        self.words[4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::wire::checksum;
    use crate::wire::ipv4::{self, Ipv4};

    #[test]
    fn each_lane_is_the_header_of_its_packet() {
        let mut heads = [[0u8; MIN_HEADER_LEN]; 4];
        for (i, head) in (0u8..).zip(&mut heads) {
            *head = std::array::from_fn(|at| 0x40 + 20 * i + at as u8);
            (head[0], head[2], head[3]) = (0x45, 0, 24 + i);
            ipv4::set_checksum(head);
        }
        let pool = Pool::heap(4, 256);
        let packets = heads.map(|head| {
            let mut packet = pool.packet(b"xy").unwrap();
            assert!(packet.append(&head) && packet.append(&[0; 6]));
            packet
        });
        let four = Ipv4x4::new(&packets, 2).unwrap();
        let views = heads.each_ref().map(Ipv4::of);
        assert_eq!(four.total_len().to_array(), [24, 25, 26, 27]);
        assert_eq!(four.room().to_array(), [26; 4]);
        assert_eq!(four.source().swap_bytes().to_array(), views.map(|v| v.source()));
        assert_eq!(four.destination().swap_bytes().to_array(), views.map(|v| v.destination()));
        assert_eq!(four.unusual().to_array().map(|bad| bad != 0), [false, false, false, true]);
        assert!(four.bad_checksum().is_zero());
        assert!(Ipv4x4::new(&packets, 9).is_none());
        packets.into_iter().for_each(Packet::free);
    }

    #[test]
    fn checksums_as_one_by_one() {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for round in 0..2000 {
            let mut heads: [[u8; MIN_HEADER_LEN]; 4] =
                std::array::from_fn(|_| std::array::from_fn(|_| next()));
            match round % 4 {
                0 => heads.iter_mut().for_each(|head| head[0] = 0x45),
                1 => heads[1] = [0xff; MIN_HEADER_LEN],
                2 => heads[2] = [0; MIN_HEADER_LEN],
                _ => {}
            }
            if round % 3 == 0 {
                heads.iter_mut().for_each(|head| {
                    head[0] = 0x45;
                    ipv4::set_checksum(head);
                });
            }
            let four = Ipv4x4::of(heads.each_ref(), U32x4::splat(20));
            let good = four.bad_checksum().to_array().map(|bad| bad == 0);
            assert_eq!(good, heads.each_ref().map(|head| checksum::is_valid(head)));
        }
    }
}
