//! Lookups while another thread changes the table: only what was there before or is there after may be seen.
#![allow(clippy::expect_used, reason = "in a test a panic is the message")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use epoch::Reader;
use fib::{
    Dir24_8, LinearTable, NextHop, Poptrie, Prefix4, Radix, RangeTree, Route, RouteChange, RouteTable,
};

/// The port of the default route.
const DEFAULT: u32 = 1000;
/// Areas whose routes lead to ports that are, modulo 4, the area's number.
const AREAS: [&str; 4] = ["10.0.0.0/14", "10.4.0.0/14", "192.168.0.0/20", "192.168.16.0/20"];
/// The same where neighbouring /24s belong to different areas.
const NARROW_AREAS: [&str; 4] = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"];

fn route(prefix: Prefix4, port: u32) -> Route<u32> {
    Route { prefix, next_hop: NextHop { gateway: None, port } }
}

/// A linear congruential generator: its high bits are good enough.
fn random(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// Looks up addresses of all areas; whatever the writer does, the port must be one of the area's, or the default.
fn read(table: &RouteTable<u32>, areas: &[Prefix4; 4], done: &AtomicBool, looked_up: &AtomicU64) {
    let mut reader = Reader::new();
    let mut state = 1;
    while !done.load(Ordering::Relaxed) {
        let mut addrs = [0; 32];
        for (i, addr) in addrs.iter_mut().enumerate() {
            let area = areas[i % 4];
            // Half of them near the start, where the longest prefixes come and go.
            let all = area.last() - area.first();
            let spread = if i % 8 < 4 { all } else { all.min(1023) };
            *addr = area.first() + random(&mut state) % (spread + 1);
        }
        let mut hops = [None; 32];
        table.lookup_batch(&reader, &addrs, &mut hops);
        let list = table.next_hops(&reader);
        for (i, hop) in hops.iter().enumerate() {
            let port = list[hop.expect("there is a default route").index()].port;
            assert!(port == DEFAULT || port as usize % 4 == i % 4, "port {port} in area {}", i % 4);
        }
        looked_up.fetch_add(32, Ordering::Relaxed);
        reader.quiescent();
    }
}

/// Adds and removes routes of all lengths in all areas, each of which has so many ports.
fn write(table: &RouteTable<u32>, areas: &[Prefix4; 4], rounds: u32, ports: u32) {
    let mut state = 7;
    let mut present = HashSet::new();
    for round in 0..rounds {
        let mut changes = Vec::new();
        for _ in 0..1 + round % 3 {
            let which = (random(&mut state) >> 16) as usize % 4;
            let area = areas[which];
            let len = area.len() + (random(&mut state) >> 8) as u8 % (33 - area.len());
            let near = 1023 & (area.last() - area.first());
            let addr = area.first() | (random(&mut state) & 3 << (32 - len) & near);
            let prefix = Prefix4::new(addr, len).expect("at most 32");
            if present.remove(&prefix) {
                changes.push(RouteChange::Remove(prefix, None));
            } else {
                present.insert(prefix);
                changes.push(RouteChange::Add(route(prefix, which as u32 + 4 * (round % ports))));
            }
        }
        table.apply(&changes).expect("the set says what is there");
    }
}

fn run(table: &RouteTable<u32>, rounds: u32) {
    run_in(table, AREAS, rounds, 50);
}

fn run_in(table: &RouteTable<u32>, areas: [&str; 4], rounds: u32, ports: u32) {
    let areas = areas.map(|text| text.parse().expect("a prefix"));
    table.apply(&[RouteChange::Add(route(Prefix4::default(), DEFAULT))]).expect("empty before");
    let (done, looked_up) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers = [0; 2].map(|_| scope.spawn(|| read(table, &areas, &done, &looked_up)));
        write(table, &areas, rounds, ports);
        // On a busy machine the readers may not have had their turn yet.
        while looked_up.load(Ordering::Relaxed) < 10_000 && !readers.iter().all(|reader| reader.is_finished())
        {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn dir24_8_readers_see_old_or_new() {
    run(&RouteTable::new(Dir24_8::new()), 20_000);
}

/// As few next hops as fit entries of half a byte, of which two in a byte belong to different areas.
#[test]
fn dir24_8_readers_of_narrow_entries_see_old_or_new() {
    let table = RouteTable::new(Dir24_8::new());
    run_in(&table, NARROW_AREAS, 50_000, 3);
    assert!(table.next_hop_count() <= 14 && table.memory()[0].bytes >> 20 <= 9, "{:?}", table.memory());
}

#[test]
fn poptrie_readers_see_old_or_new() {
    run(&RouteTable::new(Poptrie::with_direct_bits(10)), 1_000);
}

#[test]
fn range_tree_readers_see_old_or_new() {
    run(&RouteTable::new(RangeTree::with_direct_bits(8)), 20_000);
}

#[test]
fn radix_readers_see_old_or_new() {
    run(&RouteTable::new(Radix::new()), 10_000);
}

#[test]
fn linear_readers_see_old_or_new() {
    run(&RouteTable::new(LinearTable::new()), 2_000);
}
