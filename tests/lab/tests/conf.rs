//! Every configuration of `conf/`, byte for byte, with real packets and exactly what must come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::exchange::Exchange;
use lab::netns;
use lab::packets::{
    ETHERTYPE_ARP, ETHERTYPE_IP, ICMP, Ip, Mac, TCP, UDP, arp_reply, arp_request, ethernet, icmp, tcp, udp,
};
use lab::packets6::{ETHERTYPE_IP6, ICMP6, Ip6, Neighbour, icmp6};
use lab::pcap_ports::{self, Input, Outcome};
use lab::replay;
use lab::routebricks::{Launch, Routebricks, binary, conf};
use lab::router::Router;
use lab::table::{Route, RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};
use lab::view::Frame;
use lab::wait::wait_until;
use lab::{Context, Error, Result, trace};

type Test = fn() -> Result<()>;

/// The configurations and their tests.
const TESTS: &[(&str, Test)] = &[
    ("bench/batching.click", what_comes_in_goes_out),
    ("bench/classic-4-ports.click", a_queue_for_each_of_four_ports),
    ("bench/cores-overlap.click", two_paths_with_a_core_each),
    ("bench/cores-parallel.click", two_paths_with_a_core_each),
    ("bench/cores-pipeline.click", one_core_receives_and_one_sends),
    ("bench/io.click", what_comes_in_goes_out),
    ("bench/io-1-more.click", what_comes_in_goes_out),
    ("bench/io-16-more.click", what_comes_in_goes_out),
    ("bench/io-2-more.click", what_comes_in_goes_out),
    ("bench/io-4-more.click", what_comes_in_goes_out),
    ("bench/io-8-more.click", what_comes_in_goes_out),
    ("bench/io-large-pool.click", what_comes_in_goes_out),
    ("bench/ip-path.click", a_path_through_a_router),
    ("bench/ip-path-2-ports.click", sixteen_next_hops_behind_two_ports),
    ("bench/ip-path-large-pool.click", a_path_through_a_router),
    ("bench/ip6-path.click", a_path_through_an_ipv6_router),
    ("bench/ip6-path-large-pool.click", a_path_through_an_ipv6_router),
    ("bench/probe.click", probes_are_noted_as_they_leave_and_come_back),
    ("firewall.click", a_firewall_lets_through_what_it_should),
    ("forward.click", forwarding_swaps_the_ports),
    ("generator.click", a_generator_makes_the_packets_that_it_is_told),
    ("ip-router-2.click", a_router_with_two_interfaces),
    ("ip-router-4.click", a_router_with_four_interfaces),
    ("ip-router.click", a_router_with_three_interfaces),
    ("ip6-router.click", an_ipv6_router_with_two_interfaces),
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
fn what_comes_in_goes_out() -> Result<()> {
    let frames: Vec<Vec<u8>> =
        (1..=2000).map(|n| datagram((A, B), ("10.0.1.2", n), ("10.0.2.2", 9), 18)).collect();
    let more = ["1", "2", "4", "8", "16"].map(|n| format!("bench/io-{n}-more.click"));
    for name in ["bench/io.click", "bench/io-large-pool.click", "bench/batching.click"]
        .into_iter()
        .chain(more.iter().map(String::as_str))
    {
        assert_eq!(run(name, &[("", &frames)], &[])?.sent, std::slice::from_ref(&frames), "{name}");
    }
    Ok(())
}

/// UDP datagrams of two senders, told apart by their ports.
fn of_two_senders() -> [Vec<Vec<u8>>; 2] {
    [1, 3001].map(|first| {
        (first..first + 2000).map(|n| datagram((A, B), ("10.0.1.2", n), ("10.0.2.2", 9), 18)).collect()
    })
}

#[test]
fn one_core_receives_and_one_sends() -> Result<()> {
    let [frames, _] = of_two_senders();
    let outcome = pcap_ports::run("bench/cores-pipeline.click", &[("", &frames)], &["-j", "2"])?;
    assert!(outcome.sent == [frames], "all, in order");
    assert_eq!(outcome.lost, losses([]));
    Ok(())
}

#[test]
fn two_paths_with_a_core_each() -> Result<()> {
    let [a, b] = of_two_senders();
    let outcome = pcap_ports::run("bench/cores-parallel.click", &[("", &a), ("", &b)], &["-j", "2"])?;
    assert!(outcome.sent == [a.clone(), b.clone()], "all, in order");
    assert_eq!(outcome.lost, losses([]));
    let ports: [Input; 3] = [("", &a), ("", &b), ("", &[])];
    let outcome = pcap_ports::run("bench/cores-overlap.click", &ports, &["-j", "2"])?;
    let [.., out] = &outcome.sent[..] else { panic!("no port has sent") };
    // Each path keeps its order, whatever comes in between.
    let of =
        |frames: &[Vec<u8>]| out.iter().filter(|frame| frames.contains(frame)).cloned().collect::<Vec<_>>();
    assert!(of(&a) == a && of(&b) == b, "all, in order");
    assert_eq!((out.len(), outcome.lost), (4000, losses([])));
    Ok(())
}

#[test]
fn probes_are_noted_as_they_leave_and_come_back() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let [sent, back] = ["sent.pcap", "back.pcap"].map(|name| directory.path().join(name));
    let come: Vec<Vec<u8>> = (1..=30)
        .map(|n| {
            datagram((B, A), (if n % 3 == 0 { "198.18.0.2" } else { "198.18.0.1" }, n), ("10.0.2.2", 9), 18)
        })
        .collect();
    let arguments =
        [format!("SENT={}", sent.display()), format!("BACK={}", back.display()), "LIMIT=20".to_owned()];
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).chain(["RATE=9000", "PROBES=9000"]).collect();
    let outcome = pcap_ports::run("bench/probe.click", &[("", &come)], &arguments)?;
    assert_eq!((outcome.sent[0].len(), outcome.lost), (40, losses([])));
    let probe = |number: u16| {
        outcome.sent[0]
            .iter()
            .find(|frame| frame[26..30] == [198, 18, 0, 2] && frame[34..36] == number.to_be_bytes())
    };
    let noted = trace::read(&sent)?;
    assert_eq!(noted.len(), 20);
    for (number, noted) in (1000..).zip(noted) {
        assert_eq!(Some(&noted[..]), probe(number).map(Vec::as_slice), "probe {number}");
    }
    let expected: Vec<Vec<u8>> = come.iter().skip(2).step_by(3).cloned().collect();
    assert_eq!(trace::read(&back)?, expected);
    Ok(())
}

#[test]
fn a_path_through_a_router() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    fs::write(&table, "10.1.0.0/16 0\n").cannot(|| "write routes".to_owned())?;
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for number in 1..=2000u16 {
        let [high, low] = number.to_be_bytes();
        // Every fifth packet has no route, every seventh no time left.
        let net = if number % 5 == 0 { 2 } else { 1 };
        let mut ip = Ip::new([10, 9, 0, 1].into(), [10, net, high, low].into(), number, UDP, vec![low; 26]);
        ip.ttl = if number % 7 == 0 { 1 } else { 9 };
        frames.push(ethernet(B, A, ETHERTYPE_IP, &ip.build()));
        if net == 1 && ip.ttl > 1 {
            ip.ttl -= 1;
            let (source, destination) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
            expected.push(ethernet(destination, source, ETHERTYPE_IP, &ip.build()));
        }
    }
    let variable = format!("TABLE={}", table.display());
    for name in ["bench/ip-path.click", "bench/ip-path-large-pool.click"] {
        let outcome = run(name, &[("", &frames)], &[&variable])?;
        assert_eq!(outcome.sent, [expected.clone()], "{name}");
        let lost: u64 = outcome.lost.values().sum();
        assert_eq!(lost, (frames.len() - expected.len()) as u64, "{:?}", outcome.lost);
    }
    Ok(())
}

#[test]
fn a_queue_for_each_of_four_ports() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    fs::write(&table, "10.0.0.0/16 0\n10.1.0.0/16 1\n10.2.0.0/16 2\n10.3.0.0/16 3\n")
        .cannot(|| "write routes".to_owned())?;
    let (mut frames, mut expected) = (Vec::new(), vec![Vec::new(); 4]);
    // Fewer for each port than a queue holds.
    for number in 1..=1500u16 {
        let [high, low] = number.to_be_bytes();
        let net = (number % 5) as u8;
        let mut ip = Ip::new([10, 99, 0, 1].into(), [10, net, high, low].into(), number, UDP, vec![low; 26]);
        ip.ttl = if number % 7 == 0 { 1 } else { 9 };
        frames.push(ethernet(B, A, ETHERTYPE_IP, &ip.build()));
        if net < 4 && ip.ttl > 1 {
            ip.ttl -= 1;
            let (source, destination) = (Mac([2, 0, 0, 0, 1, net]), Mac([2, 0, 0, 0, 2, net]));
            expected[usize::from(net)].push(ethernet(destination, source, ETHERTYPE_IP, &ip.build()));
        }
    }
    let ports: [Input; 4] = [("", &frames), ("", &[]), ("", &[]), ("", &[])];
    let arguments = [format!("TABLE={}", table.display()), "BUFFERS=8192".to_owned()];
    let outcome = run("bench/classic-4-ports.click", &ports, &[&arguments[0], &arguments[1]])?;
    assert_eq!(outcome.sent, expected);
    Ok(())
}

#[test]
fn sixteen_next_hops_behind_two_ports() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    let route = |hop| format!("10.{hop}.0.0/16 192.0.2.{} {}\n", hop + 1, hop % 2);
    let routes: String = (0..16).map(route).collect();
    fs::write(&table, routes).cannot(|| "write routes".to_owned())?;
    let (mut frames, mut expected) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for number in 1..=2000u16 {
        let [high, low] = number.to_be_bytes();
        let hop = (number % 17) as u8;
        let mut ip = Ip::new([10, 99, 0, 1].into(), [10, hop, high, low].into(), number, UDP, vec![low; 26]);
        ip.ttl = if number % 7 == 0 { 1 } else { 9 };
        frames.push(ethernet(B, A, ETHERTYPE_IP, &ip.build()));
        if hop < 16 && ip.ttl > 1 {
            ip.ttl -= 1;
            let (source, destination) = (Mac([2, 0, 0, 0, 1, hop % 2]), Mac([2, 0, 0, 0, 2, hop]));
            let out = 1 + usize::from(hop % 2);
            expected[out].push(ethernet(destination, source, ETHERTYPE_IP, &ip.build()));
        }
    }
    let ports: [Input; 3] = [("", &frames), ("", &[]), ("", &[])];
    let arguments = [format!("TABLE={}", table.display()), "BUFFERS=8192".to_owned()];
    let outcome = run("bench/ip-path-2-ports.click", &ports, &[&arguments[0], &arguments[1]])?;
    for (port, (sent, expected)) in outcome.sent.into_iter().zip(expected).enumerate() {
        // What leaves by different next hops may change places.
        assert_eq!(sorted(sent), sorted(expected), "port {port}");
    }
    Ok(())
}

#[test]
fn a_path_through_an_ipv6_router() -> Result<()> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let table = directory.path().join("routes.txt");
    fs::write(&table, "2001:db8:1::/48 0\n10.0.0.0/8 0\n").cannot(|| "write routes".to_owned())?;
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for number in 1..=2000u16 {
        // Every fifth packet has no route, every seventh no hops left, every eleventh is cut short.
        let net = if number % 5 == 0 { 2 } else { 1 };
        let to = Ipv6Addr::new(0x2001, 0xdb8, net, 7, number, 0, 0, number);
        let mut ip = Ip6::new("3fff::1".parse().unwrap_or(to), to, UDP, vec![0x5a; 8]);
        ip.hop_limit = if number % 7 == 0 { 1 } else { 9 };
        let mut frame = ethernet(B, A, ETHERTYPE_IP6, &ip.build());
        let short = number % 11 == 0;
        frame.truncate(if short { 61 } else { frame.len() });
        frames.push(frame);
        if net == 1 && ip.hop_limit > 1 && !short {
            ip.hop_limit -= 1;
            let (source, destination) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
            expected.push(ethernet(destination, source, ETHERTYPE_IP6, &ip.build()));
        }
    }
    let variable = format!("TABLE={}", table.display());
    for name in ["bench/ip6-path.click", "bench/ip6-path-large-pool.click"] {
        let outcome = run(name, &[("", &frames)], &[&variable])?;
        assert_eq!(outcome.sent, [expected.clone()], "{name}");
        let lost: u64 = outcome.lost.values().sum();
        assert_eq!(lost, (frames.len() - expected.len()) as u64, "{:?}", outcome.lost);
    }
    Ok(())
}

/// The router asks for its neighbours, forwards between them, and tells what it cannot forward.
#[test]
fn an_ipv6_router_with_two_interfaces() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let path = directory.path().join("routes.txt");
    fs::write(&path, "2001:db8:1::/64 0\n2001:db8:2::/64 1\n").cannot(|| "write routes".to_owned())?;
    for workers in ["1", "2"] {
        let topology = Topology::of(2, &netns::unique_prefix(), Hosts::Silent)?;
        let launch = Launch::router("ip6-router.click", &topology, &path)?.with(&["-j", workers]);
        let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
        two_ipv6_hosts(&topology)?;
        let mut checks = router.stop()?;
        checks.retain(|check| !check.holds);
        assert!(checks.is_empty(), "-j {workers}: {checks:#?}");
    }
    Ok(())
}

fn two_ipv6_hosts(topology: &Topology) -> Result<()> {
    let links = [0, 1].map(|port| Link { port });
    let ports = [topology.raw_port(links[0])?, topology.raw_port(links[1])?];
    let global = |net: u16, host: u16| Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host);
    let (a, b) = (global(1, 2), global(2, 2));
    let send = |from: usize, ip: &Ip6| {
        ports[from].send(&ethernet(
            links[from].router_mac(),
            links[from].host_mac(),
            ETHERTYPE_IP6,
            &ip.build(),
        ))
    };
    let expect = |at: usize, frame: Vec<u8>| {
        let mut others = 0;
        wait_until("the packet", Duration::from_secs(5), || {
            while let Some(seen) = ports[at].receive()? {
                if seen == frame {
                    return Ok(Some(()));
                }
                others += 1;
            }
            Ok(None)
        })
        .cannot(|| format!("see {frame:02x?} at port {at}, but {others} others"))
    };
    let forwarded = |at: usize, ip: &Ip6| {
        let ip = Ip6 { hop_limit: ip.hop_limit - 1, ..ip.clone() };
        expect(at, ethernet(links[at].host_mac(), links[at].router_mac(), ETHERTYPE_IP6, &ip.build()))
    };
    for (from, ip) in [(0, Ip6::new(a, b, UDP, vec![1; 30])), (1, Ip6::new(b, a, UDP, vec![2; 30]))] {
        let to = 1 - from;
        let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, to as u16 + 1, 1);
        let ask = Neighbour::ask(own, links[to].router_mac(), ip.destination);
        send(from, &ip)?;
        expect(to, ask)?;
        ports[to].send(&Neighbour::tell(
            ip.destination,
            links[to].host_mac(),
            own,
            links[to].router_mac(),
        ))?;
        forwarded(to, &ip)?;
    }
    let spent = Ip6 { hop_limit: 1, ..Ip6::new(a, b, UDP, vec![3; 30]) };
    send(0, &spent)?;
    let told = |from: Ipv6Addr, to: Ipv6Addr, kind: u8, code: u8, word: u32, quote: &Ip6| {
        Ip6::new(from, to, ICMP6, icmp6((from, to), (kind, code), word, &quote.build()))
    };
    forwarded(0, &told(global(2, 1), a, 3, 0, 0, &spent))?;
    let lost = Ip6::new(b, global(3, 9), UDP, vec![4; 30]);
    send(1, &lost)?;
    forwarded(1, &told(global(1, 1), b, 1, 0, 0, &lost))?;
    // An error about a packet to one of the router's addresses comes from that (RFC 4443 §2.2 (a)).
    let unheard = Ip6::new(a, global(2, 1), UDP, vec![5; 30]);
    send(0, &unheard)?;
    forwarded(0, &told(global(2, 1), a, 1, 4, 0, &unheard))?;
    let ping = Ip6::new(a, global(1, 1), ICMP6, icmp6((a, global(1, 1)), (128, 0), 9, b"are you there?"));
    send(0, &ping)?;
    let reply = icmp6((global(1, 1), a), (129, 0), 9, b"are you there?");
    forwarded(0, &Ip6::new(global(1, 1), a, ICMP6, reply))
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
