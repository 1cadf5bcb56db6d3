//! Packets of one kind, several looked at together: headers as columns of words, compared with what is known of the kind.

use super::outlet::{OVERHEAD, length};
use super::switch::Network;
use cluster::header::{Glance, Header, LEN, SEQUENCES};
use packet::Packet;
use packet::lanes::{Lanes, Work, four};
use packet::wire::ethernet::HEADER_LEN;

/// Bytes of a frame that are read at a time: an Ethernet header and two more.
const ROW: usize = 16;

/// How many packets got ready to be sent on, and the bytes that they take on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    pub packets: usize,
    pub bytes: u32,
}

/// What headers of a kind have in common.
#[derive(Debug, Clone, Copy)]
pub struct Alike {
    /// One of them.
    pub glance: Glance,
    /// The line by which they leave, if they leave the cluster here.
    pub line: u16,
    /// The number of the next, if they are numbered.
    pub next: u32,
    /// How many from there on may pass.
    pub room: usize,
}

/// Gets packets of a kind ready to be sent on, up to the first that is another or a marker.
#[inline(never)]
pub fn pass_on(packets: &mut [Packet], like: &Alike) -> Passed {
    let mut passed = four(PassOn { packets, like });
    for packet in &mut packets[passed.packets..] {
        let length = length(packet);
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { break };
        let Some(header) = head.first_chunk_mut() else { break };
        let glance = Glance::new(header);
        // Markers are not traffic.
        if !glance.is_like(&like.glance) || glance.adjacency() == 0 {
            break;
        }
        Header::relay(header);
        passed.bytes += length;
        passed.packets += 1;
    }
    passed
}

struct PassOn<'a> {
    packets: &'a mut [Packet],
    like: &'a Alike,
}

impl Work for PassOn<'_> {
    type Output = Passed;

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) -> Passed {
        let [a, b, c] = self.like.glance.words().map(V::splat);
        let [mask_a, mask_b, mask_c] = Glance::ALIKE.map(V::splat);
        let [adjacency_a, adjacency_b, _] = Glance::ADJACENCY.map(V::splat);
        let (mut packets, mut bytes) = (0, V::splat(0));
        for group in self.packets.as_chunks_mut::<N>().0 {
            let Some((heads, lengths)) = Packet::heads_mut::<V, N, ROW>(group) else { break };
            let [x, y, z, _] = V::columns(heads.each_ref().map(|head| &**head));
            let differs = ((x ^ a) & mask_a) | ((y ^ b) & mask_b) | ((z ^ c) & mask_c);
            let is_marker = ((x & adjacency_a) | (y & adjacency_b)).equal(V::splat(0));
            if !(differs | is_marker).is_zero() {
                break;
            }
            for head in heads {
                head.first_chunk_mut().into_iter().for_each(Header::relay);
            }
            bytes = bytes + lengths;
            packets += N;
        }
        Passed { packets, bytes: on_the_wire(packets, bytes) }
    }
}

/// Gets packets of a kind ready for their line, up to the first that is another, or not the next.
#[inline(never)]
pub fn pass_out<const STRICT: bool>(packets: &mut [Packet], like: &Alike, network: &Network<'_>) -> Passed {
    // Numbers do not come round among packets that are looked at together.
    let before_first = (SEQUENCES - like.next) as usize;
    let most = if STRICT { like.room.min(packets.len()).min(before_first) } else { packets.len() };
    let packets = &mut packets[..most];
    let mut passed = four(PassOut::<STRICT> { packets, like, network });
    for packet in &mut packets[passed.packets..] {
        let length = length(packet);
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { break };
        let Some(glance) = head.first_chunk().map(Glance::new) else { break };
        let next = like.next + passed.packets as u32;
        if !glance.is_like(&like.glance) || (STRICT && glance.sequence() != next) {
            break;
        }
        let adjacency = network.get(head, glance.adjacency());
        let Some(adjacency) = adjacency.filter(|adjacency| adjacency.output == like.line) else { break };
        head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
        passed.bytes += length;
        passed.packets += 1;
    }
    passed
}

struct PassOut<'a, const STRICT: bool> {
    packets: &'a mut [Packet],
    like: &'a Alike,
    network: &'a Network<'a>,
}

impl<const STRICT: bool> Work for PassOut<'_, STRICT> {
    type Output = Passed;

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) -> Passed {
        let PassOut { packets: all, like, network } = self;
        let [a, b, c] = like.glance.words().map(V::splat);
        let [mask_a, mask_b, mask_c] = Glance::ALIKE.map(V::splat);
        let [adjacency_a, adjacency_b, _] = Glance::ADJACENCY.map(V::splat);
        let (protocol, mask_d) = (V::splat(network.ethertype_word()), V::splat(0xffff));
        // The last word of each, in the order in which its bits count.
        let first = like.glance.numbered(like.next);
        let mut last = V::from_array(std::array::from_fn(|i| first + i as u32));
        let (mut packets, mut bytes, mut partly) = (0, V::splat(0), 0);
        'all: for group in all.as_chunks_mut::<N>().0 {
            let Some((heads, lengths)) = Packet::heads_mut::<V, N, ROW>(group) else { break };
            let [x, y, z, d] = V::columns(heads.each_ref().map(|head| &**head));
            let numbers = if STRICT { z.swap_bytes() ^ last } else { (z ^ c) & mask_c };
            let differs = ((x ^ a) & mask_a) | ((y ^ b) & mask_b) | ((d ^ protocol) & mask_d) | numbers;
            if !differs.is_zero() {
                break;
            }
            // The upper four bits stand in the last octet of the first word, the others in the first two of the second.
            let numbers = ((x & adjacency_a) | (y & adjacency_b)).swap_bytes().swap_halves().to_array();
            for (i, (head, number)) in heads.into_iter().zip(numbers).enumerate() {
                let adjacency = network.list_at(number);
                let Some(adjacency) = adjacency.filter(|adjacency| adjacency.output == like.line) else {
                    partly = i;
                    break 'all;
                };
                head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
            }
            bytes = bytes + lengths;
            last = last + V::splat(N as u32);
            packets += N;
        }
        let passed = Passed { packets, bytes: on_the_wire(packets, bytes) };
        let rest = all.iter().skip(packets).take(partly);
        rest.fold(passed, |p, packet| Passed { packets: p.packets + 1, bytes: p.bytes + length(packet) })
    }
}

/// Bytes that so many packets take on the wire, of which lanes have counted the bytes.
#[inline(always)]
fn on_the_wire<V: Lanes<N>, const N: usize>(packets: usize, bytes: V) -> u32 {
    // A batch has fewer than 2^16 packets.
    bytes.to_array().iter().sum::<u32>() + packets as u32 * OVERHEAD
}
