//! ICMP error messages: whether one may be sent, and its bytes (RFC 792, RFC 1122 §3.2.2, RFC 1812 §4.3.2).

use crate::ip::AddressSet;
use crate::ip::options::{LOOSE_ROUTE, STRICT_ROUTE};
use packet::PacketType;
use packet::wire::ipv4::{self, IpOption, Ipv4, MIN_HEADER_LEN, OptionItem};
use packet::wire::{checksum, icmp};

/// The longest error message, IP header included (RFC 1812 §4.3.2.3).
pub(crate) const MAX_LEN: usize = 576;
/// The most that stands before the quoted packet: IP header with options, ICMP header.
const MAX_HEADERS: usize = 60 + icmp::HEADER_LEN;
const TTL: u8 = 255;

/// Why no error may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no sound IP header.
    NoHeader,
    /// The packet is not the first fragment.
    Fragment,
    /// It is an ICMP message other than a query.
    Icmp,
    /// It came as a broadcast or multicast of the link layer.
    LinkBroadcast,
    /// Its source is not the address of one host.
    Source,
    /// Its destination is a broadcast or multicast address.
    Destination,
    /// It is to be redirected, and says its way itself.
    SourceRoute,
}

/// What all errors of one element have in common.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub source: u32,
    pub kind: u8,
    pub code: u8,
    /// Further addresses that neither source nor destination may be.
    pub bad: AddressSet,
    /// The longest message, IP header included.
    pub limit: usize,
}

/// The headers of an error message, and how much of the packet follows them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: usize,
    /// Length of the IP header.
    pub ip_len: usize,
    /// Bytes of the packet, from its IP header on, that are quoted.
    pub quoted: usize,
    /// Where the message goes first.
    pub destination: u32,
}

impl Headers {
    /// The bytes that go before the quoted packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Message {
    /// Makes the headers of the answer to `packet` (from its IP header on). `rest` is the second word of the ICMP
    /// header.
    pub fn answer(
        &self,
        packet: &[u8],
        link: PacketType,
        rest: [u8; 4],
        id: u16,
    ) -> Result<Headers, Refusal> {
        let ip = Ipv4::check(packet).ok_or(Refusal::NoHeader)?;
        self.may_answer(&ip, link)?;
        let mut route = [0; 40];
        let blamed = if self.kind == icmp::PARAMETER_PROBLEM { Some(usize::from(rest[0])) } else { None };
        let (destination, route_len) = way_back(&ip, blamed, &mut route);

        let ip_len = MIN_HEADER_LEN + route_len;
        let len = ip_len + icmp::HEADER_LEN;
        let quoted = usize::from(ip.total_len()).min(self.limit.saturating_sub(len));
        let mut h = [0; MAX_HEADERS];
        h[0] = 0x40 | (ip_len / 4) as u8;
        // Precedence "internetwork control", the rest of the type of service as in the packet (RFC 1812 §4.3.2.5).
        h[1] = (ip.tos() & 0x1e) | 0xc0;
        h[2..4].copy_from_slice(&((len + quoted) as u16).to_be_bytes());
        h[4..6].copy_from_slice(&id.to_be_bytes());
        h[8] = TTL;
        h[9] = ipv4::ICMP;
        h[12..16].copy_from_slice(&self.source.to_be_bytes());
        h[16..20].copy_from_slice(&destination.to_be_bytes());
        h[20..ip_len].copy_from_slice(&route[..route_len]);
        ipv4::set_checksum(&mut h[..ip_len]);
        h[ip_len] = self.kind;
        h[ip_len + 1] = self.code;
        h[ip_len + 4..len].copy_from_slice(&rest);
        let quote = packet.get(..quoted).unwrap_or(packet);
        // The ICMP header has an even length, so the two sums can be added.
        let sum = !checksum::fold(checksum::sum(&h[ip_len..len]) + checksum::sum(quote));
        h[ip_len + 2..ip_len + 4].copy_from_slice(&sum.to_be_bytes());
        Ok(Headers { bytes: h, len, ip_len, quoted, destination })
    }

    fn may_answer(&self, ip: &Ipv4<'_>, link: PacketType) -> Result<(), Refusal> {
        if !ip.is_first_fragment() {
            return Err(Refusal::Fragment);
        }
        if matches!(link, PacketType::Broadcast | PacketType::Multicast) {
            return Err(Refusal::LinkBroadcast);
        }
        if !is_host(ip.source()) || self.bad.contains(ip.source()) {
            return Err(Refusal::Source);
        }
        let destination = ip.destination();
        if destination >> 28 == 0xe || matches!(destination, 0 | u32::MAX) || self.bad.contains(destination) {
            return Err(Refusal::Destination);
        }
        if ip.protocol() == ipv4::ICMP && !ip.payload().first().is_some_and(|&kind| is_query(kind)) {
            return Err(Refusal::Icmp);
        }
        // The gateway would be that of a hop of its own choice (RFC 1812 §5.2.7.2).
        if self.kind == icmp::REDIRECT && source_route(ip).is_some() {
            return Err(Refusal::SourceRoute);
        }
        Ok(())
    }
}

/// True if the address can be that of one host: not zero, loopback, multicast or class E (RFC 1122 §3.2.2).
fn is_host(address: u32) -> bool {
    !matches!(address >> 24, 0 | 127 | 224..)
}

/// Echo, timestamp, information and address mask, requests and replies. Errors about anything else that ICMP carries
/// might be errors about errors.
fn is_query(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=18)
}

/// The option that says which way the packet goes, if there is one.
fn source_route<'a>(ip: &Ipv4<'a>) -> Option<IpOption<'a>> {
    ipv4::options(ip).find_map(|item| match item {
        OptionItem::Option(o) if matches!(o.kind, LOOSE_ROUTE | STRICT_ROUTE) => Some(o),
        _ => None,
    })
}

/// First destination of the answer and, in `option`, the source route by which it goes on; its padded length is the
/// second result. The route that a packet has travelled is reversed (RFC 1812 §4.3.2.6), unless the message is about
/// the source route option itself (`blamed` is the offset of the byte complained about).
fn way_back(ip: &Ipv4<'_>, blamed: Option<usize>, option: &mut [u8; 40]) -> (u32, usize) {
    let source = ip.source();
    let Some(route) = source_route(ip) else { return (source, 0) };
    let own = route.offset..route.offset + route.bytes.len();
    if blamed.is_some_and(|byte| own.contains(&byte)) {
        return (source, 0);
    }
    let travelled =
        usize::from(route.bytes.get(2).copied().unwrap_or(0)).saturating_sub(1).min(route.bytes.len());
    let (mut hops, _) = route.bytes.get(3..travelled).unwrap_or(&[]).as_chunks::<4>();
    // An origin that has put itself at the front of the route would get the message twice.
    if let Some((first, others)) = hops.split_first()
        && *first == source.to_be_bytes()
    {
        hops = others;
    }
    let Some((last, before)) = hops.split_last() else { return (source, 0) };
    let mut len = 3;
    for hop in before.iter().rev().chain([&source.to_be_bytes()]) {
        if let Some(place) = option.get_mut(len..len + 4) {
            place.copy_from_slice(hop);
            len += 4;
        }
    }
    option[..3].copy_from_slice(&[route.kind, len as u8, 4]);
    (u32::from_be_bytes(*last), len.next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, code: u8) -> Message {
        Message { source: 0x0a00_00fe, kind, code, bad: AddressSet::new(), limit: MAX_LEN }
    }

    /// A UDP packet from 10.0.0.1 to 11.0.0.2 with these options and this many bytes of payload.
    fn packet(options: &[u8], payload: usize) -> Vec<u8> {
        let total = 20 + options.len() + payload;
        let mut p = vec![
            0x45 + (options.len() / 4) as u8,
            0x03,
            0,
            0,
            0,
            7,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            1,
            11,
            0,
            0,
            2,
        ];
        p[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        p.extend(options);
        p.extend((0..payload).map(|i| i as u8));
        ipv4::set_checksum(&mut p);
        p
    }

    fn answer(message: &Message, packet: &[u8], rest: [u8; 4]) -> Vec<u8> {
        let headers = message.answer(packet, PacketType::Host, rest, 0x1234).unwrap();
        let mut bytes = headers.bytes().to_vec();
        bytes.extend(&packet[..headers.quoted]);
        assert!(Ipv4::check(&bytes).unwrap().checksum_is_valid());
        assert!(checksum::is_valid(Ipv4::check(&bytes).unwrap().payload()));
        bytes
    }

    #[test]
    fn time_exceeded_byte_by_byte() {
        let original = packet(&[], 8);
        let got = answer(&message(11, 0), &original, [0; 4]);
        // IP: 4500 0038 ...: c2 is precedence 6 with the low bits of 03 that are type of service.
        let ip = b"\x45\xc2\x00\x38\x12\x34\x00\x00\xff\x01\x93\xd0\x0a\x00\x00\xfe\x0a\x00\x00\x01";
        assert_eq!(got[..20], ip[..]);
        assert_eq!(got[20..22], [11, 0]);
        assert_eq!(got[24..28], [0; 4]);
        assert_eq!(got[28..], original[..]);
    }

    #[test]
    fn no_more_than_576_bytes_are_sent() {
        for (payload, length) in [(519, 567), (528, 576), (529, 576), (1480, 576)] {
            assert_eq!(answer(&message(3, 4), &packet(&[], payload), [0, 0, 5, 120]).len(), length);
        }
        assert_eq!(answer(&Message { limit: 100, ..message(3, 1) }, &packet(&[], 500), [0; 4]).len(), 100);
    }

    #[test]
    fn who_says_the_way_is_not_redirected() {
        let asked = |kind, options: &[u8]| {
            message(kind, 0).answer(&packet(options, 8), PacketType::Host, [0; 4], 0).err()
        };
        for route in [131, 137] {
            let options = [route, 7, 8, 10, 0, 2, 9, 0];
            assert_eq!(asked(icmp::REDIRECT, &options), Some(Refusal::SourceRoute));
            assert_eq!(asked(11, &options), None);
        }
        assert_eq!(asked(icmp::REDIRECT, &[7, 7, 4, 0, 0, 0, 0, 0]), None);
        assert_eq!(asked(icmp::REDIRECT, &[]), None);
    }

    #[test]
    fn what_may_not_be_answered() {
        let refused = |change: &dyn Fn(&mut Vec<u8>), link| {
            let mut p = packet(&[], 8);
            change(&mut p);
            let mut m = message(11, 0);
            m.bad.add_host(0x0a00_00ff);
            m.answer(&p, link, [0; 4], 0).err()
        };
        let host = PacketType::Host;
        assert_eq!(refused(&|_| {}, host), None);
        assert_eq!(refused(&|p| p[7] = 1, host), Some(Refusal::Fragment));
        assert_eq!(refused(&|p| p[6] = 0x20, host), None, "the first fragment may");
        assert_eq!(refused(&|_| {}, PacketType::Broadcast), Some(Refusal::LinkBroadcast));
        assert_eq!(refused(&|_| {}, PacketType::Multicast), Some(Refusal::LinkBroadcast));
        for first in [0, 127, 224, 240, 255] {
            assert_eq!(refused(&|p| p[12] = first, host), Some(Refusal::Source), "{first}");
        }
        assert_eq!(refused(&|p| p[15] = 255, host), Some(Refusal::Source), "listed");
        assert_eq!(refused(&|p| p[16] = 224, host), Some(Refusal::Destination));
        assert_eq!(refused(&|p| p[16..20].fill(255), host), Some(Refusal::Destination));
        assert_eq!(
            refused(&|p| p[16..20].copy_from_slice(&[10, 0, 0, 255]), host),
            Some(Refusal::Destination)
        );
        assert_eq!(refused(&|p| p[0] = 0x65, host), Some(Refusal::NoHeader));
        assert_eq!(refused(&|p| p.truncate(27), host), Some(Refusal::NoHeader));
        let icmp = |kind: u8| refused(&move |p: &mut Vec<u8>| (p[9], p[20]) = (1, kind), host);
        for kind in 0..=255 {
            let query = [0, 8, 13, 14, 15, 16, 17, 18].contains(&kind);
            assert_eq!(icmp(kind), (!query).then_some(Refusal::Icmp), "{kind}");
            assert!(!(query && icmp::is_error(kind)));
        }
        let bare = |p: &mut Vec<u8>| {
            (p[9], p[3]) = (1, 20);
            p.truncate(20);
        };
        assert_eq!(refused(&bare, host), Some(Refusal::Icmp), "no type to be seen");
    }

    #[test]
    fn a_travelled_source_route_is_reversed() {
        // Two of three hops are travelled.
        let mut option = vec![131, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0];
        let got = answer(&message(11, 0), &packet(&option, 8), [0; 4]);
        assert_eq!((got[0], &got[16..20]), (0x48, &[2, 2, 2, 2][..]));
        assert_eq!(got[20..32], [131, 11, 4, 1, 1, 1, 1, 10, 0, 0, 1, 0]);
        assert_eq!(got[32], 11);
        // None is travelled: straight back.
        option[2] = 4;
        assert_eq!(answer(&message(11, 0), &packet(&option, 8), [0; 4])[16..20], [10, 0, 0, 1]);
        // The origin put itself first.
        let own = [137, 11, 12, 10, 0, 0, 1, 2, 2, 2, 2, 0];
        let got = answer(&message(11, 0), &packet(&own, 8), [0; 4]);
        assert_eq!((&got[16..20], &got[20..28]), (&[2, 2, 2, 2][..], &[137, 7, 4, 10, 0, 0, 1, 0][..]));
        // The message is about the option itself, or about another.
        assert_eq!(answer(&message(12, 0), &packet(&own, 8), [22, 0, 0, 0])[0], 0x45);
        assert_eq!(answer(&message(12, 0), &packet(&own, 8), [40, 0, 0, 0])[0], 0x47);
    }
}
