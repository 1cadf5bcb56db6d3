//! Frames from one process to another: our ring next to DPDK's `net_memif`, which does the same by the same copies.

use crate::pairs::{Bench, MEMORY, Patience};
use crate::program::pause;
use crate::running::Running;
use crate::value::{Measured, Target};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SEND: &str = "conf/bench/ring-send.click";
const RECEIVE: &str = "conf/bench/ring-receive.click";
/// Bytes of frames without check sequence.
const LENGTHS: [u32; 3] = [64, 594, 1514];
/// By the rate of `net_memif` in the same turn.
const RING: Target = Target::AtLeast(1.0);

/// By what the two processes are joined.
#[derive(Clone, Copy)]
enum Link {
    Ring,
    Memif,
}

impl Link {
    const BOTH: [Link; 2] = [Link::Ring, Link::Memif];

    fn name(self) -> &'static str {
        match self {
            Link::Ring => "ring",
            Link::Memif => "net_memif",
        }
    }

    /// The device, and what DPDK is told of it, of the process that comes first and of the other.
    fn device(self, bench: &Bench<'_>, folder: &Path, is_first: bool) -> (String, Vec<String>) {
        let role = if is_first { "server" } else { "client" };
        let prefix = format!("--file-prefix=bench-{}-{role}", std::process::id());
        let mut words = vec![prefix, "--no-pci".to_owned()];
        words.extend(bench.memory.eal_args(MEMORY >> 21));
        let device = match self {
            Link::Ring => format!("ring:{}", folder.join("ring").display()),
            Link::Memif => {
                let socket = folder.join("memif.sock");
                let device = format!("net_memif0,role={role},socket={}", socket.display());
                words.push(format!("--vdev={device},socket-abstract=no"));
                "0".to_owned()
            }
        };
        (device, words)
    }
}

/// Rates of both, in turn, for each length.
///
/// # Errors
/// If there are fewer than two processors, or a process does not do its part.
pub fn measure_all(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for length in LENGTHS {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..patience.pairs {
            for (link, rates) in Link::BOTH.into_iter().zip(&mut rates) {
                rates.push(rate(bench, link, length, patience.time)? / 1e6);
            }
        }
        let ratios = rates[0].iter().zip(&rates[1]).map(|(ring, memif)| ring / memif).collect();
        let arrangement = json!({
            "config": [SEND, RECEIVE], "memory": bench.memory.describe(),
            "arrangement": "two processes, a core each; one sends as fast as the other takes",
        });
        let mut add = |of: &str, what: &str, unit, values, target| {
            all.push(Measured {
                group: "rings",
                at: Some((length.to_string(), f64::from(length))),
                what: what.to_owned(),
                of: of.to_owned(),
                unit,
                values,
                target,
                arrangement: arrangement.as_object().cloned().unwrap_or_default(),
            });
        };
        for (link, rates) in Link::BOTH.into_iter().zip(rates) {
            add(link.name(), "frames a second", "Mpps", rates, None);
        }
        add("ring", "rate, as a multiple of net_memif's", "x", ratios, Some(RING));
    }
    Ok(all)
}

/// Packets a second that the receiver counts.
fn rate(bench: &Bench<'_>, link: Link, length: u32, time: Duration) -> Result<f64, String> {
    let &[own, other, ..] = &bench.cores[..] else { return Err("it needs two processors".to_owned()) };
    let folder = tempfile::tempdir_in(memory_folder()).map_err(|e| format!("cannot make a folder: {e}"))?;
    let folder = folder.path();
    let router = |config: &str, core: usize, is_first: bool, words: &[String]| {
        let (device, eal) = link.device(bench, folder, is_first);
        let mut command = bench.router_on(&[core], 1, None, config);
        command.push(format!("DEVICE={device}"));
        command.extend_from_slice(words);
        command.push("--".to_owned());
        command.extend(eal);
        Running::start(&command, &folder.join(config.replace('/', "-")))
    };
    // Whoever sends to nobody is not heard: first the one, then the other.
    let mut receiver = router(RECEIVE, own, true, &["--read".to_owned(), "rate.rate".to_owned()])?;
    receiver.wait_until_ready()?;
    let sender = router(SEND, other, false, &[format!("LENGTH={length}")])?;
    // The counter counts from the first packet.
    pause(time)?;
    // net_memif may take the sender with it when the receiver ends first.
    receiver.end();
    let said = receiver.said();
    drop(sender);
    let rate = said.lines().find_map(|line| line.trim().parse().ok());
    rate.filter(|rate: &f64| *rate > 0.0)
        .ok_or_else(|| format!("nothing came by {}; the receiver said\n{said}", link.name()))
}

/// Where files are in memory, if there is such a folder.
fn memory_folder() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() }
}
