//! `IP6NDAdvertiser`: answers neighbour solicitations for given IPv6 addresses (RFC 4861 §7.2.4).
//!
//! # Arguments
//! One or more entries `IP6[/MASK]... ETH`: solicitations for an address of one of these prefixes are answered with this
//! Ethernet address. The longest prefix that holds the address counts, of equal ones the first.
//! - `ROUTER`: false = do not say that the answers come from a router. Default true.
//!
//! # Ports
//! One input, one output; push or pull. Packets are neighbour solicitations with their Ethernet headers; each is made
//! into its own advertisement. One that comes from `::`, because its sender only wants to know whether the address is
//! free, is answered to all nodes. What is not a sound solicitation for one of the addresses leaves by push output 1 if
//! that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | the entries, `IP6/MASK ETH`, longest prefix first |
//! | `lookup` | r | the Ethernet address for the address given as parameter |
//!
//! # Losses
//! - `not_a_solicitation`: not a neighbour solicitation that RFC 4861 §7.1.1 calls valid.
//! - `not_for_us`: a solicitation for another address.
//! - `no_room`: the buffer is too small for the answer.
//!
//! # Example
//! Who has fe80::5? The address 02:00:00:00:00:09.
//! ```click
//! InfiniteSource(LIMIT 2, DATA \<3333ff000005 020000000001 86dd 60000000 0020 3a ff
//!                                fe800000000000000000000000000001 ff0200000000000000000001ff000005
//!                                8700 7a91 00000000 fe800000000000000000000000000005 0101 020000000001>)
//!   -> r :: IP6NDAdvertiser(fe80::5 2001:db8::/64 02:00:00:00:00:09)
//!   -> Classifier(0/020000000001020000000009 54/8800 58/e0000000 78/0201020000000009) -> c :: Counter -> Discard;
//! // c.count = 2
//! // c.byte_count = 172
//! ```

use epoch::{Reader, Table};
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec, value,
};
use lang::Text;
use lang::args::{ArgError, FromArg, Ipv6Prefix, Words};
use packet::wire::ethernet::{self, HEADER_LEN, Header, Mac};
use packet::wire::icmp6::{self, ADVERTISEMENT, Neighbour, OVERRIDE, ROUTER, SOLICITATION, SOLICITED};
use packet::{Batch, Packet};
use std::cmp::Reverse;
use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;

const NOT_A_SOLICITATION: Loss = Loss(0);
const NOT_FOR_US: Loss = Loss(1);
const NO_ROOM: Loss = Loss(2);
/// All nodes of the link.
const ALL_NODES: u128 = 0xff02 << 112 | 1;

/// See the module.
#[derive(Debug)]
pub struct IP6NDAdvertiser {
    answers: Table<Answers>,
    router: bool,
}

/// One worker's part of [`IP6NDAdvertiser`].
#[derive(Debug)]
pub struct LocalIP6NDAdvertiser {
    shared: Arc<IP6NDAdvertiser>,
}

/// `IP6[/MASK]... ETH`.
struct Entry {
    prefixes: Vec<Ipv6Prefix>,
    mac: Mac,
}

impl FromArg for Entry {
    fn from_arg(arg: &Text) -> Result<Entry, ArgError> {
        let mut words = Words::new(arg);
        let mut prefixes = Vec::new();
        while words.len() > 1 {
            prefixes.push(words.take("prefix")?);
        }
        if prefixes.is_empty() {
            return Err(ArgError::new("`IP6[/MASK]... ETH` expected"));
        }
        Ok(Entry { prefixes, mac: words.take("Ethernet address")? })
    }

    fn placeholder() -> Entry {
        Entry { prefixes: Vec::new(), mac: [0; 6] }
    }
}

/// Prefixes and their addresses, longest prefix first.
#[derive(Clone, Debug, Default)]
struct Answers(Vec<(Ipv6Prefix, Mac)>);

impl Answers {
    fn new(entries: &[Entry]) -> Answers {
        let network = |p: &Ipv6Prefix| Ipv6Prefix { address: p.network(), ..*p };
        let pairs = |e: &Entry| e.prefixes.iter().map(|p| (network(p), e.mac)).collect::<Vec<_>>();
        let mut answers = Answers(entries.iter().flat_map(pairs).collect());
        // The sort is stable: among equal prefixes the first stays first.
        answers.0.sort_by_key(|(prefix, _)| Reverse(prefix.length));
        answers
    }

    fn lookup(&self, address: Ipv6Addr) -> Option<Mac> {
        self.0.iter().find(|(prefix, _)| prefix.contains(address)).map(|(_, mac)| *mac)
    }

    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (prefix, mac)| {
            let _ = writeln!(text, "{}/{} {}", prefix.address, prefix.length, ethernet::text(mac));
            text
        })
    }
}

impl Class for IP6NDAdvertiser {
    const SPEC: Spec = Spec {
        losses: &["not_a_solicitation", "not_for_us", "no_room"],
        ..Spec::new("IP6NDAdvertiser", "1/1-2", "a/ah")
    };
    type Local = Agnostic<LocalIP6NDAdvertiser>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<IP6NDAdvertiser, ConfigErrors> {
        let router = args.keyword("ROUTER", true);
        let entries: Vec<Entry> = args.rest("ENTRY");
        args.finish()?;
        Ok(IP6NDAdvertiser { answers: Table::new(Answers::new(&entries)), router })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalIP6NDAdvertiser { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<IP6NDAdvertiser>) {
        h.read("table", |r| r.answers.with(Answers::text));
        h.read_with("lookup", |r, text| {
            let address = value(text)?;
            Ok(r.answers.with(|a| a.lookup(address)).map_or_else(String::new, |mac| ethernet::text(&mac)))
        });
    }
}

impl IP6NDAdvertiser {
    /// Makes a solicitation into its answer.
    fn answer(&self, packet: &mut Packet, reader: &Reader) -> Result<(), Loss> {
        let link = Header::parse(packet.data()).filter(|h| h.ethertype == ethernet::IPV6);
        let asked = packet.data().get(HEADER_LEN..).and_then(Neighbour::parse);
        let (Some(link), Some(asked)) = (link, asked.filter(|n| n.kind == SOLICITATION)) else {
            return Err(NOT_A_SOLICITATION);
        };
        let answers = self.answers.read(reader);
        let mac = answers.lookup(Ipv6Addr::from_bits(asked.target)).ok_or(NOT_FOR_US)?;
        let router = if self.router { ROUTER } else { 0 };
        let (destination, to, solicited) = match asked.source {
            0 => (ALL_NODES, icmp6::multicast_mac(ALL_NODES), 0),
            source => (source, asked.mac.unwrap_or(link.source), SOLICITED),
        };
        let answer = Neighbour {
            kind: ADVERTISEMENT,
            flags: router | solicited | OVERRIDE,
            target: asked.target,
            mac: Some(mac),
            source: asked.target,
            destination,
        };
        let (frame, length) = answer.frame(mac, to);
        packet.truncate(length);
        if !packet.put(length - packet.len()) {
            return Err(NO_ROOM);
        }
        packet.data_mut().copy_from_slice(frame.get(..length).unwrap_or(&frame));
        packet.set_mac_offset(0);
        Ok(())
    }
}

impl Simple for LocalIP6NDAdvertiser {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        batch.retain_ok(|p| shared.answer(p, cx.reader), |p, reason| out.reject(1, p, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Frame, Lab};

    const ASKER: u128 = 0xfe80 << 112 | 1;

    fn solicitation(source: u128, target: u128) -> Frame {
        let mac = (source != 0).then_some([2, 0, 0, 0, 0, 1]);
        let destination = icmp6::solicited_node(target);
        let message = Neighbour { kind: SOLICITATION, flags: 0, target, mac, source, destination };
        let (frame, length) = message.frame([2, 0, 0, 0, 0, 1], icmp6::multicast_mac(destination));
        Frame::new(&frame[..length])
    }

    #[test]
    fn answers_go_to_whom_they_should() {
        let mut lab = Lab::new(
            "f :: Feed -> a :: IP6NDAdvertiser(fe80::/64 2:0:0:0:0:8, fe80::5 2:0:0:0:0:9, ROUTER false)
               -> k :: Keep; a[1] -> other :: Keep;",
        );
        let prefix = 0xfe80 << 112;
        for (source, target) in [(ASKER, prefix | 5), (0, prefix | 6), (ASKER, prefix | 1 << 64)] {
            lab.at(0, "f", &solicitation(source, target));
        }
        let mut forwarded = solicitation(ASKER, prefix | 5);
        forwarded.bytes[21] = 254;
        lab.at(0, "f", &forwarded);
        lab.run();
        let kept = lab.kept("k");
        let answers: Vec<_> = kept
            .iter()
            .map(|f| (Neighbour::parse(&f.bytes[14..]).unwrap(), f.bytes[..14].to_vec()))
            .collect();
        let want = Neighbour {
            kind: ADVERTISEMENT,
            flags: SOLICITED | OVERRIDE,
            target: prefix | 5,
            mac: Some([2, 0, 0, 0, 0, 9]),
            source: prefix | 5,
            destination: ASKER,
        };
        assert_eq!(answers[0].0, want);
        assert_eq!(answers[0].1, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd]);
        let to_all = Neighbour {
            flags: OVERRIDE,
            target: prefix | 6,
            mac: Some([2, 0, 0, 0, 0, 8]),
            source: prefix | 6,
            destination: ALL_NODES,
            ..want
        };
        assert_eq!(answers[1].0, to_all);
        assert_eq!(answers[1].1, [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 8, 0x86, 0xdd]);
        assert_eq!((answers.len(), lab.kept("other").len()), (2, 2));
        assert_eq!(lab.0.read("a.table"), "fe80::5/128 02-00-00-00-00-09\nfe80::/64 02-00-00-00-00-08\n");
        lab.end();
    }
}
