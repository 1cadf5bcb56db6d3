//! What a router sends, read back so that two routers can be compared.

use std::net::IpAddr;
use std::ops::Range;

use crate::exchange::Arrival;
use crate::packets::{ICMP, Mac, TCP};
use crate::packets6::{ETHERTYPE_IP6, ICMP6};
use crate::topology::Link;
use crate::view::{Frame, Packet, hex_dump};
use crate::view6::Packet6;
use crate::{Error, Result};

/// Something that a router sent, without what may differ between two runs of the same router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// A packet sent on, whole or as a fragment. Times in timestamp options are blanked, and then the checksum.
    Forwarded {
        /// Port by which it left.
        port: usize,
        /// Link address of the neighbour.
        to: Mac,
        /// Header and payload, without Ethernet padding.
        packet: Vec<u8>,
    },
    /// An ICMP error of the router's own.
    Error {
        /// Port by which it left.
        port: usize,
        /// Link address of the neighbour.
        to: Mac,
        /// The router's address.
        source: IpAddr,
        /// Whom it tells.
        destination: IpAddr,
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
        /// MTU, pointer or gateway.
        rest: [u8; 4],
        /// The start of the packet which it is about; times in timestamp options are blanked.
        quote: Vec<u8>,
    },
    /// Anything else from the router itself: echo replies, resets.
    Own {
        /// Port by which it left.
        port: usize,
        /// Link address of the neighbour.
        to: Mac,
        /// The router's address.
        source: IpAddr,
        /// Whom it tells.
        destination: IpAddr,
        /// IP protocol.
        protocol: u8,
        /// All behind the IP header.
        payload: Vec<u8>,
    },
}

impl Output {
    /// The identification of the packet which caused it, and the output itself.
    ///
    /// # Errors
    /// If the frame is something that no router may send: not IP, a wrong checksum, from a wrong link address.
    pub fn read(arrival: &Arrival) -> Result<(u16, Output)> {
        let link = Link { port: arrival.port };
        let wrong = |what: &str| {
            Error::new(format!("{what}, out of port {}\n{}", arrival.port, hex_dump(&arrival.frame)))
        };
        let frame = Frame::parse(&arrival.frame).ok_or_else(|| wrong("less than an Ethernet header"))?;
        if frame.from != link.router_mac() {
            return Err(wrong("a frame that is not from the router"));
        }
        let read = if frame.ethertype == ETHERTYPE_IP6 { Seen::of_ipv6 } else { Seen::of_ipv4 };
        let seen = read(&frame).map_err(wrong)?;
        let (port, to, source, destination) = (arrival.port, frame.to, seen.source, seen.destination);
        let output = match seen.kind {
            Kind::Forwarded { packet } => Output::Forwarded { port, to, packet },
            Kind::Error { kind, code, rest, quote } => {
                Output::Error { port, to, source, destination, kind, code, rest, quote }
            }
            Kind::Own { protocol, payload } => {
                Output::Own { port, to, source, destination, protocol, payload }
            }
        };
        Ok((seen.id, output))
    }

    /// One line for a person.
    fn describe(&self) -> String {
        match self {
            Output::Forwarded { port, to, packet } => match Packet::parse(packet) {
                Some(ip) => format!(
                    "sent on by port {port} to {to}: {} -> {}, {} octets, TTL {}, fragment {:#06x}",
                    ip.source(),
                    ip.destination(),
                    packet.len(),
                    ip.ttl(),
                    ip.fragment()
                ),
                None => match Packet6::parse(packet) {
                    Some(ip) => format!(
                        "sent on by port {port} to {to}: {} -> {}, {} octets, hop limit {}",
                        ip.source(),
                        ip.destination(),
                        packet.len(),
                        ip.hop_limit()
                    ),
                    None => format!("sent on by port {port} to {to}: {} octets", packet.len()),
                },
            },
            Output::Error { port, to, source, destination, kind, code, rest, quote } => format!(
                "ICMP type {kind} code {code} rest {rest:?} by port {port} to {to}: {source} -> {destination}, quotes \
                 {} octets",
                quote.len()
            ),
            Output::Own { port, to, source, destination, protocol, payload } => format!(
                "protocol {protocol} by port {port} to {to}: {source} -> {destination}, {} octets",
                payload.len()
            ),
        }
    }

    /// What sort of output it is, for counting.
    pub(crate) fn sort(&self) -> String {
        match self {
            Output::Forwarded { .. } => "sent on".to_owned(),
            Output::Error { kind, code, .. } => format!("ICMP {kind}/{code}"),
            Output::Own { protocol, .. } => format!("own protocol {protocol}"),
        }
    }

    /// The same line, and the first octets below it.
    pub(crate) fn dump(&self) -> String {
        let octets = match self {
            Output::Forwarded { packet, .. } => packet,
            Output::Error { quote, .. } => quote,
            Output::Own { payload, .. } => payload,
        };
        format!("{}\n{}", self.describe(), hex_dump(&octets[..octets.len().min(64)]))
    }
}

/// A packet out of a router, read as far as a comparison needs.
struct Seen {
    /// The identification of the packet that caused it.
    id: u16,
    source: IpAddr,
    destination: IpAddr,
    kind: Kind,
}

enum Kind {
    Forwarded { packet: Vec<u8> },
    Error { kind: u8, code: u8, rest: [u8; 4], quote: Vec<u8> },
    Own { protocol: u8, payload: Vec<u8> },
}

impl Seen {
    fn of_ipv4(frame: &Frame) -> std::result::Result<Seen, &'static str> {
        let ip = frame.ip().ok_or("no well-formed IPv4 packet")?;
        if !ip.checksum_is_right() {
            return Err("a wrong IP checksum");
        }
        let seen =
            |id, kind| Seen { id, source: ip.source().into(), destination: ip.destination().into(), kind };
        if !Link::all().iter().any(|link| link.router() == ip.source()) {
            return Ok(seen(ip.id(), Kind::Forwarded { packet: without_times(ip) }));
        }
        if let Some(message) = ip.icmp().filter(|message| message.is_error()) {
            if !message.checksum_is_right() {
                return Err("a wrong ICMP checksum");
            }
            let about = Packet::quoted(message.data()).ok_or("an ICMP error that quotes no packet")?;
            let (kind, code, rest) = (message.kind(), message.code(), message.rest());
            return Ok(seen(about.id(), Kind::Error { kind, code, rest, quote: without_times(about) }));
        }
        let (protocol, payload) = (ip.protocol(), ip.payload());
        let cause = if protocol == ICMP { id_of_echo(payload, 0) } else { id_of_reset(protocol, payload) };
        Ok(seen(cause.unwrap_or(ip.id()), Kind::Own { protocol, payload: payload.to_vec() }))
    }

    fn of_ipv6(frame: &Frame) -> std::result::Result<Seen, &'static str> {
        let ip = frame.ip6().ok_or("no well-formed IPv6 packet")?;
        let seen =
            |id, kind| Seen { id, source: ip.source().into(), destination: ip.destination().into(), kind };
        if !Link::all().iter().any(|link| link.is_router6(ip.source())) {
            return Ok(seen(ip.flow_label(), Kind::Forwarded { packet: ip.bytes().to_vec() }));
        }
        if let Some(message) = ip.icmp6() {
            if !message.checksum_is_right() {
                return Err("a wrong ICMPv6 checksum");
            }
            if message.is_error() {
                let about = Packet6::quoted(message.data()).ok_or("an ICMPv6 error that quotes no packet")?;
                let (kind, code, rest) = (message.kind(), message.code(), message.rest());
                let quote = about.bytes().to_vec();
                return Ok(seen(about.flow_label(), Kind::Error { kind, code, rest, quote }));
            }
        }
        let (protocol, payload) = (ip.next_header(), ip.payload());
        let cause = if protocol == ICMP6 { id_of_echo(payload, 129) } else { id_of_reset(protocol, payload) };
        Ok(seen(cause.unwrap_or(ip.flow_label()), Kind::Own { protocol, payload: payload.to_vec() }))
    }
}

/// The identification of the packet which an echo reply of this type answers: the generators write it into the sequence
/// number of echo requests.
fn id_of_echo(message: &[u8], reply: u8) -> Option<u16> {
    let word = message.get(6..8).filter(|_| message[0] == reply)?;
    Some(u16::from_be_bytes([word[0], word[1]]))
}

/// The same for a TCP reset: they write it into TCP source ports.
fn id_of_reset(protocol: u8, segment: &[u8]) -> Option<u16> {
    let is_reset = protocol == TCP && segment.get(13).is_some_and(|flags| flags & 4 != 0);
    is_reset.then(|| u16::from_be_bytes([segment[2], segment[3]]))
}

/// Where the timestamp options of an IPv4 packet lie, with all their bytes, as far as its options are sound.
pub fn timestamp_options(packet: &[u8]) -> Vec<Range<usize>> {
    let end = packet.first().map_or(0, |first| usize::from(first & 0x0f) * 4).min(packet.len());
    let (mut at, mut found) = (20, Vec::new());
    while at + 1 < end {
        let length = usize::from(packet[at + 1]);
        match packet[at] {
            0 => break,
            1 => at += 1,
            _ if length < 2 || at + length > end => break,
            kind => {
                if kind == 68 && length >= 4 {
                    found.push(at..at + length);
                }
                at += length;
            }
        }
    }
    found
}

/// The packet with the times in its timestamp options set to 0, and the checksum too if there are any.
fn without_times(ip: Packet) -> Vec<u8> {
    let mut bytes = ip.bytes().to_vec();
    for option in timestamp_options(&bytes) {
        let step = if bytes[option.start + 3] & 0x0f == 0 { 4 } else { 8 };
        // The time is the last word of each entry.
        for entry in bytes[option].get_mut(4..).unwrap_or_default().chunks_exact_mut(step) {
            entry[step - 4..].fill(0);
        }
        bytes[10..12].fill(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::packets::{ETHERTYPE_IP, Ip, UDP, ethernet, icmp};

    fn arrival(ip: &Ip) -> Arrival {
        let link = Link { port: 1 };
        Arrival { port: 1, frame: ethernet(link.host_mac(), link.router_mac(), ETHERTYPE_IP, &ip.build()) }
    }

    #[test]
    fn outputs_are_matched_to_their_cause() {
        let (router, host) = (Link { port: 1 }.router(), Link { port: 1 }.host());
        let sent = Ip::new(host, Ipv4Addr::new(9, 9, 9, 9), 321, UDP, vec![0; 8]);
        let (id, output) = Output::read(&arrival(&sent)).unwrap();
        assert_eq!(id, 321);
        assert!(matches!(output, Output::Forwarded { port: 1, .. }));

        let error = Ip::new(router, host, 7, ICMP, icmp(11, 0, [0; 4], &sent.build()));
        let (id, output) = Output::read(&arrival(&error)).unwrap();
        assert_eq!(id, 321);
        assert!(matches!(output, Output::Error { kind: 11, code: 0, .. }), "{output:?}");

        let reply = Ip::new(router, host, 7, ICMP, icmp(0, 0, [1, 2, 3, 4], b""));
        assert_eq!(Output::read(&arrival(&reply)).unwrap().0, 0x0304);
    }

    #[test]
    fn a_wrong_checksum_out_of_a_router_is_an_error() {
        let mut ip = Ip::new(Ipv4Addr::new(9, 9, 9, 9), Link { port: 1 }.host(), 1, UDP, vec![0; 8]);
        ip.checksum = Some(1);
        assert!(Output::read(&arrival(&ip)).unwrap_err().to_string().starts_with("a wrong IP checksum"));
    }

    #[test]
    fn only_times_are_blanked() {
        let mut ip = Ip::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 1, UDP, vec![5; 4]);
        ip.options = vec![1, 68, 12, 13, 1, 10, 0, 1, 1, 9, 9, 9, 9];
        let bytes = ip.build();
        let blanked = without_times(Packet::parse(&bytes).unwrap());
        assert_eq!(blanked[20..36], [1, 68, 12, 13, 1, 10, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(blanked[36..], [5; 4]);
        assert_eq!(blanked[10..12], [0, 0]);
        ip.options = vec![7, 7, 4, 1, 2, 3, 4];
        let bytes = ip.build();
        assert_eq!(without_times(Packet::parse(&bytes).unwrap()), bytes);
    }
}
