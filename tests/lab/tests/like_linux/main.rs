//! Random packets through a router and through Linux: whatever differs must have been foreseen.

mod foreseen;
mod foreseen6;
mod ipv6;
mod outputs;

use std::env;
use std::fs;
use std::time::Duration;

use lab::differential::{Comparison, Foreseen};
use lab::exchange::Exchange;
use lab::linux::LinuxRouter;
use lab::netns;
use lab::output::Output;
use lab::packets::ICMP;
use lab::random_packets::{Generator, Sent};
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::table::{RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};
use lab::{Context, Error, Result};

/// How many packets, unless the environment variable says otherwise. With far fewer, rare differences do not occur.
const PACKETS: usize = 100_000;
const VARIABLE: &str = "LAB_PACKETS";
const SEED: u64 = 2009;

fn count() -> Result<usize> {
    match env::var(VARIABLE) {
        Ok(text) => text.parse().cannot(|| format!("read {VARIABLE}={text}")),
        Err(_) => Ok(PACKETS),
    }
}

/// 300 prefixes by way of all neighbours, and the subnets.
fn table() -> RouteTable {
    let hops: Vec<_> = Link::all()
        .iter()
        .flat_map(|link| [(link.host(), link.port), (link.neighbour(), link.port)])
        .collect();
    let mut routes = synthetic(300, SEED, &hops);
    routes.extend(Link::all().iter().flat_map(|link| link.routes()));
    RouteTable::new(routes)
}

fn packets(table: &RouteTable) -> Result<Vec<Sent>> {
    let mut generator = Generator::new(SEED, table);
    (0..count()?).map(|_| generator.packet()).collect()
}

struct Linux {
    exchange: Exchange,
    _router: LinuxRouter,
    topology: Topology,
}

fn linux(table: &RouteTable) -> Result<Linux> {
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Silent)?;
    let router = LinuxRouter::start(&topology, table, Hosts::Silent)?;
    let mut exchange = Exchange::open(&topology, Hosts::Silent)?;
    exchange.open_ways(Duration::from_secs(10))?;
    Ok(Linux { exchange, _router: router, topology })
}

/// `conf/ip-router.click` forwards, cuts, refuses and drops what Linux does; where it does not, a predicate says why.
#[test]
fn our_router_is_like_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let table = table();
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let routes = directory.path().join("routes.txt");
    fs::write(&routes, table.text()).cannot(|| "write routes".to_owned())?;
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Silent)?;
    let launch = Launch::router("ip-router.click", &topology, &routes)?;
    let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
    let mut ours = Exchange::open(&topology, Hosts::Silent)?;
    ours.open_ways(Duration::from_secs(10))?;
    let mut theirs = linux(&table)?;
    let packets = packets(&table)?;
    let comparison = Comparison::run(&mut ours, &mut theirs.exchange, &packets, foreseen::LIST)?;
    judge(&comparison, packets.len(), foreseen::LIST);
    let wrong: Vec<_> = router.stop()?.into_iter().filter(|check| !check.holds).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// Every difference has been foreseen, and all that are foreseen occur: a predicate that matches nothing describes
/// nothing.
fn judge(comparison: &Comparison, packets: usize, list: &[Foreseen]) {
    let report = comparison.report(list);
    println!("{report}");
    assert_eq!(comparison.sent, packets);
    assert_eq!(comparison.unforeseen, 0, "{report}");
    for foreseen in list {
        assert!(
            comparison.foreseen.contains_key(foreseen.name),
            "{} does not occur:\n{report}",
            foreseen.name
        );
    }
}

/// Two Linuxes that meet a packet without a route around the turn of a second may differ, and in nothing else.
const ONCE_A_SECOND: &[Foreseen] = &[Foreseen {
    name: "one source is told of a missing route about once a second",
    rfc: "RFC 1812 §4.3.2.8",
    why: "Linux limits how often it tells one source",
    matches: |d| {
        matches!(
            (d.ours, d.theirs),
            ([], [Output::Error { kind: 3, code: 0, .. }]) | ([Output::Error { kind: 3, code: 0, .. }], [])
        )
    },
}];

/// Proves the harness: it loses nothing, invents nothing, and takes nothing for another.
#[test]
fn linux_is_like_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let table = table();
    let (mut one, mut other) = (linux(&table)?, linux(&table)?);
    let packets = packets(&table)?;
    let comparison = Comparison::run(&mut one.exchange, &mut other.exchange, &packets, ONCE_A_SECOND)?;
    println!("{}", comparison.report(ONCE_A_SECOND));
    assert_eq!(comparison.sent, packets.len());
    assert_eq!(comparison.unforeseen, 0, "{}", comparison.report(ONCE_A_SECOND));
    let by_chance: usize = comparison.foreseen.values().sum();
    assert!(by_chance <= packets.len().div_ceil(12_500), "{}", comparison.report(ONCE_A_SECOND));
    Ok(())
}

/// A difference is found, and counted as foreseen only if a predicate says so.
#[test]
fn a_silent_router_is_told_from_one_that_answers_echo_requests() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let table = table();
    let (mut silent, mut answering) = (linux(&table)?, linux(&table)?);
    silent.topology.router().set("net/ipv4/icmp_echo_ignore_all", "1")?;
    let packets: Vec<Sent> = packets(&table)?.into_iter().take(5_000).collect();
    let mut compare =
        |list: &[Foreseen]| Comparison::run(&mut silent.exchange, &mut answering.exchange, &packets, list);
    let unforeseen = compare(&[])?.unforeseen;
    assert!(unforeseen > 0);
    let echo = Foreseen {
        name: "echo requests are not answered",
        rfc: "RFC 1122 §3.2.2.6",
        why: "switched off",
        matches: |difference| {
            difference.ours.is_empty() && matches!(difference.theirs, [Output::Own { protocol: ICMP, .. }])
        },
    };
    let comparison = compare(&[echo])?;
    assert_eq!((comparison.unforeseen, comparison.foreseen.values().sum::<usize>()), (0, unforeseen));
    Ok(())
}
