//! Figures at loads below the most: latency, cycles against offered load (paper 1, Fig. 9), batching (its Table 1).

use crate::duet::{Outcome, Subject, play, play_counted};
use crate::figure::Spread;
use crate::pairs::{Bench, Patience, measure};
use crate::plan::{Group, Hops, Plan, plans};
use crate::value::{Measured, Target};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;

/// Loads of the sweep, in per cent of the most that comes through.
const LOADS: [u32; 7] = [1, 5, 10, 25, 50, 75, 100];
/// Packets received, and sent, at a time.
const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Load at which batches have to wait for their packets, in packets a second.
const LIGHT: u64 = 200_000;
/// A batch that is not full waits no longer.
const TIMEOUT: &str = "100us";
/// Measurements of the most that comes through; their median counts.
const MEASUREMENTS: usize = 3;
/// The most may differ by this part of it from what comes through later, or loads are not the parts of it that they seem.
const STEADY: f64 = 0.2;
/// p99 next to testpmd's.
const LATENCY: Target = Target::AtMost(3.0);
const PATH: &str = "conf/bench/ip-path.click";
const BATCHING: &str = "conf/bench/batching.click";

/// Makes figures of one group.
struct Figures {
    group: &'static str,
    arrangement: Map<String, Value>,
    all: Vec<Measured>,
}

impl Figures {
    fn new(bench: &Bench<'_>, group: &'static str, config: &str, arrangement: &str) -> Figures {
        let map = json!({
            "config": config, "arrangement": arrangement, "memory": bench.memory.describe(),
            "tsc_ghz": epoch::tsc_hz() as f64 / 1e9,
        });
        let arrangement = map.as_object().cloned().unwrap_or_default();
        Figures { group, arrangement, all: Vec::new() }
    }

    fn add(
        &mut self,
        at: Option<u32>,
        (of, what, unit): (&str, &str, &'static str),
        values: Vec<f64>,
        target: Option<Target>,
    ) {
        self.all.push(Measured {
            group: self.group,
            at: at.map(|at| (at.to_string(), f64::from(at))),
            what: what.to_owned(),
            of: of.to_owned(),
            unit,
            values,
            target,
            arrangement: self.arrangement.clone(),
        });
    }
}

/// An address that the whole table has a route for, and the router of the path through it.
fn path(bench: &Bench<'_>) -> Result<(Subject, String), String> {
    let destination = bench.table.destinations(usize::MAX, 1);
    let destination = destination.first().map(|address| Ipv4Addr::from_bits(*address).to_string());
    let (routes, _) = bench.table.routes(usize::MAX, Hops::OnePort, bench.folder)?;
    let subject = Subject::Router(PATH, vec![format!("TABLE={}", routes.display())]);
    Ok((subject, destination.ok_or("the table is empty")?))
}

fn percentile(outcome: &Outcome, part: f64) -> Result<f64, String> {
    outcome.percentile(part).ok_or_else(|| "no probe came back".to_owned())
}

const LINK: &str = "net_memif between two processes, a core each; one flow of 64-byte packets";

/// The most that comes through, in packets a second.
fn most(bench: &Bench<'_>, router: &Subject, destination: &str, patience: Patience) -> Result<f64, String> {
    let once = |_| Ok(play(bench, router, 0, destination, patience.time)?.rate);
    let rates: Result<Vec<f64>, String> = (0..MEASUREMENTS).map(once).collect();
    let spread = Spread::of(&rates?);
    spread.map(|spread| spread.median).ok_or_else(|| "nothing was measured".to_owned())
}

/// Refuses a most that is not what comes through later.
fn steady(most: f64, later: f64) -> Result<(), String> {
    if (later - most).abs() <= STEADY * most {
        return Ok(());
    }
    Err(format!(
        "the most that comes through was {:.2} Mpps, then {:.2} Mpps: they differ by more than {:.0} %, so that parts of \
         it mean nothing",
        most / 1e6,
        later / 1e6,
        100.0 * STEADY
    ))
}

/// Latency of the path through a router at half of the most that it carries, next to testpmd at the same load.
///
/// # Errors
/// If it cannot be measured here.
pub fn latency(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let (router, destination) = path(bench)?;
    let most = most(bench, &router, &destination, patience)?;
    let load = (most / 2.0) as u64;
    let mut figures = Figures::new(bench, "latency", PATH, LINK);
    figures.arrangement.insert("load_packets_per_second".to_owned(), json!(load));
    let mut micros = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..patience.pairs {
        for (subject, micros) in [&router, &Subject::Testpmd].into_iter().zip(&mut micros) {
            let outcome = play(bench, subject, load, &destination, patience.time)?;
            for (part, micros) in [0.5, 0.99].into_iter().zip(micros) {
                micros.push(percentile(&outcome, part)?);
            }
        }
    }
    steady(most, play(bench, &router, 0, &destination, patience.time)?.rate)?;
    let [router, testpmd] = micros;
    let ratios: Vec<f64> = router[1].iter().zip(&testpmd[1]).map(|(r, t)| r / t).collect();
    for (of, [median, p99]) in [("router", router), ("testpmd io", testpmd)] {
        figures.add(None, (of, "p50 at 50 % load", "µs"), median, None);
        figures.add(None, (of, "p99 at 50 % load", "µs"), p99, None);
    }
    figures.add(None, ("router", "p99, as a multiple of testpmd's", "x"), ratios, Some(LATENCY));
    Ok(figures.all)
}

/// Where the cycles of the path through a router go, from nearly idle to full.
///
/// # Errors
/// If it cannot be measured here.
pub fn load(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let (router, destination) = path(bench)?;
    let most = most(bench, &router, &destination, patience)?;
    let mut figures = Figures::new(bench, "load", PATH, LINK);
    figures.arrangement.insert("full_packets_per_second".to_owned(), json!(most.round()));
    for at in LOADS {
        // What is full is as fast as it goes, not what it was a moment ago.
        let rate = if at == 100 { 0 } else { (most * f64::from(at) / 100.0) as u64 };
        let (mut cost, mut empty, mut mpps) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..patience.pairs {
            let (forwarded, cycles) = play_counted(bench, &router, rate, &destination, patience.time)?;
            if cycles.packets <= 0.0 {
                return Err("no packet was forwarded".to_owned());
            }
            cost.push(cycles.busy / cycles.packets);
            empty.push(100.0 * cycles.empty / (cycles.busy + cycles.empty));
            mpps.push(forwarded / 1e6);
        }
        if at == 100 {
            steady(most, 1e6 * Spread::of(&mpps).map_or(0.0, |spread| spread.median))?;
        }
        figures.add(Some(at), ("router", "cycles per packet, without empty polls", "cycles"), cost, None);
        figures.add(Some(at), ("router", "cycles in empty polls", "%"), empty, None);
        figures.add(Some(at), ("router", "forwarded", "Mpps"), mpps, None);
    }
    Ok(figures.all)
}

/// What it brings, and what it costs, to receive and to send k packets at a time.
///
/// # Errors
/// If it cannot be measured here.
pub fn batching(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let io = plans(Group::Io).into_iter().next().ok_or("nothing is planned")?;
    let plan = Plan { config: BATCHING, ..io };
    let mut figures = Figures::new(bench, "batching", BATCHING, LINK);
    figures.arrangement.insert("load_packets_per_second".to_owned(), json!(LIGHT));
    figures.arrangement.insert("timeout".to_owned(), json!(TIMEOUT));
    // Latency with k = 1, pair by pair.
    let mut alone: Option<Vec<f64>> = None;
    for k in BATCHES {
        let words = vec![format!("KP={k}"), format!("KN={k}"), format!("TIMEOUT={TIMEOUT}")];
        let (mut rate, mut median, mut p99) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..patience.pairs {
            let mut start = bench.router_start(&plan)?;
            let behind = start.command.iter().position(|word| word == "--").unwrap_or(start.command.len());
            start.command.splice(behind..behind, words.iter().cloned());
            rate.push(epoch::tsc_hz() as f64 / 1e6 / measure(&start, 1, patience.time)?.cycles);
            let outcome =
                play(bench, &Subject::Router(BATCHING, words.clone()), LIGHT, "10.0.2.2", patience.time)?;
            median.push(percentile(&outcome, 0.5)?);
            p99.push(percentile(&outcome, 0.99)?);
        }
        let base = alone.get_or_insert_with(|| median.clone());
        let added = median.iter().zip(base.iter()).map(|(with, without)| with - without).collect();
        figures.add(Some(k), ("router", "rate, on net_pcap", "Mpps"), rate, None);
        figures.add(Some(k), ("router", "latency p50 at 0.2 Mpps", "µs"), median, None);
        figures.add(Some(k), ("router", "latency p99 at 0.2 Mpps", "µs"), p99, None);
        figures.add(Some(k), ("router", "added to p50 with k = 1", "µs"), added, None);
    }
    Ok(figures.all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_must_be_what_comes_through_later() {
        assert_eq!(steady(10e6, 8e6), Ok(()));
        assert_eq!(steady(10e6, 12e6), Ok(()));
        assert!(steady(10e6, 7.9e6).is_err_and(|why| why.contains("was 10.00 Mpps, then 7.90 Mpps")));
        assert!(steady(10e6, 12.1e6).is_err() && steady(10e6, f64::NAN).is_err());
    }
}
