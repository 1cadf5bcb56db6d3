//! Rates under simulated time, and the order in which schedulers pull.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::harness::{Bench, Setup};
use io::pcap::Reader;

const SECOND: u64 = 1_000_000_000;

fn after(config: &str, burst: usize, seconds: u64, handler: &str) -> u64 {
    let mut bench = Bench::new(config, &Setup { burst, ..Setup::default() }).unwrap();
    // What is due after exactly so many seconds has its turn too.
    bench.run_for(seconds * SECOND + 1_000_000);
    let count = bench.read(handler).parse().unwrap();
    bench.end().unwrap();
    count
}

#[test]
fn ten_seconds_of_each() {
    for burst in [1, 32] {
        for (limiter, want) in [
            ("RatedUnqueue(2)", 20..=20),
            ("RatedUnqueue(2, BURST_SIZE 50)", 70..=70),
            ("RatedUnqueue(2, BURST_DURATION 25s)", 70..=70),
            ("RatedUnqueue(100, BURST_SIZE 1)", 910..=910),
            ("RatedUnqueue(1000)", 9900..=10_021),
            ("RatedUnqueue(0)", 1..=1),
            ("RatedUnqueue(30)", 298..=301),
            ("Shaper(500)", 4950..=5010),
            // 64 bytes a packet.
            ("BandwidthRatedUnqueue(6400)", 1000..=1003),
            ("BandwidthShaper(512kbps)", 9900..=10_021),
        ] {
            let config = format!("InfiniteSource -> Queue(200) -> {limiter} -> d :: Discard");
            let got = after(&config, burst, 10, "d.count");
            assert!(want.contains(&got), "{limiter}, burst {burst}: {got}");
        }
        for (source, want) in [
            ("RatedSource(RATE 10)", 100..=100),
            ("RatedSource(RATE 3000)", 29_700..=30_063),
            ("RatedSource(RATE 10, LIMIT 7)", 7..=7),
            ("RatedSource(RATE 10, ACTIVE false)", 0..=0),
        ] {
            let got = after(&format!("{source} -> d :: Discard"), burst, 10, "d.count");
            assert!(want.contains(&got), "{source}, burst {burst}: {got}");
        }
    }
}

#[test]
fn a_rate_may_be_changed_while_it_runs() {
    let config = "InfiniteSource -> Queue(100) -> u :: RatedUnqueue(10) -> d :: Discard";
    let mut bench = Bench::new(config, &Setup::default()).unwrap();
    bench.run_for(SECOND);
    bench.write("d.reset_counts", "").unwrap();
    bench.write("u.rate", "100").unwrap();
    bench.run_for(11 * SECOND);
    let count: u64 = bench.read("d.count").parse().unwrap();
    assert!((990..=1002).contains(&count), "{count}");
    assert!(bench.write("u.rate", "x").is_err());
    bench.end().unwrap();
}

/// The third byte of every packet that is pulled through, in order.
fn order(config: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let config = format!("{config} s -> ToDump({})", path.display());
    let mut bench = Bench::new(&config, &Setup::default()).unwrap();
    bench.run().unwrap();
    bench.end().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut text = String::new();
    while let Some(record) = reader.next_record().unwrap() {
        text.push(char::from(record.data[0]));
    }
    text
}

#[test]
fn schedulers_pull_in_their_order() {
    // Everything is in the queues before anything is pulled.
    let sources = "InfiniteSource(DATA a, LIMIT 3) -> [0] s; InfiniteSource(DATA b, LIMIT 5) -> [1] s; \
                   InfiniteSource(DATA c, LIMIT 2) -> [2] s;";
    assert_eq!(order(&format!("s :: PrioSched; {sources}")), "aaabbbbbcc");
    assert_eq!(order(&format!("s :: RoundRobinSched; {sources}")), "abcabcabbb");
}

#[test]
fn udp_packets_change_their_ports() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let config = format!(
        "FastUDPSource(0, 7, 60, 0:0:0:0:0:1, 10.0.0.1, 1000, 0:0:0:0:0:2, 10.0.0.2, 2000, INTERVAL 3) \
         -> ToDump({})",
        path.display()
    );
    let mut bench = Bench::new(&config, &Setup::default()).unwrap();
    bench.run().unwrap();
    bench.end().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut ports = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        ports.push(u16::from_be_bytes([record.data[34], record.data[35]]));
    }
    assert_eq!(ports, [1000, 1000, 1000, 1001, 1001, 1001, 1002]);
}

#[test]
fn what_is_wrong_is_said() {
    for (config, want) in [
        ("Idle -> Queue -> RatedUnqueue() -> Discard", "RATE: required argument missing"),
        ("Idle -> Queue -> RatedUnqueue(1Mbps) -> Discard", "RATE: invalid number"),
        (
            "Idle -> Queue -> RatedUnqueue(5, BURST_SIZE 2, BURST_DURATION 1s) -> Discard",
            "give a duration or a size, not both",
        ),
        ("RatedSource(DATA \"\", LENGTH 4) -> Discard", "LENGTH: there is no DATA to repeat"),
    ] {
        let error = Bench::new(config, &Setup::default()).err().unwrap_or_default();
        assert!(error.contains(want), "{config}: {error}");
    }
}
