//! Daemons that are killed and come back under traffic: what they have not changed goes on without a packet lost, and
//! what is no longer there goes.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::daemons::{Bird, Frr};
use lab::netns;
use lab::probe::{Probe, RATE, Seen};
use lab::twins::Stage;
use lab::{Error, Result};

use crate::bgp::{bird_neighbour, bird_ours, frr_ours};
use crate::{alone, wait_for_route};

/// The routes that stay, and the one that n2 no longer announces when the daemon is back.
pub const STAYS: &str = "10.102.0.0/24";
pub const GOES: &str = "10.77.0.0/16";
/// How often a daemon may be killed until nothing was lost: the probe itself needs its share of a busy machine.
pub const TRIES: usize = 3;

/// Destinations of the probe, in both families.
fn destinations() -> Vec<IpAddr> {
    (1..=8)
        .flat_map(|n| [format!("10.102.0.{n}"), format!("2001:db8:102::{n}")])
        .filter_map(|a| a.parse().ok())
        .collect()
}

/// A router whose neighbours send everything to us, whatever their daemons think.
pub fn stage(arguments: &[&str]) -> Result<Stage> {
    let stage = crate::stage(arguments)?;
    for (host, n) in stage.hosts.iter().zip(1..) {
        host.ip(&format!("route add default via 10.{n}.0.1\nroute add default via 2001:db8:{n}::1\n"))?;
    }
    Ok(stage)
}

/// A probe from n1 to n2.
pub fn probe(stage: &Stage) -> Result<Probe> {
    Probe::start(&stage.hosts[0], &destinations(), &[&stage.hosts[1]])
}

/// The neighbour n2, which announces what stays, and with `more` what goes.
pub fn neighbour(stage: &Stage, more: bool) -> Result<Bird> {
    let more: &[&str] = if more { &[GOES] } else { &[] };
    Bird::start(&stage.hosts[1], stage.directory.path(), "n2", &bird_neighbour(2, more))
}

/// Kills a daemon of ours and starts it again while n2 forgets a route; judges the probe.
fn killed(
    stage: &Stage,
    name: &str,
    mut kill: impl FnMut() -> Result<()>,
    mut again: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut all: Vec<Seen> = Vec::new();
    for _ in 0..TRIES {
        let mut theirs = neighbour(stage, true)?;
        wait_for_route(stage, GOES, true)?;
        wait_for_route(stage, STAYS, true)?;
        stage.wait_for_ping(0, "10.102.0.1", true)?;
        stage.wait_for_ping(0, "2001:db8:102::1", true)?;
        let probe = probe(stage)?;
        std::thread::sleep(Duration::from_millis(500));
        kill()?;
        theirs.kill();
        let _theirs = neighbour(stage, false)?;
        std::thread::sleep(Duration::from_millis(500));
        again()?;
        let begun = Instant::now();
        wait_for_route(stage, GOES, false)?;
        println!("{name}: what is gone went {:.1} s after the start", begun.elapsed().as_secs_f64());
        wait_for_route(stage, STAYS, true)?;
        std::thread::sleep(Duration::from_secs(1));
        let seen = probe.stop()?;
        println!(
            "{name}: {} of {} lost at {RATE} packets a second, longest gap {:?}",
            seen.lost, seen.sent, seen.gap
        );
        all.push(seen);
        if seen.lost == 0 {
            return Ok(());
        }
    }
    Err(Error::new(format!("{name}: {all:?}")))
}

#[test]
fn frr_is_killed() -> Result<()> {
    if netns::skipped() || Frr::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    // Routes that it finds in the kernel stay for so many seconds.
    frr(&stage, &["zebra -K 8", "bgpd"], &frr_ours(), directory, "FRR, routes from the kernel")?;
    stage.end()
}

#[test]
fn frr_is_killed_with_fpm() -> Result<()> {
    if netns::skipped() || Frr::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&["--fpm"])?;
    let directory = stage.directory.path();
    let lines = format!("fpm address 127.0.0.1 port 2620\n{}", frr_ours());
    frr(&stage, &["zebra -K 8 -M dplane_fpm_nl", "bgpd"], &lines, directory, "FRR, routes by FPM")?;
    stage.end()
}

fn frr(stage: &Stage, daemons: &[&str], lines: &str, directory: &Path, name: &str) -> Result<()> {
    let start = || Frr::start(&stage.inside, directory, daemons, lines);
    let ours = std::cell::RefCell::new(Some(start()?));
    let kill = || {
        // Dropping it kills it.
        drop(ours.borrow_mut().take());
        Ok(())
    };
    let again = || {
        *ours.borrow_mut() = Some(start()?);
        Ok(())
    };
    killed(stage, name, kill, again)
}

#[test]
fn bird_is_killed() -> Result<()> {
    if netns::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let kernel = |family: u8| {
        format!(
            "protocol kernel kernel{family} {{ persist; graceful restart; ipv{family} {{ import none; export all; }}; }}\n"
        )
    };
    let config =
        format!("graceful restart wait 5;\nprotocol device {{}}\n{}{}{}", kernel(4), kernel(6), bird_ours());
    let ours = Bird::start_with(&stage.inside, directory, "ours", &config)?;
    let ours = std::cell::RefCell::new(ours);
    let kill = || {
        ours.borrow_mut().kill();
        Ok(())
    };
    killed(&stage, "BIRD", kill, || ours.borrow_mut().start_again(&stage.inside, directory))?;
    stage.end()
}

/// The router itself: taps and tables are gone with it. How long that takes is told.
#[test]
fn we_are_killed() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    /// From the kill until packets flow again; about a second on an idle machine.
    const MOST: Duration = Duration::from_secs(10);
    let _turn = alone();
    let mut stage = stage(&[])?;
    let routes = "route add 10.102.0.0/24 via 10.2.0.2\nroute add 2001:db8:102::/48 via 2001:db8:2::2\n";
    stage.inside.ip(routes)?;
    stage.wait_for_ping(0, "10.102.0.1", true)?;
    stage.wait_for_ping(0, "2001:db8:102::1", true)?;
    let probe = probe(&stage)?;
    std::thread::sleep(Duration::from_millis(500));
    stage.router.kill();
    stage.start_again()?;
    stage.inside.ip(routes)?;
    stage.wait_for_ping(0, "10.102.0.1", true)?;
    stage.wait_for_ping(0, "2001:db8:102::1", true)?;
    std::thread::sleep(Duration::from_secs(1));
    let seen = probe.stop()?;
    println!("routebricks killed and started again: nothing for {:?}", seen.gap);
    assert!(seen.gap > Duration::ZERO && seen.gap < MOST, "{seen:?}");
    stage.end()
}
