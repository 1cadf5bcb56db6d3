//! `AdjacencyRewrite`: makes forwarded IPv4 packets into frames for their next hops.
//!
//! It takes the place of a `DecIPTTL` and an `EtherEncap` or `EtherRewrite` for each next hop: the TTL is decremented, the
//! checksum updated, and the 14 bytes before the IP header become the Ethernet header of the packet's next hop, all in one
//! visit to each packet. What stood before them is cut off; where there is nothing, room is made.
//!
//! # Arguments
//! - `LOOKUP`: the element that looks routes up for these packets: `DirectIPLookup` or one of its kin, with `ONE_OUTPUT
//!   true`.
//! - `ADJACENCY`...: neighbours, each `port gateway|- source destination`: packets of routes with this port and gateway
//!   (`-` = none) leave by output `port`, with these Ethernet addresses.
//! - `EXPIRED`: output for packets whose TTL is 1 or 0, as they came. Default: they are lost.
//! - `ADJACENCIES`: a name; elements with the same one have the same adjacencies. `routebricks router` publishes the
//!   neighbours of Linux in `main`.
//! - `UNRESOLVED`: output for packets whose next hop is none of the `ADJACENCY`s, as they came. Default: they are lost.
//!
//! # Ports
//! One push input; push outputs. The IP header must be marked (`CheckIPHeader`, `MarkIPHeader`).
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | the adjacencies, a line each, as in the arguments |
//! | `lookup` | r | with `port gateway\|-` as parameter: source and destination |
//! | `set` | w | `port gateway\|- source destination`: a new adjacency, or a new one in place of that of the next hop |
//! | `remove` | w | `port gateway\|-`: forgets an adjacency |
//!
//! # Losses
//! - `no_header`: the IP header is not marked, or cut short.
//! - `unresolved`: the next hop has no adjacency, and no `UNRESOLVED` is given.
//! - `expired`: the TTL was 1 or 0, and no `EXPIRED` is given.
//! - `no_room`: there is no room for the Ethernet header before the packet.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 5) -> MarkIPHeader(0) -> GetIPAddress(16)
//!   -> rt :: DirectIPLookup(10.1.0.0/16 192.168.0.1 1, ONE_OUTPUT true)
//!   -> rewrite :: AdjacencyRewrite(rt, 1 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:2);
//! rewrite[0] -> Discard;
//! rewrite[1] -> Classifier(0/020000000002020000000001 12/080045 22/3f) -> c :: Counter -> Discard;
//! // c.count = 5
//! ```

use crate::ip::{Gateway, table_of};
use fib::{Adjacencies, Adjacency, NextHop, RouteTable};
use graph::{
    ArgError, Args, Class, ConfigErrors, Configure, Cx, Element, FromArg, Handlers, Initialize, LocalCx,
    Loss, NodeId, Out, Span, Spec, Text, Way,
};
use lang::args::Words;
use packet::wire::ethernet::{self, Mac};
use packet::wire::ipv4::{self, MIN_HEADER_LEN};
use packet::{Batch, Packet};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

const NO_HEADER: Loss = Loss(0);
const UNRESOLVED: Loss = Loss(1);
const EXPIRED: Loss = Loss(2);
const NO_ROOM: Loss = Loss(3);
const HEADER: usize = Adjacency::HEADER_LEN;
/// Ethernet and IPv4 header.
const HEADERS: usize = HEADER + MIN_HEADER_LEN;

/// See the module.
pub struct AdjacencyRewrite {
    lookup: (NodeId, Span),
    routes: OnceLock<Arc<RouteTable<u32>>>,
    adjacencies: Arc<Adjacencies>,
    given: Vec<(NextHop, Option<Adjacency>)>,
    outputs: usize,
    expired: Option<usize>,
    unresolved: Option<usize>,
}

/// One worker's part of [`AdjacencyRewrite`].
pub struct LocalAdjacencyRewrite {
    shared: Arc<AdjacencyRewrite>,
}

/// `port gateway|-`, and addresses behind it if there are any.
struct AdjacencyArg {
    hop: NextHop,
    /// Source, destination.
    addresses: Option<(Mac, Mac)>,
    port_span: Span,
}

impl AdjacencyArg {
    fn adjacency(&self) -> Option<Adjacency> {
        let (source, destination) = self.addresses?;
        let header = ethernet::Header { destination, source, ethertype: ethernet::IPV4 }.bytes();
        Some(Adjacency { header, output: u16::try_from(self.hop.port).ok()? })
    }

    /// What is written to a handler: with addresses or without.
    fn read(text: &str, addresses: bool) -> Result<AdjacencyArg, String> {
        let text = Text::verbatim(text.trim(), Span::default());
        AdjacencyArg::from_words(Words::new(&text), addresses).map_err(|e| e.message)
    }

    fn from_words(mut words: Words, addresses: bool) -> Result<AdjacencyArg, ArgError> {
        let port_span = words.peek().map(|word| word.span).unwrap_or_default();
        let port: u16 = words.take("port")?;
        let gateway = words.take::<Gateway<u32>>("gateway")?.0;
        let addresses =
            if addresses { Some((words.take("source")?, words.take("destination")?)) } else { None };
        words.end()?;
        Ok(AdjacencyArg { hop: NextHop { gateway, port: port.into() }, addresses, port_span })
    }
}

impl FromArg for AdjacencyArg {
    fn from_arg(arg: &Text) -> Result<AdjacencyArg, ArgError> {
        AdjacencyArg::from_words(Words::new(arg), true)
    }

    fn placeholder() -> AdjacencyArg {
        let hop = NextHop { gateway: None, port: 0 };
        AdjacencyArg { hop, addresses: None, port_span: Span::default() }
    }
}

impl Class for AdjacencyRewrite {
    const SPEC: Spec = Spec {
        losses: &["no_header", "unresolved", "expired", "no_room"],
        ..Spec::new("AdjacencyRewrite", "1/1-", "h/h")
    };
    type Local = LocalAdjacencyRewrite;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<AdjacencyRewrite, ConfigErrors> {
        let name: String = args.required("LOOKUP");
        let lookup = cx.element(&name);
        if lookup.is_none() {
            args.error("LOOKUP", format!("no element named '{name}'"));
        }
        let lookup = (lookup.unwrap_or(NodeId::new(0)), args.span_of("LOOKUP"));
        let outputs = cx.outputs;
        let [expired, unresolved] = ["EXPIRED", "UNRESOLVED"].map(|keyword| {
            let output: usize = args.keyword_if_given(keyword)?;
            if output >= outputs {
                args.error(keyword, format!("no output {output}, there are {outputs}"));
            }
            Some(output)
        });
        let adjacencies = match args.keyword_if_given::<String>("ADJACENCIES") {
            Some(name) => cx.tables.get_or(&name, Adjacencies::default),
            None => Arc::default(),
        };
        let mut given = Vec::new();
        for arg in args.rest::<AdjacencyArg>("ADJACENCY") {
            match fits(&arg, outputs) {
                Ok(()) => given.push((arg.hop, arg.adjacency())),
                Err(message) => args.error_at(arg.port_span, format!("ADJACENCY: {message}")),
            }
        }
        args.finish()?;
        let routes = OnceLock::new();
        Ok(AdjacencyRewrite { lookup, routes, adjacencies, given, outputs, expired, unresolved })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (node, span) = self.lookup;
        let routes = table_of(cx, node)
            .ok_or_else(|| ConfigErrors::new(span, "LOOKUP: not an element that looks up IPv4 routes"))?;
        // Initialised once, before anything asks for the table.
        let _ = self.routes.set(routes);
        self.change(&self.given);
        Ok(())
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalAdjacencyRewrite {
        LocalAdjacencyRewrite { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<AdjacencyRewrite>) {
        h.read("table", Self::text);
        h.read_with("lookup", |a, text| {
            let hop = AdjacencyArg::read(text, false)?.hop;
            Ok(a.adjacencies.get(hop).map_or_else(|| "-".to_owned(), |adjacency| addresses(&adjacency)))
        });
        h.write("set", |a, text, _| {
            let arg = AdjacencyArg::read(text, true)?;
            fits(&arg, a.outputs)?;
            a.change(&[(arg.hop, arg.adjacency())]);
            Ok(())
        });
        h.write("remove", |a, text, _| {
            let hop = AdjacencyArg::read(text, false)?.hop;
            if a.adjacencies.get(hop).is_none() {
                return Err("no such adjacency".to_owned());
            }
            a.change(&[(hop, None)]);
            Ok(())
        });
    }
}

/// Refuses an adjacency whose port is not an output.
fn fits(arg: &AdjacencyArg, outputs: usize) -> Result<(), String> {
    match (arg.hop.port as usize) < outputs {
        true => Ok(()),
        false => Err(format!("port: no output {}, there are {outputs}", arg.hop.port)),
    }
}

/// Source and destination.
fn addresses(adjacency: &Adjacency) -> String {
    ethernet::Header::parse(&adjacency.header)
        .map(|h| format!("{} {}", ethernet::text(&h.source), ethernet::text(&h.destination)))
        .unwrap_or_default()
}

impl AdjacencyRewrite {
    fn change(&self, changes: &[(NextHop, Option<Adjacency>)]) {
        let hops = self.routes.get().map(|routes| routes.next_hop_list()).unwrap_or_default();
        self.adjacencies.change(changes, &hops);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (hop, adjacency) in self.adjacencies.known() {
            let gateway = hop.gateway.map_or("-".to_owned(), |g| g.to_string());
            let _ = writeln!(text, "{} {gateway} {}", hop.port, addresses(&adjacency));
        }
        text
    }
}

/// What nearly all packets need; `None`, and nothing changed, if [`rewrite`] is to see to it.
#[inline(always)]
fn rewrite_usual(packet: &mut Packet, all: &[Adjacency]) -> Option<u16> {
    let adjacency = all.get(packet.next_hop() as usize)?;
    let (link, network) = packet.frame_head_mut::<HEADER, HEADERS>()?.split_first_chunk_mut::<HEADER>()?;
    let network = network.first_chunk_mut::<MIN_HEADER_LEN>()?;
    if adjacency.output == Adjacency::NO_OUTPUT || !ipv4::decrement_ttl_usual(network) {
        return None;
    }
    // In two pieces that fit registers and overlap.
    let [front, back] = [0, HEADER - 8].map(|at| at..at + 8);
    link[front.clone()].copy_from_slice(&adjacency.header[front]);
    link[back.clone()].copy_from_slice(&adjacency.header[back]);
    Some(adjacency.output)
}

/// Does all that is to be done to a packet, or says why it cannot be done; then the packet is as it came.
fn rewrite(packet: &mut Packet, all: &[Adjacency]) -> Result<(), Loss> {
    let adjacency = all.get(packet.next_hop() as usize).unwrap_or(&Adjacency::UNRESOLVED);
    let offset = packet.network_offset().ok_or(NO_HEADER)?;
    if packet.data().len() < offset + MIN_HEADER_LEN {
        return Err(NO_HEADER);
    }
    if adjacency.output == Adjacency::NO_OUTPUT {
        return Err(UNRESOLVED);
    }
    if offset + packet.headroom() < HEADER {
        return Err(NO_ROOM);
    }
    let header = packet.network_head_mut::<MIN_HEADER_LEN>().ok_or(NO_HEADER)?;
    if !ipv4::decrement_ttl(header) {
        return Err(EXPIRED);
    }
    let moved = if offset < HEADER { packet.push(HEADER - offset) } else { packet.pull(offset - HEADER) };
    let link = packet.data_mut().first_chunk_mut::<HEADER>().filter(|_| moved).ok_or(NO_ROOM)?;
    *link = adjacency.header;
    packet.set_mac_offset(0);
    Ok(())
}

impl Element for LocalAdjacencyRewrite {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        let adjacencies = shared.adjacencies.read(cx.reader);
        let (mut all, mut any) = (u16::MAX, 0);
        let usual = |packet: &mut Packet| match rewrite_usual(packet, adjacencies) {
            Some(output) => {
                (all, any) = (all & output, any | output);
                Ok(())
            }
            None => Err(()),
        };
        let mut others = false;
        batch.sift(usual, |packet, ()| {
            others = true;
            shared.rewrite_other(packet, cx, out)
        });
        if all == any && !others {
            return out.emit(any.into(), batch);
        }
        if others {
            // The list may have grown meanwhile.
            let newer = shared.adjacencies.read(cx.reader);
            let usable = |a: &&Adjacency| a.output != Adjacency::NO_OUTPUT;
            out.split(batch, |p| {
                let number = p.next_hop() as usize;
                let found =
                    adjacencies.get(number).filter(usable).or_else(|| newer.get(number).filter(usable));
                found.map_or(Way::Lost(UNRESOLVED), |a| Way::Port(a.output.into()))
            });
        } else {
            // Each of them has been found there.
            let output = |p: &Packet| adjacencies.get(p.next_hop() as usize).map_or(0, |a| a.output);
            out.split(batch, |p| Way::Port(output(p).into()));
        }
    }
}

impl AdjacencyRewrite {
    /// A packet that needs more than most: `None` if it does not go on.
    #[cold]
    fn rewrite_other(&self, mut packet: Packet, cx: &Cx<'_>, out: &mut Out<'_>) -> Option<Packet> {
        let number = packet.next_hop() as usize;
        if number >= self.adjacencies.read(cx.reader).len()
            && let Some(routes) = self.routes.get()
        {
            self.adjacencies.cover(routes.next_hops(cx.reader));
        }
        let Err(loss) = rewrite(&mut packet, self.adjacencies.read(cx.reader)) else { return Some(packet) };
        let output = match loss {
            EXPIRED => self.expired,
            UNRESOLVED => self.unresolved,
            _ => None,
        };
        match output {
            Some(output) => out.reject(output, packet, loss),
            None => out.lose(packet, loss),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, hex};

    const ROUTES: &str = "10.1.0.0/16 0, 10.2.0.0/16 192.168.0.1 1, 10.3.0.0/16 192.168.0.9 1";

    /// `Feed` at one end, a `Keep` at each of four outputs: two ports, the expired and the unresolved.
    fn lab(strip: usize) -> Lab {
        Lab::new(&format!(
            "f :: Feed -> CheckIPHeader(14) -> Strip({strip}) -> rt :: DirectIPLookup({ROUTES}, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2, 1 192.168.0.1 2:0:0:0:0:3 2:0:0:0:0:4,
                                        EXPIRED 2, UNRESOLVED 3);
             a[0] -> k0 :: Keep; a[1] -> k1 :: Keep; a[2] -> k2 :: Keep; a[3] -> k3 :: Keep;"
        ))
    }

    /// A frame to `destination` with a TTL, its last byte `tag`.
    fn frame(destination: [u8; 4], ttl: u8, tag: u8) -> Frame {
        let mut ip = *b"\x45\x00\x00\x15\x00\x01\x00\x00\x00\x11\x00\x00\x0a\x00\x00\x01\x00\x00\x00\x00";
        ip[8] = ttl;
        ip[16..].copy_from_slice(&destination);
        packet::wire::ipv4::set_checksum(&mut ip);
        Frame::new(&[&bytes("ffffffffffff ffffffffffff 0800")[..], &ip, &[tag]].concat())
    }

    fn tags(lab: &Lab, keep: &str) -> Vec<u8> {
        lab.kept(keep).iter().filter_map(|f| f.bytes.last().copied()).collect()
    }

    #[test]
    fn each_packet_gets_the_header_of_its_next_hop_and_leaves_by_its_port() {
        for strip in [0, 14] {
            let mut lab = lab(strip);
            for (i, to) in [1, 2, 1, 3, 2, 1].into_iter().enumerate() {
                lab.at(0, "f", &frame([10, to, 0, 7], 64, i as u8));
            }
            lab.at(0, "f", &frame([10, 2, 0, 7], 1, 6));
            lab.run();
            let kept = [0, 1, 2, 3].map(|k| lab.kept_hex(&format!("k{k}")));
            let tags = kept.each_ref().map(|k| k.iter().map(|hex| &hex[hex.len() - 1..]).collect::<String>());
            assert_eq!(tags, ["025", "14", "6", "3"]);
            let sent = "020000000004020000000003080045000015000100003f1167ce0a0000010a02000701";
            assert_eq!((&kept[1][0][..], strip), (sent, strip));
            assert_eq!(kept[2][0], hex(&frame([10, 2, 0, 7], 1, 6).bytes[strip..]), "as it came");
        }
    }

    #[test]
    fn neighbours_and_routes_come_and_go() {
        let mut lab = lab(0);
        lab.0.write("a.set", "1 192.168.0.9 2:0:0:0:0:5 2:0:0:0:0:6").unwrap();
        lab.0.write("a.remove", "0 -").unwrap();
        lab.0.write("rt.add", "10.4.0.0/16 192.168.0.1 1").unwrap();
        // A next hop that no route had before, with a neighbour known before the route comes.
        lab.0.write("a.set", "0 192.168.5.5 2:0:0:0:0:7 2:0:0:0:0:8").unwrap();
        lab.0.write("rt.add", "10.5.0.0/16 192.168.5.5 0").unwrap();
        for to in 1..=5 {
            lab.at(0, "f", &frame([10, to, 0, 7], 64, to));
        }
        lab.run();
        assert_eq!(
            [0, 1, 2, 3].map(|k| tags(&lab, &format!("k{k}"))),
            [vec![5], vec![2, 3, 4], vec![], vec![1]]
        );
        assert_eq!(
            lab.0.read("a.table"),
            "0 192.168.5.5 02-00-00-00-00-07 02-00-00-00-00-08\n1 192.168.0.1 02-00-00-00-00-03 02-00-00-00-00-04\n\
             1 192.168.0.9 02-00-00-00-00-05 02-00-00-00-00-06\n"
        );
        assert_eq!(lab.0.write("a.remove", "0 -"), Err("no such adjacency".to_owned()));
        assert_eq!(
            lab.0.write("a.set", "4 - 2:0:0:0:0:1 2:0:0:0:0:2"),
            Err("port: no output 4, there are 4".to_owned())
        );
    }

    #[test]
    fn what_cannot_be_sent_is_lost_by_name() {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> c :: CheckIPHeader(14) -> rt :: RadixIPLookup({ROUTES}, ONE_OUTPUT true)
               -> a :: AdjacencyRewrite(rt, 0 - 2:0:0:0:0:1 2:0:0:0:0:2) -> k :: Keep;
             g :: Feed -> rt;"
        ));
        lab.at(0, "f", &frame([10, 1, 0, 7], 1, 0));
        lab.at(0, "f", &frame([10, 2, 0, 7], 9, 1));
        lab.at(0, "f", &frame([10, 9, 0, 7], 9, 2));
        lab.at(0, "f", &frame([10, 1, 0, 7], 9, 3));
        let mut unmarked = frame([10, 1, 0, 7], 9, 4);
        unmarked.dst = u32::from_be_bytes([10, 1, 0, 7]);
        lab.at(0, "g", &unmarked);
        lab.run();
        assert_eq!(tags(&lab, "k"), [3]);
        assert_eq!(
            lab.0.losses(),
            ["rt.no_route = 1", "a.no_header = 1", "a.unresolved = 1", "a.expired = 1"]
        );
    }
}
