//! Runs a configuration to its end in this thread, for tests, examples and small tools: no devices but those given,
//! simulated time, workers taking turns.

use crate::classes;
use graph::{ClassTable, Clock, Engine, Options, Router, SIMULATED_START, Tables};
use io::{Devices, NoDevices};
use lang::{Flat, SourceMap, expand, has_errors, parse, render};
use std::sync::Arc;

/// Rounds after which a configuration that never ends is stopped.
const MAX_ROUNDS: u64 = 3_000_000;

/// A configured graph and its engines, driven by hand.
pub struct Bench {
    /// The graph: handlers, counts, losses.
    pub router: Router,
    engines: Vec<Engine>,
    clock: Arc<Clock>,
}

/// How a configuration is to be run.
pub struct Setup {
    /// Workers, taking turns in one thread.
    pub workers: usize,
    /// Packets at a time; 1 = Click order.
    pub burst: usize,
    /// Where ports come from.
    pub devices: Arc<dyn Devices>,
    /// Where elements meet whoever feeds them.
    pub tables: Tables,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { workers: 1, burst: 32, devices: Arc::new(NoDevices::new("")), tables: Tables::new() }
    }
}

/// Makes a flat configuration of a text.
///
/// # Errors
/// The rendered diagnostics.
pub fn flatten(text: &str) -> Result<(Flat, SourceMap), String> {
    flatten_with(text, &Names)
}

fn flatten_with(text: &str, names: &dyn lang::ClassTable) -> Result<(Flat, SourceMap), String> {
    let mut sources = SourceMap::new();
    let source = sources.add("config", text);
    let (ast, mut diagnostics) = parse(&mut sources, source);
    if !has_errors(&diagnostics) {
        match expand(&ast, names, &[]) {
            Ok(flat) => return Ok((flat, sources)),
            Err(more) => diagnostics.extend(more),
        }
    }
    Err(render(&diagnostics, &sources, false))
}

/// The class names, as the language wants to know them.
pub struct Names;

impl lang::ClassTable for Names {
    fn has(&self, name: &str) -> bool {
        classes().find(name).is_some()
    }

    fn names(&self) -> Vec<&str> {
        classes().names().collect()
    }
}

/// The same for any table.
struct TableNames<'a>(&'a ClassTable);

impl lang::ClassTable for TableNames<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.find(name).is_some()
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }
}

impl Bench {
    /// Configures a text.
    ///
    /// # Errors
    /// The rendered diagnostics.
    pub fn new(text: &str, setup: &Setup) -> Result<Bench, String> {
        Bench::with_classes(text, setup, &classes())
    }

    /// Configures a text that may use other classes than those of this crate.
    ///
    /// # Errors
    /// The rendered diagnostics.
    pub fn with_classes(text: &str, setup: &Setup, classes: &ClassTable) -> Result<Bench, String> {
        let (flat, sources) = flatten_with(text, &TableNames(classes))?;
        let clock = Arc::new(Clock::simulated(SIMULATED_START));
        let options = Options {
            workers: setup.workers,
            burst: setup.burst,
            clock: clock.clone(),
            devices: setup.devices.clone(),
            tables: setup.tables.clone(),
        };
        let router = Router::new(flat, classes, &options).map_err(|d| render(&d, &sources, false))?;
        let mut engines = router.engines();
        engines.iter_mut().for_each(Engine::start);
        Ok(Bench { router, engines, clock })
    }

    /// Lets every worker have a round; false when none has anything to do now or later.
    pub fn step(&mut self) -> bool {
        let mut next = None;
        let mut busy = false;
        for engine in &mut self.engines {
            let round = engine.round();
            if round.stop {
                return false;
            }
            busy |= round.useful;
            next = match (next, round.next_timer) {
                (Some(a), Some(b)) => Some(std::cmp::min(a, b)),
                (a, b) => a.or(b),
            };
        }
        if busy {
            return true;
        }
        match next {
            Some(time) => {
                self.clock.advance(time);
                true
            }
            None => self.router.mailboxes().iter().any(|m| m.is_rung()),
        }
    }

    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// If that does not come within a few million rounds.
    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..MAX_ROUNDS {
            if !self.step() {
                return Ok(());
            }
        }
        Err(format!("still running after {MAX_ROUNDS} rounds"))
    }

    /// Runs until simulated time `nanos` after the start, or nothing is left to do.
    pub fn run_for(&mut self, nanos: u64) {
        while self.clock.now() < SIMULATED_START + nanos && self.step() {}
    }

    /// Reads `element.handler`; the error's text if it cannot be read.
    pub fn read(&self, name: &str) -> String {
        let (element, handler) = name.rsplit_once('.').unwrap_or(("", name));
        self.router.read(element, handler, "").unwrap_or_else(|e| e.to_string())
    }

    /// Writes `element.handler`.
    ///
    /// # Errors
    /// The handler's.
    pub fn write(&self, name: &str, value: &str) -> Result<(), String> {
        let (element, handler) = name.rsplit_once('.').unwrap_or(("", name));
        self.router.write(element, handler, value).map_err(|e| e.to_string())
    }

    /// Losses as `element.reason = n` lines.
    pub fn losses(&self) -> Vec<String> {
        let rows = self.router.loss_rows();
        rows.iter().map(|l| format!("{}.{} = {}", l.element, l.reason, l.packets)).collect()
    }

    /// Ends the run and checks the books: made = gone + lost + held while it ran, and no buffer missing afterwards.
    ///
    /// # Errors
    /// What does not add up, or what an element could not write out.
    pub fn end(self) -> Result<(), String> {
        let (made, gone, lost) = self.router.balance();
        let held = self.router.pool().in_use() as u64;
        if made != gone + lost + held {
            return Err(format!("made {made} is not gone {gone} + lost {lost} + held {held}"));
        }
        drop(self.engines);
        self.router.finish().map_err(|e| e.join("\n"))?;
        match self.router.pool().in_use() {
            0 => Ok(()),
            n => Err(format!("{n} buffers missing")),
        }
    }
}

/// What becomes of one packet at the element `i`, of this class and with these arguments: its losses (`i.short = 1`), or the bytes
/// that it lets pass.
#[cfg(test)]
pub fn outcome(element: &str, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let text =
        format!("InfiniteSource(DATA \\<{hex}>, LIMIT 1) -> i :: {element} -> c :: Counter -> Discard;");
    let mut bench = Bench::new(&text, &Setup::default()).unwrap();
    bench.run().unwrap();
    let losses: Vec<String> = bench.losses().into_iter().filter(|l| !l.ends_with("= 0")).collect();
    let passed = bench.read("c.byte_count");
    bench.end().unwrap();
    if losses.is_empty() { passed } else { losses.join(" ") }
}
