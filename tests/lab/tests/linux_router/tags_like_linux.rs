//! Random frames with and without tags leave our router as they leave a Linux with the same VLANs, VRF, routes, neighbours.

use super::reference::{assert_alike, exchanged, reference};
use super::vlans::skipped;
use lab::Result;
use lab::netns::{Namespace, missing_program};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// VLANs 100 and 200 on both ports, 200 in VRF red, 5 in 7 on the first; every host is known, and one route leads out of red.
const ROUTER: &str = "
link add red type vrf table 10
link set red up
link add link eth1 name eth1.100 type vlan id 100
link add link eth1 name eth1.200 type vlan id 200
link add link eth1 name eth1.7 type vlan id 7
link add link eth1.7 name eth1.7.5 type vlan id 5
link add link eth2 name eth2.100 type vlan id 100
link add link eth2 name eth2.200 type vlan id 200
link set eth1.200 master red
link set eth2.200 master red
link set eth1.100 up
link set eth1.200 up
link set eth1.7 up
link set eth1.7.5 up
link set eth2.100 mtu 1280 up
link set eth2.200 up
address add 10.11.0.1/24 dev eth1.100
address add 10.12.0.1/24 dev eth1.200
address add 10.13.0.1/24 dev eth1.7.5
address add 10.21.0.1/24 dev eth2.100
address add 10.22.0.1/24 dev eth2.200
address add 2001:db8:11::1/64 dev eth1.100 nodad
address add 2001:db8:12::1/64 dev eth1.200 nodad
address add 2001:db8:21::1/64 dev eth2.100 nodad
address add 2001:db8:22::1/64 dev eth2.200 nodad
route add unreachable default metric 4278198272 table 10
route add 10.99.0.0/16 via 10.21.0.2
route add 10.99.0.0/16 via 10.22.0.2 dev eth2.200 table 10
route add 10.98.0.0/16 via 10.2.0.2 dev eth2 table 10
";

/// Network number and interface of each host .2.
const HOSTS: [(u8, &str, u8); 7] = [
    (1, "eth1", 0x11),
    (2, "eth2", 0x12),
    (11, "eth1.100", 0x21),
    (12, "eth1.200", 0x22),
    (13, "eth1.7.5", 0x23),
    (21, "eth2.100", 0x24),
    (22, "eth2.200", 0x25),
];

/// Sends 2,000 frames, of all kinds of tags, addresses and lengths.
const SEND: &str = "
import random, time
random.seed(1)
nets = [1, 2, 11, 12, 13, 21, 22, 98, 99, 77]
for i in range(2000):
    tags = random.choice(['', '8100p000', '8100p064', '8100p064', '8100p0c8', '8100p0c8', '8100p12c', '8100pfff',
                          '8100p0078100p005', '8100p0078100p006', '8100p0008100p064'])
    tags = ''.join(random.choice('02468ace') if c == 'p' else c for c in tags)
    to = random.choice(['020000000001'] * 8 + ['020000000002', '0200000000aa'])
    net, ttl = random.choice(nets), random.choice([64, 64, 64, 2, 1])
    body = struct.pack('>I', i) + bytes(random.choice([0, 2, 26, 300, 1300]))
    if random.random() < 0.7:
        head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(body), i, 0, ttl, 253, 0, bytes([10, 1, 0, 9]), bytes([10, net, 0, 2]))
        packet = bytes.fromhex('0800') + head[:10] + struct.pack('>H', checksum(head)) + head[12:] + body
    else:
        head = struct.pack('>IHBB', 6 << 28, len(body), 253, ttl)
        source, to6 = [socket.inet_pton(socket.AF_INET6, '2001:db8:%d::%d' % n) for n in ((1, 9), (net, 2))]
        packet = bytes.fromhex('86dd') + head + source + to6 + body
    out.send(bytes.fromhex(to + '020000000011' + tags) + packet)
    time.sleep(0.002)
";

/// Prints a line for each frame of these until none has come for three seconds: tag, addresses, headers, number. The kernel
/// has taken the outer tag out of the frame.
const RECEIVE: &str = "
for frame, more in frames():
    tag = '-'
    for level, kind, data in more:
        status, _, _, _, _, tci, tpid = struct.unpack('IIIHHHH', data[:20])
        if (level, kind) == (263, 8) and status & 0x10:
            tag = '%x.%x' % (tpid, tci)
    at = 12
    while frame[at:at + 2] == bytes.fromhex('8100'):
        at += 4
    ip = frame[at + 2:]
    if frame[at:at + 2] == bytes.fromhex('0800') and ip[9] == 253:
        print(tag, frame[:at + 2].hex(), ip[:20].hex(), len(ip), ip[20:24].hex())
    if frame[at:at + 2] == bytes.fromhex('86dd') and ip[6] == 253:
        print(tag, frame[:at + 2].hex(), ip[:40].hex(), len(ip), ip[40:44].hex())
";

fn configure(router: &Namespace) -> Result<()> {
    router.ip(ROUTER)?;
    for (net, device, mac) in HOSTS {
        router
            .ip(&format!("neighbour replace 10.{net}.0.2 lladdr 02:00:00:00:00:{mac:02x} dev {device}\n"))?;
        if net != 13 {
            router.ip(&format!(
                "neighbour replace 2001:db8:{net}::2 lladdr 02:00:00:00:00:{mac:02x} dev {device}\n"
            ))?;
        }
    }
    Ok(())
}

#[test]
fn frames_with_tags_leave_as_they_leave_linux() -> Result<()> {
    if skipped(&["vlan", "vrf"]) {
        return Ok(());
    }
    if missing_program(&["python3"]).is_some() {
        println!("skipped: no python3");
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.hosts[0].run("ethtool", &["-K", "eth0", "txvlan", "off"])?;
    // Who does not answer makes neither router learn anything.
    for host in &stage.hosts {
        host.ip("address flush dev eth0\n")?;
    }
    let (linux, hosts) = reference()?;
    configure(&linux)?;
    configure(&stage.inside)?;
    let known = || Ok(stage.router.rows("routes")?.iter().any(|row| row["prefix"] == "10.98.0.0/16"));
    wait_until("the routes", LIMIT, || Ok(known()?.then_some(())))?;
    let expected = exchanged([&hosts[0], &hosts[1]], SEND, RECEIVE)?;
    let ours = exchanged([&stage.hosts[0], &stage.hosts[1]], SEND, RECEIVE)?;
    assert_alike(&expected, &ours);
    println!("{} frames of 2000 left alike", ours.len());
    let tags = |tag: &str| ours.iter().filter(|line| line.contains(tag)).count();
    assert!(["1: -", "2: -", ".64 ", ".c8 ", ".7 "].iter().all(|tag| tags(tag) > 10), "{ours:?}");
    stage.end()
}
