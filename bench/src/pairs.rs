//! Measures a figure: the router and `dpdk-testpmd` in short turns, pair by pair, on the same ports.

use crate::figure::{Arrangement, Costs, Figure, Spread};
use crate::huge_pages::Memory;
use crate::plan::{Hops, Plan};
use crate::program::{Program, Sample, Start, WARM_UP, pause};
use crate::trace::Table;
use crate::trace6::Table6;
use fib::Family;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pools of up to 131,072 buffers of 2.4 kB, rings, and DPDK's own needs.
pub const MEMORY: u64 = 400 << 20;
/// Pool of testpmd where there is no router to follow.
const SELF_CHECK_POOL: u64 = 40_960;
/// A pool for traces of more packets than the usual pool holds.
const LARGE_POOL: u64 = 131_072;
/// Time of one turn of one program: short, so that whatever else the machine does comes to both.
const TURN: Duration = Duration::from_millis(40);
/// Fewer turns have no middle to speak of.
const LEAST_TURNS: u32 = 5;

/// Everything that does not change between figures.
pub struct Bench<'a> {
    /// The router.
    pub router: PathBuf,
    /// testpmd stands in for the router.
    pub self_check: bool,
    /// Kind of memory.
    pub memory: Memory,
    /// Processors that we may use, the preferred one first.
    pub cores: Vec<usize>,
    /// Prefixes of the table.
    pub table: Table,
    /// Those of IPv6.
    pub table6: Table6,
    /// Where traces and tables are kept.
    pub folder: &'a Path,
    /// Where the repository is.
    pub root: &'a Path,
}

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Measurements of each program; each is a fresh start of both.
    pub pairs: u16,
    /// Time of each measurement, in turns.
    pub time: Duration,
}

/// Files that a figure needs, and how much is in them.
struct Material {
    trace: PathBuf,
    destinations: usize,
    /// File and number of routes.
    routes: Option<(PathBuf, usize)>,
}

/// What a run of one program found.
pub struct Run {
    /// TSC cycles of CPU time for each packet.
    pub cycles: f64,
    /// Millions of packets for each second that passed.
    pub wall_mpps: f64,
}

/// Two programs, of which one stands still while the other runs.
struct Pair([Program; 2]);

impl Pair {
    /// Starts one, and then the other one, which may depend on it.
    fn start<'a>(
        first: &Start<'_>,
        second: impl FnOnce(&Program) -> Result<Start<'a>, String>,
    ) -> Result<Pair, String> {
        let warm = |start: &Start<'_>| {
            let program = Program::start(start)?;
            pause(WARM_UP)?;
            Ok::<_, String>(program)
        };
        let first = warm(first)?;
        let second = second(&first)?;
        first.stand_still()?;
        let second = warm(&second)?;
        second.stand_still()?;
        Ok(Pair([first, second]))
    }

    /// The DPDK of both.
    fn dpdk(&self) -> Result<String, String> {
        let [first, second] = self.0.each_ref().map(Program::version);
        if first != second {
            return Err(format!("the router runs on {first}, testpmd on {second}"));
        }
        Ok(first.to_owned())
    }

    /// Measures both in turn, each for so long altogether.
    fn measure(&self, threads: usize, time: Duration) -> Result<[Run; 2], String> {
        let turns = (time.as_secs_f64() / TURN.as_secs_f64()).round() as u32;
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..turns.max(LEAST_TURNS) {
            for (program, samples) in self.0.iter().zip(&mut samples) {
                samples.push(program.turn(TURN, threads)?);
            }
        }
        for (program, samples) in self.0.iter().zip(&samples) {
            program.check(samples)?;
        }
        Ok(samples.map(|samples| Run::of(&samples)))
    }

    fn stop(self) -> Result<(), String> {
        self.0.into_iter().try_for_each(Program::stop)
    }
}

impl Run {
    /// The medians of some samples.
    pub fn of(samples: &[Sample]) -> Run {
        let ticks_per_ns = epoch::tsc_hz() as f64 / 1e9;
        let median = |of: &dyn Fn(&Sample) -> f64| {
            let values: Vec<f64> = samples.iter().map(of).collect();
            Spread::of(&values).map_or(f64::NAN, |spread| spread.median)
        };
        Run {
            cycles: median(&|s| s.cpu_ns as f64 * ticks_per_ns / s.packets as f64),
            wall_mpps: median(&|s| s.packets as f64 / s.seconds / 1e6),
        }
    }
}

impl Bench<'_> {
    /// Measures a figure.
    pub fn figure(&self, plan: &Plan, patience: Patience) -> Result<(Figure, Arrangement), String> {
        let material = self.material(plan)?;
        let cores = self.cores.get(..plan.workers).ok_or_else(|| {
            format!("{} needs {} processors, and we may use {}", plan.name(), plan.workers, self.cores.len())
        })?;
        let (mut router, mut testpmd) = (Costs::default(), Costs::default());
        let mut pool = if plan.destinations > 32_768 { LARGE_POOL } else { SELF_CHECK_POOL };
        let mut dpdk = String::new();
        for _ in 0..patience.pairs {
            let subject = if self.self_check {
                Start { name: "router", ..self.testpmd("subject", plan, &material, cores, pool) }
            } else {
                self.routebricks(plan, &material, cores)
            };
            let pair = Pair::start(&subject, |router| {
                // What is given to testpmd is what the router has.
                pool = router.pool_size()?;
                Ok(self.testpmd("testpmd", plan, &material, cores, pool))
            })?;
            dpdk = pair.dpdk()?;
            let [run, yardstick] = pair.measure(plan.workers, patience.time)?;
            pair.stop()?;
            router.add(&run);
            testpmd.add(&yardstick);
        }
        let figure = Figure {
            plan: plan.clone(),
            routes: material.routes.map(|(_, routes)| routes),
            destinations: material.destinations,
            pool_buffers: pool,
            router,
            testpmd,
        };
        Ok((figure, self.arrangement(dpdk, cores, patience)))
    }

    /// Cycles per packet of the router without an option of `run`, and with it, in turn. Which of both is started first, and
    /// goes first in each turn, changes from pair to pair.
    pub fn with_and_without(
        &self,
        plan: &Plan,
        option: &str,
        patience: Patience,
    ) -> Result<[Vec<f64>; 2], String> {
        let material = self.material(plan)?;
        let cores = self.cores.get(..1).unwrap_or_default();
        let start = |with: bool| {
            let start = self.routebricks(plan, &material, cores);
            optional(start, if with { ("router-with", Some(option)) } else { ("router", None) })
        };
        let mut cycles = [Vec::new(), Vec::new()];
        for pair in 0..patience.pairs {
            let order = if pair % 2 == 0 { [false, true] } else { [true, false] };
            let running = Pair::start(&start(order[0]), |_| Ok(start(order[1])))?;
            let runs = running.measure(1, patience.time)?;
            running.stop()?;
            for (with, run) in order.into_iter().zip(runs) {
                cycles[usize::from(with)].push(run.cycles);
            }
        }
        Ok(cycles)
    }

    fn material(&self, plan: &Plan) -> Result<Material, String> {
        if plan.family == Family::Ipv6 {
            let (trace, destinations) = self.table6.trace(plan.destinations, self.folder)?;
            let routes = Some(self.table6.routes(self.folder)?);
            return Ok(Material { trace, destinations, routes });
        }
        let sample = plan.routes.unwrap_or(usize::MAX);
        let (trace, destinations) = self.table.trace(sample, plan.destinations, plan.frames, self.folder)?;
        let routes = plan.routes.map(|n| self.table.routes(n, plan.hops, self.folder)).transpose()?;
        Ok(Material { trace, destinations, routes })
    }

    fn arrangement(&self, dpdk: String, cores: &[usize], patience: Patience) -> Arrangement {
        Arrangement {
            table: self.table.name.clone(),
            dpdk,
            memory: self.memory.describe(),
            cores: cores.to_vec(),
            tsc_ghz: epoch::tsc_hz() as f64 / 1e9,
            seconds: patience.time.as_secs_f64(),
        }
    }

    /// How a DPDK program is started on the ports of a figure, of what it is to tell EAL.
    pub fn start_other(
        &self,
        plan: &Plan,
        name: &'static str,
        arguments: impl FnOnce(Vec<String>) -> Vec<String>,
    ) -> Result<Start<'_>, String> {
        let prefix = format!("bench-{}-{name}", std::process::id());
        let eal = self.eal(&prefix, plan, &self.material(plan)?);
        let mut command = vec![name.to_owned()];
        command.extend(arguments(eal));
        let cores = list(self.cores.get(..1).unwrap_or_default());
        Ok(Start { name, command, cores, prefix, folder: self.folder })
    }

    /// The capture that port 0 replays in a figure.
    pub fn trace(&self, plan: &Plan) -> Result<PathBuf, String> {
        Ok(self.material(plan)?.trace)
    }

    /// How the router is started for a figure.
    pub fn router_start(&self, plan: &Plan) -> Result<Start<'_>, String> {
        let cores = self.cores.get(..plan.workers).unwrap_or(&self.cores);
        Ok(self.routebricks(plan, &self.material(plan)?, cores))
    }

    /// The command of the router with a configuration of the repository, up to the configuration's own words.
    pub fn router_on(
        &self,
        cores: &[usize],
        workers: usize,
        burst: Option<u16>,
        config: &str,
    ) -> Vec<String> {
        let mut command = vec![text(&self.router), "run".to_owned(), format!("-j{workers}")];
        command.extend(["--cpus".to_owned(), list(cores)]);
        command.extend(burst.map(|burst| format!("--burst={burst}")));
        command.push(text(&self.root.join(config)));
        command
    }

    fn routebricks(&self, plan: &Plan, material: &Material, cores: &[usize]) -> Start<'_> {
        let prefix = format!("bench-{}-router", std::process::id());
        let mut command = self.router_on(cores, plan.workers, plan.burst, plan.config);
        if let Some((routes, _)) = &material.routes {
            command.push(format!("TABLE={}", routes.display()));
        }
        // What `ip` is measured with says how many it takes at a time.
        command.extend(plan.burst.map(|burst| format!("BURST={burst}")));
        if plan.hops != Hops::OnePort && plan.destinations > 32_768 {
            command.push(format!("BUFFERS={LARGE_POOL}"));
        }
        command.push("--".to_owned());
        command.extend(self.eal(&prefix, plan, material));
        Start { name: "router", command, cores: list(cores), prefix, folder: self.folder }
    }

    fn testpmd(&self, role: &str, plan: &Plan, material: &Material, cores: &[usize], pool: u64) -> Start<'_> {
        let prefix = format!("bench-{}-{role}", std::process::id());
        // It wants a main lcore that does not forward; that one waits for input.
        let lcores: Vec<String> =
            cores.iter().enumerate().map(|(k, core)| format!("{}@{core}", k + 1)).collect();
        let main = cores.first().copied().unwrap_or_default();
        let mut command = vec!["dpdk-testpmd".to_owned(), format!("--lcores=0@{main},{}", lcores.join(","))];
        command.extend(self.eal(&prefix, plan, material));
        // Port 0 alone: it sends back what it receives, in every arrangement.
        command.extend(["--", "--forward-mode=io", "--portmask=0x1"].map(str::to_owned));
        command.push(format!("--total-num-mbufs={pool}"));
        command.extend(plan.burst.map(|burst| format!("--burst={burst}")));
        if plan.workers > 1 {
            let workers = plan.workers;
            command.extend(["--rxq", "--txq", "--nb-cores"].map(|option| format!("{option}={workers}")));
        }
        Start { name: "testpmd", command, cores: list(cores), prefix, folder: self.folder }
    }

    /// What both programs tell DPDK.
    fn eal(&self, prefix: &str, plan: &Plan, material: &Material) -> Vec<String> {
        // A queue for each worker.
        let queues = format!(",rx_pcap={}", material.trace.display()).repeat(plan.workers);
        let mut args = vec![format!("--vdev=net_pcap0{queues},infinite_rx=1")];
        args.extend((0..plan.hops.more_ports()).map(|n| format!("--vdev=net_null{n},no-rx=1")));
        args.push(format!("--file-prefix={prefix}"));
        args.push("--no-pci".to_owned());
        args.extend(self.memory.eal_args(MEMORY >> 20));
        args
    }
}

/// The start of a router under another name, so that two can be there at a time, perhaps with an option of `run`.
fn optional<'a>(start: Start<'a>, (name, option): (&'static str, Option<&str>)) -> Start<'a> {
    let prefix = format!("bench-{}-{name}", std::process::id());
    let renamed = |word: String| match word.starts_with("--file-prefix=") {
        true => format!("--file-prefix={prefix}"),
        false => word,
    };
    let mut command: Vec<String> = start.command.into_iter().map(renamed).collect();
    // Behind the program and `run`.
    let behind = 2.min(command.len());
    command.splice(behind..behind, option.map(str::to_owned));
    Start { name, command, prefix, ..start }
}

impl Costs {
    fn add(&mut self, run: &Run) {
        self.cycles.push(run.cycles);
        self.wall_mpps.push(run.wall_mpps);
    }
}

/// Runs a program once.
pub fn measure(start: &Start<'_>, workers: usize, time: Duration) -> Result<Run, String> {
    run(start, |program| program.measure(time, workers))
}

/// The same of a program that may lose packets: those that it sends count.
pub fn measure_lossy(start: &Start<'_>, workers: usize, time: Duration) -> Result<Run, String> {
    run(start, |program| program.measure_lossy(time, workers))
}

fn run(start: &Start<'_>, sample: impl Fn(&mut Program) -> Result<Sample, String>) -> Result<Run, String> {
    let mut program = Program::start(start)?;
    let sample = sample(&mut program)?;
    program.stop()?;
    Ok(Run::of(&[sample]))
}

/// Processors as programs take them.
pub fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_run_and_a_prefix_of_its_own() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let start = || Start {
            name: "router",
            command: words("routebricks run -j1 io.click -- --file-prefix=bench-1-router --no-pci"),
            cores: "1".to_owned(),
            prefix: "bench-1-router".to_owned(),
            folder: Path::new("/tmp"),
        };
        let with = optional(start(), ("router-with", Some("--no-accounting")));
        let prefix = format!("bench-{}-router-with", std::process::id());
        let command =
            format!("routebricks run --no-accounting -j1 io.click -- --file-prefix={prefix} --no-pci");
        assert_eq!((with.name, with.prefix, with.command), ("router-with", prefix, words(&command)));
        let without = optional(start(), ("router", None));
        assert_eq!(without.command.len(), start().command.len());
    }
}
