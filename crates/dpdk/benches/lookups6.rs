//! IPv6 lookups beside DPDK's, in one process and turn by turn: `cargo bench -p dpdk --bench lookups6 [-- CORE]`.
//!
//! The table is the IPv6 part of `bgp-full-table.txt.gz` (`ROUTEBRICKS_DATA`, or `shared/data` beside the repository),
//! else a made-up one of the same size. A table on the standard error output, one JSON line per figure on the standard
//! output. Needs root and 900 MB of free huge pages.
#![allow(unsafe_code)]
#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

// Brings DPDK's libraries and the shim.
use dpdk as _;
use epoch::{Reader, tsc, tsc_hz};
use fib::{Fib, NextHop, NextHopId, Poptrie, Prefix, Prefix6, Random, RangeTree, Rib, synth};
use serde_json::json;

mod common;
use common::{Spread, Zipf, processor_time, read_routes};

/// Routes of the made-up table: as many as the real one has.
const ROUTES: usize = 160_147;
/// Distinct next hops.
const HOPS: u32 = 64;
/// Addresses of a pattern, each looked up once a round.
const ADDRESSES: usize = 1 << 18;
/// Lookups in one call.
const BATCH: usize = 64;
/// Single routes that change.
const UPDATES: usize = 300_000;
/// Turns of each contender; their median counts.
const ROUNDS: usize = 21;

unsafe extern "C" {
    fn rb_fib6_eal(lcore: *const c_char, mbytes: *const c_char) -> c_int;
    fn rb_fib6_heap() -> usize;
    fn rb_fib6_create(nh_bytes: c_int, max_routes: c_int, groups: u32) -> *mut c_void;
    fn rb_fib6_add(fib: *mut c_void, ip: *const u8, depth: u8, next_hop: u64) -> c_int;
    fn rb_fib6_select(fib: *mut c_void, vector: c_int) -> c_int;
    fn rb_fib6_lookup(fib: *mut c_void, ips: *mut [u8; 16], next_hops: *mut u64, n: c_uint);
    fn rb_fib6_free(fib: *mut c_void);
    fn rb_lpm6_create(max_rules: u32, groups: u32) -> *mut c_void;
    fn rb_lpm6_add(lpm: *mut c_void, ip: *const u8, depth: u8, next_hop: u32) -> c_int;
    fn rb_lpm6_lookup(lpm: *mut c_void, ips: *mut [u8; 16], next_hops: *mut i32, n: c_uint);
    fn rb_lpm6_free(lpm: *mut c_void);
}

/// What is looked up in.
enum Table {
    Fib6 { fib: *mut c_void, vector: bool },
    Lpm6(*mut c_void),
    Ours(Box<dyn Fib<u128>>),
}

struct Contender {
    name: &'static str,
    table: Table,
    bytes: usize,
}

/// One sequence of addresses, as we take them and as DPDK does.
struct Pattern {
    name: &'static str,
    addrs: Vec<u128>,
    octets: Vec<[u8; 16]>,
}

impl Pattern {
    fn new(name: &'static str, addrs: Vec<u128>) -> Pattern {
        let octets = addrs.iter().map(|addr| addr.to_be_bytes()).collect();
        Pattern { name, addrs, octets }
    }
}

impl Contender {
    /// Looks up everything, batch by batch; `each` gets the number of the first address and the bits of the results.
    fn run(&self, pattern: &mut Pattern, mut each: impl FnMut(usize, &mut dyn Iterator<Item = u32>)) {
        let reader = Reader::new();
        let (mut wide, mut signed, mut hops) = ([0u64; BATCH], [0i32; BATCH], [None; BATCH]);
        for start in (0..ADDRESSES).step_by(BATCH) {
            match &self.table {
                Table::Fib6 { fib, .. } => {
                    let ips = pattern.octets[start..start + BATCH].as_mut_ptr();
                    // SAFETY: `BATCH` addresses and as many results, both live; the library changes the results only.
                    unsafe { rb_fib6_lookup(*fib, ips, wide.as_mut_ptr(), BATCH as c_uint) };
                    each(start, &mut wide.iter().map(|&hop| hop as u32));
                }
                Table::Lpm6(lpm) => {
                    let ips = pattern.octets[start..start + BATCH].as_mut_ptr();
                    // SAFETY: as above.
                    unsafe { rb_lpm6_lookup(*lpm, ips, signed.as_mut_ptr(), BATCH as c_uint) };
                    each(start, &mut signed.iter().map(|&hop| hop.max(0) as u32));
                }
                Table::Ours(fib) => {
                    fib.lookup_batch(&reader, &pattern.addrs[start..start + BATCH], &mut hops);
                    each(start, &mut hops.iter().map(|&hop| NextHopId::bits(hop)));
                }
            }
        }
    }

    /// Cycles of the time-stamp counter per lookup.
    fn time(&self, pattern: &mut Pattern) -> f64 {
        if let Table::Fib6 { fib, vector } = self.table {
            // SAFETY: a live table, used by this thread alone.
            unsafe { rb_fib6_select(fib, c_int::from(vector)) };
        }
        let start = tsc();
        self.run(pattern, |_, results| {
            std::hint::black_box(results.next());
        });
        (tsc() - start) as f64 / ADDRESSES as f64
    }
}

fn within(random: &mut Random, prefix: Prefix6) -> u128 {
    let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
    prefix.first() | (bits & (prefix.first() ^ prefix.last()))
}

/// The prefixes of the real table, or of a made-up one, and what they are.
fn prefixes() -> (&'static str, Vec<Prefix6>) {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let dir = std::env::var_os("ROUTEBRICKS_DATA").map_or_else(beside, PathBuf::from);
    if let Ok(file) = read_routes(&dir.join("bgp-full-table.txt.gz")) {
        return ("bgp-full-table", file.v6.iter().map(|route| route.prefix).collect());
    }
    let hop = NextHop { gateway: None, port: 0 };
    let table = synth::<u128>(ROUTES, 1, &[hop]).expect("arguments are in range");
    ("synthetic", table.routes.iter().map(|route| route.prefix).collect())
}

fn patterns(prefixes: &[Prefix6]) -> Vec<Pattern> {
    let mut random = Random::new(1);
    let draw = |random: &mut Random, index: usize| within(random, prefixes[index]);
    let mut uniform = || {
        let index = random.below(prefixes.len());
        draw(&mut random, index)
    };
    let uniform = (0..ADDRESSES).map(|_| uniform()).collect();
    let zipf = Zipf::new(prefixes.len(), &mut random);
    let mut popular = || {
        let index = zipf.draw(&mut random);
        draw(&mut random, index)
    };
    let zipf = (0..ADDRESSES).map(|_| popular()).collect();
    let all = "2000::/3".parse().expect("a prefix");
    let space = (0..ADDRESSES).map(|_| within(&mut random, all)).collect();
    vec![
        Pattern::new("uniform over prefixes", uniform),
        Pattern::new("zipf over prefixes", zipf),
        Pattern::new("uniform over 2000::/3", space),
    ]
}

/// DPDK's tables in the smallest form that holds the routes.
fn dpdk(routes: &[(Prefix6, NextHopId)]) -> Vec<Contender> {
    let mut all = Vec::new();
    let max = routes.len() as u32 * 2;
    // SAFETY: here and below, the library's functions on a table that this thread made and alone uses.
    let heap = || unsafe { rb_fib6_heap() };
    let octets = |prefix: Prefix6| prefix.first().to_be_bytes();
    'sizes: for (bytes, groups) in [(2, 32_767), (4, 1 << 17), (4, 1 << 18)] {
        let before = heap();
        // SAFETY: see above.
        let fib = unsafe { rb_fib6_create(bytes, max as c_int, groups) };
        assert!(!fib.is_null(), "rte_fib6_create: out of huge pages?");
        for &(prefix, hop) in routes {
            let bits = u64::from(NextHopId::bits(Some(hop)));
            // SAFETY: see above; the address has 16 octets.
            if unsafe { rb_fib6_add(fib, octets(prefix).as_ptr(), prefix.len(), bits) } != 0 {
                eprintln!("rte_fib6: {bytes}-byte entries and {groups} groups do not hold the table");
                // SAFETY: see above; not used after this.
                unsafe { rb_fib6_free(fib) };
                continue 'sizes;
            }
        }
        let bytes_used = heap() - before;
        for (name, vector) in [("rte_fib6 AVX-512", true), ("rte_fib6 scalar", false)] {
            // SAFETY: see above.
            if unsafe { rb_fib6_select(fib, c_int::from(vector)) } == 0 {
                all.push(Contender { name, table: Table::Fib6 { fib, vector }, bytes: bytes_used });
            }
        }
        eprintln!("rte_fib6: {bytes}-byte entries, {groups} groups");
        break;
    }
    let before = heap();
    // SAFETY: see above.
    let lpm = unsafe { rb_lpm6_create(max, 1 << 17) };
    assert!(!lpm.is_null(), "rte_lpm6_create: out of huge pages?");
    let added = routes.iter().all(|&(prefix, hop)| {
        // SAFETY: see above.
        unsafe { rb_lpm6_add(lpm, octets(prefix).as_ptr(), prefix.len(), NextHopId::bits(Some(hop))) == 0 }
    });
    assert!(added, "rte_lpm6 does not hold the table");
    all.push(Contender { name: "rte_lpm6", table: Table::Lpm6(lpm), bytes: heap() - before });
    all
}

fn ours(rib: &Rib<u128>) -> Vec<Contender> {
    let made: Vec<(_, Box<dyn Fib<u128>>)> =
        vec![("poptrie", Box::new(Poptrie::new())), ("range tree", Box::new(RangeTree::new()))];
    let fill = |(name, fib): (&'static str, Box<dyn Fib<u128>>)| {
        fib.update(rib, &[Prefix::default()]);
        let bytes = fib.memory().iter().map(|part| part.bytes).sum();
        Contender { name, table: Table::Ours(fib), bytes }
    };
    made.into_iter().map(fill).collect()
}

/// Looks up until phase 2 begins; leaves the rates of phases 0 and 1.
fn read(fib: &RangeTree<u128>, addrs: &[u128], phase: &AtomicUsize, rates: &[AtomicU64; 2]) {
    let mut reader = Reader::new();
    let mut hops = [None; BATCH];
    let (mut ticks, mut lookups) = ([0; 2], [0; 2]);
    while let Some(phase) = Some(phase.load(Ordering::Relaxed)).filter(|&phase| phase < 2) {
        let start = tsc();
        for batch in addrs.chunks_exact(BATCH) {
            fib.lookup_batch(&reader, batch, &mut hops);
            std::hint::black_box(&hops);
            reader.quiescent();
        }
        ticks[phase] += tsc() - start;
        lookups[phase] += addrs.len() as u64;
    }
    for (rate, (lookups, ticks)) in rates.iter().zip(lookups.iter().zip(ticks)) {
        rate.store(lookups * tsc_hz() / ticks.max(1), Ordering::Relaxed);
    }
}

/// Replaces, removes and adds single routes while another thread looks up; says how long that takes, with and without
/// the work in the RIB, and what the reader loses by it.
fn updates(table: &str, prefixes: &[Prefix6], rib: &Rib<u128>) {
    let fib = RangeTree::build(rib);
    let mut rib = rib.clone();
    let mut random = Random::new(3);
    let addrs: Vec<_> = (0..1 << 16)
        .map(|_| {
            let index = random.below(prefixes.len());
            within(&mut random, prefixes[index])
        })
        .collect();
    let (phase, rates) = (AtomicUsize::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    let (mut all, mut alone) = (Vec::with_capacity(UPDATES), Vec::with_capacity(UPDATES));
    let mut took = 0.0;
    std::thread::scope(|scope| {
        scope.spawn(|| read(&fib, &addrs, &phase, &rates));
        std::thread::sleep(std::time::Duration::from_secs(1));
        phase.store(1, Ordering::Relaxed);
        let start = processor_time();
        for i in 0..UPDATES {
            let prefix = prefixes[random.below(prefixes.len())];
            let begun = tsc();
            match i % 3 {
                0 => rib.remove(prefix),
                _ => rib.insert(prefix, NextHopId::new(random.below(HOPS as usize) as u32).expect("small")),
            };
            let changed = tsc();
            fib.update(&rib, &[prefix]);
            let end = tsc();
            all.push((end - begun) as f64);
            alone.push((end - changed) as f64);
        }
        took = processor_time() - start;
        phase.store(2, Ordering::Relaxed);
    });
    let micros = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        [0.5, 0.99, 0.999, 1.0].map(|part| {
            let at = ((values.len() - 1) as f64 * part) as usize;
            (values[at] * 1e8 / tsc_hz() as f64).round() / 100.0
        })
    };
    let (all, alone) = (micros(&mut all), micros(&mut alone));
    let rate = (UPDATES as f64 / took).round();
    let [before, during] = rates.map(|rate| rate.load(Ordering::Relaxed) as f64 / 1e6);
    eprintln!(
        "{rate:.0} single-route updates/s of processor time; median, p99, p99.9, most: {all:?} µs, tree alone {alone:?} µs; \
         reader {before:.1} M/s before, {during:.1} during"
    );
    let line = json!({
        "schema": "routebricks.updates6/1", "table": table, "routes": prefixes.len(), "structure": "range tree",
        "updates": UPDATES, "updates_per_cpu_second": rate, "us_p50_p99_p999_max": all,
        "us_p50_p99_p999_max_without_rib": alone, "reader_million_per_second": [before, during],
    });
    println!("{line}");
}

/// Lets the contenders look up by turns, and writes down how long each took.
fn compare(table: &str, routes: usize, contenders: &[Contender], pattern: &mut Pattern) {
    // The best form that this processor has: AVX-512 comes first.
    let reference = contenders.iter().position(|c| c.name.starts_with("rte_fib6"));
    let rival = reference.map(|at| contenders[at].name);
    let mut cycles = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for (contender, cycles) in contenders.iter().zip(&mut cycles) {
            cycles.push(contender.time(pattern));
        }
    }
    for (contender, times) in contenders.iter().zip(&cycles) {
        let rate = Spread::of(&times.iter().map(|t| tsc_hz() as f64 / t / 1e6).collect::<Vec<_>>());
        let ratios = reference
            .map(|r| Spread::of(&cycles[r].iter().zip(times).map(|(r, t)| r / t).collect::<Vec<_>>()));
        let (took, cell) = (Spread::of(times), rate.cell(1));
        eprintln!(
            "{:<24}{:<20}{:>10.1}{cell:>26}{:>10.2}{:>10.1}",
            pattern.name,
            contender.name,
            took.median,
            ratios.map_or(f64::NAN, |r| r.median),
            contender.bytes as f64 / 1e6
        );
        let line = json!({
            "schema": "routebricks.lookups6/1", "table": table, "routes": routes,
            "pattern": pattern.name, "structure": contender.name, "batch": BATCH, "rounds": ROUNDS,
            "tsc_cycles": took.json(), "million_per_second": rate.json(),
            "ratio_to_rte_fib6": ratios.map(Spread::json), "rival": rival, "bytes": contender.bytes,
        });
        println!("{line}");
    }
}

fn main() {
    let (table, prefixes) = prefixes();
    let mut random = Random::new(2);
    let mut hop = || NextHopId::new(random.below(HOPS as usize) as u32).expect("small");
    let routes: Vec<_> = prefixes.iter().map(|&prefix| (prefix, hop())).collect();
    let rib: Rib<u128> = routes.iter().copied().collect();
    // Before EAL pins this thread, and what it starts, to one core.
    updates(table, &prefixes, &rib);
    let core = std::env::args().skip(1).find(|word| word.parse::<u32>().is_ok());
    let core = CString::new(core.unwrap_or_else(|| "0".to_owned())).expect("digits");
    let mbytes = CString::new("900").expect("digits");
    // SAFETY: two strings that live through the call; EAL pins this thread to the core.
    assert!(unsafe { rb_fib6_eal(core.as_ptr(), mbytes.as_ptr()) } >= 0, "EAL does not start");
    let mut contenders = ours(&rib);
    contenders.extend(dpdk(&routes));
    eprintln!("{table}: {} routes, {HOPS} next hops, batches of {BATCH}", routes.len());
    eprintln!("{:<24}{:<20}{:>10}{:>26}{:>10}{:>10}", "pattern", "table", "cycles", "M/s", "ratio", "MB");
    for mut pattern in patterns(&prefixes) {
        let expected =
            pattern.addrs.iter().map(|&addr| NextHopId::bits(rib.lookup(addr).map(|found| found.1)));
        let expected: Vec<_> = expected.collect();
        for contender in &contenders {
            contender.run(&mut pattern, |start, results| {
                assert!(results.eq(expected[start..start + BATCH].iter().copied()), "{}", contender.name);
            });
        }
        compare(table, routes.len(), &contenders, &mut pattern);
    }
    for contender in &contenders {
        match contender.table {
            // SAFETY: tables of this thread, not used after this; the AVX-512 and the scalar contender share one.
            Table::Fib6 { fib, vector: false } => unsafe { rb_fib6_free(fib) },
            // SAFETY: as above.
            Table::Lpm6(lpm) => unsafe { rb_lpm6_free(lpm) },
            _ => {}
        }
    }
}
