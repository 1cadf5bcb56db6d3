//! Which ways the packets of a batch go that were routed here: while nothing waits for any outlet, packets to one node
//! follow each other without another look.

use super::outlet::length;
use super::status::Traffic;
use super::switch::{Adjacencies, NONE, Network, Switch};
use crate::flow_hash::usual_flow_hash;
use cluster::flowlet::DIRECT;
use cluster::header::{ADJACENCIES, LEN, Template};
use cluster::path::{Order, Policy, Run};
use graph::{Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// More bytes than a batch has.
const ENOUGH: i32 = i32::MAX / 2;

/// How packets to one output node, or out by one line of this node, go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    outlet: u16,
    /// To a relay.
    is_relayed: bool,
    /// Out by a line of this node.
    is_own: bool,
    is_used: bool,
    /// As long as it is positive, the next packet goes this way.
    left: i32,
    /// What `left` was when all before had been counted.
    granted: i32,
    /// Packets that have not been counted yet.
    packets: u32,
    /// The number of the next packet.
    sequence: u32,
    /// By which numbers go up: 0 if there are none.
    step: u32,
    run: Option<Run>,
}

/// What ties a packet to a path, beside its output node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// Nothing.
    None,
    /// Its flowlet.
    Flowlet,
    /// Its flow.
    Flow,
}

/// What is known of a packet of the batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fact {
    /// The line that it is for, [`NONE`] if that is not plain.
    line: u16,
    /// Bytes that it takes on the wire.
    length: u32,
    /// A hash of its flow, if that matters.
    flow: u32,
}

/// One for each packet of a batch.
pub fn no_facts() -> Vec<Fact> {
    vec![Fact::default(); Batch::MAX]
}

/// The line that a packet is for, if it is a usual one.
#[inline(always)]
fn line(packet: &Packet, network: &mut Network<'_>) -> Option<u16> {
    let number = packet.next_hop();
    let adjacency = network.of(packet.head::<HEADER_LEN>(0)?).get(number as usize)?;
    // No line has the number that stands in place of one.
    (number < ADJACENCIES).then_some(adjacency.output)
}

impl Switch {
    /// Sends on all that goes the usual way, and gives back what does not, as it came.
    pub(super) fn send_usual(
        &mut self,
        batch: Batch,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        // Each of them knows what it is for.
        match (self.settings.policy, self.settings.order) {
            (Policy::FlowHash, _) | (_, Order::SinglePath) => {
                self.send_tied(batch, Ties::Flow, all, now, out)
            }
            (_, Order::Flowlet) => self.send_tied(batch, Ties::Flowlet, all, now, out),
            _ => self.send_tied(batch, Ties::None, all, now, out),
        }
    }

    /// Two passes over a batch: where to, and which way. Each needs little at a time.
    #[inline(always)]
    fn send_tied(
        &mut self,
        mut batch: Batch,
        ties: Ties,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        let rest = self.rest();
        let mut facts = std::mem::take(&mut self.facts);
        let mut network = all.network();
        for (packet, fact) in batch.iter_mut().zip(&mut facts) {
            let flow = match (ties, packet.flow_hash()) {
                (Ties::None, _) => 0,
                (_, 0) => usual_flow_hash(packet.data()),
                (_, hash) => hash,
            };
            let line = line(packet, &mut network).unwrap_or(NONE);
            *fact = Fact { line, length: length(packet), flow };
            if ties == Ties::Flowlet {
                let entry = self.chooser.flowlet_entry(flow);
                entry.into_iter().for_each(|entry| epoch::prefetch(std::slice::from_ref(entry), 0));
            }
        }
        let mut bins = [rest; Batch::MAX];
        let (mut every, mut any) = (u16::MAX, 0);
        let own_lines = u16::from(self.own_lines);
        for ((packet, fact), bin) in batch.iter_mut().zip(&facts).zip(&mut bins) {
            if let Some((outlet, header)) = self.way(ties, fact, now) {
                *bin = outlet;
                let number = packet.next_hop();
                if outlet >= own_lines
                    && let Some(head) = packet.data_mut().first_chunk_mut::<LEN>()
                {
                    *head = header.bytes(number, 0);
                }
            }
            (every, any) = (every & *bin, any | *bin);
        }
        self.facts = facts;
        while let Some(place) = self.used.pop() {
            self.count(place, now);
            let way = &mut self.ways[usize::from(place)];
            (way.left, way.is_used) = (0, false);
        }
        self.deal(batch, &bins, (every, any), out)
    }

    /// The bin of what is not usual.
    #[inline]
    pub(super) fn rest(&self) -> u16 {
        // Ports of an element are fewer than 2^16.
        (self.bins.len() - 2) as u16
    }

    /// Hands a batch on: to each outlet what is for it. Gives back what is in the bin of [`Switch::rest`], and leaves what
    /// came too early in the last one. `bounds`: the bits that all of `bins` have, and those that any has.
    #[inline]
    pub(super) fn deal(
        &mut self,
        batch: Batch,
        bins: &[u16; Batch::MAX],
        (every, any): (u16, u16),
        out: &mut Out<'_>,
    ) -> Batch {
        let rest = usize::from(self.rest());
        let (lowest, highest) = (usize::from(every), usize::from(any).min(rest + 1));
        if lowest == highest && highest < rest {
            out.emit(lowest, batch);
            return Batch::empty();
        }
        if !batch.is_empty() {
            batch.deal(bins, &mut self.bins[lowest..=highest], |bin| usize::from(bin) - lowest);
            for outlet in lowest..=highest.min(rest - 1) {
                out.emit(outlet, std::mem::take(&mut self.bins[outlet]));
            }
        }
        std::mem::take(&mut self.bins[rest])
    }

    /// The outlet of a packet, and its header but for the adjacency; `None` if it is not usual.
    #[inline(always)]
    fn way(&mut self, ties: Ties, fact: &Fact, now: Nanos) -> Option<(u16, Template)> {
        let mut to = self.lines.get(usize::from(fact.line))?;
        let mut way = self.ways.get_mut(usize::from(to.way))?;
        let path = match ties {
            Ties::Flowlet if !way.is_own => self.chooser.flowlet(fact.flow),
            _ => Some(DIRECT),
        };
        if way.left <= 0 || path != Some(DIRECT) {
            let (place, node) = (to.way, to.node);
            if ties == Ties::Flowlet
                && let Some(path) = path
                && !(way.is_own || (path == DIRECT && way.packets > 0))
                && (path != DIRECT || self.chooser.direct_run(node).is_none())
                && let Some(link) = self.chooser.stay(node, fact.length, path)
            {
                let is_relayed = !self.is_mesh || link != node;
                let outlet = self.outlet_of.get(usize::from(link)).copied()?;
                self.outlets.get_mut(usize::from(outlet))?.charge(fact.length);
                let Traffic { to_relays, direct, .. } = &mut self.traffic;
                if is_relayed { to_relays } else { direct }.add(fact.length);
                return Some((outlet, to.headers[usize::from(is_relayed)]));
            }
            if ties == Ties::None || node == self.me {
                self.renew(place, node, now)?;
            } else {
                self.tie((place, node), ties, (fact.length, fact.flow), path, now)?;
            }
            to = self.lines.get(usize::from(fact.line))?;
            way = self.ways.get_mut(usize::from(place))?;
        }
        way.left -= fact.length as i32;
        way.packets += 1;
        let header = to.headers[usize::from(way.is_relayed)].numbered(way.sequence);
        way.sequence = way.sequence.wrapping_add(way.step);
        Some((way.outlet, header))
    }

    /// Finds the way that packets go from now on.
    #[inline(never)]
    fn renew(&mut self, place: u16, node: u16, now: Nanos) -> Option<()> {
        self.count(place, now);
        if node == self.me {
            let port = place - self.settings.topology.edge_nodes();
            let way = Way { outlet: port, is_own: true, granted: ENOUGH, left: ENOUGH, ..Way::default() };
            return self.set_way(place, way);
        }
        let run = self.chooser.run(node)?;
        self.set_run(place, node, run)
    }

    /// Finds the way for one packet, if it is tied to its path, or for all that go directly.
    #[inline(never)]
    fn tie(
        &mut self,
        (place, node): (u16, u16),
        ties: Ties,
        (length, flow): (u32, u32),
        path: Option<u16>,
        now: Nanos,
    ) -> Option<()> {
        self.count(place, now);
        if ties == Ties::Flow {
            let link = self.chooser.choose(node, length, flow)?;
            return self.set_run(place, node, Run::of_one(link));
        }
        if path == Some(DIRECT)
            && let Some(run) = self.chooser.direct_run(node)
        {
            return self.set_run(place, node, run);
        }
        let link = self.chooser.follow(node, length, flow, path)?;
        self.set_run(place, node, Run::of_one(link))
    }

    fn set_run(&mut self, place: u16, node: u16, run: Run) -> Option<()> {
        let outlet = self.outlet_of.get(usize::from(run.link)).copied().filter(|&outlet| outlet != NONE)?;
        let is_relayed = !self.is_mesh || run.link != node;
        let sequence = match self.numbers.get(usize::from(node)).filter(|_| self.is_strict) {
            Some(numbers) => numbers.next(),
            None => 0,
        };
        let way = Way {
            outlet,
            is_relayed,
            left: run.left,
            granted: run.left,
            sequence,
            step: self.is_strict.into(),
            run: Some(run),
            ..Way::default()
        };
        self.set_way(place, way)
    }

    #[inline]
    fn set_way(&mut self, place: u16, new: Way) -> Option<()> {
        let way = self.ways.get_mut(usize::from(place))?;
        if !std::mem::replace(way, Way { is_used: true, ..new }).is_used {
            self.used.push(place);
        }
        Some(())
    }

    /// Counts what has gone by a way.
    #[inline]
    fn count(&mut self, place: u16, now: Nanos) {
        let Some(way) = self.ways.get_mut(usize::from(place)).filter(|way| way.packets > 0) else { return };
        let bytes = (way.granted - way.left) as u32;
        let packets = std::mem::take(&mut way.packets);
        way.granted = way.left;
        self.outlets[usize::from(way.outlet)].charge_many(packets, bytes);
        let traffic = &mut self.traffic;
        let tally = match (way.is_own, way.is_relayed) {
            (true, _) => &mut traffic.own,
            (_, true) => &mut traffic.to_relays,
            _ => &mut traffic.direct,
        };
        tally.add_many(packets, bytes);
        if let Some(run) = &way.run {
            self.chooser.charge(place, run, bytes);
            if self.is_strict
                && let Some(numbers) = self.numbers.get_mut(usize::from(place))
            {
                numbers.take(run.link.into(), packets, now);
            }
        }
    }
}
