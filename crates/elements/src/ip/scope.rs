//! Which routes packets are looked up in: those that all interfaces share, or those of the VRF of the interface that they
//! came in by.

use epoch::Reader;
use fib::{InVrf, InterfaceMap, Interfaces, NextHopId, RouteTable, SourceCheck, Vrf};
use graph::{Args, Configure};
use packet::{Batch, Packet};
use std::ops::Range;
use std::sync::Arc;

/// What the arguments `INTERFACES` and `PORT` say.
pub(crate) struct Scope {
    interfaces: Arc<Interfaces>,
    /// All packets came in by this port; `None`: by the interface whose number is noted on each.
    port: Option<u32>,
}

/// The interfaces that the argument `INTERFACES` names.
pub(crate) fn interfaces(args: &mut Args, cx: &Configure<'_>) -> Option<Arc<Interfaces>> {
    let name: String = args.keyword_if_given("INTERFACES")?;
    Some(cx.tables.get_or(&name, || Interfaces::new(cx.workers)))
}

impl Scope {
    /// Packets of `port`, or of the interface that is noted on each.
    pub fn new(interfaces: Arc<Interfaces>, port: Option<u16>) -> Scope {
        Scope { interfaces, port: port.map(u32::from) }
    }

    /// The VRFs that there are.
    pub fn vrfs(&self) -> Vec<Arc<Vrf>> {
        self.interfaces.with(InterfaceMap::vrfs)
    }

    /// False if all packets are looked up in the routes that all interfaces share.
    #[inline]
    pub fn has_vrfs(&self, reader: &Reader) -> bool {
        self.interfaces.read(reader).has_vrfs()
    }

    /// False if Linux checks sources on none of the interfaces.
    #[inline]
    pub fn checks_sources(&self, reader: &Reader) -> bool {
        self.interfaces.read(reader).checks_sources()
    }

    /// What Linux checks of sources on an interface.
    pub fn source_check(&self, reader: &Reader, interface: u32) -> SourceCheck {
        self.interfaces.read(reader).get(interface).map_or(SourceCheck::Off, |one| one.settings.sources)
    }

    /// The number of the interface that a packet came in by.
    #[inline]
    pub fn interface(&self, packet: &Packet) -> u32 {
        // Before the lookup there is no next hop yet: its place has the number.
        self.port.unwrap_or(packet.next_hop())
    }

    /// Looks up an address for each packet of the batch where this packet's routes are. The numbers are those of `shared`.
    #[inline]
    pub fn lookup<A: InVrf>(
        &self,
        shared: &RouteTable<A>,
        reader: &Reader,
        batch: &Batch,
        addresses: &[A],
        hops: &mut [Option<NextHopId>],
    ) {
        let map = self.interfaces.read(reader);
        match self.port {
            Some(port) => lookup_in(map.vrf(port), shared, reader, addresses, hops),
            None => self.lookup_each(map, shared, reader, batch, addresses, hops),
        }
    }

    /// [`lookup`](Self::lookup) whose results are the packets' next hops from then on.
    #[inline(never)]
    pub fn route<A: InVrf>(
        &self,
        shared: &RouteTable<A>,
        reader: &Reader,
        batch: &mut Batch,
        addresses: &[A],
    ) {
        let mut hops = [None; Batch::MAX];
        let hops = &mut hops[..addresses.len()];
        self.lookup(shared, reader, batch, addresses, hops);
        NextHopId::in_bits(batch.columns().next_hops).copy_from_slice(hops);
    }

    /// Calls `take` for packets behind each other that are looked up in the same routes, with these: `None` = those that all
    /// share.
    pub fn each_run(
        &self,
        reader: &Reader,
        packets: &[Packet],
        mut take: impl FnMut(Option<&Vrf>, Range<usize>),
    ) {
        let map = self.interfaces.read(reader);
        if let Some(port) = self.port {
            return take(map.vrf(port), 0..packets.len());
        }
        let vrf_of = |packet: &Packet| map.vrf(self.interface(packet));
        let table = |packet: &Packet| vrf_of(packet).map(|vrf| vrf.table);
        let mut begin = 0;
        for run in packets.chunk_by(|a, b| table(a) == table(b)) {
            take(run.first().and_then(vrf_of), begin..begin + run.len());
            begin += run.len();
        }
    }

    /// The packets of each VRF at once.
    fn lookup_each<A: InVrf>(
        &self,
        map: &InterfaceMap,
        shared: &RouteTable<A>,
        reader: &Reader,
        batch: &Batch,
        addresses: &[A],
        hops: &mut [Option<NextHopId>],
    ) {
        let vrf_of = |packet: &Packet| map.vrf(self.interface(packet));
        let packets = batch.as_slice();
        let Some(first) = packets.first().map(vrf_of) else { return };
        let table = |vrf: Option<&Vrf>| vrf.map(|vrf| vrf.table);
        if packets.iter().all(|packet| table(vrf_of(packet)) == table(first)) {
            return lookup_in(first, shared, reader, addresses, hops);
        }
        let mut done = [false; Batch::MAX];
        let (mut some, mut found) = ([A::default(); Batch::MAX], [None; Batch::MAX]);
        for first in 0..packets.len().min(Batch::MAX) {
            if done[first] {
                continue;
            }
            let vrf = vrf_of(&packets[first]);
            let places = || (first..).zip(&packets[first..]).filter(|(_, p)| table(vrf_of(p)) == table(vrf));
            let mut n = 0;
            for ((place, _), to) in places().zip(&mut some) {
                (*to, done[place]) = (addresses[place], true);
                n += 1;
            }
            lookup_in(vrf, shared, reader, &some[..n], &mut found[..n]);
            for ((place, _), hop) in places().zip(&found) {
                hops[place] = *hop;
            }
        }
    }
}

/// Looks up in the routes of a VRF, or in those that all share.
#[inline]
fn lookup_in<A: InVrf>(
    vrf: Option<&Vrf>,
    shared: &RouteTable<A>,
    reader: &Reader,
    addresses: &[A],
    hops: &mut [Option<NextHopId>],
) {
    match vrf {
        None => shared.lookup_batch(reader, addresses, hops),
        Some(vrf) => lookup_in_vrf(vrf, reader, addresses, hops),
    }
}

#[inline(never)]
fn lookup_in_vrf<A: InVrf>(vrf: &Vrf, reader: &Reader, addresses: &[A], hops: &mut [Option<NextHopId>]) {
    let routes = vrf.routes::<A>();
    routes.lookup_batch(reader, addresses, hops);
    let list = routes.next_hops(reader);
    for hop in hops {
        *hop = hop.and_then(|number| list.get(number.index())).and_then(Vrf::shared);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::{Frame, Lab, bytes};
    use fib::{
        Adjacencies, Dir24_8, Interface, Interfaces, NextHop, Route, RouteChange, RouteTable, Tags, Vrf,
    };
    use std::sync::Arc;

    /// Port 0, and on it VLAN 10 (number 2) in no VRF, 20 (3) in red, 30 (4) in blue; port 1 in red.
    fn setup() -> Setup {
        let setup = Setup::default();
        let all = setup.tables.get_or("main", || Interfaces::new(1));
        let [red, blue] = [("red", 20), ("blue", 30)].map(|(name, table)| Arc::new(Vrf::new(name, table)));
        let one = |port, id, vrf: Option<&Arc<Vrf>>| {
            let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap_or_default();
            let (name, counts) = (format!("{port}.{id}"), all.counts());
            Some(Interface {
                name,
                port,
                tags,
                mac: [2, 0, 0, 0, 0, 1],
                mtu: 0,
                up: true,
                settings: fib::InterfaceSettings::default(),
                vrf: vrf.cloned(),
                counts,
            })
        };
        let list = vec![
            one(0, 0, None),
            one(1, 0, Some(&red)),
            one(0, 10, None),
            one(0, 20, Some(&red)),
            one(0, 30, Some(&blue)),
        ];
        all.set(list);
        let hop = |port| NextHop { gateway: None, port };
        let shared = setup.tables.get_or("main", || RouteTable::<u32>::new(Dir24_8::new()));
        let numbers = shared.numbers(&[hop(0), hop(1)]).unwrap();
        let route =
            |prefix: &str, next_hop| RouteChange::Set(Route { prefix: prefix.parse().unwrap(), next_hop });
        // The same prefix leads to three places; red's other prefix leads nowhere else.
        shared.apply(&[route("10.0.0.0/8", hop(0)), route("10.1.0.0/16", hop(1))]).unwrap();
        red.routes4
            .apply(&[route("10.0.0.0/8", Vrf::hop(numbers[1])), route("11.0.0.0/8", Vrf::hop(numbers[0]))])
            .unwrap();
        blue.routes4.apply(&[route("10.0.0.0/8", Vrf::hop(numbers[0]))]).unwrap();
        let _: Arc<Adjacencies> = setup.tables.get_or("main", Adjacencies::default);
        setup
    }

    fn packet(id: u16, source: u8, destination: [u8; 2], tag: u8) -> Frame {
        let mut ip = *b"\x45\x00\x00\x15\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x01";
        (ip[12], ip[16], ip[17]) = (source, destination[0], destination[1]);
        packet::wire::ipv4::set_checksum(&mut ip);
        let head = if id == 0 { String::new() } else { format!("8100{id:04x}") };
        Frame::new(&[&bytes(&format!("020000000001 020000000009 {head} 0800"))[..], &ip, &[tag]].concat())
    }

    fn tags(lab: &Lab, keep: &str) -> Vec<u8> {
        lab.kept(keep).iter().filter_map(|frame| frame.bytes.last().copied()).collect()
    }

    /// What is behind the checks of headers; `check` stands before the lookups.
    fn lab(check: &str, check_port: &str) -> Lab {
        let text = format!(
            "f :: Feed -> v :: FindInterface(PORT 0, INTERFACES main); v[1], v[2], v[3], v[4], v[5], v[6] -> Discard;
             v[0] -> CheckIPHeader(OFFSET 18) {check} -> rt :: DirectIPLookup(TABLE main, INTERFACES main);
             g :: Feed -> CheckIPHeader(OFFSET 14) {check_port} -> one :: DirectIPLookup(TABLE main, INTERFACES main, PORT 1);
             rt[0], one[0] -> k0 :: Keep; rt[1], one[1] -> k1 :: Keep;"
        );
        Lab(Bench::new(&text, &setup()).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn packets_are_looked_up_in_the_vrf_of_their_interface() {
        let mut lab = lab("", "");
        for (i, id) in [10, 20, 30, 20, 10, 30].into_iter().enumerate() {
            lab.at(0, "f", &packet(id, 1, [10, 0], 10 + i as u8));
            lab.at(0, "f", &packet(id, 1, [10, 1], 20 + i as u8));
            lab.at(0, "f", &packet(id, 1, [11, 0], 30 + i as u8));
        }
        // Of one VRF only, and a whole port.
        (0..3).for_each(|i| lab.at(1, "f", &packet(20, 1, [10 + i % 2, 0], 40 + i)));
        (0..3).for_each(|i| lab.at(1, "g", &packet(0, 1, [10 + i, 0], 50 + i)));
        lab.run();
        assert_eq!(tags(&lab, "k0"), [10, 31, 12, 22, 33, 14, 15, 25, 41, 51]);
        assert_eq!(tags(&lab, "k1"), [20, 11, 21, 13, 23, 24, 40, 42, 50]);
        assert_eq!(lab.losses(), ["rt.no_route = 4", "one.no_route = 1"]);
    }

    #[test]
    fn sources_are_looked_up_there_too() {
        let strict = "-> CheckReversePath(rt, INTERFACES main)";
        let strict_port = "-> CheckReversePath(one, INTERFACES main, PORT 1)";
        let mut checked = lab(strict, strict_port);
        // No adjacency is known: next hops tell the interface. None of the routes leads to a VLAN.
        checked.at(0, "f", &packet(20, 10, [10, 0], 1));
        checked.at(0, "g", &packet(0, 10, [10, 0], 2));
        checked.at(0, "g", &packet(0, 11, [10, 0], 3));
        checked.run();
        assert_eq!((tags(&checked, "k0"), tags(&checked, "k1")), (vec![], vec![2]));
        let loose = "-> CheckReversePath(rt, INTERFACES main, MODE loose)";
        let mut checked = lab(loose, "");
        for (id, source) in [(10, 10), (10, 11), (20, 10), (20, 11), (30, 11), (20, 12)] {
            checked.at(0, "f", &packet(id, source, [10, 0], id as u8 + source));
        }
        checked.run();
        assert_eq!((tags(&checked, "k0"), tags(&checked, "k1")), (vec![20], vec![30, 31]));
    }
}
