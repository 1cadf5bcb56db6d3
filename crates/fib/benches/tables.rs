//! How long tables take to load and to look up in: `cargo bench -p fib [-- IPV4-ROUTES [IPV6-ROUTES]]`.
//!
//! Text of made-up tables is parsed, applied to an empty table, then looked up in with addresses drawn uniformly
//! over the prefixes and over the whole space, in batches of 32. Shown is the best of several rounds.
#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use std::time::{Duration, Instant};

use epoch::{Reader, tsc, tsc_hz};
use fib::{
    Address, Dir24_8, Fib, NextHop, Poptrie, Prefix, Radix, RangeTree, Rib, Route, RouteChange, RouteFile,
    RouteTable, synth,
};

const ROUNDS: usize = 7;
const LOOKUPS: usize = 1 << 16;
const BATCH: usize = 32;
const SEED: u64 = 1;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn address<A: Address>(&mut self) -> A {
        A::from_low_bits(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

fn seconds(what: &str, took: Duration) {
    println!("{what:<44}{:>9.3} s", took.as_secs_f64());
}

fn lookups<A: Address>(name: &str, fib: &dyn Fib<A>, targets: &[(&str, Vec<A>)]) {
    let reader = Reader::new();
    let mut hops = [None; BATCH];
    for (kind, addrs) in targets {
        let mut best = u64::MAX;
        for _ in 0..ROUNDS {
            let start = tsc();
            for batch in addrs.chunks_exact(BATCH) {
                fib.lookup_batch(&reader, batch, &mut hops);
                std::hint::black_box(&hops);
            }
            best = best.min(tsc() - start);
        }
        let cycles = best as f64 / addrs.len() as f64;
        println!("{name:<12}{kind:<32}{cycles:>9.1} cycles{:>9.1} M/s", tsc_hz() as f64 / cycles / 1e6);
    }
}

fn targets<A: Address>(routes: &[Route<A>]) -> Vec<(&'static str, Vec<A>)> {
    let mut random = Random(0x9E37_79B9);
    let within = |prefix: Prefix<A>, addr: A| prefix.first() | (addr & A::host_mask(prefix.len()));
    let pick = |random: &mut Random| {
        let route = &routes[random.next() as usize % routes.len()];
        within(route.prefix, random.address())
    };
    let many: Vec<A> = (0..LOOKUPS).map(|_| pick(&mut random)).collect();
    let few = many[..4096].iter().copied().cycle().take(LOOKUPS).collect();
    let space = (0..LOOKUPS).map(|_| random.address()).collect();
    vec![
        ("4,096 over the prefixes", few),
        ("65,536 over the prefixes", many),
        ("65,536 over the space", space),
    ]
}

/// Makes an empty structure.
type New<A> = fn() -> Box<dyn Fib<A>>;

fn family<A: Address>(
    count: usize,
    structures: &[(&str, New<A>)],
    load: impl Fn(&RouteFile) -> (Duration, Vec<Route<A>>),
    wrap: impl Fn(Vec<Route<A>>) -> RouteFile,
) {
    let next_hops: Vec<_> = (0..64)
        .map(|i| NextHop { gateway: Some([192, 0, 2, i + 1].into()), port: u32::from(i % 4) })
        .collect();
    println!("\n{}, {count} routes", A::FAMILY);
    let (table, took) = timed(|| synth::<A>(count, SEED, &next_hops).expect("arguments are in range"));
    seconds("make up", took);
    let mut text = Vec::new();
    wrap(table.routes).write(&mut text).expect("writing to memory");
    let (file, parse) = timed(|| RouteFile::parse(&text, None).expect("what was written can be read"));
    seconds("parse the text", parse);
    let (build, routes) = load(&file);
    seconds("apply to an empty table", build);
    seconds("parse and apply", parse + build);
    let mut rib = Rib::new();
    for route in &routes {
        rib.insert(route.prefix, fib::NextHopId::new(u32::from(route.prefix.len()) % 64).expect("small"));
    }
    let targets = targets(&routes);
    for (name, new) in structures {
        let fib = new();
        let ((), took) = timed(|| fib.update(&rib, &[Prefix::default()]));
        let bytes: usize = fib.memory().iter().map(|part| part.bytes).sum();
        println!(
            "{name:<12}{:<32}{:>9.3} s{:>14.1} MB",
            "build from the RIB",
            took.as_secs_f64(),
            bytes as f64 / 1e6
        );
        lookups(name, &*fib, &targets);
    }
}

fn apply<A: Address>(fib: impl Fib<A> + 'static, routes: &[Route<A>]) -> (Duration, Vec<Route<A>>) {
    let (table, took) = timed(|| {
        let table = RouteTable::new(fib);
        let changes: Vec<_> = routes.iter().map(|&route| RouteChange::Set(route)).collect();
        table.apply(&changes).expect("few next hops");
        table
    });
    (took, table.routes())
}

fn main() {
    // cargo itself passes `--bench`.
    let mut counts = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let v4 = counts.next().unwrap_or(1_000_000);
    let v6 = counts.next().unwrap_or(200_000);
    family::<u32>(
        v4,
        &[
            ("dir24_8", || Box::new(Dir24_8::new())),
            ("poptrie", || Box::new(Poptrie::new())),
            ("poptrie/16", || Box::new(Poptrie::with_direct_bits(16))),
            ("range tree", || Box::new(RangeTree::new())),
            ("radix", || Box::new(Radix::new())),
        ],
        |file| apply(Dir24_8::new(), &file.v4),
        |v4| RouteFile { v4, v6: Vec::new() },
    );
    family::<u128>(
        v6,
        &[
            ("range tree", || Box::new(RangeTree::new())),
            ("poptrie", || Box::new(Poptrie::new())),
            ("poptrie/18", || Box::new(Poptrie::with_direct_bits(18))),
            ("poptrie/20", || Box::new(Poptrie::with_direct_bits(20))),
            ("radix", || Box::new(Radix::new())),
        ],
        |file| apply(Poptrie::new(), &file.v6),
        |v6| RouteFile { v4: Vec::new(), v6 },
    );
}
