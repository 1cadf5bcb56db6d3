//! What a router costs, next to `dpdk-testpmd` on the same port: cycles per packet of one pinned core.
//!
//! `net_pcap` with `infinite_rx` feeds both programs from memory, and drops what they send. They run in turn, router,
//! testpmd, router, testpmd …, so that a disturbance of the machine meets both; what counts is the median of the ratios
//! pair by pair. Cycles are ticks of the time-stamp counter during CPU time of the forwarding thread.
//!
//! One JSON line for each figure goes to the standard output, a table to the standard error. The exit code is 0 if
//! every target was met.

mod figure;
mod huge_pages;
mod program;
mod telemetry;
mod trace;
mod trace6;

use clap::Parser;
use figure::{Arrangement, Figure};
use huge_pages::Memory;
use program::{INTERRUPTED, Program};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use trace::Table;
use trace6::Table6;

/// Cycles per packet of the router and of dpdk-testpmd, in turn, on one core
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100)]
struct Cli {
    /// Figures to measure: io, ip, io-64k, ip-64k; all if none is named
    #[arg(value_name = "FIGURE", value_parser = ["io", "ip", "io-64k", "ip-64k", "ip6", "ip6-64k"])]
    figures: Vec<String>,

    /// The router; $ROUTEBRICKS or target/release/routebricks if not given
    #[arg(long, value_name = "PATH")]
    router: Option<PathBuf>,

    /// Routing table: prefixes, one a line, perhaps packed by gzip; a made-up one if not given and none is at hand
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,

    /// Measurements of each program
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,

    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,

    /// Processor to run on; the last one that we may use if not given
    #[arg(long, value_name = "N")]
    core: Option<usize>,

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

/// A figure that can be measured.
struct Plan {
    name: &'static str,
    config: &'static str,
    /// It looks packets up in the table.
    routes: bool,
    /// Its packets are of IPv6.
    ip6: bool,
    destinations: usize,
    target: Option<f64>,
}

const PLANS: &[Plan] = &[
    Plan {
        name: "io",
        config: "conf/bench/io.click",
        routes: false,
        ip6: false,
        destinations: 4096,
        target: Some(1.10),
    },
    Plan {
        name: "ip",
        config: "conf/bench/ip-path.click",
        routes: true,
        ip6: false,
        destinations: 4096,
        target: Some(1.70),
    },
    Plan {
        name: "io-64k",
        config: "conf/bench/io-large-pool.click",
        routes: false,
        ip6: false,
        destinations: 65_536,
        target: None,
    },
    Plan {
        name: "ip-64k",
        config: "conf/bench/ip-path-large-pool.click",
        routes: true,
        ip6: false,
        destinations: 65_536,
        target: None,
    },
    Plan {
        name: "ip6",
        config: "conf/bench/ip6-path.click",
        routes: true,
        ip6: true,
        destinations: 4096,
        target: None,
    },
    Plan {
        name: "ip6-64k",
        config: "conf/bench/ip6-path-large-pool.click",
        routes: true,
        ip6: true,
        destinations: 65_536,
        target: Some(1.70),
    },
];

/// Pools of up to 131,072 buffers of 2.4 kB, rings, and DPDK's own needs.
const MEMORY: u64 = 400 << 20;
/// Pool of testpmd where there is no router to follow.
const SELF_CHECK_POOL: u64 = 40_960;
/// How far from 1 the ratio of a program to itself may be.
const SELF_CHECK: f64 = 1.05;

fn main() -> ExitCode {
    let cli = Cli::parse();
    for signal in [SIGINT, SIGTERM] {
        // Without a handler the signal simply ends us.
        let _ = signal_hook::flag::register(signal, INTERRUPTED.clone());
    }
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if no target was missed, or nobody wants to know.
fn run(cli: &Cli) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder for traces: {e}"))?;
    let at_hand = root.join("../shared/data/bgp-full-table.txt.gz");
    let source = cli.table.clone().or_else(|| at_hand.exists().then_some(at_hand));
    let bench = Bench {
        router: router(cli, root),
        self_check: cli.self_check,
        memory: Memory::obtain(MEMORY),
        core: core(cli)?,
        table: Table::new(source.as_deref(), folder.path())?,
        table6: Table6::new(source.as_deref(), folder.path())?,
        folder: folder.path(),
        root,
        time: Duration::from_secs_f64(cli.seconds),
    };
    eprintln!(
        "{} routes ({}), {}, core {}, {} pairs of {} s; TSC cycles per packet: median (lowest–highest)\n{}",
        bench.table.len(),
        bench.table.name,
        bench.memory.describe(),
        bench.core,
        cli.pairs,
        cli.seconds,
        figure::header()
    );
    let mut good = true;
    for plan in PLANS {
        let named = cli.figures.is_empty() || cli.figures.iter().any(|f| f == plan.name);
        // Against itself testpmd runs without configuration: one of the figures of each trace is enough.
        if !named || (cli.self_check && plan.routes) {
            continue;
        }
        let (figure, arrangement) = bench.figure(plan, cli.pairs)?;
        eprintln!("{}", figure.row());
        println!("{}", figure.json(&arrangement));
        good &= !figure.missed();
    }
    Ok(good || cli.no_verdict)
}

fn router(cli: &Cli, root: &Path) -> PathBuf {
    let given = cli.router.clone().or_else(|| std::env::var_os("ROUTEBRICKS").map(PathBuf::from));
    given.unwrap_or_else(|| root.join("target/release/routebricks"))
}

fn core(cli: &Cli) -> Result<usize, String> {
    let ours = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .map_err(|e| format!("cannot ask for the processors that we may use: {e}"))?;
    let may_use = |core: &usize| ours.is_set(*core).unwrap_or(false);
    let highest = (0..nix::sched::CpuSet::count()).rev().find(may_use).unwrap_or(0);
    let core = cli.core.unwrap_or(highest);
    if may_use(&core) { Ok(core) } else { Err(format!("we may not use processor {core}")) }
}

/// Everything that does not change between figures.
struct Bench<'a> {
    router: PathBuf,
    self_check: bool,
    memory: Memory,
    core: usize,
    table: Table,
    table6: Table6,
    folder: &'a Path,
    root: &'a Path,
    time: Duration,
}

impl Bench<'_> {
    fn figure(&self, plan: &Plan, pairs: u16) -> Result<(Figure, Arrangement), String> {
        let trace = if plan.ip6 {
            self.table6.trace(plan.destinations, self.folder)?
        } else {
            self.table.trace(plan.destinations, self.folder)?
        };
        let (mut router, mut testpmd) = (Vec::new(), Vec::new());
        let mut pool = if plan.destinations > 32_768 { 131_072 } else { SELF_CHECK_POOL };
        let mut dpdk = String::new();
        for _ in 0..pairs {
            let (first, name) = if self.self_check {
                (self.testpmd("testpmd", &trace, pool), "testpmd")
            } else {
                (self.routebricks(plan, &trace), "router")
            };
            let (cycles, version, buffers) = self.measure(name, &first)?;
            router.push(cycles);
            // What is given to testpmd is what the router has.
            pool = buffers;
            let (cycles, yardstick, _) = self.measure("testpmd", &self.testpmd("testpmd", &trace, pool))?;
            testpmd.push(cycles);
            if version != yardstick {
                return Err(format!("the router runs on {version}, testpmd on {yardstick}"));
            }
            dpdk = version;
        }
        let figure = Figure {
            name: plan.name,
            config: if self.self_check { "testpmd" } else { plan.config },
            destinations: plan.destinations,
            pool_buffers: pool,
            router,
            testpmd,
            target: if self.self_check { Some(SELF_CHECK) } else { plan.target },
        };
        Ok((figure, self.arrangement(plan, dpdk)))
    }

    fn arrangement(&self, plan: &Plan, dpdk: String) -> Arrangement {
        let (table, routes) = match plan.ip6 {
            true => (&self.table6.name, self.table6.len()),
            false => (&self.table.name, self.table.len()),
        };
        Arrangement {
            table: table.clone(),
            routes,
            dpdk,
            memory: self.memory.describe(),
            core: self.core,
            tsc_ghz: epoch::tsc_hz() as f64 / 1e9,
            seconds: self.time.as_secs_f64(),
        }
    }

    /// Runs a command once: cycles per packet, its DPDK, the size of its pool.
    fn measure(
        &self,
        name: &str,
        (prefix, command): &(String, Vec<String>),
    ) -> Result<(f64, String, u64), String> {
        let mut program = Program::start(name, command, self.core, prefix, self.folder)?;
        let (version, pool) = (program.version().to_owned(), program.pool_size()?);
        let sample = program.measure(self.time)?;
        program.stop()?;
        let cycles = sample.cpu_ns as f64 * (epoch::tsc_hz() as f64 / 1e9) / sample.packets as f64;
        Ok((cycles, version, pool))
    }

    /// A file prefix of its own for each kind of program, and the command.
    fn routebricks(&self, plan: &Plan, trace: &Path) -> (String, Vec<String>) {
        let prefix = format!("bench-{}-router", std::process::id());
        let config = self.root.join(plan.config);
        let mut command = vec![text(&self.router), "run".to_owned(), "-j1".to_owned(), text(&config)];
        if plan.routes {
            let file = if plan.ip6 { &self.table6.file } else { &self.table.file };
            command.push(format!("TABLE={}", file.display()));
        }
        command.push("--".to_owned());
        command.extend(self.eal(&prefix, trace));
        (prefix, command)
    }

    fn testpmd(&self, program: &str, trace: &Path, pool: u64) -> (String, Vec<String>) {
        let prefix = format!("bench-{}-{program}", std::process::id());
        // It wants a main lcore that does not forward; that one waits for input.
        let mut command =
            vec!["dpdk-testpmd".to_owned(), format!("--lcores=0@{core},1@{core}", core = self.core)];
        command.extend(self.eal(&prefix, trace));
        command.extend(["--", "--forward-mode=io"].map(str::to_owned));
        command.push(format!("--total-num-mbufs={pool}"));
        (prefix, command)
    }

    /// What both programs tell DPDK.
    fn eal(&self, prefix: &str, trace: &Path) -> Vec<String> {
        let mut args = vec![
            format!("--vdev=net_pcap0,rx_pcap={},infinite_rx=1", trace.display()),
            format!("--file-prefix={prefix}"),
            "--no-pci".to_owned(),
        ];
        args.extend(self.memory.eal_args(MEMORY >> 20));
        args
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
