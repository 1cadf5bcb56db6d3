//! `routebricks router`: Linux configures it, BIRD and FRR route it, and packets do not pass Linux.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lab::netns::{self, Namespace, missing_program};
use lab::packets::Mac;
use lab::process::Process;
use lab::routebricks::{Launch, Routebricks, binary};
use lab::router::Router;
use lab::veth::{self, End};
use lab::wait::wait_until;
use lab::{Context, Error, Result};

const LIMIT: Duration = Duration::from_secs(20);

/// Two hosts behind `eth1` and `eth2` of a router. Host n is 10.n.0.2 and 2001:db8:n::2, the router's end .1.
struct Stage {
    router: Routebricks,
    directory: tempfile::TempDir,
    hosts: [Namespace; 2],
    inside: Namespace,
}

fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
}

impl Stage {
    fn new(arguments: &[&str]) -> Result<Stage> {
        let inside = Namespace::unique("router")?;
        let hosts = [Namespace::unique("h1")?, Namespace::unique("h2")?];
        veth::connect(&[
            (end(&hosts[0], "eth0", 0x11), end(&inside, "eth1", 1)),
            (end(&hosts[1], "eth0", 0x12), end(&inside, "eth2", 2)),
        ])?;
        for (host, n) in hosts.iter().zip(1..) {
            veth::finish_frames(host, "eth0")?;
            host.set("net/ipv6/conf/all/disable_ipv6", "0")?;
            host.ip(&format!(
                "address add 10.{n}.0.2/24 dev eth0\nroute add default via 10.{n}.0.1\n\
                 address add 2001:db8:{n}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{n}::1\n"
            ))?;
        }
        inside.set("net/ipv6/conf/all/disable_ipv6", "0")?;
        inside.set("net/ipv6/conf/default/disable_ipv6", "0")?;
        inside.set("net/ipv4/icmp_ratelimit", "0")?;
        let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
        let words = [&["router", "eth1", "eth2"], arguments].concat();
        let launch = Launch {
            program: binary()?,
            arguments: words.into_iter().map(str::to_owned).collect(),
            ready: "routebricks: ready:".to_owned(),
            limit: LIMIT,
            show: Vec::new(),
        };
        let router = Routebricks::start(&inside, launch, directory.path())?;
        inside.ip("address add 10.1.0.1/24 dev eth1\naddress add 10.2.0.1/24 dev eth2\n\
             address add 2001:db8:1::1/64 dev eth1 nodad\naddress add 2001:db8:2::1/64 dev eth2 nodad\n")?;
        Ok(Stage { router, directory, hosts, inside })
    }

    /// Whether one ping from a host is answered within half a second.
    fn pings(&self, host: usize, to: &str) -> Result<bool> {
        Ok(self.hosts[host].output("ping", &["-c1", "-W0.5", to])?.status.success())
    }

    fn wait_for_ping(&self, host: usize, to: &str, answered: bool) -> Result<()> {
        let what = format!("ping from h{} to {to}: {answered}", host + 1);
        wait_until(&what, LIMIT, || Ok((self.pings(host, to)? == answered).then_some(())))
    }

    /// Packets that an element has seen.
    fn packets(&self, element: &str) -> Result<u64> {
        let rows = self.router.rows("elements")?;
        let row = rows.iter().find(|row| row["element"] == element);
        row.and_then(|row| row["packets"].as_u64()).ok_or_else(|| Error::new(format!("no element {element}")))
    }

    /// Ends the router, which must have lost no buffer and given its interfaces back.
    fn end(mut self) -> Result<()> {
        let checks = self.router.stop()?;
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        for (name, mac) in [("eth1", "02:00:00:00:00:01"), ("eth2", "02:00:00:00:00:02")] {
            let shown = self.inside.run("ip", &["-o", "link", "show", name])?;
            assert!(shown.contains(mac) && shown.contains("link-netns") && shown.contains("UP"), "{shown}");
        }
        Ok(())
    }
}

#[test]
fn linux_configures_it_and_packets_do_not_pass_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(&[])?;
    stage.wait_for_ping(0, "10.1.0.1", true)?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let before = (stage.packets("next0")?, stage.packets("punt0")?);
    let printed = stage.hosts[0].run("ping", &["-c300", "-i0.002", "-q", "10.2.0.2"])?;
    assert!(printed.contains("300 received"), "{printed}");
    let after = (stage.packets("next0")?, stage.packets("punt0")?);
    assert!(after.0 - before.0 >= 300, "{before:?} {after:?}");
    assert!(after.1 - before.1 < 20, "{before:?} {after:?}");
    // One hop, ours, whose address is that of the port that the packet came in by.
    let printed = stage.hosts[0].run("traceroute", &["-n", "-q1", "-w2", "-m5", "10.2.0.2"])?;
    let hops: Vec<&str> = printed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.1.0.1", "10.2.0.2"]);
    // IPv6 by way of Linux.
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    // Routes come and go.
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    assert!(!stage.pings(0, "10.9.0.1")?);
    for _ in 0..3 {
        stage.inside.ip("route add 10.9.0.0/16 via 10.2.0.2\n")?;
        stage.wait_for_ping(0, "10.9.0.1", true)?;
        stage.inside.ip("route del 10.9.0.0/16\n")?;
        stage.wait_for_ping(0, "10.9.0.1", false)?;
    }
    stage.inside.ip("nexthop add id 7 via 10.2.0.2 dev eth2\nroute add 10.9.0.0/16 nhid 7\n")?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    stage.inside.ip("route replace blackhole 10.9.0.0/16\n")?;
    stage.wait_for_ping(0, "10.9.0.1", false)?;
    assert!(stage.packets("blackhole")? > 0);
    // Where no route leads Linux says so.
    wait_until("an answer for a destination without route", LIMIT, || {
        let printed = stage.hosts[0].output("ping", &["-c1", "-W1", "192.0.2.1"])?.stdout;
        let printed = String::from_utf8_lossy(&printed);
        Ok((printed.contains("From 10.1.0.1") && printed.contains("Unreachable")).then_some(()))
    })?;
    stage.end()
}

#[test]
fn tcp_passes_at_speed() -> Result<()> {
    if netns::skipped() || missing_program(&["iperf3"]).is_some() {
        println!("skipped: no iperf3");
        return Ok(());
    }
    let stage = Stage::new(&[])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let words = ["-s", "-1"].map(str::to_owned);
    let _server = Process::start(&stage.hosts[1], "iperf3", "iperf3", &words, stage.directory.path())?;
    let speed = wait_until("iperf3", LIMIT, || {
        let output = stage.hosts[0].output("iperf3", &["-c", "10.2.0.2", "-t2", "-J"])?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        // There is none as long as the server is not there.
        Ok(report["end"]["sum_received"]["bits_per_second"].as_f64())
    })?;
    println!("{:.0} Mbit/s", speed / 1e6);
    assert!(speed > 50e6, "{speed}");
    stage.end()
}

/// BIRD in a namespace: `AS 6500n`, a neighbour, and what it announces.
fn bird(namespace: &Namespace, directory: &Path, role: &str, config: &str) -> Result<Process> {
    let file = directory.join(format!("{role}.conf"));
    let more = "protocol device {}\nprotocol kernel { ipv4 { import none; export all; }; }\n";
    std::fs::write(&file, format!("{more}{config}")).cannot(|| format!("write {}", file.display()))?;
    let socket = directory.join(format!("{role}.ctl"));
    let words =
        ["-f", "-c", &file.display().to_string(), "-s", &socket.display().to_string()].map(str::to_owned);
    Process::start(namespace, role, "bird", &words, directory)
}

#[test]
fn bird_learns_routes_over_the_data_plane() -> Result<()> {
    if netns::skipped() || missing_program(&["bird"]).is_some() {
        println!("skipped: no bird");
        return Ok(());
    }
    let stage = Stage::new(&[])?;
    let directory = stage.directory.path();
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    let _ours = bird(
        &stage.inside,
        directory,
        "ours",
        "router id 10.2.0.1;\nprotocol bgp peer { local 10.2.0.1 as 65000; neighbor 10.2.0.2 as 65002; connect retry time 1; connect delay time 1; error wait time 1,1;\n\
         ipv4 { import all; export none; }; }\n",
    )?;
    let mut theirs = bird(
        &stage.hosts[1],
        directory,
        "theirs",
        "router id 10.2.0.2;\nprotocol static { ipv4; route 10.9.0.0/16 blackhole; }\n\
         protocol bgp peer { local 10.2.0.2 as 65002; neighbor 10.2.0.1 as 65000; connect retry time 1; connect delay time 1; error wait time 1,1;\n\
         ipv4 { import none; export where source = RTS_STATIC; }; }\n",
    )?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    let routes = stage.inside.run("ip", &["route", "show", "proto", "bird"])?;
    assert!(routes.starts_with("10.9.0.0/16 via 10.2.0.2 dev eth2"), "{routes}");
    // With the session its routes go.
    theirs.kill();
    stage.wait_for_ping(0, "10.9.0.1", false)?;
    stage.end()
}

/// A daemon of FRR in a namespace of the same name to it.
fn frr(namespace: &Namespace, directory: &Path, daemon: &str, more: &[&str]) -> Result<Process> {
    let mut words =
        vec!["-N".to_owned(), namespace.name().to_owned(), "-A".to_owned(), "127.0.0.1".to_owned()];
    words.extend(more.iter().map(|&word| word.to_owned()));
    Process::start(namespace, daemon, &format!("/usr/lib/frr/{daemon}"), &words, directory)
}

fn vtysh(namespace: &Namespace, lines: &[&str]) -> Result<()> {
    let mut vtysh = Command::new("vtysh");
    vtysh.args(["-N", namespace.name()]);
    lines.iter().for_each(|line| {
        vtysh.args(["-c", line]);
    });
    netns::succeed(&mut vtysh).map(drop)
}

/// Folders that FRR's daemons need for a namespace, and are no longer there afterwards.
struct FrrFolders(String);

impl FrrFolders {
    fn new(namespace: &Namespace) -> Result<FrrFolders> {
        let name = namespace.name().to_owned();
        netns::succeed(Command::new("install").args([
            "-d",
            "-o",
            "frr",
            "-g",
            "frr",
            &format!("/var/run/frr/{name}"),
        ]))?;
        netns::succeed(Command::new("install").args([
            "-d",
            "-o",
            "frr",
            "-g",
            "frrvty",
            "-m",
            "775",
            &format!("/etc/frr/{name}"),
        ]))?;
        Ok(FrrFolders(name))
    }
}

impl Drop for FrrFolders {
    fn drop(&mut self) {
        for folder in ["/var/run/frr", "/etc/frr"] {
            let _ = std::fs::remove_dir_all(format!("{folder}/{}", self.0));
        }
    }
}

#[test]
fn frr_sends_its_routes_by_fpm() -> Result<()> {
    if netns::skipped()
        || missing_program(&["bird", "vtysh"]).is_some()
        || !Path::new("/usr/lib/frr/zebra").exists()
    {
        println!("skipped: no FRR or no BIRD");
        return Ok(());
    }
    let stage = Stage::new(&["--fpm"])?;
    let directory = stage.directory.path();
    stage.inside.ip("link set lo up\n")?;
    let _folders = FrrFolders::new(&stage.inside)?;
    let _zebra = frr(&stage.inside, directory, "zebra", &["-M", "dplane_fpm_nl"])?;
    let _bgpd = frr(&stage.inside, directory, "bgpd", &[])?;
    let lines = [
        "conf t",
        "fpm address 127.0.0.1 port 2620",
        "router bgp 65000",
        "bgp router-id 10.2.0.1",
        "no bgp ebgp-requires-policy",
        "timers bgp 1 3",
        "neighbor 10.2.0.2 remote-as 65002",
        "neighbor 10.2.0.2 timers connect 1",
    ];
    // The daemons take a moment to listen.
    wait_until("FRR", LIMIT, || Ok(vtysh(&stage.inside, &lines).is_ok().then_some(())))?;
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    let mut theirs = bird(
        &stage.hosts[1],
        directory,
        "theirs",
        "router id 10.2.0.2;\nprotocol static { ipv4; route 10.9.0.0/16 blackhole; }\n\
         protocol bgp peer { local 10.2.0.2 as 65002; neighbor 10.2.0.1 as 65000; connect retry time 1; connect delay time 1; error wait time 1,1;\n\
         ipv4 { import none; export where source = RTS_STATIC; }; }\n",
    )?;
    let shown = || Ok(stage.router.rows("routes")?.iter().any(|row| row["prefix"] == "10.9.0.0/16"));
    wait_until("the route of BGP", LIMIT, || Ok(shown()?.then_some(())))?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    // The first lot of a connection is complete, and was swept: what is told now is news.
    std::thread::sleep(control::fpm::Session::QUIET + Duration::from_secs(1));
    assert!(shown()?);
    theirs.kill();
    wait_until("the route of BGP to go", LIMIT, || Ok((!shown()?).then_some(())))?;
    stage.end()
}
