//! The pattern language of `IPClassifier` and `IPFilter`: what patterns mean, that the program does what they mean, and
//! that tcpdump agrees.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::classify::filter::{Base, Expr, Field, Op, Program, Test, View, parse};
use elements::harness::{Bench, Setup};
use io::pcap::{LinkType, Reader, SNAP_LEN, Writer};
use lang::{Span, Text};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::process::Command;

fn read(pattern: &str) -> Result<Expr, String> {
    let text = Text::verbatim(pattern, Span::new(0, 0..pattern.len()));
    parse(&text).map_err(|(message, span)| format!("{}-{} {message}", span.start, span.end))
}

/// An IPv4 packet: protocol, source, destination, then what is behind the header.
fn ip(protocol: u8, source: [u8; 4], destination: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + rest.len()).unwrap();
    let mut p = vec![0x45, 0x2e];
    p.extend(length.to_be_bytes());
    p.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    p.extend(source);
    p.extend(destination);
    p.extend(rest);
    p
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    let mut p = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    // As TCP: sequence numbers, header length 20, SYN and ACK, window 512.
    p.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 2, 0, 0, 0, 0, 0]);
    p
}

/// Which of four packets match: TCP, a later fragment of TCP, UDP, ICMP.
const MEANINGS: &[(&str, &str)] = &[
    ("-", "1111"),
    ("any", "1111"),
    ("false", "0000"),
    ("ip", "1111"),
    ("tcp", "1100"),
    ("ip proto tcp", "1100"),
    ("ip proto 17", "0010"),
    ("proto != 6", "0011"),
    ("tcpudp", "1110"),
    ("ip proto tcpudp", "1110"),
    ("ip proto != tcpudp", "0001"),
    ("src host 10.0.0.1", "1110"),
    ("host 10.0.0.1", "1111"),
    ("10.0.0.1", "1111"),
    ("dst 10.0.0.1", "0001"),
    ("host != 10.0.0.1", "0000"),
    ("dst host != 10.0.0.1", "1110"),
    ("net 10.0.0.0/8", "1111"),
    ("dst net 10.0.0.0/8", "0011"),
    ("dst net 10/8", "0011"),
    ("192.168/16", "1100"),
    ("src and dst net 10.0.0.0/8", "0010"),
    ("dst and src 10.0.0.0/8", "0010"),
    ("dst net 192.168.0.0 mask 255.255.0.0", "1100"),
    ("192.168.1.0/24", "1100"),
    ("src host 1.2.3.4 or 10.0.0.1", "1111"),
    ("dst host 1.2.3.4 or 10.0.0.2", "0010"),
    ("dst host 1.2.3.4 or 192.168.0.0/16", "1100"),
    ("port 80", "1000"),
    ("tcp port www", "1000"),
    ("www", "1000"),
    ("dst www", "1000"),
    ("src port 80 or 1234", "1000"),
    ("src tcp port 1234 and dst port 80", "1000"),
    ("udp src or dst port domain", "0010"),
    ("udp port 80", "0000"),
    ("port != 80", "0010"),
    ("not port 80", "0111"),
    ("! port 80 && ! icmp", "0110"),
    ("port > 1000", "1000"),
    ("src and dst port < 100", "0010"),
    ("port <= 53", "0010"),
    ("port >= 1234", "1000"),
    ("port >= 0", "1010"),
    ("port < 0", "0000"),
    ("port & 0xfff0 == 80", "1000"),
    ("syn", "1000"),
    ("tcp opt ack and not fin", "1000"),
    ("tcp opt != fin", "1000"),
    ("tcp opt syn and ack", "1000"),
    ("tcp win 512", "1000"),
    ("tcp[13] & 2 != 0", "1000"),
    ("tcp[12:2] = 0x5012", "1000"),
    ("transp[2:2] 53", "0010"),
    ("udp[0:4] = 0x00350035", "0010"),
    ("icmp type echo", "0001"),
    ("icmp echo", "0001"),
    ("icmp type > 8", "0000"),
    ("icmp[0] 8", "0001"),
    ("ip vers 4", "1111"),
    ("ip hl 5", "1111"),
    ("ip hl > 5", "0000"),
    ("ip tos 0x2e", "1111"),
    ("ip tos & 0x0f == 0x0e", "1111"),
    ("ip dscp 11", "1111"),
    ("ip ect", "1111"),
    ("ip ce", "0000"),
    ("ip id 0x1234", "1111"),
    ("ip ttl 64", "1111"),
    ("ip ttl < 64", "0000"),
    ("ip len 24", "0001"),
    ("ip frag", "0100"),
    ("ip unfrag", "1011"),
    ("ip[6:2] & 0x1fff = 0", "1011"),
    ("ip[0:1] 69", "1111"),
    ("ether host 2:0:0:0:0:1", "1111"),
    ("src ether host 2:0:0:0:0:1", "0000"),
    ("ether src 02-00-00-00-00-02", "1111"),
    ("dst ether host != 2:0:0:0:0:2", "1111"),
    ("tcp ? port 80 : icmp", "1001"),
    ("(tcp or udp) and not (src port 53 or 1234)", "0100"),
    ("tcp and udp or icmp", "0001"),
    ("icmp or tcp and udp", "0001"),
    ("not not tcp", "1100"),
];

#[test]
fn what_patterns_mean() {
    let tcp = ip(6, [10, 0, 0, 1], [192, 168, 1, 2], &ports(1234, 80));
    let mut fragment = tcp.clone();
    fragment[7] = 5;
    let udp = ip(17, [10, 0, 0, 1], [10, 0, 0, 2], &ports(53, 53));
    let icmp = ip(1, [1, 2, 3, 4], [10, 0, 0, 1], &[8, 0, 0, 0]);
    let packets = [tcp, fragment, udp, icmp];
    let ether = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (pattern, want) in MEANINGS {
        let expr = read(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        let program = Program::new(&[(expr.clone(), 1)], 0);
        let mut got = String::new();
        for packet in &packets {
            let view = View::new(packet, Some(&ether));
            assert_eq!(expr.matches(&view), program.run(&view) == 1, "{pattern}");
            got.push(if expr.matches(&view) { '1' } else { '0' });
        }
        assert_eq!(got, *want, "{pattern}");
    }
}

#[test]
fn mistakes_are_located() {
    for (pattern, want) in [
        ("", "0-0 empty pattern"),
        ("tcp and", "7-7 pattern ends too early"),
        ("tcp udp port 5 6", "15-16 unexpected '6'"),
        ("port 70000", "5-10 '70000': out of range, bound 65535"),
        ("port foo", "5-8 'foo': invalid number"),
        ("port", "4-4 value missing"),
        ("port and tcp", "5-8 value missing"),
        ("17", "0-2 number of what: '17'"),
        ("frobnicate", "0-10 unknown word 'frobnicate'"),
        ("(tcp", "4-4 ')' missing"),
        ("tcp)", "3-4 unexpected ')'"),
        ("tcp ? udp", "9-9 ':' missing"),
        ("host 1.2.3", "5-10 '1.2.3' is no IPv4 address"),
        ("net 10.1", "4-8 '10.1' is no IPv4 prefix"),
        ("net 1.2.3.0/40", "4-14 '1.2.3.0/40' is no IPv4 prefix"),
        ("src ip ttl 5", "11-12 'src' and 'dst' go with hosts, nets and ports only"),
        ("host > 1.2.3.4", "7-14 only numbers have a mask or an order; use '==' or '!='"),
        ("ip[6:9] 1", "3-6 length: out of range, bound 4"),
        ("ip[6:1] 256", "8-11 value: out of range, bound 255"),
        ("tcp opt foo", "8-11 unknown TCP flag 'foo'"),
        ("tcp $", "4-5 unexpected '$'"),
        ("or", "0-2 unexpected 'or'"),
    ] {
        assert_eq!(read(pattern).unwrap_err(), want, "{pattern}");
    }
    let deep = "(".repeat(5000);
    assert!(read(&deep).unwrap_err().contains("more than 4000 words"));
    assert!(read(&"not ".repeat(3000)).unwrap_err().contains("nested more than 100 deep"));
    // Long but flat is fine.
    let long = vec!["port 80"; 1300].join(" or ");
    let program = Program::new(&[(read(&long).unwrap(), 1)], 0);
    assert!(program.may_reach(1) && program.may_reach(0));
}

#[test]
fn rules_that_no_packet_comes_to() {
    let reach = |patterns: &[&str]| -> Vec<bool> {
        let rules: Vec<_> = (0..).zip(patterns).map(|(i, p)| (read(p).unwrap(), i)).collect();
        let program = Program::new(&rules, 99);
        rules.iter().map(|(_, i)| program.may_reach(*i)).collect()
    };
    assert_eq!(reach(&["tcp", "-", "udp"]), [true, true, false]);
    assert_eq!(reach(&["src net 10.0.0.0/8", "src host 10.1.1.1", "udp"]), [true, false, true]);
    assert_eq!(reach(&["tcp and udp", "ip ttl > 5 and ip ttl < 3", "tcp"]), [false, false, true]);
    assert_eq!(reach(&["port 80", "tcp dst port 80", "not port 80"]), [true, false, true]);
    let warnings = |config: &str| -> Vec<String> {
        let bench = Bench::new(config, &Setup::default()).unwrap();
        bench.router.warnings().iter().map(|d| d.message.clone()).collect()
    };
    assert_eq!(
        warnings("Idle -> c :: IPClassifier(-, tcp); c[0] -> Discard; c[1] -> Discard"),
        ["PATTERN: pattern 1 matches no packets"]
    );
    assert_eq!(
        warnings("Idle -> IPFilter(allow tcp, deny all, allow udp) -> Discard"),
        ["PATTERN: pattern 2 matches no packets"]
    );
}

#[test]
fn configurations_that_are_wrong() {
    for (config, want) in [
        ("Idle -> IPClassifier(tcp, udp) -> Discard", "2 patterns for 1 outputs"),
        ("Idle -> IPClassifier(tpc) -> Discard", "pattern 0: unknown word 'tpc'"),
        (
            "Idle -> IPFilter(permit tcp) -> Discard",
            "rule 0: 'permit' is no action: allow, deny, drop or an output",
        ),
        ("Idle -> IPFilter(allow tcp, 1 udp) -> Discard", "rule 1: there is no output 1"),
        ("Idle -> IPFilter(allow) -> Discard", "rule 0: empty pattern"),
    ] {
        let error = Bench::new(config, &Setup::default()).err().unwrap_or_default();
        assert!(error.contains(want), "{config}: {error}");
    }
}

#[test]
fn the_program_can_be_read() {
    let bench =
        Bench::new("Idle -> f :: IPFilter(allow tcp port 80, deny all) -> Discard", &Setup::default())
            .unwrap();
    assert_eq!(
        bench.read("f.program"),
        "  0  ip proto == 6  yes -> step 1  no -> deny\n\
         \x20 1  src port == 80  yes -> allow  no -> step 2\n\
         \x20 2  dst port == 80  yes -> allow  no -> deny\n"
    );
}

/// Packets that are mostly sound, with few values, so that patterns match now and then.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let small = || prop_oneof![Just(1u8), Just(6), Just(17), Just(2)];
    let port = || prop_oneof![Just(22u16), Just(80), Just(53), Just(1024)];
    let fragment = prop_oneof![6 => Just(0u16), 1 => Just(0x2000), 1 => Just(0x2005), 1 => Just(0x4000)];
    let rest = proptest::collection::vec(any::<u8>(), 40..60);
    (small(), 1..4u8, 1..4u8, port(), port(), fragment, any::<u8>(), 5..8u8, rest).prop_map(
        |(protocol, s, d, sport, dport, fragment, ttl, words, rest)| {
            let options = vec![1; usize::from(words - 5) * 4];
            let behind = [&options[..], &sport.to_be_bytes(), &dport.to_be_bytes(), &rest].concat();
            let mut p = ip(protocol, [10, 0, s, 1], [10, 0, d, 1], &behind);
            p[0] = 0x40 | words;
            p[6..8].copy_from_slice(&fragment.to_be_bytes());
            p[8] = ttl;
            p
        },
    )
}

fn field() -> impl Strategy<Value = Field> {
    let bytes = |base, at, len| Field::Bytes { base, at, len };
    proptest::sample::select(vec![
        Field::Version,
        Field::Ttl,
        Field::Protocol,
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
        Field::TcpFlags,
        Field::IcmpType,
        Field::Fragment,
        bytes(Base::Ip, 9, 1),
        bytes(Base::Transport, 0, 2),
        bytes(Base::Protocol(6), 0, 4),
        bytes(Base::Ip, 200, 2),
    ])
}

fn test() -> impl Strategy<Value = Expr> {
    let value =
        proptest::sample::select(vec![0, 1, 2, 4, 6, 17, 22, 53, 80, 255, 0x0a00_0101, 0x0a00_0201, 0x2000]);
    let mask = proptest::sample::select(vec![u32::MAX, 0xff, 0xff00, 0xffff_0000, 0x3fff, 0]);
    let op = proptest::sample::select(vec![Op::Any, Op::Equal, Op::Equal, Op::Greater]);
    (field(), mask, op, value)
        .prop_map(|(field, mask, op, value)| Expr::Test(Test { field, mask, op, value }))
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![8 => test(), 1 => any::<bool>().prop_map(Expr::Constant)];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed().prop_map(Expr::Not),
            (boxed(), boxed()).prop_map(|(a, b)| Expr::And(a, b)),
            (boxed(), boxed()).prop_map(|(a, b)| Expr::Or(a, b)),
            (boxed(), boxed(), boxed()).prop_map(|(a, b, c)| Expr::If(a, b, c)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_program_means_what_the_patterns_mean(
        rules in proptest::collection::vec(expr(), 1..5),
        packets in proptest::collection::vec(packet(), 1..20),
        cut in 0..70usize,
    ) {
        let rules: Vec<(Expr, u16)> = rules.into_iter().zip(0..).collect();
        let program = Program::new(&rules, 99);
        for mut packet in packets {
            for _ in 0..2 {
                let view = View::new(&packet, None);
                let want = rules.iter().find(|(e, _)| e.matches(&view)).map_or(99, |(_, r)| *r);
                prop_assert_eq!(program.run(&view), want);
                prop_assert!(program.may_reach(want));
                packet.truncate(cut);
            }
        }
    }

    #[test]
    fn no_text_and_no_packet_does_harm(text in "[a-z0-9 ()!&|=<>?:./\\[\\]-]{0,60}", bytes: Vec<u8>) {
        if let Ok(expr) = read(&text) {
            let view = View::new(&bytes, None);
            prop_assert_eq!(Program::new(&[(expr.clone(), 1)], 0).run(&view) == 1, expr.matches(&view));
        }
    }

    #[test]
    fn words_in_any_order_do_no_harm(words in proptest::collection::vec(proptest::sample::select(vec![
        "src", "dst", "or", "and", "not", "(", ")", "host", "net", "port", "80", "www", "10.0.0.1", "10.0.0.0/8", "tcp",
        "udp", "ip", "proto", "!=", "<", "&", "?", ":", "ip[6:2]", "syn", "ether", "1:2:3:4:5:6", "type", "frag", "-",
    ]), 0..12)) {
        if let Ok(expr) = read(&words.join(" ")) {
            let packet = ip(6, [10, 0, 0, 1], [192, 168, 1, 2], &ports(1234, 80));
            let view = View::new(&packet, None);
            prop_assert_eq!(Program::new(&[(expr.clone(), 1)], 0).run(&view) == 1, expr.matches(&view));
        }
    }
}

/// Our pattern, and tcpdump's for the same; empty = the same words.
const BOTH: &[(&str, &str)] = &[
    ("tcp", ""),
    ("udp port 53", ""),
    ("port 80", ""),
    ("src port 80 or dst port 53", ""),
    ("src port 22 or 80", "src port 22 or src port 80"),
    ("tcp port 80 or icmp", ""),
    ("src host 10.0.1.1", ""),
    ("src and dst net 10.0.2.0/24", ""),
    ("dst net 10.0.2/24", ""),
    ("src or dst net 10.0.2.0/24 and not tcp", ""),
    ("not (host 10.0.1.1 or host 10.0.2.1)", ""),
    ("ip proto 2 or udp", ""),
    ("port != 80", "(tcp or udp) and ip[6:2] & 0x1fff = 0 and not port 80"),
    ("port > 79", "(src portrange 80-65535 or dst portrange 80-65535)"),
    ("syn", "tcp[13] & 2 != 0"),
    ("tcp opt syn and not ack", "tcp[13] & 2 != 0 and not tcp[13] & 16 != 0"),
    ("tcp[13] & 0x12 == 2", ""),
    ("icmp type sourcequench", "icmp[0] = 4"),
    ("udp[4:2] > 100", ""),
    ("ip frag", "ip[6:2] & 0x3fff != 0"),
    ("ip unfrag", "ip[6:2] & 0x3fff = 0"),
    ("ip ttl < 100", "ip[8] < 100"),
    ("ip hl 6", "ip[0] & 0xf = 6"),
    ("ip[8:2] & 0xff = 17", ""),
    ("tcp ? port 80 : src port 53", "(tcp and port 80) or (not tcp and src port 53)"),
];

#[test]
fn tcpdump_agrees() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("skipped: tcpdump is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = packet();
    let ether = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let mut packets = Vec::new();
    let mut writer = Writer::create(&path, LinkType::Ethernet, SNAP_LEN).unwrap();
    for i in 0..2000 {
        let ip = strategy.new_tree(&mut runner).unwrap().current();
        let frame = [&ether[..], &[8, 0], &ip].concat();
        writer.write(i, u32::try_from(frame.len()).unwrap(), &frame).unwrap();
        packets.push(ip);
    }
    writer.flush().unwrap();
    for (ours, theirs) in BOTH {
        let expr = read(ours).unwrap();
        let matching = |p: &&Vec<u8>| expr.matches(&View::new(p, Some(&ether)));
        let want: Vec<&Vec<u8>> = packets.iter().filter(matching).collect();
        let out = dir.path().join("out.pcap");
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.arg("-r").arg(&path).arg("-w").arg(&out);
        let said = tcpdump.arg(if theirs.is_empty() { ours } else { theirs }).output().unwrap();
        assert!(said.status.success(), "{ours}: {}", String::from_utf8_lossy(&said.stderr));
        let mut reader = Reader::open(&out).unwrap();
        let mut got = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            got.push(record.data[14..].to_vec());
        }
        assert!(got.iter().eq(want.iter().copied()), "{ours}: {} packets, tcpdump {}", want.len(), got.len());
        assert!(!got.is_empty() && got.len() < packets.len(), "{ours} tells nothing");
    }
}
