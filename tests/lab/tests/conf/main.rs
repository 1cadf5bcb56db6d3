//! Every configuration of `conf/`, byte for byte, with real packets and exactly what must come of them.

mod bench;
mod ip6;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::exchange::Exchange;
use lab::packets::{
    ETHERTYPE_ARP, ETHERTYPE_IP, ICMP, Ip, Mac, TCP, UDP, arp_reply, arp_request, ethernet, icmp, tcp, udp,
};
use lab::pcap_ports::{Input, Outcome};
use lab::routebricks::{Launch, Routebricks, binary, conf};
use lab::router::Router;
use lab::table::{Route, RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};
use lab::view::Frame;
use lab::wait::wait_until;
use lab::{Context, Error, Result, netns, pcap_ports, replay, trace};

type Test = fn() -> Result<()>;

/// The configurations and their tests.
const TESTS: &[(&str, Test)] = &[
    ("bench/batching.click", bench::what_comes_in_goes_out),
    ("bench/classic-4-ports.click", bench::a_queue_for_each_of_four_ports),
    ("bench/cores-overlap.click", bench::two_paths_with_a_core_each),
    ("bench/cores-parallel.click", bench::two_paths_with_a_core_each),
    ("bench/cores-pipeline.click", bench::one_core_receives_and_one_sends),
    ("bench/io.click", bench::what_comes_in_goes_out),
    ("bench/io-1-more.click", bench::what_comes_in_goes_out),
    ("bench/io-16-more.click", bench::what_comes_in_goes_out),
    ("bench/io-2-more.click", bench::what_comes_in_goes_out),
    ("bench/io-4-more.click", bench::what_comes_in_goes_out),
    ("bench/io-8-more.click", bench::what_comes_in_goes_out),
    ("bench/io-large-pool.click", bench::what_comes_in_goes_out),
    ("bench/ip-path.click", bench::a_path_through_a_router),
    ("bench/ip-path-2-ports.click", bench::sixteen_next_hops_behind_two_ports),
    ("bench/ip-path-large-pool.click", bench::a_path_through_a_router),
    ("bench/ip6-path.click", bench::a_path_through_an_ipv6_router),
    ("bench/ip6-path-large-pool.click", bench::a_path_through_an_ipv6_router),
    ("bench/ndr-latency.click", a_generator_sends_probes_among_its_load),
    ("bench/probe.click", bench::probes_are_noted_as_they_leave_and_come_back),
    ("bench/ring-receive.click", bench::frames_cross_a_ring),
    ("bench/ring-send.click", bench::frames_cross_a_ring),
    ("firewall.click", a_firewall_lets_through_what_it_should),
    ("forward.click", forwarding_swaps_the_ports),
    ("generator.click", a_generator_makes_the_packets_that_it_is_told),
    ("ip-router-2.click", a_router_with_two_interfaces),
    ("ip-router-4.click", a_router_with_four_interfaces),
    ("ip-router.click", a_router_with_three_interfaces),
    ("ip6-router.click", ip6::an_ipv6_router_with_two_interfaces),
    ("print.click", packets_are_printed),
    ("shaper.click", a_shaper_spaces_packets_and_lets_dns_go_first),
    ("sink.click", a_sink_counts),
];

#[test]
fn every_configuration_has_a_test() -> Result<()> {
    let mut files = BTreeSet::new();
    for (folder, prefix) in [(conf(""), ""), (conf("bench"), "bench/")] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.cannot(|| format!("list {}", folder.display()))?.path();
            if path.is_file() {
                files.insert(format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy()));
            }
        }
    }
    let tested: BTreeSet<String> = TESTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, tested);
    Ok(())
}

/// Runs a configuration with one worker and with two. Both must send the same packets by the same ports and lose the
/// same for the same reasons; gives what came of the first.
fn run(name: &str, ports: &[Input], arguments: &[&str]) -> Result<Outcome> {
    let one = pcap_ports::run(name, ports, arguments)?;
    let two = pcap_ports::run(name, ports, &[&["-j", "2"], arguments].concat())?;
    for (port, (one, two)) in one.sent.iter().zip(&two.sent).enumerate() {
        assert_eq!(sorted(one.clone()), sorted(two.clone()), "{name}, port {port}, with -j 2");
    }
    assert_eq!(one.lost, two.lost, "{name} with -j 2");
    Ok(one)
}

fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort();
    frames
}

fn losses<const N: usize>(list: [(&str, u64); N]) -> BTreeMap<String, u64> {
    list.into_iter().map(|(name, packets)| (name.to_owned(), packets)).collect()
}

const A: Mac = Mac([2, 0, 0, 0, 1, 2]);
const B: Mac = Mac([2, 0, 0, 0, 2, 2]);

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// A UDP datagram in a frame.
fn datagram(macs: (Mac, Mac), from: (&str, u16), to: (&str, u16), size: usize) -> Vec<u8> {
    let (source, destination) = (address(from.0), address(to.0));
    let body = udp((source, from.1), (destination, to.1), &vec![0x5a; size]);
    ethernet(macs.1, macs.0, ETHERTYPE_IP, &Ip::new(source, destination, from.1, UDP, body).build())
}

#[test]
fn forwarding_swaps_the_ports() -> Result<()> {
    let frames = |from: Mac, to: Mac, count: u16| -> Vec<Vec<u8>> {
        let size = |number: u16| 18 + usize::from(number % 1400);
        (1..=count).map(|n| datagram((from, to), ("10.0.1.2", n), ("10.0.2.2", n % 7), size(n))).collect()
    };
    let (a, b) = (frames(A, B, 1500), frames(B, A, 700));
    let outcome = run("forward.click", &[("A", &a), ("B", &b)], &[])?;
    assert_eq!(outcome.sent, [b, a]);
    assert_eq!(outcome.lost, losses([]));
    Ok(())
}

#[test]
fn a_router_with_two_interfaces() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    fs::write(&table, "10.1.0.0/16 0\n10.2.0.0/16 1\n10.2.7.0/24 0\n")
        .cannot(|| "write routes".to_owned())?;
    let [router_a, router_b] = [0, 1].map(|port| Link { port }.router_mac());
    let mut inputs = [Vec::new(), Vec::new()];
    let mut expected = [Vec::new(), Vec::new()];
    for number in 1..=1000u16 {
        let [high, low] = number.to_be_bytes();
        let port = usize::from(number % 2);
        let to = [[10, 1, high, low], [10, 2, high, low]][usize::from(number / 2 % 2)];
        let mut ip = Ip::new([10, 9, high, low].into(), to.into(), number, UDP, vec![low; 30]);
        let mut good = true;
        match number % 10 {
            3 => (ip.ttl, good) = (1, false),
            5 => (ip.checksum, good) = (Some(0x1234), false),
            7 => (ip.destination, good) = ([11, 0, 0, 1].into(), false),
            _ => {}
        }
        let (host, router) = [(A, router_a), (B, router_b)][port];
        inputs[port].push(ethernet(router, host, ETHERTYPE_IP, &ip.build()));
        if good {
            let by = usize::from(to[1] == 2 && to[2] != 7);
            ip.ttl -= 1;
            let (host, router) = [(A, router_a), (B, router_b)][by];
            expected[by].push(ethernet(host, router, ETHERTYPE_IP, &ip.build()));
        }
    }
    let variable = format!("TABLE={}", table.display());
    let outcome = run("ip-router-2.click", &[("A", &inputs[0]), ("B", &inputs[1])], &[&variable])?;
    for (sent, expected) in outcome.sent.into_iter().zip(expected) {
        assert_eq!(sorted(sent), sorted(expected));
    }
    let lost = [
        ("check.bad_checksum", 100),
        ("routes.no_route", 100),
        ("DecIPTTL@5.expired", 50),
        ("DecIPTTL@8.expired", 50),
    ];
    assert_eq!(outcome.lost, losses(lost));
    Ok(())
}

#[test]
fn a_router_with_three_interfaces() -> Result<()> {
    router("ip-router.click", 3)
}

#[test]
fn a_router_with_four_interfaces() -> Result<()> {
    router("ip-router-4.click", 4)
}

/// Packets of the generated capture into the first port, and from every neighbour to every other and to the router,
/// with one worker and with two.
fn router(name: &str, count: usize) -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let path = directory.path().join("routes.txt");
    let links: Vec<Link> = (0..count).map(|port| Link { port }).collect();
    let hops = [links[1], links[2]].map(|link| (link.host(), link.port));
    let mut routes: Vec<Route> = synthetic(2000, 5, &hops);
    routes.extend(links.iter().flat_map(|link| link.routes()));
    let table = RouteTable::new(routes);
    fs::write(&path, table.text()).cannot(|| "write routes".to_owned())?;
    let plan = replay::plan(3000, 7, &table)?;
    for workers in ["1", "2"] {
        let topology = Topology::of(count, &netns::unique_prefix(), Hosts::Silent)?;
        let launch = Launch::router(name, &topology, &path)?.with(&["-j", workers]);
        let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
        let mut exchange = Exchange::open(&topology, Hosts::Silent)?;
        exchange.open_ways(Duration::from_secs(10))?;
        links.iter().try_for_each(|link| router_answers_arp(&topology, *link))?;
        every_pair(&mut exchange, &links)?;
        let mut checks = replay::run(&mut exchange, &plan)?;
        checks.extend(router.stop()?);
        checks.retain(|check| !check.holds);
        assert!(checks.is_empty(), "{name} -j {workers}: {checks:#?}");
    }
    Ok(())
}

fn router_answers_arp(topology: &Topology, link: Link) -> Result<()> {
    let port = topology.raw_port(link)?;
    port.send(&arp_request(link.host_mac(), link.host(), link.router()))?;
    let answer = arp_reply(link.router_mac(), link.router(), link.host_mac(), link.host());
    wait_until("an ARP reply", Duration::from_secs(2), || {
        let mut found = None;
        while let Some(frame) = port.receive()? {
            found = found.or((frame == answer).then_some(()));
        }
        Ok(found)
    })
}

/// A packet from each neighbour to each other one, and a ping from each to the router.
fn every_pair(exchange: &mut Exchange, links: &[Link]) -> Result<()> {
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for (number, (from, to)) in
        (1..).zip(links.iter().flat_map(|from| links.iter().map(move |to| (from, to))))
    {
        let mut ip = if from == to {
            Ip::new(from.host(), from.router(), number, ICMP, icmp(8, 0, [1, 2, 3, 4], b"are you there?"))
        } else {
            let body = udp((from.host(), 9), (to.host(), 9), b"from neighbour to neighbour");
            Ip::new(from.host(), to.host(), number, UDP, body)
        };
        sent.push((from.port, ethernet(from.router_mac(), from.host_mac(), ETHERTYPE_IP, &ip.build())));
        if from == to {
            // The answer starts with the highest TTL, and is routed like any other packet.
            ip.ttl = 255;
            (ip.source, ip.destination) = (from.router(), from.host());
            ip.payload = icmp(0, 0, [1, 2, 3, 4], b"are you there?");
        }
        ip.ttl -= 1;
        expected.push((to.port, ethernet(to.host_mac(), to.router_mac(), ETHERTYPE_IP, &ip.build())));
    }
    let arrivals = exchange.pass(sent.iter().map(|(port, frame)| (*port, frame.as_slice())))?;
    let mut arrived: Vec<_> = arrivals.into_iter().map(|arrival| (arrival.port, arrival.frame)).collect();
    arrived.sort();
    expected.sort();
    assert_eq!(arrived, expected);
    Ok(())
}

#[test]
fn a_firewall_lets_through_what_it_should() -> Result<()> {
    let ip = |from: &str, to: &str, protocol: u8, body: &dyn Fn(Ipv4Addr, Ipv4Addr) -> Vec<u8>| {
        let (from, to) = (address(from), address(to));
        ethernet(B, A, ETHERTYPE_IP, &Ip::new(from, to, 1, protocol, body(from, to)).build())
    };
    let segment = |ports: (u16, u16), flags: u8| {
        move |from: Ipv4Addr, to: Ipv4Addr| tcp((from, ports.0), (to, ports.1), flags, b"x")
    };
    let message = |kind: u8| move |_: Ipv4Addr, _: Ipv4Addr| icmp(kind, 0, [0; 4], &[0; 28]);
    let datagram =
        |ports: (u16, u16)| move |from: Ipv4Addr, to: Ipv4Addr| udp((from, ports.0), (to, ports.1), b"y");
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let (inside, server, outside) = ("192.0.2.7", "192.0.2.80", "198.51.100.9");
    let mut broken = ip(outside, server, TCP, &segment((4000, 80), SYN));
    broken[24] ^= 1;
    let arp = ethernet(Mac::BROADCAST, A, ETHERTYPE_ARP, &[0; 28]);
    // Each packet, and whether it passes.
    let leaving = [
        (ip(inside, outside, TCP, &segment((4000, 80), SYN)), true),
        (ip(inside, outside, TCP, &segment((4000, 25), SYN)), false),
        (ip(inside, outside, UDP, &datagram((4000, 25))), false),
        (ip(inside, outside, UDP, &datagram((4000, 53))), true),
        (ip(inside, "10.1.2.3", UDP, &datagram((4000, 53))), false),
        (ip(inside, outside, 47, &message(0)), true),
        (arp.clone(), true),
    ];
    let entering = [
        (ip(outside, server, TCP, &segment((4000, 80), SYN)), true),
        (broken, false),
        (ip(outside, server, TCP, &segment((4000, 81), SYN)), false),
        (ip(outside, inside, TCP, &segment((4000, 80), SYN)), false),
        (ip(outside, inside, TCP, &segment((80, 4000), SYN | ACK)), true),
        (ip(outside, inside, UDP, &datagram((53, 4000))), true),
        (ip(outside, inside, UDP, &datagram((54, 4000))), false),
        (ip(outside, inside, ICMP, &message(8)), true),
        (ip(outside, inside, ICMP, &message(0)), true),
        (ip(outside, inside, ICMP, &message(3)), true),
        (ip(outside, inside, ICMP, &message(11)), true),
        (ip(outside, inside, ICMP, &message(5)), false),
        (ip("10.3.2.1", server, TCP, &segment((4000, 80), SYN)), false),
        (ip(outside, inside, 47, &message(0)), false),
        (arp, true),
    ];
    let all = |packets: &[(Vec<u8>, bool)]| -> Vec<Vec<u8>> { packets.iter().map(|p| p.0.clone()).collect() };
    let passed = |packets: &[(Vec<u8>, bool)]| -> Vec<Vec<u8>> {
        packets.iter().filter(|p| p.1).map(|p| p.0.clone()).collect()
    };
    let inputs = (all(&leaving), all(&entering));
    let outcome = run("firewall.click", &[("INSIDE", &inputs.0), ("OUTSIDE", &inputs.1)], &[])?;
    assert_eq!(outcome.sent, [passed(&entering), passed(&leaving)]);
    Ok(())
}

#[test]
fn a_sink_counts() -> Result<()> {
    let frames: Vec<Vec<u8>> =
        (1..=900).map(|n| datagram((A, B), ("10.0.1.2", n), ("10.0.2.2", 9), 50)).collect();
    let outcome = run("sink.click", &[("DEV", &frames)], &["--read", "seen.count"])?;
    assert!(outcome.printed.lines().any(|line| line == "900"), "{}", outcome.printed);
    assert_eq!(outcome.sent, [Vec::<Vec<u8>>::new()]);
    Ok(())
}

/// Runs a configuration that ends by itself, and gives what it prints.
fn to_the_end(name: &str, arguments: &[&str], directory: &Path) -> Result<String> {
    let mut command = Command::new(binary()?);
    command.arg("run").arg(conf(name)).args(arguments).current_dir(directory).stdin(Stdio::null());
    netns::printed(&mut command)
}

#[test]
fn a_generator_makes_the_packets_that_it_is_told() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let device = "DEV=\"net_pcap0,tx_pcap=out.pcap\"";
    let arguments =
        [device, "RATE=20000", "LIMIT=500", "LENGTH=80", "--read", "sent.count", "--", "--no-huge"];
    let printed = to_the_end("generator.click", &arguments, directory.path())?;
    let sent = trace::read(&directory.path().join("out.pcap"))?;
    let (host, router) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 1, 1]));
    assert_eq!(sent.len(), 500);
    for frame in &sent {
        let parsed = Frame::parse(frame).ok_or_else(|| Error::new("no Ethernet header"))?;
        assert_eq!((frame.len(), parsed.to, parsed.from, parsed.ethertype), (80, router, host, ETHERTYPE_IP));
        let ip = parsed.ip().ok_or_else(|| Error::new("no IP packet"))?;
        assert!(ip.checksum_is_right());
        assert_eq!((ip.source(), ip.destination()), (address("10.0.1.2"), address("10.0.2.2")));
        assert_eq!((ip.protocol(), ip.payload().len()), (UDP, 80 - 34));
        assert_eq!(ip.payload()[..6], [4, 210, 22, 46, 0, 46]);
    }
    assert!(printed.lines().any(|line| line == "500"), "{printed}");
    Ok(())
}

#[test]
fn a_generator_sends_probes_among_its_load() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let device = "DEV=\"net_pcap0,tx_pcap=out.pcap\"";
    let arguments =
        [device, "RATE=10000", "LIMIT=2000", "PROBES=500", "--read", "sent.count", "--", "--no-huge"];
    let printed = to_the_end("bench/ndr-latency.click", &arguments, directory.path())?;
    let sent = trace::read(&directory.path().join("out.pcap"))?;
    assert!(printed.lines().any(|line| line == sent.len().to_string()), "{printed}");
    let from = |source: [u8; 4]| sent.iter().filter(|frame| frame[26..30] == source).collect::<Vec<_>>();
    let (load, probes) = (from([10, 0, 1, 2]), from([198, 18, 0, 2]));
    assert_eq!((load.len(), load.len() + probes.len()), (2000, sent.len()));
    // One for twenty of the load, but for what clocks and bursts do.
    assert!(probes.len() > 50, "{} probes", probes.len());
    for (number, probe) in (1000u16..).zip(probes) {
        assert_eq!((probe.len(), &probe[34..36]), (60, &number.to_be_bytes()[..]));
        assert_eq!(probe[..6], load[0][..6], "they go the way of the load");
    }
    Ok(())
}

#[test]
fn packets_are_printed() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let mut bad = datagram((A, B), ("10.0.1.2", 3), ("10.0.2.2", 9), 18);
    bad[24] ^= 1;
    let frames = [
        datagram((A, B), ("10.0.1.2", 7), ("10.0.2.2", 9), 18),
        bad,
        ethernet(Mac::BROADCAST, A, ETHERTYPE_ARP, &[0; 28]),
    ];
    trace::write(&directory.path().join("in.pcap"), frames.iter().map(Vec::as_slice))?;
    let printed =
        to_the_end("print.click", &["--read", "bad.count", "--read", "good.count"], directory.path())?;
    let mut lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let expected = [
        "1",
        "2",
        "bad.count:",
        "bad:   60 | 02000000 02020200 00000102 08004500 002e0003 00004011",
        "good.count:",
        "ip: 0.000000: 10.0.1.2.7 > 10.0.2.2.9: udp 18",
        "other:   42 | ffffffff ffff0200 00000102 08060000 00000000 00000000",
    ];
    assert_eq!(lines, expected);
    Ok(())
}

#[test]
fn a_shaper_spaces_packets_and_lets_dns_go_first() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let frames: Vec<Vec<u8>> = (1..=30)
        .map(|number| {
            datagram((A, B), ("10.0.1.2", number), ("10.0.2.2", if number % 3 == 0 { 53 } else { 80 }), 18)
        })
        .collect();
    trace::write(&directory.path().join("in.pcap"), frames.iter().map(Vec::as_slice))?;
    to_the_end("shaper.click", &["--simtime"], directory.path())?;
    let dns = frames.iter().skip(2).step_by(3);
    let others = frames.iter().enumerate().filter(|(place, _)| place % 3 != 2).map(|(_, frame)| frame);
    let expected: Vec<&Vec<u8>> = dns.chain(others).collect();
    let out = trace::read_timed(&directory.path().join("out.pcap"))?;
    assert_eq!(out.iter().map(|(_, frame)| frame).collect::<Vec<_>>(), expected);
    let steps: Vec<u128> = out.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis()).collect();
    // Two packets may leave at once: the shaper's bucket holds what comes in 20 ms.
    assert_eq!(steps, [&[0][..], &[10; 28]].concat());
    Ok(())
}
