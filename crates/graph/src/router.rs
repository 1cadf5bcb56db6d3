//! A configured graph: class values, handlers, counts; and the engines that run it.

use crate::NodeId;
use crate::class::{AnyShared, ClassTable, ConfigErrors, Configure, Initialize, LocalCx};
use crate::engine::core::{Core, Road, Sent, Storages};
use crate::engine::mailbox::Mailbox;
use crate::engine::stats::{ENGINE_LOSSES, WorkerStats};
use crate::engine::{Engine, Parts};
use crate::handlers::{Handler, HandlerCx, HandlerError};
use crate::plan::{Homes, Kind, Plan, assign_homes, downstream_storages, upstream_storages};
use crate::spec::Phase;
use crate::time::Clock;
use crate::wires::{Target, Wires};
use io::Devices;
use lang::args::Args;
use lang::{Diagnostic, Flat, Span};
use packet::Pool;
use rtrb::{Consumer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;

/// Batches that fit into the ring between two workers.
const RING: usize = 256;

/// How a graph is run.
pub struct Options {
    /// Number of workers.
    pub workers: usize,
    /// Packets that a source emits, and a mover pulls, at a time; 1 is Click order.
    pub burst: usize,
    /// The clock.
    pub clock: Arc<Clock>,
    /// Where ports come from.
    pub devices: Arc<dyn Devices>,
}

/// A configured graph. Its engines are taken out and run by the workers; what is left is how to look in.
pub struct Router {
    plan: Plan,
    flat: Flat,
    shared: Vec<Arc<dyn AnyShared>>,
    handlers: Vec<Vec<Handler>>,
    homes: Homes,
    stats: Vec<Arc<WorkerStats>>,
    mailboxes: Vec<Arc<Mailbox>>,
    storages: Arc<[Storages]>,
    clock: Arc<Clock>,
    devices: Arc<dyn Devices>,
    pool: Pool,
    burst: usize,
    warnings: Vec<Diagnostic>,
}

/// One element's counts, all workers together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRow {
    /// Element name.
    pub element: String,
    /// Class name.
    pub class: &'static str,
    /// Calls that did something.
    pub calls: u64,
    /// Packets.
    pub packets: u64,
    /// Task runs that found nothing.
    pub empty_polls: u64,
    /// Packets that came into being here.
    pub made: u64,
    /// Packets whose way ended here on purpose.
    pub gone: u64,
    /// TSC cycles per packet over the timed calls; `None` before the first.
    pub cycles_per_packet: Option<f64>,
    /// TSC cycles per call over the timed calls.
    pub cycles_per_call: Option<f64>,
    /// Estimate of all TSC cycles spent here, empty polls not included.
    pub cycles: u64,
    /// Estimate of all TSC cycles spent in empty polls.
    pub empty_cycles: u64,
}

/// Packets lost at one element for one reason, all workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// Element name.
    pub element: String,
    /// Class name.
    pub class: &'static str,
    /// Reason, in snake case.
    pub reason: &'static str,
    /// Packets.
    pub packets: u64,
}

impl Router {
    /// Configures and initialises a graph.
    ///
    /// # Errors
    /// All mistakes of the stage that failed: use of ports, configurations, or the first that failed to initialise.
    pub fn new(flat: Flat, classes: &ClassTable, options: &Options) -> Result<Router, Vec<Diagnostic>> {
        let plan = Plan::new(&flat, classes)?;
        let workers = options.workers.max(1);
        let (shared, homes, warnings) = configure_all(&plan, &flat, options)?;
        initialize_all(&plan, &flat, &shared, &options.devices)?;
        let storages = connect_storages(&plan, &shared, &homes, workers);
        let losses: Vec<usize> = plan.nodes.iter().map(|n| n.spec().losses.len()).collect();
        Ok(Router {
            handlers: shared.iter().map(|s| s.handlers()).collect(),
            stats: (0..workers).map(|_| Arc::new(WorkerStats::new(&losses))).collect(),
            mailboxes: (0..workers).map(|_| Arc::default()).collect(),
            storages,
            clock: options.clock.clone(),
            pool: options.devices.pool(),
            devices: options.devices.clone(),
            burst: options.burst.clamp(1, packet::Batch::MAX),
            plan,
            flat,
            shared,
            homes,
            warnings,
        })
    }

    /// Makes the engines, one per worker. To be called once: queues and files are handed out to them.
    pub fn engines(&self) -> Vec<Engine> {
        let workers = self.stats.len();
        let mut roads: Vec<Vec<Option<Road>>> = (0..workers).map(|_| Vec::new()).collect();
        let mut rings: Vec<Vec<Consumer<Sent>>> = (0..workers).map(|_| Vec::new()).collect();
        for (from, roads) in roads.iter_mut().enumerate() {
            for (to, rings) in rings.iter_mut().enumerate() {
                if from == to {
                    roads.push(None);
                    continue;
                }
                let (ring, consumer) = RingBuffer::new(RING);
                rings.push(consumer);
                let mailbox = self.mailboxes[to].clone();
                roads.push(Some(Road { ring, mailbox, overflow: VecDeque::new(), rung: false }));
            }
        }
        roads
            .into_iter()
            .zip(rings)
            .enumerate()
            .map(|(w, (roads, rings))| self.engine(w, roads, rings))
            .collect()
    }

    fn engine(&self, worker: usize, roads: Vec<Option<Road>>, rings: Vec<Consumer<Sent>>) -> Engine {
        let annotations = self.plan.nodes.iter().any(|n| n.spec().annotations);
        let mut active = Vec::with_capacity(self.shared.len());
        let mut slots = Vec::with_capacity(self.shared.len());
        for id in self.plan.ids() {
            let node = self.plan.node(id);
            let cx = LocalCx {
                worker,
                workers: self.stats.len(),
                node: id,
                active: self.homes.active(id, self.stats.len()).contains(&worker),
                inputs: node.inputs.len(),
                outputs: node.outputs.len(),
                push_inputs: node.inputs.iter().map(|k| *k == Kind::Push).collect(),
                push_outputs: node.outputs.iter().map(|k| *k == Kind::Push).collect(),
                annotations,
                clock: self.clock.clone(),
            };
            active.push(cx.active);
            slots.push(Some(self.shared[id.index()].clone().local(&cx)));
        }
        let losses: Vec<usize> = self.plan.nodes.iter().map(|n| n.spec().losses.len()).collect();
        let mut core = Core::new(worker, self.wires(worker), self.stats[worker].clone(), losses.into());
        core.storages = self.storages.clone();
        core.home = self.homes.packets.clone().into();
        core.active = active.into();
        core.roads = roads;
        core.mailboxes = self.mailboxes.clone();
        Engine::new(Parts {
            slots,
            core,
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            mailbox: self.mailboxes[worker].clone(),
            rings,
            burst: self.burst,
        })
    }

    fn wires(&self, worker: usize) -> Wires {
        let ports: Vec<_> = self.plan.nodes.iter().map(|n| (n.inputs.len(), n.outputs.len())).collect();
        let mut wires = Wires::new(&ports);
        for c in &self.plan.connections {
            match self.plan.kind(c) {
                Kind::Push => {
                    let home = self.homes.packets[c.to.0.index()];
                    let remote = home.is_some_and(|h| h != worker);
                    wires.connect_push(c.from.0, c.from.1, Target::new(c.to.0, c.to.1), remote);
                }
                Kind::Pull => wires.connect_pull(c.to.0, c.to.1, Target::new(c.from.0, c.from.1)),
            }
        }
        wires
    }

    /// What is doubtful but usable.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The checked graph.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The flat configuration.
    pub fn flat(&self) -> &Flat {
        &self.flat
    }

    /// The pool of its packets.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The devices that it uses.
    pub fn devices(&self) -> &Arc<dyn Devices> {
        &self.devices
    }

    /// Each worker's counts.
    pub fn stats(&self) -> &[Arc<WorkerStats>] {
        &self.stats
    }

    /// Each worker's mailbox.
    pub fn mailboxes(&self) -> &[Arc<Mailbox>] {
        &self.mailboxes
    }

    /// The one worker on which an element's task runs; `None` = all.
    pub fn home(&self, node: NodeId) -> Option<usize> {
        self.homes.task.get(node.index()).copied().flatten()
    }

    /// The element of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.flat.find(name).map(NodeId::new)
    }

    /// An element's handlers.
    pub fn handlers(&self, node: NodeId) -> &[Handler] {
        self.handlers.get(node.index()).map_or(&[], |h| h)
    }

    /// True if some element may wait for the outside world for ever.
    pub fn waits_for_outside(&self) -> bool {
        self.shared.iter().any(|s| s.waits_for_outside())
    }

    /// Reads `handler` of `element`.
    ///
    /// # Errors
    /// If there is no such element or handler, or the handler refuses.
    pub fn read(&self, element: &str, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let full = || format!("{element}.{handler}");
        let Some(h) = self.handlers(node).iter().find(|h| h.name == handler) else {
            return self.read_generic(node, handler).ok_or_else(|| HandlerError::NoHandler(full()));
        };
        let read = h.read.as_ref().ok_or_else(|| HandlerError::NotReadable(full()))?;
        read(self.shared[node.index()].as_any(), parameter).map_err(HandlerError::Failed)
    }

    /// Writes `handler` of `element`.
    ///
    /// # Errors
    /// If there is no such element or handler, or the handler refuses.
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<(), HandlerError> {
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let full = || format!("{element}.{handler}");
        let Some(h) = self.handlers(node).iter().find(|h| h.name == handler) else {
            let known = self.read_generic(node, handler).is_some();
            return Err(if known {
                HandlerError::NotWritable(full())
            } else {
                HandlerError::NoHandler(full())
            });
        };
        let write = h.write.as_ref().ok_or_else(|| HandlerError::NotWritable(full()))?;
        let cx = HandlerCx { node, mailboxes: &self.mailboxes };
        write(self.shared[node.index()].as_any(), value, &cx).map_err(HandlerError::Failed)
    }

    /// The handlers that every element has.
    fn read_generic(&self, node: NodeId, handler: &str) -> Option<String> {
        let n = self.plan.node(node);
        Some(match handler {
            "name" => n.name.clone(),
            "class" => n.spec().name.to_owned(),
            "config" => self.flat.elements[node.index()].config.text.clone(),
            "ports" => self.ports_text(node),
            "handlers" => self.handlers_text(node),
            "home_thread" => self.home(node).map_or(-1, |h| i64::try_from(h).unwrap_or(-1)).to_string(),
            "drops" => self.losses_of(node).iter().map(|l| l.packets).sum::<u64>().to_string(),
            _ => return None,
        })
    }

    fn handlers_text(&self, node: NodeId) -> String {
        let own = self.handlers(node).iter().map(|h| format!("{}\t{}\n", h.name, h.mode()));
        let generic = ["class", "config", "drops", "handlers", "home_thread", "name", "ports"];
        let generic = generic.iter().filter(|g| !self.handlers(node).iter().any(|h| h.name == **g));
        own.chain(generic.map(|g| format!("{g}\tr\n"))).collect()
    }

    /// Click's `ports` text: counts, then per port push or pull and its peers.
    fn ports_text(&self, node: NodeId) -> String {
        use std::fmt::Write;
        let n = self.plan.node(node);
        let mut text = String::new();
        for (inputs, what, kinds) in [(true, "input", &n.inputs), (false, "output", &n.outputs)] {
            let _ = writeln!(text, "{} {what}{}", kinds.len(), if kinds.len() == 1 { "" } else { "s" });
            for (port, kind) in kinds.iter().enumerate() {
                let code = crate::spec::processing(n.spec().processing, !inputs, port);
                let agnostic = if code == crate::spec::Processing::Agnostic { "~" } else { "" };
                let kind = if *kind == Kind::Push { "push" } else { "pull" };
                let _ = writeln!(text, "{kind}{agnostic}\t-\t{}", self.peers(node, port, inputs).join(", "));
            }
        }
        text
    }

    fn peers(&self, node: NodeId, port: usize, inputs: bool) -> Vec<String> {
        let name = |id: NodeId| &self.plan.node(id).name;
        let connections = self.plan.connections.iter();
        if inputs {
            let mine = connections.filter(|c| c.to == (node, port));
            mine.map(|c| format!("{} [{}]", name(c.from.0), c.from.1)).collect()
        } else {
            let mine = connections.filter(|c| c.from == (node, port));
            mine.map(|c| format!("[{}] {}", c.to.1, name(c.to.0))).collect()
        }
    }

    /// Every element's counts.
    pub fn node_rows(&self) -> Vec<NodeRow> {
        self.plan.ids().map(|id| self.node_row(id)).collect()
    }

    fn node_row(&self, id: NodeId) -> NodeRow {
        let n = self.plan.node(id);
        let mut row = NodeRow { element: n.name.clone(), class: n.spec().name, ..NodeRow::default() };
        let (mut cycles, mut calls, mut packets) = (0, 0, 0);
        for worker in &self.stats {
            let s = &worker.nodes[id.index()];
            row.calls += s.calls.get();
            row.packets += s.packets.get();
            row.empty_polls += s.empty_polls.get();
            row.made += s.made.get();
            row.gone += s.gone.get();
            cycles += s.timed_cycles.get();
            calls += s.timed_calls.get();
            packets += s.timed_packets.get();
            // One run in so many is timed; the others are taken to cost the same.
            let runs = worker.runs.get() as f64 / worker.timed_runs.get().max(1) as f64;
            row.cycles += (s.timed_cycles.get() as f64 * runs) as u64;
            row.empty_cycles += (s.timed_empty_cycles.get() as f64 * runs) as u64;
        }
        row.cycles_per_packet = (packets > 0).then(|| cycles as f64 / packets as f64);
        row.cycles_per_call = (calls > 0).then(|| cycles as f64 / calls as f64);
        row
    }

    /// Every loss that has happened, by element and reason.
    pub fn loss_rows(&self) -> Vec<LossRow> {
        self.plan.ids().flat_map(|id| self.losses_of(id)).filter(|l| l.packets > 0).collect()
    }

    /// All reasons for which one element may lose packets, with counts.
    pub fn losses_of(&self, node: NodeId) -> Vec<LossRow> {
        let n = self.plan.node(node);
        let reasons = n.spec().losses.iter().chain(&ENGINE_LOSSES);
        let row = |(i, reason): (usize, &&'static str)| LossRow {
            element: n.name.clone(),
            class: n.spec().name,
            reason,
            packets: self.stats.iter().filter_map(|w| w.loss(node.index(), i)).map(epoch::Count::get).sum(),
        };
        reasons.enumerate().map(row).collect()
    }

    /// Packets made, packets that ended on purpose, packets lost. What is neither gone nor lost is held somewhere.
    pub fn balance(&self) -> (u64, u64, u64) {
        let rows = self.node_rows();
        let lost = self.loss_rows().iter().map(|l| l.packets).sum();
        (rows.iter().map(|r| r.made).sum(), rows.iter().map(|r| r.gone).sum(), lost)
    }

    /// After all engines were dropped: lets every element write out what it has buffered.
    ///
    /// # Errors
    /// What went wrong, by element.
    pub fn finish(&self) -> Result<(), Vec<String>> {
        let finished = self
            .plan
            .nodes
            .iter()
            .zip(&self.shared)
            .map(|(n, s)| s.finish().map_err(|e| format!("{}: {e}", n.name)));
        let errors: Vec<String> = finished.filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

type Configured = (Vec<Arc<dyn AnyShared>>, Homes, Vec<Diagnostic>);

/// Configures all elements, information first, and settles who lives where.
fn configure_all(plan: &Plan, flat: &Flat, options: &Options) -> Result<Configured, Vec<Diagnostic>> {
    let mut shared: Vec<Option<Arc<dyn AnyShared>>> = vec![None; plan.nodes.len()];
    let mut errors = Vec::new();
    let workers = options.workers.max(1);
    let free = Homes { task: vec![None; plan.nodes.len()], packets: Vec::new() };
    configure_phase(Phase::Info, plan, flat, options, &free, &mut shared, &mut errors);
    let bound = placements(plan, flat, &shared, workers, &mut errors);
    let homes = match assign_homes(plan, workers, &bound) {
        Ok(homes) => homes,
        Err(more) => {
            errors.extend(more);
            free
        }
    };
    configure_phase(Phase::Normal, plan, flat, options, &homes, &mut shared, &mut errors);
    if lang::has_errors(&errors) {
        return Err(errors);
    }
    Ok((shared.into_iter().flatten().collect(), homes, errors))
}

fn configure_phase(
    phase: Phase,
    plan: &Plan,
    flat: &Flat,
    options: &Options,
    homes: &Homes,
    shared: &mut [Option<Arc<dyn AnyShared>>],
    errors: &mut Vec<Diagnostic>,
) {
    let workers = options.workers.max(1);
    for id in plan.ids().filter(|id| plan.node(*id).spec().phase == phase) {
        let (node, i) = (plan.node(id), id.index());
        let cx = Configure {
            name: &node.name,
            inputs: node.inputs.len(),
            outputs: node.outputs.len(),
            workers,
            active: &homes.active(id, workers),
            devices: &options.devices,
            burst: options.burst,
            resolve: &|name| flat.resolve(i, name).map(NodeId::new),
        };
        let mut args = Args::of(flat, i);
        match node.class.configure(&mut args, &cx) {
            Ok(value) => {
                shared[i] = Some(value);
                errors.extend(args.take_warnings());
            }
            Err(e) => errors.extend(diagnostics(plan, flat, id, "configuring", e)),
        }
    }
}

fn diagnostics(plan: &Plan, flat: &Flat, id: NodeId, doing: &str, errors: ConfigErrors) -> Vec<Diagnostic> {
    let node = plan.node(id);
    let make = |mut d: Diagnostic| {
        if d.context.is_none() {
            d = d.context(node.span, format!("While {doing} '{}'", node.title()));
            d.uses = flat.uses(id.index());
        }
        d
    };
    errors.0.into_iter().map(make).collect()
}

fn placements(
    plan: &Plan,
    flat: &Flat,
    shared: &[Option<Arc<dyn AnyShared>>],
    workers: usize,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Option<(usize, Span)>> {
    let mut bound = vec![None; plan.nodes.len()];
    // Placements of a compound first, so that one of an element inside it wins.
    let mut single = Vec::new();
    for (id, value) in plan.ids().zip(shared) {
        for p in value.iter().flat_map(|v| v.placements()) {
            if p.worker >= workers {
                let text = format!("thread {} does not exist", p.worker);
                let help = format!("there are {workers}: numbers 0 to {}; more with -j", workers - 1);
                errors.push(Diagnostic::error(p.span, text).help(help));
                continue;
            }
            match flat.resolve_target(id.index(), &p.element) {
                Some(lang::Target::Element(i)) => single.push((i, p.worker, p.span)),
                Some(lang::Target::Compound(scope)) => {
                    flat.members(scope).for_each(|i| bound[i] = Some((p.worker, p.span)));
                }
                None => errors.push(Diagnostic::error(p.span, format!("no element named '{}'", p.element))),
            }
        }
    }
    for (i, worker, span) in single {
        bound[i] = Some((worker, span));
    }
    bound
}

fn initialize_all(
    plan: &Plan,
    flat: &Flat,
    shared: &[Arc<dyn AnyShared>],
    devices: &Arc<dyn Devices>,
) -> Result<(), Vec<Diagnostic>> {
    if let Err(e) = devices.start() {
        let span = plan.nodes.first().map_or(Span::default(), |n| n.span);
        let mut d = Diagnostic::error(span, e.message);
        if !e.help.is_empty() {
            d = d.help(e.help);
        }
        return Err(vec![d]);
    }
    let cx = Initialize { devices, shared };
    for phase in [Phase::Info, Phase::Normal] {
        for id in plan.ids().filter(|id| plan.node(*id).spec().phase == phase) {
            let result = shared[id.index()].initialize(&cx);
            result.map_err(|e| diagnostics(plan, flat, id, "initializing", e))?;
        }
    }
    Ok(())
}

/// Tells storages whom to wake, and tasks which storages to look at.
fn connect_storages(
    plan: &Plan,
    shared: &[Arc<dyn AnyShared>],
    homes: &Homes,
    workers: usize,
) -> Arc<[Storages]> {
    let notifier = |id: NodeId| shared[id.index()].notifier();
    let is_storage = |id: NodeId| notifier(id).is_some();
    let mut pullers = vec![Vec::new(); plan.nodes.len()];
    let mut pushers = vec![Vec::new(); plan.nodes.len()];
    let mut all = Vec::with_capacity(plan.nodes.len());
    for id in plan.ids() {
        let node = plan.node(id);
        let listeners = || homes.active(id, workers).into_iter().map(move |w| (w, id));
        let mut storages = Storages::default();
        if node.inputs.contains(&Kind::Pull) {
            let upstream = upstream_storages(plan, id, is_storage);
            if !node.outputs.contains(&Kind::Pull) {
                // Even with an input that cannot tell, the others' news must not wait.
                let known = upstream.clone().unwrap_or_default();
                known.iter().for_each(|s| pullers[s.index()].extend(listeners()));
            }
            storages.upstream =
                upstream.map(|ids| ids.into_iter().filter_map(|s| notifier(s).cloned()).collect());
        }
        if node.outputs.contains(&Kind::Push) && !node.inputs.contains(&Kind::Push) {
            let downstream = downstream_storages(plan, id, is_storage);
            downstream.iter().for_each(|s| pushers[s.index()].extend(listeners()));
            storages.downstream = downstream.into_iter().filter_map(|s| notifier(s).cloned()).collect();
        }
        all.push(storages);
    }
    for (id, (pullers, pushers)) in plan.ids().zip(pullers.into_iter().zip(pushers)) {
        if let Some(n) = notifier(id) {
            n.connect(pullers, pushers);
        }
    }
    all.into()
}
