//! Starts the control side in a process of its own, follows it, and starts it again when it has ended.
//!
//! What it has published stays in the router's tables, so that packets are forwarded all the time.

use super::apart::{COMMAND, Report, Task};
use crate::run::Service;
use control::Tables;
use control::replicate::Replica;
use control::replicate::apart::{ChannelError, Reins, follow};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// This program, also when another version has taken its place in the file system.
const OWN: &str = "/proc/self/exe";
/// After the second end in a row it waits for so long, …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … then twice as long each time, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// One that was in step for so long has not ended in a row.
const LONG: Duration = Duration::from_secs(10);
/// So often it may end at the router's start before it was in step once, and another version of it in a row.
const FIRST_TRIES: u32 = 3;

/// What there is to see of the control side.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its process, if there is one.
    pub pid: Option<u32>,
    /// When that was started, or the last one ended.
    pub since: Instant,
    /// Processes started so far.
    pub starts: u64,
    /// The tables have had everything that the kernel had when it was started.
    pub in_step: bool,
    /// How the last one ended.
    pub last_end: Option<String>,
    /// What it last said.
    pub report: Report,
    /// Where its log had come to when it first said that it had read and published everything.
    whole: Option<u64>,
    /// Times in a row that it ended before it was in step for long.
    in_a_row: u32,
}

struct Shared {
    seen: Mutex<Seen>,
    reins: Reins,
    stop: AtomicBool,
    /// Where zebra connects, for the next process.
    fpm: Mutex<Option<SocketAddr>>,
    /// Somebody wants a new process,
    asked: AtomicBool,
    /// of the program that is now in the file.
    renewed: AtomicBool,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fpm(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.fpm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The control side's process and who looks after it; dropping it ends both.
pub struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Starts the process from the calling thread's network namespace, and fills `tables`, which nobody else changes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(task: Task, tables: Tables, service: Arc<Service>) -> io::Result<Supervisor> {
        let seen = Seen {
            pid: None,
            since: Instant::now(),
            starts: 0,
            in_step: false,
            last_end: None,
            report: Report::default(),
            whole: None,
            in_a_row: 0,
        };
        let shared = Arc::new(Shared {
            seen: Mutex::new(seen),
            reins: Reins::new()?,
            stop: AtomicBool::new(false),
            fpm: Mutex::new(task.fpm),
            asked: AtomicBool::new(false),
            renewed: AtomicBool::new(false),
        });
        let (its, replica) = (shared.clone(), Replica::new(tables));
        // The process is told when the thread ends that has started it, so that it is this one that lives on.
        let thread = Builder::new().name("supervisor".to_owned()).spawn(move || {
            Watching { task, shared: its, replica, service, own: true, file: file() }.run();
        })?;
        Ok(Supervisor { shared, thread: Some(thread) })
    }

    /// Waits until the tables have everything for the first time.
    ///
    /// # Errors
    /// What to tell the user if they have not after `limit`.
    pub fn wait(&self, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            let ended = seen.last_end.unwrap_or_default();
            if seen.in_step {
                return Ok(());
            } else if seen.in_a_row >= FIRST_TRIES {
                return Err(format!("the control side does not start ({ended})"));
            } else if begun.elapsed() >= limit {
                return Err("the kernel's routes cannot be read".to_owned());
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// What there is to see.
    pub fn seen(&self) -> Seen {
        self.shared.seen().clone()
    }

    /// Has a new process take the place of the one that there is: of the program that is now where this one was started
    /// from. If that ends before it is in step, or some times in a row, this one is started again.
    pub fn restart(&self) {
        self.shared.renewed.store(true, Ordering::Release);
        self.ask();
    }

    /// Has a process that takes routes from elsewhere take the place of the one that there is. What is in the tables stays
    /// until the new one knows better.
    ///
    /// # Errors
    /// What to tell the user if it ends, or is not in step after `limit`; then one as before takes its place.
    pub fn set_fpm(&self, fpm: Option<SocketAddr>, limit: Duration) -> Result<(), String> {
        let starts = self.seen().starts;
        let before = std::mem::replace(&mut *self.shared.fpm(), fpm);
        self.ask();
        self.wait_for_another(starts, limit).inspect_err(|_| {
            *self.shared.fpm() = before;
            self.ask();
        })
    }

    fn ask(&self) {
        self.shared.asked.store(true, Ordering::Release);
        self.shared.reins.pull();
    }

    /// Waits until one is in step that was started after `starts` others.
    fn wait_for_another(&self, starts: u64, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            let seen = self.seen();
            if seen.starts > starts && seen.in_step {
                return Ok(());
            } else if seen.starts > starts && seen.in_a_row > 0 {
                return Err(format!(
                    "the control side does not start ({})",
                    seen.last_end.unwrap_or_default()
                ));
            }
            sleep(Duration::from_millis(2));
        }
        Err("the control side is not in step".to_owned())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.reins.pull();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where this program was started from.
fn file() -> PathBuf {
    std::fs::read_link(OWN).unwrap_or_else(|_| OWN.into())
}

/// What the thread has.
struct Watching {
    task: Task,
    shared: Arc<Shared>,
    replica: Replica,
    service: Arc<Service>,
    /// The next process is of this program, whatever is in its file by now.
    own: bool,
    file: PathBuf,
}

impl Watching {
    fn run(mut self) {
        while !self.shared.stops() {
            let begun = Instant::now();
            let ended = self.once();
            if self.shared.stops() {
                return;
            }
            let asked = self.shared.asked.swap(false, Ordering::AcqRel);
            let pause = self.note(&ended, asked, begun);
            let until = Instant::now() + pause;
            while !self.shared.stops() && !self.shared.asked.load(Ordering::Acquire) && Instant::now() < until
            {
                sleep(Duration::from_millis(5));
            }
        }
    }

    /// One process, from its start to its end; says how it ended.
    fn once(&mut self) -> String {
        let program = if self.own { Path::new(OWN) } else { &self.file };
        self.task.fpm = *self.shared.fpm();
        let (mut child, stream) = match start(program, &self.task) {
            Ok(started) => started,
            Err(e) => return format!("{}: {e}", self.file.display()),
        };
        let shared = self.shared.clone();
        {
            let mut seen = shared.seen();
            (seen.pid, seen.since) = (Some(child.id()), Instant::now());
            seen.starts += 1;
            (seen.report, seen.in_step, seen.whole) = (Report::default(), false, None);
        }
        let service = &self.service;
        let ended = follow(stream, &mut self.replica, &shared.reins, |report, position| {
            let mut seen = shared.seen();
            if let Some(report) = report.and_then(|report| serde_json::from_slice(report).ok()) {
                seen.report = report;
            }
            if seen.whole.is_none() && seen.report.status.kernel && seen.report.status.published {
                seen.whole = Some(seen.report.position);
            }
            let has_all = seen.whole.is_some_and(|whole| position.is_some_and(|at| at >= whole));
            if has_all && !seen.in_step {
                seen.in_step = true;
                tell_in_step(&seen, service);
            }
        });
        let status = end(&mut child);
        match ended {
            Ok(()) => "it was asked to".to_owned(),
            Err(ChannelError::Closed) => status,
            Err(e) => format!("{e}; {status}"),
        }
    }

    /// Takes note of an end, and tells of it; how long to wait before the next start.
    fn note(&mut self, ended: &str, asked: bool, begun: Instant) -> Duration {
        let mut seen = self.shared.seen();
        let was_long = seen.in_step && begun.elapsed() >= LONG;
        seen.in_a_row = if asked || was_long { 0 } else { seen.in_a_row + 1 };
        // A program from the file that does not get on is given up.
        let renewed = self.shared.renewed.swap(false, Ordering::AcqRel);
        self.own = !renewed && (self.own || !seen.in_step || seen.in_a_row >= FIRST_TRIES);
        let pause = pause(seen.in_a_row);
        let pid = seen.pid.take().map_or(String::new(), |pid| format!(" {pid}"));
        (seen.since, seen.in_step, seen.last_end) = (Instant::now(), false, Some(ended.to_owned()));
        drop(seen);
        let when = if pause.is_zero() { "now".to_owned() } else { format!("in {} ms", pause.as_millis()) };
        say(&format!(
            "process{pid} ended ({ended}); packets are forwarded as before, and it is started again {when}"
        ));
        self.service.status(&format!("the control side ended ({ended}); packets are forwarded as before"));
        pause
    }
}

fn say(what: &str) {
    ::io::say!("routebricks: control: {what}");
}

/// Says that a process that is not the first has come to know everything.
fn tell_in_step(seen: &Seen, service: &Service) {
    if seen.starts > 1 {
        let (pid, after) = (seen.pid.unwrap_or(0), seen.since.elapsed().as_secs_f64());
        say(&format!("process {pid} is in step after {after:.2} s"));
        service.status(&format!("running; the control side was started {} times", seen.starts));
    }
}

/// How long to wait after so many ends in a row.
fn pause(in_a_row: u32) -> Duration {
    match in_a_row {
        0 | 1 => Duration::ZERO,
        more => FIRST_PAUSE.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_PAUSE),
    }
}

/// Starts the process; the socket to it.
fn start(program: &Path, task: &Task) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command.arg0("routebricks").arg(COMMAND);
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(variable);
    }
    // What a terminal sends to our group is not for it.
    command.stdin(Stdio::piped()).stdout(OwnedFd::from(theirs)).process_group(0);
    let mut child = command.spawn()?;
    // One that does not read has ended, and the socket tells that.
    if let Some(input) = child.stdin.take()
        && let Err(e) = serde_json::to_writer(input, task)
    {
        say(&format!("process {}: {e}", child.id()));
    }
    Ok((child, ours))
}

/// Ends a process that may have ended; says how.
fn end(child: &mut Child) -> String {
    // It keeps nothing that it would have to put in order.
    let _ = child.kill();
    child.wait().map_or_else(|e| e.to_string(), |status| status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<u128> = (0..10).map(|n| pause(n).as_millis()).collect();
        assert_eq!(pauses, [0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
