//! A whole cluster whose control node's Linux has VLANs and VRFs: the configurations that nodes get, tables that follow those of
//! the control node, and frames on lines, links and twins, which are ports in memory.

use super::config::Cluster;
use super::text::{link_device, tap, text};
use crate::config::Configuration;
use crate::linux::{self, Port};
use control::netlink::{
    Action, Hop, Hops, Kind, LOCAL_TABLE, Link, MAIN_TABLE, Message, Neighbour, Route, RouteExtras,
};
use control::replicate::{Feed, Frames, Hello, Log, Message as Word, Replica, VERSION};
use control::{Model, Publisher, Tables};
use epoch::Reader;
use fib::{Prefix, Tags};
use graph::{Clock, Engine, Options, Router, SIMULATED_START};
use io::Devices;
use io::memory::{MemoryDevices, MemoryPort};
use packet::Pool;
use packet::wire::ipv4;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

const NODES: usize = 4;
/// Lines that there may come to be: VLANs have numbers from there on.
const ALL_LINES: usize = 8;
const MS: u64 = 1_000_000;
/// VRFs: their interfaces and tables.
const RED: (u32, u32) = (51, 100);
const BLUE: (u32, u32) = (52, 200);

/// The interface of a line's twin.
fn twin(line: usize) -> u32 {
    11 + line as u32
}

/// VLANs, each with its line, tags, VRF, and the third byte of its network 10.0.x.0/24. VRFs have the same networks.
const VLANS: [(u32, usize, &str, u32, u8); 5] = [
    (21, 1, "8100 0064", RED.0, 1),
    (22, 2, "8100 0064", BLUE.0, 1),
    (23, 1, "8100 00c8", BLUE.0, 2),
    (24, 2, "8100 00c8", RED.0, 2),
    (26, 3, "88a8 0007 8100 0005", 0, 3),
];

struct Site {
    router: Router,
    engine: Engine,
    clock: Arc<Clock>,
    devices: Arc<MemoryDevices>,
    tables: Tables,
    /// Of all but the control node.
    follows: Option<(Replica, Feed, Frames)>,
}

struct World {
    cluster: Cluster,
    sites: Vec<Site>,
    publisher: Publisher,
    model: Model,
    reader: Reader,
    log: Arc<Log>,
    now: u64,
}

fn port(node: usize) -> Port {
    Port::idle(&format!("port{}", node + 1), mac(node))
}

/// Of a line, its twin, and the VLANs there.
fn mac(line: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, line as u8 + 1]
}

/// Of the neighbour .2 on an interface of Linux.
fn near(link: u32) -> [u8; 6] {
    [4, 0, 0, 0, 0, link as u8]
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

impl Site {
    fn new(cluster: &Cluster, node: usize) -> Site {
        let text = text(cluster, node, 1, &[port(node)]);
        let Configuration { flat, .. } = Configuration::of_text("node", text).unwrap();
        let mut names = vec![port(node).name];
        names.extend((0..NODES).filter(|to| *to != node).map(|to| link_device(cluster, node, to)));
        names.extend((0..NODES).map(|line| format!("tap:{}", tap(line))));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let limits = io::Limits { rx_queues: 1, tx_queues: 1 };
        let devices = Arc::new(MemoryDevices::new(Pool::heap(1 << 12, 2048), &names, limits));
        let clock = Arc::new(Clock::simulated(SIMULATED_START));
        let shared = graph::Tables::new();
        let tables = linux::tables(&shared, 1);
        let options =
            Options { workers: 1, burst: 64, clock: clock.clone(), devices: devices.clone(), tables: shared };
        let router = Router::new(flat, &elements::classes(), &options).unwrap();
        let mut engine = router.engines().remove(0);
        engine.start();
        Site { router, engine, clock, devices, tables, follows: None }
    }

    fn port(&self, name: &str) -> Arc<MemoryPort> {
        self.devices.memory(name).unwrap()
    }

    fn inject(&self, port: &str, frame: &[u8]) {
        assert!(self.port(port).inject(&self.devices.pool(), 0, frame));
    }

    /// Becomes one that follows.
    fn follow(&mut self, log: &Arc<Log>) {
        let mut replica = Replica::new(self.tables.clone());
        let (mut hello, mut out) = ((0, 0), Vec::new());
        let said = replica.hello("b");
        Frames::default()
            .feed(&said, |kind, body| {
                if let Word::Hello(Hello { life, position, .. }) = Word::decode(kind, body)? {
                    hello = (life, position);
                }
                Ok(())
            })
            .unwrap();
        let hello = Hello { oldest: 1, newest: VERSION, life: hello.0, position: hello.1, name: "b" };
        let (feed, _) = Feed::new(log, &hello, &mut out).unwrap();
        let mut frames = Frames::default();
        frames.feed(&out, |kind, body| replica.take(kind, body).map(drop)).unwrap();
        self.follows = Some((replica, feed, frames));
    }

    fn catch_up(&mut self) {
        let Some((replica, feed, frames)) = &mut self.follows else { return };
        while feed.has_more() {
            let mut out = Vec::new();
            feed.next(&mut out);
            frames.feed(&out, |kind, body| replica.take(kind, body).map(drop)).unwrap();
        }
    }

    fn losses(&self) -> Vec<String> {
        let rows = self.router.loss_rows();
        let rows = rows.iter().filter(|row| row.packets > 0);
        rows.map(|row| format!("{}.{} = {}", row.element, row.reason, row.packets)).collect()
    }
}

impl World {
    fn new() -> World {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let cluster = Cluster::load(file.as_ref()).unwrap();
        let mut sites: Vec<Site> = (0..NODES).map(|node| Site::new(&cluster, node)).collect();
        let log = Log::new(&sites[0].tables, Log::ROOM);
        let mut twins = [0; ALL_LINES];
        (0..NODES).for_each(|line| twins[line] = twin(line));
        let publisher = Publisher::new(sites[0].tables.clone(), &twins);
        sites[1..].iter_mut().for_each(|site| site.follow(&log));
        let (model, reader) = (Model::default(), Reader::new());
        let mut world = World { cluster, sites, publisher, model, reader, log, now: SIMULATED_START };
        world.hear(&linux_at_first());
        // Links come up.
        world.run(100 * MS);
        world
    }

    /// Linux tells of something, and all nodes have it.
    fn hear(&mut self, messages: &[Message]) {
        for message in messages {
            self.model.apply(message.clone(), false);
        }
        while self.publisher.publish(&mut self.model, None, &mut self.reader) {}
        self.sites.iter_mut().for_each(Site::catch_up);
    }

    fn run(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.now < end {
            self.now += MS / 2;
            for site in &mut self.sites {
                site.clock.advance(self.now);
                while site.engine.round().useful {}
            }
            for from in 0..NODES {
                for to in (0..NODES).filter(|to| *to != from) {
                    let names = [link_device(&self.cluster, from, to), link_device(&self.cluster, to, from)];
                    for frame in self.sites[from].port(&names[0]).sent() {
                        self.sites[to].inject(&names[1], &frame);
                    }
                }
            }
        }
    }

    /// What comes out of lines and twins when this frame comes in by a line.
    fn passed(&mut self, line: usize, frame: &[u8]) -> Vec<(String, Vec<u8>)> {
        self.sites[line].inject(&port(line).name, frame);
        self.out()
    }

    fn out(&mut self) -> Vec<(String, Vec<u8>)> {
        self.run(30 * MS);
        let mut all = Vec::new();
        for (line, site) in self.sites.iter().enumerate() {
            let of_line = site.port(&port(line).name).sent();
            all.extend(of_line.into_iter().map(|frame| (format!("line {line}"), frame)));
            for twin in 0..NODES {
                let of_twin = site.port(&format!("tap:{}", tap(twin))).sent();
                all.extend(of_twin.into_iter().map(|frame| (format!("twin {twin} of {line}"), frame)));
            }
        }
        all
    }

    fn losses(&self) -> Vec<String> {
        self.sites.iter().flat_map(Site::losses).collect()
    }
}

fn link(index: u32, name: &str, line: usize) -> Link {
    let (name, mac) = (name.to_owned(), Some(mac(line)));
    Link { index, name, mac, mtu: 1500, up: true, carrier: true, ..Link::default() }
}

/// A VLAN with its network and a neighbour.
fn vlan((index, line, tags, master, net): (u32, usize, &str, u32, u8)) -> Vec<Message> {
    let tags = bytes(tags);
    let (outer, inner) = tags.split_at(tags.len() - 4);
    let of = |tag: &[u8]| {
        let [a, b, c, d] = *tag.first_chunk().unwrap();
        (u16::from_be_bytes([a, b]), Some(u16::from_be_bytes([c, d])))
    };
    let mut all = Vec::new();
    let mut below = twin(line);
    if !outer.is_empty() {
        let (vlan_protocol, vlan) = of(outer);
        all.push(Link { below, vlan, vlan_protocol, ..link(index - 1, "outer", line) });
        below = index - 1;
    }
    let (vlan_protocol, vlan) = of(inner);
    let name = format!("v{index}");
    all.push(Link { below, vlan, vlan_protocol, master, ..link(index, &name, line) });
    let table = [RED, BLUE].iter().find(|vrf| vrf.0 == master).map_or(MAIN_TABLE, |vrf| vrf.1);
    let all = all.into_iter().map(|link| Message::Link(Action::Add, link));
    all.chain(network(index, net, table)).collect()
}

/// 10.0.`net`.0/24 and 2001:db8:`net`::/64 on an interface: it has .1, and .2 is a neighbour.
fn network(link: u32, net: u8, table: u32) -> Vec<Message> {
    let on_link = |table, kind, prefix: &str| Route {
        table,
        prefix: prefix.parse::<Prefix<u32>>().unwrap(),
        metric: 0,
        tos: 0,
        protocol: 2,
        kind,
        hops: Hops::One(Hop { gateway: None, link }),
        mtu: None,
        extras: RouteExtras::default(),
    };
    let local = if table == MAIN_TABLE { LOCAL_TABLE } else { table };
    let route6 = Route {
        table,
        prefix: format!("2001:db8:{net:x}::/64").parse::<Prefix<u128>>().unwrap(),
        metric: 0,
        tos: 0,
        protocol: 2,
        kind: Kind::Unicast,
        hops: Hops::One(Hop { gateway: None, link }),
        mtu: None,
        extras: RouteExtras::default(),
    };
    let neighbour = |ip: IpAddr| Neighbour { link, ip, mac: Some(near(link)), state: 2 };
    let ips = [[10, 0, net, 2].into(), IpAddr::V6(format!("2001:db8:{net:x}::2").parse().unwrap())];
    let mut all = vec![
        Message::Route4(Action::Add, on_link(table, Kind::Unicast, &format!("10.0.{net}.0/24"))),
        Message::Route4(Action::Add, on_link(local, Kind::Local, &format!("10.0.{net}.1/32"))),
        Message::Route6(Action::Add, route6),
    ];
    all.extend(ips.map(|ip| Message::Neighbour(Action::Add, neighbour(ip))));
    all
}

/// Twins, of which the last is in a VRF itself, VRFs and VLANs.
fn linux_at_first() -> Vec<Message> {
    let mut all = Vec::new();
    for (name, (index, table)) in [("red", RED), ("blue", BLUE)] {
        let link = Link { index, name: name.to_owned(), up: true, table: Some(table), ..Link::default() };
        all.push(Message::Link(Action::Add, link));
    }
    for line in 0..NODES {
        let master = if line == 3 { BLUE.0 } else { 0 };
        all.push(Message::Link(
            Action::Add,
            Link { master, ..link(twin(line), &format!("ext{}", line + 1), line) },
        ));
    }
    all.extend(network(twin(0), 4, MAIN_TABLE));
    VLANS.into_iter().for_each(|one| all.extend(vlan(one)));
    // A route of red that leads to a VLAN in no VRF.
    let leak = Route {
        table: RED.1,
        prefix: "10.77.0.0/16".parse::<Prefix<u32>>().unwrap(),
        metric: 0,
        tos: 0,
        protocol: 4,
        kind: Kind::Unicast,
        hops: Hops::One(Hop { gateway: Some([10, 0, 3, 2].into()), link: 26 }),
        mtu: None,
        extras: RouteExtras::default(),
    };
    all.push(Message::Route4(Action::Add, leak));
    all
}

/// A frame that has these addresses, tags, and an IPv4 packet.
fn frame(to: [u8; 6], from: [u8; 6], tags: &str, destination: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 46, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 9, 9, 0, 0, 0, 0];
    ip[16..].copy_from_slice(&destination);
    ipv4::set_checksum(&mut ip);
    [&to[..], &from, &bytes(tags), &[8, 0], &ip, &[7; 26]].concat()
}

/// The same with an IPv6 packet without contents.
fn frame6(to: [u8; 6], from: [u8; 6], tags: &str, destination: &str, hops: u8) -> Vec<u8> {
    let destination: Ipv6Addr = destination.parse().unwrap();
    let source: Ipv6Addr = "2001:db8:9::9".parse().unwrap();
    let head = [0x60, 0, 0, 0, 0, 0, 59, hops];
    [&to[..], &from, &bytes(tags), &[0x86, 0xDD], &head, &source.octets(), &destination.octets()].concat()
}

const FROM: [u8; 6] = [6; 6];

/// Line, its tags, destination; then the line that it leaves by, tags, and the interface that the neighbour is behind.
type Case = (usize, &'static str, [u8; 4], usize, &'static str, u32);

#[test]
fn packets_of_vlans_and_vrfs_cross() {
    let mut world = World::new();
    let (v100, v200, double) = ("8100 0064", "8100 00c8", "88a8 0007 8100 0005");
    let cases: [Case; 10] = [
        // The same addresses in two VRFs, both ways.
        (1, v100, [10, 0, 2, 2], 2, v200, 24),
        (2, v100, [10, 0, 2, 2], 1, v200, 23),
        (2, v200, [10, 0, 1, 2], 1, v100, 21),
        (1, v200, [10, 0, 1, 2], 2, v100, 22),
        // Without a tag to two, and back; out by the line of the same node.
        (0, "", [10, 0, 3, 2], 3, double, 26),
        (3, double, [10, 0, 4, 2], 0, "", 11),
        (3, double, [10, 0, 3, 2], 3, double, 26),
        // A whole line in a VRF.
        (3, "", [10, 0, 2, 2], 1, v200, 23),
        // From one VRF into none.
        (1, v100, [10, 77, 1, 1], 3, double, 26),
        // A priority is no tag.
        (0, "8100 6000", [10, 0, 3, 2], 3, double, 26),
    ];
    for (line, tags, destination, out, out_tags, link) in cases {
        let passed = world.passed(line, &frame(mac(line), FROM, tags, destination, 64));
        let want = frame(near(link), mac(out), out_tags, destination, 63);
        assert_eq!(passed, [(format!("line {out}"), want)], "{line} {tags} {destination:?}");
        let [.., net, host] = destination;
        if destination[1] == 0 {
            let to = format!("2001:db8:{net:x}::{host:x}");
            let passed = world.passed(line, &frame6(mac(line), FROM, tags, &to, 64));
            let want = frame6(near(link), mac(out), out_tags, &to, 63);
            assert_eq!(passed, [(format!("line {out}"), want)], "{line} {tags} {to}");
        }
    }
    assert_eq!(world.losses(), [""; 0]);
    // Numbers begin behind all lines that there may come to be; counters are at the node of the line.
    let table = |node: usize| world.sites[node].router.read("vlan0", "table", "").unwrap();
    let number = ALL_LINES;
    let of_line1 = format!(
        "{} v21 100 02-00-00-00-00-02 1500 up red 100 3 186 2 122\n{} v23 200 02-00-00-00-00-02 1500 up blue 200 2 122 4 244\n",
        number,
        number + 2
    );
    assert_eq!(table(1), of_line1);
    assert_eq!(world.sites[3].router.read("vlan0", "vrf", ""), Ok("blue 200".to_owned()));
}

#[test]
fn what_is_for_linux_goes_to_the_twin_as_it_came() {
    let mut world = World::new();
    let v100 = "8100 0064";
    let arp = [&[0xFF; 6][..], &FROM, &bytes(v100), &bytes("0806 0001"), &[1; 40]].concat();
    for line in 0..NODES {
        let known = line == 1 || line == 2;
        let want = known.then(|| (format!("twin {line} of 0"), arp.clone()));
        assert_eq!(world.passed(line, &arp), want.into_iter().collect::<Vec<_>>(), "{line}");
    }
    assert_eq!(world.losses(), ["vlan0.unknown_vlan = 1"; 2]);
    // The VLAN's own address; where nothing in the VRF leads; a neighbour that nobody knows; a packet that lived too long.
    for (destination, ttl) in
        [([10, 0, 1, 1], 64), ([10, 0, 4, 2], 64), ([10, 0, 2, 9], 64), ([10, 0, 2, 2], 1)]
    {
        let frame = frame(mac(1), FROM, v100, destination, ttl);
        assert_eq!(world.passed(1, &frame), [("twin 1 of 0".to_owned(), frame)], "{destination:?}");
    }
    // What Linux sends on a VLAN of a twin leaves by the line, with its tag.
    for line in 1..NODES {
        world.sites[0].inject(&format!("tap:{}", tap(line)), &arp);
        assert_eq!(world.out(), [(format!("line {line}"), arp.clone())]);
    }
    // Other tags.
    for tags in ["8100 0065", "88a8 0064", "8100 0064 8100 0001"] {
        assert_eq!(world.passed(1, &frame(mac(1), FROM, tags, [10, 0, 2, 2], 64)), []);
    }
    assert_eq!(world.sites[1].losses(), ["vlan0.unknown_vlan = 3"]);
}

#[test]
fn vlans_come_and_go_on_all_nodes() {
    let mut world = World::new();
    let v100 = "8100 0064";
    let come = frame(mac(1), FROM, v100, [10, 0, 2, 2], 64);
    let out = |tags: &str| vec![("line 2".to_owned(), frame(near(24), mac(2), tags, [10, 0, 2, 2], 63))];
    assert_eq!(world.passed(1, &come), out("8100 00c8"));
    // The VLAN at the other end goes: Linux is asked.
    let gone = Link { index: 24, ..Link::default() };
    world.hear(&[Message::Link(Action::Remove, gone)]);
    assert_eq!(world.passed(1, &come), [("twin 1 of 0".to_owned(), come.clone())]);
    // It comes back with another tag, then with the old one.
    for tags in ["8100 00c9", "8100 00c8"] {
        world.hear(&vlan((24, 2, tags, RED.0, 2)));
        assert_eq!(world.passed(1, &come), out(tags));
        assert_eq!(world.losses(), [""; 0]);
    }
    // Down: as in Linux.
    let Message::Link(_, one) = vlan(VLANS[0]).swap_remove(0) else { panic!() };
    world.hear(&[Message::Link(Action::Add, Link { up: false, ..one })]);
    assert_eq!(world.passed(1, &come), []);
    assert_eq!(world.losses(), ["vlan0.down = 1"]);
    // A line that comes later has a number below theirs.
    world.hear(&vlan(VLANS[0]));
    world.publisher.set_port(5, 16);
    let late = Link { below: 16, vlan: Some(9), vlan_protocol: Tags::CUSTOMER, ..link(40, "late.9", 5) };
    world.hear(&[link(16, "ext6", 5), late].map(|link| Message::Link(Action::Add, link)));
    let interfaces = world.sites[3].tables.interfaces.clone().unwrap();
    let shown = interfaces.with(|map| {
        let late = map.iter().filter(|(_, one)| one.port == 5);
        late.map(|(number, one)| format!("{number} {} {}", one.name, one.tags)).collect::<Vec<_>>()
    });
    assert_eq!(shown, ["5 ext6 -".to_owned(), format!("{} late.9 9", ALL_LINES + 7)]);
    assert_eq!(world.passed(1, &come), out("8100 00c8"));
    assert!(world.log.ring().position() > 1);
}
