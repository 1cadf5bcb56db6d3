//! One worker's part of `ClusterSwitch`: what it is made of, and when which part of it works.

use super::ClusterSwitch;
use super::adjacencies::Adjacencies;
use super::directly::Direct;
use super::egress::{Early, Egress};
use super::links::Neighbour;
use super::losses::{LINK_DOWN, PUNT_SHARE, UNREACHABLE};
use super::manners::{Manners, in_order};
use super::outlet::{Outlet, Turn, length};
use super::punts::{Share, shares};
use super::rates::Rates;
use super::settings::Settings;
use super::status::Traffic;
use super::usual::Latest;
use super::ways::Ways;
use crate::shape::is_urgent;
use cluster::header::{CLASSES, ETHERTYPE_WHOLE, Header, LEN, Limits, Phase, Template};
use cluster::news::News;
use cluster::numbering::Numbering;
use cluster::path::{Config, Order, PathChooser, Policy};
use fib::{Adjacency, FramingId};
use graph::{Cx, Element, Nanos, Out, Up};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};
use std::sync::Arc;

/// How often hellos, markers and deadlines are looked after, in nanoseconds.
const TICK: Nanos = 1_000_000;
/// Every how many ticks what is measured is looked at, and shown.
const TICKS_PER_LOOK: u64 = 16;
/// No outlet.
pub const NONE: u16 = u16::MAX;

/// A line, as a place that packets go to.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    /// The node that has it.
    pub node: u16,
    /// Its number there.
    pub port: u8,
    /// The outlet by which packets go there directly; [`NONE`] while the link has no room, or is none.
    pub directly: u16,
    /// The first of its lanes in [`Switch::ways`].
    pub lane: u32,
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LocalClusterSwitch {
    adjacencies: Arc<fib::Adjacencies>,
    adjacencies6: Arc<fib::Adjacencies>,
    switch: Switch,
}

/// All that changes. Fields stand in the order of their use, so that what every batch asks for is in few cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Switch {
    /// How long a call may be after the last one before nobody is to blame for silence: the settings' `hello`, which every call
    /// asks for.
    patience: Nanos,
    /// Bytes that may go out before it has to be looked at whether all outlets have room; 0 = before anything goes.
    pub(super) calm: u32,
    pub(super) first_line: u32,
    pub(super) me: u16,
    pub(super) own_lines: u8,
    pub(super) is_mesh: bool,
    /// Packets of some class are numbered.
    pub(super) is_strict: bool,
    /// By place of the link: what came last there for a line of this node.
    pub(super) latest: Box<[Option<Latest>]>,
    pub(super) chooser: PathChooser,
    /// Lines, then links.
    pub(super) outlets: Box<[Outlet]>,
    /// A batch for each outlet, one for what is not usual, and one for what came too early. Empty between calls.
    pub(super) bins: Box<[Batch]>,
    /// By place of the link.
    pub(super) neighbours: Vec<Neighbour>,
    /// Of the packets that came too early: what they are, in their order. Empty between calls.
    pub(super) early: Vec<Early>,
    /// Streams of which packets have passed while others waited. Empty between calls.
    pub(super) passed: Vec<u32>,
    pub(super) egress: Egress,
    pub(super) manners: Manners,
    /// By number of the line.
    pub(super) lines: Box<[Destination]>,
    /// The bin of each packet of a batch. Of no meaning between calls.
    pub(super) scratch: Vec<u16>,
    /// Those of [`ClusterSwitch`], which every batch asks for.
    pub(super) framings: [FramingId; 2],
    pub(super) direct: Direct,
    pub(super) ways: Ways,
    pub(super) traffic: Traffic,
    /// By output node.
    pub(super) numbers: Vec<Numbering>,
    /// By output node, in a full mesh: the outlet of the link there, [`NONE`] while it is not up.
    pub(super) second_ways: Box<[u16]>,
    /// By output node: the header on the way there directly, and to a relay, for port 0.
    pub(super) headers: Box<[[Template; 2]]>,
    /// The outlet of each link of the topology, [`NONE`] if it is not there.
    pub(super) outlet_of: Box<[u16]>,
    /// By output node: the link of the topology that leads there on second ways.
    pub(super) towards: Box<[u16]>,
    pub(super) limits: Limits,
    /// By what headers say of the class: whether packets are put in order that are for lines of this node.
    pub(super) is_in_order: [bool; CLASSES as usize],
    pub(super) shared: Arc<ClusterSwitch>,
    pub(super) settings: Arc<Settings>,
    /// When the last tick was.
    pub(super) ticked: Nanos,
    pub(super) ticks: u64,
    /// What the timer is set to.
    armed: Nanos,
    /// Rate of a link, bits per second, if it is not one of `rates`.
    pub(super) link_rate: u64,
    pub(super) rates: Rates,
    /// By link of the topology: what frames that travel whole may take.
    pub(super) shares: Box<[Share]>,
    /// The nodes that there are.
    pub(super) members: Vec<u16>,
    /// Which change of the members was the last to be taken in.
    pub(super) members_version: u64,
    /// What the weights of links are now, by output node.
    pub(super) weights: Vec<Vec<u8>>,
    /// Of far links, in a fly; and whether something of it is to be taken in.
    pub(super) news: Option<News>,
    pub(super) has_news: bool,
    /// By output node and link, in a full mesh with strict order: [`cluster::numbering::marker_gap`].
    pub(super) marker_gaps: Vec<Vec<u64>>,
}

impl Switch {
    /// A switch that hears no neighbour yet.
    fn new(shared: Arc<ClusterSwitch>) -> Switch {
        let settings = shared.settings().clone();
        let topology = settings.topology;
        let (own, edge) = (usize::from(settings.own_lines()), topology.edge_nodes());
        let is_mesh = topology.is_mesh();
        let link_rate = settings.link_rate(settings.members.len());
        Switch {
            limits: Limits {
                me: settings.me,
                nodes: topology.nodes(),
                ports: settings.ports,
                workers: settings.workers,
                transit: !is_mesh,
            },
            chooser: PathChooser::new(chooser_config(&settings)),
            numbers: vec![Numbering::new(topology.radix().into()); edge.into()],
            lines: destinations(&settings),
            headers: headers(&settings),
            direct: Direct::new(edge),
            ways: Ways::new(&settings, settings.order),
            manners: Manners::new(&settings),
            outlets: outlets(&settings, link_rate),
            bins: (0..own + settings.links.len() + 2).map(|_| Batch::empty()).collect(),
            scratch: vec![0; Batch::MAX],
            early: Vec::new(),
            passed: Vec::new(),
            latest: vec![None; settings.links.len()].into(),
            neighbours: settings.links.iter().map(|&node| Neighbour::new(node, &settings)).collect(),
            outlet_of: outlet_of(&settings),
            me: settings.me,
            own_lines: settings.own_lines(),
            first_line: settings.first_line(),
            second_ways: vec![NONE; edge.into()].into(),
            towards: topology.forwarding_table(settings.me).into(),
            egress: Egress::new(&settings),
            traffic: Traffic::default(),
            link_rate,
            rates: settings.rates.clone(),
            shares: shares(&settings, link_rate),
            members: settings.members.clone(),
            members_version: 0,
            weights: vec![Vec::new(); edge.into()],
            is_mesh,
            is_strict: settings.has(Order::Strict),
            is_in_order: in_order(&settings),
            calm: 0,
            ticked: 0,
            ticks: 0,
            armed: 0,
            patience: settings.hello,
            framings: shared.framings,
            news: super::far::news(&settings),
            has_news: false,
            marker_gaps: Vec::new(),
            shared,
            settings,
        }
    }

    /// Lets time pass for paths and links. For outlets, [`Switch::is_calm`] or [`Switch::look`] does.
    #[inline]
    fn begin(&mut self, now: Nanos) {
        if now != self.chooser.now() {
            let gone = now.saturating_sub(self.chooser.now());
            if gone > self.patience {
                // Who was away has not read what came meanwhile, and nobody is to be declared dead for that.
                self.neighbours.iter_mut().for_each(|neighbour| neighbour.absent(gone));
            }
            self.chooser.advance(now);
        }
    }

    /// Whether nothing waits, and everything can go out at once.
    #[inline]
    pub(super) fn is_calm(&mut self, now: Nanos) -> bool {
        if self.calm == 0 {
            self.look(now);
            self.calm = self.outlets.iter().map(Outlet::room).min().unwrap_or(u32::MAX);
        }
        self.calm > 0
    }

    /// Lets time pass for outlets, before packets are sent one by one: they may have to wait.
    pub(super) fn look(&mut self, now: Nanos) {
        self.calm = 0;
        self.outlets.iter_mut().for_each(|outlet| outlet.advance(now));
    }

    /// Hands over what is to go out, and sees to it that what waits will go.
    #[inline]
    fn finish(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        // As long as all is calm nothing is staged, and nothing waits.
        if self.calm == 0 {
            self.flush(cx.now, out);
        }
    }

    #[inline(never)]
    fn flush(&mut self, now: Nanos, out: &mut Out<'_>) {
        self.outlets.iter_mut().for_each(|outlet| outlet.flush(out));
        self.arm(now, out);
    }

    fn arm(&mut self, now: Nanos, out: &mut Out<'_>) {
        let mut due = self.ticked.saturating_add(TICK);
        for outlet in &self.outlets {
            if outlet.waiting() > 0 {
                due = due.min(outlet.due(now).unwrap_or(due));
            }
        }
        if due != self.armed {
            self.armed = due;
            out.wake_at(due);
        }
    }

    /// The outlet of a link of the topology, unless the link is not there or down.
    #[inline]
    pub(super) fn outlet(&mut self, link: u16) -> Option<&mut Outlet> {
        let place = self.outlet_of.get(usize::from(link)).copied().unwrap_or(NONE);
        self.outlets.get_mut(usize::from(place))
    }

    /// Frames that travel whole, from elements of this node.
    fn wrapped(&mut self, batch: Batch, now: Nanos, out: &mut Out<'_>) {
        self.look(now);
        for packet in batch {
            let header = packet.head::<HEADER_LEN>(0).ok_or(cluster::header::HeaderError::Short);
            match header.and_then(|head| Header::decode(head)) {
                Ok(header) if header.node == self.settings.me => self.unwrap(&header, packet, out),
                Ok(header) => self.send_whole(&header, packet, now, out),
                Err(error) => out.lose(packet, super::losses::of_header(error)),
            }
        }
    }

    /// Sends a whole frame towards its node, before all others: directly if that can be, and while such frames have not had
    /// their share of the link.
    fn send_whole(&mut self, header: &Header, mut packet: Packet, now: Nanos, out: &mut Out<'_>) {
        let length = length(&packet);
        let direct = self.is_mesh.then_some(header.node).filter(|&link| self.is_link_up(link));
        let link = direct.or_else(|| match header.phase {
            Phase::ToOutput if header.source != self.settings.me => None,
            _ => self.chooser.choose(header.node, length, 0),
        });
        let phase = if direct.is_some() { Phase::ToOutput } else { Phase::ToRelay };
        let bytes = Header { phase, ..*header }.encode();
        let (Some(link), Ok(bytes)) = (link, bytes) else { return out.lose(packet, UNREACHABLE) };
        let is_urgent = is_urgent(packet.data().get(HEADER_LEN..).unwrap_or_default());
        let share = self.shares.get_mut(usize::from(link));
        if !share.is_some_and(|share| share.admits(length, is_urgent, now)) {
            return out.lose(packet, PUNT_SHARE);
        }
        if direct.is_some() {
            self.chooser.relayed(link, length);
        }
        if let Some(head) = packet.data_mut().first_chunk_mut::<LEN>() {
            *head = bytes;
        }
        match self.outlet(link) {
            Some(outlet) => outlet.send_now(packet, out),
            None => out.lose(packet, LINK_DOWN),
        }
    }

    /// A whole frame has come to its node: it goes to its twin, or out by its line.
    pub(super) fn unwrap(&mut self, header: &Header, mut packet: Packet, out: &mut Out<'_>) {
        let is_whole =
            packet.head::<HEADER_LEN>(0).is_some_and(|head| head[LEN..] == ETHERTYPE_WHOLE.to_be_bytes());
        let (settings, control) = (&self.settings, self.shared.control());
        let is_for_line = header.source == control;
        if !is_whole || !packet.pull(HEADER_LEN) {
            out.lose(packet, super::losses::MESSAGE);
        } else if is_for_line && header.port < settings.own_lines() {
            packet.set_mac_offset(0);
            self.outlets[usize::from(header.port)].send_now(packet, out);
        } else {
            let twin = settings.first_twin() + header.adjacency as usize;
            let is_twin = settings.me == control && (header.adjacency as usize) < settings.all_lines();
            if is_twin && out.is_connected(twin) {
                packet.set_mac_offset(0);
                out.emit(twin, Batch::one(packet));
            } else {
                out.lose(packet, super::losses::NO_TWIN);
            }
        }
    }

    /// Adds a frame to a line of this node.
    #[inline]
    pub(super) fn add_to_line(&mut self, port: u8, source: u16, packet: Packet, out: &mut Out<'_>) {
        if let Err(packet) = self.outlets[usize::from(port)].send(packet, Turn::Fair(source), out) {
            out.lose(packet, super::losses::LINE_FULL);
        }
    }

    fn tick(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        self.ticked = cx.now;
        self.ticks += 1;
        self.look_after_members(cx.now, out);
        self.look_after_links(cx, out);
        if self.is_strict {
            self.send_markers(cx, out);
            self.poll_streams(cx.now, out);
        }
        if self.ticks.is_multiple_of(TICKS_PER_LOOK) {
            self.measure(cx.now);
            self.publish(cx.now);
        }
    }
}

/// The outlet of each link of the topology.
fn outlet_of(settings: &Settings) -> Box<[u16]> {
    let (topology, own) = (settings.topology, usize::from(settings.own_lines()));
    let mut outlet_of = vec![NONE; topology.radix().into()];
    for (place, &node) in settings.links.iter().enumerate() {
        let link = topology.link_to(settings.me, node).and_then(|link| outlet_of.get_mut(usize::from(link)));
        // Ports of an element are fewer than 2^16.
        link.into_iter().for_each(|outlet| *outlet = (own + place) as u16);
    }
    outlet_of.into()
}

/// Lines, then links of this rate.
fn outlets(settings: &Settings, link_rate: u64) -> Box<[Outlet]> {
    let edge = settings.topology.edge_nodes();
    // What waits for a line has been put in order already.
    let lines = (0..settings.own_lines()).map(|_| (settings.me, settings.line_rate, usize::MAX));
    let links = settings.links.iter().map(|&node| (node, link_rate, settings.link_packets()));
    let outlet =
        |(output, (node, rate, most))| Outlet::new((output, node), rate, edge, (settings.buffer, most));
    lines.chain(links).enumerate().map(outlet).collect()
}

impl LocalClusterSwitch {
    /// A switch that hears no neighbour yet.
    pub fn new(shared: Arc<ClusterSwitch>) -> LocalClusterSwitch {
        let (adjacencies, adjacencies6) = (shared.adjacencies.clone(), shared.adjacencies6.clone());
        LocalClusterSwitch { adjacencies, adjacencies6, switch: Switch::new(shared) }
    }
}

impl Element for LocalClusterSwitch {
    fn start(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        let switch = &mut self.switch;
        switch.chooser.advance(cx.now);
        switch.look(cx.now);
        switch.set_rates(switch.settings.members.len());
        switch.learn(cx.now, out);
        switch.tick(cx, out);
        switch.publish(cx.now);
        switch.finish(cx, out);
    }

    fn push(&mut self, port: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let LocalClusterSwitch { adjacencies, adjacencies6, switch } = self;
        let adjacencies = Adjacencies { v4: adjacencies, v6: adjacencies6, reader: cx.reader };
        switch.begin(cx.now);
        match port.checked_sub(1) {
            None => switch.ingress(batch, adjacencies, cx, out),
            // As many as neighbours.
            Some(place) if place < switch.latest.len() => {
                switch.receive(place, batch, adjacencies, cx, out);
            }
            Some(_) => switch.wrapped(batch, cx.now, out),
        }
        switch.finish(cx, out);
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let switch = &mut self.switch;
        switch.begin(cx.now);
        switch.look(cx.now);
        let was_waiting = switch.outlets.iter().any(|outlet| outlet.waiting() > 0);
        switch.outlets.iter_mut().for_each(|outlet| outlet.serve(out));
        if cx.now >= switch.ticked.saturating_add(TICK) {
            switch.tick(cx, out);
        }
        // The timer has gone off.
        switch.armed = 0;
        switch.finish(cx, out);
        // A hello now and then is no reason to stay awake.
        was_waiting
    }
}

fn chooser_config(settings: &Settings) -> Config {
    let topology = settings.topology;
    let lines = u64::from(settings.ports);
    let policy = if topology.is_mesh() { settings.policy } else { Policy::Vlb };
    let gap = if settings.gap == 0 { cluster::flowlet::PAPER_GAP } else { settings.gap };
    Config {
        nodes: topology.edge_nodes().into(),
        links: topology.radix().into(),
        link_rate: settings.link_rate(settings.members.len()),
        gap,
        has_flowlets: settings.has(Order::Flowlet),
        ..Config::mesh(
            topology.edge_nodes(),
            settings.line_rate.saturating_mul(lines),
            policy,
            settings.order,
        )
    }
}

fn destinations(settings: &Settings) -> Box<[Destination]> {
    // Outputs from there on have tags, or stand for something else.
    let lines = (0..u32::from(Adjacency::TAGGED)).take(settings.all_lines());
    let lines = lines.filter_map(|line| settings.line(line));
    let line = |(node, port)| Destination {
        node,
        port,
        directly: if node == settings.me { port.into() } else { NONE },
        lane: Ways::lane(settings, node, port),
    };
    lines.map(line).collect()
}

fn headers(settings: &Settings) -> Box<[[Template; 2]]> {
    let template = |node, phase| Template::new(&settings.header(node, 0, phase)).unwrap_or_default();
    let nodes = 0..settings.topology.edge_nodes();
    nodes.map(|node| [template(node, Phase::ToOutput), template(node, Phase::ToRelay)]).collect()
}
