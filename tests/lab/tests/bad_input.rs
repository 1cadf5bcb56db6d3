//! What is wrong from the start is said once and plainly, and nothing is left behind; what is wrong with a packet is
//! counted under its name, and the router goes on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::exchange::{CHUNK, Exchange};
use lab::netns::{self, Namespace};
use lab::packets::{ETHERTYPE_IP, ICMP, Ip, Mac, UDP, ethernet, icmp};
use lab::routebricks::{Launch, Routebricks, binary};
use lab::router::Router;
use lab::table::RouteTable;
use lab::topology::{Hosts, Link, Topology};
use lab::veth::{self, End};
use lab::{Context, Error, Result, pcap_ports, trace};
use tempfile::TempDir;

/// A nobody: uid and gid of Debian's user of that name.
const NOBODY: &str = "65534";

fn directory() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| Error::new(error.to_string()))
}

fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
}

/// A namespace with a cable between its interfaces `eth1` and `eth2`.
fn cable() -> Result<Namespace> {
    let namespace = Namespace::unique("bad")?;
    veth::connect(&[(end(&namespace, "eth1", 1), end(&namespace, "eth2", 2))])?;
    Ok(namespace)
}

/// What a configuration that cannot run says, having run `command` with it to its end.
///
/// It must have ended with exit code 1 after exactly one error, and have left nothing behind.
fn refused(mut command: Command, text: &str, directory: &Path) -> Result<String> {
    let output = directory.join("said");
    let file = fs::File::create(&output).cannot(|| format!("create {}", output.display()))?;
    let same = file.try_clone().cannot(|| format!("write {}", output.display()))?;
    command.args(["run", "-e", text]).current_dir(directory).stdout(file).stderr(same);
    let mut child = command.spawn().cannot(|| "start routebricks".to_owned())?;
    let id = child.id();
    let status = child.wait().cannot(|| "wait for routebricks".to_owned())?;
    let said = fs::read_to_string(&output).cannot(|| format!("read {}", output.display()))?;
    let errors = said.lines().filter(|line| line.contains("error: ")).count();
    assert_eq!((status.code(), errors), (Some(1), 1), "{text}\n{said}");
    for left in [format!("/run/routebricks/{id}.sock"), format!("/var/run/dpdk/routebricks-{id}")] {
        assert!(!Path::new(&left).exists(), "{left} is left behind by {text}");
    }
    Ok(said)
}

/// The same for the binary as it is.
fn refused_here(text: &str, directory: &Path) -> Result<String> {
    refused(netns::command(binary()?), text, directory)
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing in:\n{said}");
    }
}

#[test]
fn an_unknown_class_is_named_with_its_place() -> Result<()> {
    let directory = directory()?;
    let said = refused_here("Idle -> CheckIPHeadr(14) -> Discard;", directory.path())?;
    assert_says(&said, &["CheckIPHeadr", "did you mean", "CheckIPHeader", "^"]);
    Ok(())
}

#[test]
fn captures_that_cannot_be_read_are_named() -> Result<()> {
    let directory = directory()?;
    let path = directory.path();
    let frames = [vec![1; 60], vec![2; 60]];
    trace::write(&path.join("good.pcap"), frames.iter().map(Vec::as_slice))?;
    let good = fs::read(path.join("good.pcap")).cannot(|| "read good.pcap".to_owned())?;
    fs::create_dir(path.join("folder.pcap")).cannot(|| "make folder.pcap".to_owned())?;
    fs::write(path.join("text.pcap"), "no capture at all, but text\n".repeat(3))
        .cannot(|| "write".to_owned())?;
    fs::write(path.join("empty.pcap"), "").cannot(|| "write".to_owned())?;
    fs::write(path.join("cut.pcap"), &good[..good.len() - 7]).cannot(|| "write".to_owned())?;
    for name in ["missing", "folder", "text", "empty", "cut"] {
        let said = refused_here(&format!("FromDump({name}.pcap) -> Discard;"), path)?;
        assert_says(&said, &[&format!("{name}.pcap")]);
    }
    Ok(())
}

#[test]
fn a_full_disk_is_said() -> Result<()> {
    let directory = directory()?;
    let path = directory.path();
    let frames: Vec<Vec<u8>> = (0..2000).map(|_| vec![7; 1000]).collect();
    trace::write(&path.join("in.pcap"), frames.iter().map(Vec::as_slice))?;
    let said = refused_here("FromDump(in.pcap) -> ToDump(/dev/full);", path)?;
    assert_says(&said, &["/dev/full", "No space left on device"]);
    Ok(())
}

#[test]
fn devices_that_cannot_be_had_are_named() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = directory()?;
    let namespace = cable()?;
    let inside = || Ok::<_, Error>(namespace.command(&binary()?.display().to_string()));
    let said = refused(inside()?, "FromDPDKDevice(eth9) -> Discard;", directory.path())?;
    assert_says(&said, &["there is no device 'eth9'", "Linux interfaces here: ", "eth1"]);

    // An interface can be one router's alone if it is opened by XDP.
    let keeper = Launch {
        arguments: ["run", "-e", "FromDPDKDevice(af_xdp:eth1) -> Discard;"].map(str::to_owned).to_vec(),
        ..Launch::conf("forward.click", &[])?
    };
    let own = self::directory()?;
    let mut keeper = Routebricks::start(&namespace, keeper, own.path())?;
    let said = refused(inside()?, "FromDPDKDevice(af_xdp:eth1) -> Discard;", directory.path())?;
    assert_says(&said, &["eth1", "another program may have an XDP socket on this interface"]);
    assert!(keeper.stop()?.iter().all(|check| check.holds || check.name.contains("books")));
    Ok(())
}

#[test]
fn missing_privileges_are_said() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = directory()?;
    let namespace = cable()?;
    let program = for_everybody(&binary()?, directory.path())?;
    let mut command = namespace.command("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program);
    let said = refused(command, "FromDPDKDevice(eth1) -> Discard;", directory.path())?;
    assert_says(&said, &["eth1", "root"]);
    Ok(())
}

/// A copy that everybody may run, wherever the original is.
fn for_everybody(program: &Path, directory: &Path) -> Result<PathBuf> {
    let copy = directory.join("routebricks");
    fs::copy(program, &copy).cannot(|| format!("copy {}", program.display()))?;
    for path in [directory, &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .cannot(|| format!("open {} for everybody", path.display()))?;
    }
    Ok(copy)
}

/// Makes something else of a good packet from the first port to the second.
type Change = fn(&mut Ip);

/// What a router meets at its first port, and the name under which it is lost.
const BAD: [(&str, Change); 12] = [
    ("if0/check.bad_version", |ip| ip.version = 6),
    ("if0/check.bad_header_length", |ip| ip.header_words = Some(4)),
    ("if0/check.bad_length", |ip| ip.total_length = Some(1000)),
    ("if0/check.bad_length", |ip| ip.total_length = Some(12)),
    ("if0/check.bad_checksum", |ip| ip.checksum = Some(0xdead)),
    ("if0/check.bad_source", |ip| ip.source = [127, 0, 0, 1].into()),
    ("if0/check.bad_source", |ip| ip.source = [224, 0, 0, 9].into()),
    ("if0/check.bad_destination", |ip| ip.destination = [127, 0, 0, 1].into()),
    ("if0/check.bad_destination", |ip| ip.destination = [10, 0, 2, 255].into()),
    ("if1/options.source_route", |ip| ip.options = vec![131, 7, 4, 10, 0, 3, 2]),
    // An option whose length is 0, and one that reaches behind the header; the answer to the sender is lost, too, since
    // it is an error about an error.
    ("if1/problem.icmp", |ip| error_with_options(ip, &[7, 0, 4, 0])),
    ("if1/problem.icmp", |ip| error_with_options(ip, &[7, 99, 4, 0])),
];

/// An ICMP error, about which no router may send another (RFC 1812 §4.3.2.7).
fn error_with_options(ip: &mut Ip, options: &[u8]) {
    ip.options = options.to_vec();
    ip.protocol = ICMP;
    ip.payload = icmp(3, 1, [0; 4], &[0x45; 28]);
}

#[test]
fn bad_packets_are_lost_by_name() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = directory()?;
    let routes = directory.path().join("routes.txt");
    let table = RouteTable::new(Link::all().iter().flat_map(|link| link.routes()).collect());
    fs::write(&routes, table.text()).cannot(|| "write routes".to_owned())?;
    let topology = Topology::build(&netns::unique_prefix(), Hosts::Silent)?;
    let launch = Launch::router("ip-router.click", &topology, &routes)?;
    let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
    let mut exchange = Exchange::open(&topology, Hosts::Silent)?;
    exchange.open_ways(Duration::from_secs(10))?;

    let (from, to) = (Link { port: 0 }, Link { port: 1 });
    let frame = |mac: Mac, change: Change| {
        let mut ip = Ip::new(from.host(), to.host(), 1, UDP, vec![0; 40]);
        change(&mut ip);
        ethernet(mac, from.host_mac(), ETHERTYPE_IP, &ip.build())
    };
    let same: Change = |_| {};
    let mut cases: Vec<(&str, Vec<u8>)> =
        BAD.iter().map(|(name, change)| (*name, frame(from.router_mac(), *change))).collect();
    cases.push(("if0/check.short", frame(from.router_mac(), same)[..30].to_vec()));
    cases.push(("if0/station.other_host", frame(Mac([2, 0, 0, 0, 9, 9]), same)));
    cases.push(("if1/unicast.broadcast", frame(Mac::BROADCAST, same)));
    for (name, frame) in cases {
        let before = router.losses()?;
        let out = exchange.pass((0..CHUNK).map(|_| (0, frame.as_slice())))?;
        assert!(out.is_empty(), "{name}: {} frames came out", out.len());
        let mut expected = before.clone();
        *expected.entry(name.to_owned()).or_default() += CHUNK as u64;
        assert_eq!(router.losses()?, expected);
    }
    let wrong: Vec<_> = router.stop()?.into_iter().filter(|check| !check.holds).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// Frames that fit into no buffer are lost one by one, and those between them pass.
#[test]
fn oversized_frames_are_lost_by_name() -> Result<()> {
    let sizes = [60, 3000, 9000, 61, 65_000, 62];
    let frames: Vec<Vec<u8>> = sizes.iter().map(|size| vec![5; *size]).collect();
    let outcome = pcap_ports::run("forward.click", &[("A", &frames), ("B", &[])], &[])?;
    let passed: Vec<Vec<u8>> = [60, 61, 62].iter().map(|size| vec![5; *size]).collect();
    assert_eq!(outcome.sent, [Vec::new(), passed]);
    assert_eq!(outcome.lost, BTreeMap::from([("FromDPDKDevice@1.oversized".to_owned(), 3)]));
    Ok(())
}
