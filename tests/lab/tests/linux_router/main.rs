//! `routebricks router`: Linux configures it, BIRD and FRR route it, and packets do not pass Linux.

mod attributes;
mod backup;
mod broadcast;
mod control_side;
mod counts;
mod kept;
mod long_frames;
mod lookup;
mod multipath;
mod narrow;
mod neighbours;
mod redirects;
mod reference;
mod refused;
mod reverse_path;
mod selectors;
mod service;
mod tags_like_linux;
mod transit;
mod vlans;
mod vrfs;

use std::time::Duration;

use lab::Result;
use lab::daemons::{Bird, Frr};
use lab::netns::{self, missing_program};
use lab::process::Process;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// For Python: a socket for frames out of `eth0`, and the Internet checksum of an even number of bytes.
const RAW_SOCKET: &str = "
import socket, struct
def checksum(b):
    s = sum(struct.unpack('>%dH' % (len(b) // 2), b))
    s = (s & 0xffff) + (s >> 16)
    return 0xffff ^ ((s & 0xffff) + (s >> 16))
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
";

/// Pings from the first host to another are forwarded by the data plane, which is the element `forwards`.
fn pings_do_not_pass_linux(stage: &Stage, to: &str, forwards: &str) -> Result<()> {
    let counts = || Ok((stage.packets(forwards)?, stage.packets("punt0")?));
    let before = counts()?;
    let printed = stage.hosts[0].run("ping", &["-c300", "-i0.002", "-q", to])?;
    assert!(printed.contains("300 received"), "{printed}");
    let after = counts()?;
    assert!(after.0 - before.0 >= 300, "{before:?} {after:?}");
    assert!(after.1 - before.1 < 20, "{before:?} {after:?}");
    Ok(())
}

/// The first host, which asks for `to`, is told so with all of these words.
fn wait_for_refusal(stage: &Stage, to: &str, words: &[&str]) -> Result<()> {
    wait_until(&format!("an answer for {to}"), LIMIT, || {
        let printed = stage.hosts[0].output("ping", &["-c1", "-W1", to])?.stdout;
        let printed = String::from_utf8_lossy(&printed);
        Ok(words.iter().all(|word| printed.contains(word)).then_some(()))
    })
}

#[test]
fn linux_configures_it_and_packets_do_not_pass_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "10.1.0.1", true)?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    pings_do_not_pass_linux(&stage, "10.2.0.2", "next0")?;
    // One hop, ours, whose address is that of the port that the packet came in by.
    let printed = stage.hosts[0].run("traceroute", &["-n", "-q1", "-w2", "-m5", "10.2.0.2"])?;
    let hops: Vec<&str> = printed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.1.0.1", "10.2.0.2"]);
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
    let drops = stage.router.rows("drops")?;
    assert!(drops.iter().any(|row| row["reason"] == "blackhole"), "{drops:?}");
    // Where no route leads Linux says so.
    wait_for_refusal(&stage, "192.0.2.1", &["From 10.1.0.1", "Unreachable"])?;
    stage.end()
}

#[test]
fn ipv6_does_not_pass_linux_either() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "2001:db8:1::1", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    pings_do_not_pass_linux(&stage, "2001:db8:2::2", "next6_0")?;
    // Exactly one hop, which answers with an address of the port that the packet came in by.
    let printed = stage.hosts[0].output("ping", &["-c1", "-t1", "-W2", "2001:db8:2::2"])?.stdout;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("From 2001:db8:1::1") && printed.contains("Time exceeded"), "{printed}");
    assert!(stage.hosts[0].output("ping", &["-c1", "-t2", "-W2", "2001:db8:2::2"])?.status.success());
    // Routes come and go; gateways may be on the link.
    stage.hosts[1].ip("link set lo up\naddress add 2001:db8:9::1/128 dev lo nodad\n\
         address add fe80::77/64 dev eth0 nodad\n")?;
    stage.inside.ip("route add 2001:db8:9::/48 via fe80::77 dev eth2\n")?;
    stage.wait_for_ping(0, "2001:db8:9::1", true)?;
    stage.inside.ip("route replace unreachable 2001:db8:9::/48\n")?;
    wait_for_refusal(&stage, "2001:db8:9::1", &["From 2001:db8:1::1", "unreachable"])?;
    // IPv4 behind an IPv6 neighbour (RFC 8950).
    stage.hosts[1].ip("address add 10.8.0.1/32 dev lo\n")?;
    stage.inside.ip("route add 10.8.0.0/16 via inet6 fe80::77 dev eth2\n")?;
    stage.wait_for_ping(0, "10.8.0.1", true)?;
    stage.end()
}

#[test]
fn packets_longer_than_the_next_link_takes_are_cut_or_refused() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.hosts[1].ip("link set eth0 mtu 1400\n")?;
    stage.inside.ip("link set eth2 mtu 1400\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    let ping = |words: &[&str]| -> Result<(bool, String)> {
        let output = stage.hosts[0].output("ping", words)?;
        let both = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&both).into_owned()))
    };
    let (_, printed) = ping(&["-c1", "-W2", "-M", "do", "-s1450", "10.2.0.2"])?;
    assert!(printed.contains("From 10.1.0.1") && printed.contains("mtu = 1400"), "{printed}");
    // What is cut arrives.
    stage.hosts[0].ip("route flush cache\n")?;
    let (answered, printed) = ping(&["-c1", "-W2", "-M", "dont", "-s1450", "10.2.0.2"])?;
    assert!(answered, "{printed}");
    let (_, printed) = ping(&["-c1", "-W2", "-M", "do", "-s1420", "2001:db8:2::2"])?;
    assert!(printed.contains("From 2001:db8:1::1") && printed.contains("mtu=1400"), "{printed}");
    // What just fits is forwarded by the data plane.
    let before = stage.packets("punt0")?;
    let (answered, printed) = ping(&["-c20", "-i0.01", "-W2", "-M", "do", "-s1372", "10.2.0.2"])?;
    assert!(answered && stage.packets("punt0")? - before < 10, "{printed}");
    stage.end()
}

#[test]
fn routes_may_be_narrower_than_their_link() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.inside.ip("route add 10.9.0.0/16 via 10.2.0.2 mtu 1300\n")?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    let long = |size: &str| -> Result<String> {
        let output = stage.hosts[0].output("ping", &["-c1", "-W2", "-M", "do", "-s", size, "10.9.0.1"])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let printed = long("1400")?;
    assert!(printed.contains("From 10.1.0.1") && printed.contains("mtu = 1300"), "{printed}");
    stage.hosts[0].ip("route flush cache\n")?;
    assert!(long("1272")?.contains("1 received"));
    pings_do_not_pass_linux(&stage, "10.9.0.1", "next0")?;
    // Of full width again, the data plane has it, and lets long packets pass.
    stage.inside.ip("route replace 10.9.0.0/16 via 10.2.0.2\n")?;
    stage.hosts[0].ip("route flush cache\n")?;
    wait_until("long packets to pass", LIMIT, || Ok(long("1400")?.contains("1 received").then_some(())))?;
    pings_do_not_pass_linux(&stage, "10.9.0.1", "next0")?;
    stage.end()
}

#[test]
fn tcp_passes_at_speed() -> Result<()> {
    if netns::skipped() || missing_program(&["iperf3"]).is_some() {
        println!("skipped: no iperf3");
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
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

/// BIRD of AS 65002 behind `eth2`, which announces 10.9.0.0/16.
fn announcer() -> String {
    let channel = "ipv4 { import none; export where source = RTS_STATIC; };";
    let session = Bird::session("peer", ("10.2.0.2", 65002), ("10.2.0.1", 65000), channel);
    format!("router id 10.2.0.2;\nprotocol static {{ ipv4; route 10.9.0.0/16 blackhole; }}\n{session}")
}

#[test]
fn bird_learns_routes_over_the_data_plane() -> Result<()> {
    if netns::skipped() || Bird::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let directory = stage.directory.path();
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    let session =
        Bird::session("peer", ("10.2.0.1", 65000), ("10.2.0.2", 65002), "ipv4 { import all; export none; };");
    let _ours = Bird::start(&stage.inside, directory, "ours", &format!("router id 10.2.0.1;\n{session}"))?;
    let mut theirs = Bird::start(&stage.hosts[1], directory, "theirs", &announcer())?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    let routes = stage.inside.run("ip", &["route", "show", "proto", "bird"])?;
    assert!(routes.starts_with("10.9.0.0/16 via 10.2.0.2 dev eth2"), "{routes}");
    // With the session its routes go.
    theirs.kill();
    stage.wait_for_ping(0, "10.9.0.1", false)?;
    stage.end()
}

/// Sends echo requests to 10.2.0.1 from behind eth2: `sys.argv[1]` bursts of 200, one every 5 ms.
const FLOOD: &str = "
import socket, struct, sys, time
def checksum(b):
    s = sum(struct.unpack('>%dH' % (len(b) // 2), b))
    return 0xffff ^ ((s & 0xffff) + (s >> 16) + (((s & 0xffff) + (s >> 16)) >> 16) & 0xffff)
head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 28, 1, 0, 64, 1, 0, bytes([10,2,0,2]), bytes([10,2,0,1]))
head = head[:10] + struct.pack('>H', checksum(head)) + head[12:]
frame = bytes.fromhex('0200000000020200000000120800') + head + bytes.fromhex('0800f7ff00000000')
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
for i in range(int(sys.argv[1])):
    for j in range(200):
        out.send(frame)
    time.sleep(0.005)
";

#[test]
fn a_flood_does_not_end_a_session() -> Result<()> {
    if netns::skipped() || Bird::skipped() {
        return Ok(());
    }
    if missing_program(&["python3"]).is_some() {
        println!("skipped: no python3");
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let directory = stage.directory.path();
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    let peer = |n: u8, other: u8| {
        format!(
            "router id 10.2.0.{n};\nprotocol static {{ ipv4; route 10.9.0.0/16 blackhole; }}\n\
             protocol bgp peer {{ local 10.2.0.{n} as 6500{n}; neighbor 10.2.0.{other} as 6500{other};\n\
             hold time 3; connect retry time 1; connect delay time 1; error wait time 1,1;\n\
             ipv4 {{ import all; export where {}; }}; }}\n",
            if n == 2 { "source = RTS_STATIC" } else { "false" },
        )
    };
    let ours = peer(1, 2).replace("route 10.9.0.0/16 blackhole;", "");
    let _ours = Bird::start(&stage.inside, directory, "ours", &ours)?;
    let _theirs = Bird::start(&stage.hosts[1], directory, "theirs", &peer(2, 1))?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    let words = ["monitor", "route"].map(str::to_owned);
    let monitor = Process::start(&stage.inside, "monitor", "ip", &words, directory)?;
    // Six seconds or more: twice the hold time.
    stage.hosts[1].run("python3", &["-c", FLOOD, "1000"])?;
    let lost = |reason: &str| -> Result<u64> {
        let rows = stage.router.rows("drops")?;
        let of = rows.iter().filter(|row| row["element"] == "punt1" && row["reason"] == reason);
        Ok(of.filter_map(|row| row["packets"].as_u64()).sum())
    };
    println!("{} of 200000 echo requests lost", lost("others")?);
    assert!(lost("others")? > 20_000, "{}", lost("others")?);
    assert_eq!((lost("protocols")?, lost("neighbours")?), (0, 0));
    assert!(!monitor.printed()?.contains("10.9.0.0"), "{}", monitor.printed()?);
    assert!(stage.pings(0, "10.9.0.1")?);
    stage.end()
}

#[test]
fn frr_sends_its_routes_by_fpm() -> Result<()> {
    if netns::skipped() || Bird::skipped() || Frr::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &["--fpm"])?;
    let directory = stage.directory.path();
    let lines = "fpm address 127.0.0.1 port 2620
        router bgp 65000
        bgp router-id 10.2.0.1
        no bgp ebgp-requires-policy
        timers bgp 1 3
        neighbor 10.2.0.2 remote-as 65002
        neighbor 10.2.0.2 timers connect 1";
    let _frr = Frr::start(&stage.inside, directory, &["zebra -M dplane_fpm_nl", "bgpd"], lines)?;
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    let mut theirs = Bird::start(&stage.hosts[1], directory, "theirs", &announcer())?;
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
