//! The control side is killed, stopped, and started again under traffic: what has not changed goes on without a packet
//! lost, and what has changed meanwhile is as the kernel, or FRR, has it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::daemons::{Bird, Frr};
use lab::netns;
use lab::probe::Seen;
use lab::routebricks::binary;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use lab::{Context, Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bgp::{bird_ours, frr_ours};
use crate::restart::{GOES, STAYS, TRIES, neighbour, probe, stage};
use crate::{alone, next_hop, wait_for_route};

/// With a control side that can be killed alone.
const APART: [&str; 2] = ["--control", "process"];

/// The process of the control side, if there is one.
fn process(stage: &Stage) -> Result<Option<i32>> {
    let pid = stage.router.control()?["pid"].as_i64();
    Ok(pid.and_then(|pid| i32::try_from(pid).ok()))
}

fn signal(pid: i32, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(pid), signal).cannot(|| format!("signal {pid}"))
}

fn starts(stage: &Stage) -> Result<u64> {
    Ok(stage.router.control()?["starts"].as_u64().unwrap_or(0))
}

/// Waits until the process after `old` is in step, or waits for FRR if it may.
fn wait_for_next(stage: &Stage, old: i32, may_wait: bool) -> Result<i32> {
    wait_until("the control side to be in step again", LIMIT, || {
        let row = stage.router.control()?;
        let is_up = row["state"] == "in step" || (may_wait && row["state"] == "waiting for FRR");
        let pid = row["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        Ok(pid.filter(|pid| *pid != old && is_up))
    })
}

/// Kills the process while `change` is made that it has not seen: it is stopped before.
fn killed_in_a_change(stage: &Stage, may_wait: bool, change: impl FnOnce() -> Result<()>) -> Result<i32> {
    let pid = process(stage)?.ok_or_else(|| Error::new("no control side"))?;
    signal(pid, Signal::SIGSTOP)?;
    change()?;
    signal(pid, Signal::SIGKILL)?;
    wait_for_next(stage, pid, may_wait)
}

/// Does something under a stream of packets, of which none may be lost; the probe itself needs its share of a busy
/// machine.
fn without_loss(stage: &Stage, name: &str, mut work: impl FnMut(usize) -> Result<()>) -> Result<()> {
    let mut all: Vec<Seen> = Vec::new();
    for attempt in 0..TRIES {
        stage.wait_for_ping(0, "10.102.0.1", true)?;
        stage.wait_for_ping(0, "2001:db8:102::1", true)?;
        let stream = probe(stage)?;
        std::thread::sleep(Duration::from_millis(500));
        work(attempt)?;
        std::thread::sleep(Duration::from_millis(500));
        let seen = stream.stop()?;
        println!("{name}: {} of {} lost, longest gap {:?}", seen.lost, seen.sent, seen.gap);
        all.push(seen);
        if seen.lost == 0 {
            return Ok(());
        }
    }
    Err(Error::new(format!("{name}: {all:?}")))
}

/// What the data side knows of a neighbour.
fn mac(stage: &Stage, address: &str) -> Result<Option<String>> {
    let rows = stage.router.rows("neighbours")?;
    let row = rows.iter().find(|row| row["element"] == "next0" && row["address"] == address);
    Ok(row.and_then(|row| row["mac"].as_str().map(str::to_owned)))
}

/// The ends of the TCP connections of BGP sessions, in order.
fn bgp_connections(stage: &Stage) -> Result<Vec<String>> {
    let filter = ["-Htn", "state", "established", "( sport = :179 or dport = :179 )"];
    let printed = stage.inside.run("ss", &filter)?;
    // Behind two columns of octets that wait.
    let mut ends: Vec<String> =
        printed.lines().map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")).collect();
    ends.sort();
    Ok(ends)
}

/// Routes to n2 that no daemon has made.
fn fixed_routes(stage: &Stage) -> Result<()> {
    stage.inside.ip("route add 10.102.0.0/24 via 10.2.0.2\nroute add 2001:db8:102::/48 via 2001:db8:2::2\n")
}

#[test]
fn it_is_killed_beside_bird() -> Result<()> {
    if netns::skipped() || Bird::skipped() {
        return Ok(());
    }
    const KILLS: usize = 5;
    let _turn = alone();
    let stage = stage(&APART)?;
    let ours = Bird::start(&stage.inside, stage.directory.path(), "ours", &bird_ours())?;
    let _theirs = neighbour(&stage, true)?;
    wait_for_route(&stage, GOES, true)?;
    wait_for_route(&stage, STAYS, true)?;
    // The routes may have come by one of them, before the other is up.
    let both = || Ok((ours.is_established("four_2")? && ours.is_established("six_2")?).then_some(()));
    wait_until("both sessions to be up", LIMIT, both)?;
    let before = bgp_connections(&stage)?;
    assert_eq!(before.len(), 2, "{before:?}");
    let route = |n: usize| format!("20.{n}.0.0/16");
    let near = |n: usize| format!("10.2.0.{}", 100 + n);
    stage.inside.ip(&format!(
        "route add {} via 10.2.0.2\nneigh add {} lladdr 2:0:0:0:1:0 nud permanent dev eth2\n",
        route(0),
        near(0)
    ))?;
    let mut n = 0;
    without_loss(&stage, "BIRD's routes", |_| {
        for _ in 0..KILLS {
            let (old, new) = (n, n + 1);
            let begun = Instant::now();
            killed_in_a_change(&stage, false, || {
                stage.inside.ip(&format!(
                    "route del {}\nroute add {} via 10.2.0.2\nneigh del {3} dev eth2\n\
                     neigh add {} lladdr 2:0:0:0:1:{new:x} nud permanent dev eth2\n",
                    route(old),
                    route(new),
                    near(new),
                    near(old),
                ))
            })?;
            println!("in step {:.2} s after the kill", begun.elapsed().as_secs_f64());
            n = new;
            assert_eq!((next_hop(&stage, &route(old))?, mac(&stage, &near(old))?), (None, None));
            let expected = format!("02-00-00-00-01-{new:02x}");
            assert_eq!(next_hop(&stage, &route(new))?.as_deref(), Some("10.2.0.2 1"));
            assert_eq!(mac(&stage, &near(new))?, Some(expected));
            assert!(next_hop(&stage, &format!("{}/32", near(new)))?.is_some());
            assert_eq!(next_hop(&stage, &format!("{}/32", near(old)))?, None);
        }
        Ok(())
    })?;
    // The same sessions: a new one has another port of its own.
    assert_eq!(bgp_connections(&stage)?, before);
    // What comes after a restart comes by changes, as before it.
    stage.inside.ip("route add 20.99.0.0/16 via 10.2.0.2\n")?;
    wait_for_route(&stage, "20.99.0.0/16", true)?;
    stage.end()
}

#[test]
fn it_is_killed_beside_frr_with_fpm() -> Result<()> {
    if netns::skipped() || Frr::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&["--control", "process", "--fpm"])?;
    let lines = format!("fpm address 127.0.0.1 port 2620\n{}", frr_ours());
    let directory = stage.directory.path();
    let ours = Frr::start(&stage.inside, directory, &["zebra -M dplane_fpm_nl", "bgpd"], &lines)?;
    let mut theirs = neighbour(&stage, true)?;
    wait_for_route(&stage, GOES, true)?;
    wait_for_route(&stage, STAYS, true)?;
    without_loss(&stage, "FRR's routes by FPM", |_| {
        if next_hop(&stage, GOES)?.is_none() {
            theirs = neighbour(&stage, true)?;
            wait_for_route(&stage, GOES, true)?;
        }
        let begun = Instant::now();
        // The neighbour comes back without one of its routes while nobody listens to zebra.
        killed_in_a_change(&stage, true, || {
            ours.configure(
                "ip prefix-list none deny any\nip prefix-list goes deny 10.77.0.0/16\n\
                 ip prefix-list goes permit any\nrouter bgp 65000\naddress-family ipv4 unicast\n\
                 neighbor 10.2.0.2 prefix-list goes in\n",
            )?;
            wait_until("FRR to forget the route", LIMIT, || {
                Ok((!ours.ask("show ip route")?.contains("10.77.0.0/16")).then_some(()))
            })
        })?;
        println!("reads the kernel {:.2} s after the kill", begun.elapsed().as_secs_f64());
        // Until FRR has sent everything nothing of it goes.
        assert!(next_hop(&stage, STAYS)?.is_some());
        wait_for_route(&stage, GOES, false)?;
        println!("what is gone went {:.2} s after the kill", begun.elapsed().as_secs_f64());
        assert!(next_hop(&stage, STAYS)?.is_some());
        wait_until("FRR to be in step", LIMIT, || {
            Ok((stage.router.control()?["state"] == "in step").then_some(()))
        })?;
        ours.configure(
            "router bgp 65000\naddress-family ipv4 unicast\nno neighbor 10.2.0.2 prefix-list goes in\n",
        )
    })?;
    stage.end()
}

/// Whoever ends at once, again and again, is started again at a bounded rate, and that is told.
#[test]
fn one_that_ends_again_and_again() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    const LASTS: Duration = Duration::from_secs(4);
    let _turn = alone();
    let stage = stage(&APART)?;
    fixed_routes(&stage)?;
    without_loss(&stage, "ends all the time", |_| {
        let (begun, before) = (Instant::now(), starts(&stage)?);
        while begun.elapsed() < LASTS {
            if let Some(pid) = process(&stage)? {
                // It may have ended by itself.
                let _ = signal(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let times = starts(&stage)? - before;
        println!("{times} starts in {LASTS:?}");
        // Pauses of 0, 100, 200, 400, 800 and 1600 ms.
        assert!((3..=8).contains(&times), "{times}");
        wait_for_next(&stage, 0, false).map(drop)
    })?;
    let row = stage.router.control()?;
    assert_eq!(row["last_end"], "signal: 9 (SIGKILL)");
    assert!(row["restarts"].as_u64() >= Some(3), "{row}");
    let printed = stage.router.process().printed()?;
    assert!(printed.contains("ended (signal: 9 (SIGKILL)); packets are forwarded as before"), "{printed}");
    // The way that it has not seen meanwhile.
    stage.inside.ip("route add 20.9.0.0/16 via 10.2.0.2\n")?;
    wait_for_route(&stage, "20.9.0.0/16", true)?;
    stage.end()
}

#[test]
fn it_is_killed_in_a_dump() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    /// 40.0.0.0/24 and following.
    const ROUTES: u32 = 100_000;
    let _turn = alone();
    let stage = stage(&APART)?;
    fixed_routes(&stage)?;
    stage.wait_for_ping(0, "10.102.0.1", true)?;
    let before = stage.fib()?[0];
    let prefix = |n: u32| format!("{}.{}.{}.0/24", 40 + (n >> 16), n >> 8 & 255, n & 255);
    let all = |verb: &str, range: std::ops::Range<u32>| {
        range.map(|n| format!("route {verb} {} via 10.2.0.2\n", prefix(n))).collect::<String>()
    };
    stage.inside.ip(&all("add", 0..ROUTES))?;
    wait_until("the routes", LIMIT, || Ok((stage.fib()?[0] >= before + ROUTES as usize).then_some(())))?;
    without_loss(&stage, "killed in a dump", |_| {
        // Later each time: before it has asked, while it reads, while it looks what has changed.
        for milliseconds in [0, 40, 80, 120, 200, 300] {
            let pid = process(&stage)?.ok_or_else(|| Error::new("no control side"))?;
            signal(pid, Signal::SIGKILL)?;
            let next = wait_until("a process", LIMIT, || Ok(process(&stage)?.filter(|next| *next != pid)))?;
            std::thread::sleep(Duration::from_millis(milliseconds));
            signal(next, Signal::SIGKILL)?;
            wait_until("another process", LIMIT, || Ok(process(&stage)?.filter(|pid| *pid != next)))?;
            assert_eq!(stage.fib()?[0], before + ROUTES as usize);
        }
        wait_for_next(&stage, 0, false).map(drop)
    })?;
    // Half of them go while nobody looks.
    let pid = killed_in_a_change(&stage, false, || stage.inside.ip(&all("del", 0..ROUTES / 2)))?;
    assert_eq!(stage.fib()?[0], before + ROUTES as usize / 2);
    assert_eq!(next_hop(&stage, &prefix(0))?, None);
    assert_eq!(next_hop(&stage, &prefix(ROUTES / 2))?.as_deref(), Some("10.2.0.2 1"));
    // Nothing but these was changed by that.
    let row = stage.router.control()?;
    assert_eq!(
        (row["pid"].as_i64(), row["route_changes"].as_u64()),
        (Some(pid.into()), Some(u64::from(ROUTES / 2)))
    );
    stage.end()
}

/// Routes with several ways keep their groups.
#[test]
fn it_is_killed_beside_groups() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = Stage::new(3, &APART)?;
    for host in &stage.hosts[1..] {
        host.ip("route add local 10.102.0.0/24 dev lo\nlink set lo up\n\
             route add local 2001:db8:102::/48 dev lo\n")?;
    }
    stage.inside.ip("route add 10.102.0.0/24 nexthop via 10.2.0.2 nexthop via 10.3.0.2\n\
         nexthop add id 1 via 2001:db8:2::2 dev eth2\nnexthop add id 2 via 2001:db8:3::2 dev eth3\n\
         nexthop add id 9 group 1/2\nroute add 2001:db8:102::/48 nhid 9\n\
         route add 20.0.0.0/16 nexthop via 10.2.0.2 nexthop via 10.3.0.2 nexthop via 10.3.0.77\n")?;
    // Of these routes: what they lead to, and what that consists of.
    let groups = || -> Result<Vec<String>> {
        let rows = stage.router.rows("routes")?;
        let of = |(prefix, element): &(&str, &str)| {
            let row = rows.iter().find(|row| row["prefix"] == *prefix && row["element"] != "next0");
            let port = row.map(|row| row["port"].to_string()).unwrap_or_default();
            let text = stage.router.handler(element, "groups")?;
            let line = text.lines().find(|line| line.contains(&format!("group {port} "))).unwrap_or_default();
            Ok(format!("{prefix}: {line}"))
        };
        [("10.102.0.0/24", "next0"), ("2001:db8:102::/48", "next6_0")].iter().map(of).collect()
    };
    wait_until("groups of two", LIMIT, || {
        Ok(groups()?.iter().all(|text| text.matches("(128)").count() == 2).then_some(()))
    })?;
    let answers =
        |to: &str| Ok(stage.hosts[0].output("ping", &["-c1", "-W1", to])?.status.success().then_some(()));
    wait_until("10.102.0.1", LIMIT, || answers("10.102.0.1"))?;
    wait_until("2001:db8:102::1", LIMIT, || answers("2001:db8:102::1"))?;
    std::thread::sleep(Duration::from_secs(2));
    let before = groups()?;
    println!("{before:?}");
    for _ in 0..3 {
        let pid = process(&stage)?.ok_or_else(|| Error::new("no control side"))?;
        signal(pid, Signal::SIGKILL)?;
        wait_for_next(&stage, pid, false)?;
        assert_eq!(groups()?, before);
    }
    // A way that is gone when it comes back.
    killed_in_a_change(&stage, false, || stage.hosts[2].ip("link set eth0 down\n"))?;
    wait_until("10.102.0.1", LIMIT, || answers("10.102.0.1"))?;
    wait_until("2001:db8:102::1", LIMIT, || answers("2001:db8:102::1"))?;
    assert!(groups()? != before);
    stage.end()
}

/// A cable that is pulled and put back while nobody looks: the twin has its carrier back.
#[test]
fn a_cable_comes_back_while_it_is_away() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&APART)?;
    let carrier = |there: bool| {
        wait_until(&format!("a carrier of eth2: {there}"), LIMIT, || {
            let shown = stage.inside.run("ip", &["-o", "link", "show", "eth2"])?;
            Ok((shown.contains("LOWER_UP") == there).then_some(()))
        })
    };
    stage.hosts[1].ip("link set eth0 down\n")?;
    carrier(false)?;
    killed_in_a_change(&stage, false, || stage.hosts[1].ip("link set eth0 up\n"))?;
    carrier(true)?;
    stage.hosts[1].ip("route add default via 10.2.0.1\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

#[test]
fn it_is_started_again_by_command_and_ends_with_the_router() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let mut stage = stage(&APART)?;
    fixed_routes(&stage)?;
    let first = process(&stage)?;
    without_loss(&stage, "restart-control", |_| {
        let printed = stage.router.restart_control()?;
        let pid = process(&stage)?.unwrap_or(0);
        assert!(printed.contains(&format!("control side: process {pid}, version ")), "{printed}");
        assert!(printed.contains(", in step after "), "{printed}");
        Ok(())
    })?;
    let row = stage.router.control()?;
    let pid = process(&stage)?.ok_or_else(|| Error::new("no control side"))?;
    assert_ne!(Some(pid), first);
    let told = (&row["runs_as"], &row["state"], &row["synced"], &row["last_end"]);
    assert_eq!(told, (&"process".into(), &"in step".into(), &true.into(), &"it was asked to".into()));
    // A router that is killed leaves none behind.
    stage.router.kill();
    let gone = || Ok((!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    wait_until("the control side to end", Duration::from_secs(2), gone)?;
    Ok(())
}

/// How often a process has the device of taps open.
fn taps_open_in(pid: i32) -> Result<usize> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).cannot(|| "see what it has open".to_owned())?;
    let is_tap = |path: &Path| fs::read_link(path).is_ok_and(|file| file.ends_with("dev/net/tun"));
    Ok(files.flatten().filter(|file| is_tap(&file.path())).count())
}

/// The program is replaced in its file: by one that does not get on, and by one that does.
#[test]
fn it_is_upgraded_alone() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let file = directory.path().join("routebricks");
    let program = binary()?;
    let install = |from: &Path| {
        let new = file.with_extension("new");
        fs::copy(from, &new).and_then(|_| fs::rename(&new, &file)).cannot(|| "install a program".to_owned())
    };
    install(&program)?;
    // Starts the copy in place of the program that it is told.
    let starter = ["sh", "-c", &format!("shift; exec {} \"$@\"", file.display()), "sh"].map(str::to_owned);
    let stage = Stage::started_by(2, &APART, |_| Ok(starter.to_vec()))?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let runs = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).cannot(|| "read what runs".to_owned());
    // By its number: in a changed root it has two names.
    let number = |path: &Path| fs::metadata(path).map(|file| file.ino()).cannot(|| "find a file".to_owned());
    let runs_number = |pid: i32| number(Path::new(&format!("/proc/{pid}/exe")));
    // A program that is none.
    let none = directory.path().join("none");
    fs::write(&none, "#!/bin/sh\nexit 3\n").cannot(|| "write a script".to_owned())?;
    fs::set_permissions(&none, fs::Permissions::from_mode(0o755)).cannot(|| "write a script".to_owned())?;
    install(&none)?;
    let refused = stage.router.restart_control().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("the first new process ended (exit status: 3)"), "{refused}");
    let pid = wait_for_next(&stage, 0, false)?;
    assert!(runs(pid)?.to_string_lossy().ends_with(" (deleted)"), "{:?}", runs(pid)?);
    // It must not keep the taps of a router that is gone.
    assert_eq!(taps_open_in(pid)?, 0);
    // One that is: then it is what runs, after a kill, too, until it ends again and again.
    install(&program)?;
    stage.router.restart_control()?;
    let pid = wait_for_next(&stage, pid, false)?;
    assert_eq!(runs_number(pid)?, number(&file)?);
    signal(pid, Signal::SIGKILL)?;
    let mut pid = wait_for_next(&stage, pid, false)?;
    assert_eq!(runs_number(pid)?, number(&file)?);
    for _ in 0..2 {
        signal(pid, Signal::SIGKILL)?;
        pid = wait_for_next(&stage, pid, false)?;
    }
    assert!(runs(pid)?.to_string_lossy().ends_with(" (deleted)"), "{:?}", runs(pid)?);
    stage.end()
}

/// One that stands still is killed after ten seconds.
#[test]
fn it_hangs() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&APART)?;
    fixed_routes(&stage)?;
    let pid = process(&stage)?.ok_or_else(|| Error::new("no control side"))?;
    let begun = Instant::now();
    signal(pid, Signal::SIGSTOP)?;
    wait_for_next(&stage, pid, false)?;
    println!("another one is in step after {:.1} s", begun.elapsed().as_secs_f64());
    assert!(begun.elapsed() > Duration::from_secs(9));
    let end = stage.router.control()?["last_end"].as_str().unwrap_or_default().to_owned();
    assert!(end.starts_with("nothing was heard within 10s; signal: 9"), "{end}");
    stage.end()
}

#[test]
fn it_is_a_process_unless_told_otherwise() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _turn = alone();
    for (arguments, runs_as) in [(&[][..], "process"), (&["--control", "thread"], "thread")] {
        let stage = stage(arguments)?;
        let row = stage.router.control()?;
        let told = (&row["runs_as"], &row["state"], row["starts"].as_u64());
        assert_eq!(told, (&runs_as.into(), &"in step".into(), Some(1)));
        let is_router = row["pid"].as_u64() == Some(stage.router.process().id().into());
        assert_eq!(is_router, runs_as == "thread");
        let restarted = stage.router.restart_control().map_err(|error| error.to_string());
        let refusal = restarted.err().unwrap_or_default();
        assert_eq!(refusal.contains("the control side is a thread of this router"), is_router, "{refusal}");
        fixed_routes(&stage)?;
        stage.wait_for_ping(0, "10.102.0.1", true)?;
        stage.end()?;
    }
    Ok(())
}
