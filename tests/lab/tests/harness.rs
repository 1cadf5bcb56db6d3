//! The lab's own promises: what it makes it removes, and its checks fail when a router is at fault.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::Result;
use lab::checks::Checks;
use lab::exchange::Exchange;
use lab::linux::LinuxRouter;
use lab::netns::{self, Namespace};
use lab::process::Process;
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::steps::Stage;
use lab::table::{RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};

fn table() -> RouteTable {
    let hops = [Link { port: 1 }, Link { port: 2 }].map(|link| (link.host(), link.port));
    let mut routes = synthetic(500, 1, &hops);
    routes.extend(Link::all().iter().flat_map(|link| link.routes()));
    RouteTable::new(routes)
}

/// A shell script in place of the router.
fn script(text: &str, show: Option<&str>) -> Launch {
    let arguments = |text: &str| vec!["-c".to_owned(), text.to_owned()];
    Launch {
        program: PathBuf::from("sh"),
        starter: Vec::new(),
        arguments: arguments(text),
        ready: "ready".to_owned(),
        limit: Duration::from_secs(5),
        show: show.map(arguments).into_iter().collect(),
    }
}

#[test]
fn a_namespace_is_gone_when_dropped() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let namespace = Namespace::unique("gone")?;
    let name = namespace.name().to_owned();
    assert!(netns::exists(&name));
    assert!(Namespace::named(&name).is_err(), "a second one of the same name");
    assert!(netns::exists(&name), "the failed attempt must not remove the first");
    assert_eq!(namespace.run("cat", &["/proc/sys/net/ipv6/conf/lo/disable_ipv6"])?, "1\n");
    drop(namespace);
    assert!(!netns::exists(&name));
    Ok(())
}

#[test]
fn a_failing_command_says_why() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let namespace = Namespace::unique("fail")?;
    let error = namespace.ip("link set nosuch up\n").unwrap_err().to_string();
    assert!(error.contains("nosuch"), "{error}");
    let error = namespace.run("sh", &["-c", "echo because >&2; exit 3"]).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("because"), "{error}");
    Ok(())
}

#[test]
fn a_process_is_waited_for_ended_and_killed() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let namespace = Namespace::unique("process")?;
    let directory = tempfile::tempdir().unwrap();
    let start = |name: &str, text: &str| {
        Process::start(&namespace, name, "sh", &["-c".to_owned(), text.to_owned()], directory.path())
    };
    let mut early = start("early", "echo oh dear; exit 7")?;
    let error = early.wait_for_line("ready", Duration::from_secs(5)).unwrap_err().to_string();
    assert!(error.contains("exit status: 7") && error.contains("| oh dear"), "{error}");

    let mut stubborn = start("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.01; done")?;
    stubborn.wait_for_line("ready", Duration::from_secs(5))?;
    assert!(stubborn.terminate(Duration::from_millis(100)).is_err());
    assert!(stubborn.ended()?.is_some(), "it is killed then");

    let mut busy = start("busy", "echo ready; while :; do :; done")?;
    busy.wait_for_line("ready", Duration::from_secs(5))?;
    let id = busy.id().to_string();
    let used = busy.cpu_time()?;
    busy.wait_until("processor time", Duration::from_secs(20), |busy| {
        Ok((busy.cpu_time()? > used + Duration::from_millis(20)).then_some(()))
    })?;
    drop(busy);
    assert!(!Path::new("/proc").join(id).exists());
    Ok(())
}

#[test]
fn the_end_of_a_router_is_judged() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let namespace = Namespace::unique("router")?;
    let cases: [(&str, i32, &[bool]); 7] = [
        ("0 buffers missing", 0, &[true, true]),
        ("10 buffers missing", 0, &[true, false]),
        ("pool p: 0 buffers missing", 0, &[true, true]),
        ("x: stopped: 30 packets in, 20 out, 10 lost, 0 held, 0 buffers missing", 0, &[true, true, true]),
        ("x: stopped: 30 packets in, 20 out, 9 lost, 1 held, 0 buffers missing", 0, &[true, true, true]),
        ("x: stopped: 30 packets in, 20 out, 9 lost, 0 held, 0 buffers missing", 0, &[true, true, false]),
        ("bye", 1, &[false, false]),
    ];
    for (last, code, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("trap 'echo {last}; exit {code}' TERM; echo ready; while :; do sleep 0.01; done");
        let mut router =
            Routebricks::start(&namespace, script(&text, Some("echo counters")), directory.path())?;
        assert_eq!(router.live_table()?.as_deref(), Some("counters\n"));
        let held: Vec<bool> = router.stop()?.iter().map(|check| check.holds).collect();
        assert_eq!(held, expected, "{last}");
    }
    Ok(())
}

#[test]
fn linux_passes_the_demo() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    if let Some(program) = netns::missing_program(&["ping", "traceroute", "iperf3"]) {
        println!("skipped: {program} is not installed");
        return Ok(());
    }
    let table = table();
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Live)?;
    let _router = LinuxRouter::start(&topology, &table, Hosts::Live)?;
    Exchange::open(&topology, Hosts::Live)?.open_ways(Duration::from_secs(10))?;
    let directory = tempfile::tempdir().unwrap();
    let mut checks = Checks::default();
    Stage { topology: &topology, table: &table, directory: directory.path() }.run(&mut checks)?;
    assert!(checks.all_hold(), "{}", checks.summary());
    Ok(())
}

/// A router that forgets the small MTU of its third port: the checks of just that fail.
#[test]
fn a_wrong_mtu_fails_its_checks() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let table = table();
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Live)?;
    let _router = LinuxRouter::start(&topology, &table, Hosts::Live)?;
    topology.router().ip("link set eth3 mtu 1500\n")?;
    Exchange::open(&topology, Hosts::Live)?.open_ways(Duration::from_secs(10))?;
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage { topology: &topology, table: &table, directory: directory.path() };
    let mut checks = Checks::default();
    stage.refusals(&mut checks)?;
    stage.replay(&mut checks)?;
    let failed: Vec<&str> = checks.failed().iter().map(|check| check.name.as_str()).collect();
    let [df, may_be_cut, to_cut] = failed[..] else { panic!("{failed:?}") };
    assert_eq!(df, "1,401 octets with DF to the link with MTU 1,400");
    assert!(may_be_cut.ends_with("too big, DF"), "{may_be_cut}");
    assert!(to_cut.ends_with("too big, no DF"), "{to_cut}");
    Ok(())
}

#[test]
fn a_router_that_does_not_forward_is_noticed() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Live)?;
    let mut exchange = Exchange::open(&topology, Hosts::Live)?;
    let error = exchange.open_ways(Duration::from_millis(10)).unwrap_err().to_string();
    assert!(error.starts_with("the router does not forward"), "{error}");
    Ok(())
}

#[test]
fn programs_that_are_missing_are_named() {
    assert_eq!(netns::missing_program(&["sh", "no-such-program-anywhere"]), Some("no-such-program-anywhere"));
    assert_eq!(netns::missing_program(&["sh"]), None);
}
