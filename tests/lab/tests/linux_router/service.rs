//! As a service: settings in a file, a service manager that listens, a router that is killed and starts again.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use lab::netns::{self, Namespace, missing_program};
use lab::routebricks::binary;
use lab::wait::wait_until;
use lab::{Context, Error, Result};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use lab::twins::{LIMIT, Stage};

/// What the service manager wants to hear from at least this often.
const WATCHDOG: Duration = Duration::from_millis(1500);

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn unit() -> Result<String> {
    let file = deploy("systemd/routebricks.service");
    fs::read_to_string(&file).cannot(|| format!("read {}", file.display()))
}

/// What setpriv needs so that a process has the capabilities of the unit and no others.
fn capabilities() -> Result<Vec<String>> {
    let unit = unit()?;
    let names = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = names.ok_or_else(|| Error::new("the unit has no capabilities"))?;
    let names: Vec<String> = names
        .split(' ')
        .map(|name| name.strip_prefix("CAP_").unwrap_or(name).to_lowercase())
        .map(|name| format!("+{name}"))
        .collect();
    assert!(!names.is_empty());
    let set = format!("-all,{}", names.join(","));
    Ok(["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set", &set].map(str::to_owned).to_vec())
}

/// What comes by a socket, and when, until nothing has come for a while.
fn listen(socket: UnixDatagram) -> Receiver<(Instant, String)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if sender.send((Instant::now(), text)).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Waits for a message that has this line.
fn hear(heard: &Receiver<(Instant, String)>, line: &str) -> Result<(Instant, String)> {
    let deadline = Instant::now() + LIMIT;
    let mut others = Vec::new();
    while let Ok(message) = heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if message.1.lines().any(|said| said == line) {
            return Ok(message);
        }
        others.push(message.1);
    }
    Err(Error::new(format!("{line} was not heard, but {others:?}")))
}

#[test]
fn a_service_manager_hears_that_it_is_ready_lives_and_ends() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let name = format!("lab-notify-{}", std::process::id());
    let mut heard = None;
    // Abstract names are those of a network namespace; the router's main thread leaves it for another.
    let stage = Stage::started_by(2, &[], |inside| {
        let socket = inside.inside(|| {
            let address = SocketAddr::from_abstract_name(&name).cannot(|| format!("name {name}"))?;
            UnixDatagram::bind_addr(&address).cannot(|| format!("bind {name}"))
        })?;
        socket.set_read_timeout(Some(LIMIT)).cannot(|| "set a time limit".to_owned())?;
        heard = Some(listen(socket));
        let mut starter = capabilities()?;
        let (socket, usec) =
            (format!("NOTIFY_SOCKET=@{name}"), format!("WATCHDOG_USEC={}", WATCHDOG.as_micros()));
        starter.extend(["env".to_owned(), socket, usec]);
        Ok(starter)
    })?;
    let heard = heard.ok_or_else(|| Error::new("nobody listens"))?;
    let (_, ready) = hear(&heard, "READY=1")?;
    assert!(ready.contains("\nSTATUS=running: ") && ready.contains(", 1 worker, "), "{ready}");
    let mut before = Instant::now();
    for _ in 0..4 {
        let (now, _) = hear(&heard, "WATCHDOG=1")?;
        assert!(now.saturating_duration_since(before) < WATCHDOG, "{:?}", now - before);
        before = now;
    }
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    stage.end()?;
    hear(&heard, "STOPPING=1").map(drop)
}

/// The priorities of the threads of a process that are called this.
fn priorities(process: u64, name: &str) -> Result<Vec<i32>> {
    let what = || format!("look at the threads of {process}");
    let mut priorities = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).cannot(what)? {
        let stat = fs::read_to_string(task.cannot(what)?.path().join("stat")).cannot(what)?;
        let fields = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        let Some((comm, rest)) = fields else { continue };
        // Fields are counted from 1, and the name is the second.
        let nice = rest.split_whitespace().nth(19 - 3).and_then(|nice| nice.parse::<i32>().ok());
        priorities.extend(nice.filter(|_| comm == name));
    }
    Ok(priorities)
}

#[test]
fn routes_go_before_packets_and_all_else() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::started_by(2, &[], |_| capabilities())?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let router = u64::from(stage.router.process().id());
    let control = stage.router.control()?["pid"].as_u64().ok_or_else(|| Error::new("no control side"))?;
    let workers = priorities(router, "worker0")?;
    if workers != [0] {
        println!("skipped: the tests were started with a priority, {workers:?}");
        return stage.end();
    }
    let of = |process, name| priorities(process, name);
    assert_eq!(
        [of(router, "supervisor")?, of(control, "control")?, of(control, "control-side")?],
        [[-5], [-5], [-5]]
    );
    stage.end()
}

/// The flags of a port that is back in Linux: a veth, not the twin.
fn flags(stage: &Stage, port: &str) -> Result<Option<String>> {
    let shown = stage.inside.output("ip", &["-o", "link", "show", port])?.stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let flags = shown.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    // Without the XDP program of its driver, or the next router would get no XDP socket.
    let is_back = shown.contains("link-netns") && !shown.contains("xdp");
    Ok(flags.filter(|_| is_back).map(|(flags, _)| flags.to_owned()))
}

fn has(flags: &str, flag: &str) -> bool {
    flags.split(',').any(|f| f == flag)
}

#[test]
fn a_killed_router_gives_its_ports_back_and_starts_again() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    // It has this address before we take it, and keeps it: on the twin, and when it is back.
    let with_address = |inside: &Namespace| {
        inside.ip("address add 10.66.0.1/24 dev eth1\naddress add 2001:db8:66::1/64 dev eth1 nodad\n")?;
        Ok(Vec::new())
    };
    let mut stage = Stage::started_by(2, &[], with_address)?;
    let addresses = |stage: &Stage| -> Result<[bool; 2]> {
        let shown = stage.inside.run("ip", &["address", "show", "dev", "eth1"])?;
        Ok(["10.66.0.1/24", "2001:db8:66::1/64"].map(|address| shown.contains(address)))
    };
    for promiscuous in [false, true] {
        stage.wait_for_ping(0, "10.2.0.2", true)?;
        assert_eq!(addresses(&stage)?, [true, true]);
        stage.router.kill();
        for port in ["eth1", "eth2"] {
            let expected = promiscuous && port == "eth1";
            wait_until(&format!("{port} to come back"), LIMIT, || {
                let back = flags(&stage, port)?;
                Ok(back.filter(|f| has(f, "UP") && has(f, "PROMISC") == expected).map(drop))
            })?;
        }
        assert!(!stage.pings(0, "10.2.0.2")?);
        wait_until("eth1's addresses", LIMIT, || Ok((addresses(&stage)? == [true, true]).then_some(())))?;
        stage.inside.ip("link set eth1 promisc on\n")?;
        stage.start_again()?;
        let said = stage.router.process().printed()?;
        assert!(!said.contains("no XDP socket"), "{said}");
    }
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    stage.end()
}

#[test]
fn settings_come_from_a_file() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("router.toml");
    let text = "ports = [\"eth2\"]\nworkers = 2\n[punt]\nothers = 200\nneighbours = 0\n";
    fs::write(&file, text).cannot(|| format!("write {}", file.display()))?;
    let file = file.display().to_string();
    // The ports of the command line win, the rest comes from the file.
    let stage = Stage::new(2, &["--settings", &file])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    assert!(stage.router.memory().contains(" 2 workers,"), "{}", stage.router.memory());
    let rows = stage.router.rows("elements")?;
    let limits: Vec<&str> = rows
        .iter()
        .filter(|row| row["class"] == "PuntLimiter")
        .filter_map(|row| row["config"].as_str())
        .collect();
    assert_eq!(limits, ["NEIGHBOURS 0, OTHERS 200"; 2], "{rows:?}");
    let punt = |kind: &str| -> Result<(u64, Option<u64>)> {
        let rows = stage.router.rows("punt")?;
        assert_eq!(rows.len(), 6, "{rows:?}");
        let row = rows.iter().find(|row| row["port"] == "eth1" && row["kind"] == kind);
        let row = row.ok_or_else(|| Error::new(format!("no {kind} of eth1: {rows:?}")))?;
        Ok((row["passed_packets"].as_u64().unwrap_or(0), row["limit_packets_per_s"].as_u64()))
    };
    assert_eq!(
        (punt("others")?.1, punt("neighbours")?.1, punt("protocols")?.1),
        (Some(200), None, Some(50_000))
    );
    let before = punt("others")?.0;
    stage.hosts[0].run("ping", &["-c5", "-i0.05", "-q", "10.1.0.1"])?;
    assert!((5..50).contains(&(punt("others")?.0 - before)), "{} {before}", punt("others")?.0);
    // While it runs limits change, and nothing at all if something else is said that cannot, too.
    let reload = |text: &str, said: &str| reload(&stage, &file, text, said);
    reload("workers = 3\n[punt]\nothers = 9\n", "the settings differ in workers; everything stays as it is")?;
    let checks = "workers = 2\nrpf = \"loose\"\n[punt]\nothers = 9\n";
    reload(checks, "the settings differ in rpf; everything stays as it is")?;
    reload("workers = 2\n[punt]\nother = 9\n", "the settings cannot be used; everything stays as it is")?;
    assert_eq!(punt("others")?.1, Some(200));
    reload("workers = 2\n[punt]\nothers = 300\n", "limits of punting are as the settings say now")?;
    assert_eq!((punt("others")?.1, punt("neighbours")?.1), (Some(300), Some(5000)));
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

/// Changes the settings and waits for what the router says to them.
pub fn reload(stage: &Stage, file: &str, text: &str, said: &str) -> Result<()> {
    fs::write(file, text).cannot(|| format!("write {file}"))?;
    let before = stage.router.process().printed()?.matches(said).count();
    let id = i32::try_from(stage.router.process().id()).cannot(|| "send SIGHUP".to_owned())?;
    kill(Pid::from_raw(id), Signal::SIGHUP).cannot(|| "send SIGHUP".to_owned())?;
    wait_until(said, LIMIT, || {
        Ok((stage.router.process().printed()?.matches(said).count() > before).then_some(()))
    })
}

#[test]
fn where_routes_come_from_changes_while_packets_flow() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("router.toml").display().to_string();
    let kernel = "workers = 1\n";
    fs::write(&file, kernel).cannot(|| format!("write {file}"))?;
    let stage = Stage::new(2, &["--settings", &file])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let state = || -> Result<String> {
        let rows = stage.router.rows("control")?;
        Ok(rows.first().and_then(|row| row["state"].as_str()).unwrap_or_default().to_owned())
    };
    assert_eq!(state()?, "in step");
    let said = "limits of punting are as the settings say now";
    reload(&stage, &file, "workers = 1\nfpm = \"127.0.0.1:2620\"\n", said)?;
    assert_eq!(state()?, "waiting for FRR");
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    // Nobody has this address, so the process ends, and one as before takes its place.
    reload(&stage, &file, "workers = 1\nfpm = \"192.0.2.1:2620\"\n", "everything stays as it is")?;
    wait_until("the control side as before", LIMIT, || Ok((state()? == "waiting for FRR").then_some(())))?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    reload(&stage, &file, kernel, said)?;
    assert_eq!(state()?, "in step");
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

#[test]
fn checks_of_sources_and_http_change_while_packets_flow() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("router.toml").display().to_string();
    fs::write(&file, "rpf = \"off\"\nhttp = \"8080\"\n").cannot(|| format!("write {file}"))?;
    let stage = Stage::new(2, &["--settings", &file])?;
    stage.inside.ip("route add 10.9.0.0/16 via 10.2.0.2\n")?;
    stage.hosts[0].ip("link set lo up\naddress add 10.9.0.7/32 dev lo\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    // Lost of ten packets from an address that is behind the other port, IPv4 and IPv6 alike.
    let lost = || -> Result<u64> {
        let count = || -> Result<u64> {
            let rows = stage.router.rows("drops")?;
            let of = rows.iter().filter(|row| row["loss"] == "rpf0.reverse_path");
            Ok(of.filter_map(|row| row["packets"].as_u64()).sum())
        };
        let before = count()?;
        stage.hosts[0].output("ping", &["-c10", "-i0.01", "-W0.1", "-I", "10.9.0.7", "10.2.0.2"])?;
        Ok(count()? - before)
    };
    let modes = || -> Result<Vec<String>> {
        let names = ["rpf0", "rpf6_1", "vrpf1", "vrpf6_0"];
        names.iter().map(|name| stage.router.handler(name, "mode")).collect()
    };
    let serves = |address: &str| -> Result<bool> {
        let program = format!(
            "import urllib.request\nprint(urllib.request.urlopen('http://{address}/metrics', timeout=5).status)"
        );
        Ok(stage.inside.output("python3", &["-c", &program])?.stdout.starts_with(b"200"))
    };
    let at = |address: &str| -> Result<[bool; 2]> { Ok([serves(address)?, serves("127.0.0.1:8080")?]) };
    assert_eq!((lost()?, modes()?, serves("127.0.0.1:8080")?), (0, vec!["off".to_owned(); 4], true));
    let said = "limits of punting are as the settings say now";
    reload(&stage, &file, "rpf = \"strict\"\nhttp = \"8081\"\n", said)?;
    assert_eq!((lost()?, modes()?), (10, vec!["strict".to_owned(); 4]));
    assert_eq!(at("127.0.0.1:8081")?, [true, false]);
    // An address that nobody has: neither changes. The same port at another address.
    reload(&stage, &file, "rpf = \"loose\"\nhttp = \"192.0.2.1:8081\"\n", "everything stays as it is")?;
    assert_eq!((modes()?, at("127.0.0.1:8081")?), (vec!["strict".to_owned(); 4], [true, false]));
    reload(&stage, &file, "rpf = \"loose\"\nhttp = \"0.0.0.0:8081\"\n", said)?;
    assert_eq!((lost()?, modes()?), (0, vec!["loose".to_owned(); 4]));
    assert_eq!(at("10.1.0.1:8081")?, [true, false]);
    // Where routes come from is what cannot be had: the rest stays, too.
    let fpm = "rpf = \"strict\"\nhttp = \"8080\"\nfpm = \"192.0.2.1:2620\"\n";
    reload(&stage, &file, fpm, "everything stays as it is")?;
    assert_eq!((modes()?, at("10.1.0.1:8081")?), (vec!["loose".to_owned(); 4], [true, false]));
    // Nothing said is nothing checked, and nothing served.
    reload(&stage, &file, "", said)?;
    assert_eq!((modes()?, at("127.0.0.1:8081")?), (vec!["off".to_owned(); 4], [false, false]));
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

#[test]
fn systemd_finds_the_unit_valid() -> Result<()> {
    let binary = binary()?;
    let unit = unit()?;
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let started = started.ok_or_else(|| Error::new("the unit starts nothing"))?;
    assert_eq!(started, "/usr/local/bin/routebricks router --settings /etc/routebricks/router.toml");
    if missing_program(&["systemd-analyze"]).is_some() {
        println!("skipped: no systemd-analyze");
        return Ok(());
    }
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let file = directory.path().join("routebricks.service");
    let there = unit.replace("/usr/local/bin/routebricks", &binary.display().to_string());
    fs::write(&file, there).cannot(|| format!("write {}", file.display()))?;
    let output = Command::new("systemd-analyze").arg("verify").arg(&file).output();
    let output = output.cannot(|| "run systemd-analyze".to_owned())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Other units of the machine are none of ours.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("routebricks")).collect();
    assert!(ours.is_empty(), "{said}");
    Ok(())
}
