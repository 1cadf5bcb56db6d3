//! Which worker does what with a packet: paths that have nothing in common, that meet, that are cut by a queue.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::harness::{Bench, Setup};
use io::memory::MemoryDevices;
use io::{Devices, Limits};
use packet::Pool;
use std::sync::Arc;

/// Packets that come in by each device.
const N: u64 = 600;

/// A UDP frame of one of many flows.
fn frame(flow: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 0, 0, flow, 10, 0, 1, 1, 4, 1, 0, 53, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Runs a configuration with two devices, `a` and `b`, of so many queues each way; [`N`] packets come in by each that is read,
/// with `QUEUE 0` all by that queue.
fn run(config: &str, workers: usize, queues: u16) -> Bench {
    let limits = Limits { rx_queues: queues, tx_queues: queues };
    let devices = Arc::new(MemoryDevices::new(Pool::heap(8192, 2048), &["a", "b"], limits));
    let setup = Setup { workers, burst: 8, devices: devices.clone(), ..Setup::default() };
    let mut bench = Bench::new(config, &setup).unwrap();
    let is_read =
        |name: &&str| ["DPDK", ""].iter().any(|d| config.contains(&format!("From{d}Device({name}")));
    let read = if config.contains("QUEUE 0") { 1 } else { usize::from(queues).min(workers) };
    for name in ["a", "b"].into_iter().filter(is_read) {
        let port = devices.memory(name).unwrap();
        for i in 0..N {
            let flow = u8::try_from(i % 100).unwrap();
            assert!(port.inject(&devices.pool(), usize::from(flow) % read, &frame(flow)));
        }
        port.finish();
    }
    bench.run().unwrap();
    bench
}

/// Packets of an element, by worker.
fn packets(bench: &Bench, element: &str) -> Vec<u64> {
    let node = bench.router.find(element).unwrap().index();
    bench.router.stats().iter().map(|worker| worker.nodes[node].packets()).collect()
}

/// Runs a configuration, and checks what each element has handled on each worker.
fn check(config: &str, workers: usize, queues: u16, want: &[(&str, &[u64])]) {
    let bench = run(config, workers, queues);
    for (element, want) in want {
        assert_eq!(packets(&bench, element), *want, "{element}: {config} -j {workers}");
    }
    assert_eq!(bench.losses(), Vec::<String>::new(), "{config}");
    bench.end().unwrap();
}

const PARALLEL: &str = "first :: FromDPDKDevice(a) -> x :: ToDPDKDevice(a); second :: FromDPDKDevice(b) -> y :: ToDPDKDevice(b);";

#[test]
fn paths_with_nothing_in_common_stay_on_workers_of_their_own() {
    let apart: &[(&str, &[u64])] = &[("first", &[N, 0]), ("x", &[N, 0]), ("second", &[0, N]), ("y", &[0, N])];
    check(PARALLEL, 2, 1, apart);
    check(&format!("{PARALLEL} StaticThreadSched(first 0, second 1);"), 2, 1, apart);
    let crossed: &[(&str, &[u64])] =
        &[("first", &[0, N]), ("x", &[0, N]), ("second", &[N, 0]), ("y", &[N, 0])];
    check(&format!("{PARALLEL} StaticThreadSched(first 1, second 0);"), 2, 1, crossed);
    check(PARALLEL, 1, 1, &[("first", &[N]), ("x", &[N]), ("second", &[N]), ("y", &[N])]);
}

#[test]
fn what_lives_on_one_worker_lives_on_that_of_its_path() {
    let apart: &[(&str, &[u64])] = &[("first", &[N, 0]), ("x", &[N, 0]), ("second", &[0, N]), ("y", &[0, N])];
    let files = "first :: FromDPDKDevice(a) -> x :: ToDump(/dev/null);
        second :: FromDPDKDevice(b) -> y :: ToDump(/dev/null);";
    check(files, 2, 1, apart);
    check(&format!("{files} StaticThreadSched(first 0, second 1);"), 2, 1, apart);
    let pulled = "first :: FromDevice(a) -> Queue -> x :: ToDevice(a);
        second :: FromDevice(b) -> Queue -> y :: ToDevice(b);";
    check(pulled, 2, 1, apart);
}

#[test]
fn more_workers_than_paths_are_shared_out() {
    let config = "first :: FromDPDKDevice(a) -> c :: Counter -> x :: ToDPDKDevice(a);
        second :: FromDPDKDevice(b) -> d :: Counter -> y :: ToDPDKDevice(b);";
    let bench = run(config, 4, 1);
    let at = |element| packets(&bench, element);
    assert_eq!((at("first"), at("x")), (vec![N, 0, 0, 0], vec![N, 0, 0, 0]));
    assert_eq!((at("second"), at("y")), (vec![0, N, 0, 0], vec![0, N, 0, 0]));
    // By flow, over the two workers of the path.
    let (c, d) = (at("c"), at("d"));
    assert_eq!((c[0] + c[2], d[1] + d[3]), (N, N));
    assert!([c[0], c[2], d[1], d[3]].iter().all(|n| *n > 0), "{c:?} {d:?}");
    bench.end().unwrap();
    // With a queue for each worker of a path nothing needs to be spread.
    let bench = run(config, 4, 2);
    assert_eq!(
        (packets(&bench, "first"), packets(&bench, "x")),
        (packets(&bench, "c"), packets(&bench, "c"))
    );
    assert_eq!(packets(&bench, "c"), [N / 2, 0, N / 2, 0]);
    assert_eq!(packets(&bench, "y"), [0, N / 2, 0, N / 2]);
    bench.end().unwrap();
}

#[test]
fn paths_that_meet_hand_over_where_queues_are_too_few() {
    let overlap = |queues| {
        format!(
            "first :: FromDPDKDevice(a, QUEUE 0) -> out :: ToDPDKDevice(b, N_QUEUES {queues});
            second :: FromDPDKDevice(b, QUEUE 0) -> out; StaticThreadSched(first 0, second 1);"
        )
    };
    let both: (&str, &[u64]) = ("second", &[0, N]);
    check(&overlap(1), 2, 1, &[("first", &[N, 0]), both, ("out", &[2 * N, 0])]);
    check(&overlap(2), 2, 2, &[("first", &[N, 0]), both, ("out", &[N, N])]);
}

#[test]
fn who_pulls_sends() {
    let config = "r :: FromDPDKDevice(a, QUEUE 0) -> Queue(4096) -> s :: Unqueue -> out :: ToDPDKDevice(a);
        StaticThreadSched(r 0, s 1);";
    check(config, 2, 1, &[("r", &[N, 0]), ("s", &[0, N]), ("out", &[0, N])]);
}

#[test]
fn devices_of_one_queue_are_spread_over_the_workers_of_a_shared_path() {
    let config =
        "first :: FromDPDKDevice(a) -> c :: Counter -> t :: Tee(2); second :: FromDPDKDevice(b) -> c;
        t[0] -> x :: ToDPDKDevice(a); t[1] -> y :: ToDPDKDevice(b);";
    let want: &[(&str, &[u64])] =
        &[("first", &[N, 0]), ("second", &[0, N]), ("x", &[2 * N, 0]), ("y", &[0, 2 * N])];
    check(config, 2, 1, want);
    // Another one that only worker 1 can reach leaves worker 0 for this one.
    let config = "first :: FromDPDKDevice(a) -> c :: Counter -> x :: ToDPDKDevice(a);
        second :: FromDPDKDevice(b) -> t :: Tee(2); t[0] -> c; t[1] -> y :: ToDPDKDevice(b);
        StaticThreadSched(first 0, second 1);";
    check(config, 2, 1, &[("c", &[N, N]), ("x", &[2 * N, 0]), ("y", &[0, N])]);
}

#[test]
fn packets_that_are_spread_come_back_to_no_more_than_one_worker() {
    let config = "in :: FromDPDKDevice(a) -> out :: ToDPDKDevice(b);";
    for workers in [1, 2, 3] {
        let mut first = vec![0; workers];
        first[0] = N;
        check(config, workers, 1, &[("in", &first), ("out", &first)]);
    }
}
