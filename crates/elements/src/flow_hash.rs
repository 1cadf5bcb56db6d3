//! Numbers that tell flows apart: for the choice of a worker, and of a member of a group of next hops.

use packet::wire::{ethernet, ipv4, ipv6};

const UDP_LITE: u8 = 136;
const SCTP: u8 = 132;
/// Tags that are looked through, with 802.1Q: 802.1ad.
const SERVICE_VLAN: u16 = 0x88a8;
/// How many of them.
const TAGS: usize = 2;

/// A number that is the same for all packets of a flow and spreads flows evenly; never 0.
///
/// A flow is told by addresses, protocol and ports (TCP, UDP, SCTP); by addresses and protocol for other protocols and for
/// fragments, which must stay together; by MAC addresses if it is not IP. Any bytes will do.
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

/// [`flow_hash`], at once for what is most frequent: TCP and UDP in IPv4 without options, not tagged.
#[inline]
pub(crate) fn usual_flow_hash(frame: &[u8]) -> u32 {
    const LEN: usize = 14 + ipv4::MIN_HEADER_LEN + 4;
    let Some(head) = frame.first_chunk::<LEN>() else { return flow_hash(frame) };
    let [.., a, b, c, d, e, f, g, h, i, j, k, l] = *head;
    let is_usual = head[12..15] == [8, 0, 0x45]
        && head[20] & 0x3f == 0
        && head[21] == 0
        && matches!(head[23], ipv4::TCP | ipv4::UDP);
    let total = usize::from(u16::from_be_bytes([head[16], head[17]]));
    if !is_usual || total < LEN - 14 || total > frame.len() - 14 {
        return flow_hash(frame);
    }
    let addresses = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let ports = u32::from_be_bytes([i, j, k, l]);
    Mixer::new().add(addresses).add(u64::from(head[23])).add(ports.into()).finish()
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The hash of the flow of an IPv4 packet; `None` if its header is not whole.
pub(crate) fn ipv4_hash(packet: &[u8]) -> Option<u32> {
    let ip = ipv4::Ipv4::new(packet)?;
    let addresses = u64::from(ip.source()) << 32 | u64::from(ip.destination());
    let mixer = Mixer::new().add(addresses).add(u64::from(ip.protocol()));
    let whole = !ip.is_fragment();
    Some(mixer.ports(packet, ip.header_len(), whole && has_ports(ip.protocol())).finish())
}

/// The hash of the flow of an IPv6 packet; `None` if its header is not whole.
pub(crate) fn ipv6_hash(packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let next = header[6];
    let mixer = Mixer::new().bytes(&header[8..]).add(u64::from(next));
    Some(mixer.ports(packet, ipv6::HEADER_LEN, has_ports(next)).finish())
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | UDP_LITE | SCTP)
}

/// Multiply and rotate: a few cycles a word, and all bits of the result depend on all bits of the words.
struct Mixer(u64);

impl Mixer {
    fn new() -> Mixer {
        Mixer(0x243f_6a88_85a3_08d3)
    }

    #[inline]
    fn add(self, word: u64) -> Mixer {
        Mixer((self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }

    fn bytes(self, bytes: &[u8]) -> Mixer {
        let (words, rest) = bytes.as_chunks::<8>();
        let mixer = words.iter().fold(self, |m, w| m.add(u64::from_be_bytes(*w)));
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        if rest.is_empty() { mixer } else { mixer.add(u64::from_be_bytes(tail)) }
    }

    /// The two port numbers at `at`, if they are wanted and there.
    #[inline]
    fn ports(self, packet: &[u8], at: usize, wanted: bool) -> Mixer {
        let ports = packet.get(at..).and_then(|b| b.first_chunk::<4>());
        match ports.filter(|_| wanted) {
            Some(ports) => self.add(u64::from(u32::from_be_bytes(*ports))),
            None => self,
        }
    }

    fn finish(self) -> u32 {
        let h = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let h = (h ^ (h >> 32)) as u32;
        h.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::random::Random;

    #[test]
    fn the_usual_flows_have_the_hash_that_they_have() {
        let mut random = Random::new(1);
        let mut usual = 0;
        for _ in 0..20_000 {
            let mut frame = vec![0; 30 + random.below(40)];
            frame.iter_mut().for_each(|byte| *byte = random.bits() as u8);
            frame[12..15].copy_from_slice(&[8, 0, 0x45 + (random.below(8) == 0) as u8]);
            frame[16] = 0;
            frame[17] = random.below(70) as u8;
            if random.below(4) > 0 {
                frame[20..22].copy_from_slice(&[0x40, 0]);
                usual += 1;
            }
            frame[23] = [6, 17, 1, 136][random.below(4)];
            assert_eq!(usual_flow_hash(&frame), flow_hash(&frame), "{frame:02x?}");
        }
        assert!(usual > 10_000);
    }
}
