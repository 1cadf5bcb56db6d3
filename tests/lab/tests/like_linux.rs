//! Random packets through a router and through Linux: whatever differs must have been foreseen.

use std::time::Duration;

use lab::Result;
use lab::differential::{Comparison, Foreseen};
use lab::exchange::Exchange;
use lab::linux::LinuxRouter;
use lab::netns;
use lab::random_packets::{Generator, Sent};
use lab::table::{RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};

const PACKETS: usize = 100_000;
const SEED: u64 = 2009;

/// 300 prefixes by way of every neighbour, and the subnets are the routers' own.
fn table() -> RouteTable {
    let hops: Vec<_> =
        Link::all().iter().flat_map(|link| [(link.host(), link.port), (link.neighbour(), link.port)]).collect();
    RouteTable::new(synthetic(300, SEED, &hops))
}

fn packets(table: &RouteTable) -> Result<Vec<Sent>> {
    let mut generator = Generator::new(SEED, table);
    (0..PACKETS).map(|_| generator.packet()).collect()
}

struct Linux {
    exchange: Exchange,
    _router: LinuxRouter,
    _topology: Topology,
}

fn linux(table: &RouteTable) -> Result<Linux> {
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Silent)?;
    let router = LinuxRouter::start(&topology, table, Hosts::Silent)?;
    let mut exchange = Exchange::open(&topology, Hosts::Silent)?;
    exchange.open_ways(Duration::from_secs(10))?;
    Ok(Linux { exchange, _router: router, _topology: topology })
}

/// Proves the harness: it loses nothing, invents nothing, and takes nothing for another.
#[test]
fn linux_is_like_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let table = table();
    let (mut one, mut other) = (linux(&table)?, linux(&table)?);
    let nothing: &[Foreseen] = &[];
    let comparison = Comparison::run(&mut one.exchange, &mut other.exchange, &packets(&table)?, nothing)?;
    println!("{}", comparison.report(nothing));
    assert_eq!(comparison.sent, PACKETS);
    assert_eq!(comparison.unforeseen, 0);
    Ok(())
}
