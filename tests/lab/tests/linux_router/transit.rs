//! What Linux decides about packets in transit by their options and extension headers, this router decides alike.

use super::reference::{assert_alike, exchanged, reference, wait_for_addresses};
use lab::Result;
use lab::netns::{self, Namespace, missing_program};
use lab::process::Process;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use std::collections::BTreeSet;

/// Four servers behind the second port, which are told apart by their Ethernet addresses.
const ROUTER: &str = "
neighbour replace 10.1.0.2 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 10.2.0.2 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace 10.2.0.3 lladdr 02:00:00:00:00:13 dev eth2
neighbour replace 10.2.0.4 lladdr 02:00:00:00:00:14 dev eth2
neighbour replace 10.2.0.5 lladdr 02:00:00:00:00:15 dev eth2
neighbour replace 2001:db8:1::2 lladdr 02:00:00:00:00:11 dev eth1
neighbour replace 2001:db8:2::2 lladdr 02:00:00:00:00:12 dev eth2
neighbour replace 2001:db8:2::3 lladdr 02:00:00:00:00:13 dev eth2
route add 10.9.0.0/16 via 10.2.0.2
route add 10.50.0.1 nexthop via 10.2.0.2 nexthop via 10.2.0.3 nexthop via 10.2.0.4 nexthop via 10.2.0.5
route add 2001:db8:50::/48 nexthop via 2001:db8:2::2 nexthop via 2001:db8:2::3
route add 2001:db8:52::/48 via 2001:db8:2::2
";

/// Functions for the programs that send.
const PACKETS: &str = "
import random, time
rng = random.Random(2009)
def send(kind, packet):
    out.send(bytes.fromhex('020000000001' + '020000000011' + kind) + packet)
    time.sleep(0.003)
def v4(number, protocol, source, to, body, options=b''):
    options += bytes(-len(options) % 4)
    head = struct.pack('>BBHHHBBH4s4s', 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), number, 0, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + options
    return head[:10] + struct.pack('>H', checksum(head)) + head[12:] + body
def v6(number, following, source, to, body):
    source, to = [socket.inet_pton(socket.AF_INET6, text) for text in (source, to)]
    return struct.pack('>IHBB', 6 << 28 | number, len(body), following, 64) + source + to + body
";

/// Options of all kinds, alone and several, right and wrong; extension headers of transit.
const SEND: &str = "
fixed = ['0107040000000000', '070b04' + '00' * 8, '070b08' + '0a000001' + '00' * 4, '070b0c' + '0a000001' * 2, '070304', '070205',
    '07070300000000', '07ff04', '8307040a020002', '8907040a020002', '8307080a020002', '83070c0a020002', '940400000000', '94040001',
    '9404', '9403', '860601020304', '8606', '88040007', '8802', '9e28', '9e04abcd', '9e00', '9e01', '19080000' + '00' * 4, '0101010100',
    '000707', '01', 'ff', '44', '4403', '440405', '440509', '0744', '52040000', '01019404000001']
for number, text in enumerate(fixed):
    send('0800', v4(number, 253, '10.1.0.2', '10.9.0.1', b'options!', bytes.fromhex(text)))
for number in range(100, 300):
    options = b''
    while len(options) < 36 and rng.random() < .7:
        kind = rng.choice([0, 1, 1, 7, 7, 131, 134, 136, 137, 148, 30, 158, 222])
        body = bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 2, 2, 5, 9])))
        if kind == 7 and rng.random() < .7:
            body = bytes([rng.choice([4, 4, 8, 12])]) + bytes(rng.choice([4, 8, 8]))
        options += bytes([kind]) if kind < 2 else bytes([kind, len(body) + (2 if rng.random() < .9 else rng.randrange(9))]) + body
    send('0800', v4(number, 253, '10.1.0.2', '10.9.0.1', b'options!', options[:40]))
for number in range(300):
    chain, upper = [], rng.choice([59, 253, 254, 17, 6, 50, 51, 132, 99])
    for _ in range(rng.choice([1, 1, 2, 3, 9, 20])):
        kind = rng.choice([43, 44, 51, 60, 60, 135, 139, 140, 0 if chain else 60])
        units = rng.choice([0, 0, 1, 2])
        rest = bytes(rng.randrange(256) for _ in range(6 + 8 * units))
        chain.append((kind, 0 if kind == 44 else units if rng.random() < .9 else 200, rest))
    body = b''.join(bytes([chain[i + 1][0] if i + 1 < len(chain) else upper, units]) + rest
                    for i, (kind, units, rest) in enumerate(chain)) + b'the rest'
    body = body[:rng.choice([len(body), len(body), rng.randrange(len(body))])]
    send('86dd', v6(number, chain[0][0], '2001:db8:1::2', '2001:db8:52::1', body))
";

/// What both hosts get of IP that is none of their own, and of errors what is said of which packet.
const RECEIVE: &str = "
for frame, _ in frames():
    ip = frame[14:]
    if frame[12:14] == bytes.fromhex('0800'):
        if ip[9] == 253:
            print('v4', frame[:12].hex(), ip[:(ip[2] << 8) + ip[3]].hex())
        if ip[9] == 1 and ip[20] in (3, 11, 12):
            print('error', ip[12:20].hex(), ip[20:22].hex(), ip[24:28].hex(), ip[32:34].hex())
    if frame[12:14] == bytes.fromhex('86dd'):
        if ip[24:28] == bytes.fromhex('20010db8') and ip[28:30] == bytes.fromhex('0052'):
            print('v6', frame[:12].hex(), ip.hex())
        if ip[6] == 58 and ip[40] < 128:
            print('error', ip[40:48].hex(), ip[48:52].hex())
";

/// For each of 40 clients a packet of its flow, and an error of somebody else about one the other way; then the same of IPv6.
const ERRORS: &str = "
for k in range(40):
    client, ports, back = '10.1.%d.2' % k, struct.pack('>HH', 5000 + k, 443), struct.pack('>HH', 443, 5000 + k)
    flow = v4(k, 6, client, '10.50.0.1', ports + bytes(16))
    quote = v4(k, 6, '10.50.0.1', client, back + bytes(4))
    error = struct.pack('>BBHHH', 3, 4, 0, 0, 1400) + quote
    error = error[:2] + struct.pack('>H', checksum(error)) + error[4:]
    send('0800', flow)
    send('0800', v4(k, 1, '10.1.200.1', '10.50.0.1', error))
    client = '2001:db8:1::%x' % (k + 256)
    flow = v6(k, 6, client, '2001:db8:50::1', ports + bytes(16))
    quote = v6(k, 6, '2001:db8:50::1', client, back + bytes(4))
    send('86dd', flow)
    send('86dd', v6(k, 58, '2001:db8:1::ff', '2001:db8:50::1', struct.pack('>BBHI', 2, 0, 0, 1400) + quote))
";

/// Which server got a packet of which client.
const SERVERS: &str = "
for frame, _ in frames():
    ip = frame[14:]
    if frame[12:14] == bytes.fromhex('0800') and ip[16:20] == bytes([10, 50, 0, 1]):
        print('v4', ip[4:6].hex(), frame[5:6].hex(), 'error' if ip[9] == 1 else 'flow')
    if frame[12:14] == bytes.fromhex('86dd') and ip[24:30].hex() == '20010db80050':
        print('v6', ip[2:4].hex(), frame[5:6].hex(), 'error' if ip[6] == 58 else 'flow')
";

fn stage() -> Result<Stage> {
    let stage = Stage::new(2, &[])?;
    // Who does not answer makes no router learn anything.
    for host in &stage.hosts {
        host.ip("address flush dev eth0\n")?;
    }
    prepare(&stage.inside)?;
    let known = || Ok(stage.router.rows("routes")?.iter().any(|row| row["prefix"] == "2001:db8:52::/48"));
    wait_until("the routes", LIMIT, || Ok(known()?.then_some(())))?;
    Ok(stage)
}

fn prepare(router: &Namespace) -> Result<()> {
    router.set("net/ipv4/icmp_ratelimit", "0")?;
    router.set("net/ipv6/icmp/ratelimit", "0")?;
    router.ip(ROUTER)?;
    wait_for_addresses(router)
}

fn skipped() -> bool {
    let no_python = missing_program(&["python3"]).is_some();
    if no_python {
        println!("skipped: no python3");
    }
    no_python || netns::skipped()
}

#[test]
fn options_and_extension_headers_are_dealt_with_as_linux_does() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let (linux, hosts) = reference()?;
    prepare(&linux)?;
    let send = [PACKETS, SEND].concat();
    let expected = exchanged([&hosts[0], &hosts[1]], &send, RECEIVE)?;
    let of = |kind: &str| expected.iter().filter(|line| line.contains(kind)).count();
    assert!(of(": v4") > 60 && of(": v6") == 300 && of(": error") > 20, "{expected:#?}");
    let stage = stage()?;
    assert_alike(&expected, &exchanged([&stage.hosts[0], &stage.hosts[1]], &send, RECEIVE)?);
    stage.end()
}

#[test]
fn icmp_errors_reach_the_server_of_their_flow() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = stage()?;
    let send = [PACKETS, ERRORS].concat();
    let got = exchanged([&stage.hosts[0], &stage.hosts[1]], &send, SERVERS)?;
    let of =
        |what: &str| -> BTreeSet<&str> { got.iter().filter_map(|line| line.strip_suffix(what)).collect() };
    let (flows, errors) = (of(" flow"), of(" error"));
    assert_eq!((flows.len(), &flows), (80, &errors));
    let servers: BTreeSet<&str> = flows.iter().map(|line| &line[line.len() - 2..]).collect();
    assert_eq!(servers.len(), 4, "{servers:?}");
    stage.end()
}

/// Prints the UDP port of each datagram to 10.9.0.7 that a packet socket on the twin sees.
const LISTEN: &str = "
import socket
seen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
seen.bind(('eth1', 0x0800))
while True:
    frame = seen.recv(2000)
    if frame[30:34] == bytes([10, 9, 0, 7]):
        print('port', frame[37], flush=True)
";

const DHCP: &str = "
for port in (66, 67, 68, 69):
    send('0800', v4(port, 17, '10.1.0.2', '10.9.0.7', struct.pack('>HHHH', 67, port, 16, 0) + bytes(8)))
";

#[test]
fn packet_sockets_on_the_twin_see_dhcp_to_other_addresses() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    let stage = stage()?;
    let send = [super::RAW_SOCKET, PACKETS, DHCP].concat();
    let switched = |to: &str| {
        wait_until("the switch", LIMIT, || {
            Ok((stage.router.handler("sockets0", "switch")? == to).then_some(()))
        })
    };
    switched("0")?;
    let mut command = stage.inside.command("python3");
    command.args(["-c", LISTEN]);
    let mut listener = Process::spawn(command, "listener", stage.directory.path())?;
    switched("1")?;
    assert_eq!(stage.router.handler("sockets1", "switch")?, "0");
    stage.hosts[0].run("python3", &["-c", &send])?;
    listener.wait_for_line("port 68", LIMIT)?;
    drop(listener);
    switched("0")?;
    let seen = std::fs::read_to_string(stage.directory.path().join("listener.log")).unwrap_or_default();
    assert!(seen.contains("port 67") && !seen.contains("port 66") && !seen.contains("port 69"), "{seen}");
    stage.end()
}
