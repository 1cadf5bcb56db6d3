//! Order, loops, pulls, notification, timers, several workers, and the books.

mod common;

use common::build;
use graph::{Engine, SECOND};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn numbers(range: std::ops::Range<u32>) -> String {
    range.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn packets_go_depth_first_in_order() {
    // With both outputs into one sink, output 0's packets of a batch come before output 1's.
    let mut t = build("s :: Source(6) -> f :: Fork; k :: Sink; f[0] -> k; f[1] -> Pass -> k;", 1, 6).unwrap();
    t.run();
    assert_eq!(t.seen("k"), "0 2 4 1 3 5");
    t.end();
}

#[test]
fn burst_1_is_click_order() {
    let mut t = build("s :: Source(6) -> f :: Fork; k :: Sink; f[0] -> k; f[1] -> Pass -> k;", 1, 1).unwrap();
    t.run();
    assert_eq!(t.seen("k"), "0 1 2 3 4 5");
    t.end();
}

#[test]
fn a_split_to_one_port_moves_the_batch_whole() {
    let mut t = build("Source(64) -> f :: Fork; f[0] -> p :: Pass -> k :: Sink;", 1, 32).unwrap();
    t.run();
    assert_eq!((t.read("p.batches"), t.seen("k")), ("2".to_owned(), numbers(0..64)));
    t.end();
}

#[test]
fn packets_go_to_the_outputs_at_their_places_or_are_lost() {
    // Even and odd packets; how many were lost as unconnected.
    let cases = [
        ("Aim", "a[0] -> e :: Sink; a[1] -> o :: Sink;", "0 2 4 6 8", "1 3 5 7 9", 0),
        ("Aim", "a[0] -> e :: Sink; Source(0) -> o :: Sink;", "0 2 4 6 8", "", 5),
        ("Aim(0, 4)", "a[0] -> e :: Sink; a[1] -> o :: Sink;", "0 2", "1 3", 6),
        ("Aim(1)", "a[0] -> Sink; a[1] -> e :: Sink; a[2] -> o :: Sink;", "0 2 4 6 8", "1 3 5 7 9", 0),
        ("Aim(300)", "a[0] -> e :: Sink; a[1] -> o :: Sink;", "", "", 10),
    ];
    for (aim, rest, even, odd, lost) in cases {
        let mut t = build(&format!("Source(10) -> a :: {aim}; {rest}"), 1, 32).unwrap();
        t.run();
        let losses = t.router.loss_rows().iter().map(|l| (l.reason, l.packets)).collect::<Vec<_>>();
        let unconnected = if lost > 0 { vec![("unconnected", lost)] } else { vec![] };
        assert_eq!((&*t.seen("e"), &*t.seen("o"), losses), (even, odd, unconnected), "{aim} {rest}");
        t.end();
    }
}

#[test]
fn rejected_packets_take_the_optional_output_or_are_lost_by_name() {
    let mut t = build("Source(5) -> o :: Odd; o[0] -> a :: Sink; o[1] -> b :: Sink;", 1, 32).unwrap();
    t.run();
    assert_eq!((t.seen("a"), t.seen("b")), ("1 3".to_owned(), "0 2 4".to_owned()));
    t.end();

    let mut t = build("Source(5) -> o :: Odd -> a :: Sink;", 1, 32).unwrap();
    t.run();
    let losses: Vec<_> =
        t.router.loss_rows().iter().map(|l| (l.element.clone(), l.reason, l.packets)).collect();
    assert_eq!(losses, [("o".to_owned(), "even", 3)]);
    t.end();
}

#[test]
fn a_graph_may_enter_an_element_again_from_below() {
    // Even packets go round once more through `o`'s input, where they are rejected again, and so on: an endless loop,
    // which is cut and counted; odd packets are not disturbed.
    let mut t = build("Source(4) -> o :: Odd; o[0] -> a :: Sink; o[1] -> Pass -> o;", 1, 32).unwrap();
    t.run();
    assert_eq!(t.seen("a"), "1 3");
    let losses: Vec<_> = t.router.loss_rows().iter().map(|l| (l.reason, l.packets)).collect();
    assert_eq!(losses, [("loop", 2)]);
    t.end();
}

#[test]
fn pulls_go_through_agnostic_and_filtering_elements() {
    let mut t = build("Source(9) -> Store(100) -> Pass -> Odd -> k :: Sink;", 1, 2).unwrap();
    t.run();
    // The filter empties some of the pulls of two; the sink must not fall asleep over that.
    assert_eq!(t.seen("k"), "1 3 5 7");
    t.end();
}

#[test]
fn a_full_storage_stops_its_source_and_room_wakes_it() {
    let mut t = build("s :: Source(10) -> Pass -> q :: Store(4) -> Sink(ASLEEP true);", 1, 32).unwrap();
    t.run();
    assert_eq!((t.read("s.next"), t.read("q.length")), ("4".to_owned(), "4".to_owned()));
    t.router.write("q", "capacity", "7").unwrap();
    t.run();
    assert_eq!((t.read("s.next"), t.read("q.length")), ("7".to_owned(), "7".to_owned()));
    assert!(t.router.loss_rows().is_empty());
    t.end();

    let mut t =
        build("s :: Source(10) -> Pass -> q :: Store(4) -> Merge -> Pass -> k :: Sink;", 1, 32).unwrap();
    t.run();
    assert_eq!(t.seen("k"), numbers(0..10));
    assert!(t.router.loss_rows().is_empty());
    t.end();
}

#[test]
fn sleeping_movers_do_not_spin() {
    let mut t = build("Ticker(1000000000, 5) -> Store(10) -> m :: Mover -> k :: Sink;", 1, 32).unwrap();
    t.run();
    assert_eq!(t.seen("k"), "5 4 3 2 1");
    // One run at the start, and for each packet one with it and one that finds nothing.
    assert_eq!(t.read("m.runs"), "11");
    t.end();
}

#[test]
fn timers_keep_simulated_time() {
    let mut t =
        build("a :: Ticker(1000000000, 3) -> Sink; b :: Ticker(400000000, 3) -> Sink;", 1, 32).unwrap();
    t.run();
    assert_eq!((t.read("a.times"), t.read("b.times")), ("[1, 2, 3]".to_owned(), "[1, 2, 3]".to_owned()));
    assert!(t.clock.now() < graph::SIMULATED_START + 4 * SECOND);
    t.end();
}

#[test]
fn handlers_that_do_not_fit_say_so() {
    let t = build("Source(10) -> q :: Store(3) -> Sink;", 1, 32).unwrap();
    let write = |e: &str, h: &str, v: &str| t.router.write(e, h, v).unwrap_err().to_string();
    assert_eq!(write("q", "capacity", "x"), "invalid number");
    assert_eq!(write("q", "length", "1"), "'q.length' is not writable");
    assert_eq!(write("q", "name", "1"), "'q.name' is not writable");
    assert_eq!(write("q", "nope", "1"), "no 'q.nope' handler");
    assert_eq!(t.router.read("q", "capacity", "").unwrap_err().to_string(), "'q.capacity' is not readable");
    assert_eq!(t.router.read("zz", "nope", "").unwrap_err().to_string(), "no element named 'zz'");
    assert_eq!(t.read("q.ports"), "1 input\npush\t-\tSource@1 [0]\n1 output\npull\t-\t[0] Sink@3\n");
    t.end();
}

#[test]
fn packets_are_handed_to_the_home_of_an_element() {
    let mut t = build("Source(40) -> Spread -> Pass -> k :: HomeSink;", 2, 8).unwrap();
    t.run();
    let mut seen: Vec<u32> = t.seen("k").split(' ').map(|n| n.parse().unwrap()).collect();
    let (even, odd): (Vec<u32>, Vec<u32>) = seen.iter().partition(|n| *n % 2 == 0);
    assert!(even.is_sorted() && odd.is_sorted(), "order within each way");
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    assert_eq!(t.read("k.workers"), "[0]");
    t.end();
}

#[test]
fn packets_that_change_workers_are_counted_where_they_end_up() {
    // Packets, by worker, of the element that one worker has a queue for, or two.
    for (queues, want) in [(1, [40, 0]), (2, [20, 20])] {
        let text = format!("Source(40) -> Spread -> p :: Pass -> k :: Taker({queues});");
        let mut t = build(&text, 2, 8).unwrap();
        t.run();
        let at = |name: &str| {
            let node = t.router.find(name).unwrap().index();
            t.router.stats().iter().map(|w| w.nodes[node].packets()).collect::<Vec<_>>()
        };
        assert_eq!((at("p"), at("k")), (vec![20, 20], want.to_vec()));
        assert_eq!(t.router.balance(), (40, 40, 0));
        t.end();
    }
}

#[test]
fn elements_with_one_home_live_where_packets_come_from() {
    // Movers are dealt out to the workers.
    let text = "Source(0) -> a :: HomeSink; Source(0) -> Store(9) -> Mover -> Pass -> b :: HomeSink;
        Source(0) -> Store(9) -> Mover -> Pass -> c :: HomeSink; Source(0) -> Store(9) -> Mover -> a;";
    let t = build(text, 2, 8).unwrap();
    assert_eq!(["a", "b", "c"].map(|name| t.read(&format!("{name}.home_thread"))), ["0", "0", "1"]);
    t.end();
}

#[test]
fn workers_on_threads_lose_nothing() {
    let mut t = build("Source(20000) -> Spread -> Pass -> s :: Sink;", 2, 32).unwrap();
    let engines = std::mem::take(&mut t.engines);
    // One that has nothing to do for a while may yet be sent something: all go on until everything is through, or never will.
    let over = Arc::new(AtomicBool::new(false));
    let work = |mut engine: Engine| {
        let over = over.clone();
        std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                engine.round();
                std::thread::yield_now();
            }
            engine
        })
    };
    let threads: Vec<_> = engines.into_iter().map(work).collect();
    let begun = Instant::now();
    while t.router.balance() != (20_000, 20_000, 0) && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Release);
    t.engines = threads.into_iter().map(|h| h.join().unwrap()).collect::<Vec<Engine>>();
    t.run();
    let mut counts = [0; 256];
    t.seen("s").split(' ').for_each(|n| counts[n.parse::<usize>().unwrap()] += 1);
    for (n, count) in counts.iter().enumerate() {
        assert_eq!(*count, 20_000 / 256 + usize::from(n < 20_000 % 256), "number {n}");
    }
    t.end();
}

#[test]
fn cycles_and_packets_are_accounted_per_element() {
    let mut t = build("Source(6400) -> p :: Pass -> k :: Sink;", 1, 64).unwrap();
    t.run();
    let rows = t.router.node_rows();
    let p = rows.iter().find(|r| r.element == "p").unwrap();
    assert_eq!((p.calls, p.packets, p.empty_polls), (100, 6400, 0));
    assert!(p.cycles_per_packet.is_some_and(|c| c > 0.0));
    let source = rows.iter().find(|r| r.class == "Source").unwrap();
    assert_eq!((source.made, source.packets, source.empty_polls), (6400, 6400, 1));
    assert_eq!(t.router.balance(), (6400, 6400, 0));
    t.end();
}

#[test]
fn cycles_are_ticks_of_the_time_stamp_counter() {
    // Timed calls of so many ticks or more are taken to be interrupted, so what is counted is between the half and the whole.
    const MOST: u64 = 1 << 20;
    let mut t = build(&format!("Source(12800) -> b :: Burn({}) -> Sink;", MOST / 2), 1, 64).unwrap();
    let began = epoch::tsc();
    t.run();
    let took = epoch::tsc() - began;
    let worker = &t.router.stats()[0];
    let b = &worker.nodes[t.router.find("b").unwrap().index()];
    let timed = b.timed_calls.get();
    if timed == 0 {
        println!("skipped: all calls that were timed were interrupted");
        return t.end();
    }
    assert!((timed * MOST / 2..timed * MOST).contains(&b.timed_cycles.get()));
    let rows = t.router.node_rows();
    let row = rows.iter().find(|r| r.element == "b").unwrap();
    assert_eq!((row.calls, row.packets), (200, 12_800));
    let per_packet = row.cycles_per_packet.unwrap();
    assert!((8192.0..16_384.0).contains(&per_packet), "{per_packet}");
    // What is estimated from the timed calls, for all runs; rounded down.
    let runs = worker.runs.get() as f64 / worker.timed_runs.get() as f64;
    let estimate = (timed * MOST / 2) as f64 * runs - 1.0;
    assert!((estimate..2.0 * estimate + 2.0).contains(&(row.cycles as f64)), "{} {estimate}", row.cycles);
    // Each of the three elements counts less than twice the ticks that a run burns.
    let all: u64 = rows.iter().map(|r| r.cycles + r.empty_cycles).sum();
    assert!(all >= row.cycles && all < 7 * took, "{all} {took}");
    t.end();
}

#[test]
fn without_cycles_there_are_counts_only() {
    let mut t = build("Source(6400) -> p :: Pass -> k :: Sink;", 1, 64).unwrap();
    t.engines.iter_mut().for_each(Engine::without_cycles);
    t.run();
    let rows = t.router.node_rows();
    let p = rows.iter().find(|r| r.element == "p").unwrap();
    assert_eq!((p.calls, p.packets, p.cycles_per_packet), (100, 6400, None));
    assert!(rows.iter().all(|r| r.cycles == 0));
    t.end();
}
