//! One control plane for many nodes, without sockets: what a log feeds, a replica makes.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Tables;
use control::replicate::{Answer, Feed, Frames, Hello, LINGER, Log, Message, Reclaim, Replica};
use epoch::Reader;
use fib::{
    Adjacency, AdjacencyChanges, HopGroup, InVrf, Interface, InterfaceMap, Interfaces, LinearTable, NextHop,
    NextHopId, Prefix, Radix, Route, RouteChange, RouteTable, Tags, Vrf,
};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn tables() -> Tables {
    Tables::new(Radix::new(), LinearTable::new()).with_interfaces(Arc::new(Interfaces::new(1)))
}

fn interfaces(tables: &Tables) -> &Arc<Interfaces> {
    tables.interfaces.as_ref().unwrap()
}

fn hop(port: u32) -> NextHop {
    let gateway = (!port.is_multiple_of(3)).then(|| IpAddr::from([10, 0, 0, port as u8]));
    NextHop { gateway, port }
}

/// A node and its connection, if it has one.
struct Node {
    tables: Tables,
    replica: Replica,
    feed: Option<Feed>,
    frames: Frames,
    /// What was sent and has not come.
    wire: Vec<u8>,
}

impl Node {
    fn new() -> Node {
        let tables = tables();
        let replica = Replica::new(tables.clone());
        Node { tables, replica, feed: None, frames: Frames::default(), wire: Vec::new() }
    }

    fn connect(&mut self, log: &Arc<Log>) -> Option<u64> {
        let (mut hello, mut bytes) = (None, Vec::new());
        Frames::default()
            .feed(&self.replica.hello("b"), |kind, body| {
                if let Message::Hello(Hello { life, position, .. }) = Message::decode(kind, body)? {
                    hello = Some((life, position));
                }
                Ok(())
            })
            .unwrap();
        let (life, position) = hello.unwrap();
        let hello = Hello { oldest: 1, newest: 2, life, position, name: "b" };
        let (feed, resumes) = Feed::new(log, &hello, &mut bytes).unwrap();
        (self.feed, self.frames, self.wire) = (Some(feed), Frames::default(), bytes);
        resumes
    }

    fn disconnect(&mut self) {
        self.feed = None;
        self.wire.clear();
    }

    /// Takes some bytes of what was sent; more is sent when nothing is under way.
    fn take(&mut self, most: usize) {
        let Some(feed) = &mut self.feed else { return };
        if self.wire.is_empty() {
            feed.next(&mut self.wire);
        }
        let rest = self.wire.split_off(most.min(self.wire.len()));
        let replica = &mut self.replica;
        self.frames
            .feed(&std::mem::replace(&mut self.wire, rest), |kind, body| {
                assert_eq!(replica.take(kind, body)?, Answer::None);
                Ok(())
            })
            .unwrap();
    }

    fn catch_up(&mut self) {
        while self.feed.as_ref().is_some_and(Feed::has_more) || !self.wire.is_empty() {
            self.take(usize::MAX);
        }
    }
}

/// All that there is in tables.
fn all(tables: &Tables) -> impl PartialEq + std::fmt::Debug + use<> {
    let near = |adjacencies: &fib::Adjacencies| adjacencies.snapshot(|| ());
    (
        tables.routes4.routes(),
        tables.routes6.routes(),
        // Numbers are the same as well.
        tables.routes4.snapshot(|| ()).rib.iter().collect::<Vec<_>>(),
        tables.routes6.snapshot(|| ()).rib.iter().collect::<Vec<_>>(),
        near(&tables.adjacencies4),
        near(&tables.adjacencies6),
        scope(tables),
    )
}

/// Interfaces with their VRFs, what numbers stand for that are out of use, and the routes of VRFs with shared numbers.
fn scope(tables: &Tables) -> Vec<String> {
    fn routes<A: InVrf>(vrf: &Vrf) -> String {
        let all = vrf.routes::<A>().routes();
        all.iter().map(|route| format!(" {}={:?}", route.prefix, Vrf::shared(&route.next_hop))).collect()
    }
    let (all, vrfs) = interfaces(tables).snapshot(|vrfs| vrfs);
    let line = |one: &fib::InterfaceChange| {
        let now = one.now.as_ref().map(|now| {
            (&now.name, now.mac, now.mtu, now.up, now.vrf.as_ref().map(|vrf| (&vrf.name, vrf.table)))
        });
        format!("{} {} {} {now:?}", one.number, one.port, one.tags)
    };
    let vrf = |vrf: &Arc<Vrf>| format!("{vrf:?}{}{}", routes::<u32>(vrf), routes::<u128>(vrf));
    all.iter().map(line).chain(vrfs.iter().map(vrf)).collect()
}

/// What workers read for these addresses of packets of each interface: next hop and adjacency.
fn lookups(tables: &Tables) -> Vec<(Option<NextHop>, Adjacency)> {
    let vrf = |number| interfaces(tables).with(|map| map.get(number)?.vrf.clone());
    let vrfs: Vec<Option<Arc<Vrf>>> = (0..MOST_INTERFACES.into()).map(vrf).collect();
    vrfs.iter().flat_map(|vrf| lookups_in(tables, vrf.as_deref())).collect()
}

fn lookups_in(tables: &Tables, vrf: Option<&Vrf>) -> Vec<(Option<NextHop>, Adjacency)> {
    let reader = Reader::new();
    (0..64u32)
        .map(|top| {
            let mut hops = [None];
            match vrf {
                None => tables.routes4.lookup_batch(&reader, &[top << 26 | 1], &mut hops),
                Some(vrf) => {
                    let hop = vrf.routes4.lookup(&reader, top << 26 | 1);
                    hops[0] = hop.and_then(|hop| Vrf::shared(&hop));
                }
            }
            let number = NextHopId::bits(hops[0]);
            let forwarding = tables.adjacencies4.read(&reader);
            let number = forwarding.choose(number, || top.wrapping_mul(0x9e37_79b9));
            let adjacency = forwarding.list().get(number as usize).copied().unwrap_or(Adjacency::UNRESOLVED);
            let hop = hops[0].map(|hop| tables.routes4.next_hops(&reader)[hop.index()]);
            (hop, adjacency)
        })
        .collect()
}

/// What happens on the way.
#[derive(Clone, Debug)]
enum Step {
    Routes(Vec<(u8, u8, u32)>),
    Neighbour(u32, Option<u8>),
    Group(u32, Vec<(u32, u32)>),
    Links(Vec<u16>),
    /// An interface is there, with this MTU and in this VRF, or not.
    Interface(u16, Option<(u32, Option<u8>)>),
    VrfRoutes(u8, Vec<(u8, u8, u32)>),
    /// A VRF is another one from now on.
    Rename(u8),
    Connect,
    Disconnect,
    Take(usize),
    CatchUp,
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    let route = || (0..12u8, 0..7u8, 0..10u32);
    let interface = (0..MOST_INTERFACES, prop::option::of((1280..1283u32, prop::option::of(0..VRFS))));
    prop_oneof![
        6 => prop::collection::vec(route(), 1..6).prop_map(Step::Routes),
        3 => interface.prop_map(|(number, now)| Step::Interface(number, now)),
        3 => (0..VRFS, prop::collection::vec(route(), 1..6)).prop_map(|(vrf, all)| Step::VrfRoutes(vrf, all)),
        1 => (0..VRFS).prop_map(Step::Rename),
        2 => (0..10u32, prop::option::of(any::<u8>())).prop_map(|(port, mac)| Step::Neighbour(port, mac)),
        1 => (20..23u32, prop::collection::vec((0..10u32, 1..4u32), 0..4))
            .prop_map(|(port, members)| Step::Group(port, members)),
        1 => prop::collection::vec(1280..9000u16, 0..4).prop_map(Step::Links),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        4 => (1..400usize).prop_map(Step::Take),
        1 => Just(Step::CatchUp),
        1 => Just(Step::Retire),
    ]
}

/// Interfaces and VRFs that there may be.
const MOST_INTERFACES: u16 = 5;
const VRFS: u8 = 2;

/// The control node's tables, and whoever changes them.
struct Control {
    tables: Tables,
    retired: Vec<NextHopId>,
    /// How often a VRF was renamed.
    names: u32,
}

impl Control {
    fn new() -> Control {
        Control { tables: tables(), retired: Vec::new(), names: 0 }
    }

    fn list(&self) -> Vec<Option<Interface>> {
        let map = |map: &InterfaceMap| (0..MOST_INTERFACES.into()).map(|n| map.get(n).cloned()).collect();
        interfaces(&self.tables).with(map)
    }

    fn vrf(&self, table: u32) -> Option<Arc<Vrf>> {
        interfaces(&self.tables).with(InterfaceMap::vrfs).into_iter().find(|vrf| vrf.table == table)
    }

    /// Changes a route of a VRF as the publisher does.
    fn set_in_vrf<A: InVrf>(&self, vrf: &Vrf, shared: &RouteTable<A>, prefix: Prefix<A>, port: u32) {
        let number = shared.numbers(&[hop(port)]).unwrap()[0];
        let change = match port {
            0 => RouteChange::Remove(prefix, None),
            _ => RouteChange::Set(Route { prefix, next_hop: Vrf::hop(number) }),
        };
        let _ = vrf.routes::<A>().apply(&[change]);
    }

    fn publish_scope(&mut self, step: &Step) {
        let Tables { routes4, adjacencies4, routes6, .. } = &self.tables;
        match step {
            Step::Interface(number, now) => {
                let interface = now.map(|(mtu, vrf)| {
                    let tags = Tags::NONE.then(Tags::CUSTOMER, *number).filter(|_| *number > 1);
                    let table = vrf.map(|vrf| 10 + u32::from(vrf));
                    let new = |table| interfaces(&self.tables).vrf(&format!("v{}", self.names), table);
                    let vrf = table.map(|table| self.vrf(table).unwrap_or_else(|| new(table)));
                    let (name, port) = (format!("i{number}"), number % 2);
                    let (tags, counts) = (tags.unwrap_or_default(), interfaces(&self.tables).counts());
                    Interface { name, port, tags, mac: [2; 6], mtu, up: mtu > 1280, vrf, counts }
                });
                let mut list = self.list();
                list[usize::from(*number)] = interface;
                interfaces(&self.tables).set(list);
            }
            Step::VrfRoutes(vrf, routes) => {
                let Some(vrf) = self.vrf(10 + u32::from(*vrf)) else { return };
                for (addr, len, port) in routes {
                    let prefix4 = Prefix::new(u32::from(*addr) << 28, *len).unwrap();
                    let prefix6 = Prefix::new(u128::from(*addr) << 124, len * 9).unwrap();
                    self.set_in_vrf(&vrf, routes4, prefix4, *port);
                    self.set_in_vrf(&vrf, routes6, prefix6, *port);
                }
                adjacencies4.renumber(&routes4.next_hop_list());
            }
            Step::Rename(vrf) => {
                let Some(old) = self.vrf(10 + u32::from(*vrf)) else { return };
                self.names += 1;
                let new = interfaces(&self.tables).vrf(&format!("v{}", self.names), old.table);
                let routes: Vec<_> = old.routes4.routes().into_iter().map(RouteChange::Set).collect();
                new.routes4.apply(&routes).unwrap();
                let mut list = self.list();
                let is_old =
                    |one: &&mut Interface| one.vrf.as_ref().is_some_and(|vrf| Arc::ptr_eq(vrf, &old));
                list.iter_mut().flatten().filter(is_old).for_each(|one| one.vrf = Some(new.clone()));
                interfaces(&self.tables).set(list);
            }
            _ => {}
        }
    }

    fn publish(&mut self, step: &Step) {
        let Tables { routes4, adjacencies4, routes6, .. } = &self.tables;
        match step {
            Step::Routes(routes) => {
                for (addr, len, port) in routes {
                    // As the publisher does: numbers and their adjacencies before routes.
                    routes4.numbers(&[hop(*port)]).unwrap();
                    adjacencies4.renumber(&routes4.next_hop_list());
                    let prefix4 = Prefix::new(u32::from(*addr) << 28, *len).unwrap();
                    let prefix6 = Prefix::new(u128::from(*addr) << 124, len * 9).unwrap();
                    // Those that remove what is not there change nothing.
                    if *port == 0 {
                        let _ = routes4.apply(&[RouteChange::Remove(prefix4, None)]);
                        let _ = routes6.apply(&[RouteChange::Remove(prefix6, None)]);
                    } else {
                        let next_hop = hop(*port);
                        routes4.apply(&[RouteChange::Set(Route { prefix: prefix4, next_hop })]).unwrap();
                        routes6.apply(&[RouteChange::Set(Route { prefix: prefix6, next_hop })]).unwrap();
                    }
                }
            }
            Step::Neighbour(port, mac) => {
                let adjacency = mac.map(|mac| Adjacency { header: [mac; 14], output: *port as u16 });
                let changes = AdjacencyChanges { adjacencies: vec![(hop(*port), adjacency)], groups: vec![] };
                adjacencies4.change(changes, &routes4.next_hop_list());
            }
            Step::Group(port, members) => {
                let mut members = members.clone();
                members.sort_unstable();
                members.dedup_by_key(|(port, _)| *port);
                let numbers = routes4.numbers(&members.iter().map(|m| hop(m.0)).collect::<Vec<_>>()).unwrap();
                let members: Vec<_> = numbers.into_iter().zip(members).map(|(n, (_, w))| (n, w)).collect();
                let group = HopGroup::new(64, &members).unwrap();
                let changes =
                    AdjacencyChanges { adjacencies: vec![], groups: vec![(hop(*port), Some(group))] };
                adjacencies4.change(changes, &routes4.next_hop_list());
            }
            Step::Links(mtus) => adjacencies4.set_links(mtus, 7, &routes4.next_hop_list()),
            step => self.publish_scope(step),
        }
    }

    /// All numbers out of use are given again the next time, whether the node has followed or not.
    fn retire(&mut self) {
        let Tables { routes4, adjacencies4, .. } = &self.tables;
        routes4.free_numbers(&std::mem::take(&mut self.retired));
        let groups = adjacencies4.known_groups();
        let mut used: Vec<_> =
            groups.iter().flat_map(|(_, group)| group.members()).map(|member| member.hop).collect();
        let vrfs = interfaces(&self.tables).with(InterfaceMap::vrfs);
        used.extend(vrfs.iter().flat_map(|vrf| vrf.numbers_in_use::<u32>()));
        self.retired = routes4.retire_unused(&used, &[], 1);
    }
}

/// The same interfaces and VRFs in other tables, whose next hops have other numbers.
fn restart_scope(old: &Tables, new: &Tables) {
    fn copy<A: InVrf>(vrf: &Vrf, old: &RouteTable<A>, copy: &Vrf, new: &RouteTable<A>) {
        let list = old.next_hop_list();
        for route in vrf.routes::<A>().routes().iter().rev() {
            let hop = list[Vrf::shared(&route.next_hop).unwrap().index()];
            let next_hop = Vrf::hop(new.numbers(&[hop]).unwrap()[0]);
            copy.routes::<A>().apply(&[RouteChange::Set(Route { next_hop, ..*route })]).unwrap();
        }
    }
    let mut list: Vec<Option<Interface>> = interfaces(old)
        .with(|map| (0..MOST_INTERFACES.into()).map(|number| map.get(number).cloned()).collect());
    for vrf in interfaces(old).with(InterfaceMap::vrfs) {
        let its = interfaces(new).vrf(&vrf.name, vrf.table);
        copy(&vrf, &old.routes4, &its, &new.routes4);
        copy(&vrf, &old.routes6, &its, &new.routes6);
        let is_in = |one: &&mut Interface| one.vrf.as_ref().is_some_and(|of| of.table == vrf.table);
        list.iter_mut().flatten().filter(is_in).for_each(|one| one.vrf = Some(its.clone()));
    }
    new.adjacencies4.renumber(&new.routes4.next_hop_list());
    // Numbers that are out of use go on meaning what they meant.
    interfaces(new).change(
        interfaces(old)
            .snapshot(drop)
            .0
            .into_iter()
            .map(|one| fib::InterfaceChange { now: None, ..one })
            .collect(),
    );
    interfaces(new).set(list);
}

/// Runs the steps; at the end the node's tables are the control node's.
fn run(steps: &[Step], room: usize) {
    let mut control = Control::new();
    control.publish(&Step::Routes(vec![(3, 4, 1), (0, 0, 2)]));
    let mut log = Log::new(&control.tables, room);
    let mut node = Node::new();
    for step in steps {
        match step {
            Step::Connect => drop(node.connect(&log)),
            Step::Disconnect => node.disconnect(),
            Step::Take(bytes) => node.take(*bytes),
            Step::CatchUp => node.catch_up(),
            Step::Retire => control.retire(),
            step => control.publish(step),
        }
    }
    if node.feed.is_none() {
        node.connect(&log);
    }
    node.catch_up();
    assert!(node.replica.is_synced());
    assert_eq!(all(&node.tables), all(&control.tables));
    assert_eq!(lookups(&node.tables), lookups(&control.tables));
    // A new control node, which numbers anew.
    let old = std::mem::replace(&mut control.tables, tables());
    control.retired.clear();
    for route in old.routes4.routes().iter().rev() {
        control.tables.routes4.apply(&[RouteChange::Set(*route)]).unwrap();
    }
    let near = old.adjacencies4.snapshot(|| ());
    let changes = AdjacencyChanges {
        adjacencies: near.adjacencies.iter().map(|(hop, adjacency)| (*hop, Some(*adjacency))).collect(),
        groups: vec![],
    };
    control.tables.adjacencies4.change(changes, &control.tables.routes4.next_hop_list());
    restart_scope(&old, &control.tables);
    log = Log::new(&control.tables, room);
    let before = lookups(&node.tables);
    assert_eq!(node.connect(&log), None);
    while node.feed.as_ref().is_some_and(Feed::has_more) || !node.wire.is_empty() {
        node.take(50);
        for (before, now) in before.iter().zip(lookups(&node.tables)) {
            // What is the same before and after is never anything else, but for groups, which went.
            if before.0.is_none_or(|hop| hop.port < 20) {
                assert_eq!(before, &now);
            }
        }
    }
    assert_eq!(all(&node.tables), all(&control.tables));
    assert_eq!(lookups(&node.tables), lookups(&control.tables));
}

proptest! {
    #[test]
    fn a_node_has_what_the_control_node_has(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, Log::ROOM);
    }

    #[test]
    fn also_where_hardly_anything_can_be_kept(steps in prop::collection::vec(step(), 1..60), room in 0..2000usize) {
        run(&steps, room);
    }
}

#[test]
fn a_node_goes_on_where_it_was() {
    let mut control = Control::new();
    let log = Log::new(&control.tables, Log::ROOM);
    let mut node = Node::new();
    // Nothing is a state, too.
    assert_eq!(node.connect(&log), None);
    node.catch_up();
    assert_eq!((node.replica.position(), node.replica.counts.snapshots), (1, 1));
    control.publish(&Step::Routes(vec![(3, 4, 1)]));
    node.catch_up();
    node.disconnect();
    let position = node.replica.position();
    control.publish(&Step::Routes(vec![(4, 4, 1), (3, 4, 0)]));
    assert_eq!(node.connect(&log), Some(position));
    assert!(node.replica.newest() >= position);
    node.catch_up();
    assert_eq!(all(&node.tables), all(&control.tables));
    assert_eq!((node.replica.counts.snapshots, node.replica.counts.swept), (1, 0));
}

#[test]
fn a_slow_node_costs_no_memory_and_gets_everything_anew() {
    let mut control = Control::new();
    let log = Log::new(&control.tables, 4000);
    let mut node = Node::new();
    node.connect(&log);
    node.catch_up();
    for round in 0..1000u32 {
        control.publish(&Step::Routes(vec![((round % 12) as u8, 4, round % 9 + 1)]));
        assert!(log.ring().size().1 <= 4000);
    }
    node.catch_up();
    assert_eq!(node.replica.counts.snapshots, 2);
    assert_eq!(all(&node.tables), all(&control.tables));
}

#[test]
fn what_is_out_of_turn_is_refused_and_changes_nothing() {
    let control = Control::new();
    let log = Log::new(&control.tables, Log::ROOM);
    let mut node = Node::new();
    node.replica.hello("b");
    let frame = |message: Message<'_>| message.encode();
    let mut refused = |frame: &[u8]| node.replica.take(frame[4], &frame[5..]).is_err();
    assert!(refused(&frame(Message::End(5))));
    assert!(refused(&frame(Message::Snapshot)));
    assert!(refused(&frame(Message::Ack(1))));
    assert!(refused(&frame(Message::Welcome { version: 9, life: 3 })));
    assert!(!refused(&frame(Message::Unknown)) && !refused(&frame(Message::Alive(3))));
    assert!(!refused(&frame(Message::Welcome { version: 2, life: 3 })));
    assert!(refused(&frame(Message::Welcome { version: 2, life: 3 })));
    // A change without a snapshot.
    assert!(refused(&frame(Message::Changes(&[0, 0, 0, 0, 0, 0, 0, 9, 4, 2, 0, 0]))));
    let hello = Hello { oldest: 7, newest: 9, life: 0, position: 0, name: "b" };
    assert!(Feed::new(&log, &hello, &mut Vec::new()).is_err());
    assert_eq!(all(&node.tables), all(&control.tables));
}

#[test]
fn numbers_are_used_again_when_all_nodes_have_followed() {
    let control = tables();
    let log = Log::new(&control, Log::ROOM);
    let mut reclaim = Reclaim::after(&log, 4);
    let table = &control.routes4;
    let prefix = Prefix::new(10 << 24, 8).unwrap();
    let lead = |port| table.apply(&[RouteChange::Set(Route { prefix, next_hop: hop(port) })]).unwrap();
    let number = |port| table.numbers(&[hop(port)]).unwrap()[0].index();
    let (b, c) = (log.nodes.connect("b", Some(1)), log.nodes.connect("c", Some(1)));
    (0..4).for_each(lead);
    let mut now = Duration::from_secs(100);
    reclaim.step(now);
    let position = log.ring().position();
    // 0, 1 and 2 are retired; one that comes again has another number.
    assert_eq!((number(3), number(1)), (3, 4));
    now += LINGER;
    reclaim.step(now);
    assert_eq!(number(10), 5);
    assert!(log.nodes.acknowledge("b", b, position + 5) && log.nodes.acknowledge("c", c, position - 1));
    reclaim.step(now);
    now += LINGER;
    reclaim.step(now);
    assert_eq!(number(11), 6);
    assert!(log.nodes.acknowledge("c", c, position));
    reclaim.step(now);
    // Packets may be under way.
    reclaim.step(now + Duration::from_secs(2));
    assert_eq!(number(12), 7);
    reclaim.step(now + Duration::from_secs(3));
    // 1, 10, 11 and 12 lead nowhere either, and were retired meanwhile.
    assert_eq!([13, 14, 15, 16].map(number), [0, 1, 2, 8]);
    assert_eq!(table.next_hop_list()[..4], [13, 14, 15, 3].map(hop));
}

/// In the middle of a snapshot a number of a VLAN that stood for another one stands for none: what is led to it by then must not
/// get the other one's tags.
#[test]
fn frames_never_get_tags_that_are_not_meant() {
    let vlan = |of: &Tables, id| {
        let all = interfaces(of);
        let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap();
        let (name, counts) = (format!("v{id}"), all.counts_of(9));
        let one = Interface { name, port: 1, tags, mac: [2; 6], mtu: 1500, up: true, vrf: None, counts };
        all.change(vec![fib::InterfaceChange { number: 9, port: 1, tags, now: Some(one) }]);
        let hop = NextHop { gateway: Some([10, 0, 0, 2].into()), port: 9 };
        let adjacency = Adjacency::tagged([4, 0, 0, 0, 0, id as u8], [2; 6], 9, 1);
        let changes = AdjacencyChanges { adjacencies: vec![(hop, Some(adjacency))], groups: Vec::new() };
        of.adjacencies4.change(changes, &of.routes4.next_hop_list());
        (hop, adjacency)
    };
    let mut node = Node::new();
    for id in [100, 200] {
        // Another life each time.
        let control = tables();
        let (hop, adjacency) = vlan(&control, id);
        let log = Log::new(&control, Log::ROOM);
        node.connect(&log);
        let mut steps = 0;
        while node.feed.as_ref().is_some_and(Feed::has_more) || !node.wire.is_empty() {
            node.take(1);
            steps += 1;
            let tags = interfaces(&node.tables).with(|map| map.get(9).map(|one| one.tags.to_string()));
            let is_new = node.tables.adjacencies4.get(hop) == Some(adjacency);
            assert!(!is_new || tags.is_none_or(|tags| tags == id.to_string()), "{steps}");
        }
        assert_eq!(all(&node.tables), all(&control));
        node.disconnect();
    }
}
