//! Which ways the packets of a batch go that were routed here: while nothing waits for any outlet, packets to one node
//! follow each other without another look.
//!
//! A *lane* is one way to one output node: the way of the present run, or for flowlets each path; or it leads out by a line of
//! this node. It holds for so many bytes, and is counted when they are used up or the batch is over. What is left then of lanes
//! that lead directly is for the next batch, unless something else took room there. So what most packets need is to find their
//! lane, a look whether it has room, and its header ([`super::lanes`]).

use super::adjacencies::{Adjacencies, Network};
use super::lanes::{FULL, Lane, Maps, pass};
use super::manners::Manner;
use super::outlet::length;
use super::settings::Settings;
use super::status::Traffic;
use super::switch::{Destination, NONE, Switch};
use crate::flow_hash::{flowlet_hash, flowlet_hashes};
use cluster::header::{ADJACENCIES, LEN, TO_OUTPUT, Template, class_bits};
use cluster::path::{Order, Policy};
use graph::{Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// More bytes than a batch has.
const ENOUGH: i32 = i32::MAX / 4;
/// Lanes whose room is kept for the next batch: each costs a look.
const MOST_KEPT: usize = 16;

/// All lanes.
#[derive(Debug)]
pub struct Ways {
    /// How the packets go that take them.
    pub manner: Manner,
    /// Of the lines of this node, then of the output nodes in turn.
    lanes: Box<[Lane]>,
    /// Those that may have room.
    used: Vec<u32>,
    /// What [`PathChooser::changes`](cluster::path::PathChooser::changes) was when none had.
    changes: u32,
    /// One for each packet of a batch, as the next. Of no meaning between calls.
    flows: Vec<u32>,
    tied: Vec<u16>,
    /// Of a batch: the bits that the bins of all packets have, and those that any has.
    bounds: (u16, u16),
    /// Lanes of each output node.
    paths: u16,
}

impl Ways {
    /// No room by any lane, of packets that are kept in this order.
    pub fn new(settings: &Settings, order: Order) -> Ways {
        let paths = Ways::paths(settings);
        let nodes = usize::from(settings.topology.edge_nodes());
        let lanes = usize::from(settings.own_lines()) + nodes * usize::from(paths);
        Ways {
            manner: Manner::new(settings, order),
            lanes: vec![Lane::nowhere(); lanes].into(),
            used: Vec::new(),
            changes: 0,
            flows: vec![0; Batch::MAX],
            tied: vec![0; Batch::MAX],
            bounds: (u16::MAX, 0),
            paths,
        }
    }

    /// A packet goes to this bin.
    #[inline]
    fn bound(&mut self, bin: u16) {
        let (every, any) = self.bounds;
        self.bounds = (every & bin, any | bin);
    }

    /// The first lane to a port of a node.
    pub fn lane(settings: &Settings, node: u16, port: u8) -> u32 {
        match node == settings.me {
            true => port.into(),
            false => u32::from(settings.own_lines()) + u32::from(node) * u32::from(Ways::paths(settings)),
        }
    }

    /// One for the run that there is; or where there are flowlets one directly, which others take as that of their run, and one by
    /// each link.
    fn paths(settings: &Settings) -> u16 {
        match settings.has(Order::Flowlet) && settings.policy != Policy::FlowHash {
            true => settings.topology.radix() + 1,
            false => 1,
        }
    }
}

/// What ties a packet to a path, beside its output node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// Nothing.
    None,
    /// Its flowlet.
    Flowlet,
    /// Its flowlet, but all of them go directly.
    Rest,
    /// Its flow.
    Flow,
}

impl Ties {
    /// Of packets that are kept in this order.
    pub fn new(policy: Policy, order: Order) -> Ties {
        match (policy, order) {
            (Policy::FlowHash, _) | (_, Order::SinglePath) => Ties::Flow,
            (_, Order::Flowlet) => Ties::Flowlet,
            _ => Ties::None,
        }
    }
}

/// A hash of the flow of a packet.
#[inline(always)]
pub fn flow(packet: &Packet) -> u32 {
    match packet.flow_hash() {
        0 => flowlet_hash(packet.data()),
        hash => hash,
    }
}

/// Deals a batch out: to each of `to` what is for it.
#[inline(never)]
pub(super) fn scatter(batch: Batch, bins: &[u16], to: &mut [Batch], lowest: u16) {
    batch.deal(bins, to, |bin| bin.wrapping_sub(lowest));
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
        let mut ties = self.ways.manner.ties;
        if ties == Ties::Flowlet && self.chooser.is_resting() {
            ties = Ties::Rest;
        }
        let framed = batch.framed_by();
        let framed = framed.and_then(|list| all.network_framed_by(list, self.framings));
        let batch = match framed {
            Some(network) if matches!(ties, Ties::None | Ties::Rest) => {
                match self.send_directly(batch, ties, &network, now, out) {
                    Ok(()) => return Batch::empty(),
                    Err(batch) => batch,
                }
            }
            _ => batch,
        };
        // Each of them knows what it is for.
        let all = (all, framed);
        match ties {
            Ties::None => self.send_tied(batch, Ties::None, all, now, out),
            Ties::Rest => self.send_tied(batch, Ties::Rest, all, now, out),
            Ties::Flowlet => self.send_tied(batch, Ties::Flowlet, all, now, out),
            Ties::Flow => self.send_tied(batch, Ties::Flow, all, now, out),
        }
    }

    #[inline(always)]
    fn send_tied(
        &mut self,
        mut batch: Batch,
        ties: Ties,
        (all, framed): (Adjacencies<'_>, Option<Network<'_>>),
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        let mut bins = std::mem::take(&mut self.scratch);
        let (mut flows, mut tied) = (Vec::new(), Vec::new());
        let asks_flows = matches!(ties, Ties::Flowlet | Ties::Flow);
        if asks_flows {
            flows = std::mem::take(&mut self.ways.flows);
            tied = std::mem::take(&mut self.ways.tied);
            let packets = batch.as_mut_slice();
            flowlet_hashes(packets, &mut flows);
            if let Some(table) = self.chooser.flowlets() {
                table.paths(&flows[..packets.len()], now, &mut tied);
            }
        }
        if self.ways.changes != self.chooser.changes() {
            self.close_lanes();
        }
        let (packets, next_hops) = batch.with_next_hops();
        self.ways.bounds = (u16::MAX, 0);
        let mut at = 0;
        loop {
            let left = (&mut packets[at..], &next_hops[at..]);
            let tied_left = tied.get(at..).unwrap_or_default();
            at += self.pass(ties, left, (tied_left, &mut bins[at..]), (all, framed));
            let Some((packet, number)) = packets.get_mut(at).zip(next_hops.get(at)) else { break };
            let path = tied.get(at).copied().unwrap_or_default();
            if self.renew((packet, *number), (ties, path), all, now).is_some() {
                continue;
            }
            let flow = if asks_flows { flows[at] } else { 0 };
            let bin = self.one((packet, *number), (ties, flow), all, now).unwrap_or(self.rest());
            bins[at] = bin;
            self.ways.bound(bin);
            at += 1;
            if ties == Ties::Flowlet
                && let Some(table) = self.chooser.flowlets()
            {
                table.follow(flow, &flows[at..packets.len()], &mut tied[at..]);
            }
        }
        if asks_flows {
            (self.ways.flows, self.ways.tied) = (flows, tied);
        }
        self.count_lanes(now);
        let bounds = self.ways.bounds;
        let rest = self.deal(batch, &bins, bounds, out);
        self.scratch = bins;
        rest
    }

    /// Lets packets go whose lanes have room; how many. `framed`: what all begin as, and are of.
    #[inline(always)]
    fn pass(
        &mut self,
        ties: Ties,
        (packets, next_hops): (&mut [Packet], &[u32]),
        (tied, bins): (&[u16], &mut [u16]),
        (all, framed): (Adjacencies<'_>, Option<Network<'_>>),
    ) -> usize {
        let first = || packets.first().and_then(|packet| all.network(packet));
        let Some(network) = framed.or_else(first) else { return 0 };
        let is_numbered = self.ways.manner.is_numbered;
        let mut maps = Maps {
            network,
            lines: &self.lines,
            lanes: &mut self.ways.lanes,
            own_lines: self.own_lines.into(),
            paths: self.ways.paths,
        };
        let pass = match (ties, framed.is_some()) {
            (Ties::None, true) if is_numbered => pass::<false, true, true>,
            (Ties::None, false) if is_numbered => pass::<false, true, false>,
            (Ties::None | Ties::Rest, true) => pass::<false, false, true>,
            (Ties::None | Ties::Rest, false) => pass::<false, false, false>,
            (Ties::Flowlet, true) => pass::<true, false, true>,
            (Ties::Flowlet, false) => pass::<true, false, false>,
            (Ties::Flow, _) => return 0,
        };
        pass((packets, next_hops), tied, bins, &mut maps)
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
        mut batch: Batch,
        bins: &[u16],
        (every, any): (u16, u16),
        out: &mut Out<'_>,
    ) -> Batch {
        let rest = usize::from(self.rest());
        let (lowest, highest) = (usize::from(every), usize::from(any).min(rest + 1));
        // All to one place, and what stands in `bins` need not be looked at.
        if lowest == highest {
            match highest {
                place if place < rest => out.emit(place, batch),
                place if place == rest => return batch,
                place => self.bins[place] = batch,
            }
            return Batch::empty();
        }
        if !batch.is_empty() {
            if highest < rest {
                batch.forget_columns();
            }
            scatter(batch, bins, &mut self.bins[lowest..=highest], every);
            for outlet in lowest..=highest.min(rest - 1) {
                out.emit(outlet, std::mem::take(&mut self.bins[outlet]));
            }
        }
        std::mem::take(&mut self.bins[rest])
    }

    /// Gives the lane of a packet room, if it has none, and can have some. `path`: that of its flowlet.
    #[inline]
    fn renew(
        &mut self,
        (packet, number): (&Packet, u32),
        (ties, path): (Ties, u16),
        all: Adjacencies<'_>,
        now: Nanos,
    ) -> Option<()> {
        let to = self.destination(packet, number, all)?;
        let path = if ties == Ties::Flowlet && to.node != self.me { path } else { 0 };
        if ties == Ties::Flow || path >= self.ways.paths {
            return None;
        }
        let place = to.lane as usize + usize::from(path);
        let is_full = self.ways.lanes.get(place)?.gone & FULL != 0;
        if is_full { self.grant(place, to, (ties, path), now) } else { None }
    }

    /// The line that a packet is for, if it is usual.
    #[inline]
    fn destination(&self, packet: &Packet, number: u32, all: Adjacencies<'_>) -> Option<Destination> {
        let head = packet.head::<HEADER_LEN>(0)?;
        let adjacency = all.of(head).get(number as usize).filter(|_| number < ADJACENCIES)?;
        self.lines.get(usize::from(adjacency.output)).copied()
    }

    /// Lets a packet go that is tied and whose lane can have no room, or that has none; its outlet, or `None` if it is not usual.
    #[inline(never)]
    fn one(
        &mut self,
        (packet, number): (&mut Packet, u32),
        (ties, flow): (Ties, u32),
        all: Adjacencies<'_>,
        now: Nanos,
    ) -> Option<u16> {
        let to = self.destination(packet, number, all);
        let to = to.filter(|_| matches!(ties, Ties::Flowlet | Ties::Flow))?;
        let length = length(packet);
        if to.node == self.me {
            let place = to.lane as usize;
            self.grant(place, to, (ties, 0), now)?;
            let lane = self.ways.lanes.get_mut(place)?;
            (lane.gone, lane.next) = (lane.gone + length, lane.next.wrapping_add(1));
            return Some(lane.outlet);
        }
        let link = match ties {
            Ties::Flow => self.chooser.choose_in(self.ways.manner.order, to.node, length, flow),
            _ => {
                let path = self.chooser.flowlet(flow);
                self.chooser.follow(to.node, length, flow, path)
            }
        };
        let (outlet, header, sequence) = self.alone(to.node, link?, length, now)?;
        let head = packet.data_mut().first_chunk_mut::<HEADER_LEN>()?;
        head[..LEN].copy_from_slice(&header.to_port(to.port).bytes(number, sequence));
        Some(outlet)
    }

    /// Counts a packet that goes by a link without a lane. Its outlet, header and number.
    fn alone(&mut self, node: u16, link: u16, length: u32, now: Nanos) -> Option<(u16, Template, u32)> {
        let outlet = self.outlet_of.get(usize::from(link)).copied().filter(|&outlet| outlet != NONE)?;
        let is_relayed = !self.is_mesh || link != node;
        let Manner { class, is_numbered, .. } = self.ways.manner;
        let header = self.headers.get(usize::from(node))?[usize::from(is_relayed)].of_class(class);
        self.outlets.get_mut(usize::from(outlet))?.charge_many(1, length, now);
        self.calm = self.calm.saturating_sub(length);
        let Traffic { to_relays, direct, .. } = &mut self.traffic;
        if is_relayed { to_relays } else { direct }.add(length);
        let numbers = self.numbers.get_mut(usize::from(node)).filter(|_| is_numbered);
        Some((outlet, header, numbers.map_or(0, |numbers| numbers.number(link.into(), now))))
    }

    /// Gives a lane room, if it can have some.
    #[inline(never)]
    fn grant(&mut self, place: usize, to: Destination, (ties, path): (Ties, u16), now: Nanos) -> Option<()> {
        self.count(place, now);
        let Ways { lanes, used, manner, .. } = &mut self.ways;
        let lane = lanes.get_mut(place)?;
        let (mut left, mut sequence) = (ENOUGH, 0);
        if to.node == self.me {
            (lane.outlet, lane.node) = (to.port.into(), to.node);
        } else {
            let run = match ties {
                Ties::Flowlet => self.chooser.flowlet_run(to.node, path)?,
                Ties::Rest => self.chooser.resting_run(to.node)?,
                _ => self.chooser.run(to.node)?,
            };
            // Where a link leads does not change.
            if lane.run.is_none_or(|before| before.link != run.link) {
                let outlet = self.outlet_of.get(usize::from(run.link)).copied();
                lane.outlet = outlet.filter(|&outlet| outlet != NONE)?;
                lane.is_remote = true;
                lane.is_relayed = !self.is_mesh || run.link != to.node;
                lane.turn = if lane.is_relayed { TO_OUTPUT } else { 0 } ^ class_bits(manner.class);
                lane.node = to.node;
                let header = self.headers.get(usize::from(to.node))?[usize::from(lane.is_relayed)];
                lane.header = header.of_class(manner.class);
            }
            lane.run = Some(run);
            if manner.is_numbered {
                sequence = self.numbers.get(usize::from(to.node))?.next();
            }
            left = run.left;
        }
        (lane.gone, lane.next) = (FULL - left.clamp(1, ENOUGH) as u32, sequence);
        lane.counted = (lane.gone, lane.next);
        if !std::mem::replace(&mut lane.is_used, true) {
            used.push(place as u32);
        }
        Some(())
    }

    /// Counts what has gone by all lanes.
    #[inline]
    fn count_lanes(&mut self, now: Nanos) {
        let used = std::mem::take(&mut self.ways.used);
        used.iter().for_each(|&place| self.count(place as usize, now));
        let is_many = used.len() > MOST_KEPT;
        self.ways.used = used;
        if is_many {
            self.close_lanes();
        }
    }

    /// Takes back the room that lanes have. All that went by them has been counted.
    pub(super) fn close_lanes(&mut self) {
        let Ways { lanes, used, changes, .. } = &mut self.ways;
        for place in used.drain(..) {
            let lane = &mut lanes[place as usize];
            (lane.gone, lane.is_used) = (FULL, false);
        }
        *changes = self.chooser.changes();
    }

    /// Counts what has gone by a lane.
    #[inline(always)]
    fn count(&mut self, place: usize, now: Nanos) {
        let Some(lane) = self.ways.lanes.get_mut(place).filter(|lane| lane.is_used) else { return };
        let (gone, next) = std::mem::replace(&mut lane.counted, (lane.gone, lane.next));
        let (packets, bytes) = (lane.next.wrapping_sub(next), lane.gone - gone);
        let Lane { run, node, is_relayed, outlet, .. } = *lane;
        if packets == 0 {
            return;
        }
        self.ways.bound(outlet);
        self.outlets[usize::from(outlet)].charge_many(packets, bytes, now);
        self.calm = self.calm.saturating_sub(bytes);
        let traffic = &mut self.traffic;
        let Some(run) = run else { return traffic.own.add_many(packets, bytes) };
        if is_relayed { &mut traffic.to_relays } else { &mut traffic.direct }.add_many(packets, bytes);
        self.chooser.charge(node, &run, bytes);
        if self.ways.manner.is_numbered
            && let Some(numbers) = self.numbers.get_mut(usize::from(node))
        {
            numbers.take(run.link.into(), packets, now);
        }
    }
}
