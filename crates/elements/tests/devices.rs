//! Receiving and sending: queues and workers, order, full devices, what is refused.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::harness::{Bench, Setup};
use io::memory::{MemoryDevices, MemoryPort, Refuses};
use io::{Devices, Limits, Refusal};
use packet::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;

const FLOWS: u8 = 23;

/// A UDP frame: `flow` is the source address, `sequence` stands at the end.
fn frame(flow: u8, sequence: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 0, 0, flow, 10, 0, 1, 1, 4, 1, 0, 53, 0, 26, 0, 0]);
    frame.resize(58, 0);
    frame.extend(sequence.to_be_bytes());
    frame
}

struct Bed {
    devices: Arc<MemoryDevices>,
    bench: Bench,
}

impl Bed {
    fn new(config: &str, workers: usize, rx_queues: u16, tx_queues: u16) -> Result<Bed, String> {
        let limits = Limits { rx_queues, tx_queues };
        let devices = Arc::new(MemoryDevices::new(Pool::heap(4096, 2048), &["a", "b"], limits));
        let setup = Setup { workers, burst: 8, devices: devices.clone(), ..Setup::default() };
        Ok(Bed { bench: Bench::new(config, &setup)?, devices })
    }

    fn port(&self, name: &str) -> Arc<MemoryPort> {
        self.devices.memory(name).unwrap()
    }

    /// Puts `n` frames into port `a`, flows by turns, each flow always into one queue.
    fn inject(&self, n: u16, queues: usize) {
        for i in 0..n {
            let flow = u8::try_from(i % u16::from(FLOWS)).unwrap();
            let frame = frame(flow, i / u16::from(FLOWS));
            assert!(self.port("a").inject(&self.devices.pool(), usize::from(flow) % queues, &frame));
        }
        self.port("a").finish();
    }
}

/// The sequence numbers of each flow, in the order in which they were sent.
fn by_flow(sent: Vec<Vec<u8>>) -> BTreeMap<u8, Vec<u16>> {
    let mut flows: BTreeMap<u8, Vec<u16>> = BTreeMap::new();
    for f in sent {
        flows.entry(f[29]).or_default().push(u16::from_be_bytes([f[58], f[59]]));
    }
    flows
}

#[test]
fn workers_and_queues_make_no_difference_to_what_comes_out() {
    let n = 1000;
    let mut want: BTreeMap<u8, Vec<u16>> = BTreeMap::new();
    for i in 0..n {
        want.entry(u8::try_from(i % u16::from(FLOWS)).unwrap()).or_default().push(i / u16::from(FLOWS));
    }
    for config in [
        "in :: FromDPDKDevice(a) -> c :: Counter -> out :: ToDPDKDevice(b)",
        "in :: FromDevice(a) -> c :: Counter -> Queue(5000) -> out :: ToDevice(b)",
    ] {
        for (workers, rx, tx) in [(1, 1, 1), (2, 1, 1), (3, 1, 2), (2, 2, 2), (3, 2, 8), (1, 2, 1)] {
            let mut bed = Bed::new(config, workers, rx, tx).unwrap();
            let queues = usize::from(rx).min(workers);
            bed.inject(n, queues);
            bed.bench.run().unwrap();
            let got = by_flow(bed.port("b").sent());
            // Once each, whoever hands packets to whom.
            for row in bed.bench.router.node_rows() {
                assert_eq!(row.packets, u64::from(n), "{} {workers} {rx} {tx}", row.element);
            }
            assert_eq!(got, want, "{config}: {workers} workers, {rx} and {tx} queues");
            assert_eq!(bed.bench.read("in.count"), "1000");
            assert_eq!(bed.bench.read("c.count"), "1000");
            assert_eq!(bed.bench.read("out.byte_count"), "60000");
            assert_eq!(bed.bench.losses(), Vec::<String>::new());
            assert!(!bed.bench.router.waits_for_outside(), "all queues are finished");
            bed.bench.end().unwrap();
        }
    }
}

#[test]
fn one_queue_feeds_all_workers() {
    let mut bed = Bed::new("FromDPDKDevice(a) -> s :: Counter -> Discard", 3, 1, 1).unwrap();
    bed.inject(1000, 1);
    bed.bench.run().unwrap();
    let counter = bed.bench.router.find("s").unwrap();
    let stats = bed.bench.router.stats();
    let packets: Vec<u64> = stats.iter().map(|w| w.nodes[counter.index()].packets()).collect();
    assert_eq!(packets.iter().sum::<u64>(), 1000);
    assert!(packets.iter().all(|n| *n >= 150), "{packets:?}");
    bed.bench.end().unwrap();
}

#[test]
fn a_device_may_feed_an_element_that_lives_on_one_worker() {
    let mut bed = Bed::new("FromDPDKDevice(a) -> f :: ToDump(/dev/null)", 3, 1, 1).unwrap();
    bed.inject(100, 1);
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("f.count"), "100");
    bed.bench.end().unwrap();
}

#[test]
fn a_full_device_loses_packets_by_name() {
    for workers in [1, 2] {
        let config = "FromDPDKDevice(a) -> out :: ToDPDKDevice(b, IQUEUE 20)";
        let mut bed = Bed::new(config, workers, 1, 1).unwrap();
        bed.inject(100, 1);
        bed.port("b").set_tx_room(Some(30));
        bed.bench.run().unwrap();
        assert_eq!(bed.bench.read("out.count"), "30");
        assert_eq!(bed.bench.losses(), ["out.tx_full = 50"]);
        assert_eq!(bed.bench.read("out.dropped"), "50");
        // The 20 that wait go when there is room again.
        bed.port("b").set_tx_room(None);
        bed.bench.run().unwrap();
        assert_eq!(bed.bench.read("out.count"), "50");
        bed.bench.end().unwrap();
    }
    let mut bed = Bed::new("FromDPDKDevice(a) -> out :: ToDPDKDevice(b, BLOCKING true)", 1, 1, 1).unwrap();
    bed.inject(100, 1);
    bed.port("b").set_tx_room(Some(0));
    bed.bench.run().unwrap();
    bed.bench.end().unwrap();
}

/// Nothing waits behind a packet that the device refuses for good, whatever the reason and wherever it stands.
#[test]
fn what_the_device_refuses_is_dropped_by_name() {
    let configs = [
        "FromDPDKDevice(a) -> out :: ToDPDKDevice(b)",
        "FromDPDKDevice(a) -> out :: ToDPDKDevice(b, BURST 1)",
        "FromDPDKDevice(a) -> Queue(1000) -> out :: ToDevice(b)",
    ];
    for (config, workers) in configs.into_iter().flat_map(|c| [(c, 1), (c, 2)]) {
        for (refuses, sent, why) in [
            (Refuses::Everything(Refusal::LinkDown), 0, "link_down"),
            (Refuses::Everything(Refusal::DeviceGone), 0, "device_gone"),
            (Refuses::Everything(Refusal::TxError), 0, "tx_error"),
            (Refuses::After(30), 30, "link_down"),
            (Refuses::LongerThan(60), 100, "oversized"),
        ] {
            let mut bed = Bed::new(config, workers, 1, 1).unwrap();
            bed.port("b").set_refuses(refuses);
            let long = vec![0; 200];
            if matches!(refuses, Refuses::LongerThan(_)) {
                assert!(bed.port("a").inject(&bed.devices.pool(), 0, &long));
            }
            bed.inject(100, 1);
            bed.bench.run().unwrap();
            let refused = if sent == 100 { 1 } else { 100 - sent };
            assert_eq!(bed.bench.read("out.count"), sent.to_string(), "{config} {refuses:?}");
            assert_eq!(bed.bench.losses(), [format!("out.{why} = {refused}")], "{config} {refuses:?}");
            assert_eq!(bed.bench.read("out.dropped"), refused.to_string());
            // The device is well again.
            bed.port("b").set_refuses(Refuses::Nothing);
            assert_eq!(bed.port("b").sent().len(), usize::try_from(sent).unwrap());
            bed.bench.end().unwrap();
        }
    }
}

#[test]
fn what_the_device_does_not_take_is_tried_again_in_order() {
    let mut bed = Bed::new("FromDevice(a) -> q :: Queue(60) -> out :: ToDevice(b)", 1, 1, 1).unwrap();
    bed.inject(50, 1);
    bed.port("b").set_tx_room(Some(13));
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("out.count"), "13");
    assert_eq!(bed.bench.read("q.length"), "34");
    bed.port("b").set_tx_room(None);
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("out.count"), "50");
    let flows = by_flow(bed.port("b").sent());
    assert!(flows.values().all(|s| s.is_sorted()) && flows.len() == usize::from(FLOWS));
    bed.bench.end().unwrap();
}

#[test]
fn an_inactive_element_does_not_read() {
    let mut bed = Bed::new("in :: FromDPDKDevice(a, ACTIVE false) -> Discard", 1, 1, 1).unwrap();
    bed.inject(10, 1);
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("in.count"), "0");
    bed.bench.write("in.active", "true").unwrap();
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("in.count"), "10");
    bed.bench.end().unwrap();
}

#[test]
fn frames_that_are_not_ip_are_lost_by_name_if_ip_is_asked_for() {
    let mut bed = Bed::new("FromDevice(a, FORCE_IP true) -> c :: Counter -> Discard", 1, 1, 1).unwrap();
    let mut arp = frame(1, 1);
    arp[13] = 6;
    bed.port("a").inject(&bed.devices.pool(), 0, &arp);
    bed.port("a").inject(&bed.devices.pool(), 0, &[1, 2, 3]);
    bed.inject(3, 1);
    bed.bench.run().unwrap();
    assert_eq!(bed.bench.read("c.byte_count"), "180");
    assert_eq!(bed.bench.losses(), ["FromDevice@1.not_ip = 2"]);
    bed.bench.end().unwrap();
}

#[test]
fn handlers_tell_about_the_device() {
    let bed = Bed::new("in :: FromDPDKDevice(b, MTU 9000) -> Discard", 2, 2, 1).unwrap();
    for (name, want) in [
        ("mac", "02-00-00-00-00-01"),
        ("mtu", "9000"),
        ("carrier", "1"),
        ("speed", "unknown"),
        ("driver", "memory"),
        ("device", "b"),
        ("nb_rx_queues", "2"),
        ("hw_dropped", "0"),
        ("active", "true"),
    ] {
        assert_eq!(bed.bench.read(&format!("in.{name}")), want, "{name}");
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    for (config, want) in [
        ("FromDPDKDevice(c) -> Discard", "no memory port 'c'"),
        ("FromDPDKDevice(a, N_QUEUES 3) -> Discard", "device 'a' has 2 receive queues"),
        ("FromDPDKDevice(a, 2) -> Discard", "device 'a' has 2 receive queues"),
        ("Idle -> ToDPDKDevice(a, N_QUEUES 2)", "device 'a' has 1 transmit queue"),
        (
            "FromDevice(a) -> Discard; FromDevice(a) -> Discard",
            "receive queue 0 of 'a' is read by another element",
        ),
        (
            "Idle -> ToDPDKDevice(a); Idle -> ToDPDKDevice(a)",
            "transmit queue 0 of 'a' is used by another element",
        ),
        ("FromDevice(a, BPF_FILTER tcp) -> Discard", "BPF_FILTER: not supported; put an IPClassifier"),
        ("FromDPDKDevice(a, BURTS 3) -> Discard", "BURTS: unknown argument"),
        ("FromDPDKDevice(a, -2) -> Discard", "QUEUE: no such number of queues"),
        ("FromDPDKDevice(a, BURST 0) -> Discard", "BURST: 0 is not between 1 and 256"),
        ("FromDPDKDevice(a, BURST 257) -> Discard", "BURST: 257 is not between 1 and 256"),
        ("Idle -> ToDPDKDevice(a, BURST 1000)", "BURST: 1000 is not between 1 and 256"),
    ] {
        let error = Bed::new(config, 1, 2, 1).err().unwrap_or_default();
        assert!(error.contains(want), "{config}: {error}");
    }
    let bed = Bed::new("FromDevice(a, SNIFFER false, METHOD LINUX) -> Discard", 1, 1, 1).unwrap();
    let warnings: Vec<&str> = bed.bench.router.warnings().iter().map(|d| d.message.as_str()).collect();
    assert_eq!(warnings, ["SNIFFER: has no effect here", "METHOD: has no effect here"]);
}

#[test]
fn few_packets_wait_for_more_but_not_for_ever() {
    // One packet each tenth of a second, the first at once.
    let sent_after = |timeout: &str, tenths: u64| {
        let config = format!("RatedSource(RATE 10, LIMIT 12) -> ToDPDKDevice(b, BURST 4, TIMEOUT {timeout})");
        let mut bed = Bed::new(&config, 1, 1, 1).unwrap();
        bed.bench.run_for(tenths * 100_000_000 + 50_000_000);
        let sent = bed.port("b").sent().len();
        bed.bench.end().unwrap();
        sent
    };
    assert_eq!([0, 2, 6].map(|tenths| sent_after("0", tenths)), [1, 3, 7]);
    // Four are there after three tenths.
    assert_eq!([2, 3, 6, 7].map(|tenths| sent_after("10s", tenths)), [0, 4, 4, 8]);
    // The first of those that wait does so for a quarter of a second; two more that have come meanwhile leave with it.
    for timeout in ["250", "250ms", "0.25"] {
        assert_eq!([1, 2, 3, 5, 6].map(|tenths| sent_after(timeout, tenths)), [0, 0, 3, 3, 6], "{timeout}");
    }
}

/// A device that is attached while the router runs; until then what is sent there is lost by name.
#[test]
fn a_device_can_come_later() {
    for workers in [1, 2] {
        let mut bed = Bed::new(
            "in :: FromDPDKDevice(-) -> ToDPDKDevice(b); FromDPDKDevice(b) -> out :: ToDPDKDevice(-);",
            workers,
            2,
            2,
        )
        .unwrap();
        let pool = bed.devices.pool();
        assert!(bed.port("b").inject(&pool, 0, &frame(1, 1)));
        bed.bench.run().unwrap();
        assert_eq!(bed.bench.losses(), ["out.no_device = 1"]);
        for name in ["", "-", "nothing"] {
            assert!(bed.bench.write("in.attach", name).is_err(), "{name}");
        }
        for element in ["in", "out"] {
            bed.bench.write(&format!("{element}.attach"), "a").unwrap();
            assert!(
                bed.bench
                    .write(&format!("{element}.attach"), "a")
                    .unwrap_err()
                    .contains("a is attached already")
            );
        }
        for i in 0..50 {
            assert!(bed.port("a").inject(&pool, 0, &frame(i % FLOWS, u16::from(i))));
            assert!(bed.port("b").inject(&pool, 0, &frame(i % FLOWS, u16::from(i))));
        }
        bed.bench.run().unwrap();
        assert_eq!((bed.port("a").sent().len(), bed.port("b").sent().len()), (50, 50), "{workers}");
        bed.bench.end().unwrap();
    }
}
