//! `LookupIP6Route`: sends IPv6 packets where the longest matching prefix of their destination leads.
//!
//! The destination is the destination annotation or, where none is set, the destination address in the header; a packet
//! with neither counts as one to `::`. Lookups go down a tree of address ranges, a whole batch at a time: one to four
//! memory accesses, 8 MB for a full table.
//!
//! # Arguments
//! - `ROUTE`...: routes, each `address/mask [gateway] port`, the mask as a length or an address. A bare address is a
//!   /128. A later route replaces an earlier one for the same prefix. A port that is not an output is an error.
//! - `FILE`: a file of routes, one a line, `prefix [gateway] port`; `#` begins a comment. Routes given as arguments
//!   replace those of the file; IPv4 routes in it are left out.
//! - `ONE_OUTPUT`: true = all packets leave by output 0, whatever port their route names, and the destination annotation
//!   stays: for `IP6AdjacencyRewrite`, which takes the port from the number of the next hop. Default false.
//! - `TABLE`: a name; elements with the same one look up in the same table. `routebricks router` publishes the IPv6
//!   routes of Linux in `main`.
//! - `STRUCTURE`: what the table is looked up in: `range_tree`, `poptrie`, `radix`, `linear`; or `quickest`: those that suit large tables are built and
//!   measured with its routes on this machine, again when it has four times or a quarter as many, and one that changes of
//!   routes would build anew is left with the first change. Default `range_tree`. Of elements with the same `TABLE` the last one
//!   that says it decides.
//! - `INTERFACES`: a name; packets of interfaces that are in a VRF are looked up in the routes of the VRF. `routebricks
//!   router` publishes the interfaces of Linux in `main`.
//! - `PORT`: the port that all packets came in by. Default: the interface is that which `FindInterface` has noted on each.
//!
//! # Ports
//! One push input; a packet leaves by the push output that its route names. If the route has a gateway other than `::`
//! the gateway becomes the destination annotation. The number of the next hop is noted on the packet.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `table` | r | all routes, a line each: prefix, gateway or `-`, port |
//! | `vrfs` | r | the routes of all VRFs, a line each: name and table of the VRF, then as in `table` |
//! | `count` | r | number of routes |
//! | `counts` | r | behind an `IP6RouteCounter`: what was counted for each route, a line each: prefix, packets, bytes |
//! | `vrf_counts` | r | the same of all VRFs, with name and table of the VRF before it |
//! | `lookup` | r | with an address as parameter: `port [gateway]`; -1 where no route leads |
//! | `structure` | rw | what the table is looked up in; if that is the quickest, then what those cost that were measured, a line each: lookup, building, memory. Written: a name as in `STRUCTURE` |
//! | `add` | w | adds a route; fails if its prefix has one |
//! | `set` | w | adds a route in place of the one that its prefix may have |
//! | `remove` | w | removes a route: `address/mask [[gateway] port]` |
//! | `ctrl` | w | lines of `add`, `set`, `remove`, `flush`: all are done at once, or none |
//! | `flush` | w | removes all routes |
//!
//! # Losses
//! - `no_route`: no prefix contains the address.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000100000000000000000002>, LIMIT 5)
//!   -> CheckIP6Header -> rt :: LookupIP6Route(2001:db8::/32 0, 2001:db8:1::/48 fe80::1 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 5
//! // rt.count = 2
//! ```

use super::addresses::{beginnings, destinations, set_destination, whole};
use crate::ip::routes::{self, Routes};
use crate::ip::send_all;
use epoch::Reader;
use fib::{Adjacency, Beginnings, NextHop, NextHopId, RangeTree, RouteTable};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Loss, NodeId, Out,
    Spec, State, Way,
};
use packet::{Batch, Packet};
use std::net::IpAddr;
use std::sync::Arc;

const NO_ROUTE: Loss = Loss(0);

/// See the module.
pub struct LookupIP6Route {
    routes: Routes<u128>,
    /// All packets leave by output 0, for an element that knows the adjacencies.
    one_output: bool,
}

/// One worker's part of [`LookupIP6Route`].
pub struct LocalLookupIP6Route {
    shared: Arc<LookupIP6Route>,
    ways: Ways,
    room: Box<Room>,
}

/// Room for what a lookup of a batch needs.
struct Room {
    tops: [u64; Batch::MAX],
    hops: [Option<NextHopId>; Batch::MAX],
    addresses: [u128; Batch::MAX],
}

/// The next hops in the form in which packets need them, by the bits of their number: first no route.
struct Ways {
    hops: Vec<Hop>,
    /// 0 = none.
    gateways: Vec<u128>,
}

/// An output, and in the top bit whether there is a gateway.
#[derive(Clone, Copy)]
struct Hop(u32);

const GATEWAY: u32 = 1 << 31;
/// No route; no element has as many outputs.
const NOWHERE: u32 = GATEWAY - 1;

impl Hop {
    #[inline(always)]
    fn port(self) -> u32 {
        self.0 & !GATEWAY
    }
}

impl Ways {
    fn new() -> Ways {
        Ways { hops: vec![Hop(NOWHERE)], gateways: vec![0] }
    }

    /// Copies the next hops that have come since the last call. The list only grows, so what was copied stays right.
    #[inline]
    fn learn(&mut self, list: &[NextHop]) {
        if let Some(new) = list.get(self.hops.len() - 1..).filter(|new| !new.is_empty()) {
            self.extend(new);
        }
    }

    #[cold]
    fn extend(&mut self, new: &[NextHop]) {
        for hop in new {
            let gateway = match hop.gateway {
                Some(IpAddr::V6(gateway)) => gateway.to_bits(),
                _ => 0,
            };
            self.hops.push(Hop(hop.port | if gateway == 0 { 0 } else { GATEWAY }));
            self.gateways.push(gateway);
        }
    }
}

impl Room {
    /// Gives each packet of the batch its next hop.
    #[inline(always)]
    fn look_up(&mut self, routes: &Routes<u128>, batch: &mut Batch, reader: &Reader) {
        let n = batch.len();
        let scope = routes.scope.as_ref().filter(|scope| scope.has_vrfs(reader));
        let tops = &mut self.tops[..n];
        if scope.is_none() && beginnings(batch, tops) {
            let (addrs, hops) =
                (Beginnings { tops, whole: &|place| whole(batch, place) }, &mut self.hops[..n]);
            routes.table.lookup_beginnings(reader, &addrs, hops);
            return NextHopId::in_bits(batch.columns().next_hops).copy_from_slice(hops);
        }
        let addresses = &mut self.addresses[..n];
        destinations(batch, addresses);
        match scope {
            None => {
                let hops = NextHopId::in_bits(batch.columns().next_hops);
                routes.table.lookup_batch(reader, addresses, hops);
            }
            Some(scope) => scope.route(&routes.table, reader, batch, addresses),
        }
    }
}

impl Class for LookupIP6Route {
    const SPEC: Spec =
        Spec { losses: &["no_route"], state: State::Shared, ..Spec::new("LookupIP6Route", "1/-", "h/h") };
    type Local = LocalLookupIP6Route;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<LookupIP6Route, ConfigErrors> {
        let one_output = args.keyword("ONE_OUTPUT", false);
        let ports = if one_output { usize::from(Adjacency::LOST) } else { cx.outputs };
        let table = || RouteTable::new(RangeTree::new());
        let table = match args.keyword_if_given::<String>("TABLE") {
            Some(name) => cx.tables.get_or(&name, table),
            None => Arc::new(table()),
        };
        Ok(LookupIP6Route { routes: Routes::configure(table, args, cx, ports)?, one_output })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalLookupIP6Route {
        let room = Room { tops: [0; Batch::MAX], hops: [None; Batch::MAX], addresses: [0; Batch::MAX] };
        LocalLookupIP6Route { shared: self.clone(), ways: Ways::new(), room: Box::new(room) }
    }

    fn handlers(h: &mut Handlers<LookupIP6Route>) {
        routes::handlers(h, |l| &l.routes, true);
    }
}

/// The table of a `LookupIP6Route`; `None` if it is something else.
pub(crate) fn table_of(cx: &Initialize<'_>, node: NodeId) -> Option<Arc<RouteTable<u128>>> {
    cx.peer::<LookupIP6Route>(node).map(|lookup| lookup.routes.table.clone())
}

impl Element for LocalLookupIP6Route {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let LookupIP6Route { routes, one_output } = &*self.shared;
        self.room.look_up(routes, &mut batch, cx.reader);
        if *one_output {
            return send_all(batch, out);
        }
        self.ways.learn(routes.table.next_hops(cx.reader));
        let ways = &self.ways;
        let hop_of = |bits: u32| ways.hops.get(bits as usize).copied().unwrap_or(Hop(NOWHERE));
        let (mut all, mut any) = (u32::MAX, 0);
        for bits in different(batch.next_hops()) {
            let hop = hop_of(*bits);
            (all, any) = (all & hop.port(), any | hop.0);
        }
        if any & GATEWAY != 0 {
            batch.iter_mut().for_each(|packet| by_gateway(packet, ways));
        }
        // The same output for each, if no bit is in some and not in others.
        let any = Hop(any).port();
        if all == any && any != NOWHERE {
            return out.emit(any as usize, batch);
        }
        out.split_by_next_hop(batch, |bits| match hop_of(bits).port() {
            NOWHERE => Way::Lost(NO_ROUTE),
            port => Way::Port(port as usize),
        });
    }
}

/// All next hops, or the first one if they are all the same.
#[inline]
fn different(next_hops: &[u32]) -> &[u32] {
    let Some(first) = next_hops.first() else { return next_hops };
    let differ = next_hops.iter().fold(0, |differ, next_hop| differ | next_hop ^ first) != 0;
    if differ { next_hops } else { std::slice::from_ref(first) }
}

#[inline]
fn by_gateway(packet: &mut Packet, ways: &Ways) {
    let gateway = ways.gateways.get(packet.next_hop() as usize).copied().unwrap_or(0);
    if gateway != 0 {
        set_destination(packet, gateway);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::{Frame, Lab, bytes};

    /// Packets to 2001:db8::1, 2001:db8:1::1, 2001:db9::1 and 3fff::1 through a table with three outputs.
    fn config(routes: &str) -> String {
        let mut text = format!("rt :: LookupIP6Route({routes});\n");
        for (i, dst) in ["20010db80000", "20010db80001", "20010db90000", "3fff00000000"].iter().enumerate() {
            let limit = 10 + i;
            text += &format!(
                "InfiniteSource(DATA \\<60000000 00003b40 {0} {dst}00000000000000000001>, LIMIT {limit}) -> MarkIP6Header -> rt;\n",
                "00".repeat(16)
            );
        }
        for i in 0..3 {
            text += &format!("rt[{i}] -> c{i} :: Counter -> Discard;\n");
        }
        text
    }

    #[test]
    fn packets_leave_by_the_longest_prefix() {
        let routes = "2001:db8::/32 0, 2001:db8:1::/48 fe80::1 2, 2001:db9::/ffff:ffff:: 1, 2001:db9::1 2";
        for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
            let mut bench =
                Bench::new(&config(routes), &Setup { workers, burst, ..Setup::default() }).unwrap();
            bench.run().unwrap();
            let counts = [0, 1, 2].map(|i| bench.read(&format!("c{i}.count")));
            assert_eq!(counts, ["10", "0", "23"]);
            assert!(bench.losses().contains(&"rt.no_route = 13".to_owned()), "{:?}", bench.losses());
            bench.end().unwrap();
        }
    }

    #[test]
    fn a_gateway_becomes_the_destination() {
        let ip = |last: u8| {
            Frame::new(&bytes(&format!(
                "60000000 00003b40 {} 20010db8{}{last:02x}",
                "00".repeat(16),
                "00".repeat(11)
            )))
        };
        // What the second table finds is where the first one's gateway is.
        let text = "f :: Feed -> CheckIP6Header(1::/128) -> a :: LookupIP6Route(2001:db8::/32 0, 2001:db8::7 fe80::9 0)
            -> b :: LookupIP6Route(2001:db8::/32 0, fe80::9 1); b[0] -> direct :: Keep; b[1] -> via :: Keep;";
        let mut lab = Lab::new(text);
        for last in [1, 7, 2, 7] {
            lab.at(0, "f", &ip(last));
        }
        lab.run();
        let last = |keep: &str| lab.kept(keep).iter().map(|f| (f.bytes[39], f.dst)).collect::<Vec<_>>();
        assert_eq!(last("direct"), [(1, 0), (2, 0)]);
        assert_eq!(last("via"), [(7, 0xfe80_0000), (7, 0xfe80_0000)]);
        lab.end();
    }

    #[test]
    fn handlers_change_the_table_in_transactions() {
        let bench = Bench::new(&config("2001:db8::/32 0"), &Setup::default()).unwrap();
        bench.write("rt.add", "2001:db8:1::/48 fe80::1 2").unwrap();
        let table = "2001:db8::/32                -                        0\n\
                     2001:db8:1::/48              fe80::1                  2\n";
        assert_eq!(bench.read("rt.table"), table);
        let lookup = |a: &str| bench.router.read("rt", "lookup", a).map_err(|e| e.to_string());
        assert_eq!(
            (lookup("2001:db8:1::9"), lookup("2001:db8::9")),
            (Ok("2 fe80::1".into()), Ok("0".into()))
        );
        assert_eq!((lookup("::1"), lookup("1.2.3.4")), (Ok("-1".into()), Err("parse error".into())));
        assert_eq!(
            bench.write("rt.add", "2001:db8::/32 1"),
            Err("there is a route already: 2001:db8::/32 0".into())
        );
        assert_eq!(bench.write("rt.add", "1::/16 3"), Err("port: no output 3, there are 3".into()));
        let bad = "set 1::/16 1\n\nremove 2::/16";
        assert_eq!(bench.write("rt.ctrl", bad), Err("line 3: there is no route for 2::/16".into()));
        assert_eq!(bench.read("rt.table"), table);
        bench
            .write("rt.ctrl", "set 2001:db8::/32 1\nremove 2001:db8:1::/48 fe80::1 2\nadd 1::/16 2")
            .unwrap();
        assert_eq!((lookup("2001:db8:1::9"), lookup("1::9")), (Ok("1".into()), Ok("2".into())));
        bench.write("rt.remove", "1::/16").unwrap();
        bench.write("rt.flush", "").unwrap();
        assert_eq!((bench.read("rt.table"), bench.read("rt.count")), (String::new(), "0".into()));
        bench.end().unwrap();
    }

    #[test]
    fn the_structure_can_be_another_one() {
        let text = config("2001:db8::/32 0, 2001:db8:1::/48 2, STRUCTURE poptrie");
        let mut bench = Bench::new(&text, &Setup::default()).unwrap();
        assert_eq!(bench.read("rt.structure"), "poptrie");
        assert_eq!(bench.write("rt.structure", "dir24_8"), Err("dir24_8 is for IPv4 only".into()));
        bench.write("rt.structure", "quickest").unwrap();
        assert_eq!(bench.read("rt.structure").lines().count(), 3);
        bench.run().unwrap();
        assert_eq!(["c0", "c2"].map(|c| bench.read(&format!("{c}.count"))), ["10", "11"]);
        bench.end().unwrap();
    }

    #[test]
    fn files_and_mistakes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("routes");
        let with = |routes: &str, more: &str| {
            std::fs::write(&path, routes).unwrap();
            Bench::new(&config(&format!("FILE {}{more}", path.display())), &Setup::default())
        };
        let routes = "# all\r\n2001:db8::/32 1\r\n2001:db8:1::/48 fe80::1 0\n10.0.0.0/8 7\n";
        let mut bench = with(routes, ", 2001:db8:1::/48 2").unwrap();
        bench.run().unwrap();
        assert_eq!(
            (bench.read("c1.count"), bench.read("c2.count"), bench.read("rt.count")),
            ("10".into(), "11".into(), "2".into())
        );
        bench.end().unwrap();
        let error = |routes: &str| with(routes, "").err().unwrap();
        assert!(
            error("::/0 10.0.0.1 1").contains("route ::/0 10.0.0.1 1: the gateway is not an IPv6 address")
        );
        assert!(error("::/0 ::9 1").contains("a gateway cannot begin with four zero octets"));
        assert!(error("::/0 3").contains("route ::/0 3: no output 3, there are 3"));
        let error = Bench::new(&config("::/0 3, 1::, 2::/16 x 1"), &Setup::default()).err().unwrap();
        for want in
            ["ROUTE: port: no output 3, there are 3", "ROUTE: port missing", "ROUTE: gateway: parse error"]
        {
            assert!(error.contains(want), "{error}");
        }
    }
}
