//! ICMP for IPv6 (RFC 4443) and the messages of neighbour discovery (RFC 4861).

use super::ethernet::{self, Mac};
use super::{checksum, ipv6};

/// Length of the fixed header: type, code, checksum, rest of header.
pub const HEADER_LEN: usize = 8;
/// Destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Packet too big.
pub const TOO_BIG: u8 = 2;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Echo request.
pub const ECHO: u8 = 128;
/// Echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// Neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;
/// Redirect.
pub const REDIRECT: u8 = 137;
/// Length of a solicitation or advertisement without options.
pub const NEIGHBOUR_LEN: usize = 24;
/// Length of one with a link-layer address option for Ethernet.
pub const NEIGHBOUR_OPTION_LEN: usize = 32;
/// The hop limit of all neighbour discovery, which shows that nobody has forwarded it (RFC 4861 §3.1).
pub const ND_HOP_LIMIT: u8 = 255;
/// Flag of an advertisement: sent by a router.
pub const ROUTER: u8 = 0x80;
/// Flag of an advertisement: sent in answer to a solicitation.
pub const SOLICITED: u8 = 0x40;
/// Flag of an advertisement: replaces what is known.
pub const OVERRIDE: u8 = 0x20;

/// True for the types that report an error (RFC 4443 §2.1).
#[inline]
pub fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Computes and stores the checksum over the whole message. False, and nothing changed, if it is too short.
pub fn set_checksum(source: u128, destination: u128, message: &mut [u8]) -> bool {
    if message.len() < 4 {
        return false;
    }
    message[2..4].fill(0);
    let sum = !checksum::fold(sum(source, destination, message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    true
}

/// True if the checksum of the message is right.
pub fn checksum_is_valid(source: u128, destination: u128, message: &[u8]) -> bool {
    checksum::fold(sum(source, destination, message)) == 0xffff
}

fn sum(source: u128, destination: u128, message: &[u8]) -> u64 {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    ipv6::pseudo_header(source, destination, ipv6::ICMP, length) + checksum::sum(message)
}

/// The multicast address at which a host with this address is solicited (RFC 4291 §2.7.1).
#[inline]
pub fn solicited_node(address: u128) -> u128 {
    0xff02_0000_0000_0000_0000_0001_ff00_0000 | address & 0xff_ffff
}

/// The Ethernet address of a multicast address (RFC 2464 §7).
#[inline]
pub fn multicast_mac(address: u128) -> Mac {
    let [a, b, c, d] = ((address & 0xffff_ffff) as u32).to_be_bytes();
    [0x33, 0x33, a, b, c, d]
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// [`SOLICITATION`] or [`ADVERTISEMENT`].
    pub kind: u8,
    /// [`ROUTER`], [`SOLICITED`], [`OVERRIDE`]; 0 in a solicitation.
    pub flags: u8,
    /// The address in question.
    pub target: u128,
    /// The link-layer address in the option that belongs to the kind, if there is one.
    pub mac: Option<Mac>,
    /// Source address of the packet.
    pub source: u128,
    /// Destination address of the packet.
    pub destination: u128,
}

impl Neighbour {
    /// Reads a packet, from its IPv6 header on, with the checks of RFC 4861 §7.1: hop limit, checksum, code, length, target,
    /// options, and what goes with an unspecified source. `None` if it is no sound neighbour message.
    pub fn parse(packet: &[u8]) -> Option<Neighbour> {
        let ip = ipv6::Ipv6::check(packet)?;
        let upper = ip.upper_layer().filter(|u| u.protocol == ipv6::ICMP && u.fragment_offset == 0)?;
        let message = packet.get(upper.offset..ip.total_len())?;
        let body: &[u8; NEIGHBOUR_LEN] = message.first_chunk()?;
        let (source, destination) = (ip.source(), ip.destination());
        let (kind, code) = (body[0], body[1]);
        let sound = matches!(kind, SOLICITATION | ADVERTISEMENT)
            && code == 0
            && ip.hop_limit() == ND_HOP_LIMIT
            && checksum_is_valid(source, destination, message);
        if !sound {
            return None;
        }
        let target = u128::from_be_bytes(*message.get(8..)?.first_chunk()?);
        let wanted = if kind == SOLICITATION { 1 } else { 2 };
        let mac = link_address(message.get(NEIGHBOUR_LEN..)?, wanted)?;
        // Somebody who looks whether his address is free has no address yet.
        let probe = source == 0;
        let solicited = kind == ADVERTISEMENT && body[4] & SOLICITED != 0;
        let legal = !ipv6::is_multicast(target)
            && !ipv6::is_multicast(source)
            && !(probe && (kind == ADVERTISEMENT || mac.is_some() || destination != solicited_node(target)))
            && !(solicited && ipv6::is_multicast(destination));
        let flags = if kind == ADVERTISEMENT { body[4] & 0xe0 } else { 0 };
        legal.then_some(Neighbour { kind, flags, target, mac, source, destination })
    }

    /// The packet, with its option if there is a link-layer address, in an Ethernet frame. The length of it is the second
    /// result.
    pub fn frame(&self, from: Mac, to: Mac) -> ([u8; FRAME_LEN], usize) {
        let length = if self.mac.is_some() { NEIGHBOUR_OPTION_LEN } else { NEIGHBOUR_LEN };
        let mut frame = [0; FRAME_LEN];
        let (link, rest) = frame.split_at_mut(ethernet::HEADER_LEN);
        link.copy_from_slice(
            &ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV6 }.bytes(),
        );
        let (head, message) = rest.split_at_mut(ipv6::HEADER_LEN);
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: length as u16,
            next_header: ipv6::ICMP,
            hop_limit: ND_HOP_LIMIT,
            source: self.source,
            destination: self.destination,
        };
        head.copy_from_slice(&header.bytes());
        message[0] = self.kind;
        message[4] = self.flags;
        message[8..24].copy_from_slice(&self.target.to_be_bytes());
        if let Some(mac) = self.mac {
            message[24] = if self.kind == SOLICITATION { 1 } else { 2 };
            message[25] = 1;
            message[26..].copy_from_slice(&mac);
        }
        set_checksum(self.source, self.destination, &mut message[..length]);
        (frame, ethernet::HEADER_LEN + ipv6::HEADER_LEN + length)
    }
}

/// Length of the longest frame that [`Neighbour::frame`] makes.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + NEIGHBOUR_OPTION_LEN;

/// The link-layer address among the options of a neighbour message, in the option of this type. `None` if an option is
/// damaged: one of length 0 or that ends behind the message.
fn link_address(mut options: &[u8], wanted: u8) -> Option<Option<Mac>> {
    let mut found = None;
    while !options.is_empty() {
        let length = usize::from(*options.get(1)?) * 8;
        let option = options.get(..length).filter(|o| !o.is_empty())?;
        if option.first() == Some(&wanted) && length == 8 {
            found = found.or(option.get(2..).and_then(|mac| mac.first_chunk().copied()));
        }
        options = options.get(length..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOURCE: u128 = 0xfe80_0000_0000_0000_0000_0000_0000_0001;
    const TARGET: u128 = 0xfe80_0000_0000_0000_0000_0000_0012_3456;

    fn solicitation() -> Neighbour {
        Neighbour {
            kind: SOLICITATION,
            flags: 0,
            target: TARGET,
            mac: Some([2, 0, 0, 0, 0, 1]),
            source: SOURCE,
            destination: solicited_node(TARGET),
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(solicited_node(TARGET), 0xff02_0000_0000_0000_0000_0001_ff12_3456);
        assert_eq!(multicast_mac(solicited_node(TARGET)), [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let advertisement = Neighbour {
            kind: ADVERTISEMENT,
            flags: ROUTER | SOLICITED | OVERRIDE,
            destination: SOURCE,
            source: TARGET,
            ..solicitation()
        };
        let probe = Neighbour { source: 0, mac: None, ..solicitation() };
        for (message, length) in [(solicitation(), 86), (advertisement, 86), (probe, 78)] {
            let (frame, len) = message.frame([2, 0, 0, 0, 0, 1], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
            assert_eq!(len, length);
            assert_eq!(Neighbour::parse(&frame[14..len]), Some(message));
        }
    }

    #[test]
    fn what_is_not_sound() {
        let with = |message: Neighbour, change: &dyn Fn(&mut [u8])| {
            let (mut frame, len) = message.frame([2; 6], [2; 6]);
            change(&mut frame[14..len]);
            let (source, destination) =
                (u128::from_be_bytes(*frame[22..].first_chunk().unwrap()), message.destination);
            set_checksum(source, destination, &mut frame[54..len]);
            Neighbour::parse(&frame[14..len]).is_some()
        };
        assert!(with(solicitation(), &|_| {}));
        assert!(!with(solicitation(), &|p| p[7] = 254), "forwarded");
        assert!(!with(solicitation(), &|p| p[41] = 1), "code");
        assert!(!with(solicitation(), &|p| p[48] = 0xff), "multicast target");
        assert!(!with(solicitation(), &|p| p[65] = 0), "option without length");
        assert!(!with(solicitation(), &|p| p[65] = 2), "option beyond the end");
        assert!(with(solicitation(), &|p| p[64] = 14), "another option");
        assert!(!with(Neighbour { source: 0, ..solicitation() }, &|_| {}), "probe with an address");
        assert!(!with(Neighbour { source: 0, mac: None, destination: TARGET, ..solicitation() }, &|_| {}));
        let to_all = Neighbour {
            kind: ADVERTISEMENT,
            flags: SOLICITED,
            destination: 0xff02 << 112 | 1,
            ..solicitation()
        };
        assert!(!with(to_all, &|_| {}));
        assert!(with(Neighbour { flags: 0, ..to_all }, &|_| {}));
        let (mut frame, len) = solicitation().frame([2; 6], [2; 6]);
        frame[57] ^= 1;
        assert_eq!(Neighbour::parse(&frame[14..len]), None, "checksum");
        assert!(!set_checksum(0, 0, &mut [0; 3]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0usize..90, message in any::<bool>(),
        ) {
            let _ = Neighbour::parse(&bytes);
            let (mut frame, len) = solicitation().frame([2; 6], [2; 6]);
            let packet = &mut frame[14..len];
            if message {
                for (place, byte) in packet[60..].iter_mut().zip(&bytes) { *place = *byte; }
                set_checksum(SOURCE, solicited_node(TARGET), &mut packet[40..]);
            }
            let _ = Neighbour::parse(&packet[..cut.min(packet.len())]);
        }
    }
}
