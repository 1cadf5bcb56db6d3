//! The IPv6 headers of some packets, looked at together.

use super::ipv6::{HEADER_LEN, ICMP, TCP, UDP};
use crate::lanes::Lanes;
use crate::together::Heads;

/// What is looked at of some headers; lane i is of packet i, bytes are as they came.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Lanes<V> {
    /// The first three words: version to flow label; payload length, next header, hop limit; the beginning of the source.
    words: [V; 3],
    /// The beginning of the destination.
    destination: V,
    /// Bytes from the header to the end of the packet.
    room: V,
}

impl<V> Ipv6Lanes<V> {
    /// Of these headers.
    #[inline(always)]
    pub fn of<const N: usize>(heads: Heads<'_, V, N, HEADER_LEN>) -> Ipv6Lanes<V>
    where
        V: Lanes<N>,
    {
        let Heads { bytes, room } = heads;
        let [a, b, c, _] = V::columns(bytes.map(|head| head.first_chunk().unwrap_or(&[0; 16])));
        let destination = V::from_array(bytes.map(|head| u32::from_le_bytes(head.as_chunks().0[6])));
        Ipv6Lanes { words: [a, b, c], destination, room }
    }

    /// Not 0 in the lanes whose header is not of version 6, whose payload is longer than the packet, or where something else than
    /// TCP, UDP or ICMPv6 follows.
    #[inline(always)]
    pub fn unusual<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        let version = (self.words[0] & V::splat(0xf0)) ^ V::splat(0x60);
        let next = self.words[1].high_halves() & V::splat(0xff);
        let is = |number: u8| next.equal(V::splat(number.into()));
        let other = (is(TCP) | is(UDP) | is(ICMP)) ^ V::splat(u32::MAX);
        version | self.total_len().above(self.room) | other
    }

    /// Bytes of header and payload as the headers say.
    #[inline(always)]
    pub fn total_len<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        self.words[1].swap_bytes().high_halves() + V::splat(HEADER_LEN as u32)
    }

    /// First octets of the source addresses.
    #[inline(always)]
    pub fn source_octet<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        self.words[2] & V::splat(0xff)
    }

    /// First octets of the destination addresses.
    #[inline(always)]
    pub fn destination_octet<const N: usize>(&self) -> V
    where
        V: Lanes<N>,
    {
        self.destination & V::splat(0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{Work, four, widest};
    use crate::wire::ipv6::Ipv6;
    use crate::wire::octets;

    struct EachLane;

    impl Work for EachLane {
        type Output = ();

        #[inline(always)]
        fn run<V: Lanes<N>, const N: usize>(self) {
            let mut random = octets(3);
            for round in 0..2000 {
                let mut heads: [[u8; HEADER_LEN]; N] =
                    std::array::from_fn(|_| std::array::from_fn(|_| random()));
                for (i, head) in heads.iter_mut().enumerate() {
                    head[0] = if i == 1 && round % 5 == 0 { head[0] } else { 0x60 | head[0] & 0xf };
                    (head[4], head[5]) = (0, head[5] % 16);
                    head[6] = if i == 2 && round % 3 == 0 { head[6] } else { [TCP, UDP, ICMP][i % 3] };
                }
                let lanes = Ipv6Lanes::<V>::of(Heads { bytes: heads.each_ref(), room: V::splat(50) });
                let views = heads.each_ref().map(Ipv6::of);
                let totals = views.map(|view| view.total_len() as u32);
                assert_eq!(lanes.total_len().to_array(), totals);
                let is_usual = |view: Ipv6<'_>| {
                    view.version() == 6
                        && view.total_len() <= 50
                        && [TCP, UDP, ICMP].contains(&view.next_header())
                };
                assert_eq!(lanes.unusual().to_array().map(|bad| bad == 0), views.map(is_usual));
                let octets = |at: usize| heads.map(|head| u32::from(head[at]));
                assert_eq!(lanes.source_octet().to_array(), octets(8));
                assert_eq!(lanes.destination_octet().to_array(), octets(24));
            }
        }
    }

    #[test]
    fn each_lane_is_the_header_of_its_packet() {
        four(EachLane);
        widest(EachLane);
    }
}
