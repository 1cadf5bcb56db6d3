//! A handful of tiny classes, and a way to run texts with them.
#![allow(dead_code, missing_docs, clippy::unwrap_used, reason = "test code: each program uses a part")]

mod burn;
mod queues;
mod splits;

use graph::{
    Agnostic, Args, Class, ClassTable, Clock, ConfigErrors, Configure, Cx, Element, Engine, Handlers,
    LocalCx, Loss, Notifier, Options, Out, Router, SIMULATED_START, Simple, Spec, State, Up, of, value,
};
use io::NoDevices;
use lang::{Flat, SourceMap, expand, parse, render};
use packet::Batch;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use burn::Burn;
use queues::Taker;
use splits::{Aim, Fork, Spread};

pub static CLASSES: ClassTable = ClassTable {
    layers: &[&[
        &of::<Source>(),
        &of::<Sink>(),
        &of::<Pass>(),
        &of::<Store>(),
        &of::<Mover>(),
        &of::<Merge>(),
        &of::<Fork>(),
        &of::<Aim>(),
        &of::<Odd>(),
        &of::<Ticker>(),
        &of::<HomeSink>(),
        &of::<Spread>(),
        &of::<Burn>(),
        &of::<Taker>(),
    ]],
    aliases: &[],
};

struct Names;

impl lang::ClassTable for Names {
    fn has(&self, name: &str) -> bool {
        CLASSES.find(name).is_some()
    }
    fn names(&self) -> Vec<&str> {
        CLASSES.names().collect()
    }
}

pub fn flatten(text: &str) -> (Flat, SourceMap) {
    let mut sources = SourceMap::new();
    let source = sources.add("t", text);
    let (ast, errors) = parse(&mut sources, source);
    assert!(errors.is_empty(), "{}", render(&errors, &sources, false));
    match expand(&ast, &Names, &[]) {
        Ok(flat) => (flat, sources),
        Err(e) => panic!("{}", render(&e, &sources, false)),
    }
}

pub struct Test {
    pub router: Router,
    pub engines: Vec<Engine>,
    pub clock: Arc<Clock>,
}

pub fn build(text: &str, workers: usize, burst: usize) -> Result<Test, Vec<String>> {
    let (flat, _) = flatten(text);
    let clock = Arc::new(Clock::simulated(SIMULATED_START));
    let devices = Arc::new(NoDevices::new(""));
    let options = Options { workers, burst, clock: clock.clone(), devices, tables: graph::Tables::new() };
    let router = Router::new(flat, &CLASSES, &options)
        .map_err(|d| d.into_iter().map(|d| d.message).collect::<Vec<_>>())?;
    let mut engines = router.engines();
    engines.iter_mut().for_each(Engine::start);
    Ok(Test { router, engines, clock })
}

impl Test {
    /// Rounds of all workers until nothing happens any more; the number of rounds.
    pub fn run(&mut self) -> usize {
        for round in 0..1_000_000 {
            let rounds: Vec<_> = self.engines.iter_mut().map(Engine::round).collect();
            if rounds.iter().any(|r| r.useful) || self.router.mailboxes().iter().any(|m| m.is_rung()) {
                continue;
            }
            match rounds.iter().filter_map(|r| r.next_timer).min() {
                Some(t) => self.clock.advance(t),
                None => return round,
            }
        }
        panic!("never ends");
    }

    pub fn read(&self, name: &str) -> String {
        let (e, h) = name.split_once('.').unwrap();
        self.router.read(e, h, "").unwrap_or_else(|e| e.to_string())
    }

    pub fn seen(&self, sink: &str) -> String {
        self.read(&format!("{sink}.seen"))
    }

    /// Made = gone + lost + held, then no buffer is missing.
    pub fn end(self) {
        let before = packet::unaccounted();
        let (made, gone, lost) = self.router.balance();
        assert_eq!(made, gone + lost + self.router.pool().in_use() as u64);
        drop(self.engines);
        assert_eq!(self.router.pool().in_use(), 0);
        assert_eq!(packet::unaccounted(), before);
    }
}

macro_rules! plain_local {
    ($class:ident, $local:ident) => {
        pub struct $local(pub Arc<$class>);
    };
}

/// `Source(N)`: packets numbered from 0, one byte each; sleeps while storages are full.
pub struct Source {
    next: AtomicU64,
    count: u64,
}
plain_local!(Source, LocalSource);
impl Class for Source {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("Source", "0/1", "h/h") };
    type Local = LocalSource;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Source, ConfigErrors> {
        let count = args.required("N");
        args.finish()?;
        Ok(Source { next: AtomicU64::new(0), count })
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalSource {
        LocalSource(self.clone())
    }
    fn handlers(h: &mut Handlers<Source>) {
        h.read("next", |s| s.next.load(Relaxed).to_string());
    }
}
impl Element for LocalSource {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }
    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let next = self.0.next.load(Relaxed);
        let n = usize::try_from(self.0.count - next).unwrap().min(cx.burst).min(out.room());
        if n == 0 {
            return false;
        }
        let mut batch = cx.pool.alloc_batch(n);
        for (i, p) in batch.iter_mut().enumerate() {
            assert!(p.append(&[u8::try_from((next + i as u64) % 256).unwrap()]));
        }
        out.made(batch.len());
        self.0.next.fetch_add(batch.len() as u64, Relaxed);
        out.emit(0, batch);
        out.wake();
        true
    }
}

/// `Sink`: notes first bytes and arrival order, as text `0 1 2 `. `Sink(ASLEEP true)` never pulls.
#[derive(Default)]
pub struct Sink(pub Mutex<String>, bool);
pub struct LocalSink {
    sink: Arc<Sink>,
    pulls: bool,
}
fn note(seen: &Mutex<String>, batch: &Batch) {
    let mut seen = seen.lock().unwrap();
    batch.iter().for_each(|p| seen.push_str(&format!("{} ", p.data()[0])));
}
impl Class for Sink {
    const SPEC: Spec = Spec::new("Sink", "1/0", "a/a");
    type Local = LocalSink;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Sink, ConfigErrors> {
        let asleep = args.keyword("ASLEEP", false);
        args.finish()?;
        Ok(Sink(Mutex::default(), asleep))
    }
    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalSink {
        LocalSink { sink: self.clone(), pulls: !cx.push_inputs[0] && !self.1 }
    }
    fn handlers(h: &mut Handlers<Sink>) {
        h.read("seen", |s| s.0.lock().unwrap().trim_end().to_owned());
    }
}
impl Element for LocalSink {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pulls {
            out.wake();
        }
    }
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        note(&self.sink.0, &batch);
        out.consume(batch);
    }
    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pulls {
            return false;
        }
        let batch = up.pull(0, cx.burst, cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        note(&self.sink.0, &batch);
        out.consume(batch);
        out.wake();
        true
    }
}

/// `HomeSink`: as `Sink`, but at home on one worker; also says which workers brought packets.
#[derive(Default)]
pub struct HomeSink(Mutex<String>, Mutex<Vec<usize>>);
plain_local!(HomeSink, LocalHomeSink);
impl Class for HomeSink {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("HomeSink", "1/0", "h/h") };
    type Local = LocalHomeSink;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<HomeSink, ConfigErrors> {
        args.finish()?;
        Ok(HomeSink::default())
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalHomeSink {
        LocalHomeSink(self.clone())
    }
    fn handlers(h: &mut Handlers<HomeSink>) {
        h.read("seen", |s| s.0.lock().unwrap().trim_end().to_owned());
        h.read("workers", |s| format!("{:?}", s.1.lock().unwrap()));
    }
}
impl Element for LocalHomeSink {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        note(&self.0.0, &batch);
        let mut workers = self.0.1.lock().unwrap();
        if !workers.contains(&cx.worker) {
            workers.push(cx.worker);
        }
        out.consume(batch);
    }
}

/// `Pass`: agnostic; counts batches.
#[derive(Default)]
pub struct Pass(AtomicU64);
plain_local!(Pass, LocalPass);
impl Class for Pass {
    const SPEC: Spec = Spec::new("Pass", "1/1", "a/a");
    type Local = Agnostic<LocalPass>;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Pass, ConfigErrors> {
        args.finish()?;
        Ok(Pass::default())
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> Agnostic<LocalPass> {
        Agnostic(LocalPass(self.clone()))
    }
    fn handlers(h: &mut Handlers<Pass>) {
        h.read("batches", |p| p.0.load(Relaxed).to_string());
    }
}
impl Simple for LocalPass {
    fn act(&mut self, _: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// `Odd`: agnostic; keeps packets with odd numbers, rejects the others (output 1 or loss `even`).
pub struct Odd;
impl Class for Odd {
    const SPEC: Spec = Spec { losses: &["even"], ..Spec::new("Odd", "1/1-2", "a/ah") };
    type Local = Agnostic<Odd>;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Odd, ConfigErrors> {
        args.finish()?;
        Ok(Odd)
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> Agnostic<Odd> {
        Agnostic(Odd)
    }
}
impl Simple for Odd {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(|p| p.data()[0] % 2 == 1, |p| out.reject(1, p, Loss(0)));
    }
}

/// `Store(N)`: holds N packets with notification.
pub struct Store {
    notifier: Arc<Notifier>,
    refused: AtomicUsize,
}
pub struct LocalStore {
    shared: Arc<Store>,
    list: VecDeque<packet::Packet>,
}
impl Class for Store {
    const SPEC: Spec = Spec { losses: &["full"], ..Spec::new("Store", "1/1", "h/l") };
    type Local = LocalStore;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Store, ConfigErrors> {
        let capacity: usize = args.required("N");
        args.finish()?;
        Ok(Store { notifier: Arc::new(Notifier::with_full(capacity)), refused: AtomicUsize::new(0) })
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalStore {
        LocalStore { shared: self.clone(), list: VecDeque::new() }
    }
    fn notifier(&self) -> Option<&Arc<Notifier>> {
        Some(&self.notifier)
    }
    fn handlers(h: &mut Handlers<Store>) {
        h.read("length", |s| s.notifier.len().to_string());
        h.write("capacity", |s, text, cx| {
            s.notifier.set_capacity(value(text)?);
            cx.notify_pushers(&s.notifier);
            Ok(())
        });
    }
}
impl Element for LocalStore {
    fn push(&mut self, _: usize, mut batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let (got, was_empty) = self.shared.notifier.reserve(batch.len());
        let refused = batch.split_off(got);
        self.list.extend(batch);
        self.shared.refused.fetch_add(refused.len(), Relaxed);
        out.lose_all(refused, Loss(0));
        if was_empty {
            out.notify_pullers(&self.shared.notifier);
        }
    }
    fn pull(&mut self, _: usize, max: usize, _: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        let n = max.min(self.list.len());
        let batch: Batch = self.list.drain(..n).collect();
        if self.shared.notifier.release(n) {
            out.notify_pushers(&self.shared.notifier);
        }
        batch
    }
}
impl Drop for LocalStore {
    fn drop(&mut self) {
        self.list.drain(..).for_each(packet::Packet::free);
    }
}

/// `Mover`: pulls and pushes on.
pub struct Mover(AtomicU64);
plain_local!(Mover, LocalMover);
impl Class for Mover {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("Mover", "1/1", "l/h") };
    type Local = LocalMover;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Mover, ConfigErrors> {
        args.finish()?;
        Ok(Mover(AtomicU64::new(0)))
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalMover {
        LocalMover(self.clone())
    }
    fn handlers(h: &mut Handlers<Mover>) {
        h.read("runs", |m| m.0.load(Relaxed).to_string());
    }
}
impl Element for LocalMover {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }
    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        self.0.0.fetch_add(1, Relaxed);
        let batch = up.pull(0, cx.burst, cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        out.emit(0, batch);
        out.wake();
        true
    }
}

/// `Merge`: pull scheduler, first input that has something.
pub struct Merge(usize);
plain_local!(Merge, LocalMerge);
impl Class for Merge {
    const SPEC: Spec = Spec::new("Merge", "1-/1", "l/l");
    type Local = LocalMerge;
    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Merge, ConfigErrors> {
        args.finish()?;
        Ok(Merge(cx.inputs))
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalMerge {
        LocalMerge(self.clone())
    }
}
impl Element for LocalMerge {
    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        (0..self.0.0).map(|i| up.pull(i, max, cx, out)).find(|b| !b.is_empty()).unwrap_or_default()
    }
}

/// `Ticker(PERIOD ns, N)`: one packet per period, by timer.
pub struct Ticker {
    period: u64,
    left: AtomicU64,
    times: Mutex<Vec<u64>>,
}
plain_local!(Ticker, LocalTicker);
impl Class for Ticker {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("Ticker", "0/1", "h/h") };
    type Local = LocalTicker;
    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Ticker, ConfigErrors> {
        let period = args.required("PERIOD");
        let n: u64 = args.required("N");
        args.finish()?;
        Ok(Ticker { period, left: AtomicU64::new(n), times: Mutex::default() })
    }
    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalTicker {
        LocalTicker(self.clone())
    }
    fn handlers(h: &mut Handlers<Ticker>) {
        h.read("times", |t| format!("{:?}", t.times.lock().unwrap()));
    }
}
impl Element for LocalTicker {
    fn start(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        out.wake_at(cx.now + self.0.period);
    }
    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let left = self.0.left.load(Relaxed);
        self.0.times.lock().unwrap().push((cx.now - SIMULATED_START) / self.0.period);
        let packet = cx.pool.packet(&[u8::try_from(left % 256).unwrap()]).unwrap();
        out.made(1);
        out.emit(0, Batch::one(packet));
        self.0.left.store(left - 1, Relaxed);
        if left > 1 {
            out.wake_at(cx.now + self.0.period);
        }
        true
    }
}
