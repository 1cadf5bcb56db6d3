//! `--rpf strict|loose` loses the packets that Linux with `rp_filter` 1 or 2 does.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use lab::netns::{self, Namespace, missing_program};
use lab::rng::Rng;
use lab::twins::Stage;
use lab::wait::wait_until;
use lab::{Context, Error, Result};

use super::RAW_SOCKET;

/// After [`RAW_SOCKET`]: sends a packet to 10.2.0.2 from each of the addresses in its standard input.
const SEND: &str = "
import sys, time
for line in sys.stdin:
    head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20, 1, 0, 64, 253, 0, socket.inet_aton(line.strip()), bytes([10,2,0,2]))
    head = head[:10] + struct.pack('>H', checksum(head)) + head[12:]
    out.send(bytes.fromhex('0200000000010200000000110800') + head)
    time.sleep(0.0002)
";

/// Prints the sources of these packets, each once, until none has come for three seconds.
const RECEIVE: &str = "
import socket
seen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
seen.bind(('eth0', 0x0800))
seen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
seen.settimeout(3)
print('ready', flush=True)
sources = set()
while True:
    try:
        frame = seen.recv(2048)
    except socket.timeout:
        break
    if frame[23] == 253:
        sources.add(socket.inet_ntoa(frame[26:30]))
print('\\n'.join(sources))
";

/// Sources of every kind; 10.n/16 for each of these routes.
const ROUTES: &str = "route add 10.3.0.0/16 via 10.1.0.2\nroute add 10.4.0.0/16 via 10.2.0.2\n\
    route add 10.5.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.2\nroute add blackhole 10.6.0.0/16\n\
    route add unreachable 10.7.0.0/16\nnexthop add id 1 via 10.1.0.2 dev eth1\nnexthop add id 2 via 10.2.0.2 dev eth2\n\
    nexthop add id 3 group 1/2\nroute add 10.9.0.0/16 nhid 1\nroute add 10.10.0.0/16 nhid 2\n\
    route add 10.11.0.0/16 nhid 3\nroute add prohibit 10.12.0.0/16\nroute add 10.13.0.0/16 via 10.2.0.2 mtu 1300\n\
    route add 10.14.0.0/16 via 10.1.0.2 mtu 1300\nlink add other type veth peer name far\nlink set other up\nlink set far up\n\
    route add 10.15.0.0/16 dev other\nroute add 10.3.128.0/17 via 10.2.0.2\n";
const SOURCES: usize = 2000;

fn sources() -> Vec<Ipv4Addr> {
    let mut random = Rng::new(1);
    let mut all: Vec<Ipv4Addr> =
        ["10.1.0.1", "10.2.0.1", "10.1.0.2", "10.1.0.255", "10.2.0.255", "10.2.0.2", "198.51.100.1"]
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect();
    while all.len() < SOURCES {
        let [net, b, c] = [random.octet() % 17, random.octet(), random.octet()];
        // Of connected networks only what is in them.
        all.push(Ipv4Addr::new(10, net, if net == 1 || net == 2 { 0 } else { b }, c));
    }
    all
}

/// Which of the packets that a host sends arrive at another.
fn arrived(from: &Namespace, to: &Namespace) -> Result<BTreeSet<Ipv4Addr>> {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut receiver = to.command("python3");
    let mut receiver =
        receiver.args(["-c", RECEIVE]).stdout(Stdio::piped()).spawn().cannot(|| "run python3".to_owned())?;
    let output = receiver.stdout.take().ok_or_else(|| Error::new("no output"))?;
    let mut output = BufReader::new(output);
    output.read_line(&mut String::new()).cannot(|| "read from python3".to_owned())?;
    let mut sender = from.command("python3");
    let mut sender = sender
        .args(["-c", &[RAW_SOCKET, SEND].concat()])
        .stdin(Stdio::piped())
        .spawn()
        .cannot(|| "run python3".to_owned())?;
    if let Some(mut input) = sender.stdin.take() {
        let lines: String = sources().iter().map(|source| format!("{source}\n")).collect();
        input.write_all(lines.as_bytes()).cannot(|| "write to python3".to_owned())?;
    }
    sender.wait().cannot(|| "wait for python3".to_owned())?;
    let mut text = String::new();
    output.read_to_string(&mut text).cannot(|| "read from python3".to_owned())?;
    receiver.wait().cannot(|| "wait for python3".to_owned())?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// A Linux router like that of the stage, with its hosts.
fn reference(filter: &str) -> Result<(Namespace, [Namespace; 2])> {
    let router = Namespace::unique("linux")?;
    let hosts = [Namespace::unique("l1")?, Namespace::unique("l2")?];
    for (host, n) in hosts.iter().zip(1..) {
        let name = host.name();
        router.ip(&format!(
            "link add eth{n} address 02:00:00:00:00:0{n} type veth peer name eth0 netns {name} address 02:00:00:00:00:1{n}\n\
             address add 10.{n}.0.1/24 dev eth{n}\nlink set eth{n} up\n"
        ))?;
        host.ip(&format!(
            "address add 10.{n}.0.2/24 dev eth0\nlink set eth0 up\nroute add default via 10.{n}.0.1\n"
        ))?;
    }
    router.set("net/ipv4/ip_forward", "1")?;
    for interface in ["all", "eth1", "eth2"] {
        router.set(&format!("net/ipv4/conf/{interface}/rp_filter"), filter)?;
    }
    Ok((router, hosts))
}

fn like_linux(mode: &str, filter: &str) -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    if missing_program(&["python3"]).is_some() {
        println!("skipped: no python3");
        return Ok(());
    }
    let stage = Stage::new(2, &["--rpf", mode])?;
    let (linux, hosts) = reference(filter)?;
    stage.inside.ip(ROUTES)?;
    linux.ip(ROUTES)?;
    for default in [false, true] {
        if default {
            for router in [&stage.inside, &linux] {
                router.ip("route add default via 10.2.0.2\n")?;
            }
        }
        stage.wait_for_ping(0, "10.2.0.2", true)?;
        wait_until("Linux", Duration::from_secs(5), || {
            Ok(hosts[0].output("ping", &["-c1", "-W0.5", "10.2.0.2"])?.status.success().then_some(()))
        })?;
        let expected = arrived(&hosts[0], &hosts[1])?;
        let ours = arrived(&stage.hosts[0], &stage.hosts[1])?;
        let differ: Vec<_> = expected.symmetric_difference(&ours).collect();
        assert!(differ.is_empty(), "{mode}, default route {default}: {differ:?}");
        // Some pass and some do not.
        let all: BTreeSet<Ipv4Addr> = sources().into_iter().collect();
        println!("{mode}, default route {default}: {} of {} sources pass", ours.len(), all.len());
        assert!(ours.len() > all.len() / 8 && ours.len() < all.len() * 31 / 32);
    }
    let drops = stage.router.rows("drops")?;
    assert!(drops.iter().any(|row| row["reason"] == "reverse_path"), "{drops:?}");
    stage.end()
}

#[test]
fn strict_is_what_rp_filter_1_is() -> Result<()> {
    like_linux("strict", "1")
}

#[test]
fn loose_is_what_rp_filter_2_is() -> Result<()> {
    like_linux("loose", "2")
}

#[test]
fn offloads_are_off_while_it_runs() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let gro = |namespace: &Namespace| -> Result<bool> {
        let shown = namespace.run("ethtool", &["-k", "eth1"])?;
        Ok(shown.contains("generic-receive-offload: on"))
    };
    let mut stage = Stage::new(2, &[])?;
    stage.stop()?;
    for killed in [false, true] {
        stage.inside.run("ethtool", &["-K", "eth1", "gro", "on"])?;
        stage.inside.run("ethtool", &["-K", "eth2", "gro", "off"])?;
        stage.start_again()?;
        stage.wait_for_ping(0, "10.2.0.2", true)?;
        // The port is where the router's main thread is.
        let pid = stage.router.process().id().to_string();
        let port = ["-t", &pid, "-n", "ethtool", "-k", "eth1"];
        let port = stage.inside.run("nsenter", &port)?;
        assert!(port.contains("generic-receive-offload: off"), "{port}");
        if killed {
            stage.router.kill();
        } else {
            stage.stop()?;
        }
        wait_until("eth1 to be back", Duration::from_secs(10), || {
            let shown = stage.inside.output("ip", &["-o", "link", "show", "eth1"])?.stdout;
            Ok(String::from_utf8_lossy(&shown).contains("link-netns").then_some(()))
        })?;
        assert!(gro(&stage.inside)?, "killed: {killed}");
        let second = stage.inside.run("ethtool", &["-k", "eth2"])?;
        assert!(second.contains("generic-receive-offload: off"), "{second}");
    }
    Ok(())
}
