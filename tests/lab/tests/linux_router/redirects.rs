//! Senders whose packets leave by the interface that they came in by are told of a better way as Linux tells them, if it is
//! asked for, and what they send arrives all the same.

use super::reference::{assert_alike, exchanged, reference, wait_for_addresses};
use lab::Result;
use lab::netns::{self, Namespace, missing_program};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use std::collections::BTreeSet;

/// Two further routers behind the first port, and the networks behind them, and one behind the second port.
const ROUTER: &str = "
neighbour replace 10.1.0.2 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.1.0.3 lladdr 02:00:00:00:00:33 dev eth1
neighbour replace 10.1.0.4 lladdr 02:00:00:00:00:44 dev eth1
neighbour replace 10.1.0.9 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.1.0.10 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.1.0.11 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.2.0.2 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace fe80::3 lladdr 02:00:00:00:00:33 dev eth1
neighbour replace 2001:db8:1::9 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 2001:db8:1::a lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 2001:db8:2::2 lladdr 02:00:00:00:00:12 dev eth2
route add 10.9.0.0/16 via 10.1.0.2
route add 10.50.0.0/16 via 10.1.0.3
route add 10.51.0.0/16 mtu 1300 nexthop via 10.1.0.4 nexthop via 10.1.0.4 weight 2
route add 10.52.0.0/16 via 10.2.0.2
route add 2001:db8:50::/48 via fe80::3 dev eth1
route add 2001:db8:52::/48 via 2001:db8:2::2
";

/// Sends 100 packets from each of some addresses, on the link and beyond it, to one destination each.
const SEND: &str = "
import time
pairs = [('10.1.0.9', '10.50.0.1'), ('10.1.0.10', '10.51.0.1'), ('10.1.0.11', '10.52.0.1'), ('10.9.0.9', '10.50.0.2')]
pairs6 = [('2001:db8:1::9', '2001:db8:50::1'), ('2001:db8:1::a', '2001:db8:52::1')]
for i in range(100):
    for source, to in pairs:
        head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 24, i, 0, 64, 253, 0, socket.inet_aton(source), socket.inet_aton(to))
        packet = bytes.fromhex('0800') + head[:10] + struct.pack('>H', checksum(head)) + head[12:]
        out.send(bytes.fromhex('020000000001' + '020000000011') + packet + struct.pack('>I', i))
    for source, to in pairs6:
        head = struct.pack('>IHBB', 6 << 28, 4, 253, 64)
        source, to = [socket.inet_pton(socket.AF_INET6, text) for text in (source, to)]
        packet = bytes.fromhex('86dd') + head + source + to
        out.send(bytes.fromhex('020000000001' + '020000000011') + packet + struct.pack('>I', i))
    time.sleep(0.01)
";

/// Prints a line for each of these, and one for each redirect with its gateway and destination, until nothing has come for
/// three seconds.
const RECEIVE: &str = "
for frame, _ in frames():
    ip = frame[14:]
    if frame[12:14] == bytes.fromhex('0800'):
        if ip[9] == 253:
            print('v4', frame[:12].hex(), ip[:24].hex())
        if ip[9] == 1 and ip[20] == 5:
            print('redirect', ip[12:20].hex(), ip[20:22].hex(), ip[24:28].hex(), ip[40:48].hex())
    if frame[12:14] == bytes.fromhex('86dd'):
        if ip[6] == 253:
            print('v6', frame[:12].hex(), ip[:44].hex())
        if ip[6] == 58 and ip[40] == 137:
            print('redirect', ip[24:40].hex(), ip[48:80].hex())
";

fn is_redirect(line: &str) -> bool {
    line.contains("redirect")
}

/// What hosts behind the router get.
fn got(arguments: &[&str]) -> Result<BTreeSet<String>> {
    let stage = Stage::new(2, arguments)?;
    // Who does not answer makes no router learn anything.
    for host in &stage.hosts {
        host.ip("address flush dev eth0\n")?;
    }
    stage.inside.ip(ROUTER)?;
    let known = || Ok(stage.router.rows("routes")?.iter().any(|row| row["prefix"] == "2001:db8:52::/48"));
    wait_until("the routes", LIMIT, || Ok(known()?.then_some(())))?;
    wait_for_addresses(&stage.inside)?;
    let got = exchanged([&stage.hosts[0], &stage.hosts[1]], SEND, RECEIVE)?;
    stage.end()?;
    Ok(got)
}

#[test]
fn redirects_are_sent_as_linux_sends_them_if_asked_for() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    if missing_program(&["python3"]).is_some() {
        println!("skipped: no python3");
        return Ok(());
    }
    let (linux, hosts) = reference()?;
    let linux: &Namespace = &linux;
    linux.ip(ROUTER)?;
    wait_for_addresses(linux)?;
    let mut expected = exchanged([&hosts[0], &hosts[1]], SEND, RECEIVE)?;
    let redirects = expected.iter().filter(|line| is_redirect(line)).count();
    // Each of 600 packets, and the senders on the link are told, of either family.
    assert_eq!((expected.len() - redirects, redirects), (600, 3));
    assert_alike(&expected, &got(&["--redirects"])?);
    expected.retain(|line| !is_redirect(line));
    assert_alike(&expected, &got(&[])?);
    println!("{redirects} redirects are alike");
    Ok(())
}
