//! How long a node takes to follow a full table, and how many changes a second reach it: control node and node in this
//! process, with TLS over the loopback interface. What `docs/one-control-plane.md` says of time comes from here:
//!
//! ```sh
//! cargo run --release -p control --example replicate
//! ```
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a measurement")]

use control::Tables;
use control::replicate::{Authority, Client, ClientSettings, Log, Server, ServerSettings, VERSION};
use fib::{Address, NextHop, Prefix, Route, RouteChange, synth};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Routes that change in one transaction.
const AT_ONCE: usize = 100;

fn set<A: Address>(routes: &[Route<A>]) -> Vec<RouteChange<A>> {
    routes.iter().map(|route| RouteChange::Set(*route)).collect()
}

/// Waits until the node has everything, without taking much of a processor from it; returns the time since `begun`.
fn wait(client: &Client, log: &Log, begun: Instant) -> Duration {
    let has_all = || {
        let status = client.status();
        status.synced && status.position == log.ring().position()
    };
    while !has_all() {
        assert!(begun.elapsed() < LIMIT, "{:?}", client.status());
        thread::sleep(Duration::from_micros(500));
    }
    begun.elapsed()
}

fn main() {
    let hops: Vec<NextHop> =
        (0..32).map(|port| NextHop { gateway: Some([10, 0, 0, port as u8].into()), port }).collect();
    let four = synth::<u32>(900_000, 1, &hops).expect("there are next hops").routes;
    let six = synth::<u128>(160_000, 1, &hops).expect("there are next hops").routes;
    let (control, node) = (Tables::default(), Tables::default());
    control.routes4.apply(&set(&four)).unwrap();
    control.routes6.apply(&set(&six)).unwrap();
    let log = Log::new(&control, Log::ROOM);
    log.set_ready();
    let authority = Authority::new().unwrap();
    let server = Server::start(
        &ServerSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            identity: authority.issue("a").unwrap(),
            nodes: vec!["b".to_owned()],
            adopt: Duration::ZERO,
        },
        log.clone(),
    )
    .unwrap();
    let settings = ClientSettings {
        control: vec![server.address()],
        control_name: "a".to_owned(),
        name: "b".to_owned(),
        identity: authority.issue("b").unwrap(),
        term: 0,
    };
    let snapshot = log.snapshot();
    let bytes: usize = snapshot.frames(VERSION).iter().map(|frame| frame.len()).sum();
    println!("{:>10} routes, a snapshot of {:.1} MB", four.len() + six.len(), bytes as f64 / 1e6);
    drop(snapshot);
    // Into empty tables; then into tables that have it all.
    for what in ["snapshot into empty tables", "snapshot into the same tables"] {
        let begun = Instant::now();
        let client = Client::start(&settings, node.clone()).unwrap();
        let took = wait(&client, &log, begun);
        println!("{:>10.3} s  {what}", took.as_secs_f64());
    }
    assert_eq!(node.routes4.len() + node.routes6.len(), four.len() + six.len());
    let begun = Instant::now();
    let client = Client::start(&settings, node.clone()).unwrap();
    wait(&client, &log, begun);
    changes(&control, &client, &log, &four);
    assert_eq!(node.routes4.routes(), control.routes4.routes());
    println!("{:>10} snapshots on that connection", client.status().counts.snapshots);
}

/// Routes of `four` get other next hops: as many as can be, then 100,000 a second.
fn changes(control: &Tables, client: &Client, log: &Log, four: &[Route<u32>]) {
    let change = |index: usize| {
        // All over the table, as a router sees them.
        let route = four[index.wrapping_mul(7919) % four.len()];
        let port = (route.next_hop.port + 1 + (index / four.len()) as u32) % 32;
        let next_hop = NextHop { gateway: Some([10, 0, 0, port as u8].into()), port };
        RouteChange::Set(Route {
            prefix: Prefix::new(route.prefix.first(), route.prefix.len()).unwrap(),
            next_hop,
        })
    };
    let count = 1_000_000;
    let begun = Instant::now();
    for first in (0..count).step_by(AT_ONCE) {
        control.routes4.apply(&(first..first + AT_ONCE).map(change).collect::<Vec<_>>()).unwrap();
    }
    let made = begun.elapsed();
    let took = wait(client, log, begun);
    println!(
        "{:>10.0} changes a second at the control node, {:.0} at the node",
        count as f64 / made.as_secs_f64(),
        count as f64 / took.as_secs_f64()
    );
    let (count, begun, mut most) = (1_000_000, Instant::now(), 0);
    for (first, round) in (count..2 * count).step_by(AT_ONCE).zip(1..) {
        control.routes4.apply(&(first..first + AT_ONCE).map(change).collect::<Vec<_>>()).unwrap();
        most = most.max(log.ring().position() - client.status().position);
        thread::sleep((begun + Duration::from_millis(round)).saturating_duration_since(Instant::now()));
    }
    let made = begun.elapsed();
    println!(
        "{:>10.0} changes a second: the node was at most {} changes behind, and {:.1} ms at the end",
        count as f64 / made.as_secs_f64(),
        most * AT_ONCE as u64,
        (wait(client, log, begun) - made).as_secs_f64() * 1e3
    );
}
