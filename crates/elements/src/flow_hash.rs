//! Numbers that tell flows apart: for the choice of a worker, and of a member of a group of next hops.

use packet::wire::{ethernet, ipv4, ipv6};

const UDP_LITE: u8 = 136;
const SCTP: u8 = 132;
/// Tags that are looked through: 802.1ad and 802.1Q.
const TAGS: [u16; 2] = [ethernet::VLAN, 0x88a8];

/// A number that is the same for all packets of a flow and spreads flows evenly; never 0.
///
/// A flow is told by addresses, protocol and ports (TCP, UDP, SCTP); by addresses and protocol for other protocols and for
/// fragments, which must stay together; by MAC addresses if it is not IP. Any bytes will do.
pub(crate) fn flow_hash(frame: &[u8]) -> u32 {
    let Some(addresses) = frame.first_chunk::<12>() else { return 1 };
    let mut at = 12;
    let mut kind = word(frame, at);
    for _ in 0..TAGS.len() {
        if kind.is_some_and(|k| TAGS.contains(&k)) {
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
