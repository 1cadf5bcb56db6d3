//! `ARPQuerier`: puts an Ethernet header before IP packets, and asks by ARP for the addresses that it needs.
//!
//! # Arguments
//! - `IP`: own address; with `/LENGTH` the local broadcast address follows from it.
//! - `ETH`: own Ethernet address.
//! - `TABLE`: an `ARPTable` that it shares with others. Default: one of its own.
//! - `CAPACITY`, `ENTRY_CAPACITY`, `ENTRY_PACKET_CAPACITY`, `TIMEOUT`: as in `ARPTable`, for its own.
//! - `POLL_TIMEOUT`: an address in use of which there is no news for so long is asked for again; 0 = never. Default 60 s.
//! - `BROADCAST`: packets to this address go to everybody. Default: the broadcast address of `IP`'s prefix.
//!
//! # Ports
//! Input 0 takes IP packets whose destination annotation says where they go next (set by a lookup). Input 1 takes ARP
//! replies with their Ethernet headers. Output 0 sends packets with Ethernet headers; queries leave by output 1 if that
//! is connected, else by output 0 too. All push.
//!
//! A packet whose address is not known waits; one query a second goes out for each address while packets come for it.
//! When too many packets wait, the oldest is lost. Replies that nobody asked for change nothing. Packets to
//! 255.255.255.255 and to multicast addresses need no query.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table`, `count`, `length` | r | as in `ARPTable` |
//! | `insert`, `delete`, `clear` | w | as in `ARPTable` |
//! | `stats` | r | packets lost and queries sent, in words |
//! | `queries`, `responses`, `drops` | r | queries sent, replies received, packets lost |
//! | `ipaddr`, `ethaddr` | rw | own addresses |
//! | `broadcast` | r | see `BROADCAST` |
//!
//! # Losses
//! - `unresolved_overflow`: too many packets waited.
//! - `timeout`: no reply came in time.
//! - `removed`: waited for an address that was deleted by handler.
//! - `no_destination`: has no destination annotation.
//! - `bad_reply`: on input 1 came something else than a sound ARP reply.
//! - `not_asked`: a reply for an address that is not in the table.
//! - `no_room`: the buffer has no room for an Ethernet header.
//! - `no_buffer`: there was no buffer for a query.
//!
//! # Example
//! A packet to 10.0.0.2 (a lookup sets that; here `Paint` writes the annotation) waits; the query is turned into its
//! own reply, and the packet leaves:
//! ```click
//! InfiniteSource(DATA "an IP packet", LIMIT 1) -> Paint(10, 0) -> Paint(2, 3)
//!   -> q :: ARPQuerier(10.0.0.1/24, 02:00:00:00:00:01);
//! q[1] -> ARPResponder(10.0.0.0/24 02:00:00:00:00:09) -> [1] q;
//! q[0] -> Classifier(0/020000000009020000000001 12/0800) -> c :: Counter -> Discard;
//! // c.count = 1
//! // c.byte_count = 26
//! // q.queries = 1
//! // q.responses = 1
//! ```

use super::arp_table::ARPTable;
use super::neighbour_table::{LIMITS, limits, nanos, table_handlers};
use super::neighbours::Limits;
use super::resolver::{Answer, Counts, DROPS, LOSSES, Link, QUERIES, RESPONSES, Resolver, free_waiting};
use epoch::{PerWorker, Table};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Nanos, NodeId, Out,
    Span, Spec, State, Up, value,
};
use lang::args::Ipv4Prefix;
use packet::wire::arp::{self, Arp};
use packet::wire::ethernet::{self, HEADER_LEN, Header, Mac};
use packet::{Batch, Packet, Pool};
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct ARPQuerier {
    own: Table<Own>,
    /// The table of its own, unless it shares one.
    limits: Limits,
    workers: usize,
    /// The table that it shares, and where that is said.
    shared: Option<(NodeId, Span)>,
    table: OnceLock<Arc<ARPTable>>,
    poll: Nanos,
    counts: Counts,
}

/// Our addresses on the link.
#[derive(Clone, Copy, Debug)]
struct Own {
    ip: u32,
    mac: Mac,
    broadcast: u32,
}

impl Link<u32> for Own {
    #[inline]
    fn destination(packet: &mut Packet) -> u32 {
        packet.dst_ip()
    }

    #[inline]
    fn group(&self, ip: u32) -> Option<Mac> {
        if ip == u32::MAX || ip == self.broadcast {
            return Some(ethernet::BROADCAST);
        }
        // RFC 1112 §6.4: the low 23 bits of the group.
        let [a, b, c, d] = ip.to_be_bytes();
        (a >> 4 == 0xe).then_some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    #[inline]
    fn header(&self, destination: Mac) -> [u8; HEADER_LEN] {
        Header { destination, source: self.mac, ethertype: ethernet::IPV4 }.bytes()
    }

    fn question(&self, target: u32, pool: &Pool) -> Option<Packet> {
        let [own, target] = [self.ip, target].map(Ipv4Addr::from_bits);
        pool.packet(&Arp::request_frame(self.mac, own, target))
    }

    fn answer(&self, frame: &[u8]) -> Option<Answer<u32>> {
        let header = Header::parse(frame).filter(|h| h.ethertype == ethernet::ARP)?;
        let reply = Arp::parse(frame.get(HEADER_LEN..)?).filter(|a| a.operation == arp::REPLY)?;
        let (ip, mac) = (reply.sender_ip.to_bits(), reply.sender_mac);
        let sound =
            ip != 0 && ip != self.ip && !ethernet::is_group(&mac) && !ethernet::is_group(&header.source);
        sound.then_some(Answer { ip, mac, replaces: true })
    }
}

/// One worker's part of [`ARPQuerier`].
#[derive(Debug)]
pub struct LocalARPQuerier {
    shared: Arc<ARPQuerier>,
    table: Arc<ARPTable>,
    worker: usize,
}

/// The last address of a prefix; the all-ones address if the prefix is too long to have one (RFC 3021).
fn broadcast_of(prefix: Ipv4Prefix) -> Ipv4Addr {
    match prefix.length {
        31.. => Ipv4Addr::BROADCAST,
        _ => Ipv4Addr::from_bits(prefix.network().to_bits() | !prefix.mask().to_bits()),
    }
}

impl Class for ARPQuerier {
    const SPEC: Spec = Spec {
        losses: LOSSES,
        flow: "xy/x",
        state: State::Shared,
        ..Spec::new("ARPQuerier", "2/1-2", "h/h")
    };
    type Local = LocalARPQuerier;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ARPQuerier, ConfigErrors> {
        let shared = shared_table(args, cx);
        let limits = limits(args);
        let poll: Duration = args.keyword("POLL_TIMEOUT", Duration::from_secs(60));
        let broadcast: Option<Ipv4Addr> = args.keyword_if_given("BROADCAST");
        let ip: Ipv4Prefix = args.required("IP");
        let mac: Mac = args.required("ETH");
        if ethernet::is_group(&mac) {
            args.error("ETH", "is a group address");
        }
        args.finish()?;
        let broadcast = broadcast.unwrap_or_else(|| broadcast_of(ip));
        Ok(ARPQuerier {
            own: Table::new(Own { ip: ip.address.to_bits(), mac, broadcast: broadcast.to_bits() }),
            limits,
            workers: cx.workers,
            shared,
            table: OnceLock::new(),
            poll: nanos(poll),
            counts: PerWorker::new(cx.workers),
        })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let Some((node, span)) = self.shared else { return Ok(()) };
        let table = cx.peer(node).ok_or_else(|| ConfigErrors::new(span, "TABLE: not an ARPTable"))?;
        // Initialised once, before anything asks for the table.
        let _ = self.table.set(table);
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalARPQuerier {
        let table = self.table().clone();
        table.used_by(cx, self.poll);
        LocalARPQuerier { shared: self.clone(), table, worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<ARPQuerier>) {
        table_handlers(h, |q| q.table());
        h.read("stats", |q| {
            format!("{} packets killed\n{} ARP queries sent\n", q.count(DROPS), q.count(QUERIES))
        });
        for (name, which) in [("queries", QUERIES), ("responses", RESPONSES), ("drops", DROPS)] {
            h.read(name, move |q| q.count(which).to_string());
        }
        h.read("ipaddr", |q| q.own.with(|own| Ipv4Addr::from_bits(own.ip).to_string()));
        h.write("ipaddr", |q, text, _| {
            let ip = value::<Ipv4Addr>(text)?.to_bits();
            q.own.edit(|own| Own { ip, ..*own });
            Ok(())
        });
        h.read("ethaddr", |q| q.own.with(|own| ethernet::text(&own.mac)));
        h.write("ethaddr", |q, text, _| {
            let mac = value(text)?;
            q.own.edit(|own| Own { mac, ..*own });
            Ok(())
        });
        h.read("broadcast", |q| q.own.with(|own| Ipv4Addr::from_bits(own.broadcast).to_string()));
    }
}

/// Reads which table it shares, and where that is said.
fn shared_table(args: &mut Args, cx: &Configure<'_>) -> Option<(NodeId, Span)> {
    let name: String = args.keyword_if_given("TABLE")?;
    for limit in LIMITS {
        if args.keyword_if_given::<String>(limit).is_some() {
            args.error(limit, format!("is for '{name}' to say, whose table this is"));
        }
    }
    let node = cx.element(&name);
    if node.is_none() {
        args.error("TABLE", format!("no element named '{name}'"));
    }
    Some((node?, args.span_of("TABLE")))
}

impl ARPQuerier {
    fn table(&self) -> &Arc<ARPTable> {
        self.table.get_or_init(|| Arc::new(ARPTable::new(self.limits, self.workers)))
    }

    fn count(&self, which: usize) -> u64 {
        self.counts.sum(|c| c[which].get())
    }
}

impl LocalARPQuerier {
    fn resolver<'c>(&'c self, cx: &Cx<'c>) -> Resolver<'c, u32, Own> {
        let ARPQuerier { own, poll, counts, .. } = &*self.shared;
        let link = own.read(cx.reader);
        Resolver { link, table: &self.table, poll: *poll, counts, worker: self.worker }
    }
}

impl Element for LocalARPQuerier {
    fn push(&mut self, port: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        self.resolver(cx).push(port, batch, cx, out);
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        self.resolver(cx).run(cx, out);
        true
    }
}

impl Drop for LocalARPQuerier {
    fn drop(&mut self) {
        free_waiting(&self.table, self.shared.poll);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Frame, Lab, bytes, errors, hex};

    const CONFIG: &str = "f :: Feed -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, CAPACITY 3) -> k :: Keep;
        r :: Feed -> [1] q; q[1] -> asked :: Keep;";

    fn reply(ip: [u8; 4], mac: Mac) -> Frame {
        let (sender_ip, target_ip) = (ip.into(), Ipv4Addr::new(10, 0, 0, 1));
        let reply =
            Arp { operation: 2, sender_mac: mac, sender_ip, target_mac: [2, 0, 0, 0, 0, 1], target_ip };
        Frame::new(&reply.frame(reply.target_mac))
    }

    fn packet(number: u8, last: u8) -> Frame {
        Frame::new(&[0x45, number]).to([10, 0, 0, last])
    }

    #[test]
    fn packets_wait_for_the_reply() {
        let mut lab = Lab::new(CONFIG);
        for (ms, number) in [(0, 1), (5, 2), (1005, 3), (1020, 4)] {
            lab.at(ms, "f", &packet(number, 2));
        }
        lab.at(1010, "r", &reply([10, 0, 0, 2], [2, 0, 0, 0, 0, 2]));
        lab.run_to(1010);
        assert_eq!(
            lab.kept_hex("asked"),
            vec![
                hex(&Arp::request_frame(
                    [2, 0, 0, 0, 0, 1],
                    Ipv4Addr::new(10, 0, 0, 1),
                    Ipv4Addr::new(10, 0, 0, 2)
                ));
                2
            ]
        );
        lab.run();
        let kept = lab.kept("k");
        let want = [1, 2, 3, 4].map(|n| [bytes("020000000002 020000000001 0800 45"), vec![n]].concat());
        assert_eq!(kept.iter().map(|f| f.bytes.clone()).collect::<Vec<_>>(), want);
        assert!(kept.iter().all(|f| f.mac == Some(0)));
        let read =
            ["queries", "responses", "drops", "count", "length"].map(|h| lab.0.read(&format!("q.{h}")));
        assert_eq!(read, ["2", "1", "0", "1", "0"]);
        assert_eq!(lab.0.read("q.stats"), "0 packets killed\n2 ARP queries sent\n");
        lab.end();
    }

    #[test]
    fn workers_share_what_they_know() {
        let config = format!("{CONFIG} StaticThreadSched(f 0, r 1);");
        let mut lab = Lab::with_workers(&config, 2);
        for (ms, number) in [(0, 1), (0, 2), (20, 3)] {
            lab.at(ms, "f", &packet(number, 2));
        }
        lab.at(10, "r", &reply([10, 0, 0, 2], [2, 0, 0, 0, 0, 2]));
        lab.at(1000, "r", &Frame::new(&[]));
        lab.run();
        let last: Vec<Option<u8>> = lab.kept("k").iter().map(|f| f.bytes.last().copied()).collect();
        assert_eq!(last, [Some(1), Some(2), Some(3)]);
        assert_eq!((lab.kept("asked").len(), lab.losses()), (1, vec!["q.bad_reply = 1".to_owned()]));
        lab.end();
    }

    #[test]
    fn losses_are_named() {
        let mut lab = Lab::new(CONFIG);
        for number in 1..=5 {
            lab.at(0, "f", &packet(number, 2));
        }
        lab.at(0, "f", &Frame::new(&[0x45]));
        lab.at(1, "r", &reply([10, 0, 0, 3], [2, 0, 0, 0, 0, 3]));
        for bad in [reply([10, 0, 0, 1], [2, 0, 0, 0, 0, 3]), reply([10, 0, 0, 2], [1, 0, 0, 0, 0, 2])] {
            lab.at(1, "r", &bad);
        }
        let mut request = reply([10, 0, 0, 2], [2, 0, 0, 0, 0, 2]);
        request.bytes[21] = 1;
        lab.at(1, "r", &request);
        lab.at(1, "r", &Frame::new(&request.bytes[..30]));
        lab.run();
        assert_eq!(
            lab.losses(),
            [
                "q.unresolved_overflow = 2",
                "q.timeout = 3",
                "q.no_destination = 1",
                "q.bad_reply = 4",
                "q.not_asked = 1"
            ]
        );
        assert_eq!((lab.0.read("q.drops"), lab.0.read("q.responses")), ("6".to_owned(), "1".to_owned()));
        lab.end();
    }

    #[test]
    fn groups_need_no_query() {
        let mut lab = Lab::new(CONFIG);
        for dst in [[10, 0, 0, 255], [255; 4], [224, 129, 2, 3]] {
            lab.at(0, "f", &Frame::new(&[0x45]).to(dst));
        }
        lab.run();
        let macs: Vec<String> = lab.kept_hex("k").iter().map(|f| f[..12].to_owned()).collect();
        assert_eq!(macs, ["ffffffffffff", "ffffffffffff", "01005e010203"]);
        assert_eq!(lab.0.read("q.broadcast"), "10.0.0.255");
        lab.end();
    }

    #[test]
    fn handlers_change_the_table() {
        let mut lab = Lab::new(CONFIG);
        lab.at(0, "f", &packet(1, 2));
        lab.at(0, "f", &packet(2, 3));
        lab.at(1, "f", &packet(3, 4));
        lab.run_to(0);
        lab.0.step();
        assert_eq!(lab.0.read("q.length"), "2");
        lab.0.write("q.insert", "10.0.0.2 2:0:0:0:0:2").unwrap();
        lab.0.write("q.delete", "10.0.0.3").unwrap();
        assert_eq!(lab.0.write("q.delete", "10.0.0.3"), Err("10.0.0.3 is not in the table".to_owned()));
        assert_eq!(lab.0.write("q.insert", "10.0.0.2"), Err("Ethernet address missing".to_owned()));
        assert_eq!((lab.0.read("q.count"), lab.0.read("q.length")), ("1".to_owned(), "0".to_owned()));
        assert!(lab.0.read("q.table").starts_with("10.0.0.2 1 02-00-00-00-00-02 0.00"));
        lab.0.write("q.clear", "").unwrap();
        assert_eq!(lab.0.read("q.table"), "");
        lab.0.write("q.ipaddr", "10.0.0.9").unwrap();
        lab.0.write("q.ethaddr", "2:0:0:0:0:9").unwrap();
        assert_eq!(
            (lab.0.read("q.ipaddr"), lab.0.read("q.ethaddr")),
            ("10.0.0.9".into(), "02-00-00-00-00-09".into())
        );
        lab.run();
        assert_eq!(lab.kept_hex("k"), ["02000000000202000000000908004501"]);
        assert_eq!(lab.losses(), ["q.timeout = 1", "q.removed = 1"]);
        let last = lab.kept_hex("asked").pop().unwrap();
        assert_eq!(
            last[12..],
            hex(&Arp::request_frame([2, 0, 0, 0, 0, 9], [10, 0, 0, 9].into(), [10, 0, 0, 4].into()))[12..]
        );
        lab.end();
    }

    #[test]
    fn a_packet_without_room_for_a_header_is_lost() {
        let mut lab = Lab::new(
            "f :: Feed -> Unstrip(128) -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> k :: Keep; Idle -> [1] q;",
        );
        lab.0.write("q.insert", "10.0.0.2 2:0:0:0:0:2").unwrap();
        let long = vec![0; lab.0.router.pool().data_room()];
        for dst in [[10, 0, 0, 2], [255; 4]] {
            lab.at(0, "f", &Frame::new(&long).to(dst));
        }
        lab.run();
        assert_eq!(lab.losses(), ["q.no_room = 2"]);
        lab.end();
    }

    #[test]
    fn mistakes() {
        let text =
            errors("Idle -> q :: ARPQuerier(10.0.0.1/24, 1:0:0:0:0:1, TIMEOUT x) -> Discard; Idle -> [1] q;");
        assert!(text.contains("ETH: is a group address") && text.contains("TIMEOUT: parse error"), "{text}");
    }
}
