//! Where an element's effects go: packets sent on or lost, tasks woken. Nothing happens before the call returns.

use crate::NodeId;
use crate::element::{Cx, Element, Loss};
use crate::engine::core::{Core, Sent, UNCONNECTED};
use crate::engine::stats::NodeStats;
use crate::notify::Notifier;
use crate::time::Nanos;
use epoch::tsc;
use packet::{Batch, Columns, Packet};

/// Takes an element's emissions, losses and wishes during one call.
pub struct Out<'a> {
    pub(crate) core: &'a mut Core,
    /// The element that is called.
    pub(crate) at: &'a NodeStats,
}

/// Where one packet of a split goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By this output. If it is not connected the packet is lost as `unconnected`.
    Port(usize),
    /// It is lost for this reason.
    Lost(Loss),
    /// It goes to output `.0` if that is connected, else it is lost for reason `.1`.
    PortOr(usize, Loss),
}

/// A [`Way`] in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedWay(u64);

const LOST: u64 = 1 << 62;
const PORT_OR: u64 = 1 << 63;

impl Way {
    #[inline]
    fn pack(self) -> PackedWay {
        // Port numbers are below 2^16 (`plan::ports`), so 32 bits are plenty.
        PackedWay(match self {
            Way::Port(port) => port as u64 & u64::from(u32::MAX),
            Way::Lost(loss) => LOST | u64::from(loss.0),
            Way::PortOr(port, loss) => {
                PORT_OR | (port as u64 & u64::from(u32::MAX)) << 16 | u64::from(loss.0)
            }
        })
    }
}

/// Outputs up to which packets are dealt out without a look at what each is.
const MOST_BINS: u16 = 256;

impl PackedWay {
    /// The port of a way that is [`Way::Port`], of which no bit is above the sixteenth.
    #[inline]
    pub(crate) fn plain_port(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(crate) fn unpack(self) -> Way {
        let loss = Loss(self.0 as u16);
        match self.0 & (LOST | PORT_OR) {
            0 => Way::Port(self.0 as usize),
            LOST => Way::Lost(loss),
            _ => Way::PortOr((self.0 >> 16) as u32 as usize, loss),
        }
    }
}

impl Out<'_> {
    #[inline]
    fn node(&self) -> NodeId {
        self.at.facts.node
    }

    /// Sends packets on by an output. Emissions of one call are delivered in the order they were made, each with all
    /// its consequences before the next (depth first).
    #[inline(always)]
    pub fn emit(&mut self, output: usize, batch: Batch) {
        if !batch.is_empty() {
            self.core.emit(&self.at.facts, output, batch);
        }
    }

    /// True if the output is connected.
    #[inline]
    pub fn is_connected(&self, output: usize) -> bool {
        self.core.wire(&self.at.facts, output).target().is_some()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.core.wires.outputs(self.node())
    }

    /// Loses a packet for a reason.
    #[inline]
    pub fn lose(&mut self, packet: Packet, loss: Loss) {
        self.core.lose(self.node(), packet, loss);
    }

    /// Loses all packets for one reason.
    pub fn lose_all(&mut self, batch: Batch, loss: Loss) {
        self.core.count_loss(self.node(), loss, batch.len());
        batch.free();
    }

    /// Counts `n` losses of packets that never became packets here (a device had no buffer, a ring was full).
    pub fn count_loss(&mut self, loss: Loss, n: usize) {
        self.core.count_loss(self.node(), loss, n);
    }

    /// Sends a packet to an optional output, or loses it for the reason if that output is not connected. Such packets
    /// are gathered and delivered after the emissions of this call.
    #[inline]
    pub fn reject(&mut self, output: usize, packet: Packet, loss: Loss) {
        if self.is_connected(output) {
            self.core.aside(self.node(), output, packet);
        } else {
            self.core.lose(self.node(), packet, loss);
        }
    }

    /// Says that `n` packets came into being here: received, generated, copied.
    #[inline]
    pub fn made(&mut self, n: usize) {
        self.at.made.add(n as u64);
    }

    /// Says that `n` packets left for good here: a device or a file took them.
    #[inline]
    pub fn gone(&mut self, n: usize) {
        self.at.gone.add(n as u64);
    }

    /// Frees packets whose way ends here on purpose (`Discard`).
    pub fn consume(&mut self, batch: Batch) {
        self.gone(batch.len());
        batch.free();
    }

    /// Sends each packet its own way. If all go by one output no packet is moved.
    #[inline]
    pub fn split(&mut self, batch: Batch, mut way: impl FnMut(&mut Packet) -> Way) {
        self.split_by(batch, &[(); Batch::MAX], |packet, ()| way(packet));
    }

    /// [`split`](Self::split) with what is known of each packet at its place in `facts`; packets without a place there
    /// are lost as `unconnected`.
    #[inline]
    pub fn split_by<T: Copy>(
        &mut self,
        mut batch: Batch,
        facts: &[T],
        mut way: impl FnMut(&mut Packet, T) -> Way,
    ) {
        if facts.len() < batch.len() {
            let rest = batch.split_off(facts.len());
            self.core.lose_engine(self.node(), rest, UNCONNECTED);
        }
        self.split_ways(batch, |batch, ways, bounds| {
            ways.extend(batch.iter_mut().zip(facts).map(|(packet, fact)| bounds.take_in(way(packet, *fact))));
        });
    }

    /// [`split`](Self::split) by the number of each packet's next hop, which looks at no packet.
    #[inline]
    pub fn split_by_next_hop(&mut self, batch: Batch, mut way: impl FnMut(u32) -> Way) {
        self.split_ways(batch, |batch, ways, bounds| {
            ways.extend(batch.next_hops().iter().map(|next_hop| bounds.take_in(way(*next_hop))));
        });
    }

    /// [`split_by_next_hop`](Self::split_by_next_hop) of packets that have just been routed
    /// ([`Batch::columns`](packet::Batch::columns)), whose destinations may be changed.
    #[inline]
    pub fn split_routed(&mut self, batch: Batch, mut way: impl FnMut(&mut u32, u32) -> Way) {
        self.split_ways(batch, |batch, ways, bounds| {
            let Columns { destinations, next_hops } = batch.columns();
            let each = destinations.iter_mut().zip(next_hops);
            ways.extend(each.map(|(to, next_hop)| bounds.take_in(way(to, *next_hop))));
        });
    }

    /// Sends each packet by the output at its place in `outputs`; packets without a place there are lost as `unconnected`.
    #[inline]
    pub fn split_to(&mut self, batch: Batch, outputs: &[u16]) {
        let outputs = &outputs[..batch.len().min(outputs.len())];
        let (all, any) =
            outputs.iter().fold((u16::MAX, 0), |(all, any), output| (all & output, any | output));
        if outputs.len() < batch.len() || any >= MOST_BINS {
            return self.split_by(batch, outputs, |_, output| Way::Port(output.into()));
        }
        // As in `split_ways`.
        if all == any {
            self.core.emit(&self.at.facts, any.into(), batch);
        } else if !batch.is_empty() {
            self.core.deal(&self.at.facts, batch, outputs, all, any, |output| output);
        }
    }

    /// Sends each packet the way that `find` appends for it, and takes in with the others.
    #[inline]
    fn split_ways(
        &mut self,
        mut batch: Batch,
        find: impl FnOnce(&mut Batch, &mut Vec<PackedWay>, &mut Bounds),
    ) {
        // Kept between calls: clearing a fresh array would cost more than the split.
        let mut ways = std::mem::take(&mut self.core.ways);
        ways.clear();
        let mut bounds = Bounds { all: u64::MAX, any: 0 };
        find(&mut batch, &mut ways, &mut bounds);
        let Bounds { all, any } = bounds;
        match PackedWay(any).unpack() {
            // The same way for each, if no bit is in some and not in others.
            Way::Port(port) if all == any => self.core.emit(&self.at.facts, port, batch),
            // No port is above the bits of all together, nor below those that all have.
            // Of no packets there is nothing to deal.
            Way::Port(highest) if highest < MOST_BINS.into() && !batch.is_empty() => {
                let (lowest, highest) = (all as u16, highest as u16);
                self.core.deal(&self.at.facts, batch, &ways, lowest, highest, PackedWay::plain_port);
            }
            _ => self.core.scatter(&self.at.facts, batch, &ways),
        }
        self.core.ways = ways;
    }

    /// Asks for another run of this element's task as soon as its turn comes.
    #[inline]
    pub fn wake(&mut self) {
        self.core.wake(self.node());
    }

    /// Asks for a run at this time; replaces the element's earlier wish.
    pub fn wake_at(&mut self, time: Nanos) {
        self.core.timers.set(self.node(), time);
    }

    /// Gives up the wish for a run at some time.
    pub fn cancel_timer(&mut self) {
        self.core.timers.cancel(self.node());
    }

    /// In a pull: there is something, but not before this time. The task that pulls will be run then.
    pub fn retry_at(&mut self, time: Nanos) {
        self.core.retry = Some(self.core.retry.map_or(time, |t| t.min(time)));
    }

    /// Free places of the storages downstream of this source: the largest room of any, `usize::MAX` if there are none.
    pub fn room(&self) -> usize {
        self.core.downstream_room(self.node())
    }

    /// A storage has become non-empty: wakes the tasks that pull from it.
    pub fn notify_pullers(&mut self, storage: &Notifier) {
        self.core.wake_listeners(storage.pullers());
    }

    /// A storage has got room: wakes the sources that push into it.
    pub fn notify_pushers(&mut self, storage: &Notifier) {
        self.core.wake_listeners(storage.pushers());
    }

    /// Hands packets to the same element on another worker, where they leave by `output`. Used to spread packets of a
    /// device over workers. What is behind an output that leads from that worker to another one goes there at once.
    pub fn emit_on(&mut self, worker: usize, output: usize, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        match self.core.wire(&self.at.facts, output).target() {
            Some(to) if worker != self.core.worker => {
                self.core.hand_off(worker, Sent { to: to.local(), batch });
            }
            _ => self.core.emit(&self.at.facts, output, batch),
        }
    }

    /// Asks the driver to stop the router (`STOP true`).
    pub fn stop_driver(&mut self) {
        self.core.stop_requested = true;
    }
}

/// The bits that all ways of a batch have, and those that any has.
struct Bounds {
    all: u64,
    any: u64,
}

impl Bounds {
    #[inline(always)]
    fn take_in(&mut self, way: Way) -> PackedWay {
        let way = way.pack();
        (self.all, self.any) = (self.all & way.0, self.any | way.0);
        way
    }
}

/// The way upstream, for pulls.
pub struct Up<'a> {
    pub(crate) slots: &'a mut [Option<Box<dyn Element>>],
    pub(crate) rows: &'a [NodeStats],
    pub(crate) node: NodeId,
}

impl Up<'_> {
    /// Pulls up to `max` packets from a pull input.
    pub fn pull(&mut self, input: usize, max: usize, cx: &Cx<'_>, out: &mut Out<'_>) -> Batch {
        let Some(from) = out.core.wires.input(self.node, input).target() else { return Batch::empty() };
        let (node, port) = (from.node(), from.port());
        let Some(at) = self.rows.get(node.index()) else { return Batch::empty() };
        // An element that is out of its slot is on this very pull path; the plan refuses such loops.
        let Some(mut element) = self.slots.get_mut(node.index()).and_then(Option::take) else {
            return Batch::empty();
        };
        let began = out.core.timed.then(|| (tsc(), std::mem::take(&mut out.core.nested_cycles)));
        let mut up = Up { slots: self.slots, rows: self.rows, node };
        let mut nested = Out { core: out.core, at };
        let batch = element.pull(port, max, cx, &mut up, &mut nested);
        out.core.flush_aside();
        self.slots[node.index()] = Some(element);
        out.core.count_pull(at, batch.len(), began);
        batch
    }

    /// To be called by a task that has pulled nothing: asks for the next run when there may be something again. That is
    /// when a throttling element upstream said [`Out::retry_at`], else at once while a storage upstream holds
    /// something, else when a storage wakes the task.
    pub fn wait(&mut self, out: &mut Out<'_>) {
        match out.core.retry.take() {
            Some(time) => out.wake_at(time),
            None if self.signal(out) => out.wake(),
            None => {}
        }
    }

    /// True if a storage upstream holds something, or if what is upstream cannot tell.
    pub fn signal(&self, out: &Out<'_>) -> bool {
        out.core.upstream_signal(self.node)
    }
}
