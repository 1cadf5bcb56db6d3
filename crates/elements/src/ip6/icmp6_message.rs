//! ICMPv6 error messages: whether one may be sent, and its bytes (RFC 4443 §2.4, §3).

use super::addresses::AddressSet6;
use packet::PacketType;
use packet::wire::ipv6::{self, Header, Ipv6, is_multicast};
use packet::wire::{checksum, icmp6};

/// The longest error message, IPv6 header included (RFC 4443 §2.4 (c)).
pub(super) const MAX_LEN: usize = ipv6::MIN_MTU;
/// What stands before the quoted packet: IPv6 header and ICMPv6 header.
pub(super) const HEADERS: usize = ipv6::HEADER_LEN + icmp6::HEADER_LEN;
/// Code of a parameter problem: unrecognised option.
const UNKNOWN_OPTION: u8 = 2;
const HOP_LIMIT: u8 = 64;

/// Why no error may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no sound IPv6 header.
    NoHeader,
    /// It is an ICMPv6 error message or a redirect.
    Icmp,
    /// It came as a broadcast or multicast of the link layer.
    LinkBroadcast,
    /// Its source is not the address of one node.
    Source,
    /// Its destination is a multicast address.
    Destination,
}

/// What all errors of one element have in common.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub source: u128,
    pub kind: u8,
    pub code: u8,
    /// Further addresses that the source may not be.
    pub bad: AddressSet6,
    /// The longest message, IPv6 header included.
    pub limit: usize,
}

/// The headers of an error message, and how much of the packet follows them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Headers {
    pub bytes: [u8; HEADERS],
    /// Bytes of the packet, from its IPv6 header on, that are quoted.
    pub quoted: usize,
    /// Where the message goes.
    pub destination: u128,
}

impl Message {
    /// Makes the headers of the answer to `packet` (from its IPv6 header on). `rest` is the second word of the ICMPv6
    /// header.
    pub fn answer(&self, packet: &[u8], link: PacketType, rest: u32) -> Result<Headers, Refusal> {
        let ip = Ipv6::check(packet).ok_or(Refusal::NoHeader)?;
        self.may_answer(&ip, packet, link, rest)?;
        let (source, destination) = (self.source, ip.source());
        let quoted = ip.total_len().min(self.limit.saturating_sub(HEADERS));
        let length = icmp6::HEADER_LEN + quoted;
        let header = Header {
            traffic_class: 0,
            flow_label: 0,
            // The limit is far below 2^16.
            payload_len: length as u16,
            next_header: ipv6::ICMP,
            hop_limit: HOP_LIMIT,
            source,
            destination,
        };
        let mut bytes = [0; HEADERS];
        let (head, icmp) = bytes.split_at_mut(ipv6::HEADER_LEN);
        head.copy_from_slice(&header.bytes());
        icmp[..2].copy_from_slice(&[self.kind, self.code]);
        icmp[4..].copy_from_slice(&rest.to_be_bytes());
        let quote = packet.get(..quoted).unwrap_or(packet);
        // The ICMPv6 header has an even length, so the sums can be added.
        let sum = ipv6::pseudo_header(source, destination, ipv6::ICMP, length as u32)
            + checksum::sum(icmp)
            + checksum::sum(quote);
        icmp[2..4].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
        Ok(Headers { bytes, quoted, destination })
    }

    /// RFC 4443 §2.4 (e).
    fn may_answer(&self, ip: &Ipv6<'_>, packet: &[u8], link: PacketType, rest: u32) -> Result<(), Refusal> {
        let source = ip.source();
        // Unspecified and loopback addresses are no node's on a link.
        if source <= 1 || is_multicast(source) || self.bad.contains(source) {
            return Err(Refusal::Source);
        }
        if !self.may_answer_groups(packet, rest) {
            if matches!(link, PacketType::Broadcast | PacketType::Multicast) {
                return Err(Refusal::LinkBroadcast);
            }
            if is_multicast(ip.destination()) {
                return Err(Refusal::Destination);
            }
        }
        let upper = ip.upper_layer().filter(|u| u.protocol == ipv6::ICMP && u.fragment_offset == 0);
        if let Some(upper) = upper {
            let kind = ip.payload().get(upper.offset - ipv6::HEADER_LEN);
            // What cannot be seen might be an error.
            if kind.is_none_or(|&kind| icmp6::is_error(kind) || kind == icmp6::REDIRECT) {
                return Err(Refusal::Icmp);
            }
        }
        Ok(())
    }

    /// "Packet too big" is needed for path MTU discovery of groups, and some options ask for an answer (their type begins
    /// with the bits 10, RFC 8200 §4.2).
    fn may_answer_groups(&self, packet: &[u8], rest: u32) -> bool {
        let option = || packet.get(rest as usize).is_some_and(|kind| kind >> 6 == 0b10);
        self.kind == icmp6::TOO_BIG
            || self.kind == icmp6::PARAMETER_PROBLEM && self.code == UNKNOWN_OPTION && option()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: u128 = 0x2001_0db8 << 96 | 1;
    const ROUTER: u128 = 0x2001_0db8 << 96 | 0xfe;

    fn message(kind: u8, code: u8) -> Message {
        Message { source: ROUTER, kind, code, bad: AddressSet6::new(), limit: MAX_LEN }
    }

    fn packet(next_header: u8, payload: &[u8], destination: u128) -> Vec<u8> {
        let payload_len = payload.len() as u16;
        let header = Header {
            traffic_class: 9,
            flow_label: 8,
            payload_len,
            next_header,
            hop_limit: 7,
            source: HOST,
            destination,
        };
        [&header.bytes()[..], payload].concat()
    }

    #[test]
    fn time_exceeded_byte_by_byte() {
        let original = packet(ipv6::UDP, b"12345678", HOST + 1);
        let headers = message(3, 0).answer(&original, PacketType::Host, 0).unwrap();
        let want = Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 56,
            next_header: ipv6::ICMP,
            hop_limit: 64,
            source: ROUTER,
            destination: HOST,
        };
        assert_eq!(headers.bytes[..40], want.bytes());
        assert_eq!((&headers.bytes[40..42], &headers.bytes[44..]), (&[3, 0][..], &[0; 4][..]));
        assert_eq!((headers.quoted, headers.destination), (48, HOST));
        let icmp = [&headers.bytes[40..], &original].concat();
        assert!(icmp6::checksum_is_valid(ROUTER, HOST, &icmp));
    }

    #[test]
    fn no_more_than_1280_bytes_are_sent() {
        for (payload, quoted) in [(1191, 1231), (1192, 1232), (1193, 1232), (1460, 1232)] {
            let original = packet(ipv6::UDP, &vec![7; payload], HOST + 1);
            let headers = message(2, 0).answer(&original, PacketType::Host, 1400).unwrap();
            assert_eq!(headers.quoted, quoted);
            let icmp = [&headers.bytes[40..], &original[..quoted]].concat();
            assert!(icmp6::checksum_is_valid(ROUTER, HOST, &icmp));
            assert_eq!(icmp[4..8], [0, 0, 5, 120]);
        }
    }

    #[test]
    fn what_may_not_be_answered() {
        let refused = |kind: u8, original: &[u8], link| message(kind, 0).answer(original, link, 0).err();
        let good = packet(ipv6::UDP, b"12345678", HOST + 1);
        let host = PacketType::Host;
        assert_eq!(refused(3, &good, host), None);
        assert_eq!(refused(3, &good[..47], host), Some(Refusal::NoHeader));
        assert_eq!(refused(3, &[0x45; 60], host), Some(Refusal::NoHeader));
        for link in [PacketType::Broadcast, PacketType::Multicast] {
            assert_eq!(
                (refused(3, &good, link), refused(2, &good, link)),
                (Some(Refusal::LinkBroadcast), None)
            );
        }
        let group = packet(ipv6::UDP, b"12345678", 0xff02 << 112 | 1);
        assert_eq!((refused(1, &group, host), refused(2, &group, host)), (Some(Refusal::Destination), None));
        for source in [0, 1, 0xff02 << 112 | 1] {
            let mut from = good.clone();
            from[8..24].copy_from_slice(&u128::to_be_bytes(source));
            assert_eq!(
                (refused(1, &from, host), refused(2, &from, host)),
                (Some(Refusal::Source), Some(Refusal::Source))
            );
        }
        let mut listed = message(3, 0);
        listed.bad.add(HOST, u128::MAX);
        assert_eq!(listed.answer(&good, host, 0).err(), Some(Refusal::Source));
        for kind in 0..=255 {
            let want = (kind < 128 || kind == 137).then_some(Refusal::Icmp);
            assert_eq!(refused(1, &packet(ipv6::ICMP, &[kind, 0, 0, 0], HOST + 1), host), want);
            // Behind destination options, and in the first fragment.
            for (next, extension) in [(60, [58, 0, 1, 4, 0, 0, 0, 0]), (44, [58, 0, 0, 1, 0, 0, 0, 9])] {
                let behind = packet(next, &[&extension[..], &[kind, 0]].concat(), HOST + 1);
                assert_eq!(refused(1, &behind, host), want, "{kind}");
            }
        }
        assert_eq!(refused(1, &packet(ipv6::ICMP, &[], HOST + 1), host), Some(Refusal::Icmp));
        // A later fragment: what it begins with is no type.
        assert_eq!(refused(1, &packet(44, &[58, 0, 0, 8, 0, 0, 0, 9, 1, 0], HOST + 1), host), None);
    }

    #[test]
    fn some_options_are_answered_to_groups() {
        for (option, want) in
            [(0x80, None), (0xc0, Some(Refusal::Destination)), (0x40, Some(Refusal::Destination))]
        {
            let original = packet(60, &[59, 0, option, 4, 0, 0, 0, 0], 0xff02 << 112 | 1);
            assert_eq!(message(4, 2).answer(&original, PacketType::Host, 42).err(), want);
            assert_eq!(
                message(4, 1).answer(&original, PacketType::Host, 42).err(),
                Some(Refusal::Destination)
            );
        }
    }
}
