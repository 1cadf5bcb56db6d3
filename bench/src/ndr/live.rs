//! Trials with a router between two veth pairs: `conf/generator.click` sends, the last interface counts.

use super::latency::{Latency, probe_rate, times};
use super::load::Trial;
use super::search::Measurer;
use super::tap::Tap;
use crate::lane::{INNER, INNER_MAC, Lane, OUTER, SINK, SOURCE};
use lab::process::Process;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Buffers and rings of one program without huge pages, in megabytes.
const MEMORY: u64 = 256;
/// A router takes no longer to start.
const START: Duration = Duration::from_secs(30);
/// Packets a second to see whether it forwards already.
const PROBE: f64 = 2000.0;

/// A router that is on trial.
pub struct Live {
    lane: Lane,
    router: PathBuf,
    root: PathBuf,
    rules: Rules,
    /// `None` if Linux forwards.
    _process: Option<Process>,
}

/// How trials are made.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Of each frame, without check sequence.
    pub frame_bytes: u16,
    /// What is still on its way after the generator has ended arrives within this time.
    pub settle: Duration,
    /// The router is left alone for so long before each trial.
    pub rest: Duration,
    /// A generator that offers more than this part of the load that it should is on time: its clock and ours differ.
    pub on_time: f64,
}

/// What sends.
const GENERATOR: &str = "conf/generator.click";
/// The same with probes.
const PROBER: &str = "conf/bench/ndr-latency.click";

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Forwarder {
    /// conf/forward.click on raw sockets
    Routebricks,
    /// The kernel, with one route
    Linux,
}

impl Live {
    /// Lays the lane out and starts the router, and waits until it forwards.
    pub fn start(
        forwarder: Forwarder,
        router: &Path,
        root: &Path,
        rules: Rules,
        folder: &Path,
    ) -> Result<Live, String> {
        let lane = Lane::new()?;
        let process = match forwarder {
            Forwarder::Linux => {
                lane.let_linux_forward(std::iter::once("10.0.2.0/24".to_owned()))?;
                None
            }
            Forwarder::Routebricks => {
                let mut words = vec!["run".to_owned(), root.join("conf/forward.click").display().to_string()];
                words.extend([format!("A=af_packet:{INNER}"), format!("B=af_packet:{OUTER}")]);
                words.extend(eal());
                let program = router.display().to_string();
                let process = Process::start(&lane.router, "router", &program, &words, folder);
                Some(process.map_err(|e| e.to_string())?)
            }
        };
        let mut live =
            Live { lane, router: router.to_path_buf(), root: root.to_path_buf(), rules, _process: process };
        let deadline = Instant::now() + START;
        while live.trial(PROBE, 0.1)?.loss_ratio > 0.0 {
            if Instant::now() > deadline {
                return Err(format!("the router does not forward within {START:?}"));
            }
        }
        Ok(live)
    }

    /// Sends so many packets, and probes beside them: how many were sent, and how many a second.
    fn generate(&self, rate: f64, seconds: f64, probes: Option<f64>) -> Result<(u64, f64), String> {
        let (limit, rate) = ((rate * seconds).round().max(2.0) as u64, rate.round().max(1.0) as u64);
        let config = self.root.join(if probes.is_some() { PROBER } else { GENERATOR });
        let mut words = vec!["run".to_owned(), config.display().to_string()];
        words.extend(probes.map(|probes| format!("PROBES={probes}")));
        words.extend([
            format!("DEV=af_packet:{SOURCE}"),
            format!("RATE={rate}"),
            format!("LIMIT={limit}"),
            format!("LENGTH={}", self.rules.frame_bytes),
            format!("DSTMAC={INNER_MAC}"),
        ]);
        words.extend(["--read", "sent.count", "--read", "sent.rate"].map(str::to_owned));
        words.extend(eal());
        let mut command = self.lane.source.command(&self.router.display().to_string());
        let output = command.args(&words).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("cannot start the generator: {e}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        sent(&printed).ok_or_else(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            format!("the generator said\n{}\n{}", printed.trim_end(), error.trim_end())
        })
    }
}

/// The generator's count and rate, among what it printed.
fn sent(printed: &str) -> Option<(u64, f64)> {
    let mut lines = printed.lines().map(str::trim).filter(|line| line.parse::<f64>().is_ok());
    Some((lines.next()?.parse().ok()?, lines.next()?.parse().ok()?))
}

/// Part of the packets of a load that did not arrive. Those that the generator was too slow to send count as lost:
/// they never were offered, so the load was not stood.
fn loss(wanted: f64, sent: (u64, f64), arrived: u64, on_time: f64) -> f64 {
    let (count, rate) = sent;
    if count == 0 {
        return 1.0;
    }
    let offered = if rate > 0.0 { (rate / wanted).min(1.0) } else { 1.0 };
    let offered = if offered > on_time { 1.0 } else { offered };
    (1.0 - offered * (arrived as f64 / count as f64).min(1.0)).clamp(0.0, 1.0)
}

impl Live {
    /// The loss ratio of one trial, perhaps with so many probes a second among the load.
    fn offer(&self, load: f64, seconds: f64, probes: Option<f64>) -> Result<f64, String> {
        if crate::program::interrupted() {
            return Err("interrupted".to_owned());
        }
        sleep(self.rules.rest);
        let before = self.lane.arrived()?;
        let sent = self.generate(load - probes.unwrap_or(0.0), seconds, probes)?;
        sleep(self.rules.settle);
        let arrived = self.lane.arrived()?.saturating_sub(before);
        Ok(loss(load, sent, arrived, self.rules.on_time))
    }

    /// How long packets take at a load, for so many seconds: from coming to the router's interface to coming to the one
    /// behind it. What leaves by a raw socket is not seen, as DPDK's pass the kernel's queues by.
    pub fn latency(&self, load: f64, seconds: f64) -> Result<Latency, String> {
        let entered = Tap::open(&self.lane.router, INNER)?;
        let arrived = Tap::open(&self.lane.sink, SINK)?;
        let loss_ratio = self.offer(load, seconds, Some(probe_rate(load, seconds)))?;
        let found = times(&entered.passed()?, &arrived.passed()?);
        let (probes, lost, times) = found.ok_or("no probe arrived")?;
        Ok(Latency { load, loss_ratio, seconds, probes, lost, times })
    }
}

impl Measurer for Live {
    fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String> {
        Ok(Trial { seconds, loss_ratio: self.offer(load, seconds, None)? })
    }
}

/// What all programs tell DPDK: they share the machine, and are no measure of what it can do with huge pages.
fn eal() -> Vec<String> {
    let memory = format!("-m{MEMORY}");
    ["--", "--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", &memory].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_router_and_generator() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let loss = |sent, arrived| loss(1000.0, sent, arrived, 0.98);
        assert!(close(loss((1000, 1001.0), 1000), 0.0));
        assert!(close(loss((1000, 1000.0), 900), 0.1));
        assert!(close(loss((1000, 500.0), 1000), 0.5), "half of the load was never offered");
        assert!(close(loss((1000, 985.0), 1000), 0.0));
        assert!(close(loss((1000, 975.0), 1000), 0.025));
        assert!(close(loss((0, 0.0), 0), 1.0));
        assert!(close(loss((10, 1000.0), 12), 0.0), "what strays in is no gain");
    }

    #[test]
    fn the_generators_words() {
        assert_eq!(sent("note\n500\n1999.5\nbooks: 1 in\n"), Some((500, 1999.5)));
        assert_eq!(sent("500\n"), None);
    }
}
