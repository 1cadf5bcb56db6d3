//! One control plane for many nodes, over TLS on the loopback interface.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Tables;
use control::replicate::{
    Authority, Client, ClientSettings, Identity, Log, Server, ServerSettings, ServerStatus,
};
use epoch::Reader;
use fib::{
    Adjacency, AdjacencyChanges, Interface, InterfaceChange, Interfaces, NextHop, Prefix, Route, RouteChange,
    Tags,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn hop(port: u32) -> NextHop {
    NextHop { gateway: Some([10, 0, (port >> 8) as u8, port as u8].into()), port }
}

fn set(index: u32, port: u32) -> RouteChange<u32> {
    let prefix = Prefix::new(0x0100_0000 + (index << 8), 24).unwrap();
    RouteChange::Set(Route { prefix, next_hop: hop(port) })
}

fn start(authority: &Authority, log: &Arc<Log>, listen: SocketAddr, adopt: Duration) -> Server {
    let settings = ServerSettings {
        listen,
        identity: authority.issue("node-a").unwrap(),
        nodes: vec!["node-b".to_owned(), "node-c".to_owned()],
        adopt,
    };
    // The port may still be in use for a moment.
    for _ in 0..200 {
        if let Ok(server) = Server::start(&settings, log.clone()) {
            return server;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{listen} is in use");
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn follow(identity: Identity, name: &str, control: SocketAddr, tables: &Tables) -> Client {
    let settings = ClientSettings {
        control: vec![control],
        control_name: "node-a".to_owned(),
        name: name.to_owned(),
        identity,
        term: 0,
    };
    Client::start(&settings, tables.clone()).unwrap()
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn wait_until_same(one: &Tables, other: &Tables) {
    wait_for("the tables become the same", || {
        one.routes4.routes() == other.routes4.routes()
            && one.routes6.routes() == other.routes6.routes()
            && one.adjacencies4.snapshot(|| ()) == other.adjacencies4.snapshot(|| ())
    });
    // Behind them there may be some that are left from before.
    assert!(one.routes4.next_hop_list().starts_with(&other.routes4.next_hop_list()));
}

#[test]
fn nodes_follow_and_go_on_where_they_were() {
    let (authority, control) = (Authority::new().unwrap(), Tables::default());
    control.routes4.apply(&(0..5000).map(|i| set(i, i % 7)).collect::<Vec<_>>()).unwrap();
    let log = Log::new(&control, Log::ROOM);
    let server = start(&authority, &log, any(), Duration::ZERO);
    log.set_ready();
    let (b, c) = (Tables::default(), Tables::default());
    let identity = authority.issue("node-b").unwrap();
    let client = follow(identity.clone(), "node-b", server.address(), &b);
    let other = follow(authority.issue("node-c").unwrap(), "node-c", server.address(), &c);
    assert!(client.wait(LIMIT) && other.wait(LIMIT));
    wait_until_same(&b, &control);
    wait_until_same(&c, &control);
    for round in 0..50 {
        control
            .routes4
            .apply(&[
                set(round, 9),
                RouteChange::Remove(Prefix::new(0x0100_0000 + ((round + 100) << 8), 24).unwrap(), None),
            ])
            .unwrap();
    }
    wait_until_same(&b, &control);
    wait_until_same(&c, &control);
    wait_for("acknowledged", || log.settled() == log.ring().position());
    // The control node goes away: the tables stay, and the node tries again.
    let address = server.address();
    drop(server);
    wait_for("seen", || !client.status().connected);
    assert_eq!(b.routes4.len(), 4950);
    control.routes4.apply(&[set(9000, 3)]).unwrap();
    let server = start(&authority, &log, address, Duration::ZERO);
    wait_until_same(&b, &control);
    assert_eq!((client.status().counts.snapshots, client.status().counts.swept), (1, 0));
    let row = |status: &ServerStatus| status.nodes.iter().find(|node| node.name == "node-b").unwrap().clone();
    wait_for("acknowledged", || row(&server.status()).behind == 0);
    let status = row(&server.status());
    assert_eq!((status.connected, status.synced, status.resumptions), (true, true, 1));
    drop((client, other));
    wait_for("seen", || !row(&server.status()).connected);
    // Who may not follow any more is refused.
    server.set_nodes(&["node-c".to_owned()]);
    let client = follow(identity, "node-b", server.address(), &b);
    wait_for("refused", || {
        client
            .status()
            .error
            .is_some_and(|error| error.ends_with("there is no node `node-b` in this cluster"))
    });
}

#[test]
fn unchanged_routes_are_there_all_the_time() {
    let (authority, control) = (Authority::new().unwrap(), Tables::default());
    let routes: Vec<_> = (0..20_000).map(|i| set(i, i % 300)).collect();
    control.routes4.apply(&routes).unwrap();
    let log = Log::new(&control, Log::ROOM);
    let server = start(&authority, &log, any(), Duration::ZERO);
    log.set_ready();
    let (b, c) = (Tables::default(), Tables::default());
    let client = follow(authority.issue("node-b").unwrap(), "node-b", server.address(), &b);
    let other = follow(authority.issue("node-c").unwrap(), "node-c", server.address(), &c);
    assert!(client.wait(LIMIT) && other.wait(LIMIT));
    let (stop, lookups) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let reader = thread::spawn({
        let (table, stop, lookups) = (b.routes4.clone(), stop.clone(), lookups.clone());
        move || {
            let mut reader = Reader::new();
            while !stop.load(Ordering::Acquire) {
                for index in 0..10_000 {
                    let found = table.lookup(&reader, 0x0100_0001 + (index << 8));
                    assert_eq!(found, Some(hop(index % 300)));
                }
                reader.quiescent();
                lookups.fetch_add(10_000, Ordering::AcqRel);
            }
        }
    });
    // Control nodes come and go, each with numbers of its own, or those that nodes have told it; half of the routes change.
    let address = server.address();
    let mut servers = (server, log);
    for life in 0..6u32 {
        drop(servers);
        let control = Tables::default();
        let log = Log::new(&control, Log::ROOM);
        let adopts = life % 2 == 0;
        let server = start(&authority, &log, address, if adopts { LIMIT } else { Duration::ZERO });
        let numbers = control.routes4.next_hop_list();
        assert_eq!(numbers.is_empty(), !adopts);
        let mut routes: Vec<_> =
            (0..20_000).map(|i| set(i, if i < 10_000 { i % 300 } else { i % 200 + life })).collect();
        routes.reverse();
        // Not all at once, as it is published; and nodes have connected already.
        for part in routes.chunks(4000) {
            control.routes4.apply(part).unwrap();
            thread::sleep(Duration::from_millis(30));
        }
        log.set_ready();
        assert!(control.routes4.next_hop_list().starts_with(&numbers));
        wait_until_same(&b, &control);
        wait_until_same(&c, &control);
        servers = (server, log);
    }
    let before = lookups.load(Ordering::Acquire);
    wait_for("lookups", || lookups.load(Ordering::Acquire) > before);
    stop.store(true, Ordering::Release);
    reader.join().unwrap();
    // The last one has taken its numbers from nobody.
    assert!(client.status().counts.renumbered > 0);
}

/// A VLAN and its number, on port 1.
fn vlan(all: &Interfaces, number: u16, id: u16) -> InterfaceChange {
    let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap();
    let (name, counts) = (format!("v{id}"), all.counts_of(number));
    let now = Interface {
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
    InterfaceChange { number, port: 1, tags, now: Some(now) }
}

fn with_interfaces() -> (Tables, Arc<Interfaces>) {
    let interfaces = Arc::new(Interfaces::new(1));
    (Tables::default().with_interfaces(interfaces.clone()), interfaces)
}

/// Number, tags and name of each VLAN that has had a number.
fn vlans(all: &Interfaces) -> Vec<(u16, String, Option<String>)> {
    let (all, ()) = all.snapshot(drop);
    all.into_iter().map(|one| (one.number, one.tags.to_string(), one.now.map(|now| now.name))).collect()
}

#[test]
fn vlans_keep_their_numbers() {
    let authority = Authority::new().unwrap();
    let (control, all) = with_interfaces();
    all.change(vec![vlan(&all, 8, 100), vlan(&all, 9, 200)]);
    let log = Log::new(&control, Log::ROOM);
    let server = start(&authority, &log, any(), Duration::ZERO);
    log.set_ready();
    let (tables, followed) = with_interfaces();
    let client = follow(authority.issue("node-b").unwrap(), "node-b", server.address(), &tables);
    // One that does not know of interfaces.
    let plain = Tables::default();
    let other = follow(authority.issue("node-c").unwrap(), "node-c", server.address(), &plain);
    assert!(client.wait(LIMIT) && other.wait(LIMIT));
    let here = |number, id: u16| (number, id.to_string(), Some(format!("v{id}")));
    assert_eq!(vlans(&followed), [here(8, 100), here(9, 200)]);
    let address = server.address();
    drop((server, log));
    // A new one, with empty tables, is told what numbers stand for; nothing is there before Linux says so.
    let (control, all) = with_interfaces();
    let log = Log::new(&control, Log::ROOM);
    let server = start(&authority, &log, address, LIMIT);
    assert_eq!(vlans(&all), [(8, "100".to_owned(), None), (9, "200".to_owned(), None)]);
    assert_eq!(vlans(&followed), [here(8, 100), here(9, 200)]);
    all.change(vec![vlan(&all, 9, 200)]);
    log.set_ready();
    wait_for("a snapshot", || vlans(&followed) == [(8, "100".to_owned(), None), here(9, 200)]);
    wait_for("it is served", || client.status().synced && other.status().synced);
    drop((server, log));
    // One that asks nobody gives the number to another VLAN.
    let (control, all) = with_interfaces();
    all.change(vec![vlan(&all, 8, 300)]);
    let log = Log::new(&control, Log::ROOM);
    let _server = start(&authority, &log, address, Duration::ZERO);
    log.set_ready();
    wait_for("a snapshot", || vlans(&followed) == [here(8, 300), (9, "200".to_owned(), None)]);
}

#[test]
fn strangers_are_refused() {
    let (authority, control) = (Authority::new().unwrap(), Tables::default());
    control.routes4.apply(&[set(1, 1)]).unwrap();
    let log = Log::new(&control, Log::ROOM);
    let server = start(&authority, &log, any(), Duration::ZERO);
    log.set_ready();
    let refusal = |identity, name| {
        let tables = Tables::default();
        let client = follow(identity, name, server.address(), &tables);
        wait_for("an error", || client.status().error.is_some());
        assert_eq!((tables.routes4.len(), client.status().connections), (0, 0));
        client.status().error.unwrap()
    };
    // Certificates of another authority, on either side.
    let other = Authority::new().unwrap();
    let stranger =
        Identity { authority: authority.certificate().to_owned(), ..other.issue("node-b").unwrap() };
    assert!(refusal(stranger, "node-b").contains("received fatal alert"));
    assert!(refusal(other.issue("node-b").unwrap(), "node-b").contains("invalid peer certificate"));
    // The certificate of another node, and one of none.
    let c = authority.issue("node-c").unwrap();
    assert!(refusal(c, "node-b").ends_with("the certificate is not that of node `node-b`"));
    let d = authority.issue("node-d").unwrap();
    assert!(refusal(d, "node-d").ends_with("there is no node `node-d` in this cluster"));
    // A control node of another name.
    let settings = ClientSettings {
        control: vec![server.address()],
        control_name: "node-z".to_owned(),
        name: "node-b".to_owned(),
        identity: authority.issue("node-b").unwrap(),
        term: 0,
    };
    let client = Client::start(&settings, Tables::default()).unwrap();
    wait_for("an error", || client.status().error.is_some_and(|error| error.contains("not valid for name")));
    // Garbage.
    let mut garbage = TcpStream::connect(server.address()).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Perhaps with an alert.
    let _ = garbage.read_to_end(&mut Vec::new());
    wait_for("all are counted", || server.status().refused >= 6);
    // And one that is none is served all the while.
    let b = Tables::default();
    let client = follow(authority.issue("node-b").unwrap(), "node-b", server.address(), &b);
    assert!(client.wait(LIMIT));
    wait_until_same(&b, &control);
}

#[test]
fn changes_come_through_while_a_node_reads_nothing() {
    let (authority, control) = (Authority::new().unwrap(), Tables::default());
    let log = Log::new(&control, 1 << 20);
    let server = start(&authority, &log, any(), Duration::ZERO);
    log.set_ready();
    let (b, c) = (Tables::default(), Tables::default());
    let client = follow(authority.issue("node-b").unwrap(), "node-b", server.address(), &b);
    let slow = follow(authority.issue("node-c").unwrap(), "node-c", server.address(), &c);
    assert!(client.wait(LIMIT) && slow.wait(LIMIT));
    // As long as its neighbours are locked it applies nothing, and so reads nothing: 40 MB fit nowhere on the way.
    c.adjacencies4.snapshot(|| {
        for round in 0..1500u32 {
            let adjacency = Adjacency { header: [round as u8; 14], output: round as u16 % 100 };
            let adjacencies = (0..1000).map(|port| (hop(port), Some(adjacency))).collect();
            let changes = AdjacencyChanges { adjacencies, ..AdjacencyChanges::default() };
            control.adjacencies4.change(changes, &[]);
            assert!(log.ring().size().1 <= 1 << 20);
        }
        wait_until_same(&b, &control);
    });
    wait_until_same(&c, &control);
    let status = server.status();
    let row = |name| status.nodes.iter().find(|node| node.name == name).unwrap();
    assert!(row("node-c").snapshots >= 2, "{status:?}");
}

#[test]
fn who_was_elected_for_another_term_is_not_followed() {
    let (authority, control) = (Authority::new().unwrap(), Tables::default());
    let log = Log::new(&control, 1 << 20);
    log.set_term(7);
    log.set_ready();
    let server = start(&authority, &log, any(), Duration::ZERO);
    let follow = |term| {
        let settings = ClientSettings {
            control: vec![server.address()],
            control_name: "node-a".to_owned(),
            name: "node-b".to_owned(),
            identity: authority.issue("node-b").unwrap(),
            term,
        };
        Client::start(&settings, Tables::default()).unwrap()
    };
    for term in [6, 8] {
        let client = follow(term);
        let expected = format!("refused: it is the control node of term 7, not of {term}");
        wait_for("a refusal", || client.status().error.is_some_and(|error| error.ends_with(&expected)));
        assert!(!client.status().synced);
        // It was elected for this one in the meantime.
        client.set_term(7);
        assert!(client.wait(LIMIT));
    }
    let client = follow(7);
    assert!(client.wait(LIMIT));
    drop(client);
    assert_eq!(server.superseded(), 0);
    let client = follow(0);
    assert!(client.wait(LIMIT));
    client.leave_for(9);
    drop(client);
    wait_for("the word of a later term", || server.superseded() == 9);
}
