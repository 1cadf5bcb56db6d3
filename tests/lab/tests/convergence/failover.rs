//! A neighbour of 100,000 prefixes fails, with a second way known: what a stream loses.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use lab::Result;
use lab::netns;
use lab::probe::{Probe, RATE};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

const PREFIXES: u32 = 100_000;
/// How often the cable is pulled.
const PULLS: usize = 10;

/// Both ways of all prefixes are in one group of next-hop objects, as FRR has it, or each route has them itself, as BIRD.
fn failover(title: &str, ways: &str) -> Result<()> {
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
    for i in 0..PREFIXES {
        let _ = writeln!(lines, "route add 20.{}.{}.{}/32 {ways}", i >> 16, i >> 8 & 255, i & 255);
    }
    stage.inside.ip(&lines)?;
    wait_until("the routes", LIMIT, || Ok((stage.fib()?[0] >= PREFIXES as usize).then_some(())))?;
    // One flow, so that a datagram every 100 µs tells.
    let mut gaps = Vec::new();
    for pull in 0..PULLS {
        let out = |port: &str| stage.packets(port);
        let (host, to) = wait_until("a flow by the way that will fail", LIMIT, || {
            let to: IpAddr = [20, 0, pull as u8, gaps.len() as u8].into();
            let before = (out("out1")?, out("out2")?);
            stage.hosts[0].output("ping", &["-c20", "-i0.01", "-q", "-W1", &to.to_string()])?;
            let by_second = out("out1")? - before.0 >= 20;
            let by_third = out("out2")? - before.1 >= 20;
            Ok((by_second || by_third).then_some((if by_second { 1 } else { 2 }, to)))
        })?;
        let probe = Probe::start(&stage.hosts[0], &[to], &[&stage.hosts[1], &stage.hosts[2]])?;
        std::thread::sleep(Duration::from_millis(300));
        stage.hosts[host].ip("link set eth0 down\n")?;
        std::thread::sleep(Duration::from_millis(500));
        let seen = probe.stop()?;
        gaps.push((seen.gap, seen.lost));
        stage.hosts[host].ip("link set eth0 up\n")?;
        let n = host + 1;
        stage.hosts[host].ip(&format!("route replace default via 10.{n}.0.1\n"))?;
        stage.wait_for_ping(host, &format!("10.{n}.0.1"), true)?;
        // The routes went with the carrier of a device if Linux thinks so; they are to be there again.
        wait_until("the routes", LIMIT, || Ok((stage.fib()?[0] >= PREFIXES as usize).then_some(())))?;
    }
    gaps.sort_unstable();
    let longest = gaps.last().copied().unwrap_or_default();
    let middle = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    println!(
        "{title}, {PREFIXES} prefixes: gap of a flow at {RATE} packets a second {:?} in the middle, {:?} at most ({} lost), of {PULLS}",
        middle.0, longest.0, longest.1
    );
    stage.end()
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_a_group_of_objects() -> Result<()> {
    failover("a group of objects", "nhid 9")
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn over_ways_in_each_route() -> Result<()> {
    failover("ways in each route", "nexthop via 10.2.0.2 nexthop via 10.3.0.2")
}
