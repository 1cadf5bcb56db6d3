//! Lookups alone: our IPv4 structures beside `rte_fib` and `rte_lpm`, in one process, turn by turn.
//!
//! `cargo bench -p dpdk --bench lookups -- [OPTIONS]`, see `--help`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench has nobody to hand an error to")]

#[path = "../common/mod.rs"]
mod common;
mod report;
mod rivals;
mod traffic;
mod updates;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use epoch::Reader;
use fib::{Dir24_8, Fib, NextHopId, Poptrie, Prefix4, Rib, Route};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use report::Report;
use rivals::{Eal, How, RteFib, RteLpm};
use traffic::{Pattern, Table};

const HELP: &str = "\
cargo bench -p dpdk --bench lookups -- [OPTIONS]

One line of JSON per figure on standard output, a table on standard error. Needs root and 600 MB of huge pages.

  --table FILE       IPv4 prefixes, one a line, perhaps packed by gzip
                     (default: shared/data/bgp-full-table.txt.gz beside the repository, else a made-up table)
  --next-hops N      next hops that routes lead to (default 64; rte_fib takes up to 32,766)
  --batch N          addresses of each call, a multiple of 4, up to 256 (default 64)
  --rounds N         measurements of each (default 21)
  --core N           the processor to run on; the writer of the updates takes another (default 0)
  --without-lpm      leave rte_lpm out: it takes minutes to load a full table
  --without-updates  lookups only";

/// Addresses of each pattern.
const ADDRESSES: usize = 1 << 20;
/// Passes over them that one measurement takes.
const PASSES: usize = 2;

pub struct Options {
    table: Option<PathBuf>,
    next_hops: u32,
    batch: usize,
    rounds: usize,
    core: usize,
    lpm: bool,
    updates: bool,
}

fn options() -> Result<Option<Options>, String> {
    let mut options =
        Options { table: None, next_hops: 64, batch: 64, rounds: 21, core: 0, lpm: true, updates: true };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = |most: usize| {
            let text = words.next().unwrap_or_default();
            text.parse()
                .ok()
                .filter(|n| (1..=most).contains(n))
                .ok_or_else(|| format!("{word} {text}: expected a number from 1 to {most}"))
        };
        match word.as_str() {
            // From cargo.
            "--bench" => {}
            "--help" | "-h" => return Ok(None),
            "--table" => options.table = words.next().map(PathBuf::from),
            "--next-hops" => options.next_hops = number(32_766)? as u32,
            "--batch" => options.batch = number(256)?.next_multiple_of(4),
            "--rounds" => options.rounds = number(1_000_000)?,
            "--core" => {
                let text = words.next().unwrap_or_default();
                options.core = text.parse().map_err(|e| format!("--core {text}: {e}"))?;
            }
            "--without-lpm" => options.lpm = false,
            "--without-updates" => options.updates = false,
            other => return Err(format!("{other}: there is no such option; see --help")),
        }
    }
    Ok(Some(options))
}

/// Pins the calling thread.
pub fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|e| format!("core {core}: {e}"))
}

/// Something to look up in.
trait Contestant {
    /// Looks up all addresses in batches.
    fn lookups(&mut self, addresses: &[u32]);
    /// The bits of the next hops of the last batch.
    fn last(&self) -> Vec<u32>;
}

struct Ours<F> {
    fib: F,
    reader: Reader,
    hops: Vec<Option<NextHopId>>,
}

impl<F: Fib<u32>> Contestant for Ours<F> {
    fn lookups(&mut self, addresses: &[u32]) {
        // As routers do, through the trait.
        let fib: &dyn Fib<u32> = &self.fib;
        for batch in addresses.chunks_exact(self.hops.len()) {
            fib.lookup_batch(&self.reader, batch, &mut self.hops);
            std::hint::black_box(&self.hops);
        }
    }

    fn last(&self) -> Vec<u32> {
        self.hops.iter().map(|hop| NextHopId::bits(*hop)).collect()
    }
}

struct Theirs<'f> {
    fib: &'f RefCell<RteFib>,
    how: How,
    hops: Vec<u64>,
}

impl Contestant for Theirs<'_> {
    fn lookups(&mut self, addresses: &[u32]) {
        let mut fib = self.fib.borrow_mut();
        assert!(fib.select(self.how));
        fib.reader().lookups(addresses, &mut self.hops);
    }

    fn last(&self) -> Vec<u32> {
        self.hops.iter().map(|hop| *hop as u32).collect()
    }
}

struct Lpm {
    lpm: RteLpm,
    hops: Vec<u32>,
}

impl Contestant for Lpm {
    fn lookups(&mut self, addresses: &[u32]) {
        self.lpm.lookups(addresses, &mut self.hops);
    }

    fn last(&self) -> Vec<u32> {
        self.hops.clone()
    }
}

/// The number of a route's next hop.
pub fn hop(route: &Route<u32>) -> NextHopId {
    NextHopId::new(route.next_hop.port).expect("far from the limit")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

/// Builds a structure several times; prints how long that takes and what it holds.
fn build<F: Fib<u32>>(report: &Report, name: &str, rib: &Rib<u32>, new: impl Fn() -> F) -> F {
    let mut times = Vec::new();
    let fib = (0..7).map(|_| {
        let fib = new();
        let ((), took) = timed(|| fib.update(rib, &[Prefix4::default()]));
        times.push(took);
        fib
    });
    let fib = fib.last().expect("seven times");
    report.figure("build from the RIB", name, None, "s", &times);
    let bytes: usize = fib.memory().iter().map(|part| part.bytes).sum();
    report.figure("memory", name, None, "MB", &[bytes as f64 / 1e6]);
    fib
}

fn load_fib(eal: Eal, report: &Report, routes: &[Route<u32>]) -> Result<RteFib, String> {
    let before = eal.memory();
    let mut fib = RteFib::new(eal, routes.len())?;
    let (loaded, took) = timed(|| routes.iter().all(|route| fib.set(route.prefix, hop(route))));
    report.figure("build", "rte_fib", None, "s", &[took]);
    report.figure("memory", "rte_fib", None, "MB", &[(eal.memory() - before) as f64 / 1e6]);
    if loaded { Ok(fib) } else { Err("rte_fib does not take the table".to_owned()) }
}

fn load_lpm(eal: Eal, report: &Report, routes: &[Route<u32>]) -> Result<RteLpm, String> {
    let before = eal.memory();
    let mut lpm = RteLpm::new(eal, routes.len())?;
    let start = Instant::now();
    for (i, route) in routes.iter().enumerate() {
        if !lpm.add(route.prefix, hop(route)) {
            return Err(format!("rte_lpm does not take {}", route.prefix));
        }
        if i % 50_000 == 0 {
            eprintln!("rte_lpm: {i} of {} routes after {:.0} s", routes.len(), start.elapsed().as_secs_f64());
        }
    }
    report.figure("build", "rte_lpm", None, "s", &[start.elapsed().as_secs_f64()]);
    report.figure("memory", "rte_lpm", None, "MB", &[(eal.memory() - before) as f64 / 1e6]);
    Ok(lpm)
}

/// All structures must say the same as the RIB.
fn check(
    contestants: &mut [(&str, Box<dyn Contestant + '_>)],
    rib: &Rib<u32>,
    addresses: &[u32],
    batch: usize,
) {
    for addresses in addresses.chunks_exact(batch).step_by(17) {
        let expected: Vec<u32> = addresses
            .iter()
            .map(|address| NextHopId::bits(rib.lookup(*address).map(|(_, hop)| hop)))
            .collect();
        for (name, contestant) in &mut *contestants {
            contestant.lookups(addresses);
            assert_eq!(contestant.last(), expected, "{name} is wrong");
        }
    }
}

/// Takes turns; one figure for each structure and pattern, and how ours compare with the best rival of each round.
fn compare(
    report: &Report,
    contestants: &mut [(&str, Box<dyn Contestant + '_>)],
    ours: usize,
    work: &[(Pattern, Vec<u32>)],
    rounds: usize,
) {
    let mut rates = vec![vec![Vec::new(); work.len()]; contestants.len()];
    for _ in 0..rounds {
        for (p, (_, addresses)) in work.iter().enumerate() {
            for (c, (_, contestant)) in contestants.iter_mut().enumerate() {
                contestant.lookups(addresses);
                let ((), took) = timed(|| (0..PASSES).for_each(|_| contestant.lookups(addresses)));
                rates[c][p].push((PASSES * addresses.len()) as f64 / took / 1e6);
            }
        }
    }
    for (p, (pattern, _)) in work.iter().enumerate() {
        for ((name, _), rates) in contestants.iter().zip(&rates) {
            report.figure("lookups", name, Some(pattern.name()), "M/s", &rates[p]);
        }
        let best = |round: usize| rates[ours..].iter().map(|of| of[p][round]).fold(f64::MIN, f64::max);
        for ((name, _), rates) in contestants[..ours].iter().zip(&rates) {
            let ratios: Vec<f64> = (0..rounds).map(|round| rates[p][round] / best(round)).collect();
            report.figure("ratio to the best rival", name, Some(pattern.name()), "x", &ratios);
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let core = options.core.to_string();
    let eal = Eal::start(&[
        "lookups",
        "-l",
        &core,
        "--in-memory",
        "--no-pci",
        "--no-telemetry",
        "--file-prefix=routebricks-lookups",
        "--force-max-simd-bitwidth=512",
        "--log-level=error",
    ])?;
    pin(options.core)?;
    let Table { name, routes } = Table::new(options.table.clone(), options.next_hops)?;
    let report =
        Report { table: name, routes: routes.len(), next_hops: options.next_hops, batch: options.batch };
    eprintln!(
        "{}: {} routes, {} next hops, batches of {}",
        report.table, report.routes, report.next_hops, report.batch
    );
    let rib: Rib<u32> = routes.iter().map(|route| (route.prefix, hop(route))).collect();
    let work: Vec<_> =
        Pattern::ALL.iter().map(|pattern| (*pattern, pattern.addresses(&routes, ADDRESSES))).collect();

    let hops = || vec![None; options.batch];
    let dir24_8 = build(&report, "Dir24_8", &rib, Dir24_8::new);
    let poptrie = build(&report, "Poptrie", &rib, Poptrie::new);
    let fib = RefCell::new(load_fib(eal, &report, &routes)?);
    let mut contestants: Vec<(&str, Box<dyn Contestant + '_>)> = vec![
        ("Dir24_8", Box::new(Ours { fib: dir24_8, reader: Reader::new(), hops: hops() })),
        ("Poptrie", Box::new(Ours { fib: poptrie, reader: Reader::new(), hops: hops() })),
    ];
    let ours = contestants.len();
    for (name, how) in [("rte_fib scalar", How::Scalar), ("rte_fib AVX-512", How::Avx512)] {
        if fib.borrow_mut().select(how) {
            contestants.push((name, Box::new(Theirs { fib: &fib, how, hops: vec![0; options.batch] })));
        } else {
            eprintln!("{name}: not on this machine");
        }
    }
    if options.lpm {
        let lpm = load_lpm(eal, &report, &routes)?;
        contestants.push(("rte_lpm x4", Box::new(Lpm { lpm, hops: vec![0; options.batch] })));
    }
    for (_, addresses) in &work {
        check(&mut contestants, &rib, addresses, options.batch);
    }
    compare(&report, &mut contestants, ours, &work, options.rounds);
    drop(contestants);
    if options.updates {
        updates::run(&report, options, &routes, &work[0].1, fib.into_inner())?;
    }
    Ok(())
}

fn main() {
    let done = match options() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            eprintln!("{HELP}");
            Ok(())
        }
        Err(message) => Err(message),
    };
    if let Err(message) = done {
        eprintln!("lookups: {message}");
        std::process::exit(1);
    }
}
