//! Updates of single routes, while a reader looks up.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use epoch::Reader;
use fib::{Dir24_8, Fib, NextHopId, Random, Rib, Route, RouteChange, RouteTable};

use crate::common::{order, processor_time};
use crate::report::Report;
use crate::rivals::RteFib;
use crate::traffic::SEED;
use crate::{Options, hop, pin};

/// How long the reader's rate is taken, with and without updates in turn.
const SPAN: Duration = Duration::from_millis(40);
/// Rounds of spans: short ones, so that all of a round see the same of what else runs.
const ROUNDS: usize = 41;
/// The largest batch of lookups in `rte_fib`.
const MOST: usize = 256;
/// Changes of a large transaction; divides [`BURST`].
const TOGETHER: usize = 64;
/// Updates between two looks at the clock.
const BURST: usize = 256;
/// The pace beside which a reader is to keep its rate, in updates a second: a million, and some more so that it is never less.
const PACE: f64 = 1.03e6;

/// A table that routes of the full one come to and go from, one at a time.
trait Writer {
    /// The `index`-th route gets this next hop, or goes.
    fn update(&mut self, index: usize, hop: Option<NextHopId>);
}

/// The lookup structure and the RIB.
struct Direct<'t> {
    fib: &'t Dir24_8,
    rib: Rib<u32>,
    routes: &'t [Route<u32>],
}

impl Writer for Direct<'_> {
    fn update(&mut self, index: usize, hop: Option<NextHopId>) {
        let prefix = self.routes[index].prefix;
        match hop {
            Some(hop) => self.rib.insert(prefix, hop),
            None => self.rib.remove(prefix),
        };
        self.fib.update(&self.rib, &[prefix]);
    }
}

/// All that a router has.
struct Transactions<'t> {
    table: &'t RouteTable<u32>,
    routes: &'t [Route<u32>],
    /// Changes of a transaction, and those that wait for theirs to be complete.
    size: usize,
    changes: Vec<RouteChange<u32>>,
}

impl<'t> Transactions<'t> {
    fn new(table: &'t RouteTable<u32>, routes: &'t [Route<u32>], size: usize) -> Transactions<'t> {
        Transactions { table, routes, size, changes: Vec::with_capacity(size) }
    }
}

impl Writer for Transactions<'_> {
    fn update(&mut self, index: usize, hop: Option<NextHopId>) {
        let mut route = self.routes[index];
        self.changes.push(match hop {
            Some(hop) => {
                route.next_hop.port = hop.index() as u32;
                RouteChange::Set(route)
            }
            None => RouteChange::Remove(route.prefix, None),
        });
        if self.changes.len() == self.size {
            self.table.apply(&self.changes).expect("the routes are there");
            self.changes.clear();
        }
    }
}

/// DPDK's.
struct Theirs<'t> {
    fib: RteFib,
    routes: &'t [Route<u32>],
}

impl Writer for Theirs<'_> {
    fn update(&mut self, index: usize, hop: Option<NextHopId>) {
        let prefix = self.routes[index].prefix;
        let done = match hop {
            Some(hop) => self.fib.set(prefix, hop),
            None => self.fib.remove(prefix),
        };
        assert!(done, "{prefix}");
    }
}

/// What updates do.
#[derive(Clone, Copy)]
enum Kind {
    /// Each gives a route another next hop.
    Change,
    /// A route goes, then comes back.
    Flap,
}

/// Makes updates for [`SPAN`], of routes from number `at` on, as fast as it can or at a pace in updates a second; returns how many.
fn write(
    writer: &mut dyn Writer,
    kind: Kind,
    reading: &Reading<'_>,
    pace: Option<f64>,
    at: &mut usize,
) -> u64 {
    let Reading { routes, options: Options { next_hops, .. }, .. } = reading;
    let start = Instant::now();
    let mut made = 0;
    while start.elapsed() < SPAN {
        let due = pace.map_or(Duration::ZERO, |pace| Duration::from_secs_f64(made as f64 / pace));
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        for _ in 0..BURST {
            let index = *at % routes.len();
            *at += 1;
            match kind {
                Kind::Change => {
                    let other = (routes[index].next_hop.port + *at as u32) % next_hops;
                    writer.update(index, NextHopId::new(other));
                    made += 1;
                }
                Kind::Flap => {
                    writer.update(index, None);
                    writer.update(index, Some(hop(&routes[index])));
                    made += 2;
                }
            }
        }
    }
    made
}

/// Computes for [`SPAN`], without memory.
fn compute() {
    let start = Instant::now();
    let mut state = SEED;
    while start.elapsed() < SPAN {
        for step in 0..10_000 {
            state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7) ^ step;
        }
        std::hint::black_box(state);
    }
}

/// Looks up a batch.
type LookUp<'l> = &'l (dyn Fn(&mut Reader, &mut [Option<NextHopId>], &[u32]) + Sync);

/// What is measured against: who looks up, with what.
struct Reading<'r> {
    options: &'r Options,
    routes: &'r [Route<u32>],
    addresses: &'r [u32],
}

/// All updates that are measured, and their names.
const KINDS: [(Kind, &str); 2] =
    [(Kind::Change, "next hops changed"), (Kind::Flap, "routes withdrawn and announced")];

/// Looks up until it is done.
fn read(addresses: &[u32], batch: usize, look_up: LookUp<'_>, done: &AtomicBool, looked_up: &AtomicU64) {
    let mut reader = Reader::new();
    let mut hops = vec![None; batch];
    while !done.load(Ordering::Relaxed) {
        for addresses in addresses.chunks_exact(batch) {
            look_up(&mut reader, &mut hops, addresses);
            reader.quiescent();
            looked_up.fetch_add(batch as u64, Ordering::Relaxed);
        }
    }
}

/// Updates of `writer` beside lookups of a thread of its own, on a core of its own. What lookups lose beside a thread that
/// only computes they lose to the machine, whose cores may be two threads of one; what they lose beside `elsewhere`, which
/// updates a table that nobody reads, to caches in common, too.
fn measure(
    report: &Report,
    name: &str,
    reading: &Reading<'_>,
    look_up: LookUp<'_>,
    kinds: &[(Kind, &str)],
    writer: &mut dyn Writer,
    mut elsewhere: Option<&mut dyn Writer>,
) -> Result<(), String> {
    let Reading { options, addresses, .. } = reading;
    let (done, looked_up, ready) = (AtomicBool::new(false), AtomicU64::new(0), Barrier::new(2));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let pinned = pin(options.core);
            ready.wait();
            read(addresses, options.batch, look_up, &done, &looked_up);
            pinned
        });
        ready.wait();
        let (mut at, mut at_elsewhere) = (0, 0);
        for &(kind, what) in kinds {
            let [mut updates, mut alone, mut kept, mut pace, mut kept_at_pace] = [const { Vec::new() }; 5];
            let [mut computing, mut machine, mut shared] = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                // Updates, seconds, seconds of this thread's processor time, millions of lookups a second.
                let span = |work: &mut dyn FnMut() -> u64| {
                    let (before, start, cpu) =
                        (looked_up.load(Ordering::Relaxed), Instant::now(), processor_time());
                    let made = work() as f64;
                    let (took, cpu) = (start.elapsed().as_secs_f64(), processor_time() - cpu);
                    let lookups = looked_up.load(Ordering::Relaxed) - before;
                    (made, took, cpu, lookups as f64 / took / 1e6)
                };
                let (.., quiet) = span(&mut || {
                    std::thread::sleep(SPAN);
                    0
                });
                let (made, took, cpu, beside) = span(&mut || write(writer, kind, reading, None, &mut at));
                updates.push(made / took / 1e6);
                alone.push(made / cpu / 1e6);
                kept.push(beside / quiet);
                let (made, took, _, beside) = span(&mut || write(writer, kind, reading, Some(PACE), &mut at));
                pace.push(made / took / 1e6);
                kept_at_pace.push(beside / quiet);
                let (.., beside_arithmetic) = span(&mut || {
                    compute();
                    0
                });
                computing.push(beside_arithmetic / quiet);
                if let Some(other) = elsewhere.as_deref_mut() {
                    let (.., busy) = span(&mut || write(other, kind, reading, None, &mut at_elsewhere));
                    machine.push(busy / quiet);
                    shared.push(beside / busy);
                }
            }
            report.figure("updates", name, Some(what), "M/s", &updates);
            report.figure("updates per processor second", name, Some(what), "M/s", &alone);
            report.figure("reader's rate beside updates", name, Some(what), "x", &kept);
            report.figure("updates at a pace", name, Some(what), "M/s", &pace);
            report.figure("reader's rate beside updates at a pace", name, Some(what), "x", &kept_at_pace);
            report.figure("reader's rate beside arithmetic", name, Some(what), "x", &computing);
            if elsewhere.is_some() {
                report.figure("reader's rate, other table", name, Some(what), "x", &machine);
                report.figure("reader's rate, this to other", name, Some(what), "x", &shared);
            }
        }
        done.store(true, Ordering::Relaxed);
        thread.join().map_err(|_| "the reader panicked".to_owned())?
    })
}

pub fn run(
    report: &Report,
    options: &Options,
    routes: &[Route<u32>],
    addresses: &[u32],
    rival: RteFib,
) -> Result<(), String> {
    // In random order, but one after the other in memory, as they come in from a neighbour.
    let routes: Vec<_> = order(&mut Random::new(SEED), routes.len()).into_iter().map(|i| routes[i]).collect();
    let routes = &routes[..];
    // The reader stays on the core of the lookups.
    pin(usize::from(options.core == 0))?;
    let reading = Reading { options, routes, addresses };
    let reader = rival.reader();
    let look_up = |_: &mut Reader, _: &mut [Option<NextHopId>], batch: &[u32]| {
        let mut hops = [0; MOST];
        reader.lookups(batch, &mut hops[..batch.len().min(MOST)]);
        std::hint::black_box(&hops);
    };
    measure(report, "rte_fib", &reading, &look_up, &KINDS, &mut Theirs { fib: rival, routes }, None)?;

    let rib: Rib<u32> = routes.iter().map(|route| (route.prefix, hop(route))).collect();
    let fib = Dir24_8::build(&rib);
    let look_up = |reader: &mut Reader, hops: &mut [Option<NextHopId>], batch: &[u32]| {
        fib.lookup_batch(reader, batch, hops);
        std::hint::black_box(hops);
    };
    let twin = Dir24_8::build(&rib);
    let mut other = Direct { fib: &twin, rib: rib.clone(), routes };
    let mut writer = Direct { fib: &fib, rib, routes };
    measure(report, "Rib and Dir24_8", &reading, &look_up, &KINDS, &mut writer, Some(&mut other))?;
    drop((writer, other));

    let changes: Vec<_> = routes.iter().map(|route| RouteChange::Set(*route)).collect();
    let [table, twin] = [(); 2].map(|()| RouteTable::new(Dir24_8::new()));
    for table in [&table, &twin] {
        table.apply(&changes).map_err(|e| e.to_string())?;
    }
    let look_up = |reader: &mut Reader, hops: &mut [Option<NextHopId>], batch: &[u32]| {
        table.lookup_batch(reader, batch, hops);
        std::hint::black_box(hops);
    };
    // A large transaction has no route twice: what goes would be back before a reader sees it.
    let writers =
        [(1, "RouteTable of Dir24_8", &KINDS[..]), (TOGETHER, "RouteTable, 64 at once", &KINDS[..1])];
    for (size, name, kinds) in writers {
        let [mut writer, mut other] = [&table, &twin].map(|table| Transactions::new(table, routes, size));
        measure(report, name, &reading, &look_up, kinds, &mut writer, Some(&mut other))?;
    }
    Ok(())
}
