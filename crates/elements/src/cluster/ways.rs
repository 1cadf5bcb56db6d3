//! Which ways the packets of a batch go that were routed here: while nothing waits for any outlet, packets to one node
//! follow each other without another look.
//!
//! A *lane* is one way to one output node: the way of the present run, or for flowlets each path; or it leads out by a line of
//! this node. It holds for so many bytes, and is counted when they are used up or the batch is over. So what most packets need
//! is to find their lane, a look whether it has room, and its header.

use super::outlet::length;
use super::settings::Settings;
use super::status::Traffic;
use super::switch::{Adjacencies, Destination, NONE, Network, Switch};
use crate::flow_hash::{flowlet_hash, flowlet_hashes};
use cluster::header::{ADJACENCIES, LEN, Template};
use cluster::path::{Order, Policy, Run};
use graph::{Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// Of [`Lane::gone`]: there is no room.
const FULL: u64 = 1 << 31;
/// More bytes than a batch has.
const ENOUGH: i32 = i32::MAX / 4;

/// What packets by one way need.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Upper half: the number of the next packet, one more for each that has gone. Lower half: goes up by the bytes of each, and
    /// has the bit of [`FULL`] from when there is no more room.
    gone: u64,
    /// All but adjacency, port and number.
    header: Template,
    outlet: u16,
    /// Leads to another node, so that packets need that header.
    is_remote: bool,
}

/// What else is known of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Grant {
    /// What [`Lane::gone`] was when all before had been counted.
    counted: u64,
    run: Option<Run>,
    node: u16,
    /// To a relay.
    is_relayed: bool,
    is_used: bool,
}

/// All lanes.
#[derive(Debug)]
pub struct Ways {
    /// Of the lines of this node, then of the output nodes in turn.
    lanes: Box<[Lane]>,
    grants: Box<[Grant]>,
    /// Those that are in use. Empty between calls.
    used: Vec<u32>,
    /// One for each packet of a batch, as the next. Of no meaning between calls.
    flows: Vec<u32>,
    tied: Vec<u16>,
    /// Lanes of each output node.
    paths: u16,
}

impl Ways {
    /// No room by any lane.
    pub fn new(settings: &Settings) -> Ways {
        let paths = Ways::paths(settings);
        let nodes = usize::from(settings.topology.edge_nodes());
        let lanes = usize::from(settings.own_lines()) + nodes * usize::from(paths);
        let lane = Lane { gone: FULL, header: Template::default(), outlet: NONE, is_remote: false };
        Ways {
            lanes: vec![lane; lanes].into(),
            grants: vec![Grant::default(); lanes].into(),
            used: Vec::new(),
            flows: vec![0; Batch::MAX],
            tied: vec![0; Batch::MAX],
            paths,
        }
    }

    /// The first lane to a port of a node.
    pub fn lane(settings: &Settings, node: u16, port: u8) -> u32 {
        match node == settings.me {
            true => port.into(),
            false => u32::from(settings.own_lines()) + u32::from(node) * u32::from(Ways::paths(settings)),
        }
    }

    /// One for the run that there is; or for flowlets one directly, and one by each link.
    fn paths(settings: &Settings) -> u16 {
        match Ties::new(settings) {
            Ties::Flowlet => settings.topology.radix() + 1,
            _ => 1,
        }
    }
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

impl Ties {
    fn new(settings: &Settings) -> Ties {
        match (settings.policy, settings.order) {
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

/// What says where packets go.
struct Maps<'a> {
    network: Network<'a>,
    lines: &'a [Destination],
    lanes: &'a mut [Lane],
    own_lines: u16,
    paths: u16,
}

/// Lets packets go by their lanes, up to the first that is not of this network protocol or whose lane is not known or has no
/// room. How many went. `tied`: the paths of their flowlets if these matter; `bins`: their outlets.
#[inline(never)]
fn pass<const TIED: bool, const NUMBERED: bool>(
    (packets, next_hops): (&mut [Packet], &[u32]),
    tied: &[u16],
    bins: &mut [u16],
    maps: &mut Maps<'_>,
) -> usize {
    let Maps { network, lines, lanes, own_lines, paths } = maps;
    let all = packets.len();
    let (bins, tied) = (&mut bins[..all], if TIED { &tied[..all] } else { &[] });
    for (gone, (packet, number)) in packets.iter_mut().zip(next_hops).enumerate() {
        let (number, length) = (*number, length(packet));
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { return gone };
        let Some(adjacency) = network.get(head, number) else { return gone };
        let Some(to) = lines.get(usize::from(adjacency.output)) else { return gone };
        let mut lane = to.lane;
        if TIED && lane >= u32::from(*own_lines) {
            let path = tied[gone];
            if path >= *paths {
                return gone;
            }
            lane += u32::from(path);
        }
        let Some(lane) = lanes.get_mut(lane as usize) else { return gone };
        if !lane.take::<NUMBERED>(head, (number, to.port, length)) {
            return gone;
        }
        bins[gone] = lane.outlet;
    }
    all
}

impl Lane {
    /// Lets a packet go, if there is room: adjacency, port, length.
    #[inline(always)]
    fn take<const NUMBERED: bool>(
        &mut self,
        head: &mut [u8; HEADER_LEN],
        (number, port, length): (u32, u8, u32),
    ) -> bool {
        let gone = self.gone;
        if gone & FULL != 0 {
            return false;
        }
        self.gone = gone + (1 << 32 | u64::from(length));
        if self.is_remote {
            let sequence = if NUMBERED { (gone >> 32) as u32 } else { 0 };
            head[..LEN].copy_from_slice(&self.header.to_port(port).bytes(number, sequence));
        }
        true
    }
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
        match Ties::new(&self.settings) {
            Ties::None => self.send_tied(batch, Ties::None, all, now, out),
            Ties::Flowlet => self.send_tied(batch, Ties::Flowlet, all, now, out),
            Ties::Flow => self.send_tied(batch, Ties::Flow, all, now, out),
        }
    }

    #[inline(always)]
    fn send_tied(
        &mut self,
        mut batch: Batch,
        ties: Ties,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        let mut bins = std::mem::take(&mut self.scratch);
        let mut flows = std::mem::take(&mut self.ways.flows);
        let mut tied = std::mem::take(&mut self.ways.tied);
        if ties != Ties::None {
            let packets = batch.as_mut_slice();
            flowlet_hashes(packets, &mut flows);
            if let Some(table) = self.chooser.flowlets() {
                table.paths(&flows[..packets.len()], now, &mut tied);
            }
        }
        let (packets, next_hops) = batch.with_next_hops();
        // The bits that the bins of all packets have, and those that any has. Whom a lane takes goes where the packet went
        // for which it got room.
        let (mut every, mut any, mut at) = (u16::MAX, 0, 0);
        loop {
            let left = (&mut packets[at..], &next_hops[at..]);
            at += self.pass(ties, left, &tied[at..], &mut bins[at..], all);
            let Some((packet, number)) = packets.get_mut(at).zip(next_hops.get(at)) else { break };
            if let Some(outlet) = self.renew((packet, *number), (ties, tied[at]), all, now) {
                (every, any) = (every & outlet, any | outlet);
                continue;
            }
            let flow = if ties == Ties::None { 0 } else { flows[at] };
            let bin = self.one((packet, *number), (ties, flow), all, now).unwrap_or(self.rest());
            bins[at] = bin;
            (every, any, at) = (every & bin, any | bin, at + 1);
            if let Some(table) = self.chooser.flowlets() {
                table.follow(flow, &flows[at..packets.len()], &mut tied[at..]);
            }
        }
        self.ways.flows = flows;
        self.ways.tied = tied;
        while let Some(place) = self.ways.used.pop() {
            self.count(place as usize, now);
            self.ways.lanes[place as usize].gone = FULL;
            self.ways.grants[place as usize].is_used = false;
        }
        let rest = self.deal(batch, &bins, (every, any), out);
        self.scratch = bins;
        rest
    }

    /// Lets packets go whose lanes have room; how many.
    #[inline(always)]
    fn pass(
        &mut self,
        ties: Ties,
        (packets, next_hops): (&mut [Packet], &[u32]),
        tied: &[u16],
        bins: &mut [u16],
        all: Adjacencies<'_>,
    ) -> usize {
        let Some(network) = packets.first().and_then(|packet| all.network(packet)) else { return 0 };
        let mut maps = Maps {
            network,
            lines: &self.lines,
            lanes: &mut self.ways.lanes,
            own_lines: self.own_lines.into(),
            paths: self.ways.paths,
        };
        match ties {
            Ties::None if self.is_strict => pass::<false, true>((packets, next_hops), tied, bins, &mut maps),
            Ties::None => pass::<false, false>((packets, next_hops), tied, bins, &mut maps),
            Ties::Flowlet => pass::<true, false>((packets, next_hops), tied, bins, &mut maps),
            Ties::Flow => 0,
        }
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
            batch.deal(bins, &mut self.bins[lowest..=highest], |bin| usize::from(bin) - lowest);
            for outlet in lowest..=highest.min(rest - 1) {
                out.emit(outlet, std::mem::take(&mut self.bins[outlet]));
            }
        }
        std::mem::take(&mut self.bins[rest])
    }

    /// Gives the lane of a packet room, if it has none, and can have some; its outlet. `path`: that of its flowlet.
    #[inline]
    fn renew(
        &mut self,
        (packet, number): (&Packet, u32),
        (ties, path): (Ties, u16),
        all: Adjacencies<'_>,
        now: Nanos,
    ) -> Option<u16> {
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
        let to = self.destination(packet, number, all).filter(|_| ties != Ties::None)?;
        let length = length(packet);
        if to.node == self.me {
            let place = to.lane as usize;
            self.grant(place, to, (ties, 0), now)?;
            let lane = self.ways.lanes.get_mut(place)?;
            lane.gone += 1 << 32 | u64::from(length);
            return Some(lane.outlet);
        }
        let link = match ties {
            Ties::Flow => self.chooser.choose(to.node, length, flow),
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
        let header = self.headers.get(usize::from(node))?[usize::from(is_relayed)];
        self.outlets.get_mut(usize::from(outlet))?.charge_many(1, length, now);
        self.calm = self.calm.saturating_sub(length);
        let Traffic { to_relays, direct, .. } = &mut self.traffic;
        if is_relayed { to_relays } else { direct }.add(length);
        let numbers = self.numbers.get_mut(usize::from(node)).filter(|_| self.is_strict);
        Some((outlet, header, numbers.map_or(0, |numbers| numbers.number(link.into(), now))))
    }

    /// Gives a lane room, if it can have some; its outlet.
    fn grant(&mut self, place: usize, to: Destination, (ties, path): (Ties, u16), now: Nanos) -> Option<u16> {
        self.count(place, now);
        let Ways { lanes, grants, used, .. } = &mut self.ways;
        let (lane, grant) = (lanes.get_mut(place)?, grants.get_mut(place)?);
        let (mut left, mut sequence) = (ENOUGH, 0);
        if to.node == self.me {
            (lane.outlet, grant.node) = (to.port.into(), to.node);
        } else {
            let run = match ties {
                Ties::Flowlet => self.chooser.flowlet_run(to.node, path)?,
                _ => self.chooser.run(to.node)?,
            };
            // Where a link leads does not change.
            if grant.run.is_none_or(|before| before.link != run.link) {
                let outlet = self.outlet_of.get(usize::from(run.link)).copied();
                lane.outlet = outlet.filter(|&outlet| outlet != NONE)?;
                lane.is_remote = true;
                grant.is_relayed = !self.is_mesh || run.link != to.node;
                grant.node = to.node;
                lane.header = self.headers.get(usize::from(to.node))?[usize::from(grant.is_relayed)];
            }
            grant.run = Some(run);
            if self.is_strict {
                sequence = self.numbers.get(usize::from(to.node))?.next();
            }
            left = run.left;
        }
        lane.gone = u64::from(sequence) << 32 | (FULL - left.clamp(1, ENOUGH) as u64);
        grant.counted = lane.gone;
        if !std::mem::replace(&mut grant.is_used, true) {
            used.push(place as u32);
        }
        Some(lane.outlet)
    }

    /// Counts what has gone by a lane.
    #[inline]
    fn count(&mut self, place: usize, now: Nanos) {
        let Some(lane) = self.ways.lanes.get(place) else { return };
        let Some(grant) = self.ways.grants.get_mut(place).filter(|grant| grant.is_used) else { return };
        let gone = lane.gone.wrapping_sub(std::mem::replace(&mut grant.counted, lane.gone));
        let (packets, bytes) = ((gone >> 32) as u32, gone as u32);
        let Grant { run, node, is_relayed, .. } = *grant;
        if packets == 0 {
            return;
        }
        self.outlets[usize::from(lane.outlet)].charge_many(packets, bytes, now);
        self.calm = self.calm.saturating_sub(bytes);
        let traffic = &mut self.traffic;
        let Some(run) = run else { return traffic.own.add_many(packets, bytes) };
        if is_relayed { &mut traffic.to_relays } else { &mut traffic.direct }.add_many(packets, bytes);
        self.chooser.charge(node, &run, bytes);
        if self.is_strict
            && let Some(numbers) = self.numbers.get_mut(usize::from(node))
        {
            numbers.take(run.link.into(), packets, now);
        }
    }
}
