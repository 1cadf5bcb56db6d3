//! The part of an engine that is lent to elements while they run: the stack of batches to deliver, wires, counts.

use crate::NodeId;
use crate::element::Loss;
use crate::engine::mailbox::Mailbox;
use crate::engine::stats::{ENGINE_LOSSES, NodeFacts, NodeStats, WorkerStats};
use crate::engine::timers::Timers;
use crate::notify::{Listener, Notifier};
use crate::out::{PackedWay, Way};
use crate::plan::taker;
use crate::time::Nanos;
use crate::wires::{Target, Wire, Wires};
use epoch::tsc;
use packet::{Batch, Packet};
use rtrb::{Producer, PushError};
use std::collections::VecDeque;
use std::sync::Arc;

pub const UNCONNECTED: usize = 0;
const LOOP: usize = 1;
const HANDOFF_FULL: usize = 2;

/// Batches that may wait for room in the ring to another worker before packets are lost. While any wait, this worker
/// runs no tasks, so it does not take in more than it can hand over.
const OVERFLOW: usize = 4096;

/// In place of a task that runs.
pub const NOBODY: NodeId = NodeId(u32::MAX);

/// A batch on its way to an element's input.
pub struct Sent {
    /// Element and port.
    pub to: Target,
    /// The packets.
    pub batch: Batch,
}

/// The road to one other worker.
pub struct Road {
    pub ring: Producer<Sent>,
    pub mailbox: Arc<Mailbox>,
    /// What did not fit into the ring, oldest first.
    pub overflow: VecDeque<Sent>,
    pub rung: bool,
}

/// What is upstream and downstream of a task.
#[derive(Clone, Debug, Default)]
pub struct Storages {
    /// Storages that a pull reaches; `None` = something upstream cannot tell whether it is empty.
    pub upstream: Option<Vec<Arc<Notifier>>>,
    /// Storages that an emission reaches.
    pub downstream: Vec<Arc<Notifier>>,
}

/// See the module. What each task run and delivery uses comes first, on two cache lines.
#[repr(C, align(64))]
pub struct Core {
    pub stack: Vec<Sent>,
    pub stats: Arc<WorkerStats>,
    aside: Batch,
    /// The element whose task runs.
    pub running: NodeId,
    /// It asks for another run.
    pub again: bool,
    pub timed: bool,
    pub stop_requested: bool,
    /// Cycles spent in upstream elements during the present call.
    pub nested_cycles: u64,
    pub retry: Option<Nanos>,
    pub wires: Wires,
    pub wakes: Vec<NodeId>,
    pub worker: usize,
    aside_from: (NodeId, usize),
    lost: Batch,
    bins: Vec<Batch>,
    /// Scratch of `Out::split`.
    pub ways: Vec<PackedWay>,
    /// Number of own loss reasons of each element.
    pub own_losses: Arc<[usize]>,
    pub storages: Arc<[Storages]>,
    /// By node and worker, who takes the packets that the worker has for the node; `None` = itself.
    pub takers: Arc<[Option<Arc<[usize]>>]>,
    /// Which elements' tasks live on this worker.
    pub active: Box<[bool]>,
    pub timers: Timers,
    /// By worker; `None` for this one.
    pub roads: Vec<Option<Road>>,
    pub mailboxes: Vec<Arc<Mailbox>>,
}

impl Core {
    pub fn new(worker: usize, wires: Wires, stats: Arc<WorkerStats>, own_losses: Arc<[usize]>) -> Core {
        let nodes = own_losses.len();
        Core {
            worker,
            wires,
            stack: Vec::with_capacity(64),
            stats,
            own_losses,
            storages: Arc::new([]),
            takers: Arc::new([]),
            active: Box::new([]),
            running: NOBODY,
            again: false,
            timers: Timers::new(nodes),
            wakes: Vec::new(),
            retry: None,
            timed: false,
            nested_cycles: 0,
            stop_requested: false,
            roads: Vec::new(),
            mailboxes: Vec::new(),
            aside: Batch::empty(),
            aside_from: (NodeId(0), 0),
            lost: Batch::empty(),
            bins: Vec::new(),
            ways: Vec::with_capacity(Batch::MAX),
        }
    }

    /// Before an element runs a task that pulls, or one that is timed.
    #[inline]
    pub fn begin_pulls(&mut self) {
        (self.retry, self.nested_cycles) = (None, 0);
    }

    /// True if the element's task lives on this worker.
    pub fn is_active(&self, node: NodeId) -> bool {
        self.active.get(node.index()).copied().unwrap_or(false)
    }

    /// Where an output leads.
    #[inline]
    pub fn wire(&self, at: &NodeFacts, output: usize) -> Wire {
        if output == 0 { at.output } else { self.wires.output(at.node, output) }
    }

    /// Sends packets on from an element.
    #[inline]
    pub fn emit(&mut self, at: &NodeFacts, output: usize, batch: Batch) {
        self.send(self.wire(at, output), at.node, batch);
    }

    /// Sends packets of `node` by a wire.
    #[inline]
    fn send(&mut self, wire: Wire, node: NodeId, batch: Batch) {
        match wire.local() {
            // Room in most cases: so said, nothing needs to be kept for the case that there is none.
            Some(to) if self.stack.len() < self.stack.capacity() => self.stack.push(Sent { to, batch }),
            _ => self.send_otherwise(wire, node, batch),
        }
    }

    /// [`send`](Self::send) to another worker, to nowhere, or while there is no room.
    #[cold]
    #[inline(never)]
    fn send_otherwise(&mut self, wire: Wire, node: NodeId, batch: Batch) {
        match wire.target() {
            None => self.lose_engine(node, batch, UNCONNECTED),
            Some(to) if to.is_remote() => self.hand_off(self.worker, Sent { to: to.local(), batch }),
            Some(to) => self.stack.push(Sent { to, batch }),
        }
    }

    /// Hands a batch to whoever takes it from `worker`.
    pub fn hand_off(&mut self, worker: usize, sent: Sent) {
        let worker = taker(&self.takers, sent.to.node(), worker);
        let Some(Some(road)) = self.roads.get_mut(worker) else {
            // To this worker itself, or to one that does not exist: stays here.
            return self.stack.push(sent);
        };
        let refused = if road.overflow.is_empty() {
            match road.ring.push(sent) {
                Ok(()) => {
                    road.rung = true;
                    None
                }
                Err(PushError::Full(sent)) => Some(sent),
            }
        } else {
            Some(sent)
        };
        let Some(sent) = refused else { return };
        if road.overflow.len() < OVERFLOW {
            road.overflow.push_back(sent);
        } else {
            self.lose_engine(sent.to.node(), sent.batch, HANDOFF_FULL);
        }
    }

    /// Moves waiting batches into the rings and rings the bells. True if some still wait.
    pub fn flush_roads(&mut self) -> bool {
        let mut waiting = false;
        for road in self.roads.iter_mut().flatten() {
            while let Some(sent) = road.overflow.pop_front() {
                match road.ring.push(sent) {
                    Ok(()) => road.rung = true,
                    Err(PushError::Full(sent)) => {
                        road.overflow.push_front(sent);
                        waiting = true;
                        break;
                    }
                }
            }
            if std::mem::take(&mut road.rung) {
                road.mailbox.ring();
            }
        }
        waiting
    }

    #[inline]
    pub fn count_loss(&mut self, node: NodeId, loss: Loss, n: usize) {
        if let Some(cell) = self.stats.loss(node.index(), usize::from(loss.0)) {
            cell.add(n as u64);
        }
    }

    #[inline]
    pub fn lose(&mut self, node: NodeId, packet: Packet, loss: Loss) {
        self.count_loss(node, loss, 1);
        if self.lost.room() == 0 {
            self.free_lost();
        }
        self.lost.push(packet);
    }

    #[cold]
    pub fn lose_engine(&mut self, node: NodeId, batch: Batch, reason: usize) {
        debug_assert!(reason < ENGINE_LOSSES.len());
        let own = self.own_losses.get(node.index()).copied().unwrap_or(0);
        if let Some(cell) = self.stats.loss(node.index(), own + reason) {
            cell.add(batch.len() as u64);
        }
        batch.free();
    }

    /// The graph sends these packets round and round without ever storing them.
    #[cold]
    pub fn lose_looping(&mut self) {
        while let Some(sent) = self.stack.pop() {
            self.lose_engine(sent.to.node(), sent.batch, LOOP);
        }
    }

    /// Gives lost packets back, in bulk.
    pub fn free_lost(&mut self) {
        if !self.lost.is_empty() {
            std::mem::take(&mut self.lost).free();
        }
    }

    #[inline]
    pub fn aside(&mut self, node: NodeId, output: usize, packet: Packet) {
        if !self.aside.is_empty() && (self.aside_from != (node, output) || self.aside.room() == 0) {
            self.flush_aside();
        }
        self.aside_from = (node, output);
        self.aside.push(packet);
    }

    #[inline]
    pub fn flush_aside(&mut self) {
        if !self.aside.is_empty() {
            let batch = std::mem::take(&mut self.aside);
            let (node, output) = self.aside_from;
            self.send(self.wires.output(node, output), node, batch);
        }
    }

    /// Sends each packet to the output that `port` says for its place in `ports`, none of which is below `lowest` or above
    /// `highest`; batches leave in the order of output numbers.
    pub fn deal<T: Copy>(
        &mut self,
        at: &NodeFacts,
        batch: Batch,
        ports: &[T],
        lowest: u16,
        highest: u16,
        port: impl Fn(T) -> u16,
    ) {
        let bins = usize::from(lowest)..=usize::from(highest);
        if self.bins.len() <= *bins.end() {
            self.bins.resize_with(bins.end() + 1, Batch::empty);
        }
        batch.deal(ports, &mut self.bins[bins.clone()], |fact| port(fact).wrapping_sub(lowest));
        for port in bins {
            if !self.bins[port].is_empty() {
                let batch = std::mem::take(&mut self.bins[port]);
                self.emit(at, port, batch);
            }
        }
    }

    /// Sends each packet its own way; batches leave in the order of output numbers.
    pub fn scatter(&mut self, at: &NodeFacts, batch: Batch, ways: &[PackedWay]) {
        let node = at.node;
        let outputs = self.wires.outputs(node);
        if self.bins.len() < outputs {
            self.bins.resize_with(outputs, Batch::empty);
        }
        let (mut lowest, mut highest) = (usize::MAX, 0);
        for (packet, way) in batch.into_iter().zip(ways) {
            let port = match way.unpack() {
                Way::Port(port) => port,
                Way::PortOr(port, _) if self.wires.output(node, port).target().is_some() => port,
                Way::PortOr(_, loss) | Way::Lost(loss) => {
                    self.lose(node, packet, loss);
                    continue;
                }
            };
            match self.bins.get_mut(port) {
                Some(bin) if port < outputs => {
                    lowest = lowest.min(port);
                    highest = highest.max(port);
                    bin.push(packet);
                }
                _ => self.lose_engine(node, Batch::one(packet), UNCONNECTED),
            }
        }
        for port in lowest..=highest {
            if let Some(bin) = self.bins.get_mut(port).filter(|b| !b.is_empty()) {
                let batch = std::mem::take(bin);
                self.emit(at, port, batch);
            }
        }
    }

    /// Counts a pull through an element. `began` is when it began, and the cycles nested in others before, if it is timed.
    pub fn count_pull(&mut self, s: &NodeStats, packets: usize, began: Option<(u64, u64)>) {
        let counted = if s.facts.pushed_to { 0 } else { packets };
        if packets > 0 {
            s.calls.add(1);
            s.handled.add(counted as u64);
        }
        if let Some((began, nested_before)) = began {
            let total = tsc().saturating_sub(began);
            let own = total.saturating_sub(self.nested_cycles);
            self.nested_cycles = nested_before + total;
            s.add_timed((packets > 0).then_some(counted as u64), own);
        }
    }

    /// Lets the element's task run when its turn comes.
    #[inline]
    pub fn wake(&mut self, node: NodeId) {
        if node == self.running {
            self.again = true;
        } else {
            self.wakes.push(node);
        }
    }

    pub fn wake_listeners(&mut self, listeners: &[Listener]) {
        for &(worker, node) in listeners {
            if worker == self.worker {
                self.wakes.push(node);
            } else if let Some(mailbox) = self.mailboxes.get(worker) {
                mailbox.wake(node);
            }
        }
    }

    pub fn downstream_room(&self, node: NodeId) -> usize {
        let storages = self.storages.get(node.index()).map_or(&[][..], |s| &s.downstream);
        storages.iter().map(|s| s.room()).max().unwrap_or(usize::MAX)
    }

    pub fn upstream_signal(&self, node: NodeId) -> bool {
        match self.storages.get(node.index()).map(|s| &s.upstream) {
            Some(Some(storages)) => storages.iter().any(|s| !s.is_empty()),
            _ => true,
        }
    }
}
