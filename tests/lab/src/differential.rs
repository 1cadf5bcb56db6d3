//! The same packets through two routers: every difference must have been foreseen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::Range;

use crate::exchange::{Arrival, CHUNK, Exchange};
use crate::packets::{ICMP, Mac, TCP};
use crate::random_packets::Sent;
use crate::report::{self, thousands};
use crate::topology::Link;
use crate::view::{Frame, Packet, hex_dump};
use crate::{Error, Result};
use std::time::Duration;

/// How long a router may still send something after its chunk, before a difference counts.
const GRACE: Duration = Duration::from_millis(40);
/// How many unforeseen differences are described in full.
const DESCRIBED: usize = 20;
/// How many sorts of them are listed.
const SORTS: usize = 60;

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
        source: Ipv4Addr,
        /// Whom it tells.
        destination: Ipv4Addr,
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
        source: Ipv4Addr,
        /// Whom it tells.
        destination: Ipv4Addr,
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
    /// If the frame is something that no router may send: not IPv4, a wrong checksum, from a wrong link address.
    pub fn read(arrival: &Arrival) -> Result<(u16, Output)> {
        let link = Link { port: arrival.port };
        let wrong = |what: &str| {
            Error::new(format!("{what}, out of port {}\n{}", arrival.port, hex_dump(&arrival.frame)))
        };
        let frame = Frame::parse(&arrival.frame).ok_or_else(|| wrong("less than an Ethernet header"))?;
        let ip = frame.ip().ok_or_else(|| wrong("no well-formed IPv4 packet"))?;
        if !ip.checksum_is_right() {
            return Err(wrong("a wrong IP checksum"));
        }
        if frame.from != link.router_mac() {
            return Err(wrong("a frame that is not from the router"));
        }
        let (port, to) = (arrival.port, frame.to);
        if !Link::all().iter().any(|link| link.router() == ip.source()) {
            return Ok((ip.id(), Output::Forwarded { port, to, packet: without_times(ip) }));
        }
        let (source, destination) = (ip.source(), ip.destination());
        if let Some(message) = ip.icmp().filter(|message| message.is_error()) {
            if !message.checksum_is_right() {
                return Err(wrong("a wrong ICMP checksum"));
            }
            let about =
                Packet::quoted(message.data()).ok_or_else(|| wrong("an ICMP error that quotes no packet"))?;
            let (kind, code, rest) = (message.kind(), message.code(), message.rest());
            let quote = without_times(about);
            return Ok((
                about.id(),
                Output::Error { port, to, source, destination, kind, code, rest, quote },
            ));
        }
        let payload = ip.payload().to_vec();
        let protocol = ip.protocol();
        Ok((cause_of(&ip), Output::Own { port, to, source, destination, protocol, payload }))
    }

    /// One line for a person.
    pub fn describe(&self) -> String {
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
                None => format!("sent on by port {port} to {to}: {} octets", packet.len()),
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
    fn sort(&self) -> String {
        match self {
            Output::Forwarded { .. } => "sent on".to_owned(),
            Output::Error { kind, code, .. } => format!("ICMP {kind}/{code}"),
            Output::Own { protocol, .. } => format!("own protocol {protocol}"),
        }
    }

    /// The same line, and the first octets below it.
    fn dump(&self) -> String {
        let octets = match self {
            Output::Forwarded { packet, .. } => packet,
            Output::Error { quote, .. } => quote,
            Output::Own { payload, .. } => payload,
        };
        format!("{}\n{}", self.describe(), hex_dump(&octets[..octets.len().min(64)]))
    }
}

/// For an answer of the router's own, the identification of the packet that it answers: the generator writes it
/// into the sequence number of echo requests and into TCP source ports.
fn cause_of(ip: &Packet) -> u16 {
    let body = ip.payload();
    let at = match ip.protocol() {
        ICMP if body.first() == Some(&0) => 6,
        TCP if body.get(13).is_some_and(|flags| flags & 4 != 0) => 2,
        _ => return ip.id(),
    };
    body.get(at..at + 2).map_or(ip.id(), |word| u16::from_be_bytes([word[0], word[1]]))
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

/// What two routers made of one packet, when it is not the same.
#[derive(Debug)]
pub struct Difference<'a> {
    /// The packet.
    pub sent: &'a Sent,
    /// Outputs of the router under test, in order of [`Output`].
    pub ours: &'a [Output],
    /// Outputs of the reference.
    pub theirs: &'a [Output],
}

/// A difference that is foreseen.
pub struct Foreseen {
    /// In a few words.
    pub name: &'static str,
    /// The section that allows or demands what we do.
    pub rfc: &'static str,
    /// Why the two differ.
    pub why: &'static str,
    /// Whether a difference is of this sort.
    pub matches: fn(&Difference) -> bool,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Packets sent.
    pub sent: usize,
    /// Packets for which the reference sent something on, answered with an error or otherwise, or kept silent.
    pub forwarded: usize,
    /// See above.
    pub refused: usize,
    /// See above.
    pub answered: usize,
    /// See above.
    pub dropped: usize,
    /// Differences by name of [`Foreseen`].
    pub foreseen: BTreeMap<&'static str, usize>,
    /// Differences that nobody foresaw.
    pub unforeseen: usize,
    /// How many of them there are of each sort: what is special about the packet, and what the two made of it.
    pub sorts: BTreeMap<String, usize>,
    /// The first of them, in full.
    pub descriptions: Vec<String>,
}

impl Comparison {
    /// Passes `packets` through both routers, a chunk at a time, and compares packet by packet.
    ///
    /// # Errors
    /// If a router stops forwarding, or sends something that no router may send or that belongs to no packet.
    pub fn run(
        ours: &mut Exchange,
        theirs: &mut Exchange,
        packets: &[Sent],
        list: &[Foreseen],
    ) -> Result<Comparison> {
        let mut comparison = Comparison::default();
        for chunk in packets.chunks(CHUNK) {
            let mut a = Outputs::of(ours, chunk)?;
            let mut b = Outputs::of(theirs, chunk)?;
            let unforeseen = |sent: &Sent| {
                let (ours, theirs) = (a.get(sent.id), b.get(sent.id));
                ours != theirs && find(list, &Difference { sent, ours, theirs }).is_none()
            };
            if chunk.iter().any(unforeseen) {
                a.add(&ours.settle(GRACE)?)?;
                b.add(&theirs.settle(GRACE)?)?;
            }
            for sent in chunk {
                let (ours, theirs) = (a.take(sent.id), b.take(sent.id));
                comparison.note(&Difference { sent, ours: &ours, theirs: &theirs }, list);
            }
            a.nothing_left()?;
            b.nothing_left()?;
        }
        Ok(comparison)
    }

    fn note(&mut self, difference: &Difference, list: &[Foreseen]) {
        self.sent += 1;
        match difference.theirs.first() {
            Some(Output::Forwarded { .. }) => self.forwarded += 1,
            Some(Output::Error { .. }) => self.refused += 1,
            Some(Output::Own { .. }) => self.answered += 1,
            None => self.dropped += 1,
        }
        if difference.ours == difference.theirs {
            return;
        }
        if let Some(foreseen) = find(list, difference) {
            *self.foreseen.entry(foreseen.name).or_default() += 1;
            return;
        }
        self.unforeseen += 1;
        *self.sorts.entry(difference.sort()).or_default() += 1;
        if self.descriptions.len() < DESCRIBED {
            self.descriptions.push(difference.describe());
        }
    }

    /// The counts, the table of foreseen differences, and the unforeseen ones with hex dumps.
    pub fn report(&self, list: &[Foreseen]) -> String {
        let mut text = format!(
            "{} packets: {} forwarded, {} refused with an ICMP error, {} answered, {} dropped by the reference\n\n",
            thousands(self.sent),
            thousands(self.forwarded),
            thousands(self.refused),
            thousands(self.answered),
            thousands(self.dropped)
        );
        let rows: Vec<Vec<String>> = list
            .iter()
            .map(|foreseen| {
                let count = self.foreseen.get(foreseen.name).copied().unwrap_or(0);
                vec![
                    thousands(count),
                    foreseen.name.to_owned(),
                    foreseen.rfc.to_owned(),
                    foreseen.why.to_owned(),
                ]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str(&report::table(&["count", "foreseen difference", "see", "why"], &rows));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} unforeseen differences", thousands(self.unforeseen));
        let mut sorts: Vec<_> = self.sorts.iter().collect();
        sorts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let row = |(sort, count): &(&String, &usize)| vec![thousands(**count), (*sort).clone()];
        let rows: Vec<Vec<String>> = sorts.iter().take(SORTS).map(row).collect();
        if !rows.is_empty() {
            text.push_str(&report::table(&["count", "sort"], &rows));
        }
        for description in &self.descriptions {
            text.push('\n');
            text.push_str(description);
        }
        text
    }
}

/// What foresees a difference.
fn find<'a>(list: &'a [Foreseen], difference: &Difference) -> Option<&'a Foreseen> {
    list.iter().find(|foreseen| (foreseen.matches)(difference))
}

impl Difference<'_> {
    fn sort(&self) -> String {
        let all = |outputs: &[Output]| match outputs {
            [] => "nothing".to_owned(),
            some => some.iter().map(Output::sort).collect::<Vec<_>>().join(" + "),
        };
        format!("{}: {}, reference {}", self.sent.notes.join(", "), all(self.ours), all(self.theirs))
    }

    fn describe(&self) -> String {
        let Sent { id, port, frame, notes } = self.sent;
        let mut text =
            format!("packet {id} into port {port}, {} octets: {}\n", frame.len(), notes.join(", "));
        text.push_str(&hex_dump(&frame[..frame.len().min(128)]));
        for (who, outputs) in [("under test", self.ours), ("reference", self.theirs)] {
            if outputs.is_empty() {
                text.push_str(&format!("{who}: nothing\n"));
            }
            for output in outputs {
                text.push_str(&format!("{who}: {}", output.dump()));
            }
        }
        text
    }
}

/// What came out of one router for one chunk, by identification.
struct Outputs(BTreeMap<u16, Vec<Output>>);

impl Outputs {
    fn of(exchange: &mut Exchange, chunk: &[Sent]) -> Result<Outputs> {
        let mut outputs = Outputs(BTreeMap::new());
        outputs.add(&exchange.pass(chunk.iter().map(|sent| (sent.port, sent.frame.as_slice())))?)?;
        Ok(outputs)
    }

    fn add(&mut self, arrivals: &[Arrival]) -> Result<()> {
        for arrival in arrivals {
            let (id, output) = Output::read(arrival)?;
            let outputs = self.0.entry(id).or_default();
            outputs.push(output);
            outputs.sort();
        }
        Ok(())
    }

    fn get(&self, id: u16) -> &[Output] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, id: u16) -> Vec<Output> {
        self.0.remove(&id).unwrap_or_default()
    }

    fn nothing_left(&self) -> Result<()> {
        match self.0.iter().next() {
            None => Ok(()),
            Some((id, outputs)) => {
                let described: String = outputs.iter().map(Output::dump).collect();
                Err(Error::new(format!(
                    "something came out for packet {id}, which was not sent:\n{described}"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
