//! The IPv4 headers of some packets, looked at together.

use super::ipv4::MIN_HEADER_LEN;
use crate::lanes::Lanes;
use crate::together::Heads;

/// Some headers, word by word; lane i is of packet i, bytes are as they came.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Lanes<V> {
    words: [V; 5],
    /// Bytes from the header to the end of the packet.
    room: V,
}

impl<V> Ipv4Lanes<V> {
    /// Of these headers.
    #[inline(always)]
    pub fn of<const N: usize>(heads: Heads<'_, V, N, MIN_HEADER_LEN>) -> Ipv4Lanes<V>
    where
        V: Lanes<N>,
    {
        let Heads { bytes, room } = heads;
        // A header is five words, so there are the first four.
        let [a, b, c, d] = V::columns(bytes.map(|head| head.first_chunk().unwrap_or(&[0; 16])));
        let last = V::from_array(bytes.map(|head| u32::from_le_bytes(head.as_chunks().0[4])));
        Ipv4Lanes { words: [a, b, c, d, last], room }
    }

    /// Not 0 in the lanes whose header has options or is not of version 4, or whose total length is below 20 bytes or more
    /// than the packet has.
    #[inline(always)]
    pub fn unusual<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        let total = self.total_len();
        let version = (self.words[0] & V::splat(0xff)) ^ V::splat(0x45);
        version | total.above(self.room) | V::splat(MIN_HEADER_LEN as u32).above(total)
    }

    /// Not 0 in the lanes whose first 20 bytes do not sum to all ones (RFC 1071).
    #[inline(always)]
    pub fn bad_checksum<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        let sum = V::sum_of_halves(self.words);
        // Ten 16-bit words: folding once is enough to tell. In either byte order all ones stay what they are.
        let all_ones = V::splat(0xffff);
        ((sum & all_ones) + sum.high_halves()) ^ all_ones
    }

    /// Not 0 in the lanes that have no [plain TTL](super::ipv4::has_plain_ttl).
    #[inline(always)]
    pub fn unplain_ttls<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        let (word, carry) = (self.words[2], V::splat(0xfffe_0000));
        (word & V::splat(0xfe)).equal(V::splat(0)) | (word & carry).equal(carry)
    }

    /// Total lengths as the headers say.
    #[inline(always)]
    pub fn total_len<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        self.words[0].swap_bytes() & V::splat(0xffff)
    }
}

impl<V: Copy> Ipv4Lanes<V> {
    /// Bytes from the header to the end of the packet.
    #[inline(always)]
    pub fn room(&self) -> V {
        self.room
    }

    /// Source addresses, network order in memory.
    #[inline(always)]
    pub fn source(&self) -> V {
        self.words[3]
    }

    /// Destination addresses, network order in memory.
    #[inline(always)]
    pub fn destination(&self) -> V {
        self.words[4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{Work, four, widest};
    use crate::wire::ipv4::{self, Ipv4};
    use crate::wire::{checksum, octets};

    struct EachLane;

    impl Work for EachLane {
        type Output = ();

        #[inline(always)]
        fn run<V: Lanes<N>, const N: usize>(self) {
            let mut heads = [[0u8; MIN_HEADER_LEN]; N];
            for (i, head) in (0u8..).zip(&mut heads) {
                *head = std::array::from_fn(|at| 0x40 + 20 * (i % 4) + at as u8);
                (head[0], head[2], head[3]) = (0x45, 0, 24 + i % 4);
                ipv4::set_checksum(head);
            }
            let lanes = Ipv4Lanes::<V>::of(Heads { bytes: heads.each_ref(), room: V::splat(26) });
            let views = heads.each_ref().map(Ipv4::of);
            let total: [u32; N] = std::array::from_fn(|i| 24 + i as u32 % 4);
            assert_eq!(lanes.total_len().to_array(), total);
            assert_eq!(lanes.room().to_array(), [26; N]);
            assert_eq!(lanes.source().swap_bytes().to_array(), views.map(|v| v.source()));
            assert_eq!(lanes.destination().swap_bytes().to_array(), views.map(|v| v.destination()));
            assert_eq!(lanes.unusual().to_array().map(|bad| bad != 0), total.map(|len| len == 27));
            assert!(lanes.bad_checksum().is_zero());
            assert!(
                lanes
                    .unplain_ttls()
                    .to_array()
                    .iter()
                    .zip(&heads)
                    .all(|(bad, head)| { (*bad == 0) == ipv4::has_plain_ttl(head) })
            );
        }
    }

    #[test]
    fn each_lane_is_the_header_of_its_packet() {
        four(EachLane);
        widest(EachLane);
    }

    struct Checksums;

    impl Work for Checksums {
        type Output = ();

        #[inline(always)]
        fn run<V: Lanes<N>, const N: usize>(self) {
            let mut next = octets(7);
            for round in 0..2000 {
                let mut heads: [[u8; MIN_HEADER_LEN]; N] =
                    std::array::from_fn(|_| std::array::from_fn(|_| next()));
                match round % 4 {
                    0 => heads.iter_mut().for_each(|head| head[0] = 0x45),
                    1 => heads[N - 3] = [0xff; MIN_HEADER_LEN],
                    2 => heads[N - 2] = [0; MIN_HEADER_LEN],
                    _ => {}
                }
                if round % 3 == 0 {
                    heads.iter_mut().for_each(|head| {
                        head[0] = 0x45;
                        ipv4::set_checksum(head);
                    });
                }
                let lanes = Ipv4Lanes::<V>::of(Heads { bytes: heads.each_ref(), room: V::splat(20) });
                let good = lanes.bad_checksum().to_array().map(|bad| bad == 0);
                assert_eq!(good, heads.each_ref().map(|head| checksum::is_valid(head)));
                let plain = lanes.unplain_ttls().to_array().map(|bad| bad == 0);
                assert_eq!(plain, heads.each_ref().map(ipv4::has_plain_ttl));
            }
        }
    }

    #[test]
    fn checksums_as_one_by_one() {
        four(Checksums);
        widest(Checksums);
    }
}
