//! Packets that are longer than their route or link allows are cut and refused as a Linux with the same routes does, and those
//! that fit do not pass Linux.

use super::reference::{assert_alike, exchanged, reference};
use lab::Result;
use lab::netns::{self, Namespace, missing_program};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// Routes with MTUs of their own in each form, and a link that is narrower than that of the sender.
const ROUTER: &str = "
link set eth2 mtu 1400
route add 10.50.0.0/16 via 10.2.0.2 mtu 1300
route add 10.51.0.0/16 via 10.2.0.2 mtu lock 1000
route add 10.52.0.0/16 via 10.2.0.2
nexthop add id 7 via 10.2.0.2 dev eth2
route add 10.53.0.0/16 nhid 7 mtu 577
route add 10.54.0.0/16 mtu 1200 nexthop via 10.2.0.2 nexthop via 10.2.0.3
route add 10.55.0.0/24 dev eth2 mtu 800
route add 2001:db8:50::/48 via 2001:db8:2::2 mtu 1300
route add 2001:db8:51::/48 via 2001:db8:2::2 mtu lock 1280
route add 2001:db8:52::/48 via 2001:db8:2::2
neighbour replace 10.1.0.9 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.2.0.2 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace 10.2.0.3 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace 10.55.0.2 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace 2001:db8:1::9 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 2001:db8:2::2 lladdr 02:00:00:00:00:12 dev eth2
";

/// Sends 3,000 packets of all lengths that Ethernet has, often such as just fit, whole ones and fragments.
const SEND: &str = "
import random, time
random.seed(1)
borders = [576, 577, 800, 1000, 1200, 1280, 1300, 1400, 1500]
for i in range(3000):
    length = random.choice([random.choice(borders) + random.randint(-1, 1), random.randint(60, 1500)])
    length = min(length, 1500)
    if random.random() < 0.7:
        flags = random.choice([0, 0, 0, 0x4000, 0x2000, 0x2000 + random.randint(1, 4000), random.randint(1, 4000)])
        net, tos = random.choice([50, 51, 52, 53, 54, 55]), random.choice([0, 0, 0xb8])
        head = struct.pack('>BBHHHBBH4s4s', 0x45, tos, length, i, flags, 64, 253, 0, bytes([10, 1, 0, 9]), bytes([10, net, 0, 2]))
        packet = bytes.fromhex('0800') + head[:10] + struct.pack('>H', checksum(head)) + head[12:]
        body = length - 20
    else:
        net = random.choice([50, 51, 52])
        head = struct.pack('>IHBB', 6 << 28, length - 40, 253, 64)
        source, to = [socket.inet_pton(socket.AF_INET6, '2001:db8:%d::%d' % n) for n in ((1, 9), (net, 2))]
        packet = bytes.fromhex('86dd') + head + source + to
        body = length - 40
    payload = b''.join(struct.pack('>HH', i, n) for n in range(body // 4 + 1))[:body]
    out.send(bytes.fromhex('020000000001' + '020000000011') + packet + payload)
    time.sleep(0.002)
";

/// Prints a line for each packet of these, and for each answer to one, until none has come for three seconds.
const RECEIVE: &str = "
for frame, _ in frames():
    ip = frame[14:]
    if frame[12:14] == bytes.fromhex('0800'):
        length, = struct.unpack('>H', ip[2:4])
        ip = ip[:length]
        if ip[9] == 253:
            print('v4', frame[:12].hex(), ip[:20].hex(), length, zlib.crc32(ip[20:]))
        if ip[9] == 1 and ip[20] == 3:
            print('icmp', ip[12:20].hex(), ip[20:22].hex(), ip[24:56].hex(), length)
    if frame[12:14] == bytes.fromhex('86dd'):
        if ip[6] == 253:
            print('v6', frame[:12].hex(), ip[:40].hex(), len(ip), zlib.crc32(ip[40:]))
        if ip[6] == 58 and ip[40] < 128:
            print('icmp6', ip[8:40].hex(), ip[40:42].hex(), ip[44:100].hex(), len(ip))
";

#[test]
fn long_packets_are_cut_and_refused_as_by_linux() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    if missing_program(&["python3"]).is_some() {
        println!("skipped: no python3");
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    // Who does not answer makes neither router learn anything.
    for host in &stage.hosts {
        host.ip("address flush dev eth0\n")?;
    }
    let (linux, hosts) = reference()?;
    let routers: [&Namespace; 2] = [&linux, &stage.inside];
    routers.into_iter().try_for_each(|router| router.ip(ROUTER))?;
    let rows = || stage.router.rows("routes");
    let known = || Ok(rows()?.iter().filter(|row| row["prefix"] == "2001:db8:52::/48").count() == 1);
    wait_until("the routes", LIMIT, || Ok(known()?.then_some(())))?;
    let row = rows()?.into_iter().find(|row| row["element"] == "rt0" && row["prefix"] == "10.51.0.0/16");
    let row = row.unwrap_or_default();
    assert_eq!(["port", "interface", "mtu_bytes"].map(|key| row[key].to_string()), ["1", "\"eth2\"", "1000"]);
    let expected = exchanged([&hosts[0], &hosts[1]], SEND, RECEIVE)?;
    let before = stage.packets("punt0")?;
    let ours = exchanged([&stage.hosts[0], &stage.hosts[1]], SEND, RECEIVE)?;
    assert_alike(&expected, &ours);
    let count = |what: &str| ours.iter().filter(|line| line.contains(what)).count() as u64;
    let answers = count(" icmp");
    println!(
        "{} IPv4 packets and fragments, {} IPv6 packets, {answers} answers are alike",
        count(" v4 "),
        count(" v6 ")
    );
    assert!(count(" v4 ") > 2500 && count(" v6 ") > 500 && answers > 200);
    // Linux has had no packets but those that it has answered, and a few to find out who is there.
    let punted = stage.packets("punt0")? - before;
    assert!((answers..answers + 20).contains(&punted), "{punted} went to Linux, {answers} were answered");
    let fragments: u64 = stage.router.handler("cut0", "fragments")?.parse().unwrap_or(0);
    assert!(fragments > 500, "{fragments} fragments");
    stage.end()
}
