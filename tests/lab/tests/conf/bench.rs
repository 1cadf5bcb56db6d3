//! The configurations that benches run.

use std::fs;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use lab::packets::{ETHERTYPE_IP, Ip, Mac, UDP, ethernet};
use lab::packets6::{ETHERTYPE_IP6, Ip6};
use lab::pcap_ports::Input;
use lab::process::Process;
use lab::routebricks::{binary, conf};
use lab::{Context, Error, Result, pcap_ports, trace};

use crate::{A, B, datagram, losses, run, sorted};

/// How long a router may take to start or end.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
pub fn what_comes_in_goes_out() -> Result<()> {
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
pub fn one_core_receives_and_one_sends() -> Result<()> {
    let [frames, _] = of_two_senders();
    let outcome = pcap_ports::run("bench/cores-pipeline.click", &[("", &frames)], &["-j", "2"])?;
    assert!(outcome.sent == [frames], "all, in order");
    assert_eq!(outcome.lost, losses([]));
    Ok(())
}

#[test]
pub fn two_paths_with_a_core_each() -> Result<()> {
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
pub fn probes_are_noted_as_they_leave_and_come_back() -> Result<()> {
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
pub fn a_path_through_a_router() -> Result<()> {
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
pub fn a_queue_for_each_of_four_ports() -> Result<()> {
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
pub fn sixteen_next_hops_behind_two_ports() -> Result<()> {
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
pub fn a_path_through_an_ipv6_router() -> Result<()> {
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

/// One process sends to another until that is ended; what it counts is what it received, and both books balance.
#[test]
pub fn frames_cross_a_ring() -> Result<()> {
    let directory = tempfile::tempdir().cannot(|| "make a directory".to_owned())?;
    let device = format!("DEVICE=ring:{}", directory.path().join("ring").display());
    let start = |name: &str, words: &[&str]| {
        let mut command = Command::new(binary()?);
        command.arg("run").arg(conf(&format!("bench/{name}.click"))).arg(&device).args(words);
        Process::spawn(command, name, directory.path())
    };
    let mut receiver = start("ring-receive", &["--read", "rate.count"])?;
    receiver.wait_for_line("routebricks: ready", LIMIT)?;
    let mut sender = start("ring-send", &["LENGTH=100"])?;
    std::thread::sleep(Duration::from_millis(500));
    receiver.terminate(LIMIT)?;
    let status = sender.terminate(LIMIT)?;
    let printed = receiver.printed()?;
    let count = printed.lines().find_map(|line| line.trim().parse::<u64>().ok()).unwrap_or_default();
    assert!(count > 1000, "{printed}");
    let books = format!("{count} packets in, {count} out, 0 lost, 0 held, 0 buffers missing");
    assert!(printed.contains(&books), "{printed}");
    // Missing buffers, or a book that does not balance, would be a failure.
    assert!(status.success(), "{status} {}", sender.printed()?);
    assert!(!directory.path().join("ring").exists(), "the last to go takes the file away");
    Ok(())
}
