//! `PuntLimiter`: limits how many frames a control plane gets, so that no kind crowds out another.
//!
//! There are three kinds of frames, each with a limit of its own: a flood of pings or a scan of a network costs only what
//! is like it, and sessions of routing protocols stay up.
//! - *protocols*: BGP, OSPF, IS-IS (all 802.3 frames), BFD, RIP, PIM, VRRP, LDP, LLDP, IGMP and multicast listener
//!   discovery, DHCP;
//! - *neighbours*: ARP, and of ICMPv6 router and neighbour discovery and redirects;
//! - *others*: everything else.
//!
//! # Arguments
//! - `PROTOCOLS`: frames of protocols a second; 0 = no limit. Default 50000.
//! - `NEIGHBOURS`: frames of neighbours a second. Default 5000.
//! - `OTHERS`: other frames a second. Default 10000.
//!
//! Of each, a tenth of a second's worth may come at once.
//!
//! # Ports
//! One input, one output; push or pull. Packets must be Ethernet frames.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `protocols`, `neighbours`, `others` | rw | limit in frames a second; 0 = none; written empty, the default |
//! | `table` | r | lines of kind, frames passed, frames lost, limit |
//!
//! # Losses
//! - `protocols`: more frames of protocols than may be.
//! - `neighbours`: more frames of neighbours than may be.
//! - `others`: more other frames than may be.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 0806 00010800060400010200000000020a0000020000000000000a000001>, LIMIT 30)
//!   -> limit :: PuntLimiter(NEIGHBOURS 100) -> c :: Counter -> Discard;
//! // c.count = 10
//! ```

use crate::icmp::rate::Rate;
use epoch::{Count, PerWorker};
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Nanos, Out, Simple, Spec,
    value,
};
use packet::Batch;
use packet::wire::ethernet::{self, Header};
use packet::wire::ipv4::{self, Ipv4};
use packet::wire::ipv6::{self, Ipv6};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a frame is, and for which reason it is lost if there are too many of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Protocols = 0,
    Neighbours = 1,
    Others = 2,
}

/// EtherTypes below are lengths (IEEE 802.3).
const LEAST_ETHERTYPE: u16 = 0x600;
/// VLAN tags that are looked behind.
const MOST_TAGS: usize = 2;
const LLDP: u16 = 0x88cc;
/// IGMP, PIM, OSPF, VRRP.
const PROTOCOLS: [u8; 4] = [2, 103, 89, 112];
const BGP: u16 = 179;
/// DHCP, RIP, DHCPv6, RIPng, LDP, BFD of one hop, echo, and several hops.
const UDP_PORTS: [u16; 10] = [67, 68, 520, 546, 547, 521, 646, 3784, 3785, 4784];
const LDP: u16 = 646;
/// ICMPv6: router solicitation to redirect.
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// ICMPv6: multicast listener query, report, done; version 2 report.
const LISTENERS: [u8; 4] = [130, 131, 132, 143];

fn kind(frame: &[u8]) -> Kind {
    let Some(header) = Header::parse(frame) else { return Kind::Others };
    let mut ethertype = header.ethertype;
    let mut packet = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
    for _ in 0..MOST_TAGS {
        if ![ethernet::VLAN, ethernet::SERVICE_VLAN].contains(&ethertype) {
            break;
        }
        let Some((&[_, _, a, b], rest)) = packet.split_first_chunk() else { return Kind::Others };
        (ethertype, packet) = (u16::from_be_bytes([a, b]), rest);
    }
    match ethertype {
        ethernet::ARP => Kind::Neighbours,
        ethernet::IPV4 => Ipv4::new(packet).map_or(Kind::Others, |ip| {
            // A later fragment has no ports.
            let rest = packet.get(ip.header_len()..).filter(|_| !ip.is_fragment()).unwrap_or_default();
            kind_of_protocol(ip.protocol(), rest)
        }),
        ethernet::IPV6 => Ipv6::new(packet).map_or(Kind::Others, |ip| of_ipv6(ip.next_header(), packet)),
        LLDP => Kind::Protocols,
        length if length < LEAST_ETHERTYPE => Kind::Protocols,
        _ => Kind::Others,
    }
}

fn of_ipv6(mut next: u8, packet: &[u8]) -> Kind {
    let mut rest = packet.get(ipv6::HEADER_LEN..).unwrap_or_default();
    // Multicast listener discovery has a router alert in front (RFC 3810 §5).
    if next == ipv6::HOP_BY_HOP
        && let Some(&[protocol, words]) = rest.first_chunk()
    {
        next = protocol;
        rest = rest.get(8 + 8 * usize::from(words)..).unwrap_or_default();
    }
    match (next, rest.first()) {
        (ipv6::ICMP, Some(kind)) if DISCOVERY.contains(kind) => Kind::Neighbours,
        (ipv6::ICMP, Some(kind)) if LISTENERS.contains(kind) => Kind::Protocols,
        _ => kind_of_protocol(next, rest),
    }
}

/// `rest` is what follows the network header.
fn kind_of_protocol(protocol: u8, rest: &[u8]) -> Kind {
    let ports = rest.first_chunk::<4>().map(|&[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes));
    let is_ours = match (protocol, ports) {
        (ipv4::TCP, Some(ports)) => ports.iter().any(|port| [BGP, LDP].contains(port)),
        (ipv4::UDP, Some([_, destination])) => UDP_PORTS.contains(&destination),
        _ => PROTOCOLS.contains(&protocol),
    };
    if is_ours { Kind::Protocols } else { Kind::Others }
}

/// Whether a frame is one of routing protocols or neighbours.
pub fn is_urgent(frame: &[u8]) -> bool {
    kind(frame) != Kind::Others
}

/// By [`Kind`]: argument, handler, and limit in frames a second.
const KINDS: [(&str, &str, u32); 3] =
    [("PROTOCOLS", "protocols", 50_000), ("NEIGHBOURS", "neighbours", 5_000), ("OTHERS", "others", 10_000)];

/// See the module.
#[derive(Debug)]
pub struct PuntLimiter {
    /// By [`Kind`]; 0 = none.
    limits: [AtomicU32; 3],
    due: [AtomicU64; 3],
    /// By [`Kind`] what passed, and behind that what was lost.
    counts: PerWorker<[Count; 6]>,
}

/// One worker's part of [`PuntLimiter`].
#[derive(Debug)]
pub struct LocalPuntLimiter {
    shared: Arc<PuntLimiter>,
    worker: usize,
    /// What the limits come to, as last seen.
    rates: [(u32, Option<Rate>); 3],
}

impl Class for PuntLimiter {
    const SPEC: Spec =
        Spec { losses: &["protocols", "neighbours", "others"], ..Spec::new("PuntLimiter", "1/1", "a/a") };
    type Local = Agnostic<LocalPuntLimiter>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<PuntLimiter, ConfigErrors> {
        let limits = KINDS.map(|(name, _, default)| AtomicU32::new(args.keyword(name, default)));
        args.finish()?;
        Ok(PuntLimiter { limits, due: Default::default(), counts: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalPuntLimiter { shared: self.clone(), worker: cx.worker, rates: Default::default() })
    }

    fn handlers(h: &mut Handlers<PuntLimiter>) {
        for (kind, (_, name, default)) in KINDS.into_iter().enumerate() {
            h.read(name, move |c| c.limits[kind].load(Relaxed).to_string());
            h.write(name, move |c, text, _| {
                let limit = if text.trim().is_empty() { default } else { value(text)? };
                c.limits[kind].store(limit, Relaxed);
                Ok(())
            });
        }
        h.read("table", PuntLimiter::table);
    }
}

impl PuntLimiter {
    fn table(&self) -> String {
        let mut text = String::new();
        for (kind, (_, name, _)) in KINDS.iter().enumerate() {
            let [passed, lost] = [kind, kind + KINDS.len()].map(|i| self.counts.sum(|c| c[i].get()));
            let _ = writeln!(text, "{name} {passed} {lost} {}", self.limits[kind].load(Relaxed));
        }
        text
    }

    fn admit(&self, frame: &[u8], rates: &[(u32, Option<Rate>); 3], now: Nanos) -> (Kind, bool) {
        let kind = kind(frame);
        let (limit, due) = (rates[kind as usize].1, &self.due[kind as usize]);
        (kind, limit.is_none_or(|limit| limit.take(due, now)))
    }
}

impl Simple for LocalPuntLimiter {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        for ((seen, rate), limit) in self.rates.iter_mut().zip(&shared.limits) {
            let limit = limit.load(Relaxed);
            if limit != *seen {
                (*seen, *rate) = (limit, Rate::new(limit, limit / 10));
            }
        }
        let counts = &shared.counts[self.worker];
        let admit = |frame: &[u8]| {
            let (kind, passes) = shared.admit(frame, &self.rates, cx.now);
            counts[kind as usize + if passes { 0 } else { KINDS.len() }].add(1);
            if passes { Ok(()) } else { Err(Loss(kind as u16)) }
        };
        batch.retain_ok(|packet| admit(packet.data()), |packet, loss| out.lose(packet, loss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Frame, Lab, bytes};

    fn frame(ethertype: &str, rest: &str) -> Vec<u8> {
        bytes(&format!("020000000001 020000000002 {ethertype} {rest}"))
    }

    fn ip(protocol: u8, fragment: u16, rest: &str) -> Vec<u8> {
        frame("0800", &format!("45000030 0001{fragment:04x} 40{protocol:02x}0000 0a000001 0a000002 {rest}"))
    }

    fn ip6(next: u8, rest: &str) -> Vec<u8> {
        frame("86dd", &format!("60000000 0010{next:02x}40 {} {rest}", "20".repeat(32)))
    }

    #[test]
    fn kinds() {
        let bgp = "9c40 00b3";
        for (kinds, frames) in [
            (
                Kind::Neighbours,
                vec![
                    frame("0806", "0001"),
                    frame("88a8", "0007 8100 0064 0806 0001"),
                    ip6(58, "87000000"),
                    ip6(58, "88000000"),
                ],
            ),
            (
                Kind::Protocols,
                vec![
                    ip(6, 0x4000, bgp),
                    ip(6, 0, "00b3 9c40"),
                    ip(89, 0, ""),
                    ip(17, 0, "c000 0ec8"),
                    ip6(6, bgp),
                    ip6(89, "03010000"),
                    ip6(0, "3a000502 00000100 8f000000"),
                    frame("0030", "fefe03"),
                    frame("88cc", "02"),
                    frame("8100", "0064 0800 45000030 00010000 40590000 0a000001 0a000002"),
                ],
            ),
            (
                Kind::Others,
                vec![
                    ip(1, 0, "08000000"),
                    ip(6, 0, "9c40 0016"),
                    ip(6, 0x0002, bgp),
                    ip(17, 0, "0ec8 c000"),
                    ip6(58, "80000000"),
                    ip6(0, "3a"),
                    frame("86dd", "60"),
                    frame("8847", ""),
                    vec![],
                ],
            ),
        ] {
            for frame in frames {
                assert_eq!(kind(&frame), kinds, "{frame:02x?}");
            }
        }
    }

    #[test]
    fn a_flood_of_one_kind_costs_no_other() {
        let mut lab = Lab::new("f :: Feed -> l :: PuntLimiter(OTHERS 100, PROTOCOLS 0) -> k :: Keep;");
        let second = graph::SECOND;
        for _ in 0..50 {
            lab.at(0, "f", &Frame::new(&ip(1, 0, "08000000")));
            lab.at(0, "f", &Frame::new(&ip(89, 0, "")));
        }
        lab.at(second, "f", &Frame::new(&ip(1, 0, "08000000")));
        lab.run();
        assert_eq!(lab.kept("k").len(), 10 + 50 + 1);
        assert_eq!(lab.0.losses(), ["l.others = 40"]);
        let table = "protocols 50 0 0\nneighbours 0 0 5000\nothers 11 40 100\n";
        assert_eq!(lab.0.read("l.table"), table);
    }

    #[test]
    fn limits_change_while_it_runs() {
        let mut lab = Lab::new("f :: Feed -> l :: PuntLimiter(OTHERS 0) -> k :: Keep;");
        let flood = |lab: &mut Lab, ms| {
            (0..60).for_each(|_| lab.at(ms, "f", &Frame::new(&ip(1, 0, "08000000"))));
            lab.run();
            lab.kept("k").len()
        };
        assert_eq!(flood(&mut lab, 0), 60);
        lab.0.write("l.others", "200").unwrap();
        assert_eq!((flood(&mut lab, 1000), lab.0.read("l.others")), (20, "200".to_owned()));
        assert!(lab.0.write("l.others", "-1").is_err());
        lab.0.write("l.others", "").unwrap();
        assert_eq!(lab.0.read("l.others"), "10000");
    }
}
