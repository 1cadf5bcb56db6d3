//! VLANs and VRFs when the control side is killed, and has another one in its place.

use std::time::Duration;

use super::vlans::{add, printed, skipped, wait_for_ping};
use super::vrfs::stage;
use lab::netns::Namespace;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use lab::{Context, Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Pings that are under way while the control side is killed, ten milliseconds apart.
const PINGS: usize = 400;

fn process(stage: &Stage) -> Result<Pid> {
    let pid = stage.router.control()?["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    pid.map(Pid::from_raw).ok_or_else(|| Error::new("no control side"))
}

/// Kills the process while `change` is made that it has not seen, and waits until the next one is in step.
pub fn killed_in_a_change(stage: &Stage, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let old = process(stage)?;
    let signal = |signal| kill(old, signal).cannot(|| format!("signal {old}"));
    signal(Signal::SIGSTOP)?;
    change()?;
    signal(Signal::SIGKILL)?;
    wait_until("the control side to be in step again", LIMIT, || {
        let is_up = stage.router.control()?["state"] == "in step";
        Ok((is_up && process(stage)? != old).then_some(()))
    })
}

fn names(stage: &Stage) -> Result<Vec<String>> {
    let rows = stage.router.rows("interfaces")?;
    let all = rows.iter().map(|row| format!("{} {}", row["name"], row["vrf"]).replace('"', ""));
    Ok(all.filter(|line| !line.starts_with("tap:")).collect())
}

/// Frames that an interface has received.
fn received(stage: &Stage, name: &str) -> Result<u64> {
    let rows = stage.router.rows("interfaces")?;
    let row = rows.iter().find(|row| row["name"] == name);
    row.and_then(|row| row["rx_packets"].as_u64()).ok_or_else(|| Error::new(format!("no interface {name}")))
}

#[test]
fn what_has_not_changed_goes_on_and_what_is_gone_goes() -> Result<()> {
    if skipped(&["vlan", "vrf"]) {
        return Ok(());
    }
    let (stage, [a, b, d]) = stage(&[])?;
    assert_eq!(stage.router.control()?["runs_as"], "process");
    for (host, to) in [(&a, "10.66.0.1"), (&b, "10.77.0.1"), (&a, "2001:db8:2::2")] {
        wait_for_ping(host, to, true)?;
    }
    let before = received(&stage, "eth1.100")?;
    let flood = |host: &Namespace, to: &str| {
        let count = PINGS.to_string();
        printed(host, &["-c", &count, "-i", "0.01", "-q", to])
    };
    let seen = std::thread::scope(|scope| -> Result<Vec<String>> {
        let floods = [(&a, "10.66.0.1"), (&a, "2001:db8:2::2"), (&b, "10.77.0.1")];
        let floods = floods.map(|(host, to)| scope.spawn(move || flood(host, to)));
        std::thread::sleep(Duration::from_millis(500));
        // A route of a VRF goes, another comes, and a VLAN without anyone behind it.
        killed_in_a_change(&stage, || {
            stage.inside.ip("route add 10.88.0.0/24 via 10.2.0.2 table 10\n")?;
            add(&stage, "eth1", 400, 90)
        })?;
        killed_in_a_change(&stage, || {
            stage.inside.ip("route del 10.88.0.0/24 via 10.2.0.2 table 10\nlink del eth1.400\n")
        })?;
        let joined = floods.into_iter().map(|flood| flood.join());
        joined.map(|seen| seen.unwrap_or_else(|_| Err(Error::new("a flood panicked")))).collect()
    })?;
    for seen in &seen {
        assert!(seen.contains(&format!("{PINGS} received")), "{seen}");
    }
    assert!(received(&stage, "eth1.100")? - before >= 2 * PINGS as u64);
    assert_eq!(names(&stage)?, ["eth1 null", "eth2 red", "eth1.100 red", "eth1.200 blue", "eth2.300 blue"]);
    let routes = || stage.router.rows("routes");
    assert!(routes()?.iter().all(|row| row["prefix"] != "10.88.0.0/24"));
    // A VRF goes, and an interface moves, while nobody looks.
    killed_in_a_change(&stage, || {
        stage.inside.ip("link del blue\nlink set eth1.200 master red\nlink del eth2.300\n")
    })?;
    assert_eq!(names(&stage)?, ["eth1 null", "eth2 red", "eth1.100 red", "eth1.200 red"]);
    assert!(routes()?.iter().all(|row| row["vrf"] != "blue"));
    wait_for_ping(&b, "10.77.0.1", false)?;
    wait_for_ping(&a, "10.66.0.1", true)?;
    drop(d);
    stage.end()
}
