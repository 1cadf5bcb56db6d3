//! Runs a configuration: devices, workers, signals, and an orderly end.

mod pace;
mod service;
mod signals;
mod worker;

pub use service::Service;

use crate::cli::Output;
use crate::words::counted;
use graph::{Clock, Engine, Nanos, Options, Router, Tables};
use io::ring::WithRings;
use io::{Devices, say, tell};
use lang::{Flat, SourceMap, render};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::IsTerminal;
use std::sync::Arc;
use std::thread;
use worker::{Run, drive};

/// Packets that move together unless somebody says otherwise.
pub const BURST: u16 = 64;
/// The same of whole routers, where a batch costs more besides its packets. Their headers, first bytes and notes, some 20 KB, fit
/// the first cache of any processor.
pub const ROUTER_BURST: u16 = 96;

/// How a configuration is to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of workers.
    pub workers: usize,
    /// Packets at a time; 1 = Click order.
    pub burst: usize,
    /// Processors to bind workers to, in turn; empty = wherever the system puts them.
    pub cpus: Vec<usize>,
    /// Whether cycles of elements are measured, now and then.
    pub accounting: bool,
    /// Simulated instead of real time, from here on.
    pub simulated: Option<Nanos>,
    /// Arguments for DPDK's EAL.
    pub eal: Vec<String>,
    /// Handlers to print after the run, as `element.handler`.
    pub read: Vec<String>,
    /// Tables that the configuration may name.
    pub tables: Tables,
    /// SIGHUP means something else than the end.
    pub reloads: bool,
    /// Who is told how the run gets on.
    pub service: Arc<Service>,
}

/// Whatever was wrong has been told to the user.
#[derive(Debug)]
pub struct Failed;

/// Runs a flat configuration to its end: until all sources are exhausted, an element stops the router, or a signal.
/// `serve` starts whatever lets others look in, and is dropped when the workers have stopped.
///
/// # Errors
/// If the configuration is faulty, something cannot be opened, or the end is not clean.
pub fn run<S>(
    flat: Flat,
    sources: &SourceMap,
    options: &RunOptions,
    serve: impl FnOnce(&Arc<Router>) -> Result<S, String>,
) -> Result<(), Failed> {
    io::tell_panics();
    if flat.elements.is_empty() {
        say!("warning: configuration has no elements, exiting");
        return Ok(());
    }
    options.service.status("opening the devices");
    allow_open_files();
    let devices = OurDevices::new(options);
    let clock = Arc::new(options.simulated.map_or_else(Clock::real, Clock::simulated));
    let graph_options = Options {
        workers: options.workers,
        burst: options.burst,
        clock: clock.clone(),
        devices: devices.shared(),
        tables: options.tables.clone(),
    };
    let color = std::io::stderr().is_terminal();
    let router = match Router::new(flat, &elements::classes(), &graph_options) {
        Ok(router) => Arc::new(router),
        Err(diagnostics) => {
            tell(format_args!("{}", render(&diagnostics, sources, color)));
            return Err(Failed);
        }
    };
    drop(graph_options);
    tell(format_args!("{}", render(router.warnings(), sources, color)));
    router.devices().warnings().iter().for_each(|w| say!("warning: {w}"));
    check_handlers(&router, &options.read)?;
    let mut engines = router.engines();
    if !options.accounting {
        engines.iter_mut().for_each(Engine::without_cycles);
    }
    let served = serve(&router).map_err(|e| {
        say!("error: {e}");
        Failed
    })?;
    let ended = drive_all(&router, engines, &clock, options);
    drop(served);
    let clean = end(router, devices, options);
    ended.and(clean)
}

/// Each port of a router has some 13 files open, and the usual limit of 1,024 is meant for programs that call `select`.
fn allow_open_files() {
    const ENOUGH: u64 = 65_536;
    if let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && now < most.min(ENOUGH)
    {
        // With fewer, the port that gets none says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most.min(ENOUGH), most);
    }
}

/// Runs the workers until they stop. Their engines are dropped only after all have ended.
fn drive_all(
    router: &Arc<Router>,
    engines: Vec<Engine>,
    clock: &Arc<Clock>,
    options: &RunOptions,
) -> Result<(), Failed> {
    let endless = router.waits_for_outside();
    let run = Arc::new(Run::new(router.mailboxes(), clock.clone(), endless));
    let _signals = signals::stop_on_signal(&run, options.reloads);
    let workers = engines.len();
    let threads: Vec<_> = engines.into_iter().map(|engine| spawn(engine, &run, &options.cpus)).collect();
    let elements = router.plan().nodes.len();
    let (elements, workers) = (counted(elements, "element"), counted(workers, "worker"));
    let buffers = counted(router.pool().capacity(), "buffer");
    if endless {
        say!("routebricks: ready: {elements}, {workers}, {buffers}");
    }
    options.service.ready(&format!("running: {elements}, {workers}, {buffers}"));
    let watch = options.service.watch(router.stats()).unwrap_or_else(|e| {
        say!("warning: the service manager will not hear that this router lives: {e}");
        None
    });
    let mut result = Ok(());
    let mut stopped = Vec::new();
    for thread in threads {
        match thread.map(thread::JoinHandle::join) {
            Ok(Ok(engine)) => stopped.push(engine),
            Ok(Err(_)) => {
                say!("error: a worker ended by a fault of this program (see above); the router was stopped");
                result = Err(Failed);
            }
            Err(e) => {
                say!("error: cannot start a worker: {e}");
                run.stop();
                result = Err(Failed);
            }
        }
    }
    drop(watch);
    options.service.stopping();
    result
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
            say!("warning: worker {worker} cannot be bound to processor {cpu}: {e}");
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
fn end(router: Arc<Router>, devices: OurDevices, options: &RunOptions) -> Result<(), Failed> {
    let mut result = Ok(());
    if let Err(errors) = router.finish() {
        errors.iter().for_each(|e| say!("error: {e}"));
        result = Err(Failed);
    }
    if print_handlers(&router, &options.read).is_err() {
        result = Err(Failed);
    }
    let endless = router.waits_for_outside();
    let (made, gone, lost) = router.balance();
    // Elements hold ports and buffers: they must be gone before devices are closed.
    drop(router);
    let (held, missing) = (packet::held(), devices.close());
    // What came out is all there is to say of a run that ends by itself, unless something did not.
    if endless || lost > 0 || held > 0 {
        say!(
            "routebricks: stopped: {made} packets in, {gone} out, {lost} lost, {held} held, {missing} buffers missing"
        );
    } else if missing > 0 {
        say!("error: {missing} buffers missing: a fault of this program");
    }
    let unaccounted = packet::unaccounted();
    if unaccounted > 0 {
        say!("error: {unaccounted} packets unaccounted for: a fault of this program");
    }
    if missing > 0 || unaccounted > 0 { Err(Failed) } else { result }
}

/// A handler's element and name.
fn split(handler: &str) -> Option<(&str, &str)> {
    handler.rsplit_once('.')
}

/// Whether all these handlers can be read.
fn check_handlers(router: &Router, names: &[String]) -> Result<(), Failed> {
    let mut result = Ok(());
    for name in names {
        let wrong = match split(name) {
            Some((element, handler)) => router.check_readable(element, handler).err().map(|e| e.to_string()),
            None => Some(format!("'{name}' is not of the form ELEMENT.HANDLER")),
        };
        if let Some(wrong) = wrong {
            say!("error: {wrong}");
            result = Err(Failed);
        }
    }
    result
}

fn print_handlers(router: &Router, names: &[String]) -> Result<(), Failed> {
    let mut result = Ok(());
    let mut out = Output::stdout();
    for name in names {
        let (element, handler) = split(name).unwrap_or(("", name));
        match router.read(element, handler, "") {
            Ok(value) if names.len() == 1 => out.line(format_args!("{}", value.trim_end())),
            Ok(value) => out.line(format_args!("{name}:\n{}\n", value.trim_end())),
            Err(e) => {
                say!("error: {e}");
                result = Err(Failed);
            }
        }
    }
    out.done().map_err(|_| Failed).and(result)
}

/// The devices of this process, and how to close them.
struct OurDevices {
    #[cfg(feature = "dpdk")]
    devices: Arc<dpdk::DpdkDevices>,
    #[cfg(not(feature = "dpdk"))]
    devices: Arc<io::NoDevices>,
    /// The same, and rings.
    all: Arc<WithRings>,
}

impl OurDevices {
    #[cfg(feature = "dpdk")]
    fn new(options: &RunOptions) -> OurDevices {
        let args = options.eal.clone();
        let devices = Arc::new(dpdk::DpdkDevices::new(dpdk::EalOptions { args }));
        OurDevices { all: Arc::new(WithRings::new(devices.clone())), devices }
    }

    #[cfg(not(feature = "dpdk"))]
    fn new(options: &RunOptions) -> OurDevices {
        if !options.eal.is_empty() {
            say!("warning: arguments for EAL are ignored: this program was built without DPDK");
        }
        let help =
            "this program was built without DPDK: build it with `make build`, or use FromDump and ToDump";
        let devices = Arc::new(io::NoDevices::new(help));
        OurDevices { all: Arc::new(WithRings::new(devices.clone())), devices }
    }

    fn shared(&self) -> Arc<dyn Devices> {
        self.all.clone()
    }

    /// Closes everything; returns how many buffers had not come back.
    fn close(self) -> usize {
        #[cfg(feature = "dpdk")]
        {
            let heap = if self.devices.is_running() { 0 } else { self.devices.pool().in_use() };
            self.all.stop();
            heap + self.devices.close()
        }
        #[cfg(not(feature = "dpdk"))]
        {
            self.all.stop();
            self.devices.pool().in_use()
        }
    }
}
