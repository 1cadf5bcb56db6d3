//! The control side starts, and starts again, beside a full table: how long that takes, and what memory it has.

use std::time::{Duration, Instant};

use control::NetlinkSocket;
use lab::netns;
use lab::probe::Probe;
use lab::twins::Stage;
use lab::wait::wait_until;
use lab::{Context, Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::dump::fill;
use crate::{LIMIT, PREFIXES};

/// MiB of memory that a process has.
fn memory(pid: u64) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).cannot(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let figure = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    figure.map(|kibibytes| kibibytes >> 10).ok_or_else(|| Error::new(format!("no VmRSS in {path}")))
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn the_control_side_starts_again() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    ["thread", "process"].into_iter().try_for_each(starts)
}

fn starts(mode: &str) -> Result<()> {
    let mut stage = Stage::new(2, &["--control", mode])?;
    stage.inside.inside(|| {
        let link = control::link::link("eth1").cannot(|| "find eth1".to_owned())?.index;
        let socket = NetlinkSocket::open(0, 1 << 20).cannot(|| "open netlink".to_owned())?;
        fill::<u32>(&socket, link, PREFIXES[0], &[10, 1, 0, 2])?;
        let via: std::net::Ipv6Addr = "2001:db8:1::2".parse().cannot(|| "read an address".to_owned())?;
        fill::<u128>(&socket, link, PREFIXES[1], &via.octets())
    })?;
    let is_full = |stage: &Stage| {
        let now = stage.fib()?;
        Ok((now[0] >= PREFIXES[0] && now[1] >= PREFIXES[1]).then_some(()))
    };
    wait_until("the table", LIMIT, || is_full(&stage))?;
    let router = u64::from(stage.router.process().id());
    let row = stage.router.control()?;
    let own = row["pid"].as_u64().filter(|pid| *pid != router);
    let more = own.map(memory).transpose()?.map_or(String::new(), |more| format!(", its process {more} MiB"));
    println!("{mode}: the router has {} MiB{more}", memory(router)?);
    if let Some(pid) = own {
        again(&stage, pid)?;
        println!("{mode}: the router has {} MiB", memory(router)?);
    }
    stage.stop().map(drop)
}

/// Kills the process some times.
fn again(stage: &Stage, first: u64) -> Result<()> {
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let mut old = first;
    for _ in 0..3 {
        // Otherwise it would be made to wait.
        std::thread::sleep(Duration::from_secs(11));
        let to = "10.2.0.2".parse().cannot(|| "read an address".to_owned())?;
        let probe = Probe::start(&stage.hosts[0], &[to], &[&stage.hosts[1]])?;
        let begun = Instant::now();
        let pid = i32::try_from(old).cannot(|| "read a process number".to_owned())?;
        kill(Pid::from_raw(pid), Signal::SIGKILL).cannot(|| format!("kill {pid}"))?;
        let row = wait_until("the control side", LIMIT, || {
            let row = stage.router.control()?;
            Ok((row["pid"].as_u64() != Some(old) && row["state"] == "in step").then_some(row))
        })?;
        let time = begun.elapsed().as_secs_f64();
        old = row["pid"].as_u64().unwrap_or(0);
        std::thread::sleep(Duration::from_millis(500));
        let seen = probe.stop()?;
        println!(
            "killed: in step again after {time:.2} s, {} routes changed; lost {} of {}; it has {} MiB",
            row["route_changes"],
            seen.lost,
            seen.sent,
            memory(old)?
        );
    }
    Ok(())
}
