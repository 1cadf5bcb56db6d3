//! A cluster in one process: wires between the ports of its nodes, one simulated time.

use crate::node::Node;
use crate::setup::{Setup, TAGS};
use graph::SIMULATED_START;
use packet::wire::ipv4;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash};

pub const MS: u64 = 1_000_000;

/// A link, in one direction.
pub struct Wire {
    pub from: u16,
    pub to: u16,
    pub up: bool,
    /// Nanoseconds.
    pub delay: u64,
    under_way: VecDeque<(u64, Vec<u8>)>,
}

/// A packet that was offered, between two interfaces.
#[derive(Clone)]
pub struct Sent {
    pub input: u16,
    pub output: u16,
    pub flow: u16,
    number: u32,
    /// What is to come out.
    frame: Vec<u8>,
    at: u64,
    delivered: bool,
    /// It came out after a later one of its flow.
    is_late: bool,
}

impl Sent {
    pub fn is_delivered(&self) -> bool {
        self.delivered
    }

    pub fn is_late(&self) -> bool {
        self.is_late
    }
}

/// The cluster, and what was sent through it.
pub struct Net {
    pub setup: Setup,
    pub nodes: Vec<Node>,
    pub wires: Vec<Wire>,
    pub now: u64,
    pub sent: Vec<Sent>,
    /// By input, output and flow: the number of the last packet that came out, and the next to go in.
    last: HashMap<(u16, u16, u16), u32>,
    next: HashMap<(u16, u16, u16), u32>,
    pub delivered: usize,
    /// Packets that came out after a later one of their flow.
    pub reordered: usize,
    /// Packets, not hellos and markers, that were on a wire when it was cut or its end was down.
    pub cut: usize,
    /// Per line: what came out, in bytes, by input line.
    pub bytes: HashMap<(u16, u16), u64>,
    /// When something came out by each pair of lines last, and the longest time between two.
    pub gaps: HashMap<(u16, u16), (u64, u64)>,
    /// Frames that came out of twins: line, and node from bit 8 on; frame.
    pub twins: Vec<(u16, Vec<u8>)>,
    /// Changes frames on wires before they arrive.
    pub tamper: Option<fn(&mut Vec<u8>)>,
    pub relayed: usize,
    /// Of each packet that an input node put on a link: that node, flow, and the node at the end of the link.
    pub first_ways: Vec<(u16, u16, u16)>,
    /// The code point of packets of each flow, in turn.
    pub codes: [u8; 4],
    /// Bytes of packets that links have carried, by the nodes at their ends, input node, and whether on the last way.
    pub carried: HashMap<(u16, u16, u16, bool), u64>,
    /// All frames that links have carried, and when.
    pub transcript: DefaultHasher,
}

impl Net {
    /// All nodes, with links that have been found to be up.
    pub fn new(setup: Setup) -> Net {
        let now = SIMULATED_START;
        let nodes: Vec<Node> = (0..setup.nodes).map(|me| Node::new(&setup, me, 1, now)).collect();
        let wire = |from, to| Wire { from, to, up: true, delay: 20_000, under_way: VecDeque::new() };
        let wires = (0..setup.nodes)
            .flat_map(|from| (setup.links)(from, setup.nodes).into_iter().map(move |to| wire(from, to)))
            .collect();
        let mut net = Net {
            nodes,
            wires,
            now,
            setup,
            sent: Vec::new(),
            last: HashMap::new(),
            next: HashMap::new(),
            delivered: 0,
            reordered: 0,
            cut: 0,
            bytes: HashMap::new(),
            gaps: HashMap::new(),
            twins: Vec::new(),
            tamper: None,
            relayed: 0,
            first_ways: Vec::new(),
            codes: [0; 4],
            carried: HashMap::new(),
            transcript: DefaultHasher::new(),
        };
        net.run_for(30 * MS);
        net
    }

    pub fn wire(&mut self, from: u16, to: u16) -> &mut Wire {
        self.wires.iter_mut().find(|w| (w.from, w.to) == (from, to)).unwrap()
    }

    /// Cuts or mends a link, both ways.
    pub fn set_link(&mut self, a: u16, b: u16, up: bool) {
        for (from, to) in [(a, b), (b, a)] {
            let wire = self.wire(from, to);
            wire.up = up;
            let lost = wire.under_way.drain(..).filter(|(_, frame)| is_data(frame)).count();
            self.cut += lost;
        }
    }

    /// Kills a node: what is in it is gone. Gives how many packets that were.
    pub fn kill(&mut self, node: u16) {
        self.nodes[usize::from(node)].up = false;
        for wire in self.wires.iter_mut().filter(|wire| wire.from == node) {
            self.cut += wire.under_way.drain(..).filter(|(_, frame)| is_data(frame)).count();
        }
    }

    /// Starts a node anew.
    pub fn restart(&mut self, node: u16, incarnation: u8) {
        self.nodes[usize::from(node)] = Node::new(&self.setup, node, incarnation, self.now);
    }

    /// A packet of `len` bytes, tags not counted, comes in by an interface.
    pub fn offer(&mut self, input: u16, output: u16, flow: u16, len: usize) {
        let id = self.sent.len() as u32;
        let next = self.next.entry((input, output, flow)).or_default();
        let number = *next;
        *next += 1;
        let class = self.codes[usize::from(flow % 4)] << 2;
        let frame = |ttl: u8, header: [u8; 12], tags: &[u8]| {
            let mut frame = header.to_vec();
            frame.extend(tags);
            frame.extend([8, 0]);
            let mut ip = vec![
                0x45,
                class,
                0,
                0,
                0,
                0,
                0,
                0,
                ttl,
                17,
                0,
                0,
                10,
                input as u8,
                9,
                9,
                10,
                output as u8,
                0,
                7,
            ];
            ip[2..4].copy_from_slice(&((len - 14) as u16).to_be_bytes());
            ipv4::set_checksum(&mut ip);
            frame.extend(ip);
            frame.extend(flow.to_be_bytes());
            frame.extend([0, 53, 0, 0, 0, 0]);
            frame.extend(id.to_be_bytes());
            frame.resize(len + tags.len(), 0xA5);
            frame
        };
        let to = output as u8;
        let out = frame(63, [2, 0, 0, 0, to, 2, 2, 0, 0, 0, to, 1], self.setup.tags(output));
        let line = input % self.setup.lines();
        let (node, port) = (line / self.setup.ports, line % self.setup.ports);
        let come = frame(64, [2; 12], self.setup.tags(input));
        self.nodes[usize::from(node)].inject(&format!("line{port}"), &come);
        self.sent.push(Sent {
            input,
            output,
            flow,
            number,
            frame: out,
            at: self.now,
            delivered: false,
            is_late: false,
        });
    }

    /// Runs at the present time: whatever can be done is done.
    fn settle(&mut self) -> u64 {
        let now = self.now;
        for wire in &mut self.wires {
            while let Some((_, mut frame)) = wire.under_way.pop_front_if(|(at, _)| *at <= now) {
                let node = &self.nodes[usize::from(wire.to)];
                if node.up {
                    if let Some(tamper) = self.tamper {
                        tamper(&mut frame);
                    }
                    node.inject(&format!("to{}", wire.from), &frame);
                } else {
                    self.cut += usize::from(is_data(&frame));
                }
            }
        }
        let mut next = u64::MAX;
        for node in self.nodes.iter_mut().filter(|node| node.up) {
            next = next.min(node.run(now));
        }
        for wire in &mut self.wires {
            let node = &self.nodes[usize::from(wire.from)];
            for frame in node.port(&format!("to{}", wire.to)).sent() {
                (now, wire.from, wire.to, &frame).hash(&mut self.transcript);
                if is_data(&frame) {
                    let key = (wire.from, wire.to, source(&frame), frame[0] & 0b10_0000 != 0);
                    *self.carried.entry(key).or_default() += frame.len() as u64;
                    if key.2 == wire.from && frame[12..14] == [8, 0] {
                        let flow = u16::from_be_bytes([frame[34], frame[35]]);
                        self.first_ways.push((wire.from, flow, wire.to));
                    }
                }
                if wire.up && node.up {
                    self.relayed += usize::from(is_data(&frame) && frame[0] & 0b10_0000 == 0);
                    let last = wire.under_way.back().map_or(0, |(at, _)| *at);
                    wire.under_way.push_back(((now + wire.delay).max(last), frame));
                } else {
                    self.cut += usize::from(is_data(&frame));
                }
            }
            next = next.min(wire.under_way.front().map_or(u64::MAX, |(at, _)| *at));
        }
        self.take_out();
        next
    }

    /// Looks at what came out.
    fn take_out(&mut self) {
        for node in 0..self.setup.edge {
            for port in 0..self.setup.ports {
                let frames = self.nodes[usize::from(node)].port(&format!("line{port}")).sent();
                frames.into_iter().for_each(|frame| self.came_out(node * self.setup.ports + port, &frame));
            }
        }
        for line in 0..self.setup.edge * self.setup.ports {
            for node in 0..self.setup.candidates {
                let frames = self.nodes[usize::from(node)].port(&format!("twin{line}")).sent();
                self.twins.extend(frames.into_iter().map(|frame| (line | node << 8, frame)));
            }
        }
    }

    fn came_out(&mut self, line: u16, frame: &[u8]) {
        let packet = TAGS.iter().find_map(|(tags, _)| frame[12..].strip_prefix(*tags)?.strip_prefix(&[8, 0]));
        let Some(packet) = packet else {
            self.twins.push((line | 0x8000, frame.to_vec()));
            return;
        };
        let id = u32::from_be_bytes(*packet[28..].first_chunk().unwrap());
        let sent = &mut self.sent[id as usize];
        assert_eq!((sent.output % self.setup.lines(), sent.delivered), (line, false), "packet {id}");
        assert_eq!(sent.frame, frame, "packet {id}");
        sent.delivered = true;
        self.delivered += 1;
        let key = (sent.input, sent.output, sent.flow);
        match self.last.get(&key) {
            Some(&last) if last > sent.number => {
                sent.is_late = true;
                self.reordered += 1;
            }
            _ => {
                self.last.insert(key, sent.number);
            }
        }
        *self.bytes.entry((sent.output, sent.input)).or_default() += frame.len() as u64;
        let (last, gap) = self.gaps.entry((sent.input, sent.output)).or_insert((self.now, 0));
        *gap = (*gap).max(self.now - *last);
        *last = self.now;
    }

    /// Lets time pass.
    pub fn run_for(&mut self, nanos: u64) {
        self.run_until(self.now + nanos);
    }

    pub fn run_until(&mut self, end: u64) {
        loop {
            let next = self.settle().max(self.now + 1);
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
    }

    /// All losses of all nodes that are up, by name.
    pub fn losses(&self) -> HashMap<String, u64> {
        let mut all = HashMap::new();
        for node in self.nodes.iter().filter(|node| node.up) {
            for (name, packets) in node.losses() {
                *all.entry(name).or_default() += packets;
            }
        }
        all
    }

    /// The oldest packet that is neither delivered nor known to be lost.
    pub fn undelivered(&self) -> usize {
        self.sent.iter().filter(|sent| !sent.delivered).count()
    }

    /// Packets offered from `at` on that were not delivered.
    pub fn undelivered_since(&self, at: u64) -> usize {
        self.sent.iter().filter(|sent| !sent.delivered && sent.at >= at).count()
    }

    /// Nothing is held, and no buffer is missing.
    pub fn check_books(&self) {
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.up) {
            assert_eq!(node.held(), node.buffers(), "node {number}");
            assert_eq!(node.held(), 0, "node {number}");
        }
    }
}

/// The input node of a frame on an internal link.
pub fn source(frame: &[u8]) -> u16 {
    u16::from(frame[6] >> 2) << 6 | u16::from(frame[7] >> 2)
}

pub fn is_hello(frame: &[u8]) -> bool {
    !is_data(frame) && frame[14] == 1
}

/// A packet on an internal link, neither hello nor marker.
fn is_data(frame: &[u8]) -> bool {
    frame[12..14] != [0x88, 0xB6]
}
