//! `IP6NDSolicitor`: puts an Ethernet header before IPv6 packets, and asks the neighbours for the addresses that it needs
//! (RFC 4861 §7.2).
//!
//! # Arguments
//! - `IP6`: own address, from which it asks.
//! - `ETH`: own Ethernet address.
//! - `CAPACITY`, `ENTRY_CAPACITY`, `ENTRY_PACKET_CAPACITY`, `TIMEOUT`: how much its table holds and how long, as in
//!   `ARPTable`.
//! - `POLL_TIMEOUT`: an address in use of which there is no news for so long is asked for again; 0 = never. Default 60 s.
//!
//! # Ports
//! Input 0 takes IPv6 packets; they go to their destination annotation (set by a lookup with a gateway) or, where none is
//! set, to the destination address in their header, which must be marked. Input 1 takes neighbour advertisements with
//! their Ethernet headers. Output 0 sends packets with Ethernet headers; solicitations leave by output 1 if that is
//! connected, else by output 0 too. All push.
//!
//! A packet whose neighbour is not known waits; one solicitation a second goes out for each address while packets come
//! for it. When too many packets wait, the oldest is lost. Advertisements that nobody asked for change nothing. Packets
//! to multicast addresses need no question.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table`, `count`, `length` | r | as in `ARPTable` |
//! | `insert`, `delete`, `clear` | w | as in `ARPTable`, with IPv6 addresses |
//! | `queries`, `responses`, `drops` | r | solicitations sent, advertisements received, packets lost |
//!
//! # Losses
//! - `unresolved_overflow`: too many packets waited.
//! - `timeout`: no advertisement came in time.
//! - `removed`: waited for an address that was deleted by handler.
//! - `no_destination`: has neither destination annotation nor header.
//! - `bad_reply`: on input 1 came something else than a sound advertisement with an Ethernet address.
//! - `not_asked`: an advertisement for an address that is not in the table, or that may not replace what the table has.
//! - `no_room`: the buffer has no room for an Ethernet header.
//! - `no_buffer`: there was no buffer for a solicitation.
//!
//! # Example
//! A packet to fe80::2 waits; the solicitation is turned into its own answer, and the packet leaves:
//! ```click
//! InfiniteSource(DATA "an IP packet", LIMIT 1) -> SetIP6Address(fe80::2)
//!   -> q :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01);
//! q[1] -> IP6NDAdvertiser(fe80::/64 02:00:00:00:00:09) -> [1] q;
//! q[0] -> Classifier(0/02000000000902000000000186dd) -> c :: Counter -> Discard;
//! // c.count = 1
//! // c.byte_count = 26
//! // q.queries = 1
//! // q.responses = 1
//! ```

use super::neighbour_table::{NeighbourTable, limits, nanos, table_handlers};
use super::resolver::{Answer, Counts, DROPS, LOSSES, Link, QUERIES, RESPONSES, Resolver, free_waiting};
use crate::ip6::destination;
use epoch::PerWorker;
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Nanos, Out, Spec, State, Up,
};
use packet::wire::ethernet::{self, HEADER_LEN, Header, Mac};
use packet::wire::icmp6::{self, ADVERTISEMENT, Neighbour, OVERRIDE, SOLICITATION};
use packet::wire::ipv6;
use packet::{Batch, Packet, Pool};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct IP6NDSolicitor {
    own: Own,
    table: NeighbourTable<u128>,
    poll: Nanos,
    counts: Counts,
}

/// Our addresses on the link.
#[derive(Clone, Copy, Debug)]
struct Own {
    ip: u128,
    mac: Mac,
}

impl Link<u128> for Own {
    #[inline]
    fn destination(packet: &mut Packet) -> u128 {
        destination(packet)
    }

    #[inline]
    fn group(&self, ip: u128) -> Option<Mac> {
        ipv6::is_multicast(ip).then(|| icmp6::multicast_mac(ip))
    }

    #[inline]
    fn header(&self, destination: Mac) -> [u8; HEADER_LEN] {
        Header { destination, source: self.mac, ethertype: ethernet::IPV6 }.bytes()
    }

    fn question(&self, target: u128, pool: &Pool) -> Option<Packet> {
        let destination = icmp6::solicited_node(target);
        // From no address of ours nobody may learn our Ethernet address (RFC 4861 §4.3).
        let mac = (self.ip != 0).then_some(self.mac);
        let message = Neighbour { kind: SOLICITATION, flags: 0, target, mac, source: self.ip, destination };
        let (frame, length) = message.frame(self.mac, icmp6::multicast_mac(destination));
        pool.packet(frame.get(..length).unwrap_or(&frame))
    }

    fn answer(&self, frame: &[u8]) -> Option<Answer<u128>> {
        let link = Header::parse(frame).filter(|h| h.ethertype == ethernet::IPV6)?;
        let answer = Neighbour::parse(frame.get(HEADER_LEN..)?).filter(|n| n.kind == ADVERTISEMENT)?;
        let (ip, mac) = (answer.target, answer.mac?);
        let sound = ip != self.ip && !ethernet::is_group(&mac) && !ethernet::is_group(&link.source);
        // RFC 4861 §7.2.5: without the flag it may not replace another address.
        sound.then_some(Answer { ip, mac, replaces: answer.flags & OVERRIDE != 0 })
    }
}

/// One worker's part of [`IP6NDSolicitor`].
#[derive(Debug)]
pub struct LocalIP6NDSolicitor {
    shared: Arc<IP6NDSolicitor>,
    worker: usize,
}

impl Class for IP6NDSolicitor {
    const SPEC: Spec = Spec {
        losses: LOSSES,
        flow: "xy/x",
        state: State::Shared,
        ..Spec::new("IP6NDSolicitor", "2/1-2", "h/h")
    };
    type Local = LocalIP6NDSolicitor;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IP6NDSolicitor, ConfigErrors> {
        let limits = limits(args);
        let poll: Duration = args.keyword("POLL_TIMEOUT", Duration::from_secs(60));
        let ip: Ipv6Addr = args.required("IP6");
        let mac: Mac = args.required("ETH");
        if ethernet::is_group(&mac) {
            args.error("ETH", "is a group address");
        }
        if ip.is_multicast() {
            args.error("IP6", "is a multicast address");
        }
        args.finish()?;
        Ok(IP6NDSolicitor {
            own: Own { ip: ip.to_bits(), mac },
            table: NeighbourTable::new(limits, cx.workers),
            poll: nanos(poll),
            counts: PerWorker::new(cx.workers),
        })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalIP6NDSolicitor {
        self.table.used_by(cx, self.poll);
        LocalIP6NDSolicitor { shared: self.clone(), worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<IP6NDSolicitor>) {
        table_handlers(h, |q| &q.table);
        for (name, which) in [("queries", QUERIES), ("responses", RESPONSES), ("drops", DROPS)] {
            h.read(name, move |q| q.counts.sum(|c| c[which].get()).to_string());
        }
    }
}

impl LocalIP6NDSolicitor {
    fn resolver(&self) -> Resolver<'_, u128, Own> {
        let IP6NDSolicitor { own, table, poll, counts } = &*self.shared;
        Resolver { link: own, table, poll: *poll, counts, worker: self.worker }
    }
}

impl Element for LocalIP6NDSolicitor {
    fn push(&mut self, port: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        self.resolver().push(port, batch, cx, out);
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        self.resolver().run(cx, out);
        true
    }
}

impl Drop for LocalIP6NDSolicitor {
    fn drop(&mut self) {
        free_waiting(&self.shared.table, self.shared.poll);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Frame, Lab, bytes, errors, hex};
    use packet::wire::icmp6::SOLICITED;

    const CONFIG: &str =
        "f :: Feed -> MarkIP6Header -> q :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1, CAPACITY 3) -> k :: Keep;
        r :: Feed -> [1] q; q[1] -> asked :: Keep;";
    const LINK: u128 = 0xfe80 << 112;

    fn advertisement(target: u128, last: u8, flags: u8) -> Frame {
        let mac = [2, 0, 0, 0, 0, last];
        let message = Neighbour {
            kind: ADVERTISEMENT,
            flags,
            target,
            mac: Some(mac),
            source: target,
            destination: LINK | 1,
        };
        let (frame, length) = message.frame(mac, [2, 0, 0, 0, 0, 1]);
        Frame::new(&frame[..length])
    }

    /// A packet to this address with this hop limit.
    fn packet(number: u8, to: u128) -> Frame {
        Frame::new(&bytes(&format!("60000000 00003b{number:02x} {:032x} {to:032x}", LINK | 1)))
    }

    fn sent(lab: &Lab) -> Vec<(u8, String)> {
        lab.kept("k").iter().map(|f| (f.bytes[21], hex(&f.bytes[..14]))).collect()
    }

    #[test]
    fn packets_wait_for_the_answer() {
        let mut lab = Lab::new(CONFIG);
        for (ms, number) in [(0, 1), (5, 2), (1005, 3), (1020, 4)] {
            lab.at(ms, "f", &packet(number, LINK | 2));
        }
        lab.at(1010, "r", &advertisement(LINK | 2, 2, SOLICITED | OVERRIDE));
        lab.run();
        let to = "02000000000202000000000186dd".to_owned();
        assert_eq!(sent(&lab), [1, 2, 3, 4].map(|n| (n, to.clone())));
        // At 0 ms and after a second.
        let asked = lab.kept_hex("asked");
        let want = "3333ff00000202000000000186dd6000000000203afffe800000000000000000000000000001\
                    ff0200000000000000000001ff000002";
        assert_eq!((asked.len(), &asked[0][..108]), (2, want));
        let question = Neighbour::parse(&bytes(&asked[0])[14..]).unwrap();
        assert_eq!((question.target, question.mac), (LINK | 2, Some([2, 0, 0, 0, 0, 1])));
        assert_eq!(lab.0.read("q.table"), "fe80::2 1 02-00-00-00-00-02 298.990000\n");
        assert_eq!(lab.losses(), Vec::<String>::new());
        lab.end();
    }

    #[test]
    fn groups_need_no_question() {
        let mut lab = Lab::new(CONFIG);
        lab.at(0, "f", &packet(9, 0xff02 << 112 | 0x0102_0304));
        lab.run();
        assert_eq!(sent(&lab), [(9, "33330102030402000000000186dd".to_owned())]);
        assert_eq!(lab.kept("asked"), []);
        lab.end();
    }

    #[test]
    fn answers_are_looked_at() {
        let mut lab = Lab::new(CONFIG);
        let with = |f: &mut Frame, at: usize, value: u8| f.bytes[at] = value;
        lab.at(0, "f", &packet(1, LINK | 2));
        lab.at(1, "r", &advertisement(LINK | 3, 3, SOLICITED | OVERRIDE));
        let mut damaged = advertisement(LINK | 2, 2, SOLICITED);
        with(&mut damaged, 60, 1);
        lab.at(2, "r", &damaged);
        lab.at(3, "r", &advertisement(LINK | 1, 2, SOLICITED | OVERRIDE));
        lab.at(4, "r", &advertisement(LINK | 2, 2, SOLICITED));
        lab.at(5, "r", &advertisement(LINK | 2, 7, SOLICITED));
        lab.at(6, "f", &packet(2, LINK | 2));
        lab.at(7, "r", &advertisement(LINK | 2, 7, OVERRIDE));
        lab.at(8, "f", &packet(3, LINK | 2));
        lab.run();
        let macs: Vec<String> = sent(&lab).iter().map(|(_, mac)| mac[10..12].to_owned()).collect();
        assert_eq!(macs, ["02", "02", "07"]);
        assert_eq!(lab.losses(), ["q.bad_reply = 2", "q.not_asked = 2"]);
        assert_eq!(["queries", "responses", "drops"].map(|h| lab.0.read(&format!("q.{h}"))), ["1", "4", "0"]);
        lab.end();
    }

    #[test]
    fn who_never_answers_gets_nothing() {
        let mut lab = Lab::new(CONFIG);
        for n in 1..=4 {
            lab.at(0, "f", &packet(n, LINK | u128::from(n)));
        }
        lab.at(1, "f", &Frame::new(&[]));
        lab.run();
        assert_eq!(lab.losses(), ["q.unresolved_overflow = 1", "q.timeout = 3", "q.no_destination = 1"]);
        assert_eq!(lab.kept("asked").len(), 4);
        lab.end();
    }

    #[test]
    fn handlers_and_mistakes() {
        let mut lab = Lab::new(CONFIG);
        lab.0.write("q.insert", "fe80::2 2:0:0:0:0:5").unwrap();
        assert_eq!(lab.0.write("q.insert", ":: 2:0:0:0:0:5"), Err("no host has the address ::".to_owned()));
        lab.at(0, "f", &packet(1, LINK | 2));
        lab.run();
        assert_eq!(sent(&lab), [(1, "02000000000502000000000186dd".to_owned())]);
        lab.0.write("q.delete", "fe80::2").unwrap();
        assert_eq!(lab.0.write("q.delete", "fe80::2"), Err("fe80::2 is not in the table".to_owned()));
        lab.end();
        let text = |arguments: &str| {
            errors(&format!("Idle -> q :: IP6NDSolicitor({arguments}) -> Discard; Idle -> [1] q;"))
        };
        assert!(text("fe80::1, 3:0:0:0:0:1").contains("ETH: is a group address"));
        assert!(text("ff02::1, 2:0:0:0:0:1").contains("IP6: is a multicast address"));
    }
}
