//! The same with IPv6.

use std::fs;
use std::time::Duration;

use lab::differential::Comparison;
use lab::exchange::Exchange;
use lab::linux::LinuxRouter;
use lab::netns;
use lab::random_packets::Sent;
use lab::random_packets6::Generator6;
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::table6::{self, Route6};
use lab::topology::{Hosts, Link, MTU, SMALL_MTU, Topology};
use lab::{Context, Error, Result};

use crate::{SEED, count, foreseen6, judge};

const LINKS: [Link; 2] = [Link { port: 0 }, Link { port: 1 }];
/// Those of `conf/ip6-router.click`: packets may come in longer than they may leave.
const MTUS: [u16; 2] = [MTU, SMALL_MTU];

fn packets(routes: &[Route6]) -> Result<Vec<Sent>> {
    let mut generator = Generator6::new(SEED, routes, &LINKS);
    Ok((0..count()?).map(|_| generator.packet()).collect())
}

struct Linux {
    exchange: Exchange,
    _router: LinuxRouter,
    _topology: Topology,
}

fn linux(routes: &[Route6]) -> Result<Linux> {
    let topology = Topology::of(LINKS.len(), &netns::unique_prefix(), Hosts::Silent)?;
    let router = LinuxRouter::start6(&topology, routes, &MTUS)?;
    let mut exchange = Exchange::open6(&topology)?;
    exchange.open_ways(Duration::from_secs(10))?;
    Ok(Linux { exchange, _router: router, _topology: topology })
}

/// `conf/ip6-router.click` forwards, refuses and drops what Linux does; where it does not, a predicate says why.
#[test]
fn our_ipv6_router_is_like_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let routes = table6::synthetic(300, SEED, &LINKS);
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    fs::write(&table, table6::text(&routes, &LINKS)).cannot(|| "write routes".to_owned())?;
    let topology = Topology::of(LINKS.len(), &netns::unique_prefix(), Hosts::Silent)?;
    let launch = Launch::router("ip6-router.click", &topology, &table)?.with(&["LIMIT=false"]);
    let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
    let mut ours = Exchange::open6(&topology)?;
    ours.open_ways(Duration::from_secs(10))?;
    let mut theirs = linux(&routes)?;
    let packets = packets(&routes)?;
    let comparison = Comparison::run(&mut ours, &mut theirs.exchange, &packets, foreseen6::LIST)?;
    judge(&comparison, packets.len(), foreseen6::LIST);
    let wrong: Vec<_> = router.stop()?.into_iter().filter(|check| !check.holds).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// Proves the harness for IPv6: two Linuxes do not differ.
#[test]
fn linux_is_like_linux_with_ipv6() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let routes = table6::synthetic(300, SEED, &LINKS);
    let (mut one, mut other) = (linux(&routes)?, linux(&routes)?);
    let packets = packets(&routes)?;
    let comparison = Comparison::run(&mut one.exchange, &mut other.exchange, &packets, &[])?;
    judge(&comparison, packets.len(), &[]);
    Ok(())
}
