//! Linux as a router between two veth pairs. A figure for context: its ports are not those of the others.

use crate::lane::{INNER_MAC, Lane};
use crate::pairs::Patience;
use crate::trace::{Table, frame};
use lab::capture::RawPort;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::thread;
use std::time::Instant;

/// What is measured, for people.
pub const ARRANGEMENT: &str = "another one than above: two veth pairs between three namespaces, 10,000 routes of the \
    table with one next hop, 4,096 destinations, 64 bytes, everything on one core; the sender's own cost, measured with \
    frames that the router does not take, is subtracted; the way over the second veth pair is part of it";
const ROUTES: usize = 10_000;
const DESTINATIONS: usize = 4096;
/// Frames of one slice: short, so that few slices are disturbed.
const SLICE: usize = 2048;
/// Of so many packets one may be lost: else it is not forwarding that is measured.
const LOST_ONE_IN: u64 = 100;

/// Cycles per packet, measurement by measurement.
pub struct Costs {
    /// What forwarding adds to the sender's cost.
    pub forwarding: Vec<f64>,
    /// The sender and the first veth pair.
    pub sender: Vec<f64>,
}

/// The kernel's release.
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "?".to_owned(), |r| r.trim().to_owned())
}

/// Measures so often, in slices in which frames are forwarded and slices in which they are not.
pub fn measure(table: &Table, core: Option<usize>, patience: Patience) -> Result<Costs, String> {
    let lane = Lane::new()?;
    lane.let_linux_forward(table.prefixes(ROUTES).map(|prefix| prefix.to_string()))?;
    let destinations = table.destinations(ROUTES, DESTINATIONS);
    let forwarded: Vec<Vec<u8>> = destinations.iter().map(|to| frame(*to, 64)).collect();
    let mut ignored = forwarded.clone();
    for frame in &mut ignored {
        // Another station's address: the kernel drops the frame before it looks at IP.
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 7, 7]);
    }
    debug_assert!(forwarded.iter().all(|frame| frame[..6] == INNER_MAC.0));
    let port = lane.port()?;
    let work = || -> Result<Costs, String> {
        pin(core)?;
        let mut costs = Costs { forwarding: Vec::new(), sender: Vec::new() };
        for _ in 0..patience.pairs {
            let before = lane.arrived()?;
            let (with, without, sent) = slices(&port, &forwarded, &ignored, patience)?;
            let arrived = lane.arrived()? - before;
            if arrived + sent / LOST_ONE_IN < sent {
                return Err(format!("of {sent} packets only {arrived} were forwarded"));
            }
            costs.forwarding.push(with - without);
            costs.sender.push(without);
        }
        Ok(costs)
    };
    // A thread of its own, which alone is bound to the core.
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|_| Err("the sender panicked".to_owned()))
}

fn pin(core: Option<usize>) -> Result<(), String> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|e| format!("core {core}: {e}"))
}

/// Cycles per packet of the middle slice with and without forwarding, and the packets that should have arrived.
fn slices(
    port: &RawPort,
    forwarded: &[Vec<u8>],
    ignored: &[Vec<u8>],
    patience: Patience,
) -> Result<(f64, f64, u64), String> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let end = Instant::now() + patience.time;
    // The first slices warm caches up, and do not count.
    let mut warm = false;
    let mut sent = 0;
    while with.is_empty() || Instant::now() < end {
        for part in 0..forwarded.len() / SLICE {
            let range = part * SLICE..(part + 1) * SLICE;
            let cost = send(port, &forwarded[range.clone()])?;
            let base = send(port, &ignored[range])?;
            sent += SLICE as u64;
            if warm {
                with.push(cost);
                without.push(base);
            }
        }
        warm = true;
        if crate::program::interrupted() {
            return Err("interrupted".to_owned());
        }
    }
    Ok((middle(&mut with), middle(&mut without), sent))
}

/// Sends frames; TSC cycles for each.
fn send(port: &RawPort, frames: &[Vec<u8>]) -> Result<f64, String> {
    let start = epoch::tsc();
    for frame in frames {
        port.send(frame).map_err(|e| e.to_string())?;
    }
    Ok((epoch::tsc() - start) as f64 / frames.len() as f64)
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn linux_forwards_between_two_veth_pairs() {
        if lab::netns::skipped() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        std::fs::write(&list, "20.0.0.0/8\n30.1.0.0/16\n").unwrap();
        let table = Table::new(Some(&list)).unwrap();
        let patience = Patience { pairs: 2, time: Duration::from_millis(50) };
        // A machine that is busy with other things may lose packets.
        let mut tries = (0..3).map(|_| measure(&table, None, patience));
        let costs = tries.find_map(Result::ok).unwrap();
        assert_eq!((costs.forwarding.len(), costs.sender.len()), (2, 2));
        assert!(
            costs.forwarding.iter().chain(&costs.sender).all(|c| c.is_finite()),
            "{:?}",
            costs.forwarding
        );
    }
}
