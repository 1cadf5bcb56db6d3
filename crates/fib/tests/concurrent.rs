//! Lookups while another thread changes the table: only what was there before or is there after may be seen.
#![allow(clippy::expect_used, reason = "in a test a panic is the message")]

use std::collections::HashSet;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use epoch::Reader;
use fib::{
    Address, Dir24_8, LinearTable, NextHop, Poptrie, Prefix, Radix, RangeTree, Route, RouteChange, RouteTable,
};

/// The port of the default route.
const DEFAULT: u32 = 1000;
/// Areas whose routes lead to ports that are, modulo 4, the area's number.
const AREAS: [&str; 4] = ["10.0.0.0/14", "10.4.0.0/14", "192.168.0.0/20", "192.168.16.0/20"];
/// The same where neighbouring /24s belong to different areas.
const NARROW_AREAS: [&str; 4] = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"];
/// The same in IPv6, with routes on both sides of the 64th bit.
const AREAS6: [&str; 4] = ["2001:db8::/32", "2001:db9::/32", "fd00:0:0:8::/61", "fd00::10:0:0:0/76"];

fn route<A: Address>(prefix: Prefix<A>, port: u32) -> Route<A> {
    Route { prefix, next_hop: NextHop { gateway: None, port } }
}

/// A linear congruential generator: its high bits are good enough.
fn random(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// An address of the area; `near`: in its first 1,024, where the longest prefixes come and go.
fn somewhere<A: Address>(area: Prefix<A>, near: bool, state: &mut u32) -> A {
    let bits = (0..6).fold(0u128, |bits, _| bits << 24 | u128::from(random(state)));
    let inside = area.first() ^ area.last();
    let inside = if near { inside & A::from_low_bits(1023) } else { inside };
    area.first() | A::from_low_bits(bits) & inside
}

/// Looks up addresses of all areas; whatever the writer does, the port must be one of the area's, or the default. Returns how many
/// had one of the area's.
fn read<A: Address>(
    table: &RouteTable<A>,
    areas: &[Prefix<A>; 4],
    done: &AtomicBool,
    looked_up: &AtomicU64,
) -> u64 {
    let mut reader = Reader::new();
    let (mut state, mut found) = (1, 0);
    while !done.load(Ordering::Relaxed) {
        let addrs: [A; 32] = std::array::from_fn(|i| somewhere(areas[i % 4], i % 8 >= 4, &mut state));
        let mut hops = [None; 32];
        table.lookup_batch(&reader, &addrs, &mut hops);
        let list = table.next_hops(&reader);
        for (i, hop) in hops.iter().enumerate() {
            let port = list[hop.expect("there is a default route").index()].port;
            assert!(port == DEFAULT || port as usize % 4 == i % 4, "port {port} in area {}", i % 4);
            found += u64::from(port != DEFAULT);
        }
        looked_up.fetch_add(32, Ordering::Relaxed);
        reader.quiescent();
    }
    found
}

/// Adds and removes routes of all lengths in all areas, each of which has so many ports.
fn write<A: Address>(table: &RouteTable<A>, areas: &[Prefix<A>; 4], rounds: u32, ports: u32) {
    let mut state = 7;
    let mut present = HashSet::new();
    for round in 0..rounds {
        let mut changes = Vec::new();
        for _ in 0..1 + round % 3 {
            let which = (random(&mut state) >> 16) as usize % 4;
            let area = areas[which];
            let longer = A::BITS - u32::from(area.len());
            let len = area.len() + ((random(&mut state) >> 8) % (longer + 1)) as u8;
            // One of four, so that the same prefix is drawn again and removed.
            let place = A::from_low_bits(u128::from(random(&mut state) & 3)) << (A::BITS - u32::from(len));
            let prefix = Prefix::new(area.first() | place & (area.first() ^ area.last()), len);
            let prefix = prefix.expect("no longer than an address");
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

fn run<A: Address>(table: &RouteTable<A>, areas: [&str; 4], rounds: u32, ports: u32)
where
    Prefix<A>: FromStr<Err: Debug>,
{
    let areas = areas.map(|text| text.parse().expect("a prefix"));
    table.apply(&[RouteChange::Add(route(Prefix::default(), DEFAULT))]).expect("empty before");
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
        let found = readers.map(|reader| reader.join().expect("what a reader saw was right"));
        assert_ne!(found, [0, 0], "only the default route was seen");
    });
}

#[test]
fn dir24_8_readers_see_old_or_new() {
    run::<u32>(&RouteTable::new(Dir24_8::new()), AREAS, 20_000, 50);
}

/// As few next hops as fit entries of half a byte, of which two in a byte belong to different areas.
#[test]
fn dir24_8_readers_of_narrow_entries_see_old_or_new() {
    let table = RouteTable::new(Dir24_8::new());
    run(&table, NARROW_AREAS, 50_000, 3);
    assert!(table.next_hop_count() <= 14 && table.memory()[0].bytes >> 20 <= 9, "{:?}", table.memory());
}

#[test]
fn poptrie_readers_see_old_or_new() {
    run::<u32>(&RouteTable::new(Poptrie::with_direct_bits(10)), AREAS, 1_000, 50);
}

#[test]
fn range_tree_readers_see_old_or_new() {
    run::<u32>(&RouteTable::new(RangeTree::with_direct_bits(8)), AREAS, 20_000, 50);
}

#[test]
fn radix_readers_see_old_or_new() {
    run::<u32>(&RouteTable::new(Radix::new()), AREAS, 10_000, 50);
}

#[test]
fn linear_readers_see_old_or_new() {
    run::<u32>(&RouteTable::new(LinearTable::new()), AREAS, 2_000, 50);
}

#[test]
fn poptrie_readers_of_ipv6_see_old_or_new() {
    run::<u128>(&RouteTable::new(Poptrie::with_direct_bits(10)), AREAS6, 1_000, 50);
}

#[test]
fn range_tree_readers_of_ipv6_see_old_or_new() {
    run::<u128>(&RouteTable::new(RangeTree::with_direct_bits(8)), AREAS6, 20_000, 50);
}

#[test]
fn radix_readers_of_ipv6_see_old_or_new() {
    run::<u128>(&RouteTable::new(Radix::new()), AREAS6, 10_000, 50);
}

#[test]
fn linear_readers_of_ipv6_see_old_or_new() {
    run::<u128>(&RouteTable::new(LinearTable::new()), AREAS6, 2_000, 50);
}
