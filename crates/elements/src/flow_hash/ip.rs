//! Flows of IP packets. An ICMP error belongs to the flow that it is about, so that it reaches the server, or takes the path, of
//! that flow (RFC 7690 §3): the header that it quotes counts, with source and destination exchanged.

use packet::wire::{ipv4, ipv6};

const UDP_LITE: u8 = 136;
const SCTP: u8 = 132;
/// Bytes of an ICMP error, of either version, before the packet that it quotes.
const BEFORE_QUOTE: usize = 8;
/// ICMP messages that quote a packet: destination unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// ICMPv6 messages from this type on are no errors (RFC 4443 §2.1).
const LEAST_INFORMATION: u8 = 128;

/// The hash of the flow of an IPv4 packet; `None` if its header is not whole.
pub(crate) fn ipv4_hash(packet: &[u8]) -> Option<u32> {
    let ip = ipv4::Ipv4::new(packet)?;
    let (protocol, whole) = (ip.protocol(), !ip.is_fragment());
    if has_ports(protocol) {
        let ports = ports(packet, ip.header_len(), whole);
        return Some(ipv4_flow(ip.source(), ip.destination(), protocol, ports));
    }
    let quoted = || quoted_ipv4(packet.get(ip.header_len()..)?);
    let quoted = if protocol == ipv4::ICMP && whole { quoted() } else { None };
    quoted.or_else(|| Some(ipv4_flow(ip.source(), ip.destination(), protocol, None)))
}

/// The hash of the flow that an ICMP error is about; `None` if it is no error, or does not quote a whole header.
fn quoted_ipv4(message: &[u8]) -> Option<u32> {
    let quote = message.get(BEFORE_QUOTE..).filter(|_| ERRORS.contains(&message[0]))?;
    let ip = ipv4::Ipv4::new(quote).filter(|ip| ip.version() == 4)?;
    // A first fragment has ports: those of packets the other way, which need not be in fragments.
    let has_ports = ip.is_first_fragment() && has_ports(ip.protocol());
    let ports = ports(quote, ip.header_len(), has_ports).map(exchanged);
    Some(ipv4_flow(ip.destination(), ip.source(), ip.protocol(), ports))
}

fn ipv4_flow(source: u32, destination: u32, protocol: u8, ports: Option<u32>) -> u32 {
    let addresses = u64::from(source) << 32 | u64::from(destination);
    Mixer::new().add(addresses).add(u64::from(protocol)).ports(ports).finish()
}

/// The hash of the flow of an IPv6 packet; `None` if its header is not whole.
pub(crate) fn ipv6_hash(packet: &[u8]) -> Option<u32> {
    let ip = ipv6::Ipv6::new(packet)?;
    let (protocol, at) = upper_layer(&ip, false);
    let message = at.filter(|_| protocol == ipv6::ICMP).and_then(|at| packet.get(at..));
    let quoted = message.and_then(quoted_ipv6);
    quoted.or_else(|| {
        let ports = at.and_then(|at| ports(packet, at, has_ports(protocol)));
        Some(ipv6_flow(ip.source(), ip.destination(), protocol, ports))
    })
}

fn quoted_ipv6(message: &[u8]) -> Option<u32> {
    let quote = message.get(BEFORE_QUOTE..).filter(|_| message[0] < LEAST_INFORMATION)?;
    let ip = ipv6::Ipv6::new(quote).filter(|ip| ip.version() == 6)?;
    let (protocol, at) = upper_layer(&ip, true);
    let ports = at.and_then(|at| ports(quote, at, has_ports(protocol))).map(exchanged);
    Some(ipv6_flow(ip.destination(), ip.source(), protocol, ports))
}

/// What follows the extension headers, and where. Fragments are told by the number of their header, for only the first of them
/// shows what it holds; that counts where there are no others, in a quote. So does the first number where the chain is broken.
fn upper_layer(ip: &ipv6::Ipv6<'_>, is_quote: bool) -> (u8, Option<usize>) {
    let next = ip.next_header();
    if !ipv6::is_extension(next) {
        return (next, Some(ipv6::HEADER_LEN));
    }
    let is_fragment = |header: ipv6::Extension<'_>| {
        let word =
            header.bytes.get(2..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u16::from_be_bytes(*b));
        header.kind == ipv6::FRAGMENT && (word & 0xfff8 != 0 || word & 1 != 0 && !is_quote)
    };
    if ip.extensions().any(is_fragment) {
        return (ipv6::FRAGMENT, None);
    }
    ip.upper_layer().map_or((next, None), |upper| (upper.protocol, Some(upper.offset)))
}

fn ipv6_flow(source: u128, destination: u128, protocol: u8, ports: Option<u32>) -> u32 {
    let mixer = Mixer::new().bytes(&source.to_be_bytes()).bytes(&destination.to_be_bytes());
    mixer.add(u64::from(protocol)).ports(ports).finish()
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | UDP_LITE | SCTP)
}

/// The two port numbers at `at`, if they are wanted and there.
#[inline]
fn ports(packet: &[u8], at: usize, wanted: bool) -> Option<u32> {
    let ports = packet.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
    ports.filter(|_| wanted).map(|ports| u32::from_be_bytes(*ports))
}

/// Those of packets the other way.
fn exchanged(ports: u32) -> u32 {
    ports.rotate_left(16)
}

/// Multiply and rotate: a few cycles a word, and all bits of the result depend on all bits of the words.
pub(super) struct Mixer(u64);

impl Mixer {
    pub(super) fn new() -> Mixer {
        Mixer(0x243f_6a88_85a3_08d3)
    }

    #[inline]
    fn add(self, word: u64) -> Mixer {
        Mixer((self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Mixer {
        let (words, rest) = bytes.as_chunks::<8>();
        let mixer = words.iter().fold(self, |m, w| m.add(u64::from_be_bytes(*w)));
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        if rest.is_empty() { mixer } else { mixer.add(u64::from_be_bytes(tail)) }
    }

    #[inline]
    fn ports(self, ports: Option<u32>) -> Mixer {
        match ports {
            Some(ports) => self.add(u64::from(ports)),
            None => self,
        }
    }

    pub(super) fn finish(self) -> u32 {
        let h = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let h = (h ^ (h >> 32)) as u32;
        h.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet between the hosts of these numbers.
    fn ip4(from: u8, to: u8, protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
        let [a, b] = fragment.to_be_bytes();
        let head = [0x45, 0, 0, 0, 0, 1, a, b, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
        [&head[..], body].concat()
    }

    /// An IPv6 packet, whose length says what there is unless it is part of a quote.
    fn ip6(from: u8, to: u8, next: u8, body: &[u8]) -> Vec<u8> {
        let address = |host: u8| u128::from(host) | 0x2001_0db8 << 96;
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: body.len() as u16,
            next_header: next,
            hop_limit: 64,
            source: address(from),
            destination: address(to),
        };
        [&header.bytes()[..], body].concat()
    }

    fn error(kind: u8, quote: &[u8]) -> Vec<u8> {
        [&[kind, 0, 0, 0, 0, 0, 0, 0][..], quote].concat()
    }

    const THERE: [u8; 4] = [0x13, 0x88, 0x01, 0xbb];
    const BACK: [u8; 4] = [0x01, 0xbb, 0x13, 0x88];

    #[test]
    fn ipv4_errors_belong_to_the_flow_that_they_are_about() {
        let about = |kind: u8, quote: &[u8]| ipv4_hash(&ip4(9, 2, ipv4::ICMP, 0, &error(kind, quote)));
        for protocol in [ipv4::TCP, ipv4::UDP, UDP_LITE, SCTP] {
            let flow = ipv4_hash(&ip4(1, 2, protocol, 0, &THERE));
            for kind in ERRORS {
                assert_eq!(about(kind, &ip4(2, 1, protocol, 0, &BACK)), flow, "{protocol} {kind}");
            }
            // Of a datagram in fragments the first has the ports; of one with options they are behind these.
            assert_eq!(about(11, &ip4(2, 1, protocol, 0x2000, &BACK)), flow);
            let mut options = ip4(2, 1, protocol, 0, &[&[1, 1, 1, 0][..], &BACK].concat());
            options[0] = 0x46;
            assert_eq!(about(3, &options), flow);
            // A later fragment, or a quote without ports, is of the fragments the other way.
            let without = ipv4_hash(&ip4(1, 2, protocol, 0x2000, &THERE));
            assert_ne!(without, flow);
            assert_eq!(about(11, &ip4(2, 1, protocol, 0x00b9, &BACK)), without);
            assert_eq!(about(3, &ip4(2, 1, protocol, 0, &BACK[..3])), without);
        }
        let echoes = ipv4_hash(&ip4(1, 2, ipv4::ICMP, 0, &[8, 0, 0, 0, 0, 1, 0, 1]));
        assert_eq!(about(3, &ip4(2, 1, ipv4::ICMP, 0, &[0; 8])), echoes);
        // No errors, no whole header, not IPv4, and in fragments: all flows of ICMP between the two.
        let messages = ipv4_hash(&ip4(9, 2, ipv4::ICMP, 0, &[]));
        let quote = ip4(2, 1, ipv4::TCP, 0, &BACK);
        for kind in [0, 8, 9, 13, 40] {
            assert_eq!(about(kind, &quote), messages);
        }
        assert_eq!(about(3, &quote[..19]), messages);
        assert_eq!(about(3, &[&[0x65], &quote[1..]].concat()), messages);
        assert_eq!(ipv4_hash(&ip4(9, 2, ipv4::ICMP, 0x2000, &error(3, &quote))), messages);
    }

    #[test]
    fn ipv6_errors_belong_to_the_flow_that_they_are_about() {
        let about = |kind: u8, quote: &[u8]| ipv6_hash(&ip6(9, 2, ipv6::ICMP, &error(kind, quote)));
        let flow = ipv6_hash(&ip6(1, 2, ipv6::TCP, &THERE));
        let quote = ip6(2, 1, ipv6::TCP, &BACK);
        for kind in [1, 2, 3, 4, 127] {
            assert_eq!(about(kind, &quote), flow, "{kind}");
        }
        let options = [&[ipv6::TCP, 0, 1, 4, 0, 0, 0, 0][..], &BACK].concat();
        let fragment = |word: u16| {
            let [a, b] = word.to_be_bytes();
            [&[ipv6::TCP, 0, a, b, 0, 0, 0, 1][..], &BACK].concat()
        };
        // Headers between are looked through: in quotes, of errors, and of packets of the flow.
        assert_eq!(about(2, &ip6(2, 1, ipv6::DESTINATION_OPTIONS, &options)), flow);
        assert_eq!(about(2, &ip6(2, 1, ipv6::FRAGMENT, &fragment(1))), flow);
        let in_front = [&[ipv6::ICMP, 0, 1, 4, 0, 0, 0, 0][..], &error(2, &quote)].concat();
        assert_eq!(ipv6_hash(&ip6(9, 2, ipv6::DESTINATION_OPTIONS, &in_front)), flow);
        let atomic = [&[ipv6::TCP, 0, 0, 0, 0, 0, 0, 1][..], &THERE].concat();
        assert_eq!(ipv6_hash(&ip6(1, 2, ipv6::FRAGMENT, &atomic)), flow);
        // A later fragment belongs to the fragments, which stay together whatever they hold.
        let fragments = ipv6_hash(&ip6(1, 2, ipv6::FRAGMENT, &fragment(1)));
        assert_ne!(fragments, flow);
        assert_eq!(ipv6_hash(&ip6(1, 2, ipv6::FRAGMENT, &fragment(0x00b8))), fragments);
        assert_eq!(about(3, &ip6(2, 1, ipv6::FRAGMENT, &fragment(0x00b9))), fragments);
        // A quote that is longer than what came of it is the rule.
        let mut cut = ip6(2, 1, ipv6::TCP, &BACK);
        cut[4..6].copy_from_slice(&1400_u16.to_be_bytes());
        assert_eq!(about(2, &cut), flow);
        let messages = ipv6_hash(&ip6(9, 2, ipv6::ICMP, &[]));
        for kind in [128, 129, 135, 255] {
            assert_eq!(about(kind, &quote), messages);
        }
        assert_eq!(about(2, &quote[..39]), messages);
        assert_eq!(about(2, &[&[0x45], &quote[1..]].concat()), messages);
    }
}
