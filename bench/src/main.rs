//! What a router costs, next to `dpdk-testpmd` on the same ports: cycles per packet of pinned cores.
//!
//! ```text
//!  main ─► plan (what) ─► pairs (router, testpmd, router, …) ─► figure (a JSON line) ─► report (a page with plots)
//!                          └► program (starts, watches) ─► telemetry (counts)
//! ```
//!
//! `net_pcap` with `infinite_rx` feeds both programs from memory, and drops what they send. They run in turn, so that a
//! disturbance of the machine meets both; what counts is the median of the ratios pair by pair. Cycles are ticks of the
//! time-stamp counter during CPU time of the forwarding threads.
//!
//! One JSON line for each figure goes to the standard output and into `target/bench/figures.jsonl`, a table to the
//! standard error, a page with plots into `target/bench/report.html`. The exit code is 0 if every target was met.

mod accounting;
mod cluster;
mod cores;
mod duet;
mod figure;
mod huge_pages;
mod lane;
mod lines;
mod lookups;
mod ndr;
mod others;
mod paced;
mod pairs;
mod pins;
mod plan;
mod program;
mod report;
mod rings;
mod running;
mod telemetry;
mod trace;
mod trace6;
mod value;

use clap::{Args, Parser, Subcommand, ValueEnum};
use figure::Spread;
use huge_pages::Memory;
use lines::Lines;
use pairs::{Bench, MEMORY, Patience};
use plan::{Group, Plan, plans};
use program::INTERRUPTED;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use trace::Table;
use trace6::Table6;

/// Cycles per packet of the router and of dpdk-testpmd, in turn, on the same ports and cores
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(subcommand_precedence_over_arg = true)]
struct Cli {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Draw the page with plots again
    Report(report::ReportArgs),
    /// Throughput by the rules of MLRsearch: the highest rate at which a router loses (nearly) nothing
    Ndr(ndr::NdrArgs),
    /// Instructions per packet of the main paths, against those in bench/pins.json
    Pins(pins::PinsArgs),
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// Figures and sweeps to measure; all if none is named
    #[arg(value_name = "FIGURE", value_enum)]
    groups: Vec<Group>,

    /// More and longer measurements of everything, for an hour
    #[arg(long)]
    full: bool,

    /// The router; $ROUTEBRICKS or target/release/routebricks if not given
    #[arg(long, value_name = "PATH")]
    router: Option<PathBuf>,

    /// Routing table: prefixes, one a line, perhaps packed by gzip; a made-up one if not given and none is at hand
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,

    /// Measurements of each program: 5 of figures with a target, 3 of the points of a sweep, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: Option<u16>,

    /// Seconds of each measurement: 1 of figures with a target, 0.4 of the points of a sweep, if not given
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,

    /// Processor to run on; the last one that we may use if not given
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Folder for figures.jsonl and report.html; target/bench if not given
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Only measure: exit 0 even if a target is missed
    #[arg(long)]
    no_verdict: bool,

    /// Measure testpmd against itself: the ratio must be 1, which shows what the harness is worth
    #[arg(long)]
    self_check: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| (0.1..=3600.0).contains(s)).ok_or_else(|| "from 0.1 to 3600".to_owned())
}

/// How far from 1 the ratio of a program to itself may be.
const SELF_CHECK: f64 = 1.05;

/// Where the repository is.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    for signal in [SIGINT, SIGTERM] {
        // Without a handler the signal simply ends us.
        let _ = signal_hook::flag::register(signal, INTERRUPTED.clone());
    }
    let done = match &cli.other {
        None => measure(&cli.measure),
        Some(Other::Report(args)) => report::draw(args).map(|()| true),
        Some(Other::Ndr(args)) => ndr::ndr(args).map(|()| true),
        Some(Other::Pins(args)) => pins::pins(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if no target was missed, or nobody wants to know.
fn measure(args: &MeasureArgs) -> Result<bool, String> {
    let root = root();
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder for traces: {e}"))?;
    let at_hand = root.join("../shared/data/bgp-full-table.txt.gz");
    let source = args.table.clone().or_else(|| at_hand.exists().then_some(at_hand));
    let bench = Bench {
        router: router(args.router.as_deref()),
        self_check: args.self_check,
        // Two programs are there at a time.
        memory: Memory::obtain(2 * MEMORY),
        cores: cores(args.core)?,
        table: Table::new(source.as_deref())?,
        table6: Table6::new(source.as_deref())?,
        folder: folder.path(),
        root,
    };
    let mut lines = Lines::create(&out(args, root))?;
    eprintln!(
        "{} prefixes ({}), {}, core {}; TSC cycles per packet: median (lowest–highest)\n{}",
        bench.table.len(),
        bench.table.name,
        bench.memory.describe(),
        bench.cores.first().copied().unwrap_or_default(),
        figure::header()
    );
    figures(args, &bench, &mut lines)?;
    if !args.self_check {
        values(args, &bench, source.as_deref(), &mut lines)?;
    }
    if wanted(args, Group::Others) && !args.self_check {
        for row in others::measure_all(&bench, others_patience(args)) {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let cycles = Spread::from_json(&row["tsc_cycles_per_packet"]);
            let cost = cycles.map_or_else(String::new, |c| format!("{:>22.1}", c.median));
            eprintln!("{:<18} {cost} {}", text("program"), text("status"));
            lines.add(&row)?;
        }
    }
    Ok(lines.end()? || args.no_verdict)
}

/// Figures and sweeps beside testpmd.
fn figures(args: &MeasureArgs, bench: &Bench<'_>, lines: &mut Lines) -> Result<(), String> {
    let (mut one_worker, mut speed_up) = (None, Vec::new());
    let chosen = chosen(args);
    for plan in &chosen {
        if plan.workers > bench.cores.len() {
            eprintln!("{:<18} left out: it needs {} processors", plan.name(), plan.workers);
            continue;
        }
        let (figure, arrangement) = bench.figure(plan, patience(args, plan))?;
        lines.figure(&figure, &arrangement)?;
        if plan.group == Group::Workers
            && let Some(one) = one_worker.replace(figure.clone())
        {
            speed_up = figure::speed_up(&one, &figure);
        }
    }
    if args.self_check || !chosen.iter().any(|plan| plan.group == Group::Workers) {
        return Ok(());
    }
    let found = if speed_up.is_empty() { Err("it needs 2 processors") } else { Ok(&speed_up[..]) };
    lines.values(Group::Workers, found)
}

fn wanted(args: &MeasureArgs, group: Group) -> bool {
    args.groups.is_empty() || args.groups.contains(&group)
}

/// Figures that are no ratio to testpmd's cycles. What cannot be measured here is said and left out.
fn values(
    args: &MeasureArgs,
    bench: &Bench<'_>,
    table: Option<&Path>,
    lines: &mut Lines,
) -> Result<(), String> {
    let wish = lookups::Wish {
        root: bench.root,
        table,
        core: bench.cores.first().copied().unwrap_or_default(),
        lpm: args.full,
    };
    let measure = |group| {
        Some(match group {
            Group::Batching => paced::batching(bench, sweep_patience(args)),
            Group::Load => paced::load(bench, sweep_patience(args)),
            Group::Latency => paced::latency(bench, others_patience(args)),
            Group::Accounting => accounting::measure_all(bench, accounting_patience(args)),
            Group::Cores => cores::measure_all(bench, others_patience(args)),
            Group::Rings => rings::measure_all(bench, others_patience(args)),
            Group::Cluster => cluster::measure_all(bench.root, others_patience(args).pairs),
            Group::Lookups => lookups::ipv4(&wish),
            Group::Lookups6 => lookups::ipv6(&wish),
            _ => return None,
        })
    };
    for &group in Group::value_variants().iter().filter(|&&group| wanted(args, group)) {
        let Some(found) = measure(group) else { continue };
        if program::interrupted() {
            return Err("interrupted".to_owned());
        }
        lines.values(group, found.as_deref().map_err(String::as_str))?;
    }
    Ok(())
}

/// What is to be measured, in order.
fn chosen(args: &MeasureArgs) -> Vec<Plan> {
    let named = |group: &&Group| args.groups.is_empty() || args.groups.contains(group);
    let all = Group::value_variants().iter().filter(named).flat_map(|&group| plans(group));
    if !args.self_check {
        return all.collect();
    }
    // Against itself testpmd runs without configuration, so one figure of each trace is enough.
    let plain = all.filter(|plan| plan.config == "conf/bench/io.click" || plan.routes.is_none());
    plain.map(|plan| Plan { target: Some(SELF_CHECK), config: "testpmd", ..plan }).collect()
}

fn patience(args: &MeasureArgs, plan: &Plan) -> Patience {
    let (pairs, seconds) = match (plan.at.is_some(), args.full) {
        (false, false) => (5, 1.0),
        (true, false) => (3, 0.4),
        (false, true) => (21, 3.0),
        (true, true) => (7, 2.0),
    };
    let time = Duration::from_secs_f64(args.seconds.unwrap_or(seconds));
    Patience { pairs: args.pairs.unwrap_or(pairs), time }
}

/// Of sweeps with several programs at each point.
fn sweep_patience(args: &MeasureArgs) -> Patience {
    let time = Duration::from_secs_f64(args.seconds.unwrap_or(1.0));
    Patience { pairs: args.pairs.unwrap_or(if args.full { 5 } else { 1 }), time }
}

/// As for figures with a target: what is looked for is small.
fn accounting_patience(args: &MeasureArgs) -> Patience {
    let time = Duration::from_secs_f64(args.seconds.unwrap_or(2.0));
    Patience { pairs: args.pairs.unwrap_or(if args.full { 20 } else { 6 }), time }
}

fn others_patience(args: &MeasureArgs) -> Patience {
    let time = Duration::from_secs_f64(args.seconds.unwrap_or(1.0));
    Patience { pairs: args.pairs.unwrap_or(3), time }
}

/// Where the figures go.
fn out(args: &MeasureArgs, root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    args.out.clone().unwrap_or_else(|| target.join("bench"))
}

fn router(named: Option<&Path>) -> PathBuf {
    let given = named.map(Path::to_path_buf).or_else(|| std::env::var_os("ROUTEBRICKS").map(PathBuf::from));
    given.unwrap_or_else(|| root().join("target/release/routebricks"))
}

/// Processors that we may use: the one that is wanted, then the others from the last one down.
fn cores(wanted: Option<usize>) -> Result<Vec<usize>, String> {
    let ours = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .map_err(|e| format!("cannot ask for the processors that we may use: {e}"))?;
    let may_use = |core: &usize| ours.is_set(*core).unwrap_or(false);
    let mut cores: Vec<usize> = (0..nix::sched::CpuSet::count()).rev().filter(may_use).collect();
    if let Some(wanted) = wanted {
        let at = cores.iter().position(|&core| core == wanted);
        let at = at.ok_or_else(|| format!("we may not use processor {wanted}"))?;
        cores[..=at].rotate_right(1);
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let cli = Cli::parse_from(["bench", "size", "ip-64k", "--pairs", "2"]);
        let names: Vec<String> = chosen(&cli.measure).iter().map(Plan::name).collect();
        assert_eq!(names[0], "ip-64k");
        assert_eq!(names.len(), 9);
        let cli = Cli::parse_from(["bench", "report", "x.jsonl"]);
        assert!(matches!(cli.other, Some(Other::Report(_))));
    }

    #[test]
    fn sweeps_take_less_time_unless_told() {
        let time = |words: &[&str]| {
            let cli = Cli::parse_from(words);
            let patience = patience(&cli.measure, &chosen(&cli.measure)[0]);
            (patience.pairs, patience.time.as_millis())
        };
        assert_eq!(time(&["bench", "io"]), (5, 1000));
        assert_eq!(time(&["bench", "size"]), (3, 400));
        assert_eq!(time(&["bench", "size", "--full"]), (7, 2000));
        assert_eq!(time(&["bench", "io", "--pairs=9", "--seconds=2.5"]), (9, 2500));
    }
}
