//! One worker's engine: it owns the worker's instances of all elements and moves batches between them.
//!
//! ```text
//!   round:   letters ─► rings of other workers ─► due timers ─► some task runs ─► quiescent point
//!   a run:   element.run ─► stack ─► pop: element.push ─► stack … until the stack is empty (depth first)
//! ```

pub(crate) mod core;
pub mod mailbox;
pub mod stats;
pub mod tasks;
pub mod timers;

use crate::NodeId;
use crate::element::{Cx, Element};
use crate::out::{Out, Up};
use crate::time::{Clock, Nanos};
use core::{Core, NOBODY, Sent};
use epoch::{Reader, tsc};
use mailbox::Mailbox;
use packet::Pool;
use rtrb::Consumer;
use stats::{NodeStats, WorkerStats};
use std::sync::Arc;
use tasks::{Shown, Tasks};

/// Task runs in one round, before letters, timers and the quiescent point have their turn.
const RUNS_PER_ROUND: usize = 32;
/// Every how many task runs one is timed; prime, so that it does not fall into step with the tasks.
const TIMED_EVERY: usize = 61;
const _: () = assert!(TIMED_EVERY > RUNS_PER_ROUND, "at most one run of a round is timed");
/// Batches delivered in one task run before its packets are taken to be in an endless loop.
const MAX_DELIVERIES: usize = 1 << 16;
/// Batches taken from one other worker's ring in a round.
const RING_BURST: usize = 64;

/// What a round found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When it began.
    pub now: Nanos,
    /// Something useful was done.
    pub useful: bool,
    /// Tasks that are ready to run again.
    pub ready: usize,
    /// When the next timer is due.
    pub next_timer: Option<Nanos>,
    /// An element asked the driver to stop.
    pub stop: bool,
}

/// See the module.
pub struct Engine {
    slots: Vec<Option<Box<dyn Element>>>,
    stats: Arc<WorkerStats>,
    core: Core,
    tasks: Tasks,
    reader: Reader,
    pool: Pool,
    clock: Arc<Clock>,
    mailbox: Arc<Mailbox>,
    rings: Vec<Consumer<Sent>>,
    burst: usize,
    now: Nanos,
    /// The run from now on that is timed: 1 = the next.
    until_timed: usize,
}

/// The elements, and what is known and counted of each.
struct Graph<'a> {
    slots: &'a mut [Option<Box<dyn Element>>],
    rows: &'a [NodeStats],
}

/// What an engine is made of; see [`crate::Router`].
pub(crate) struct Parts {
    pub slots: Vec<Option<Box<dyn Element>>>,
    pub core: Core,
    pub pool: Pool,
    pub clock: Arc<Clock>,
    pub mailbox: Arc<Mailbox>,
    pub rings: Vec<Consumer<Sent>>,
    pub burst: usize,
    /// Where the worker shows which tasks are scheduled, by element.
    pub shown: Shown,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Engine {
        let now = parts.clock.now();
        Engine {
            tasks: Tasks::new(parts.shown),
            slots: parts.slots,
            stats: parts.core.stats.clone(),
            core: parts.core,
            reader: Reader::new(),
            pool: parts.pool,
            clock: parts.clock,
            mailbox: parts.mailbox,
            rings: parts.rings,
            burst: parts.burst,
            now,
            until_timed: 1,
        }
    }

    /// Does not look at the clock around calls of elements: calls and packets are counted, cycles are not.
    pub fn without_cycles(&mut self) {
        // So far away that the hot path needs no question of its own.
        self.until_timed = usize::MAX;
    }

    /// Number of this worker.
    pub fn worker(&self) -> usize {
        self.core.worker
    }

    /// This worker's mailbox.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Lets every active element ask for its first run.
    pub fn start(&mut self) {
        self.now = self.clock.now();
        for i in 0..self.slots.len() {
            let node = NodeId::new(i);
            if self.core.is_active(node) {
                let (mut graph, core, cx) = self.parts();
                let Some(at) = graph.rows.get(i) else { continue };
                let mut out = Out { core, at };
                if let Some(Some(element)) = graph.slots.get_mut(i) {
                    element.start(&cx, &mut out);
                }
                finish_call(out.core, 0);
                deliver(&mut graph, &mut out, &cx);
            }
        }
        self.apply_wakes();
    }

    /// Gives a task this share.
    pub fn set_tickets(&mut self, node: NodeId, tickets: u32) {
        self.tasks.set_tickets(node, tickets);
    }

    /// Takes a task out of its turn, until something wakes it.
    pub fn unschedule(&mut self, node: NodeId) {
        self.tasks.unschedule(node);
    }

    /// From now on nothing comes into the router by this worker, and what is under way moves on: no task runs that has no
    /// inputs, or that pulls from something other than queues.
    pub fn take_in_no_more(&mut self) {
        for at in &self.stats.nodes {
            let facts = &at.facts;
            let is_source = !(facts.pushed_to || facts.pulls);
            let storages = self.core.storages.get(facts.node.index());
            if is_source || facts.pulls && storages.is_some_and(|s| s.upstream.is_none()) {
                self.tasks.bar(facts.node);
            }
        }
    }

    /// Makes a task ready.
    pub fn wake(&mut self, node: NodeId) {
        self.tasks.wake(node);
    }

    /// One round: see the module.
    pub fn round(&mut self) -> Round {
        self.reader.quiescent();
        self.now = self.clock.now();
        self.core.stats.rounds.add(1);
        let mut useful = self.read_mail();
        useful |= self.read_rings();
        while let Some(node) = self.core.timers.pop_due(self.now) {
            self.tasks.wake(node);
        }
        let waiting = self.core.flush_roads();
        if !waiting {
            useful |= self.run_tasks();
        }
        self.core.free_lost();
        self.core.flush_roads();
        Round {
            now: self.now,
            useful: useful || waiting,
            ready: self.tasks.ready(),
            next_timer: self.core.timers.next_due(),
            stop: std::mem::take(&mut self.core.stop_requested),
        }
    }

    /// Sleeps by `sleep` without delaying whoever waits for quiescent points. Not called, and false, if something has
    /// come in the meantime.
    pub fn idle(&mut self, sleep: impl FnOnce()) -> bool {
        if !self.rings.iter().all(|r| r.is_empty()) || !self.mailbox.may_sleep() {
            return false;
        }
        self.reader.offline(sleep);
        self.mailbox.slept();
        true
    }

    /// Runs tasks in turn, until there is none, or none of those ready finds anything to do, or the round is long enough.
    fn run_tasks(&mut self) -> bool {
        let Engine { slots, stats, core, tasks, reader, pool, burst, now, until_timed, .. } = self;
        let cx = Cx { now: *now, worker: core.worker, reader, pool, burst: *burst };
        let mut graph = Graph { slots, rows: &stats.nodes };
        let Some(at) = graph.rows.first() else { return false };
        let mut out = Out { core, at };
        let mut useful = false;
        let mut idle_runs = 0;
        let mut left = RUNS_PER_ROUND;
        // The value of `left` before the run that is timed; 0 = none of this round.
        let timed = (RUNS_PER_ROUND + 1).saturating_sub(*until_timed);
        while left > 0
            && idle_runs < tasks.ready()
            && let Some(node) = tasks.pop()
            && let Some(at) = graph.rows.get(node.index())
        {
            let ready = tasks.ready() + 1;
            let first = left;
            out.core.running = node;
            // Here, not for each run: it is made of five words.
            let mut up = Up { slots: &mut [], rows: &[], node };
            let found;
            (found, left) = if tasks.ready() == 0 {
                run_while_alone(&mut graph, at, &mut out, &cx, &mut up, left, timed)
            } else {
                (run_task(&mut graph, at, &mut out, &cx, &mut up, left == timed), left - 1)
            };
            let repeated = first - left - 1;
            tasks.repeated(node, repeated);
            if std::mem::take(&mut out.core.again) {
                out.core.wakes.push(node);
            }
            apply_wakes(out.core, tasks);
            tasks.ended(node);
            if found || repeated > 0 {
                useful = true;
                idle_runs = 0;
            }
            if !found && tasks.ready() >= ready {
                // One that went to sleep is no longer among those that are to be asked.
                idle_runs += 1;
            }
        }
        out.core.running = NOBODY;
        let runs = RUNS_PER_ROUND - left;
        stats.runs.add(runs as u64);
        *until_timed = if left < timed { *until_timed + TIMED_EVERY } else { *until_timed } - runs;
        useful
    }

    fn read_mail(&mut self) -> bool {
        let Some(letters) = self.mailbox.take() else { return false };
        for node in letters.wakes {
            self.tasks.wake(node);
        }
        for order in letters.orders {
            order(self);
        }
        true
    }

    fn read_rings(&mut self) -> bool {
        let mut useful = false;
        for i in 0..self.rings.len() {
            for _ in 0..RING_BURST {
                let Some(sent) = self.rings.get_mut(i).and_then(|r| r.pop().ok()) else { break };
                useful = true;
                let (mut graph, core, cx) = self.parts();
                let Some(at) = graph.rows.get(sent.to.node().index()) else { continue };
                core.stack.push(sent);
                deliver(&mut graph, &mut Out { core, at }, &cx);
            }
        }
        if useful {
            self.apply_wakes();
        }
        useful
    }

    /// What a call of an element needs.
    #[inline]
    fn parts(&mut self) -> (Graph<'_>, &mut Core, Cx<'_>) {
        let Engine { slots, stats, core, reader, pool, burst, now, .. } = self;
        let cx = Cx { now: *now, worker: core.worker, reader, pool, burst: *burst };
        (Graph { slots, rows: &stats.nodes }, core, cx)
    }

    fn apply_wakes(&mut self) {
        apply_wakes(&mut self.core, &mut self.tasks);
    }
}

fn apply_wakes(core: &mut Core, tasks: &mut Tasks) {
    while let Some(node) = core.wakes.pop() {
        tasks.wake(node);
    }
}

/// Runs a task for which no other waits, nearly always the only one that polls, until it finds nothing, or another is woken, or
/// no runs are `left`; the one with as many left as `timed` says is timed. True if the last run found something to do, and
/// how many runs are left.
///
/// By itself, so that nothing of its caller is in registers.
#[inline(never)]
fn run_while_alone<'a>(
    graph: &mut Graph<'a>,
    at: &'a NodeStats,
    out: &mut Out<'a>,
    cx: &Cx<'_>,
    up: &mut Up<'_>,
    mut left: usize,
    timed: usize,
) -> (bool, usize) {
    loop {
        let found = run_task(graph, at, out, cx, up, left == timed);
        left -= 1;
        if !(found && left > 0 && out.core.again && out.core.wakes.is_empty()) {
            return (found, left);
        }
        out.core.again = false;
    }
}

/// Runs a task and delivers what it emits; what it wakes is left in `wakes`. True if it found something to do.
///
/// Inlined, with all that it calls: beside a driver that fills the processor's store buffer, each store of a register costs
/// a cycle.
#[inline(always)]
fn run_task<'a>(
    graph: &mut Graph<'a>,
    at: &'a NodeStats,
    out: &mut Out<'a>,
    cx: &Cx<'_>,
    up: &mut Up<'_>,
    timed: bool,
) -> bool {
    if timed {
        return run_timed(graph, at, out, cx, up);
    }
    let useful = run(graph, at, out, cx, up);
    deliver(graph, out, cx);
    useful
}

/// [`run_task`] with a look at the clock before and after each call.
#[cold]
#[inline(never)]
fn run_timed<'a>(
    graph: &mut Graph<'a>,
    at: &'a NodeStats,
    out: &mut Out<'a>,
    cx: &Cx<'_>,
    up: &mut Up<'_>,
) -> bool {
    out.core.stats.timed_runs.add(1);
    out.core.begin_pulls();
    out.core.timed = true;
    let packets = at.packets();
    let began = tsc();
    let useful = run(graph, at, out, cx, up);
    let own = tsc().saturating_sub(began).saturating_sub(out.core.nested_cycles);
    // What is pushed to an element is counted with the calls that brought it.
    let packets = if at.facts.pushed_to { 0 } else { at.packets() - packets };
    at.add_timed(useful.then_some(packets), own);
    deliver_timed(graph, out, cx);
    out.core.timed = false;
    useful
}

/// Calls the task of element `at`, and counts the call; `up` leads nowhere, as for one without pull inputs.
#[inline(always)]
fn run<'a>(
    graph: &mut Graph<'a>,
    at: &'a NodeStats,
    out: &mut Out<'a>,
    cx: &Cx<'_>,
    up: &mut Up<'_>,
) -> bool {
    out.at = at;
    let useful = if at.facts.pulls {
        run_puller(graph, out, cx)
    } else if let Some(Some(element)) = graph.slots.get_mut(at.facts.node.index()) {
        element.run(cx, up, out)
    } else {
        false
    };
    finish_call(out.core, 0);
    if useful {
        at.calls.add(1);
    } else {
        at.empty_polls.add(1);
    }
    useful
}

/// [`run`] of an element with pull inputs: it leaves its slot, so that it can be lent all the others.
#[inline(never)]
fn run_puller(graph: &mut Graph<'_>, out: &mut Out<'_>, cx: &Cx<'_>) -> bool {
    let at = out.at;
    let node = at.facts.node;
    let Some(mut element) = graph.slots.get_mut(node.index()).and_then(Option::take) else { return false };
    out.core.begin_pulls();
    let gone = at.gone.get();
    let useful = element.run(cx, &mut Up { slots: graph.slots, rows: graph.rows, node }, out);
    graph.slots[node.index()] = Some(element);
    if useful && !at.facts.pushed_to {
        let emitted: usize = out.core.stack.iter().map(|s| s.batch.len()).sum();
        at.handled.add(emitted as u64 + (at.gone.get() - gone));
    }
    useful
}

/// After a call of an element that began with `mark` batches on the stack.
#[inline(always)]
fn finish_call(core: &mut Core, mark: usize) {
    core.flush_aside();
    reverse_above(&mut core.stack, mark);
}

/// Delivers batches, depth first, until none is on its way.
#[inline(always)]
fn deliver<'a>(graph: &mut Graph<'a>, out: &mut Out<'a>, cx: &Cx<'_>) {
    let mut left = MAX_DELIVERIES;
    while let Some(sent) = out.core.stack.pop() {
        left -= 1;
        if left == 0 {
            out.core.stack.push(sent);
            return out.core.lose_looping();
        }
        push(graph, out, cx, sent);
    }
}

#[cold]
fn deliver_timed<'a>(graph: &mut Graph<'a>, out: &mut Out<'a>, cx: &Cx<'_>) {
    let mut left = MAX_DELIVERIES;
    let mut began = tsc();
    while let Some(sent) = out.core.stack.pop() {
        left -= 1;
        if left == 0 {
            out.core.stack.push(sent);
            return out.core.lose_looping();
        }
        let packets = sent.batch.len() as u64;
        push(graph, out, cx, sent);
        let now = tsc();
        out.at.add_timed(Some(packets), now.saturating_sub(began));
        began = now;
    }
}

/// Hands a batch to its element.
#[inline(always)]
fn push<'a>(graph: &mut Graph<'a>, out: &mut Out<'a>, cx: &Cx<'_>, sent: Sent) {
    let (node, port) = (sent.to.node().index(), sent.to.port());
    let mark = out.core.stack.len();
    // Elements are out of their slots only while they run a task or are pulled, and nothing is delivered then.
    let (Some(at), Some(Some(element))) = (graph.rows.get(node), graph.slots.get_mut(node)) else { return };
    at.calls.add(1);
    at.handled.add(sent.batch.len() as u64);
    out.at = at;
    element.push(port, sent.batch, cx, out);
    finish_call(out.core, mark);
}

/// First sent, first served: what was sent last lies on top, so the new part of the stack is turned round.
#[inline]
fn reverse_above(stack: &mut [Sent], mark: usize) {
    if stack.len() > mark + 1 {
        stack[mark..].reverse();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // What was between two workers when they stopped is neither sent nor lost.
        let mut held: Vec<Sent> = Vec::new();
        for ring in &mut self.rings {
            held.extend(std::iter::from_fn(|| ring.pop().ok()));
        }
        for road in self.core.roads.iter_mut().flatten() {
            while let Some(sent) = road.overflow.pop_front() {
                held.push(sent);
            }
        }
        held.into_iter().for_each(|sent| sent.batch.free_held());
        self.core.free_lost();
    }
}
