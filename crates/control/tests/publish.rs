//! What the tables hold for a model, and what does not change in them.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::netlink::{
    Action, Hop, Hops, Kind, LOCAL_TABLE, Link, MAIN_TABLE, Message, Neighbour, NextHopObject, ObjectTarget,
    Route, RouteExtras,
};
use control::{BLACKHOLE, Model, PUNT, Publisher, Tables, object_number, set_number};
use epoch::Reader;
use fib::{Adjacency, LinearTable, NextHop, NextHopId, Prefix4};

/// Interfaces 11 and 12 are ports 0 and 1, interface 13 is none.
/// A route of the kernel.
fn route(table: u32, prefix: &str, metric: u32, kind: Kind, hops: Hops) -> Route<u32> {
    let (prefix, extras) = (prefix.parse().unwrap(), RouteExtras::default());
    Route { table, prefix, metric, tos: 0, protocol: 4, kind, hops, mtu: None, extras }
}

struct World {
    model: Model,
    publisher: Publisher,
    tables: Tables,
    reader: Reader,
}

impl World {
    fn new() -> World {
        let tables = Tables::new(LinearTable::new(), LinearTable::new());
        let publisher = Publisher::new(tables.clone(), &[11, 12]);
        let mut world = World { model: Model::default(), publisher, tables, reader: Reader::new() };
        (11..14).for_each(|index| world.link(index, true));
        world
    }

    fn tell(&mut self, message: Message) {
        self.model.apply(message, false);
    }

    fn link(&mut self, index: u32, up: bool) {
        let mac = Some([2, 0, 0, 0, 0, index as u8]);
        self.tell(Message::Link(Action::Add, Link { index, up, carrier: up, mac, ..Link::default() }));
    }

    fn carrier(&mut self, index: u32, carrier: bool) {
        let link = Link { carrier, ..self.model.links.get(index).unwrap().clone() };
        self.tell(Message::Link(Action::Add, link));
    }

    fn route(&mut self, prefix: &str, metric: u32, hops: Hops) {
        self.route_of(MAIN_TABLE, prefix, metric, Kind::Unicast, hops);
    }

    fn route_of(&mut self, table: u32, prefix: &str, metric: u32, kind: Kind, hops: Hops) {
        let route = route(table, prefix, metric, kind, hops);
        self.tell(Message::Route4(Action::Add, route));
    }

    fn mtu(&mut self, index: u32, mtu: u32) {
        let link = Link { mtu, ..self.model.links.get(index).unwrap().clone() };
        self.tell(Message::Link(Action::Add, link));
    }

    /// A route with an MTU.
    fn narrow(&mut self, prefix: &str, metric: u32, hops: Hops, mtu: u32) {
        let route = Route { mtu: Some(mtu), ..route(MAIN_TABLE, prefix, metric, Kind::Unicast, hops) };
        self.tell(Message::Route4(Action::Add, route));
    }

    fn object(&mut self, id: u32, to: ObjectTarget) {
        self.tell(Message::NextHop(Action::Replace, NextHopObject { id, to }));
    }

    fn neighbour(&mut self, action: Action, link: u32, ip: [u8; 4], state: u16) {
        let mac = Some([4, 0, 0, 0, 0, ip[3]]);
        self.tell(Message::Neighbour(action, Neighbour { link, ip: ip.into(), mac, state }));
    }

    fn publish(&mut self) {
        assert!(!self.publisher.publish(&mut self.model, None, &mut self.reader));
    }

    /// The next hop of exactly this prefix.
    fn hop(&self, prefix: &str) -> Option<NextHop> {
        self.tables.routes4.get(prefix.parse::<Prefix4>().unwrap()).map(|route| route.next_hop)
    }

    /// Ports of the members of a group, each with its share of the buckets in percent.
    fn shares(&self, hop: NextHop) -> Vec<(u32, u32)> {
        let hops = self.tables.routes4.next_hop_list();
        let group = self.tables.adjacencies4.group(hop).unwrap();
        let percent = |buckets: u32| buckets * 100 / group.buckets().len() as u32;
        group.members().iter().map(|m| (hops[m.hop.index()].port, percent(m.buckets))).collect()
    }

    /// Output and destination address of a next hop.
    fn way(&self, hop: NextHop) -> Option<(u16, u8)> {
        self.tables.adjacencies4.get(hop).map(|adjacency| (adjacency.output, adjacency.header[5]))
    }
}

fn via(link: u32, last: u8) -> Hop {
    Hop { gateway: Some([10, 0, link as u8, last].into()), link }
}

fn port(port: u32) -> Option<NextHop> {
    Some(NextHop { gateway: None, port })
}

#[test]
fn each_kind_of_route_has_its_next_hop() {
    let mut world = World::new();
    world.route("10.1.0.0/16", 20, Hops::One(via(11, 1)));
    world.route("10.1.0.0/16", 10, Hops::One(via(12, 1)));
    world.route("10.6.0.0/16", 20, Hops::One(Hop { gateway: None, link: 11 }));
    world.route("10.6.0.0/16", 10, Hops::One(via(12, 1)));
    world.route("10.2.0.0/16", 0, Hops::One(via(13, 1)));
    world.route("10.0.11.0/24", 0, Hops::One(Hop { gateway: None, link: 11 }));
    world.route_of(MAIN_TABLE, "10.3.0.0/16", 0, Kind::Blackhole, Hops::None);
    world.route_of(MAIN_TABLE, "10.4.0.0/16", 0, Kind::Prohibit, Hops::None);
    world.route_of(LOCAL_TABLE, "10.0.11.9/32", 0, Kind::Local, Hops::One(Hop { gateway: None, link: 11 }));
    world.route_of(7, "10.5.0.0/16", 0, Kind::Unicast, Hops::One(via(11, 1)));
    world.publish();
    let gateway = NextHop { gateway: Some([10, 0, 12, 1].into()), port: 1 };
    let elsewhere = NextHop { gateway: Some([0, 0, 0, 0].into()), port: PUNT };
    assert_eq!((world.hop("10.6.0.0/16"), world.hop("10.2.0.0/16")), (Some(gateway), Some(elsewhere)));
    // A worse route that may take its place.
    assert_eq!(world.hop("10.1.0.0/16").and_then(|hop| set_number(hop.port)), Some(0));
    assert_eq!((world.hop("10.0.11.0/24"), world.hop("10.0.11.9/32")), (port(0), port(PUNT)));
    assert_eq!((world.hop("10.3.0.0/16"), world.hop("10.4.0.0/16")), (port(BLACKHOLE), port(PUNT)));
    assert_eq!((world.hop("10.5.0.0/16"), world.hop("0.0.0.0/0")), (None, port(PUNT)));
    assert_eq!(
        (world.way(port(BLACKHOLE).unwrap()), world.way(port(PUNT).unwrap())),
        (Some((Adjacency::LOST, 0)), None)
    );
    // The better one's interface goes down; then both are gone.
    world.link(12, false);
    world.publish();
    assert_eq!(world.hop("10.6.0.0/16"), port(0));
    world.link(11, false);
    world.publish();
    assert_eq!((world.hop("10.6.0.0/16"), world.hop("10.0.11.0/24")), (None, None));
}

#[test]
fn neighbours_of_connected_networks_are_routes() {
    let mut world = World::new();
    world.neighbour(Action::Add, 11, [10, 0, 11, 7], 2);
    world.publish();
    assert_eq!(world.hop("10.0.11.7/32"), None, "no network yet");
    world.route("10.0.11.0/24", 0, Hops::One(Hop { gateway: None, link: 11 }));
    world.publish();
    let neighbour = NextHop { gateway: Some([10, 0, 11, 7].into()), port: 0 };
    assert_eq!((world.hop("10.0.11.7/32"), world.way(neighbour)), (Some(neighbour), Some((0, 7))));
    // Behind a gateway of the other port now.
    world.route("10.0.11.4/30", 0, Hops::One(via(12, 1)));
    world.publish();
    assert_eq!(world.hop("10.0.11.7/32"), None);
    world.neighbour(Action::Add, 11, [10, 0, 11, 9], 2);
    world.publish();
    assert!(world.hop("10.0.11.9/32").is_some());
    // Failed, then gone.
    world.neighbour(Action::Add, 11, [10, 0, 11, 9], 0x20);
    world.publish();
    let gone = NextHop { gateway: Some([10, 0, 11, 9].into()), port: 0 };
    assert_eq!((world.hop("10.0.11.9/32"), world.way(gone)), (None, None));
}

#[test]
fn a_change_of_an_object_changes_no_route() {
    let mut world = World::new();
    world.neighbour(Action::Add, 11, [10, 0, 11, 1], 2);
    world.neighbour(Action::Add, 12, [10, 0, 12, 2], 2);
    world.object(1, ObjectTarget::Hop(via(11, 1)));
    world.object(2, ObjectTarget::Hop(via(12, 2)));
    world.object(9, ObjectTarget::Group(vec![(1, 1), (2, 1)]));
    (0..100).for_each(|i| world.route(&format!("20.{i}.0.0/16"), 0, Hops::Object(9)));
    world.publish();
    let hop = world.hop("20.7.0.0/16").unwrap();
    assert_eq!((object_number(hop.port), world.shares(hop)), (Some(9), vec![(0, 50), (1, 50)]));
    let before = world.publisher.counts;
    // A member's interface loses its carrier: everything moves to the other.
    world.carrier(11, false);
    world.publish();
    assert_eq!((world.hop("20.7.0.0/16"), world.shares(hop)), (Some(hop), vec![(1, 100)]));
    world.carrier(11, true);
    world.publish();
    assert_eq!(world.shares(hop), [(1, 50), (0, 50)]);
    world.publisher.set_cable(0, false);
    world.publish();
    assert_eq!(world.shares(hop), [(1, 100)]);
    world.publisher.set_cable(0, true);
    world.publish();
    assert_eq!(world.shares(hop), [(1, 50), (0, 50)]);
    // And when its neighbour fails, which Linux is then asked to find again.
    world.neighbour(Action::Add, 12, [10, 0, 12, 2], 0x20);
    world.publish();
    assert_eq!(world.shares(hop), [(0, 100)]);
    assert_eq!(world.publisher.wanted().collect::<Vec<_>>(), [(12, [10, 0, 12, 2].into())]);
    world.object(9, ObjectTarget::Group(vec![(2, 1)]));
    world.publish();
    assert_eq!((world.hop("20.7.0.0/16"), world.shares(hop)), (Some(hop), vec![]));
    world.object(9, ObjectTarget::Hop(via(11, 1)));
    world.publish();
    assert_eq!((world.way(hop), world.tables.adjacencies4.group(hop)), (Some((0, 1)), None));
    assert_eq!(world.publisher.wanted().count(), 0);
    assert_eq!(world.publisher.counts.route_changes, before.route_changes);
    // One that leads onto a link itself does: its neighbours are routes.
    world.object(9, ObjectTarget::Hop(Hop { gateway: None, link: 12 }));
    world.publish();
    assert_eq!((world.hop("20.7.0.0/16"), world.way(hop)), (port(1), None));
}

#[test]
fn ways_of_routes_are_groups_as_long_as_routes_have_them() {
    let mut world = World::new();
    world.neighbour(Action::Add, 11, [10, 0, 11, 1], 2);
    world.neighbour(Action::Add, 12, [10, 0, 12, 2], 2);
    let both = |a: u32, b: u32| Hops::Many([(via(11, 1), a), (via(12, 2), b)].into());
    (0..100).for_each(|i| world.route(&format!("20.{i}.0.0/16"), 0, both(3, 1)));
    // The same ways in another order, and others.
    world.route("21.0.0.0/16", 0, Hops::Many([(via(12, 2), 1), (via(11, 1), 3)].into()));
    world.route("22.0.0.0/16", 0, both(1, 1));
    // One of them is not ours: the first that is usable.
    world.route("23.0.0.0/16", 0, Hops::Many([(via(12, 2), 1), (via(13, 1), 1)].into()));
    world.publish();
    let hop = world.hop("20.7.0.0/16").unwrap();
    assert_eq!((set_number(hop.port), world.shares(hop)), (Some(0), vec![(0, 75), (1, 25)]));
    let (other, direct) = (world.hop("22.0.0.0/16").unwrap(), world.hop("23.0.0.0/16").unwrap());
    assert_eq!((world.hop("21.0.0.0/16"), world.shares(other)), (Some(hop), vec![(0, 50), (1, 50)]));
    assert_eq!(direct, NextHop { gateway: Some([10, 0, 12, 2].into()), port: 1 });
    let before = world.publisher.counts.route_changes;
    world.neighbour(Action::Remove, 11, [10, 0, 11, 1], 2);
    world.publish();
    assert_eq!((world.shares(hop), world.shares(other)), (vec![(1, 100)], vec![(1, 100)]));
    assert_eq!(world.publisher.counts.route_changes, before);
    // The last route over a set goes, and comes back.
    let route = route(MAIN_TABLE, "22.0.0.0/16", 0, Kind::Unicast, both(1, 1));
    world.tell(Message::Route4(Action::Remove, route));
    world.publish();
    assert_eq!(world.tables.adjacencies4.known_groups().len(), 1);
    world.route("22.0.0.0/16", 0, both(1, 1));
    world.publish();
    assert_eq!((world.hop("22.0.0.0/16"), world.shares(other)), (Some(other), vec![(1, 100)]));
}

#[test]
fn a_worse_route_takes_the_place_of_one_whose_way_is_down() {
    let mut world = World::new();
    let (first, second) = (via(11, 1), via(12, 2));
    (0..100).for_each(|i| world.route(&format!("20.{i}.0.0/16"), 20, Hops::One(second)));
    (0..100).for_each(|i| world.route(&format!("20.{i}.0.0/16"), 10, Hops::One(first)));
    world.publish();
    let hop = world.hop("20.7.0.0/16").unwrap();
    assert_eq!(
        (set_number(hop.port), world.hop("20.8.0.0/16"), world.shares(hop)),
        (Some(0), Some(hop), vec![])
    );
    let wanted = |world: &World| {
        let mut all: Vec<_> = world.publisher.wanted().map(|(link, _)| link).collect();
        all.sort_unstable();
        all
    };
    let before = world.publisher.counts.route_changes;
    let step = |world: &mut World, action, link: u32, last: u8, state: u16| {
        world.neighbour(action, link, [10, 0, link as u8, last], state);
        world.publish();
        (world.shares(hop), wanted(world))
    };
    // Both neighbours are to be found out. As long as nobody has asked for the better one, packets are Linux's, which does.
    assert_eq!(wanted(&world), [11, 12]);
    assert_eq!(step(&mut world, Action::Add, 12, 2, 2), (vec![], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 1), (vec![], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 2), (vec![(0, 100)], vec![]));
    // It does not answer; Linux asks again, forgets it, and hears of it.
    assert_eq!(step(&mut world, Action::Add, 11, 1, 0x20), (vec![(1, 100)], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 1), (vec![(1, 100)], vec![11]));
    assert_eq!(step(&mut world, Action::Remove, 11, 1, 0), (vec![(1, 100)], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 2), (vec![(0, 100)], vec![]));
    // Neither answers.
    assert_eq!(step(&mut world, Action::Add, 12, 2, 0x20), (vec![(0, 100)], vec![12]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 0x20), (vec![], vec![11, 12]));
    assert_eq!(step(&mut world, Action::Add, 12, 2, 2), (vec![(1, 100)], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 2), (vec![(0, 100)], vec![]));
    // A link without a carrier, of which the kernel forgets the neighbours, and its cable alone.
    world.carrier(11, false);
    assert_eq!(step(&mut world, Action::Remove, 11, 1, 0), (vec![(1, 100)], vec![]));
    world.carrier(11, true);
    world.publish();
    assert_eq!((world.shares(hop), wanted(&world)), (vec![(1, 100)], vec![11]));
    assert_eq!(step(&mut world, Action::Add, 11, 1, 2), (vec![(0, 100)], vec![]));
    world.publisher.set_cable(0, false);
    world.publish();
    assert_eq!(world.shares(hop), [(1, 100)]);
    assert_eq!(world.publisher.counts.route_changes, before);
    // Without the better route there is but one way.
    (0..100).for_each(|i| {
        let route = route(MAIN_TABLE, &format!("20.{i}.0.0/16"), 10, Kind::Unicast, Hops::One(first));
        world.tell(Message::Route4(Action::Remove, route));
    });
    world.publish();
    assert_eq!(world.hop("20.7.0.0/16"), Some(NextHop { gateway: second.gateway, port: 1 }));
    assert_eq!(world.tables.adjacencies4.group(hop), None);
}

#[test]
fn backups_are_routes_to_gateways_and_of_every_kind() {
    let mut world = World::new();
    (1..=3).for_each(|n| world.neighbour(Action::Add, 11, [10, 0, 11, n], 2));
    (1..=3).for_each(|n| world.neighbour(Action::Add, 12, [10, 0, 12, n], 2));
    world.object(7, ObjectTarget::Hop(via(11, 1)));
    // An object with two ways as a backup, two ways with a third, and a black hole that is none.
    world.route("20.1.0.0/16", 10, Hops::Object(7));
    world.route("20.1.0.0/16", 20, Hops::Many([(via(12, 1), 1), (via(12, 2), 3)].into()));
    world.route("20.2.0.0/16", 10, Hops::Many([(via(11, 1), 1), (via(11, 2), 1)].into()));
    world.route("20.2.0.0/16", 20, Hops::Object(7));
    world.route("20.2.0.0/16", 30, Hops::One(via(12, 3)));
    world.route("20.3.0.0/16", 10, Hops::One(via(11, 1)));
    world.route_of(MAIN_TABLE, "20.3.0.0/16", 20, Kind::Blackhole, Hops::None);
    // The same twice is none either.
    world.route("20.4.0.0/16", 10, Hops::One(via(11, 1)));
    world.route("20.4.0.0/16", 20, Hops::One(via(11, 1)));
    world.publish();
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|n| world.hop(&format!("20.{n}.0.0/16")).unwrap());
    assert_eq!((world.shares(first), world.shares(second)), (vec![(0, 100)], vec![(0, 50), (0, 50)]));
    let plain = NextHop { gateway: via(11, 1).gateway, port: 0 };
    assert_eq!((third, fourth), (plain, plain));
    // The object leads elsewhere: no route changes.
    let before = world.publisher.counts.route_changes;
    world.object(7, ObjectTarget::Hop(via(12, 3)));
    world.publish();
    assert_eq!((world.shares(first), world.shares(second)), (vec![(1, 100)], vec![(0, 50), (0, 50)]));
    world.object(7, ObjectTarget::Hop(via(11, 3)));
    world.carrier(11, false);
    world.publish();
    assert_eq!((world.shares(first), world.shares(second)), (vec![(1, 25), (1, 75)], vec![(1, 100)]));
    assert_eq!(world.publisher.counts.route_changes, before);
}

#[test]
fn ports_come_and_go() {
    let mut world = World::new();
    world.route("10.0.13.0/24", 0, Hops::One(Hop { gateway: None, link: 13 }));
    world.route("10.2.0.0/16", 0, Hops::One(via(13, 1)));
    world.neighbour(Action::Add, 13, [10, 0, 13, 1], 2);
    world.publish();
    let elsewhere = NextHop { gateway: Some([0, 0, 0, 0].into()), port: PUNT };
    assert_eq!((world.hop("10.0.13.0/24"), world.publisher.twin(3)), (Some(elsewhere), None));
    // Port 2 is to come yet.
    world.publisher.set_port(3, 13);
    world.publish();
    let gateway = NextHop { gateway: Some([10, 0, 13, 1].into()), port: 3 };
    assert_eq!((world.hop("10.0.13.0/24"), world.hop("10.2.0.0/16")), (port(3), Some(gateway)));
    assert_eq!((world.hop("10.0.13.1/32"), world.way(gateway)), (Some(gateway), Some((3, 1))));
    assert_eq!((world.publisher.twin(3), world.publisher.twin(2)), (Some(13), None));
    assert!(world.publisher.is_port(13));
    // Its twin is gone, and the interface is one like others.
    world.publisher.set_port(3, 0);
    world.publish();
    assert_eq!((world.hop("10.0.13.0/24"), world.hop("10.0.13.1/32")), (Some(elsewhere), None));
    assert_eq!((world.way(gateway), world.publisher.is_port(13)), (None, false));
    // A number that no output can have changes nothing.
    world.publisher.set_port(1 << 16, 13);
    assert_eq!(world.publisher.twin(1 << 16), None);
}

/// A world whose ports have an MTU of 1,500 bytes, and whose neighbours are known.
fn world_of_1500() -> World {
    let mut world = World::new();
    [11, 12].into_iter().for_each(|index| world.mtu(index, 1500));
    world.neighbour(Action::Add, 11, [10, 0, 11, 1], 2);
    world.neighbour(Action::Add, 12, [10, 0, 12, 2], 2);
    world.neighbour(Action::Add, 12, [10, 0, 12, 9], 2);
    world
}

#[test]
fn routes_with_an_mtu_of_their_own_have_next_hops_with_it() {
    let mut world = world_of_1500();
    world.narrow("20.1.0.0/16", 0, Hops::One(via(11, 1)), 1400);
    world.narrow("20.2.0.0/16", 0, Hops::One(via(11, 1)), 1500);
    world.narrow("20.3.0.0/16", 0, Hops::One(via(13, 1)), 1280);
    world.narrow("10.0.12.0/24", 0, Hops::One(Hop { gateway: None, link: 12 }), 1280);
    world.publish();
    let wide = NextHop { gateway: via(11, 1).gateway, port: 0 };
    let hops = ["20.1.0.0/16", "20.2.0.0/16"].map(|prefix| world.hop(prefix));
    assert_eq!(hops, [Some(wide.narrowed(1400)), Some(wide)]);
    let network = NextHop { gateway: None, port: 1 };
    let neighbour = NextHop { gateway: Some([10, 0, 12, 9].into()), port: 1 };
    assert_eq!(world.hop("10.0.12.0/24"), Some(network.narrowed(1280)));
    assert_eq!(world.hop("10.0.12.9/32"), Some(neighbour.narrowed(1280)));
    assert_eq!(world.hop("20.3.0.0/16").unwrap().port, PUNT);
    // All that frames need is the neighbour of the wide one.
    let numbers = world.tables.routes4.numbers(&[wide.narrowed(1400), wide]).unwrap();
    let longest = |world: &World| {
        let forwarding = world.tables.adjacencies4.read(&world.reader);
        [0, 1].map(|n| forwarding.longest(NextHopId::bits(numbers.get(n).copied())))
    };
    assert_eq!(longest(&world), [Some(1400), Some(1500)]);
    world.neighbour(Action::Remove, 11, [10, 0, 11, 1], 2);
    world.publish();
    assert_eq!(longest(&world), [None, None]);
    // The link is as narrow as the route.
    world.mtu(11, 1400);
    world.publish();
    assert_eq!(world.hop("20.1.0.0/16"), Some(wide));
}

#[test]
fn sets_may_be_narrower_than_their_ports() {
    let mut world = world_of_1500();
    world.object(7, ObjectTarget::Hop(via(12, 2)));
    let both = || Hops::Many([(via(11, 1), 1), (via(12, 2), 1)].into());
    world.narrow("20.3.0.0/16", 0, both(), 1300);
    world.route("20.4.0.0/16", 0, both());
    world.narrow("20.5.0.0/16", 0, Hops::Object(7), 1300);
    world.route("20.6.0.0/16", 0, Hops::Object(7));
    world.narrow("20.7.0.0/16", 10, Hops::One(via(11, 1)), 1400);
    world.route("20.7.0.0/16", 20, Hops::One(via(12, 2)));
    world.publish();
    // Ports of members, and longest packets where they are not the ports'.
    let members = |world: &World, prefix: &str| {
        let all = world.tables.routes4.next_hop_list();
        let group = world.tables.adjacencies4.group(world.hop(prefix).unwrap()).unwrap();
        let hops = group.members().iter().map(|member| all[member.hop.index()]);
        let mut members: Vec<_> = hops.map(|hop| (hop.widened().port, hop.mtu())).collect();
        members.sort_unstable();
        members
    };
    let sets = ["20.3.0.0/16", "20.4.0.0/16", "20.5.0.0/16", "20.7.0.0/16"];
    assert_eq!(
        sets.map(|prefix| members(&world, prefix)),
        [
            vec![(0, Some(1300)), (1, Some(1300))],
            vec![(0, None), (1, None)],
            vec![(1, Some(1300))],
            vec![(0, Some(1400))]
        ]
    );
    assert_eq!(object_number(world.hop("20.6.0.0/16").unwrap().port), Some(7));
    // A change of the object changes no route; the backup is as wide as its own route.
    let before = world.publisher.counts.route_changes;
    world.object(7, ObjectTarget::Hop(via(11, 1)));
    world.neighbour(Action::Add, 11, [10, 0, 11, 1], 0x20);
    world.publish();
    assert_eq!(
        ["20.5.0.0/16", "20.7.0.0/16"].map(|prefix| members(&world, prefix)),
        [vec![], vec![(1, None)]]
    );
    assert_eq!(world.publisher.counts.route_changes, before);
}
