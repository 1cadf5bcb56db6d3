//! From a route's change in the kernel to the tables that workers read, while the kernel changes many others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::{NetlinkSocket, Settings, Source, Tables};
use lab::netns::{self, Namespace};
use lab::{Context, Error, Result};

use crate::side::{MODES, Mode, Ours};
use crate::storm::{GATEWAYS, Out, Pending, Storm};

/// How long one change may take at most.
const LIMIT: Duration = Duration::from_secs(10);
/// How long each rate is kept up, and how often: whatever else this machine does spoils some of them.
const LASTS: Duration = Duration::from_secs(1);
const TIMES: usize = 10;
/// None is to be lost up to this rate.
const NOT_TOO_MANY: u64 = 200_000;
/// As fast as the kernel makes them.
const UNBOUNDED: u64 = 10_000_000;

/// A network namespace with neighbours on `a0`, our control side for it, and who changes its routes.
struct Scene {
    _namespace: Namespace,
    ours: Ours,
    kernel: Out,
    listeners: Out,
    storm: Storm,
}

impl Scene {
    /// With what the kernel has told of the changes in place of these, if they are to be told again.
    fn new(mode: Mode, out: Told) -> Result<Scene> {
        let namespace = Namespace::unique("events")?;
        let mut lines = "link add a0 type veth peer name a1\nlink set a0 up\nlink set a1 up\n\
                         address add 10.0.0.1/24 dev a0\n"
            .to_owned();
        for n in 2..2 + GATEWAYS {
            lines += &format!("neigh replace 10.0.0.{n} lladdr 2:0:0:0:0:{n:x} nud permanent dev a0\n");
        }
        namespace.ip(&lines)?;
        let open = |groups| NetlinkSocket::open(groups, 64 << 20).cannot(|| "open netlink".to_owned());
        let (ours, kernel, listeners, storm) = namespace.inside(|| {
            let link = control::link::link("a0").cannot(|| "find a0".to_owned())?.index;
            let (mut storm, kernel) = (Storm::new(link)?, Out::Kernel(open(0)?));
            storm.begin(&kernel)?;
            if out == Told::Again {
                storm.record(&kernel, &open(1 << 6)?)?;
            }
            let settings = Settings { ports: vec![link], source: Source::Kernel, buffer: Settings::BUFFER };
            Ok((Ours::start(mode, &settings, Tables::default())?, kernel, Out::listeners()?, storm))
        })?;
        if !ours.wait(LIMIT) {
            return Err(Error::new("the first routes did not come"));
        }
        Ok(Scene { _namespace: namespace, ours, kernel, listeners, storm })
    }

    /// Changes at a rate, for a while, and how long each marker took.
    fn run(&mut self, out: Told, rate: u64) -> Result<Seen> {
        let (pending, over) = (Mutex::new(Pending::new()), AtomicBool::new(false));
        let lock = || pending.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.ours.handle.status().netlink;
        let (processor, stolen) = (control_time(), stolen_time());
        let tables = &self.ours.tables;
        let (mut times, reached) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(tables, &lock, &over));
            let note = |prefix, when| lock().push_back((prefix, when));
            let out = if out == Told::Again { &self.listeners } else { &self.kernel };
            let reached = self.storm.run(out, rate, LASTS, note);
            over.store(true, Ordering::Release);
            let times = watcher.join().map_err(|_| Error::new("the watcher fell"))??;
            Ok::<_, Error>((times, reached?))
        })?;
        let after = self.ours.handle.status().netlink;
        times.sort_unstable();
        let events = (after.messages - before.messages) as f64;
        let each = (control_time() - processor).as_secs_f64() / events * 1e6;
        let stolen = stolen_time().saturating_sub(stolen);
        Ok(Seen { reached, times, overruns: after.overruns - before.overruns, each, stolen })
    }

    /// The same several times, and what is to be told of it.
    fn measure(&mut self, mode: Mode, out: Told, rate: u64) -> Result<()> {
        let all = (0..TIMES).map(|_| self.run(out, rate)).collect::<Result<Vec<_>>>()?;
        let sorted = |mut figures: Vec<f64>| {
            figures.sort_unstable_by(f64::total_cmp);
            figures
        };
        let reached = sorted(all.iter().map(|seen| seen.reached).collect());
        let p99 = sorted(all.iter().map(|seen| milliseconds(seen.part(0.99))).collect());
        let each = sorted(all.iter().map(|seen| seen.each).collect());
        let overruns: u64 = all.iter().map(|seen| seen.overruns).sum();
        let runs: Vec<String> = all.iter().map(Seen::told).collect();
        let whole = Seen::joined(all);
        println!(
            "{mode:?}, {}, {:>6.0} to {:>6.0} events a second: {:.2} ms in the middle, p99 {:.2} ms, longest {:.2} ms; p99 of \
             each second {} ms, {:.2} ms in the middle; {:.2} us of the thread's processor time each; {overruns} overruns",
            if out == Told::Again { "told again" } else { "by the kernel" },
            reached[0],
            reached[TIMES - 1],
            milliseconds(whole.part(0.5)),
            milliseconds(whole.part(0.99)),
            milliseconds(whole.part(1.0)),
            runs.join(" "),
            p99[TIMES / 2],
            each[TIMES / 2],
        );
        if overruns > 0 && rate <= NOT_TOO_MANY {
            return Err(Error::new(format!("{overruns} overruns at {rate} events a second")));
        }
        Ok(())
    }
}

/// Who tells of changes: the kernel, which makes them, or we, who have heard it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Live,
    Again,
}

/// What one run gave.
#[derive(Default)]
struct Seen {
    /// Events a second.
    reached: f64,
    /// Of each marker, sorted.
    times: Vec<Duration>,
    overruns: u64,
    /// Microseconds of processor time of the control thread for an event.
    each: f64,
    /// Processor time that the host of this machine gave to others.
    stolen: Duration,
}

impl Seen {
    /// The time that this share of the markers did not take longer than.
    fn part(&self, share: f64) -> Duration {
        self.times.get(((self.times.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or_default()
    }

    /// Its p99, with what the host took away.
    fn told(&self) -> String {
        let p99 = format!("{:.1}", milliseconds(self.part(0.99)));
        if self.stolen.is_zero() { p99 } else { format!("{p99} ({} stolen)", self.stolen.as_millis()) }
    }

    fn joined(all: Vec<Seen>) -> Seen {
        let mut times: Vec<Duration> = all.into_iter().flat_map(|seen| seen.times).collect();
        times.sort_unstable();
        Seen { times, ..Seen::default() }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Processor time of the threads of this process that are called `control`, with the kernel's for them.
fn control_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let is_control = read("comm").trim() == "control";
        let text = if is_control { read("schedstat") } else { String::new() };
        text.split_whitespace().next().and_then(|time| time.parse::<u64>().ok())
    };
    Duration::from_nanos(tasks.filter_map(of).sum())
}

/// Processor time that the host has given to others instead of this machine, if it says so.
fn stolen_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse::<u32>().ok());
    TICK * ticks.unwrap_or_default()
}

/// How long each marker took to be in the tables, until no more come.
fn watch<'a>(
    tables: &Tables,
    lock: &impl Fn() -> std::sync::MutexGuard<'a, Pending>,
    over: &AtomicBool,
) -> Result<Vec<Duration>> {
    let (mut times, mut waiting) = (Vec::new(), VecDeque::new());
    loop {
        // First: what is sent before the end is seen.
        let is_over = over.load(Ordering::Acquire);
        waiting.append(&mut *lock());
        waiting.retain(|(prefix, sent): &(_, Instant)| {
            let is_there = tables.routes4.get(*prefix).is_some();
            if is_there {
                times.push(sent.elapsed());
            }
            !is_there
        });
        match waiting.front() {
            None if is_over => return Ok(times),
            Some((prefix, sent)) if sent.elapsed() > LIMIT => {
                return Err(Error::new(format!("{prefix} did not come")));
            }
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn events_reach_the_tables() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    for mode in MODES {
        let mut scene = Scene::new(mode, Told::Live)?;
        for rate in [1_000, 50_000, 100_000, 200_000, UNBOUNDED] {
            scene.measure(mode, Told::Live, rate)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn events_told_again_reach_the_tables() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    for mode in MODES {
        let mut scene = Scene::new(mode, Told::Again)?;
        for rate in [1_000, 100_000, 200_000] {
            scene.measure(mode, Told::Again, rate)?;
        }
    }
    Ok(())
}
