//! What a cluster costs a packet, at each node of its way, beside what routers without a cluster cost.
//!
//! ```sh
//! cargo build --release -p router --features dpdk --example cluster_cost
//! target/release/examples/cluster_cost [--json] [--instructions] [--cycles] [--latency]
//! ```
//!
//! Four nodes of one line each whose ports are lists in memory; 64 K flows of 60-byte frames come in at node 0 in batches of
//! 64. In the matrix `uniform` they are for the three other nodes, and all go directly, so that flowlets rest; in `one` they are
//! all for node 1, and split as Valiant has it: half of them go by nodes 2 and 3, and flowlets never rest. The baseline is a
//! node that routes and rewrites, with as many packets to each output, and then a node that rewrites and forwards, with the
//! same ports.
//!
//! Instructions are counted by callgrind, in a run of this program for each role of a node. Cycles are of the time-stamp
//! counter: all variants in turns of a few milliseconds, first quartiles of parts of these. `--latency`: the time from when a packet
//! has come to node 0 until it leaves node 1, by the stamp that it carries, alone or in batches of 64, all nodes on one processor
//! one after the other.

mod net;
mod ports;

use net::{BURST, Matrix, Mode, Net, ROLES, has_relays};
use std::process::Command;
use std::thread;

/// Batches in each turn of the measurement of cycles: all flows. Before them half as many bring back to the caches what the
/// other variants have displaced.
const TURN: u64 = 1024;
/// Parts of a turn that are timed apart: what takes the processor away for some milliseconds is in few of them.
const PARTS: u64 = 16;
/// Turns of each variant.
const TURNS: usize = 15;
/// Batches under callgrind.
const COUNTED: u64 = 400;

/// Batches whose packets' times are taken.
const TIMED: u64 = 20_000;

/// What a packet costs in each role, averaged over all packets.
type Cost = [f64; 3];

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, matrix, mode] = &arguments[..]
        && first == "--count"
    {
        return count(matrix, mode);
    }
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    const KNOWN: [&str; 4] = ["--json", "--instructions", "--cycles", "--latency"];
    if let Some(other) = arguments.iter().find(|a| !KNOWN.contains(&&a[..])) {
        return Err(format!("'{other}': only {} are known", KNOWN.join(", ")));
    }
    let all = !KNOWN[1..].iter().any(|known| has(known));
    let variants: Vec<(Matrix, Mode)> =
        Matrix::ALL.into_iter().flat_map(|matrix| Mode::ALL.map(|mode| (matrix, mode))).collect();
    if all || has("--cycles") {
        show("cycles", &variants, &cycles(&variants)?, has("--json"));
    }
    if all || has("--instructions") {
        show("instructions", &variants, &instructions(&variants)?, has("--json"));
    }
    if all || has("--latency") {
        latencies(has("--json"))?;
    }
    Ok(())
}

/// Runs one variant, for callgrind.
fn count(matrix: &str, mode: &str) -> Result<(), String> {
    let matrix = Matrix::ALL.into_iter().find(|known| known.name() == matrix).ok_or("no such matrix")?;
    let mode = Mode::ALL.into_iter().find(|known| known.name() == mode).ok_or("no such mode")?;
    let mut net = Net::new(matrix, mode)?;
    let before = net.losses();
    net.count(COUNTED);
    if net.losses() != before {
        return Err(format!("packets were lost: {:?}", net.losses()));
    }
    Ok(())
}

fn instructions(variants: &[(Matrix, Mode)]) -> Result<Vec<Cost>, String> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut costs = Vec::new();
    for some in variants.chunks(processors) {
        let some: Vec<_> = thread::scope(|scope| {
            let runs: Vec<_> = some.iter().map(|variant| scope.spawn(|| instructions_of(*variant))).collect();
            runs.into_iter()
                .map(|run| run.join().unwrap_or_else(|_| Err("a count panicked".to_owned())))
                .collect()
        });
        costs.extend(some.into_iter().collect::<Result<Vec<Cost>, String>>()?);
    }
    Ok(costs)
}

/// Instructions a packet of each role.
fn instructions_of((matrix, mode): (Matrix, Mode)) -> Result<Cost, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut cost = [0.0; 3];
    for (role, cost) in ROLES.iter().zip(&mut cost) {
        if *role == "relay" && !has_relays(matrix, mode) {
            continue;
        }
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
            .arg(format!("--toggle-collect=*counted_at_{role}*"))
            .arg(&program)
            .args(["--count", matrix.name(), mode.name()])
            .output()
            .map_err(|e| format!("valgrind: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected :"));
        let counted: Option<f64> = collected.and_then(|(_, count)| count.trim().parse().ok());
        let counted = counted.filter(|_| output.status.success()).ok_or_else(|| said.to_string())?;
        *cost = counted / (COUNTED * BURST as u64) as f64;
    }
    Ok(cost)
}

fn cycles(variants: &[(Matrix, Mode)]) -> Result<Vec<Cost>, String> {
    let nets: Result<Vec<Net>, String> =
        variants.iter().map(|&(matrix, mode)| Net::new(matrix, mode)).collect();
    let mut nets = nets?;
    let mut turns: Vec<Vec<Cost>> = vec![Vec::new(); nets.len()];
    for _ in 0..TURNS {
        for (net, turns) in nets.iter_mut().zip(&mut turns) {
            net.time(TURN / 2);
            turns.extend((0..PARTS).map(|_| net.time(TURN / PARTS)));
        }
    }
    let quartile = |turns: &Vec<Cost>, role: usize| {
        let mut all: Vec<f64> = turns.iter().map(|turn| turn[role]).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 4]
    };
    Ok(turns.iter().map(|turns| [0, 1, 2].map(|role| quartile(turns, role))).collect())
}

/// What a variant adds to the baseline of its matrix.
fn added(variants: &[(Matrix, Mode)], costs: &[Cost], (matrix, cost): (Matrix, &Cost)) -> f64 {
    let base = variants.iter().zip(costs).find(|((m, mode), _)| *m == matrix && *mode == Mode::Baseline);
    let base: f64 = base.map_or(0.0, |(_, cost)| cost.iter().sum());
    cost.iter().sum::<f64>() - base
}

/// How long packets are on their way, by the nodes that they pass.
fn latencies(json: bool) -> Result<(), String> {
    if !json {
        println!("nanoseconds from line to line");
        println!("{:<9} {:>6} {:>6} {:>8} {:>8} {:>8}", "order", "burst", "nodes", "p50", "p99", "packets");
    }
    let ns = 1e9 / epoch::tsc_hz() as f64;
    for mode in [Mode::Spray, Mode::Flowlet, Mode::Strict] {
        let mut net = Net::new(Matrix::One, mode)?;
        for burst in [1, BURST] {
            for (nodes, mut found) in (2..).zip(net.latencies(burst, TIMED)) {
                found.sort_by(f64::total_cmp);
                let at = |part: f64| {
                    found.get((found.len() as f64 * part) as usize).map_or(0.0, |cycles| cycles * ns)
                };
                let (mode, p50, p99, packets) = (mode.name(), at(0.5), at(0.99), found.len());
                if json {
                    println!(
                        "{{\"schema\":\"routebricks.cluster_latency/1\",\"unit\":\"ns\",\"order\":\"{mode}\",\
                         \"burst\":{burst},\"nodes\":{nodes},\"p50\":{p50:.0},\"p99\":{p99:.0},\"packets\":{packets}}}"
                    );
                } else {
                    println!("{mode:<9} {burst:>6} {nodes:>6} {p50:>8.0} {p99:>8.0} {packets:>8}");
                }
            }
        }
    }
    Ok(())
}

/// `adds`: beside the baseline. `forwarding`: what a third node that only rewrites and forwards would add.
fn show(what: &str, variants: &[(Matrix, Mode)], costs: &[Cost], json: bool) {
    if !json {
        println!("{what} a packet");
        println!(
            "{:<8} {:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "matrix", "order", "input", "relay", "output", "sum", "adds", "3rd node"
        );
    }
    for ((matrix, mode), cost) in variants.iter().zip(costs) {
        let base = variants.iter().zip(costs).find(|((m, mode), _)| m == matrix && *mode == Mode::Baseline);
        let base = base.map_or([0.0; 3], |(_, cost)| *cost);
        let sum: f64 = cost.iter().sum();
        let adds = added(variants, costs, (*matrix, cost));
        let third = if has_relays(*matrix, *mode) { base[2] / 2.0 } else { 0.0 };
        let [input, relay, output] = cost;
        let (matrix, mode) = (matrix.name(), mode.name());
        if json {
            println!(
                "{{\"schema\":\"routebricks.cluster_cost/1\",\"unit\":\"{what}\",\"matrix\":\"{matrix}\",\"order\":\"{mode}\",\
                 \"input\":{input:.2},\"relay\":{relay:.2},\"output\":{output:.2},\"adds\":{adds:.2},\
                 \"third_node\":{third:.2}}}"
            );
        } else {
            println!(
                "{matrix:<8} {mode:<9} {input:>8.1} {relay:>8.1} {output:>8.1} {sum:>8.1} {adds:>8.1} {third:>8.1}"
            );
        }
    }
}
