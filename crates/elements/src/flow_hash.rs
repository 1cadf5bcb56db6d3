//! Numbers that tell flows apart: for the choice of a worker, and of a member of a group of next hops.

mod ip;

use ip::Mixer;
pub(crate) use ip::{ipv4_hash, ipv6_hash};
use packet::Packet;
use packet::lanes::{Lanes, Work, widest};
use packet::wire::{ethernet, ipv4};

/// Tags that are looked through, with 802.1Q: 802.1ad.
const SERVICE_VLAN: u16 = 0x88a8;
/// How many of them.
const TAGS: usize = 2;

/// A number that is the same for all packets of a flow and spreads flows evenly; never 0.
///
/// A flow is told by addresses, protocol and ports (TCP, UDP, SCTP); by addresses and protocol for other protocols and for
/// fragments, which must stay together; by MAC addresses if it is not IP. ICMP errors belong to the flow that they are about. Any
/// bytes will do.
pub(crate) fn flow_hash(frame: &[u8]) -> u32 {
    let Some(addresses) = frame.first_chunk::<12>() else { return 1 };
    let mut at = 12;
    let mut kind = word(frame, at);
    for _ in 0..TAGS {
        if matches!(kind, Some(ethernet::VLAN | SERVICE_VLAN)) {
            at += 4;
            kind = word(frame, at);
        }
    }
    let packet = frame.get(at + 2..).unwrap_or(&[]);
    let hash = match kind {
        Some(ethernet::IPV4) => ipv4_hash(packet),
        Some(ethernet::IPV6) => ipv6_hash(packet),
        _ => None,
    };
    hash.unwrap_or_else(|| Mixer::new().bytes(addresses).finish())
}

/// Of [`flowlet_hash`]: odd and without a pattern, from the fractions of pi and of the golden ratio.
const KEYS: [u32; 3] = [0x243f_6a89, 0x9e37_79b9, 0x85a3_08d3];
/// For what is last, ports, to reach all bits, too.
const LAST_KEY: u32 = 0xd6e8_fe87;
/// EtherType, version and length of the header, as they stand in a frame from byte 12 on, and which bits of a little-endian
/// word these are.
const PLAIN_IPV4: [u32; 2] = [0x0045_0008, 0x00ff_ffff];
/// More fragments, and which one this is: bits of the little-endian word from byte 20 on.
const FRAGMENT: u32 = 0x0000_ff3f;
/// Bytes that say what flow it is.
const PLAIN_LEN: usize = 14 + ipv4::MIN_HEADER_LEN + 4;

/// A number that is the same for all packets of a flow, to find a flow in a small table: four multiplications for what is
/// most frequent, TCP and UDP in IPv4 without options, not tagged. For all else [`flow_hash`].
#[inline(always)]
pub(crate) fn flowlet_hash(frame: &[u8]) -> u32 {
    let Some(head) = frame.first_chunk::<PLAIN_LEN>() else { return flow_hash(frame) };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let is_plain = word(12) & PLAIN_IPV4[1] == PLAIN_IPV4[0] && word(20) & FRAGMENT == 0;
    if !is_plain || !matches!(head[23], ipv4::TCP | ipv4::UDP) {
        return flow_hash(frame);
    }
    let mut hash = word(20) >> 24;
    for (word, key) in [word(26), word(30), word(34)].into_iter().zip(KEYS) {
        hash = (hash ^ word).wrapping_mul(key);
        hash ^= hash >> 16;
    }
    hash = hash.wrapping_mul(LAST_KEY);
    hash ^ hash >> 16
}

/// For each packet the hash of its flow: that of the device if there is one, else [`flowlet_hash`].
#[inline(never)]
pub(crate) fn flowlet_hashes(packets: &[Packet], hashes: &mut [u32]) {
    widest(FlowletHashes { packets, hashes });
}

struct FlowletHashes<'a> {
    packets: &'a [Packet],
    hashes: &'a mut [u32],
}

impl Work for FlowletHashes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) {
        let (groups, rest) = self.packets.as_chunks::<N>();
        let (group_hashes, rest_hashes) = self.hashes[..self.packets.len()].as_chunks_mut::<N>();
        for (packets, hashes) in groups.iter().zip(group_hashes) {
            match plain::<V, N>(packets) {
                Some(of_all) => *hashes = of_all,
                None => hash_each(packets, hashes),
            }
        }
        hash_each(rest, rest_hashes);
    }
}

#[inline(never)]
fn hash_each(packets: &[Packet], hashes: &mut [u32]) {
    for (packet, hash) in packets.iter().zip(hashes) {
        *hash = match packet.flow_hash() {
            0 => flowlet_hash(packet.data()),
            known => known,
        };
    }
}

/// [`flowlet_hash`] of all, if all are of the most frequent kind and no device knows them.
#[inline(always)]
fn plain<V: Lanes<N>, const N: usize>(packets: &[Packet; N]) -> Option<[u32; N]> {
    let known = V::from_array(packets.each_ref().map(Packet::flow_hash));
    let (heads, _) = Packet::heads::<V, N, PLAIN_LEN>(packets, 0)?;
    let rows = |at: usize| heads.map(|head| head[at..].first_chunk::<16>().unwrap_or(&[0; 16]));
    let [_, kind, _, transport] = V::columns(rows(8));
    let [_, source, destination, ports] = V::columns(rows(22));
    let protocol = transport & V::splat(0xff << 24);
    let [tcp, udp] = [ipv4::TCP, ipv4::UDP].map(|number| V::splat(u32::from(number) << 24));
    let is_other = (protocol.equal(tcp) | protocol.equal(udp)) ^ V::splat(u32::MAX);
    let not_plain = (kind & V::splat(PLAIN_IPV4[1])) ^ V::splat(PLAIN_IPV4[0]);
    if !(known | is_other | not_plain | (transport & V::splat(FRAGMENT))).is_zero() {
        return None;
    }
    let mut hash = protocol.swap_bytes();
    for (word, key) in [source, destination, ports].into_iter().zip(KEYS) {
        hash = (hash ^ word) * V::splat(key);
        hash = hash ^ hash.high_halves();
    }
    hash = hash * V::splat(LAST_KEY);
    Some((hash ^ hash.high_halves()).to_array())
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::random::Random;

    #[test]
    fn flows_of_flowlets_are_flows() {
        let mut random = Random::new(1);
        let mut usual = 0;
        for _ in 0..20_000 {
            let mut frame = vec![0; 30 + random.below(40)];
            frame.iter_mut().for_each(|byte| *byte = random.bits() as u8);
            frame[12..15].copy_from_slice(&[8, 0, 0x45 + (random.below(8) == 0) as u8]);
            if random.below(4) > 0 {
                frame[20..22].copy_from_slice(&[0x40, 0]);
            }
            frame[23] = [6, 17, 1, 136][random.below(4)];
            let hash = flowlet_hash(&frame);
            if frame.len() < 38
                || frame[14] != 0x45
                || frame[20] & 0x3f != 0
                || frame[21] != 0
                || frame[23] > 17
                || frame[23] == 1
            {
                assert_eq!(hash, flow_hash(&frame), "{frame:02x?}");
                continue;
            }
            usual += 1;
            // What does not tell the flow: lengths, marks, TTL, checksum, what follows the ports.
            let mut other = frame.clone();
            for at in [0, 11, 15, 16, 17, 18, 19, 22, 24, 25] {
                other[at] ^= random.bits() as u8;
            }
            other.push(1);
            assert_eq!(flowlet_hash(&other), hash, "{frame:02x?}");
            let at = [23, 26, 29, 30, 33, 34, 35, 36, 37][random.below(9)];
            other[at] ^= if at == 23 { 6 ^ 17 } else { 1 << random.below(8) };
            assert_ne!(flowlet_hash(&other), hash, "{frame:02x?} {at}");
        }
        assert!(usual > 4_000, "{usual}");
    }

    #[test]
    fn flows_of_flowlets_spread_over_a_table() {
        // As in a subnet: addresses and ports that differ in few bits.
        let mut seen = vec![0_u32; 1 << 14];
        for flow in 0..1_u32 << 16 {
            let mut frame = vec![0; 60];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[23] = ipv4::UDP;
            frame[26..30].copy_from_slice(&(0x0a00_0000 | flow & 0xFF).to_be_bytes());
            frame[30..34].copy_from_slice(&(0x0a01_0000 | flow >> 8 & 0xF).to_be_bytes());
            frame[34..36].copy_from_slice(&(1024 + (flow >> 12) as u16).to_be_bytes());
            seen[flowlet_hash(&frame) as usize % (1 << 14)] += 1;
        }
        // Four in each on average; e^-4 of them have none if chance puts them there.
        let (none, most) = (seen.iter().filter(|&&n| n == 0).count(), seen.iter().max());
        assert!((200..400).contains(&none) && most < Some(&20), "{none} {most:?}");
    }
    #[test]
    fn batches_have_the_hashes_of_their_packets() {
        let (mut random, pool) = (Random::new(2), packet::Pool::heap(64, 256));
        for round in 0..200 {
            let packets: Vec<Packet> = (0..1 + random.below(40))
                .map(|_| {
                    let mut frame = vec![0; 60];
                    frame.iter_mut().for_each(|byte| *byte = random.bits() as u8);
                    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                    frame[20..22].copy_from_slice(&[0x40, 0]);
                    frame[23] = [ipv4::TCP, ipv4::UDP][random.below(2)];
                    // Every other batch has packets that are not as most are.
                    if round % 2 == 1 && random.below(8) == 0 {
                        frame[[12, 14, 21, 23][random.below(4)]] ^= 1;
                        frame.truncate(30 + random.below(31));
                    }
                    let mut packet = pool.packet(&frame).unwrap_or_else(|| unreachable!());
                    if round % 4 == 3 && random.below(8) == 0 {
                        packet.set_flow_hash(7);
                    }
                    packet
                })
                .collect();
            let mut hashes = vec![0; packets.len()];
            flowlet_hashes(&packets, &mut hashes);
            for (packet, hash) in packets.into_iter().zip(hashes) {
                let expected = if packet.flow_hash() == 7 { 7 } else { flowlet_hash(packet.data()) };
                assert_eq!(hash, expected, "{:02x?}", packet.data());
                packet.free();
            }
        }
    }
}
