//! A DPDK program that forwards what port 0 receives, and what it spends on that.

use crate::telemetry::{Packets, Telemetry, runtime_folder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A program that loads a full table, or runs under valgrind, gets this long until packets flow.
const START: Duration = Duration::from_secs(180);
/// From the first packets to the measurement: caches, branch predictors and page tables fill.
pub const WARM_UP: Duration = Duration::from_millis(500);
/// From the beginning of a turn to the measurement: caches hold what the other program had there.
const REFILL: Duration = Duration::from_millis(4);
const END: Duration = Duration::from_secs(10);
/// Of so many packets one may be received and not yet sent, or lost: else it is not forwarding that is measured.
const LOST_ONE_IN: u64 = 100;

/// Set when the user wants us to stop.
pub static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// True if the user wants us to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A running program.
pub struct Program {
    name: String,
    child: Child,
    /// Kept open: `dpdk-testpmd` ends when its input does.
    _input: Option<ChildStdin>,
    log: PathBuf,
    counts: Counts,
    _files: Files,
}

/// Who knows what a program has received and sent.
enum Counts {
    Telemetry(Telemetry),
    Console(Box<dyn Console>),
}

/// A command-line client of a program: has it forward, and tells its counts.
pub trait Console {
    /// Whether the program takes commands yet.
    fn answers(&self) -> bool;

    /// Has it forward.
    ///
    /// # Errors
    /// If it refuses something.
    fn set_up(&self) -> Result<(), String>;

    /// What its ports have received and sent.
    ///
    /// # Errors
    /// If it does not answer, or not what is expected.
    fn packets(&self) -> Result<Packets, String>;
}

impl Counts {
    fn packets(&self) -> Result<Packets, String> {
        match self {
            Counts::Telemetry(telemetry) => telemetry.packets(),
            Counts::Console(console) => console.packets(),
        }
    }
}

/// DPDK's files of one program; they are ours to remove, since we chose the prefix.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a program is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// What it is called in messages and its log.
    pub name: &'static str,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Processors that it is bound to, as `taskset -c` takes them.
    pub cores: String,
    /// The file prefix that the command gives to DPDK.
    pub prefix: String,
    /// Where its log goes.
    pub folder: &'a Path,
}

/// What one measurement found.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub packets: u64,
    /// CPU time of the threads that forward, in nanoseconds.
    pub cpu_ns: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

impl Program {
    /// Starts a program that forwards by itself, and waits until packets flow.
    pub fn start(start: &Start<'_>) -> Result<Program, String> {
        let prefix = &start.prefix;
        Program::start_counted(start, |child, deadline| {
            let telemetry = wait_for(child, deadline, || Telemetry::connect(prefix));
            Ok(Counts::Telemetry(telemetry?.ok_or("DPDK's telemetry did not answer in time")?))
        })
    }

    /// Starts a program that has to be told to forward, and waits until packets flow.
    pub fn start_told(start: &Start<'_>, console: Box<dyn Console>) -> Result<Program, String> {
        Program::start_counted(start, |child, deadline| {
            let answers = wait_for(child, deadline, || console.answers().then_some(()));
            answers?.ok_or("it did not take commands in time")?;
            console.set_up()?;
            Ok(Counts::Console(console))
        })
    }

    fn start_counted(
        start: &Start<'_>,
        find: impl FnOnce(&mut Child, Instant) -> Result<Counts, String>,
    ) -> Result<Program, String> {
        let Start { name, command, cores, prefix, folder } = start;
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let same = file.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
        let mut child = Command::new("taskset")
            .args(["-c", cores])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(same)
            // Ctrl-C at the terminal is for us; we end our programs in order.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start taskset: {e}"))?;
        let input = child.stdin.take();
        let files = Files(runtime_folder().join(prefix));
        let deadline = Instant::now() + START;
        let found = find(&mut child, deadline).and_then(|counts| {
            wait_for_packets(&mut child, deadline, &counts)?;
            Ok(counts)
        });
        match found {
            Ok(counts) => {
                Ok(Program { name: (*name).to_owned(), child, _input: input, log, counts, _files: files })
            }
            Err(why) => {
                end(&mut child, END);
                Err(format!(
                    "{}: {why}; it was started with\n  {}\nand said\n{}",
                    name,
                    command.join(" "),
                    tail(&log)
                ))
            }
        }
    }

    /// The program's DPDK; empty if that does not say.
    pub fn version(&self) -> &str {
        match &self.counts {
            Counts::Telemetry(telemetry) => &telemetry.version,
            Counts::Console(_) => "",
        }
    }

    /// Buffers of its pool.
    pub fn pool_size(&self) -> Result<u64, String> {
        match &self.counts {
            Counts::Telemetry(telemetry) => telemetry.pool_size(),
            Counts::Console(_) => Err(format!("{} does not say how large its pool is", self.name)),
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What its ports have received and sent.
    pub fn packets(&self) -> Result<Packets, String> {
        self.counts.packets()
    }

    /// Measures for so long, after a warm-up, a program that so many threads forward in.
    ///
    /// # Errors
    /// If it does not forward nearly all that it receives, or its threads did nothing.
    pub fn measure(&mut self, time: Duration, threads: usize) -> Result<Sample, String> {
        let sample = self.measure_lossy(time, threads)?;
        self.check(std::slice::from_ref(&sample))?;
        Ok(sample)
    }

    /// The same of a program that may lose packets on the way, as long as some get through.
    pub fn measure_lossy(&mut self, time: Duration, threads: usize) -> Result<Sample, String> {
        pause(WARM_UP)?;
        self.sample(time, threads)
    }

    /// Fails if a program did not forward nearly all that it received in these samples.
    pub fn check(&self, samples: &[Sample]) -> Result<(), String> {
        let received: u64 = samples.iter().map(|sample| sample.received).sum();
        let packets: u64 = samples.iter().map(|sample| sample.packets).sum();
        // More than were received only seem to be forwarded where something else came between the readings of the two counts.
        if packets < received - received / LOST_ONE_IN {
            return Err(format!("{}: of {received} packets only {packets} were forwarded", self.name));
        }
        Ok(())
    }

    /// Stops it where it is, until its next [`turn`](Program::turn).
    pub fn stand_still(&self) -> Result<(), String> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a program that stands still go on for so long, after a moment in which caches fill, and measures it.
    pub fn turn(&self, time: Duration, threads: usize) -> Result<Sample, String> {
        self.signal(Signal::SIGCONT)?;
        pause(REFILL)?;
        let sample = self.sample(time, threads);
        self.stand_still()?;
        sample
    }

    fn sample(&self, time: Duration, threads: usize) -> Result<Sample, String> {
        // The telemetry thread shares the core, so while it answers the forwarding thread is off the core and its CPU
        // time is up to date.
        let (began, before) = (Instant::now(), self.counts.packets()?);
        let cpu_before = self.cpu()?;
        pause(time)?;
        let after = self.counts.packets()?;
        let cpu_after = self.cpu()?;
        let seconds = began.elapsed().as_secs_f64();
        let (received, sent) = (after.received - before.received, after.sent - before.sent);
        if sent == 0 {
            return Err(format!("{}: of {received} packets none was forwarded", self.name));
        }
        let cpu_ns = busiest(&cpu_before, &cpu_after, threads)
            .ok_or_else(|| format!("{}: fewer than {threads} threads used the processor", self.name))?;
        Ok(Sample { received, packets: sent, cpu_ns, seconds })
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let id = i32::try_from(self.child.id()).map_err(|e| e.to_string())?;
        kill(Pid::from_raw(id), signal).map_err(|e| format!("{}: {signal}: {e}", self.name))
    }

    /// CPU time of each thread, in nanoseconds.
    fn cpu(&self) -> Result<Threads, String> {
        let folder = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
        let mut threads = Threads::new();
        for task in fs::read_dir(&folder).map_err(problem)? {
            let task = task.map_err(problem)?.path();
            // A thread that has just ended is none that forwards.
            let Ok(schedstat) = fs::read_to_string(task.join("schedstat")) else { continue };
            let time = schedstat.split_whitespace().next().and_then(|t| t.parse().ok()).unwrap_or(0);
            threads.insert(task, time);
        }
        Ok(threads)
    }

    /// Ends the program.
    ///
    /// # Errors
    /// If it does not end in good order.
    pub fn stop(self) -> Result<(), String> {
        self.stop_within(END)
    }

    /// Ends a program that may take its time.
    ///
    /// # Errors
    /// As [`stop`](Program::stop).
    pub fn stop_within(mut self, patience: Duration) -> Result<(), String> {
        match end(&mut self.child, patience) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{} ended with {status}; it said\n{}", self.name, tail(&self.log))),
            None => Err(format!("{} did not end within {patience:?} of SIGTERM", self.name)),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.child, END);
    }
}

/// Nanoseconds by folder in `/proc`.
type Threads = BTreeMap<PathBuf, u64>;

/// CPU time between two readings of the `count` threads that used most, all together.
fn busiest(before: &Threads, after: &Threads, count: usize) -> Option<u64> {
    let used = |(task, now): (&PathBuf, &u64)| now.saturating_sub(before.get(task).copied().unwrap_or(0));
    let mut all: Vec<u64> = after.iter().map(used).filter(|&time| time > 0).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.get(..count).map(|most| most.iter().sum())
}

/// Looks until something is there; none if it is not in time.
///
/// # Errors
/// If the program ends meanwhile, or the user wants us to stop.
fn wait_for<T>(
    child: &mut Child,
    deadline: Instant,
    mut look: impl FnMut() -> Option<T>,
) -> Result<Option<T>, String> {
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("ended early ({status})"));
        }
        if let Some(found) = look() {
            return Ok(Some(found));
        }
        pause(Duration::from_millis(50))?;
    }
    Ok(None)
}

fn wait_for_packets(child: &mut Child, deadline: Instant, counts: &Counts) -> Result<(), String> {
    // Until its port is there the answer is none.
    let flowing = || counts.packets().is_ok_and(|packets| packets.sent > 0).then_some(());
    wait_for(child, deadline, flowing)?.ok_or_else(|| match counts.packets() {
        Ok(Packets { received, .. }) => format!("of {received} packets none was forwarded within {START:?}"),
        Err(why) => format!("no packet was forwarded within {START:?}: {why}"),
    })
}

/// Asks a process to end, makes it end if it does not; `None` in the latter case.
pub fn end(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(status);
    }
    if let Ok(id) = i32::try_from(child.id()) {
        // It may have ended in between, which is what we want. If it stands still it is let go on first: testpmd, which waits for
        // input meanwhile, would not notice that it is to end.
        let _ = kill(Pid::from_raw(id), Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(10));
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Sleeps, but not on when the user wants us to stop.
pub fn pause(time: Duration) -> Result<(), String> {
    let deadline = Instant::now() + time;
    loop {
        if interrupted() {
            return Err("interrupted".to_owned());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// The last lines of a log, indented.
fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].iter().map(|line| format!("  | {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_threads_are_those_that_used_most_since() {
        let threads = |times: &[(&str, u64)]| -> Threads {
            times.iter().map(|(name, t)| (PathBuf::from(name), *t)).collect()
        };
        let before = threads(&[("main", 900), ("worker", 100)]);
        let after = threads(&[("main", 910), ("worker", 700), ("new", 50)]);
        assert_eq!(busiest(&before, &after, 1), Some(600));
        assert_eq!(busiest(&before, &after, 2), Some(650));
        assert_eq!(busiest(&before, &after, 4), None);
        assert_eq!(busiest(&after, &after, 1), None);
    }
}
