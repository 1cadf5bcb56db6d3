//! One control plane for many nodes, without sockets: what a log feeds, a replica makes.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

mod contents;
mod control_node;
mod node;
mod steps;

use self::contents::all;
use self::control_node::Control;
use self::node::Node;
use self::steps::Step;
use control::Tables;
use control::replicate::{Feed, Hello, LINGER, Log, Message, Reclaim};
use fib::{
    Adjacency, AdjacencyChanges, Interface, Interfaces, LinearTable, NextHop, Prefix, Radix, Route,
    RouteChange, Tags,
};
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
        let one = Interface {
            name,
            port: 1,
            tags,
            mac: [2; 6],
            mtu: 1500,
            up: true,
            settings: fib::InterfaceSettings::default(),
            vrf: None,
            counts,
        };
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
        while node.has_more() {
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
