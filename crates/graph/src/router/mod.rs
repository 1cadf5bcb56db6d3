//! A configured graph: class values, handlers, counts; and the engines that run it.

mod access;
mod configure;
mod rows;
mod storages;
mod task_handlers;

use crate::NodeId;
use crate::class::{AnyShared, ClassTable, LocalCx};
use crate::engine::core::{Core, Road, Sent, Storages};
use crate::engine::mailbox::Mailbox;
use crate::engine::stats::{NodeFacts, WorkerStats};
use crate::engine::tasks::Shown;
use crate::engine::{Engine, Parts};
use crate::handlers::Handler;
use crate::plan::{Homes, Kind, Plan, PlanNode};
use crate::tables::Tables;
use crate::time::Clock;
use crate::wires::{Target, Wires};
use configure::{Configured, configure, initialize, open};
use io::Devices;
use lang::{Diagnostic, Flat};
use packet::Pool;
use rtrb::{Consumer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use storages::connect_storages;

pub use rows::{LossRow, NodeRow};

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
    /// Where elements find tables by name.
    pub tables: Tables,
}

/// A configured graph. Its engines are taken out and run by the workers; what is left is how to look in.
pub struct Router {
    plan: Plan,
    flat: Flat,
    shared: Vec<Arc<dyn AnyShared>>,
    handlers: Vec<Vec<Handler>>,
    homes: Homes,
    /// Each task's share, by element.
    tickets: Vec<AtomicU32>,
    /// Which tasks are scheduled, by worker.
    scheduled: Vec<Shown>,
    /// By worker, as what follows.
    wires: Vec<Wires>,
    stats: Vec<Arc<WorkerStats>>,
    mailboxes: Vec<Arc<Mailbox>>,
    storages: Arc<[Storages]>,
    clock: Arc<Clock>,
    devices: Arc<dyn Devices>,
    pool: Pool,
    burst: usize,
    warnings: Vec<Diagnostic>,
}

/// The connections as a worker sees them.
fn wires(plan: &Plan, homes: &Homes, worker: usize) -> Wires {
    let ports: Vec<_> = plan.nodes.iter().map(|n| (n.inputs.len(), n.outputs.len())).collect();
    let mut wires = Wires::new(&ports);
    for c in &plan.connections {
        match plan.kind(c) {
            Kind::Push => {
                let remote = homes.taker(c.to.0, worker) != worker;
                wires.connect_push(c.from.0, c.from.1, Target::new(c.to.0, c.to.1), remote);
            }
            Kind::Pull => wires.connect_pull(c.to.0, c.to.1, Target::new(c.from.0, c.from.1)),
        }
    }
    wires
}

/// What is to be known of each element.
fn facts(plan: &Plan, wires: &Wires) -> Vec<NodeFacts> {
    let facts = |(node, n): (NodeId, &PlanNode)| NodeFacts {
        node,
        losses: u16::try_from(n.spec().losses.len()).unwrap_or(u16::MAX),
        output: wires.output(node, 0),
        pushed_to: n.inputs.contains(&Kind::Push),
        pulls: n.inputs.contains(&Kind::Pull),
    };
    plan.ids().zip(&plan.nodes).map(facts).collect()
}

impl Router {
    /// Configures and initialises a graph.
    ///
    /// # Errors
    /// All mistakes of the stage that failed: use of ports, configurations, or the first that failed to initialise.
    pub fn new(flat: Flat, classes: &ClassTable, options: &Options) -> Result<Router, Vec<Diagnostic>> {
        let plan = Plan::new(&flat, classes)?;
        let workers = options.workers.max(1);
        let Configured { shared, homes, tickets, warnings } = configure(&plan, &flat, options)?;
        initialize(&plan, &flat, &shared, &homes, &options.devices)?;
        open(&plan, &flat, &shared)?;
        let storages = connect_storages(&plan, &shared, &homes, workers);
        let wires: Vec<Wires> = (0..workers).map(|worker| wires(&plan, &homes, worker)).collect();
        let nodes = plan.nodes.len();
        Ok(Router {
            handlers: shared.iter().map(|s| s.handlers()).collect(),
            stats: wires.iter().map(|wires| Arc::new(WorkerStats::new(&facts(&plan, wires)))).collect(),
            wires,
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
            tickets: tickets.into_iter().map(AtomicU32::new).collect(),
            scheduled: (0..workers).map(|_| (0..nodes).map(|_| AtomicBool::new(false)).collect()).collect(),
            warnings,
        })
    }

    /// What [`Router::new`] would say to a plan, as far as it can be said without opening files, and without devices
    /// if `options` has some that open none: mistakes and warnings.
    pub fn check(plan: &Plan, flat: &Flat, options: &Options) -> Vec<Diagnostic> {
        match configure(plan, flat, options) {
            Err(found) => found,
            Ok(Configured { shared, homes, mut warnings, .. }) => {
                let found = initialize(plan, flat, &shared, &homes, &options.devices);
                warnings.extend(found.err().unwrap_or_default());
                warnings
            }
        }
    }

    /// Mistakes in the use of ports and in arguments, and warnings, of a configuration with unknown classes: those of all
    /// elements whose classes are known.
    pub fn mistakes(flat: &Flat, classes: &ClassTable, options: &Options) -> Vec<Diagnostic> {
        let (plan, mut found) = Plan::checked(flat, classes);
        found.extend(configure(&plan, flat, options).err().unwrap_or_default());
        found
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
        let mut core =
            Core::new(worker, self.wires[worker].clone(), self.stats[worker].clone(), losses.into());
        core.storages = self.storages.clone();
        core.takers = self.homes.packets.clone().into();
        core.active = active.into();
        core.roads = roads;
        core.mailboxes = self.mailboxes.clone();
        let mut engine = Engine::new(Parts {
            slots,
            core,
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            mailbox: self.mailboxes[worker].clone(),
            rings,
            burst: self.burst,
            shown: self.scheduled[worker].clone(),
        });
        for (id, tickets) in self.plan.ids().zip(&self.tickets) {
            engine.set_tickets(id, tickets.load(Relaxed));
        }
        engine
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

    /// True if some element may wait for the outside world for ever.
    pub fn waits_for_outside(&self) -> bool {
        self.shared.iter().any(|s| s.waits_for_outside())
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
