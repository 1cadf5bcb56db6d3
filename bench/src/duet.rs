//! A router (or testpmd) under a load that is less than it could carry: two processes, joined by a `net_memif` port.
//!
//! ```text
//!  prober, a core of its own                     subject, the core of the other figures
//!  conf/bench/probe.click ── load, probes ──▶ net_memif ──▶ router or testpmd
//!                         ◀─────────────────  net_memif ◀── sends back what it forwards
//! ```

use crate::pairs::{Bench, MEMORY};
use crate::program::{Program, Start, pause};
use crate::running::Running;
use io::pcap::Reader;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Probes a second: few beside any load.
const PROBES: u32 = 5000;
/// Packets a second that nobody can make.
const UNLIMITED: u64 = 10_000_000_000;
/// Probes of the beginning do not count: caches fill, and those of before the other side was there come late.
const WARM_UP: Duration = Duration::from_millis(700);

/// Who is measured.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The router with a file of `conf/`, and words behind that.
    Router(&'static str, Vec<String>),
    /// `dpdk-testpmd --forward-mode=io`.
    Testpmd,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Packets a second that the subject forwarded.
    pub rate: f64,
    /// Microseconds from leaving the prober to coming back, in order.
    pub micros: Vec<f64>,
}

/// Cycles of the time-stamp counter, by `show runtime`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// In all elements, but for polls that found nothing.
    pub busy: f64,
    /// In polls that found nothing.
    pub empty: f64,
    /// Packets received.
    pub packets: f64,
}

impl Cycles {
    /// Of the rows of `show runtime --json`.
    fn of(table: &Value) -> Cycles {
        let mut all = Cycles::default();
        for row in table["rows"].as_array().into_iter().flatten() {
            let number = |key: &str| row[key].as_f64().unwrap_or_default();
            all.busy += number("cycles");
            all.empty += number("empty_poll_cycles");
            if row["class"] == "FromDPDKDevice" {
                all.packets += number("packets");
            }
        }
        all
    }

    fn since(self, before: Cycles) -> Cycles {
        Cycles {
            busy: self.busy - before.busy,
            empty: self.empty - before.empty,
            packets: self.packets - before.packets,
        }
    }
}

impl Outcome {
    /// The value that this part of the probes does not exceed; `None` if no probe came back.
    pub fn percentile(&self, part: f64) -> Option<f64> {
        let last = self.micros.len().checked_sub(1)?;
        self.micros.get((last as f64 * part).round() as usize).copied()
    }
}

/// The prober. Dropping it ends it.
struct Prober {
    running: Running,
    folder: PathBuf,
}

impl Prober {
    /// Starts it and waits until it is ready for the other side. A `rate` of 0 is as fast as it can.
    fn start(
        bench: &Bench<'_>,
        core: usize,
        rate: u64,
        destination: &str,
        folder: &Path,
    ) -> Result<Prober, String> {
        // Few packets at a time: its clock is read between the turns, which must be short.
        let mut command = bench.router_on(&[core], 1, Some(16), "conf/bench/probe.click");
        let rate = if rate == 0 { UNLIMITED } else { rate };
        command.extend([format!("RATE={rate}"), format!("PROBES={PROBES}"), format!("DST={destination}")]);
        for (name, file) in [("SENT", "sent.pcap"), ("BACK", "back.pcap")] {
            command.push(format!("{name}={}", folder.join(file).display()));
        }
        command.push("--".to_owned());
        command.extend(eal(bench, "server", folder, "prober"));
        let mut running = Running::start(&command, &folder.join("prober.log"))?;
        running.wait_until_ready()?;
        Ok(Prober { running, folder: folder.to_path_buf() })
    }

    /// Ends it; gives its probes' times.
    fn end(mut self) -> Result<Vec<f64>, String> {
        self.running.end();
        let read = |name: &str| probes(&self.folder.join(name));
        Ok(times(&read("sent.pcap")?, &read("back.pcap")?))
    }
}

/// What a program tells DPDK about its end of the link.
fn eal(bench: &Bench<'_>, role: &str, folder: &Path, name: &str) -> Vec<String> {
    let socket = folder.join("memif.sock");
    let mut words =
        vec![format!("--vdev=net_memif0,role={role},socket={},socket-abstract=no", socket.display())];
    words.push(format!("--file-prefix={}", prefix(name)));
    words.push("--no-pci".to_owned());
    words.extend(bench.memory.eal_args(MEMORY >> 21));
    words
}

fn prefix(name: &str) -> String {
    format!("bench-{}-{name}", std::process::id())
}

/// Runs both for so long at a load, in packets a second; 0 is all that there is.
///
/// # Errors
/// If there are fewer than two processors, or a program does not do its part.
pub fn play(
    bench: &Bench<'_>,
    subject: &Subject,
    rate: u64,
    destination: &str,
    time: Duration,
) -> Result<Outcome, String> {
    Ok(play_between(bench, subject, rate, destination, time, |_| Ok(()))?.0)
}

/// The same of a router, with its account of its cycles. Times are not to be had beside it: whoever asks for the account is
/// one more program on the processors of the other two.
///
/// # Errors
/// As [`play`].
pub fn play_counted(
    bench: &Bench<'_>,
    router: &Subject,
    rate: u64,
    destination: &str,
    time: Duration,
) -> Result<(f64, Cycles), String> {
    let ask = |program: &Program| runtime(bench, program.id());
    let (outcome, [before, after]) = play_between(bench, router, rate, destination, time, ask)?;
    Ok((outcome.rate, after.since(before)))
}

/// As [`play`], with what `look` finds before and after.
fn play_between<T>(
    bench: &Bench<'_>,
    subject: &Subject,
    rate: u64,
    destination: &str,
    time: Duration,
    look: impl Fn(&Program) -> Result<T, String>,
) -> Result<(Outcome, [T; 2]), String> {
    let &[own, other, ..] = &bench.cores[..] else {
        return Err("it needs two processors".to_owned());
    };
    let folder = tempfile::tempdir_in(bench.folder).map_err(|e| format!("cannot make a folder: {e}"))?;
    let prober = Prober::start(bench, other, rate, destination, folder.path())?;
    let program = Program::start(&start(bench, subject, own, folder.path()))?;
    pause(WARM_UP)?;
    let (began, sent_before, before) = (Instant::now(), program.packets()?.sent, look(&program)?);
    pause(time)?;
    let (sent, after, took) = (program.packets()?.sent, look(&program)?, began.elapsed());
    // The subject goes first: a prober that is left alone ends in good order.
    drop(program);
    let rate = (sent - sent_before) as f64 / took.as_secs_f64();
    Ok((Outcome { rate, micros: prober.end()? }, [before, after]))
}

fn start<'a>(bench: &Bench<'_>, subject: &Subject, core: usize, folder: &'a Path) -> Start<'a> {
    let (name, command) = match subject {
        Subject::Router(config, words) => {
            let mut command = bench.router_on(&[core], 1, None, config);
            command.extend(words.iter().cloned());
            command.push("--".to_owned());
            command.extend(eal(bench, "client", folder, "subject"));
            ("router", command)
        }
        Subject::Testpmd => {
            let mut command = vec!["dpdk-testpmd".to_owned(), format!("--lcores=0@{core},1@{core}")];
            command.extend(eal(bench, "client", folder, "subject"));
            command.extend(["--", "--forward-mode=io", "--total-num-mbufs=34816"].map(str::to_owned));
            ("testpmd", command)
        }
    };
    Start { name, command, cores: core.to_string(), prefix: prefix("subject"), folder }
}

fn runtime(bench: &Bench<'_>, process: u32) -> Result<Cycles, String> {
    let mut command = Command::new(&bench.router);
    let output = command.args(["show", "runtime", "--json", "--pid", &process.to_string()]).output();
    let output = output.map_err(|e| format!("{}: {e}", bench.router.display()))?;
    let table = serde_json::from_slice(&output.stdout).map_err(|e| format!("show runtime: {e}"))?;
    Ok(Cycles::of(&table))
}

/// Time in nanoseconds, and source port, of the probes in a capture.
fn probes(path: &Path) -> Result<Vec<(u64, [u8; 2])>, String> {
    let problem = |e: io::pcap::PcapError| format!("{}: {e}", path.display());
    let mut reader = Reader::open(path).map_err(problem)?;
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().map_err(problem)? {
        if let Some(&[high, low]) = record.data.get(34..36) {
            let time =
                record.timestamp.ok_or_else(|| format!("{}: a packet without a time", path.display()))?;
            all.push((time, [high, low]));
        }
    }
    Ok(all)
}

/// Microseconds that probes took, in order, but for those that left before the warm-up was over. Source ports come again
/// after 65,536 probes, which is longer than any takes.
fn times(sent: &[(u64, [u8; 2])], back: &[(u64, [u8; 2])]) -> Vec<f64> {
    let Some((first, _)) = back.first() else { return Vec::new() };
    let from = first + WARM_UP.as_nanos() as u64;
    let mut left = HashMap::new();
    let (mut next, mut all) = (0, Vec::new());
    for (came, port) in back {
        while let Some((time, port)) = sent.get(next).filter(|(time, _)| time <= came) {
            left.insert(*port, *time);
            next += 1;
        }
        if let Some(time) = left.remove(port).filter(|time| *time >= from) {
            all.push(came.saturating_sub(time) as f64 / 1000.0);
        }
    }
    all.sort_by(f64::total_cmp);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn probes_are_matched_by_port_and_the_first_ones_do_not_count() {
        let second = 1_000_000_000;
        let sent = [(0, [0, 1]), (5, [0, 2]), (second, [0, 3]), (second + 10, [0, 1]), (second + 20, [0, 4])];
        let back = [(100, [0, 1]), (second + 4000, [0, 3]), (second + 2010, [0, 1]), (second + 9000, [9, 9])];
        assert_eq!(times(&sent, &back), [2.0, 4.0]);
        assert_eq!(times(&sent, &[]), Vec::<f64>::new());
        let outcome = Outcome { rate: 0.0, micros: (0..=100).map(f64::from).collect() };
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|part| outcome.percentile(part)),
            [0.0, 50.0, 99.0, 100.0].map(Some)
        );
        assert_eq!(Outcome { micros: Vec::new(), ..outcome }.percentile(0.5), None);
    }

    #[test]
    fn cycles_of_all_elements_and_packets_of_the_first() {
        let row = |class: &str, cycles: u32, packets: u32| json!({"class": class, "cycles": cycles, "empty_poll_cycles": 5, "packets": packets});
        let table = json!({"rows": [row("FromDPDKDevice", 100, 10), row("ToDPDKDevice", 50, 10)]});
        let cycles = Cycles::of(&table);
        assert_eq!(cycles, Cycles { busy: 150.0, empty: 10.0, packets: 10.0 });
        assert_eq!(cycles.since(cycles), Cycles::default());
    }
}
