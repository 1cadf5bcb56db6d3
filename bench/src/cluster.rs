//! Four servers as one router: what the cluster costs at each node, and what it does with traffic.
//!
//! Cycles and latency are measured by an example of `crates/router`: real routers whose ports are lists in memory. Throughput,
//! order, fairness and failure come from the model in virtual time of `crates/cluster`: the same choice of paths, numbers,
//! resequencers and queues, on links that take their time. Each figure says in `measures_again` which of the first paper's it is.

use crate::value::{Measured, Target};
use cluster::fairness::fairness;
use cluster::model::scenario::{self, LENGTH, LINE_RATE};
use cluster::model::{Loss, Matrix, Setup, Totals, Traffic};
use cluster::path::{Order, Policy};
use cluster::random::Random;
use cluster::spread::MAX_OVERDRAFT;
use cluster::topology::Topology;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Stdio;

/// Offered load, as a part of R.
const LOAD: f64 = 0.95;
/// Mixtures of three permutations that are tried.
const MIXTURES: usize = 20;
/// Packets of each line in a run, for each node that there is.
const PACKETS: usize = 1000;
/// Packets in which reordering is looked for.
const ORDERED: usize = 200_000;

/// All figures; those of cycles and latency so many times.
///
/// # Errors
/// If the example does not run here.
pub fn measure_all(root: &Path, times: u16) -> Result<Vec<Measured>, String> {
    let rounds: Result<Vec<_>, String> =
        (0..times.max(1)).map(|_| run(root, &["--cycles", "--latency"])).collect();
    let mut all = costs(&rounds?);
    for nodes in [4, 8] {
        all.extend(throughput(nodes));
    }
    all.extend(order());
    all.extend(shares());
    all.extend(failures());
    Ok(all)
}

/// Of each order, directly and half by relays: the instructions a packet that it costs more than to route and to forward.
pub const PINS: [&str; 6] = [
    "cluster-spray",
    "cluster-flowlet",
    "cluster-strict",
    "cluster-relayed-spray",
    "cluster-relayed-flowlet",
    "cluster-relayed-strict",
];

/// Counts what [`PINS`] names.
///
/// # Errors
/// If the example does not run here.
pub fn instructions(root: &Path) -> Result<Vec<(&'static str, f64)>, String> {
    let lines = run(root, &["--instructions"])?;
    let named = |name: &&'static str| {
        let (matrix, order) = match name.strip_prefix("cluster-relayed-") {
            Some(order) => ("one", order),
            None => ("uniform", name.strip_prefix("cluster-")?),
        };
        let line = lines.iter().find(|line| line["matrix"] == matrix && line["order"] == order)?;
        Some((*name, line["adds"].as_f64()?))
    };
    PINS.iter().map(|name| named(name).ok_or_else(|| format!("{name} was not counted"))).collect()
}

/// A figure of one value, of what the paper's table or section has.
fn figure(what: &str, of: String, unit: &'static str, value: f64, again: &str) -> Measured {
    let arrangement = Map::from_iter([("measures_again".to_owned(), json!(again))]);
    let what = what.to_owned();
    Measured { group: "cluster", at: None, what, of, unit, values: vec![value], target: None, arrangement }
}

/// Runs the example; gives its lines of JSON.
fn run(root: &Path, words: &[&str]) -> Result<Vec<Value>, String> {
    let mut cargo = xtask::cargo();
    // With the features of the router, and so of what it has been built of.
    cargo.args(["run", "--release", "--quiet", "--package", "router", "--features", "dpdk"]);
    cargo.args(["--example", "cluster_cost", "--"]);
    let output = cargo.args(words).arg("--json").current_dir(root).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).map_err(|e| format!("cluster_cost: {e}"))).collect()
}

/// Cycles and latency, from the lines of each round.
fn costs(rounds: &[Vec<Value>]) -> Vec<Measured> {
    let mut all = Vec::new();
    for (at, line) in rounds.first().into_iter().flatten().enumerate() {
        let lines: Vec<&Value> = rounds.iter().filter_map(|round| round.get(at)).collect();
        let of_key = |key: &str| lines.iter().filter_map(|line| line[key].as_f64()).collect::<Vec<f64>>();
        let word = |key: &str| line[key].as_str().unwrap_or_default();
        if line["schema"] == "routebricks.cluster_latency/1" {
            let way = format!("{}, {} nodes, {} at a time", word("order"), line["nodes"], line["burst"]);
            for key in ["p50", "p99"] {
                let what = format!("time from line to line, {key}");
                let again =
                    "paper 1 §6.2: latency, estimated there as 47.6 to 66.4 µs, links and devices included";
                let values = of_key(key).iter().map(|ns| ns / 1000.0).collect();
                all.push(Measured { values, ..figure(&what, way.clone(), "µs", 0.0, again) });
            }
            continue;
        }
        let (order, matrix) = (word("order"), word("matrix"));
        let of = match matrix {
            "uniform" => format!("{order}, all directly"),
            _ => format!("{order}, half by relays"),
        };
        for (key, what) in [("input", "input node"), ("relay", "relay"), ("output", "output node")] {
            let again = "paper 1 §6.2: processing at each server; some 1,830 cycles there to route a packet";
            let values = of_key(key);
            if values.iter().any(|cycles| *cycles > 0.0) {
                all.push(Measured { values, ..figure(what, of.clone(), "cycles", 0.0, again) });
            }
        }
        if order == "baseline" {
            continue;
        }
        let target = match (order, matrix) {
            ("flowlet", "uniform") => Some(Target::AtMost(15.0)),
            ("strict", "uniform") => Some(Target::AtMost(30.0)),
            _ => None,
        };
        let again = "paper 1 §6.2: what the cluster adds to route and forward";
        let added = of_key("adds");
        let what = "more than to route and to forward";
        all.push(Measured {
            values: added.clone(),
            target,
            ..figure(what, of.clone(), "cycles", 0.0, again)
        });
        // What is not added is the baseline.
        let sums = lines
            .iter()
            .map(|line| ["input", "relay", "output"].iter().filter_map(|key| line[*key].as_f64()));
        let values = sums.zip(&added).map(|(sum, added)| 100.0 * added / (sum.sum::<f64>() - added).max(1.0));
        let again = "paper 1 §6.2: tax of VLB and of keeping order, 28 % there";
        all.push(Measured { values: values.collect(), ..figure("VLB tax", of, "%", 0.0, again) });
    }
    all
}

fn mesh(nodes: u16) -> Topology {
    Topology::mesh(nodes).unwrap_or(Topology::ONE)
}

/// The worst that each rule does with matrices that are admissible.
fn throughput(nodes: u16) -> Vec<Measured> {
    let lines = usize::from(nodes);
    let mut random = Random::new(nodes.into());
    let turned = |by: usize| Matrix::permutation(&(0..lines).map(|i| (i + by) % lines).collect::<Vec<_>>());
    let mut matrices: Vec<Matrix> = (1..lines).map(turned).collect();
    matrices.extend([Matrix::uniform(lines), Matrix::hot_spot(lines, 0, 2)]);
    matrices.extend((0..MIXTURES).map(|_| {
        let parts: Vec<_> = (0..3).map(|_| (1.0 / 3.0, random.permutation(lines))).collect();
        Matrix::mixture(&parts)
    }));
    let lost = |policy, matrix: &Matrix| {
        let buffers = Setup::new(mesh(nodes), LINE_RATE, policy, Order::Spray);
        let setup = Setup { link_buffer: 64 * LENGTH, line_buffer: 256 * LENGTH, ..buffers };
        let Totals { offered, delivered, .. } = scenario::totals(setup, matrix, LOAD, PACKETS * lines, 1);
        (offered - delivered) as f64 / offered.max(1) as f64
    };
    let rules = [
        ("our rule", Policy::Adaptive, Some(Target::AtLeast(100.0 * LOAD))),
        ("the paper's Direct VLB", Policy::DirectVlb, None),
        ("classic VLB", Policy::Vlb, None),
        ("a path for each flow", Policy::FlowHash, None),
    ];
    let of_rule = |(of, policy, target): (&str, Policy, Option<Target>)| {
        let worst = matrices.iter().map(|matrix| lost(policy, matrix)).fold(0.0, f64::max);
        let again = "paper 1 §3.2 and §6.2: throughput, of the bound N R, at 95 % load, links of 2R/N";
        let value = 100.0 * LOAD * (1.0 - worst);
        let what = format!("throughput of the worst of {} matrices", matrices.len());
        let figure = figure(&what, of.to_owned(), "%", value, again);
        Measured { at: Some((nodes.to_string(), nodes.into())), target, ..figure }
    };
    rules.into_iter().map(of_rule).collect()
}

/// Reordering by order mode: all to the next node, links whose delays change by milliseconds.
fn order() -> Vec<Measured> {
    let orders = [
        ("spray", Order::Spray, None),
        // The paper's 0.15 % are of traffic with pauses; here flows have none, and lines are full.
        ("flowlet", Order::Flowlet, None),
        ("strict", Order::Strict, Some(Target::AtMost(0.0))),
        ("single-path", Order::SinglePath, Some(Target::AtMost(0.0))),
    ];
    let of_order = |(of, order, target): (&str, Order, Option<Target>)| {
        let traffic = Traffic::new(&scenario::ring(8), &[LOAD; 8], LINE_RATE, LENGTH, 64, 1);
        // What flowlets may put on a path beyond its share has to fit there, from each of seven nodes.
        let setup = Setup { link_buffer: 7 * MAX_OVERDRAFT, ..scenario::setup(mesh(8), order) };
        let (totals, report) = scenario::order(setup, traffic.take(ORDERED), scenario::restless(8, 1));
        let again = "paper 1 §6.2: reordered sequences, 0.15 % there with flowlets, 5.5 % without";
        let percent = |part: f64| 100.0 * part;
        let relayed = percent(totals.relayed as f64 / totals.offered.max(1) as f64);
        let lost = percent(totals.all_lost() as f64 / totals.offered.max(1) as f64);
        let sequences =
            figure("reordered sequences", of.to_owned(), "%", percent(report.event_ratio()), again);
        let of_packets = percent(report.reordered_ratio());
        vec![
            Measured { target, ..sequences },
            figure("reordered packets (RFC 4737)", of.to_owned(), "%", of_packets, again),
            figure("packets by relays", of.to_owned(), "%", relayed, again),
            figure("packets lost", of.to_owned(), "%", lost, again),
        ]
    };
    orders.into_iter().flat_map(of_order).collect()
}

/// Jain's index of what inputs get that offer R, R/2, R/4 and so on to one output.
fn shares() -> Vec<Measured> {
    let again = "paper 1 §3.2: each input its fair share of an output";
    let jain = |nodes: u16, link_rate: Option<u64>, capacity: f64| {
        let setup = scenario::setup(mesh(nodes), Order::Spray);
        let setup = Setup { link_rate: link_rate.unwrap_or(setup.link_rate), ..setup };
        let loads = scenario::halves(nodes.into());
        let (rates, totals) = scenario::rates(setup, &scenario::to_the_last(nodes.into()), &loads);
        (fairness(capacity, &loads, &rates), totals)
    };
    let row = |of: &str, value| {
        let figure = figure("Jain's index of max-min shares", of.to_owned(), "", value, again);
        Measured { target: Some(Target::AtLeast(0.99)), ..figure }
    };
    let relays = jain(4, Some(LINE_RATE / 8), 0.375);
    let at_relays = 100.0 * relays.1.lost_by(Loss::RelayFull) as f64 / relays.1.all_lost().max(1) as f64;
    vec![
        row("4 nodes, at the line", jain(4, None, 1.0).0),
        row("8 nodes, at the line", jain(8, None, 1.0).0),
        row("4 nodes, links of R/8", relays.0),
        figure("losses that are at relays", "4 nodes, links of R/8".to_owned(), "%", at_relays, again),
    ]
}

/// What a failure costs at 70 % load.
fn failures() -> Vec<Measured> {
    let again = "DESIGN §5 and paper 1 §3: surviving lines are silent for less than 50 ms";
    let three = Matrix::new(vec![
        vec![0.0, 1.0, 0.0, 0.0],
        vec![0.0, 0.0, 1.0, 0.0],
        vec![1.0, 0.0, 0.0, 0.0],
        vec![0.0; 4],
    ]);
    let mut all = Vec::new();
    for (order, name) in [(Order::Spray, "spray"), (Order::Strict, "strict")] {
        let setup = scenario::setup(mesh(4), order);
        let relay = scenario::outage(setup, &three, 0.7, 60_000, |model| model.set_node(3, false));
        let link = scenario::outage(setup, &scenario::ring(4), 0.6, 60_000, |model| {
            model.set_link(0, 1, false);
            model.set_link(1, 0, false);
        });
        for (what, (gap, totals)) in [("a relay dies", relay), ("a link dies", link)] {
            let of = format!("{name}, {what}");
            let gap = figure("longest silence of a line", of.clone(), "ms", gap as f64 / 1e6, again);
            all.push(Measured { target: Some(Target::AtMost(50.0)), ..gap });
            all.push(figure("packets lost, of 60,000", of, "", totals.all_lost() as f64, again));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(order: &str, input: f64, adds: f64) -> Value {
        json!({"schema": "routebricks.cluster_cost/1", "unit": "cycles", "matrix": "uniform", "order": order,
               "input": input, "relay": 0.0, "output": 50.0, "adds": adds, "third_node": 0.0})
    }

    #[test]
    fn cycles_are_those_of_all_rounds() {
        let rounds = [
            vec![cost("baseline", 50.0, 0.0), cost("strict", 70.0, 20.0)],
            vec![cost("baseline", 60.0, 0.0), cost("strict", 90.0, 30.0)],
        ];
        let found = costs(&rounds);
        let values = |what: &str, of: &str| {
            let found = found.iter().find(|m| m.what == what && m.of == of);
            found.map(|m| m.values.clone()).unwrap()
        };
        assert_eq!(values("input node", "baseline, all directly"), [50.0, 60.0]);
        assert_eq!(values("input node", "strict, all directly"), [70.0, 90.0]);
        assert_eq!(values("more than to route and to forward", "strict, all directly"), [20.0, 30.0]);
        assert_eq!(values("VLB tax", "strict, all directly"), [20.0, 3000.0 / 110.0]);
        assert!(!found.iter().any(|m| m.what == "relay" || m.what == "VLB tax" && m.of.contains("baseline")));
        assert_eq!(found.iter().filter(|m| m.target.is_some()).count(), 1);
    }

    #[test]
    fn times_are_microseconds() {
        let line = json!({"schema": "routebricks.cluster_latency/1", "unit": "ns", "order": "spray", "burst": 64,
                          "nodes": 3, "p50": 12_000, "p99": 15_500, "packets": 9});
        let found = costs(&[vec![line]]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].of, "spray, 3 nodes, 64 at a time");
        assert_eq!((found[0].values[0], found[1].values[0], found[1].unit), (12.0, 15.5, "µs"));
    }

    #[test]
    fn the_model_keeps_its_promises() {
        let met = |found: Vec<Measured>| {
            let rows: Vec<String> = found.iter().map(Measured::row).collect();
            assert!(!found.iter().any(Measured::missed), "{}", rows.join("\n"));
            assert!(found.iter().any(|measured| measured.target.is_some()));
            let named = |measured: &Measured| measured.arrangement.contains_key("measures_again");
            assert!(found.iter().all(named));
        };
        met(order());
        met(throughput(4));
        met(failures());
        met(shares());
    }
}
