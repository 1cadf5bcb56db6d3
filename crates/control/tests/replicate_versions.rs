//! Peers that speak the version before, as they were recorded: what they are told, and what is made of what they say.
//!
//! `recorded/protocol-1.txt` is from a program that spoke version 1 only. Its tables held the routes of `routes`.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Tables;
use control::replicate::apart::Side;
use control::replicate::{Answer, Feed, Frames, Hello, Log, Message, Replica};
use fib::{Interface, InterfaceMap, Interfaces, NextHop, Radix, Route, RouteChange, Tags, Vrf};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

/// What was recorded, by what it is.
fn recorded() -> HashMap<&'static str, Vec<u8>> {
    let byte = |line: &str, i: usize| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap();
    let bytes = |hex: &str| (0..hex.len() / 2).map(|i| byte(hex, i)).collect();
    let line = |line: &'static str| line.rsplit_once(": ").map(|(what, hex)| (what, bytes(hex))).unwrap();
    include_str!("recorded/protocol-1.txt").lines().map(line).collect()
}

fn tables() -> Tables {
    Tables::new(Radix::new(), Radix::new()).with_interfaces(Arc::new(Interfaces::new(1)))
}

fn hop(port: u32) -> NextHop {
    NextHop { gateway: Some([10, 0, 0, port as u8].into()), port }
}

fn set(tables: &Tables, prefix: &str, port: u32) {
    let route = Route { prefix: prefix.parse().unwrap(), next_hop: hop(port) };
    tables.routes4.apply(&[RouteChange::Set(route)]).unwrap();
}

/// Port 0, and a VLAN on it that is in a VRF with a route.
fn add_interfaces(tables: &Tables) {
    let interfaces = tables.interfaces.as_ref().unwrap();
    let red = interfaces.vrf("red", 10);
    let number = tables.routes4.numbers(&[hop(1)]).unwrap()[0];
    let route = Route { prefix: "30.0.0.0/8".parse().unwrap(), next_hop: Vrf::hop(number) };
    red.routes4.apply(&[RouteChange::Set(route)]).unwrap();
    let one = |id: u16, vrf| {
        let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap_or_default();
        let (name, counts) = (format!("eth0.{id}"), interfaces.counts());
        Some(Interface {
            name,
            port: 0,
            tags,
            mac: [2; 6],
            mtu: 1500,
            up: true,
            settings: fib::InterfaceSettings::default(),
            vrf,
            counts,
        })
    };
    interfaces.set(vec![one(0, None), one(7, Some(red))]);
}

/// Kinds of frames, and of changes what they are about.
fn kinds(bytes: &[u8]) -> Vec<(u8, Option<u8>)> {
    let mut kinds = Vec::new();
    let note = |kind, body: &[u8]| {
        kinds.push((kind, body.get(9).copied().filter(|_| kind == 32)));
        Ok(())
    };
    Frames::default().feed(bytes, note).unwrap();
    kinds
}

/// What a version 1 of the protocol knows.
fn is_of_version_1(bytes: &[u8]) -> bool {
    kinds(bytes)
        .iter()
        .all(|(kind, what)| [16, 19, 20, 21, 22, 32].contains(kind) && what.is_none_or(|what| what <= 5))
}

fn routes(tables: &Tables) -> Vec<String> {
    tables.routes4.routes().iter().map(ToString::to_string).collect()
}

const FIRST: [&str; 2] = ["10.0.0.0/8 10.0.0.1 1", "20.1.0.0/16 10.0.0.2 2"];
const THEN: [&str; 2] = ["10.0.0.0/8 10.0.0.1 1", "30.0.0.0/8 10.0.0.3 3"];

#[test]
fn a_control_node_of_version_1_is_followed() {
    let recorded = recorded();
    let tables = tables();
    add_interfaces(&tables);
    let mut replica = Replica::new(tables.clone());
    replica.hello("b");
    let take = |kind, body: &[u8]| {
        assert_eq!(replica.take(kind, body)?, Answer::None);
        Ok(())
    };
    Frames::default().feed(&recorded["control node to a new node, and then a change"], take).unwrap();
    assert!(replica.is_synced());
    assert_eq!(routes(&tables), THEN);
    assert_eq!((tables.routes6.len(), tables.adjacencies4.known_groups().len()), (1, 1));
    // It knows of no interfaces, and would not say that one is gone.
    assert!(tables.interfaces.unwrap().with(InterfaceMap::is_empty));
}

#[test]
fn a_node_of_version_1_is_told_what_it_knows() {
    let recorded = recorded();
    let tables = tables();
    set(&tables, "10.0.0.0/8", 1);
    add_interfaces(&tables);
    let log = Log::new(&tables, Log::ROOM);
    let frame = &recorded["hello of a node"];
    let Message::Hello(hello) = Message::decode(frame[4], &frame[5..]).unwrap() else { panic!() };
    assert_eq!((hello.oldest, hello.newest), (1, 1));
    let mut out = Vec::new();
    let (mut feed, _) = Feed::new(&log, &hello, &mut out).unwrap();
    let all = |feed: &mut Feed, out: &mut Vec<u8>| {
        while feed.has_more() {
            feed.next(out);
        }
    };
    all(&mut feed, &mut out);
    assert_eq!(out[..6], [0, 0, 0, 10, 16, 1]);
    assert!(is_of_version_1(&out) && kinds(&out).last() == Some(&(20, None)));
    // Changes that it cannot know have their positions all the same.
    set(&tables, "20.0.0.0/8", 2);
    let interfaces = tables.interfaces.as_ref().unwrap();
    let mut later = Vec::new();
    let vrf = interfaces.with(InterfaceMap::vrfs)[0].clone();
    let removed = RouteChange::Remove("30.0.0.0/8".parse().unwrap(), None);
    vrf.routes4.apply(&[removed]).unwrap();
    interfaces.set(Vec::new());
    all(&mut feed, &mut later);
    assert!(is_of_version_1(&later));
    let mut replica = Replica::new(Tables::new(Radix::new(), Radix::new()));
    replica.hello("b");
    let take = |kind, body: &[u8]| replica.take(kind, body).map(drop);
    Frames::default().feed(&[out, later].concat(), take).unwrap();
    assert_eq!(replica.position(), log.ring().position());
    // One that knows all is told all.
    let mut out = Vec::new();
    let hello = Hello { oldest: 1, newest: 3, ..hello };
    let (mut feed, _) = Feed::new(&log, &hello, &mut out).unwrap();
    all(&mut feed, &mut out);
    assert!(!is_of_version_1(&out));
}

/// The other end of a stream: what it says, after so many bytes have come.
fn say(theirs: &mut UnixStream, words: &[u8], until: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    theirs.write_all(words).unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    while !until(&heard) {
        let count = theirs.read(&mut buffer).unwrap();
        assert!(count > 0);
        heard.extend_from_slice(&buffer[..count]);
    }
    heard
}

#[test]
fn a_router_of_version_1_has_its_control_side() {
    let recorded = recorded();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let opening = thread::spawn(move || Side::open(ours));
    let asked = say(&mut theirs, &recorded["hello of a router"], |heard| heard.len() >= 6);
    assert_eq!(kinds(&asked), [(22, None)]);
    theirs.write_all(&recorded["router tells"]).unwrap();
    let side = opening.join().unwrap().unwrap();
    let tables = side.log().tables().clone();
    assert!(side.has_found() && tables.interfaces.is_none());
    assert_eq!(routes(&tables), FIRST);
    side.log().set_ready();
    thread::spawn(move || side.serve(|| None));
    set(&tables, "40.0.0.0/8", 1);
    let heard = say(&mut theirs, &[], |heard| heard.len() >= 30);
    assert!(is_of_version_1(&heard), "{:?}", kinds(&heard));
    assert_eq!((heard[5], kinds(&heard)), (1, vec![(16, None), (32, Some(2))]));
}

#[test]
fn a_control_side_of_version_1_has_its_router() {
    let recorded = recorded();
    let tables = tables();
    let next_hop = NextHop { gateway: Some("fe80::1".parse().unwrap()), port: 1 };
    let prefix = "2001:db8::/32".parse().unwrap();
    tables.routes6.apply(&[RouteChange::Set(Route { prefix, next_hop })]).unwrap();
    set(&tables, "10.0.0.0/8", 1);
    set(&tables, "20.1.0.0/16", 2);
    add_interfaces(&tables);
    let mut replica = Replica::new(tables.clone());
    replica.hello_anew("router");
    let asks = &recorded["control side asks"];
    let Ok(Answer::Send(told)) = replica.take(asks[4], &asks[5..]) else { panic!() };
    assert!(is_of_version_1(&told));
    assert_eq!((told[5], kinds(&told).last()), (1, Some(&(20, None))));
    let take = |kind, body: &[u8]| replica.take(kind, body).map(drop);
    Frames::default().feed(&recorded["control side goes on, with a change"], take).unwrap();
    assert_eq!(routes(&tables), THEN);
    assert!(tables.interfaces.unwrap().with(InterfaceMap::is_empty));
}

#[test]
fn one_that_speaks_none_of_ours_is_refused() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let hello = Hello { oldest: 4, newest: 5, life: 0, position: 0, name: "router" };
    theirs.write_all(&Message::Hello(hello).encode()).unwrap();
    let error = Side::open(ours).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("it speaks versions 4 to 5 of the protocol"));
}
