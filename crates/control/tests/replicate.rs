//! One control plane for many nodes, without sockets: what a log feeds, a replica makes.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Tables;
use control::replicate::{Answer, Feed, Frames, Hello, LINGER, Log, Message, Reclaim, Replica};
use epoch::Reader;
use fib::{
    Adjacency, AdjacencyChanges, HopGroup, LinearTable, NextHop, NextHopId, Prefix, Radix, Route, RouteChange,
};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn tables() -> Tables {
    Tables::new(Radix::new(), LinearTable::new())
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
    )
}

/// What workers read for these addresses: next hop and adjacency.
fn lookups(tables: &Tables) -> Vec<(Option<NextHop>, Adjacency)> {
    let reader = Reader::new();
    (0..64u32)
        .map(|top| {
            let mut hops = [None];
            tables.routes4.lookup_batch(&reader, &[top << 26 | 1], &mut hops);
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
    Connect,
    Disconnect,
    Take(usize),
    CatchUp,
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    let route = (0..12u8, 0..7u8, 0..10u32);
    prop_oneof![
        6 => prop::collection::vec(route, 1..6).prop_map(Step::Routes),
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

/// The control node's tables, and whoever changes them.
struct Control {
    tables: Tables,
    retired: Vec<NextHopId>,
}

impl Control {
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
            _ => {}
        }
    }

    /// All numbers out of use are given again the next time, whether the node has followed or not.
    fn retire(&mut self) {
        let Tables { routes4, adjacencies4, .. } = &self.tables;
        routes4.free_numbers(&std::mem::take(&mut self.retired));
        let groups = adjacencies4.known_groups();
        let members: Vec<_> =
            groups.iter().flat_map(|(_, group)| group.members()).map(|member| member.hop).collect();
        self.retired = routes4.retire_unused(&members, &[], 1);
    }
}

/// Runs the steps; at the end the node's tables are the control node's.
fn run(steps: &[Step], room: usize) {
    let mut control = Control { tables: tables(), retired: Vec::new() };
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
    let mut control = Control { tables: tables(), retired: Vec::new() };
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
    let mut control = Control { tables: tables(), retired: Vec::new() };
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
    let control = Control { tables: tables(), retired: Vec::new() };
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
