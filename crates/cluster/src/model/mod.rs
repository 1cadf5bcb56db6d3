//! A cluster in virtual time: the path rule, numbering, resequencing and fair queues of this crate on nodes and links that
//! take time and have finite buffers.
//!
//! Each node processes packets in no time; each link and line sends at its rate, one packet after the other, and keeps its
//! order. A link has a queue for first ways, which is served first (a node sends at most R/N that way), and a fair queue by
//! input node for what goes to the node at its end as output. Each line has a fair queue by input node. The cluster is
//! told of failures some time after they happened; in a fly the ends of a link are, and tell the others ([`crate::news`]).
//!
//! Whoever uses it offers packets in order of time ([`Model::offer`]) and takes out what was delivered
//! ([`Model::drain`]). Nothing in it is random: who wants jitter sets delays.

mod flood;
mod node;
pub mod scenario;
mod setup;
mod traffic;
mod wire;

pub use setup::{Loss, Setup, Totals};
pub use traffic::{Matrix, Traffic};

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::header::Phase;
use crate::news::News;
use crate::numbering::marker_gap;
use crate::path::Order;
use crate::shares::Links;
use node::Node;
use wire::{Line, Wire};

/// A packet, offered and delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The line that it came in by: port `line % ports` of node `line / ports`.
    pub input: u32,
    /// The line that it goes out by.
    pub output: u32,
    /// Bytes.
    pub len: u32,
    /// Its flow.
    pub flow: u64,
    /// Its number in the flow.
    pub number: u64,
    /// When it came in, in nanoseconds.
    pub at: u64,
}

/// A packet that has left, or a marker on its way.
#[derive(Debug, Clone, Copy)]
struct Frame {
    packet: Packet,
    source: u16,
    node: u16,
    sequence: u32,
    /// The link that it left its input node by.
    path: u16,
    phase: Phase,
    is_marker: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame is at the end of a wire.
    Arrive { wire: u32, frame: u32 },
    /// A wire has sent a frame.
    WireFree(u32),
    /// A line has sent a frame.
    LineFree { line: u32, frame: u32 },
    /// Time for markers and deadlines.
    Tick,
    /// The cluster learns that a wire changed.
    Learn(u32),
    /// Time for hellos of a fly.
    Tell,
    /// A hello of a fly has come: its number.
    Told(u64),
}

/// The cluster.
#[derive(Debug)]
pub struct Model {
    setup: Setup,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Events are handled in the order in which they were made, if at the same time.
    made: u64,
    frames: Vec<Frame>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    /// By node and number of the link.
    wires: Vec<Wire>,
    lines: Vec<Line>,
    /// What the cluster believes of its links; in a fly, where nodes believe what they heard, as if all were up.
    links: Links,
    /// Nodes of a fly tell each other news.
    tells: bool,
    /// Hellos under way, and how many are gone before the first of them.
    letters: VecDeque<Option<flood::Letter>>,
    letters_gone: u64,
    delivered: Vec<(u64, Packet)>,
    totals: Totals,
}

impl Model {
    /// A cluster with empty buffers, at time 0.
    pub fn new(setup: Setup) -> Model {
        let topology = setup.topology;
        let links = Links::new(topology, setup.link_rate);
        let mut model = Model {
            now: 0,
            events: BinaryHeap::new(),
            made: 0,
            frames: Vec::new(),
            free: Vec::new(),
            nodes: (0..topology.nodes()).map(|number| Node::new(&setup, number)).collect(),
            wires: (0..topology.nodes())
                .flat_map(|node| (0..topology.radix()).map(move |link| (node, link)))
                .map(|(node, link)| Wire::new(&setup, topology.peer(node, link)))
                .collect(),
            lines: (0..setup.lines()).map(|_| Line::new(&setup)).collect(),
            links,
            tells: false,
            letters: VecDeque::new(),
            letters_gone: 0,
            delivered: Vec::new(),
            totals: Totals::default(),
            setup,
        };
        if !topology.is_mesh() {
            (0..topology.nodes()).for_each(|node| model.begin_life(node, 0));
            model.nodes.iter_mut().flat_map(|node| &mut node.news).for_each(News::begin);
        }
        model.learn_paths();
        if model.setup.order == Order::Strict {
            model.after(model.setup.tick(), Event::Tick);
        }
        model
    }

    /// Sets the delay of a link, in nanoseconds. What is under way is not overtaken.
    pub fn set_delay(&mut self, node: u16, link: u16, delay: u64) {
        let wire = self.wire(node, link);
        self.wires[wire].delay = delay;
    }

    /// Sets the rate of a link, in bits per second, in one direction, before anything is offered. All nodes know of it.
    pub fn set_rate(&mut self, node: u16, link: u16, rate: u64) {
        let number = self.wire(node, link);
        self.wires[number].rate = rate;
        self.learn(number);
    }

    /// Cuts or mends a link, in one direction, now. What is under way or waits is lost; the cluster learns of it later.
    pub fn set_link(&mut self, node: u16, link: u16, up: bool) {
        let number = self.wire(node, link);
        let wire = &mut self.wires[number];
        wire.up = up;
        if !up {
            let frames: Vec<u32> = wire.drain().collect();
            frames.into_iter().for_each(|frame| self.lose(frame, Loss::LinkDown));
        }
        self.begin_to_tell();
        self.after(self.setup.detection, Event::Learn(number as u32));
    }

    /// Takes all links of a node down, or up again. In a fly it begins a new life then.
    pub fn set_node(&mut self, changed: u16, up: bool) {
        let topology = self.setup.topology;
        if up {
            self.next_life(changed);
        }
        for node in 0..topology.nodes() {
            for link in 0..topology.radix() {
                let peer = topology.peer(node, link);
                if node != peer && (node == changed || peer == changed) {
                    self.set_link(node, link, up);
                }
            }
        }
    }

    /// A packet comes in at its time `at`, which is not before that of the one offered before.
    pub fn offer(&mut self, packet: Packet) {
        self.run_until(packet.at);
        self.totals.offered += 1;
        let source = self.setup.node_of(packet.input);
        let node = self.setup.node_of(packet.output);
        let frame =
            Frame { packet, source, node, sequence: 0, path: 0, phase: Phase::ToOutput, is_marker: false };
        if source == node {
            let frame = self.keep(frame);
            self.queue_on_line(frame);
            return;
        }
        let flow = (crate::random::mix(packet.flow) >> 32) as u32;
        let chooser = &mut self.nodes[usize::from(source)].chooser;
        chooser.advance(self.now);
        let Some(link) = chooser.choose(node, packet.len, flow) else {
            self.totals.lose(Loss::Unreachable);
            return;
        };
        self.depart(frame, link);
    }

    /// Lets time pass.
    pub fn run_until(&mut self, now: u64) {
        while let Some(&Reverse((at, _, event))) = self.events.peek().filter(|Reverse((at, ..))| *at <= now) {
            self.events.pop();
            self.now = at;
            self.handle(event);
        }
        self.now = self.now.max(now);
    }

    /// What was delivered since the last call: when the last bit left, and what.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, Packet)> {
        self.delivered.drain(..)
    }

    /// What happened so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Packets that are neither delivered nor lost.
    pub fn inside(&self) -> u64 {
        let markers = self.totals.markers - self.totals.markers_gone;
        (self.frames.len() - self.free.len()) as u64 - markers
    }

    /// Packets that wait in resequencers.
    pub fn held(&self) -> usize {
        self.nodes.iter().map(Node::held).sum()
    }

    fn wire(&self, node: u16, link: u16) -> usize {
        usize::from(node) * usize::from(self.setup.topology.radix()) + usize::from(link)
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((self.now.saturating_add(delay), self.made, event)));
    }

    fn keep(&mut self, frame: Frame) -> u32 {
        if let Some(number) = self.free.pop() {
            self.frames[number as usize] = frame;
            return number;
        }
        self.frames.push(frame);
        (self.frames.len() - 1) as u32
    }

    fn lose(&mut self, frame: u32, loss: Loss) {
        if self.frames[frame as usize].is_marker {
            self.totals.markers_gone += 1;
        } else {
            self.totals.lose(loss);
        }
        self.free.push(frame);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { wire, frame } => self.arrive(wire, frame),
            Event::WireFree(wire) => {
                self.wires[wire as usize].is_busy = false;
                self.start_wire(wire as usize);
            }
            Event::LineFree { line, frame } => {
                let packet = self.frames[frame as usize].packet;
                self.free.push(frame);
                self.totals.delivered += 1;
                self.totals.delay = self.totals.delay.max(self.now - packet.at);
                self.delivered.push((self.now, packet));
                self.lines[line as usize].is_busy = false;
                self.start_line(line as usize);
            }
            Event::Tick => self.tick(),
            Event::Learn(wire) => self.learn(wire as usize),
            Event::Tell => self.tell(),
            Event::Told(number) => self.told(number),
        }
    }

    /// A packet leaves its input node by a link.
    fn depart(&mut self, mut frame: Frame, link: u16) {
        let source = frame.source;
        let topology = self.setup.topology;
        let direct = topology.is_mesh() && link == frame.node;
        frame.phase = if direct { Phase::ToOutput } else { Phase::ToRelay };
        frame.path = link;
        let wire = self.wire(source, link);
        if !frame.is_marker {
            if !self.wires[wire].admits(&frame) {
                self.totals.lose(Loss::InputFull);
                return;
            }
            // Numbers are given after admission: what is lost before leaves no gap.
            let numbers = &mut self.nodes[usize::from(source)].numbers[usize::from(frame.node)];
            frame.sequence = numbers.number(usize::from(link), self.now);
            self.totals.relayed += u64::from(!direct);
            self.totals.crossed += 1;
        }
        let kept = self.keep(frame);
        self.queue_on_wire(wire, kept, Loss::InputFull);
    }

    fn queue_on_wire(&mut self, wire: usize, frame: u32, loss: Loss) {
        if !self.wires[wire].up {
            self.lose(frame, Loss::LinkDown);
        } else if self.wires[wire].push(&self.frames[frame as usize], frame) {
            self.start_wire(wire);
        } else {
            self.lose(frame, loss);
        }
    }

    fn start_wire(&mut self, number: usize) {
        let wire = &mut self.wires[number];
        if wire.is_busy {
            return;
        }
        let Some((len, frame)) = wire.pop() else { return };
        wire.is_busy = true;
        let sent = self.now + self.setup.time(len, wire.rate);
        wire.last_arrival = wire.last_arrival.max(sent + wire.delay);
        let arrival = wire.last_arrival;
        self.after(sent - self.now, Event::WireFree(number as u32));
        self.after(arrival - self.now, Event::Arrive { wire: number as u32, frame });
    }

    fn arrive(&mut self, wire: u32, number: u32) {
        let wire = &self.wires[wire as usize];
        let here = wire.to;
        if !wire.up {
            self.lose(number, Loss::LinkDown);
            return;
        }
        let topology = self.setup.topology;
        let frame = &mut self.frames[number as usize];
        if frame.phase == Phase::ToRelay && topology.is_relay(here) {
            frame.phase = Phase::ToOutput;
        }
        let frame = *frame;
        if frame.node == here && frame.phase == Phase::ToOutput {
            self.terminate(number);
            return;
        }
        let link = if frame.phase == Phase::ToOutput {
            topology.link_towards(here, frame.node)
        } else {
            let node = &mut self.nodes[usize::from(here)];
            match node.transit(frame.node, frame.packet.len) {
                Some(link) => link,
                None => return self.lose(number, Loss::Unreachable),
            }
        };
        self.nodes[usize::from(here)].chooser.relayed(link, frame.packet.len);
        let wire = self.wire(here, link);
        self.queue_on_wire(wire, number, Loss::RelayFull);
    }

    /// A frame is at its output node.
    fn terminate(&mut self, number: u32) {
        let frame = self.frames[number as usize];
        if self.setup.order != Order::Strict {
            self.queue_on_line(number);
            return;
        }
        let mut out = std::mem::take(&mut self.nodes[usize::from(frame.node)].out);
        let stream = &mut self.nodes[usize::from(frame.node)].streams[usize::from(frame.source)];
        let path = if self.setup.topology.is_mesh() { usize::from(frame.path) } else { 0 };
        if frame.is_marker {
            let _ = stream.marker(path, 0, frame.sequence, self.now, &mut out);
            self.totals.markers_gone += 1;
            self.free.push(number);
        } else if stream.accept(path, 0, frame.sequence, number, self.now, &mut out).is_err() {
            self.lose(number, Loss::Resequencer);
        }
        self.totals.most_held = self.totals.most_held.max(stream_held(&self.nodes, &frame));
        self.release(frame.node, out);
    }

    /// Sends on what a resequencer let go.
    fn release(&mut self, node: u16, mut out: Vec<u32>) {
        for frame in out.drain(..) {
            self.queue_on_line(frame);
        }
        self.nodes[usize::from(node)].out = out;
    }

    fn queue_on_line(&mut self, number: u32) {
        let frame = self.frames[number as usize];
        let line = frame.packet.output as usize;
        if self.lines[line].queue.push(frame.source.into(), frame.packet.len, number).is_err() {
            self.lose(number, Loss::OutputFull);
        } else {
            self.start_line(line);
        }
    }

    fn start_line(&mut self, number: usize) {
        let line = &mut self.lines[number];
        if line.is_busy {
            return;
        }
        if let Some((_, len, frame)) = line.queue.pop() {
            line.is_busy = true;
            let time = self.setup.time(len, self.setup.line_rate);
            self.after(time, Event::LineFree { line: number as u32, frame });
        }
    }

    /// Markers on idle paths, deadlines of what waits.
    fn tick(&mut self) {
        let edge = self.setup.topology.edge_nodes();
        for (source, node) in (0..edge).flat_map(|source| (0..edge).map(move |node| (source, node))) {
            if self.setup.topology.is_mesh() && source != node {
                let numbers = &mut self.nodes[usize::from(source)].numbers[usize::from(node)];
                let (links, bits) = (&self.links, u64::from(Setup::MARKER_LEN) * 8);
                let gap = |link: usize| {
                    let link = link as u16;
                    marker_gap(edge, bits, links.rate(source, link).min(links.rate(link, node)))
                };
                let due: Vec<(usize, u32)> = numbers.markers(self.now, self.setup.idle, gap).collect();
                for (link, sequence) in due {
                    self.mark(source, node, link as u16, sequence);
                }
            }
            let mut out = std::mem::take(&mut self.nodes[usize::from(node)].out);
            self.nodes[usize::from(node)].streams[usize::from(source)].poll(self.now, &mut out);
            self.release(node, out);
        }
        self.after(self.setup.tick(), Event::Tick);
    }

    fn mark(&mut self, source: u16, node: u16, link: u16, sequence: u32) {
        if link == source || (self.links.rate(source, link) == 0) {
            return;
        }
        self.totals.markers += 1;
        let packet = Packet { input: 0, output: 0, len: Setup::MARKER_LEN, flow: 0, number: 0, at: self.now };
        let phase = Phase::ToRelay;
        let frame = Frame { packet, source, node, sequence, path: link, phase, is_marker: true };
        self.depart(frame, link);
    }

    /// The cluster learns what a wire is like now.
    fn learn(&mut self, wire: usize) {
        let radix = usize::from(self.setup.topology.radix());
        let (node, link) = ((wire / radix) as u16, (wire % radix) as u16);
        if !self.setup.topology.is_mesh() {
            self.links.set(node, link, self.wires[wire].rate);
            return self.find_link(node, self.setup.topology.peer(node, link));
        }
        let rate = if self.wires[wire].up { self.wires[wire].rate } else { 0 };
        if self.links.rate(node, link) != rate {
            self.links.set(node, link, rate);
            self.learn_paths();
        }
    }

    /// Tells all nodes what paths there are.
    fn learn_paths(&mut self) {
        let edge = self.setup.topology.edge_nodes();
        for number in 0..self.setup.topology.nodes() {
            match self.setup.topology.is_mesh() {
                true => self.nodes[usize::from(number)].learn(&self.setup, &self.links, number),
                false => self.learn_at(number),
            }
        }
        if self.setup.order != Order::Strict || !self.setup.topology.is_mesh() {
            return;
        }
        for (source, node) in (0..edge).flat_map(|source| (0..edge).map(move |node| (source, node))) {
            let weights = self.links.weights(source, node);
            let mut out = std::mem::take(&mut self.nodes[usize::from(node)].out);
            let stream = &mut self.nodes[usize::from(node)];
            stream.learn_stream(source, &weights, &mut out);
            self.release(node, out);
        }
    }
}

fn stream_held(nodes: &[Node], frame: &Frame) -> usize {
    nodes[usize::from(frame.node)].streams[usize::from(frame.source)].held()
}
