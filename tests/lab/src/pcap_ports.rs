//! A configuration whose DPDK ports are capture files: each port reads packets from one and writes to another.
//!
//! Needs neither root nor huge pages. What a router makes of the same files is the same every time, but for the order
//! in which packets of different ports meet.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::routebricks::{Launch, Routebricks};
use crate::router::Router;
use crate::wait::wait_until;
use crate::{Context, Error, Result, trace};

/// How long a router may take to deal with all packets.
const LIMIT: Duration = Duration::from_secs(30);
/// A router whose counters have not changed for so long is done.
const QUIET: Duration = Duration::from_millis(60);

/// A port: the configuration's variable for its device, and the packets that it receives. Without a variable it is the
/// next of DPDK's ports, counted from 0.
pub type Input<'a> = (&'a str, &'a [Vec<u8>]);

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What left by each port, in order.
    pub sent: Vec<Vec<Vec<u8>>>,
    /// Everything that the router printed.
    pub printed: String,
    /// Packets lost, by `element.reason`.
    pub lost: BTreeMap<String, u64>,
}

/// Runs a file of `conf/` with `ports` until nothing moves any more, and ends it.
///
/// # Errors
/// If the router does not start, does not become quiet, or does not end with exit code 0, all its buffers back and
/// its books balanced.
pub fn run(name: &str, ports: &[Input], arguments: &[&str]) -> Result<Outcome> {
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let (mut words, mut eal) = (Vec::new(), vec!["--".to_owned(), "--no-huge".to_owned()]);
    for (number, (variable, frames)) in ports.iter().enumerate() {
        let (input, output) = files(directory.path(), number);
        trace::write(&input, frames.iter().map(Vec::as_slice))?;
        let device = format!("net_pcap{number},rx_pcap={},tx_pcap={}", input.display(), output.display());
        if variable.is_empty() {
            eal.push(format!("--vdev={device}"));
        } else {
            words.push(format!("{variable}=\"{device}\""));
        }
    }
    words.extend(arguments.iter().map(|&word| word.to_owned()).chain(eal));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut router = Routebricks::start_here(Launch::conf(name, &words)?, directory.path())?;
    let received = ports.iter().map(|(_, frames)| frames.len() as u64).sum();
    settle(&router, received).cannot(|| format!("run {name}: {}", router.process().last_lines()))?;
    let lost = router.losses()?;
    if let Some(wrong) = router.stop()?.into_iter().find(|check| !check.holds) {
        let printed = router.process().last_lines();
        return Err(Error::new(format!("{name}: {}: {}\n{printed}", wrong.name, wrong.seen)));
    }
    let numbers = 0..ports.len();
    let sent =
        numbers.map(|number| trace::read(&files(directory.path(), number).1)).collect::<Result<_>>()?;
    let log = directory.path().join("routebricks.log");
    let printed = fs::read_to_string(&log).cannot(|| format!("read {}", log.display()))?;
    Ok(Outcome { sent, printed, lost })
}

/// Where the packets of a port come from and go to.
fn files(directory: &Path, number: usize) -> (std::path::PathBuf, std::path::PathBuf) {
    (directory.join(format!("in{number}.pcap")), directory.join(format!("out{number}.pcap")))
}

/// Waits until the ports have received all packets and no counter changes any more.
fn settle(router: &Routebricks, received: u64) -> Result<()> {
    wait_until("all packets are received", LIMIT, || {
        let rows = router.rows("interfaces")?;
        let so_far: u64 = rows.iter().filter_map(|row| row["rx_packets"].as_u64()).sum();
        Ok((so_far >= received).then_some(()))
    })?;
    let mut before = Vec::new();
    wait_until("nothing moves any more", LIMIT, || {
        std::thread::sleep(QUIET);
        let now: Vec<Value> = router.rows("runtime")?.iter_mut().map(|row| row["packets"].take()).collect();
        let same = now == before;
        before = now;
        Ok(same.then_some(()))
    })
}
