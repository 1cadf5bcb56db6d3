//! IPv6 headers (RFC 8200).

use super::checksum;

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Every link carries packets of this many bytes (RFC 8200 §5).
pub const MIN_MTU: usize = 1280;
/// Next header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: TCP.
pub const TCP: u8 = 6;
/// Next header: UDP.
pub const UDP: u8 = 17;
/// Next header: routing header.
pub const ROUTING: u8 = 43;
/// Next header: fragment header.
pub const FRAGMENT: u8 = 44;
/// Next header: ESP; what follows cannot be read.
pub const ESP: u8 = 50;
/// Next header: authentication header.
pub const AUTHENTICATION: u8 = 51;
/// Next header: ICMPv6.
pub const ICMP: u8 = 58;
/// Next header: nothing follows.
pub const NO_NEXT: u8 = 59;
/// Next header: destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// Next header: mobility (RFC 6275).
pub const MOBILITY: u8 = 135;
/// Next header: host identity protocol (RFC 7401).
pub const HIP: u8 = 139;
/// Next header: shim6 (RFC 5533).
pub const SHIM6: u8 = 140;
/// Option type of the jumbo payload option (RFC 2675 §2).
pub const JUMBO_PAYLOAD: u8 = 0xc2;
/// Extension headers that a packet may have; with more the chain counts as broken.
pub const MAX_EXTENSIONS: usize = 16;

/// True for next headers that are extension headers (IANA's list).
#[inline]
pub fn is_extension(next: u8) -> bool {
    const SET: [u64; 4] =
        set(&[HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS, MOBILITY, HIP, SHIM6]);
    SET[usize::from(next >> 6)] >> (next & 63) & 1 != 0
}

const fn set(members: &[u8]) -> [u64; 4] {
    let mut words = [0; 4];
    let mut i = 0;
    while i < members.len() {
        words[(members[i] >> 6) as usize] |= 1 << (members[i] & 63);
        i += 1;
    }
    words
}

/// View of an IPv6 header at the front of some bytes. Only the presence of the first 40 bytes is known; see
/// [`Ipv6::check`].
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    bytes: &'a [u8],
    head: &'a [u8; HEADER_LEN],
}

impl<'a> Ipv6<'a> {
    /// Views the header at the front of `bytes`; `None` if there are fewer than 40 bytes. Nothing else is checked.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Ipv6<'a>> {
        Some(Ipv6 { bytes, head: bytes.first_chunk()? })
    }

    /// Views a header that nothing follows. Nothing is checked.
    #[inline]
    pub fn of(head: &'a [u8; HEADER_LEN]) -> Ipv6<'a> {
        Ipv6 { bytes: head, head }
    }

    /// Views a header that is known to be sound: version 6, and the payload within `bytes`. Jumbograms are not.
    #[inline]
    pub fn check(bytes: &'a [u8]) -> Option<Ipv6<'a>> {
        let ip = Ipv6::new(bytes)?;
        (ip.version() == 6 && ip.total_len() <= bytes.len() && !ip.is_jumbogram()).then_some(ip)
    }

    /// Version; 6 in a sound header.
    #[inline]
    pub fn version(&self) -> u8 {
        self.head[0] >> 4
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.head[0] << 4 | self.head[1] >> 4
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.head[1] & 0x0f, self.head[2], self.head[3]])
    }

    /// Bytes after the header, as it says.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.head[4], self.head[5]])
    }

    /// Length of the packet in bytes, as the header says.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.head[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.head[7]
    }

    /// Source address, host order.
    #[inline]
    pub fn source(&self) -> u128 {
        address(self.head, 8)
    }

    /// Destination address, host order.
    #[inline]
    pub fn destination(&self) -> u128 {
        address(self.head, 24)
    }

    /// The bytes after the header, up to the payload length or the end of the bytes.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..self.total_len().min(self.bytes.len())).unwrap_or(&[])
    }

    /// True if its length stands in a jumbo payload option (RFC 2675): the payload length is 0, and what follows are
    /// hop-by-hop options with this one among them.
    pub fn is_jumbogram(&self) -> bool {
        if self.payload_len() != 0 || self.next_header() != HOP_BY_HOP {
            return false;
        }
        let bytes = self.bytes.get(HEADER_LEN..).unwrap_or(&[]);
        let end = bytes.get(1).map_or(0, |units| (usize::from(*units) + 1) * 8).min(bytes.len());
        let options = Options { bytes: bytes.get(2..end).unwrap_or(&[]) };
        options.into_iter().any(|option| option.kind == JUMBO_PAYLOAD)
    }

    /// The extension headers, in their order.
    #[inline]
    pub fn extensions(&self) -> Extensions<'a> {
        let payload = self.payload();
        Extensions { payload, next: self.next_header(), at: 0, count: 0, state: Walk::Going }
    }

    /// What comes after the extension headers; `None` if their chain is broken: it runs past the end of the packet, has
    /// more than [`MAX_EXTENSIONS`] headers, or hop-by-hop options elsewhere than in front (RFC 8200 §4.1).
    #[inline]
    pub fn upper_layer(&self) -> Option<UpperLayer> {
        if !is_extension(self.next_header()) {
            return Some(UpperLayer { protocol: self.next_header(), offset: HEADER_LEN, fragment_offset: 0 });
        }
        self.extensions().upper_layer()
    }
}

/// The 16 bytes at `at`, which are in the header.
#[inline(always)]
fn address(head: &[u8; HEADER_LEN], at: usize) -> u128 {
    head.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which one: the number that the header before it gives.
    pub kind: u8,
    /// Offset of its first byte from the start of the IPv6 header.
    pub offset: usize,
    /// The header; at least 8 bytes.
    pub bytes: &'a [u8],
}

/// Where the transport header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Its protocol number; [`NO_NEXT`] if there is none.
    pub protocol: u8,
    /// Offset from the start of the IPv6 header; may be the end of the packet.
    pub offset: usize,
    /// In a fragment, which part of the whole it is, in bytes: unless 0 there is no transport header at `offset`.
    pub fragment_offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Going,
    /// The chain ends here; a later fragment's part of the whole, else 0.
    Done(usize),
    Broken,
}

/// See [`Ipv6::extensions`].
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    payload: &'a [u8],
    next: u8,
    at: usize,
    count: usize,
    state: Walk,
}

impl Extensions<'_> {
    /// Goes on to the end; see [`Ipv6::upper_layer`].
    pub fn upper_layer(mut self) -> Option<UpperLayer> {
        while self.next().is_some() {}
        match self.state {
            Walk::Done(fragment_offset) => {
                Some(UpperLayer { protocol: self.next, offset: HEADER_LEN + self.at, fragment_offset })
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        if self.state != Walk::Going {
            return None;
        }
        let kind = self.next;
        if !is_extension(kind) {
            self.state = Walk::Done(0);
            return None;
        }
        let rest = self.payload.get(self.at..).unwrap_or(&[]);
        let length = match (kind, rest.get(1)) {
            (FRAGMENT, _) => 8,
            (AUTHENTICATION, Some(units)) => (usize::from(*units) + 2) * 4,
            (_, Some(units)) => (usize::from(*units) + 1) * 8,
            (_, None) => usize::MAX,
        };
        let misplaced = kind == HOP_BY_HOP && self.at > 0;
        let Some(bytes) =
            rest.get(..length).filter(|b| b.len() >= 8 && !misplaced && self.count < MAX_EXTENSIONS)
        else {
            self.state = Walk::Broken;
            return None;
        };
        let offset = HEADER_LEN + self.at;
        (self.next, self.at, self.count) = (bytes[0], self.at + length, self.count + 1);
        if kind == FRAGMENT {
            let later = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]) & 0xfff8);
            if later > 0 {
                self.state = Walk::Done(later);
            }
        }
        Some(Extension { kind, offset, bytes })
    }
}

/// One option of hop-by-hop or destination options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its type.
    pub kind: u8,
    /// What follows type and length.
    pub data: &'a [u8],
}

/// The options in a hop-by-hop or destination options header, without padding; ends at one that is cut off.
pub fn options<'a>(extension: &Extension<'a>) -> impl Iterator<Item = Ipv6Option<'a>> + use<'a> {
    Options { bytes: extension.bytes.get(2..).unwrap_or(&[]) }
}

struct Options<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Ipv6Option<'a>;

    fn next(&mut self) -> Option<Ipv6Option<'a>> {
        loop {
            let (&kind, rest) = self.bytes.split_first()?;
            if kind == 0 {
                self.bytes = rest;
                continue;
            }
            let (&length, rest) = rest.split_first()?;
            let data = rest.get(..usize::from(length))?;
            self.bytes = rest.get(usize::from(length)..)?;
            if kind != 1 {
                return Some(Ipv6Option { kind, data });
            }
        }
    }
}

/// What an IPv6 header says, to write one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label; 20 bits are used.
    pub flow_label: u32,
    /// Bytes after the header.
    pub payload_len: u16,
    /// What follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address, host order.
    pub source: u128,
    /// Destination address, host order.
    pub destination: u128,
}

impl Header {
    /// The header as bytes.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        let mut h = [0; HEADER_LEN];
        h[..4].copy_from_slice(&first.to_be_bytes());
        h[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        h[6] = self.next_header;
        h[7] = self.hop_limit;
        h[8..24].copy_from_slice(&self.source.to_be_bytes());
        h[24..].copy_from_slice(&self.destination.to_be_bytes());
        h
    }
}

/// Takes one from the hop limit; false, and nothing changed, if it is 1 or 0 (RFC 8200 §3).
#[inline(always)]
pub fn decrement_hop_limit(head: &mut [u8; HEADER_LEN]) -> bool {
    let alive = head[7] > 1;
    head[7] -= u8::from(alive);
    alive
}

/// Sets the traffic class.
#[inline]
pub fn set_traffic_class(head: &mut [u8; HEADER_LEN], class: u8) {
    head[0] = head[0] & 0xf0 | class >> 4;
    head[1] = head[1] & 0x0f | class << 4;
}

/// Sum of the pseudo header of upper layers (RFC 8200 §8.1); addresses in host order.
#[inline]
pub fn pseudo_header(source: u128, destination: u128, protocol: u8, length: u32) -> u64 {
    checksum::sum(&source.to_be_bytes())
        + checksum::sum(&destination.to_be_bytes())
        + u64::from(protocol)
        + u64::from(length)
}

/// True for ff00::/8 (RFC 4291 §2.7).
#[inline]
pub fn is_multicast(address: u128) -> bool {
    address >> 120 == 0xff
}

/// True for fe80::/10 (RFC 4291 §2.5.6).
#[inline]
pub fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: Header = Header {
        traffic_class: 0xa5,
        flow_label: 0x1_2345,
        payload_len: 0,
        next_header: 0,
        hop_limit: 64,
        source: 0x2001_0db8_0000_0000_0000_0000_0000_0001,
        destination: 0xff02_0000_0000_0000_0000_0000_0000_00fb,
    };

    fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
        let header = Header { next_header: next, payload_len: payload.len() as u16, ..HEAD };
        [&header.bytes()[..], payload].concat()
    }

    #[test]
    fn fields() {
        let bytes = packet(UDP, b"12345678");
        assert_eq!(bytes[..8], [0x6a, 0x51, 0x23, 0x45, 0, 8, 17, 64]);
        let ip = Ipv6::check(&bytes).unwrap();
        assert_eq!((ip.version(), ip.traffic_class(), ip.flow_label()), (6, 0xa5, 0x1_2345));
        assert_eq!((ip.payload_len(), ip.next_header(), ip.hop_limit(), ip.total_len()), (8, UDP, 64, 48));
        assert_eq!((ip.source(), ip.destination()), (HEAD.source, HEAD.destination));
        assert_eq!(ip.payload(), b"12345678");
        assert!(Ipv6::check(&bytes[..47]).is_none() && Ipv6::new(&bytes[..39]).is_none());
        let mut head = *bytes.first_chunk().unwrap();
        set_traffic_class(&mut head, 0x3c);
        assert_eq!(head[..4], [0x63, 0xc1, 0x23, 0x45]);
        assert!(decrement_hop_limit(&mut head) && head[7] == 63);
        head[7] = 1;
        assert!(!decrement_hop_limit(&mut head) && head[7] == 1);
        assert!(is_multicast(HEAD.destination) && !is_multicast(HEAD.source));
        assert!(
            is_link_local(0xfe80 << 112) && is_link_local(0xfebf << 112) && !is_link_local(0xfec0 << 112)
        );
    }

    #[test]
    fn chains() {
        let upper = |next, payload: &[u8]| {
            let bytes = packet(next, payload);
            Ipv6::new(&bytes).unwrap().upper_layer().map(|u| (u.protocol, u.offset, u.fragment_offset))
        };
        assert_eq!(upper(TCP, b""), Some((TCP, 40, 0)));
        assert_eq!(upper(ESP, b"xxxx"), Some((ESP, 40, 0)));
        // Hop-by-hop (8), destination options (16), authentication (12: (1 + 2) * 4), UDP.
        let chain =
            [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[51, 1], &[0; 14], &[17, 1], &[0; 10], b"data"].concat();
        assert_eq!(upper(HOP_BY_HOP, &chain), Some((UDP, 76, 0)));
        assert_eq!(upper(HOP_BY_HOP, &chain[..36]), Some((UDP, 76, 0)), "nothing but headers");
        assert_eq!(upper(HOP_BY_HOP, &chain[..35]), None);
        assert_eq!(
            upper(DESTINATION_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0]),
            None,
            "not in front"
        );
        // Fragments: the first has the transport header, another not.
        assert_eq!(upper(FRAGMENT, &[17, 0, 0, 1, 0, 0, 0, 9, 1]), Some((UDP, 48, 0)));
        assert_eq!(upper(FRAGMENT, &[60, 0, 5, 0xa1, 0, 0, 0, 9, 1]), Some((60, 48, 0x5a0)));
        assert_eq!(upper(FRAGMENT, &[60, 0, 0, 1, 0, 0, 0, 9, 1]), None);
        // An authentication header shorter than one can be.
        assert_eq!(upper(AUTHENTICATION, &[17, 0, 0, 0, 0, 0, 0, 0]), Some((UDP, 48, 0)));
        assert_eq!(upper(ROUTING, &[17]), None);
        let many = |n: usize| [60, 0, 0, 0, 0, 0, 0, 0].repeat(n);
        let ended = |n: usize| {
            let mut chain = many(n);
            chain[8 * n - 8] = UDP;
            upper(DESTINATION_OPTIONS, &chain)
        };
        assert_eq!((ended(MAX_EXTENSIONS), ended(MAX_EXTENSIONS + 1)), (Some((UDP, 168, 0)), None));
    }

    #[test]
    fn options_and_jumbograms() {
        let bytes = packet(HOP_BY_HOP, &[17, 1, 5, 2, 0, 0, 0, 1, 2, 9, 9, 0xc2, 4, 0, 1, 0]);
        let extension = Ipv6::new(&bytes).unwrap().extensions().next().unwrap();
        let found: Vec<_> = options(&extension).map(|o| (o.kind, o.data.to_vec())).collect();
        assert_eq!(found, [(5, vec![0, 0])], "the second is cut off");
        let mut jumbo = packet(HOP_BY_HOP, &[17, 0, 0xc2, 4, 0, 1, 0, 0, 1, 2, 3]);
        assert!(!Ipv6::new(&jumbo).unwrap().is_jumbogram());
        jumbo[4..6].fill(0);
        assert!(Ipv6::new(&jumbo).unwrap().is_jumbogram() && Ipv6::check(&jumbo).is_none());
        jumbo[42] = 0xc3;
        assert!(!Ipv6::new(&jumbo).unwrap().is_jumbogram());
        assert!(!Ipv6::new(&jumbo[..40]).unwrap().is_jumbogram());
    }

    #[test]
    fn pseudo_header_of_a_known_packet() {
        // An empty UDP datagram from ::1 to ::2: 1 + 2 + 17 + 8, and its own 8.
        assert_eq!(pseudo_header(1, 2, UDP, 8), 28);
        assert_eq!(checksum::fold(pseudo_header(u128::MAX, 0, 0, 0)), 0xffff);
    }

    proptest! {
        /// Any bytes: no panic, everything within the packet, and the walk is the plain one of RFC 8200.
        #[test]
        fn walks_stay_within(
            next in prop_oneof![4 => prop::sample::select(vec![0u8, 43, 44, 51, 60, 135, 139, 140]), 1 => any::<u8>()],
            mut payload in prop::collection::vec(
                prop_oneof![2 => prop::sample::select(vec![0u8, 43, 44, 51, 60, 17]), 1 => Just(1u8), 1 => any::<u8>()], 0..120),
            claimed in prop_oneof![3 => Just(None), 1 => any::<u16>().prop_map(Some)],
            cut in 0usize..200,
        ) {
            for unit in payload.chunks_mut(8) {
                // Short headers, so that chains are long.
                if let Some(length) = unit.get_mut(1) { *length &= 1; }
            }
            let mut bytes = packet(next, &payload);
            if let Some(claimed) = claimed { bytes[4..6].copy_from_slice(&claimed.to_be_bytes()); }
            bytes.truncate(cut.max(40));
            let ip = Ipv6::new(&bytes).unwrap();
            let end = ip.total_len().min(bytes.len());
            // The oracle.
            let (mut at, mut kind, mut count) = (40, next, 0);
            let want = loop {
                if !matches!(kind, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140) { break Some((kind, at, 0)); }
                if end < at + 8 || kind == 0 && at > 40 || count == MAX_EXTENSIONS { break None; }
                let length = match kind {
                    44 => 8,
                    51 => (usize::from(bytes[at + 1]) + 2) * 4,
                    _ => (usize::from(bytes[at + 1]) + 1) * 8,
                };
                if end < at + length { break None; }
                let offset = usize::from(bytes[at + 2]) << 8 | usize::from(bytes[at + 3]) & 0xf8;
                let was = kind;
                (kind, at, count) = (bytes[at], at + length, count + 1);
                if was == 44 && offset > 0 { break Some((kind, at, offset)); }
            };
            let got = ip.upper_layer().map(|u| (u.protocol, u.offset, u.fragment_offset));
            prop_assert_eq!(got, want);
            let mut place = 40;
            for extension in ip.extensions() {
                prop_assert_eq!(extension.offset, place);
                place += extension.bytes.len();
                prop_assert!(place <= end);
                options(&extension).for_each(|option| assert!(option.data.len() <= extension.bytes.len()));
            }
            let _ = ip.is_jumbogram();
        }
    }
}
