//! A generated capture of good and bad packets, and exactly what must become of each.
//!
//! It comes from the network behind h1: many sources, so that a router which limits its ICMP errors per source is
//! not disturbed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::checks::Check;
use crate::exchange::{Arrival, CHUNK, Exchange};
use crate::packets::{DONT_FRAGMENT, ETHERTYPE_IP, Ip, Mac, TCP, UDP, ethernet, tcp, udp};
use crate::report::thousands;
use crate::rng::Rng;
use crate::table::RouteTable;
use crate::topology::{Link, MTU, SMALL_MTU};
use crate::view::Frame;
use crate::{Error, Result};

/// The port into which the capture is sent: that of h1.
pub const INPUT: usize = 0;
/// The port behind the link with the small MTU.
const SMALL: usize = 2;

/// What must become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves by `port` in so many pieces, with its TTL one less.
    Forwarded {
        /// Port of the router.
        port: usize,
        /// 1, or the number of fragments.
        pieces: usize,
    },
    /// The sender gets an ICMP error of this type and one of these codes.
    Refused {
        /// ICMP type.
        kind: u8,
        /// ICMP codes that are right.
        codes: &'static [u8],
    },
    /// Nothing comes out.
    Dropped,
}

/// What sort of packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "Kind::title says in words what each is")]
pub enum Kind {
    ToHost,
    ToPrefix,
    TooBigToCut,
    TooBigMayBeCut,
    LastHop,
    NoRoute,
    WrongChecksum,
    WrongVersion,
    ShortHeader,
    LongerThanFrame,
    Truncated,
    BadSource,
    NotForUs,
    Broadcast,
}

/// Every kind with its share in per cent.
const MIX: [(Kind, u32); 14] = [
    (Kind::ToHost, 15),
    (Kind::ToPrefix, 45),
    (Kind::TooBigToCut, 4),
    (Kind::TooBigMayBeCut, 4),
    (Kind::LastHop, 4),
    (Kind::NoRoute, 4),
    (Kind::WrongChecksum, 4),
    (Kind::WrongVersion, 3),
    (Kind::ShortHeader, 3),
    (Kind::LongerThanFrame, 3),
    (Kind::Truncated, 2),
    (Kind::BadSource, 3),
    (Kind::NotForUs, 3),
    (Kind::Broadcast, 3),
];

impl Kind {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Kind::ToHost => "to a host",
            Kind::ToPrefix => "to a prefix of the table",
            Kind::TooBigToCut => "too big, DF",
            Kind::TooBigMayBeCut => "too big, no DF",
            Kind::LastHop => "TTL 1",
            Kind::NoRoute => "no route",
            Kind::WrongChecksum => "wrong checksum",
            Kind::WrongVersion => "version not 4",
            Kind::ShortHeader => "header length below 5",
            Kind::LongerThanFrame => "total length over frame",
            Kind::Truncated => "truncated header",
            Kind::BadSource => "source is no host",
            Kind::NotForUs => "other station's frame",
            Kind::Broadcast => "link broadcast",
        }
    }

    /// Why routebricks loses it; `None` if it does not.
    fn loss(self) -> Option<&'static str> {
        Some(match self {
            Kind::WrongChecksum => "bad_checksum",
            Kind::WrongVersion => "bad_version",
            Kind::ShortHeader => "bad_header_length",
            Kind::LongerThanFrame => "bad_length",
            Kind::Truncated => "short",
            Kind::BadSource => "bad_source",
            Kind::NotForUs => "other_host",
            Kind::Broadcast => "broadcast",
            _ => return None,
        })
    }

    /// In words what comes out.
    fn outcome(self) -> &'static str {
        match self {
            Kind::ToHost | Kind::ToPrefix => "forwarded",
            Kind::TooBigToCut => "fragmentation needed",
            Kind::TooBigMayBeCut => "fragments",
            Kind::LastHop => "time exceeded",
            Kind::NoRoute => "unreachable",
            _ => "out",
        }
    }
}

/// One packet of the capture.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its sort.
    pub kind: Kind,
    /// All of it.
    pub frame: Vec<u8>,
    /// What must become of it.
    pub fate: Fate,
}

/// A capture of `count` packets, determined by `seed` and the routing table.
pub fn plan(count: usize, seed: u64, table: &RouteTable) -> Result<Vec<Planned>> {
    let mut maker = Maker { rng: Rng::new(seed), table };
    (0..count).map(|number| maker.packet(id_of(number))).collect()
}

/// How many packets can be told from each other: identifications are never 0 or that of a sentinel.
const IDS: usize = 60_000;

/// The identification of the `number`th packet: unique among [`IDS`] that follow each other.
fn id_of(number: usize) -> u16 {
    (number % IDS) as u16 + 1
}

/// Which of `count` packets from `start` on has identification `id`.
fn place_of(id: u16, start: usize, count: usize) -> Option<usize> {
    let number = usize::from(id).checked_sub(1).filter(|number| *number < IDS)?;
    let place = (number + IDS - start % IDS) % IDS;
    (place < count).then_some(place)
}

struct Maker<'a> {
    rng: Rng,
    table: &'a RouteTable,
}

impl Maker<'_> {
    fn packet(&mut self, id: u16) -> Result<Planned> {
        let kind = self.rng.weighted(&MIX);
        let (mut ip, fate) = match kind {
            Kind::ToHost => self.for_host(id),
            Kind::ToPrefix => self.for_prefix(id)?,
            Kind::TooBigToCut | Kind::TooBigMayBeCut => self.too_big(id, kind)?,
            Kind::LastHop => {
                let (ip, _) = self.for_prefix(id)?;
                (Ip { ttl: 1, ..ip }, Fate::Refused { kind: 11, codes: &[0] })
            }
            Kind::NoRoute => {
                let hole = self.table.hole(&mut self.rng)?;
                (self.udp(id, hole, 64), Fate::Refused { kind: 3, codes: &[0, 1] })
            }
            _ => (self.for_prefix(id)?.0, Fate::Dropped),
        };
        self.spoil(kind, &mut ip);
        let link = Link { port: INPUT };
        let to = match kind {
            Kind::NotForUs => Mac([2, 0, 0, 0, 9, 9]),
            Kind::Broadcast => Mac::BROADCAST,
            _ => link.router_mac(),
        };
        let mut frame = ethernet(to, link.host_mac(), ETHERTYPE_IP, &ip.build());
        if kind == Kind::Truncated {
            frame.truncate(self.rng.within(15..=33) as usize);
        }
        Ok(Planned { kind, frame, fate })
    }

    fn spoil(&mut self, kind: Kind, ip: &mut Ip) {
        match kind {
            Kind::WrongChecksum => ip.checksum = Some(self.wrong_checksum(ip)),
            Kind::WrongVersion => ip.version = self.rng.pick(&[0, 1, 3, 5, 6, 15]),
            Kind::ShortHeader => ip.header_words = Some(self.rng.within(0..=4) as u8),
            Kind::LongerThanFrame => {
                ip.total_length = Some((20 + ip.payload.len()) as u16 + self.rng.within(1..=500) as u16);
            }
            Kind::BadSource => {
                let sources = [[127, 0, 0, 1], [127, 9, 8, 7], [224, 0, 0, 5], [239, 1, 2, 3], [255; 4]];
                ip.source = Ipv4Addr::from(self.rng.pick(&sources));
            }
            _ => {}
        }
    }

    fn wrong_checksum(&mut self, ip: &Ip) -> u16 {
        let bytes = ip.build();
        let right = u16::from_be_bytes([bytes[10], bytes[11]]);
        // 0 and ffff mean the same in ones' complement; changing one bit of the middle avoids that.
        right ^ (1 << self.rng.within(1..=14))
    }

    fn udp(&mut self, id: u16, destination: Ipv4Addr, size: usize) -> Ip {
        let source = Link { port: INPUT }.behind().any(&mut self.rng);
        let data = self.rng.octets(size.saturating_sub(28));
        let datagram = udp((source, self.rng.word()), (destination, self.rng.word()), &data);
        Ip::new(source, destination, id, UDP, datagram)
    }

    /// A reset, which the host takes without a word.
    fn for_host(&mut self, id: u16) -> (Ip, Fate) {
        let source = Link { port: INPUT }.behind().any(&mut self.rng);
        let link = Link { port: self.rng.pick(&[1, SMALL]) };
        let data = self.rng.within(0..=1300) as usize;
        let data = self.rng.octets(data);
        let segment = tcp((source, self.rng.word()), (link.host(), self.rng.word()), 4, &data);
        (Ip::new(source, link.host(), id, TCP, segment), Fate::Forwarded { port: link.port, pieces: 1 })
    }

    fn for_prefix(&mut self, id: u16) -> Result<(Ip, Fate)> {
        let (destination, port) = self.destination(&[1, SMALL])?;
        let size = self.rng.within(28..=u32::from(SMALL_MTU)) as usize;
        Ok((self.udp(id, destination, size), Fate::Forwarded { port, pieces: 1 }))
    }

    fn too_big(&mut self, id: u16, kind: Kind) -> Result<(Ip, Fate)> {
        let (destination, port) = self.destination(&[SMALL])?;
        let size = self.rng.within(u32::from(SMALL_MTU) + 1..=u32::from(MTU)) as usize;
        let mut ip = self.udp(id, destination, size);
        if kind == Kind::TooBigMayBeCut {
            return Ok((ip, Fate::Forwarded { port, pieces: 2 }));
        }
        ip.fragment = DONT_FRAGMENT;
        Ok((ip, Fate::Refused { kind: 3, codes: &[4] }))
    }

    /// An address behind a gateway at one of `ports`, and which port that is.
    fn destination(&mut self, ports: &[usize]) -> Result<(Ipv4Addr, usize)> {
        let routes = self.table.routes();
        for _ in 0..10_000 {
            let address = routes[self.rng.index(routes.len())].prefix.any(&mut self.rng);
            match self.table.lookup(address) {
                Some(route) if route.gateway.is_some() && ports.contains(&route.port) => {
                    return Ok((address, route.port));
                }
                _ => {}
            }
        }
        Err(Error::new(format!("the routing table has no gateways at ports {ports:?}")))
    }
}

/// What became of the packets of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: usize,
    expected_out: usize,
    right_out: usize,
    wrong_out: usize,
}

/// Sends the capture and checks, kind by kind, that exactly the right packets came out.
pub fn run(exchange: &mut Exchange, plan: &[Planned]) -> Result<Vec<Check>> {
    let mut verdicts = Verdicts::default();
    for (number, chunk) in plan.chunks(CHUNK).enumerate() {
        let arrivals = exchange.pass(chunk.iter().map(|planned| (INPUT, planned.frame.as_slice())))?;
        verdicts.add(number * CHUNK, chunk, &arrivals);
    }
    Ok(verdicts.checks())
}

/// What became of the packets so far, by kind.
#[derive(Debug, Default)]
struct Verdicts {
    tallies: BTreeMap<Kind, Tally>,
    strange: usize,
}

impl Verdicts {
    /// Notes what came out for a chunk of the capture that begins with packet `start`.
    fn add(&mut self, start: usize, chunk: &[Planned], arrivals: &[Arrival]) {
        let mut by_number: BTreeMap<usize, Vec<&Arrival>> = BTreeMap::new();
        for arrival in arrivals {
            let id = quoted_or_own_id(&arrival.frame);
            match id.and_then(|id| place_of(id, start, chunk.len())) {
                Some(place) => by_number.entry(place).or_default().push(arrival),
                None => self.strange += 1,
            }
        }
        for (place, planned) in chunk.iter().enumerate() {
            let out = by_number.remove(&place).unwrap_or_default();
            note(self.tallies.entry(planned.kind).or_default(), planned, &out);
        }
    }

    fn checks(self) -> Vec<Check> {
        let mut checks: Vec<Check> =
            self.tallies.into_iter().map(|(kind, tally)| verdict(kind, tally)).collect();
        checks.push(Check::same("replay: anything else out", "0", self.strange));
        checks
    }
}

/// Checks that a router has lost nothing but the bad packets of the capture, each for the right reason. `lost` is what
/// it counted, by `element.reason`.
pub fn judge_losses(plan: &[Planned], lost: &BTreeMap<String, u64>) -> Vec<Check> {
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in plan.iter().filter_map(|planned| planned.kind.loss()) {
        *expected.entry(reason).or_default() += 1;
    }
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, packets) in lost {
        *seen.entry(name.rsplit_once('.').map_or(name.as_str(), |(_, reason)| reason)).or_default() +=
            packets;
    }
    let reasons: BTreeSet<&str> = expected.keys().chain(seen.keys()).copied().collect();
    let count =
        |list: &BTreeMap<&str, u64>, reason| thousands(list.get(reason).copied().unwrap_or(0) as usize);
    let check =
        |reason| Check::same(format!("lost: {reason}"), count(&expected, reason), count(&seen, reason));
    reasons.into_iter().map(check).collect()
}

fn note(tally: &mut Tally, planned: &Planned, out: &[&Arrival]) {
    tally.sent += 1;
    let right = out.iter().filter(|arrival| is_right(planned, arrival)).count();
    tally.expected_out += match planned.fate {
        Fate::Forwarded { pieces, .. } => pieces,
        Fate::Refused { .. } => 1,
        Fate::Dropped => 0,
    };
    tally.right_out += right;
    tally.wrong_out += out.len() - right;
}

fn verdict(kind: Kind, tally: Tally) -> Check {
    let word = kind.outcome();
    let name = format!("replay: {} {}", thousands(tally.sent), kind.title());
    let mut seen = format!("{} {word}", thousands(tally.right_out));
    if tally.wrong_out > 0 {
        seen.push_str(&format!(", {} wrong", thousands(tally.wrong_out)));
    }
    Check::same(name, format!("{} {word}", thousands(tally.expected_out)), seen)
}

/// The identification of a forwarded packet, or of the one which an ICMP error quotes.
fn quoted_or_own_id(frame: &[u8]) -> Option<u16> {
    let ip = Frame::parse(frame)?.ip()?;
    match ip.icmp().filter(|message| message.is_error()) {
        Some(message) => Some(crate::view::Packet::quoted(message.data())?.id()),
        None => Some(ip.id()),
    }
}

/// Whether `arrival` is what must come out for `planned`, octet by octet as far as that can be foretold.
fn is_right(planned: &Planned, arrival: &Arrival) -> bool {
    right(planned, arrival).unwrap_or(false)
}

fn right(planned: &Planned, arrival: &Arrival) -> Option<bool> {
    let link = Link { port: arrival.port };
    let frame = Frame::parse(&arrival.frame)?;
    let (ip, sent) = (frame.ip()?, Frame::parse(&planned.frame)?.ip()?);
    let framed = frame.to == link.host_mac() && frame.from == link.router_mac() && ip.checksum_is_right();
    let it_is = match planned.fate {
        Fate::Forwarded { port, pieces } => {
            let part = sent.payload().get(ip.offset()..ip.offset() + ip.payload().len());
            let whole = pieces > 1 || ip.payload().len() == sent.payload().len();
            let addressed = ip.source() == sent.source() && ip.destination() == sent.destination();
            port == arrival.port
                && ip.ttl() == sent.ttl() - 1
                && part == Some(ip.payload())
                && whole
                && addressed
        }
        Fate::Refused { kind, codes } => {
            let message = ip.icmp()?;
            let mtu = u16::from_be_bytes([message.rest()[2], message.rest()[3]]);
            let typed = message.kind() == kind && codes.contains(&message.code());
            let to_sender = arrival.port == INPUT && ip.destination() == sent.source();
            let from_us = ip.source() == Link { port: INPUT }.router();
            let sized = message.code() != 4 || mtu == SMALL_MTU;
            typed && to_sender && from_us && sized && message.checksum_is_right()
        }
        Fate::Dropped => false,
    };
    Some(framed && it_is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::synthetic;

    fn table() -> RouteTable {
        let hops = [(Ipv4Addr::new(10, 0, 2, 2), 1), (Ipv4Addr::new(10, 0, 3, 2), 2)];
        RouteTable::new(synthetic(100, 1, &hops))
    }

    #[test]
    fn a_seed_determines_the_capture_and_every_kind_occurs() {
        let (a, b) = (plan(2000, 4, &table()).unwrap(), plan(2000, 4, &table()).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| a.frame == b.frame && a.fate == b.fate));
        for (kind, share) in MIX {
            let count = a.iter().filter(|planned| planned.kind == kind).count();
            assert!(count > 0 && count.abs_diff(20 * share as usize) < 150, "{kind:?}: {count}");
        }
    }

    #[test]
    fn losses_are_expected_by_reason() {
        let plan = plan(500, 4, &table()).unwrap();
        let count = |kind| plan.iter().filter(|planned| planned.kind == kind).count() as u64;
        let kinds = MIX.iter().map(|(kind, _)| *kind);
        let mut lost: BTreeMap<String, u64> =
            kinds.filter_map(|kind| Some((format!("a/b@1.{}", kind.loss()?), count(kind)))).collect();
        let held = |lost: &BTreeMap<String, u64>| {
            judge_losses(&plan, lost).iter().filter(|check| check.holds).count()
        };
        assert_eq!((lost.len(), held(&lost)), (8, 8));
        lost.insert("c.full".to_owned(), 1);
        lost.insert("d.short".to_owned(), 1);
        assert_eq!((judge_losses(&plan, &lost).len(), held(&lost)), (9, 7));
    }

    #[test]
    fn packets_are_found_by_their_identification() {
        for (start, count) in [(0, 5), (59_998, 5), (120_003, 60_000)] {
            let found = (start..start + count).map(|number| place_of(id_of(number), start, count));
            assert!(found.eq((0..count).map(Some)), "{start}");
        }
        assert_eq!([0, 6, 0xffff].map(|id| place_of(id, 0, 5)), [None; 3]);
    }

    #[test]
    fn a_forwarded_packet_is_right_only_with_its_ttl_one_less_at_the_right_port() {
        let planned = plan(50, 4, &table()).unwrap();
        let planned = planned.iter().find(|planned| planned.kind == Kind::ToPrefix).unwrap();
        let Fate::Forwarded { port, .. } = planned.fate else { panic!("{planned:?}") };
        let link = Link { port };
        let sent = Frame::parse(&planned.frame).unwrap().ip().unwrap();
        let arrival = |ttl, port| {
            let mut ip = Ip::new(sent.source(), sent.destination(), sent.id(), UDP, sent.payload().to_vec());
            ip.ttl = ttl;
            Arrival { port, frame: ethernet(link.host_mac(), link.router_mac(), ETHERTYPE_IP, &ip.build()) }
        };
        assert!(is_right(planned, &arrival(63, port)));
        assert!(!is_right(planned, &arrival(64, port)));
        assert!(!is_right(planned, &arrival(63, 3 - port)));
    }
}
