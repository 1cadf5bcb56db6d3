//! Runs a configuration: devices, workers, signals, and an orderly end.

mod args;
mod signals;
mod worker;

pub use args::RunArgs;

use crate::config::{Configuration, Reported};
use graph::{Clock, Engine, Options, Router};
use io::Devices;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use worker::{Run, drive};

/// Runs a configuration to its end: until all sources are exhausted, an element stops the router, or a signal.
pub fn run(args: RunArgs) -> ExitCode {
    match try_run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Reported) => ExitCode::FAILURE,
    }
}

fn try_run(args: &RunArgs) -> Result<(), Reported> {
    let configuration = Configuration::load(&args.config)?;
    if configuration.flat.elements.is_empty() {
        eprintln!("warning: configuration has no elements, exiting");
        return Ok(());
    }
    if args.simtime.is_some() && args.workers > 1 {
        eprintln!("error: simulated time goes with one worker only (-j 1)");
        return Err(Reported);
    }
    let devices = OurDevices::new(args);
    let clock = Arc::new(args.simtime.map_or_else(Clock::real, Clock::simulated));
    let options = Options {
        workers: usize::from(args.workers),
        burst: usize::from(args.burst),
        clock: clock.clone(),
        devices: devices.shared(),
    };
    let (router, _) = configuration.into_router(&options)?;
    drop(options);
    let router = Arc::new(router);
    let ended = drive_all(&router, router.engines(), &clock, &args.cpus);
    let clean = end(router, devices, &args.read);
    ended.and(clean)
}

/// Runs the workers until they stop. Their engines are dropped only after all have ended.
fn drive_all(
    router: &Arc<Router>,
    engines: Vec<Engine>,
    clock: &Arc<Clock>,
    cpus: &[usize],
) -> Result<(), Reported> {
    let endless = router.waits_for_outside();
    let run = Arc::new(Run::new(router.mailboxes(), clock.clone(), endless));
    let _signals = signals::stop_on_signal(&run);
    let workers = engines.len();
    let threads: Vec<_> = engines.into_iter().map(|engine| spawn(engine, &run, cpus)).collect();
    if endless {
        let elements = router.plan().nodes.len();
        eprintln!("routebricks: ready: {elements} elements, {workers} workers, {}", pool_text(router));
    }
    let mut result = Ok(());
    let mut stopped = Vec::new();
    for thread in threads {
        match thread.map(thread::JoinHandle::join) {
            Ok(Ok(engine)) => stopped.push(engine),
            Ok(Err(_)) => {
                eprintln!(
                    "error: a worker ended by a fault of this program (see above); the router was stopped"
                );
                result = Err(Reported);
            }
            Err(e) => {
                eprintln!("error: cannot start a worker: {e}");
                run.stop();
                result = Err(Reported);
            }
        }
    }
    result
}

fn pool_text(router: &Router) -> String {
    format!("{} buffers", router.pool().capacity())
}

fn spawn(engine: Engine, run: &Arc<Run>, cpus: &[usize]) -> std::io::Result<thread::JoinHandle<Engine>> {
    /// Stops everybody if the worker that it belongs to unwinds.
    struct StopAll(Arc<Run>);
    impl Drop for StopAll {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let worker = engine.worker();
    let cpu = (!cpus.is_empty()).then(|| cpus[worker % cpus.len()]);
    let run = run.clone();
    thread::Builder::new().name(format!("worker{worker}")).spawn(move || {
        let stop_all = StopAll(run.clone());
        if let Some(cpu) = cpu
            && let Err(e) = bind(cpu)
        {
            eprintln!("warning: worker {worker} cannot be bound to processor {cpu}: {e}");
        }
        #[cfg(feature = "dpdk")]
        let _registration = dpdk::register_worker();
        let engine = drive(engine, &run);
        drop(stop_all);
        engine
    })
}

fn bind(cpu: usize) -> nix::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)
}

/// After the workers: files are written out, devices closed, the books checked, what was asked for printed.
fn end(router: Arc<Router>, devices: OurDevices, read: &[String]) -> Result<(), Reported> {
    let mut result = Ok(());
    if let Err(errors) = router.finish() {
        errors.iter().for_each(|e| eprintln!("error: {e}"));
        result = Err(Reported);
    }
    if print_handlers(&router, read).is_err() {
        result = Err(Reported);
    }
    let endless = router.waits_for_outside();
    let (made, gone, lost) = router.balance();
    // Elements hold ports and buffers: they must be gone before devices are closed.
    drop(router);
    let missing = devices.close();
    if endless {
        eprintln!(
            "routebricks: stopped: {made} packets in, {gone} out, {lost} lost, {missing} buffers missing"
        );
    } else if missing > 0 {
        eprintln!("error: {missing} buffers missing: a fault of this program");
    }
    let unaccounted = packet::unaccounted();
    if unaccounted > 0 {
        eprintln!("error: {unaccounted} packets unaccounted for: a fault of this program");
    }
    if missing > 0 || unaccounted > 0 { Err(Reported) } else { result }
}

fn print_handlers(router: &Router, names: &[String]) -> Result<(), Reported> {
    let mut result = Ok(());
    let mut out = std::io::stdout().lock();
    for name in names {
        let (element, handler) = name.rsplit_once('.').unwrap_or(("", name));
        match router.read(element, handler, "") {
            Ok(value) if names.len() == 1 => {
                let _ = writeln!(out, "{}", value.trim_end());
            }
            Ok(value) => {
                let _ = writeln!(out, "{name}:\n{}\n", value.trim_end());
            }
            Err(e) => {
                eprintln!("error: {e}");
                result = Err(Reported);
            }
        }
    }
    result
}

/// The devices of this process, and how to close them.
struct OurDevices {
    #[cfg(feature = "dpdk")]
    devices: Arc<dpdk::DpdkDevices>,
    #[cfg(not(feature = "dpdk"))]
    devices: Arc<io::NoDevices>,
}

impl OurDevices {
    #[cfg(feature = "dpdk")]
    fn new(args: &RunArgs) -> OurDevices {
        let args = args.eal.clone();
        OurDevices { devices: Arc::new(dpdk::DpdkDevices::new(dpdk::EalOptions { args })) }
    }

    #[cfg(not(feature = "dpdk"))]
    fn new(_: &RunArgs) -> OurDevices {
        let help =
            "this program was built without DPDK: build it with `make build`, or use FromDump and ToDump";
        OurDevices { devices: Arc::new(io::NoDevices::new(help)) }
    }

    fn shared(&self) -> Arc<dyn Devices> {
        self.devices.clone()
    }

    /// Closes everything; returns how many buffers had not come back.
    fn close(self) -> usize {
        #[cfg(feature = "dpdk")]
        {
            let heap = if self.devices.is_running() { 0 } else { self.devices.pool().in_use() };
            heap + self.devices.close()
        }
        #[cfg(not(feature = "dpdk"))]
        self.devices.pool().in_use()
    }
}
