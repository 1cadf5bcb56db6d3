//! VLANs and VRFs, as Linux told of them: what workers hear of interfaces, and what the tables hold.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::netlink::{decode, wire::Messages};
use control::{Model, PUNT, Publisher, Tables};
use epoch::Reader;
use fib::{Interface, Interfaces, NextHop, RouteTable, Vrf};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Commands, each with the datagrams that came after it.
fn recorded() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut steps = Vec::new();
    for line in include_str!("recorded/vlans-and-vrfs.txt").lines().skip(1) {
        match line.strip_prefix("# ip ") {
            Some(command) => steps.push((command, Vec::new())),
            None => {
                let byte = |i: usize| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap();
                steps.last_mut().unwrap().1.push((0..line.len() / 2).map(byte).collect());
            }
        }
    }
    steps
}

/// `eth1` and `eth2`, interfaces 2 and 3, are ports 0 and 1.
struct World {
    steps: std::vec::IntoIter<(&'static str, Vec<Vec<u8>>)>,
    model: Model,
    publisher: Publisher,
    tables: Tables,
    interfaces: Arc<Interfaces>,
    reader: Reader,
}

impl World {
    fn new() -> World {
        let interfaces = Arc::new(Interfaces::new(1));
        let tables = Tables::default().with_interfaces(interfaces.clone());
        let publisher = Publisher::new(tables.clone(), &[2, 3]);
        let steps = recorded().into_iter();
        World { steps, model: Model::default(), publisher, tables, interfaces, reader: Reader::new() }
    }

    /// Goes on up to this command and publishes after each.
    fn run_to(&mut self, last: &str) {
        for (command, datagrams) in self.steps.by_ref() {
            for raw in datagrams.iter().flat_map(|bytes| Messages::new(bytes)) {
                self.model.apply(decode(&raw.unwrap()), false);
            }
            assert!(!self.publisher.publish(&mut self.model, None, &mut self.reader), "{command}");
            if command == last {
                return;
            }
        }
        panic!("no command {last}");
    }

    /// Number, name, port, tags and VRF of each interface.
    fn shown(&self) -> Vec<String> {
        let line = |(number, one): (u32, &Interface)| {
            let vrf = one.vrf.as_ref().map_or("-".to_owned(), |vrf| format!("{} {}", vrf.name, vrf.table));
            let state = if one.up { "up" } else { "down" };
            format!("{number} {} {} {} {} {state} {vrf}", one.name, one.port, one.tags, one.mtu)
        };
        self.interfaces.with(|map| map.iter().map(line).collect())
    }

    fn vrf(&self) -> Arc<Vrf> {
        self.interfaces.with(|map| map.vrfs()[0].clone())
    }

    /// Gateway and interface of the route to an address; of a VRF if one is given.
    fn way(&self, to: &str, vrf: Option<&Vrf>) -> Option<(Option<IpAddr>, u32)> {
        fn find<A: fib::InVrf>(shared: &RouteTable<A>, vrf: Option<&Vrf>, to: A) -> Option<NextHop> {
            let Some(vrf) = vrf else { return Some(shared.find(to)?.next_hop) };
            let hop = vrf.routes::<A>().find(to)?.next_hop;
            shared.next_hop_list().get(Vrf::shared(&hop)?.index()).copied()
        }
        let hop = match to.parse().unwrap() {
            IpAddr::V4(to) => find(&self.tables.routes4, vrf, to.to_bits()),
            IpAddr::V6(to) => find(&self.tables.routes6, vrf, to.to_bits()),
        }?;
        Some((hop.gateway, hop.port))
    }
}

fn via(gateway: &str, interface: u32) -> Option<(Option<IpAddr>, u32)> {
    Some((Some(gateway.parse().unwrap()), interface))
}

const LINUX: Option<(Option<IpAddr>, u32)> = Some((None, PUNT));
const PORTS: [&str; 2] = ["0 eth1 0 - 1500 up -", "1 eth2 1 - 1500 up -"];

#[test]
fn vlans_are_interfaces_with_tags() {
    let mut world = World::new();
    world.run_to("neighbour add 10.0.0.2 lladdr 02:00:00:00:01:02 dev eth1.100");
    assert_eq!(world.shown(), [PORTS[0], PORTS[1], "2 eth1.100 0 100 1400 up -"]);
    assert_eq!((world.way("10.0.0.2", None), world.way("10.0.0.1", None)), (via("10.0.0.2", 2), LINUX));
    assert_eq!(world.way("10.0.0.3", None), Some((None, 2)));
    let adjacency = |gateway: [u8; 4], port| {
        let hop = NextHop { gateway: Some(Ipv4Addr::from(gateway).into()), port };
        let one = world.tables.adjacencies4.get(hop)?;
        Some((one.port(), one.interface(), one.header))
    };
    let header = [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 0, 1, 0, 2];
    assert_eq!(adjacency([10, 0, 0, 2], 2), Some((0, 2, header)));
    assert_eq!(adjacency([10, 0, 0, 2], 0), None);
    world.run_to("neighbour add 10.5.0.2 lladdr 02:00:00:00:05:02 dev svc.5");
    assert_eq!(world.shown()[3..], ["3 svc 0 ad:7 1500 up -", "4 svc.5 0 ad:7.5 1500 up -"]);
    assert_eq!(world.way("10.55.1.1", None), via("10.5.0.2", 4));
    let reader = Reader::new();
    let mtus = [0, 2, 4].map(|number| world.tables.adjacencies4.read(&reader).mtu(number));
    assert_eq!(mtus, [1500, 1400, 1500]);
}

#[test]
fn vrfs_have_routes_of_their_own() {
    let mut world = World::new();
    world.run_to("neighbour add 2001:db8::2 lladdr 02:00:00:00:02:02 dev eth2.100");
    assert_eq!(world.shown()[5..], ["5 eth2.100 1 100 1500 up red 10"]);
    let red = world.vrf();
    // The same addresses in two places.
    assert_eq!(
        (world.way("10.0.0.2", None), world.way("10.0.0.2", Some(&red))),
        (via("10.0.0.2", 2), via("10.0.0.2", 5))
    );
    assert_eq!((world.way("10.0.0.1", None), world.way("10.0.0.1", Some(&red))), (LINUX, LINUX));
    assert_eq!((world.way("10.9.1.1", None), world.way("10.9.1.1", Some(&red))), (LINUX, via("10.0.0.2", 5)));
    // Out of another VRF; where nothing leads.
    assert_eq!(world.way("10.55.1.1", Some(&red)), via("10.5.0.2", 4));
    assert_eq!(world.way("10.5.0.2", Some(&red)), LINUX);
    assert_eq!(
        (world.way("2001:db8::2", None), world.way("2001:db8::2", Some(&red))),
        (LINUX, via("2001:db8::2", 5))
    );
    let hop = NextHop { gateway: Some("2001:db8::2".parse::<Ipv6Addr>().unwrap().into()), port: 5 };
    assert_eq!(world.tables.adjacencies6.get(hop).map(|one| (one.port(), one.interface())), Some((1, 5)));
    // Another interface comes to it, with its network.
    world.run_to("link set eth1.100 master red");
    assert_eq!(world.shown()[2], "2 eth1.100 0 100 1400 up red 10");
    assert!(Arc::ptr_eq(&world.vrf(), &red));
}

#[test]
fn what_goes_takes_its_adjacencies_along_and_numbers_keep_their_meaning() {
    let mut world = World::new();
    world.run_to("link del eth1.100");
    assert_eq!(
        world.shown()[2..],
        ["3 svc 0 ad:7 1500 up -", "4 svc.5 0 ad:7.5 1500 up -", "5 eth2.100 1 100 1500 up red 10"]
    );
    let known = || world.tables.adjacencies4.known();
    assert!(known().iter().all(|(hop, _)| hop.port != 2), "{:?}", known());
    let red = world.vrf();
    assert_eq!(world.way("10.0.0.2", Some(&red)), via("10.0.0.2", 5));
    world.run_to("link set eth1.100 addrgenmode none up");
    assert_eq!(world.shown()[5], "6 eth1.100 0 101 1500 up -");
    world.run_to("link set eth2.100 nomaster");
    assert_eq!(world.shown()[4], "5 eth2.100 1 100 1500 up -");
    world.run_to("link del red");
    assert!(world.interfaces.with(|map| map.vrfs().is_empty()));
    // Nobody holds its tables any more, once readers of other tests of this process have passed by.
    let begun = Instant::now();
    while Arc::strong_count(&red) > 1 && begun.elapsed() < Duration::from_secs(10) {
        world.publisher.publish(&mut world.model, None, &mut world.reader);
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(Arc::strong_count(&red), 1);
}
