//! A neighbour of 100,000 prefixes fails, with a second way known: what a stream loses.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use lab::hosts;
use lab::netns::{self, Namespace};
use lab::probe::{Probe, RATE};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use lab::{Error, Result};

const PREFIXES: u32 = 100_000;
/// How often a way is lost.
const LOSSES: usize = 10;

/// How a way is lost.
#[derive(Clone, Copy)]
enum Loss {
    /// The neighbour's cable is pulled.
    Carrier,
    /// The neighbour falls silent, its port has a carrier, and Linux says that it has asked for it in vain.
    Neighbour,
}

impl Loss {
    /// The way by host `n` (from 1) ends. What Linux takes to find out that a neighbour is silent is not what is measured: it is
    /// told.
    fn happen(self, stage: &Stage, n: usize) -> Result<()> {
        match self {
            Loss::Carrier => stage.hosts[n - 1].ip("link set eth0 down\n"),
            Loss::Neighbour => {
                stage.hosts[n - 1].ip("route delete local 20.0.0.0/8 dev lo\nlink set eth0 arp off\n")?;
                stage.inside.ip(&format!("neigh replace 10.{n}.0.2 dev eth{n} nud failed\n"))
            }
        }
    }

    /// It is there again.
    fn pass(self, stage: &Stage, n: usize) -> Result<()> {
        let host = &stage.hosts[n - 1];
        match self {
            Loss::Carrier => {
                host.ip(&format!("link set eth0 up\nroute replace default via 10.{n}.0.1\n"))?;
            }
            Loss::Neighbour => host.ip("link set eth0 arp on\nroute add local 20.0.0.0/8 dev lo\n")?,
        }
        stage.wait_for_ping(n - 1, &format!("10.{n}.0.1"), true)
    }
}

/// The routes of all prefixes: as `ip route add` takes what comes behind the prefix.
fn routes(ways: &[&str]) -> String {
    let mut lines = String::new();
    for i in 0..PREFIXES {
        for way in ways {
            let _ = writeln!(lines, "route add 20.{}.{}.{}/32 {way}", i >> 16, i >> 8 & 255, i & 255);
        }
    }
    lines
}

/// By which of both ways the only flow goes, once it does: the number of the host.
fn way_of(stage: &Stage) -> Result<usize> {
    let outs = || Ok::<_, Error>([stage.packets("out1")?, stage.packets("out2")?]);
    let mut last = outs()?;
    wait_until("a way that the flow takes", LIMIT, || {
        std::thread::sleep(Duration::from_millis(300));
        let now = outs()?;
        let [by_second, by_third] = [now[0] - last[0], now[1] - last[1]];
        last = now;
        let way = if by_second > by_third { 2 } else { 3 };
        // A few packets beside the flow are neighbours'.
        Ok((by_second.abs_diff(by_third) > u64::from(RATE) / 10).then_some(way))
    })
}

/// Both ways of all prefixes are in one group of next-hop objects, as FRR has it, or each route has them itself, as BIRD, or
/// there are two routes.
fn failover(title: &str, ways: &[&str], loss: Loss) -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(3, &[])?;
    for host in &stage.hosts[1..] {
        host.ip("route add local 20.0.0.0/8 dev lo\n")?;
    }
    for n in 1..=3 {
        stage.wait_for_ping(n - 1, &format!("10.{n}.0.1"), true)?;
    }
    let mut lines = "nexthop add id 2 via 10.2.0.2 dev eth2\nnexthop add id 3 via 10.3.0.2 dev eth3\n\
                     nexthop add id 9 group 2/3\n"
        .to_owned();
    lines += &routes(ways);
    stage.inside.ip(&lines)?;
    wait_until("the routes", LIMIT, || Ok((stage.fib()?[0] >= PREFIXES as usize).then_some(())))?;
    // One flow, so that a datagram every 100 µs tells.
    let mut gaps = Vec::new();
    for nth in 0..LOSSES {
        let to = IpAddr::from([20, 0, 1, nth as u8]);
        let probe = Probe::start(&stage.hosts[0], &[to], &[&stage.hosts[1], &stage.hosts[2]])?;
        let n = way_of(&stage)?;
        loss.happen(&stage, n)?;
        std::thread::sleep(Duration::from_millis(500));
        let seen = probe.stop()?;
        gaps.push((seen.gap, seen.lost));
        loss.pass(&stage, n)?;
        // The routes went with the carrier of a device if Linux thinks so; they are to be there again.
        wait_until("the routes", LIMIT, || Ok((stage.fib()?[0] >= PREFIXES as usize).then_some(())))?;
    }
    gaps.sort_unstable();
    let longest = gaps.last().copied().unwrap_or_default();
    let middle = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    println!(
        "{title}, {PREFIXES} prefixes: gap of a flow at {RATE} packets a second {:?} in the middle, {:?} at most ({} lost), of {LOSSES}",
        middle.0, longest.0, longest.1
    );
    stage.end()
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_group_of_objects() -> Result<()> {
    failover("a group of objects", &["nhid 9"], Loss::Carrier)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_ways_in_each_route() -> Result<()> {
    failover("ways in each route", &TWO_WAYS, Loss::Carrier)
}

/// Both ways in each route.
const TWO_WAYS: [&str; 1] = ["nexthop via 10.2.0.2 nexthop via 10.3.0.2"];

/// The worse route of each prefix takes the place of the better one.
const TWO_ROUTES: [&str; 2] = ["via 10.2.0.2 metric 10", "via 10.3.0.2 metric 20"];

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_worse_route() -> Result<()> {
    failover("a worse route", &TWO_ROUTES, Loss::Carrier)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_worse_route_to_objects() -> Result<()> {
    failover("a worse route, both over objects", &["nhid 2 metric 10", "nhid 3 metric 20"], Loss::Carrier)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_group_whose_neighbour_is_silent() -> Result<()> {
    failover("a group of objects, silent neighbour", &["nhid 9"], Loss::Neighbour)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_ways_whose_neighbour_is_silent() -> Result<()> {
    failover("ways in each route, silent neighbour", &TWO_WAYS, Loss::Neighbour)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_worse_route_than_that_of_a_silent_neighbour() -> Result<()> {
    failover("a worse route, silent neighbour", &TWO_ROUTES, Loss::Neighbour)
}

/// What Linux alone makes of the two routes: as it is unless told otherwise, and if it is to look at carriers.
#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_worse_route_in_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    for look in ["0", "1"] {
        let inside = Namespace::unique("linux")?;
        let hosts = hosts::behind(&inside, &["eth1", "eth2", "eth3"].map(str::to_owned))?;
        inside.set("net/ipv4/ip_forward", "1")?;
        inside.set("net/ipv4/conf/all/ignore_routes_with_linkdown", look)?;
        (1..=3).try_for_each(|n| inside.ip(&format!("address add 10.{n}.0.1/24 dev eth{n}\n")))?;
        hosts[1..].iter().try_for_each(|host| host.ip("route add local 20.0.0.0/8 dev lo\n"))?;
        inside.ip(&routes(&TWO_ROUTES))?;
        for n in 2..=3 {
            inside.run("ping", &["-c1", "-W2", &format!("10.{n}.0.2")])?;
        }
        let probe = Probe::start(&hosts[0], &[IpAddr::from([20, 0, 1, 1])], &[&hosts[1], &hosts[2]])?;
        std::thread::sleep(Duration::from_millis(300));
        hosts[1].ip("link set eth0 down\n")?;
        std::thread::sleep(Duration::from_secs(2));
        let seen = probe.stop()?;
        println!(
            "Linux, ignore_routes_with_linkdown {look}: {} of {} lost, gap {:?}",
            seen.lost, seen.sent, seen.gap
        );
    }
    Ok(())
}
