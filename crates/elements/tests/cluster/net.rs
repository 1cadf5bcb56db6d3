//! A cluster in one process: a whole graph for each node, wires between their memory ports, one simulated time.

use elements::harness::{Names, flatten};
use fib::{Interface, InterfaceChange, Interfaces};
use graph::{Clock, Engine, Options, Router, SIMULATED_START, Tables};
use io::memory::{MemoryDevices, MemoryPort};
use io::{Devices, Limits};
use lang::render;
use packet::Pool;
use packet::wire::ipv4;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

pub const MS: u64 = 1_000_000;

/// What a cluster is made of.
#[derive(Clone)]
pub struct Setup {
    /// `NODES 4`, `FLY "2 2"`.
    pub shape: &'static str,
    pub nodes: u16,
    /// Nodes with lines.
    pub edge: u16,
    pub ports: u16,
    /// Bits per second.
    pub line_rate: u64,
    pub order: &'static str,
    /// More arguments.
    pub more: &'static str,
    /// The node at the end of each link of a node.
    pub links: fn(u16, u16) -> Vec<u16>,
    /// Nodes below this have twins of all lines: they can be the control node.
    pub candidates: u16,
    /// Kinds of tags that each line has ([`TAGS`]): interface `i` is of kind `i` / lines on line `i` % lines.
    pub kinds: u16,
}

/// Tags of frames, and as `FindInterface` writes them: none, one, and two.
pub const TAGS: [(&[u8], &str); 3] =
    [(&[], "-"), (&[0x81, 0, 0, 100], "100"), (&[0x88, 0xA8, 0, 7, 0x81, 0, 0, 5], "ad:7.5")];

impl Setup {
    pub fn mesh(nodes: u16, order: &'static str) -> Setup {
        let shape = match nodes {
            2 => "NODES 2",
            3 => "NODES 3",
            4 => "NODES 4",
            5 => "NODES 5",
            8 => "NODES 8",
            _ => panic!("no such shape"),
        };
        let links = |me, nodes| (0..nodes).filter(|&n| n != me).collect();
        Setup {
            shape,
            nodes,
            edge: nodes,
            ports: 1,
            line_rate: 100_000_000,
            order,
            more: "",
            links,
            candidates: 1,
            kinds: 1,
        }
    }

    /// Lines of the cluster.
    pub fn lines(&self) -> u16 {
        self.edge * self.ports
    }

    /// Lines and VLANs.
    pub fn interfaces(&self) -> u16 {
        self.lines() * self.kinds
    }

    /// The tags of an interface.
    fn tags(&self, interface: u16) -> &'static [u8] {
        TAGS[usize::from(interface / self.lines())].0
    }
}

/// One node.
pub struct Node {
    pub router: Router,
    tables: Tables,
    engine: Engine,
    clock: Arc<Clock>,
    devices: Arc<MemoryDevices>,
    up: bool,
}

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
    /// Bytes of packets that links have carried, by the nodes at their ends, input node, and whether on the last way.
    pub carried: HashMap<(u16, u16, u16, bool), u64>,
}

/// A network behind each interface, as arguments.
fn routes(setup: &Setup) -> String {
    let routes = (0..setup.interfaces()).map(|i| format!("10.{i}.0.0/16 192.168.{i}.1 {i}"));
    routes.collect::<Vec<_>>().join(", ")
}

/// The neighbours that lead there.
fn neighbours(setup: &Setup) -> String {
    let next = |i| format!("{i} 192.168.{i}.1 2:0:0:0:{i:x}:1 2:0:0:0:{i:x}:2");
    (0..setup.interfaces()).map(next).collect::<Vec<_>>().join(", ")
}

/// The VLANs, each with a comma before it. The outer tag of two is one of its own.
fn vlans(setup: &Setup) -> String {
    let lines = setup.lines();
    let vlans = (lines..setup.interfaces()).map(|i| {
        let (line, (_, tags)) = (i % lines, TAGS[usize::from(i / lines)]);
        format!(", {i} v{i} {line} {tags} 2:2:2:2:2:2")
    });
    let outer = (0..lines).filter(|_| setup.kinds > 2);
    let outer = outer.map(|line| format!(", {} o{line} {line} ad:7 2:2:2:2:2:2", setup.interfaces() + line));
    vlans.chain(outer).collect()
}

/// The configuration of one node.
pub fn config(setup: &Setup, me: u16, incarnation: u8) -> String {
    let lines = if me < setup.edge { setup.ports } else { 0 };
    let links = (setup.links)(me, setup.nodes);
    let mut text = format!(
        "cluster :: ClusterSwitch(NODE {me}, {}, PORTS {}, LINE_RATE {}bps, ORDER {}, INCARNATION {incarnation}, INTERFACES main{});\n",
        setup.shape, setup.ports, setup.line_rate, setup.order, setup.more
    );
    let all = setup.lines();
    let _ = writeln!(text, "wrapped :: Null -> [{}] cluster;", links.len() + 1);
    let is_candidate = me < setup.candidates;
    if is_candidate {
        for line in 0..all {
            let output = usize::from(lines) + links.len() + usize::from(line);
            let _ = writeln!(
                text,
                "twin{line} :: Null -> ToDPDKDevice(twin{line}); cluster[{output}] -> twin{line};
                 FromDPDKDevice(twin{line}) -> ClusterWrap(cluster, LINE {line}) -> wrapped;"
            );
        }
    }
    if me != 0 && lines == 0 {
        text.push_str("Idle -> wrapped;\n");
    }
    let (routes, next, vlans) = (routes(setup), neighbours(setup), vlans(setup));
    if lines == 0 {
        text.push_str("Idle -> [0] cluster;\n");
    }
    for port in 0..lines {
        let line = me * setup.ports + port;
        let _ = write!(
            text,
            "FromDPDKDevice(line{port}) -> class{port} :: Classifier(12/0800, 12/8100, 12/88a8, -);
             class{port}[0] -> CheckIPHeader(OFFSET 14) -> rt{port} :: DirectIPLookup({routes}, ONE_OUTPUT true)
               -> AdjacencyRewrite(rt{port}, {next}, ADJACENCIES main, INTERFACES main, ONE_OUTPUT true) -> [0] cluster;
             class{port}[1], class{port}[2] -> vlan{port} :: FindInterface(PORT {line}, INTERFACES main{vlans});
             vlan{port}[0] -> CheckIPHeader(OFFSET 18) -> rt{port}; vlan{port}[2] -> CheckIPHeader(OFFSET 22) -> rt{port};
             vlan{port}[1], vlan{port}[3] -> Discard; vlan{port}[4] -> others{port} :: Null; class{port}[3] -> others{port};
             cluster[{port}] -> ToDPDKDevice(line{port});\n",
        );
        if is_candidate {
            let _ = writeln!(
                text,
                "others{port} -> punt{port} :: Switch({}); punt{port}[0] -> twin{line}; punt{port}[1] -> ClusterWrap(cluster, LINE {line}) -> wrapped;",
                u8::from(me != 0)
            );
        } else {
            let _ = writeln!(text, "others{port} -> ClusterWrap(cluster, LINE {line}) -> wrapped;");
        }
    }
    for (place, peer) in links.iter().enumerate() {
        let _ = writeln!(
            text,
            "FromDPDKDevice(to{peer}) -> [{}] cluster; cluster[{}] -> ToDPDKDevice(to{peer});",
            place + 1,
            place + usize::from(lines)
        );
    }
    text
}

impl Node {
    pub fn new(setup: &Setup, me: u16, incarnation: u8, now: u64) -> Node {
        let text = config(setup, me, incarnation);
        let mut names: Vec<String> = (0..setup.ports).map(|port| format!("line{port}")).collect();
        names.extend((setup.links)(me, setup.nodes).iter().map(|peer| format!("to{peer}")));
        names.extend((0..setup.edge * setup.ports).map(|line| format!("twin{line}")));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let limits = Limits { rx_queues: 1, tx_queues: 1 };
        let devices = Arc::new(MemoryDevices::new(Pool::heap(1 << 16, 2048), &names, limits));
        let (flat, sources) = flatten(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let clock = Arc::new(Clock::simulated(now));
        let tables = Tables::new();
        let options = Options {
            workers: 1,
            burst: 32,
            clock: clock.clone(),
            devices: devices.clone(),
            tables: tables.clone(),
        };
        let router = Router::new(flat, &elements::classes(), &options);
        let router = router.unwrap_or_else(|d| panic!("{}\n{text}", render(&d, &sources, false)));
        let mut engine = router.engines().remove(0);
        engine.start();
        let _ = Names;
        Node { router, tables, engine, clock, devices, up: true }
    }

    pub fn port(&self, name: &str) -> Arc<MemoryPort> {
        self.devices.memory(name).unwrap()
    }

    pub fn inject(&self, port: &str, frame: &[u8]) {
        assert!(self.port(port).inject(&self.devices.pool(), 0, frame));
    }

    /// Interfaces are from now on what `change` makes of each.
    pub fn set_interfaces(&self, change: impl Fn(Interface) -> Option<Interface>) {
        let all = self.tables.get_or("main", || Interfaces::new(1));
        let (known, ()) = all.snapshot(drop);
        let changed = known.into_iter().map(|one| InterfaceChange { now: one.now.and_then(&change), ..one });
        all.change(changed.collect());
    }

    pub fn read(&self, handler: &str) -> String {
        self.router.read("cluster", handler, "").unwrap()
    }

    /// Losses that are not 0.
    pub fn losses(&self) -> Vec<(String, u64)> {
        let rows = self.router.loss_rows();
        let rows = rows.iter().filter(|row| row.packets > 0);
        rows.map(|row| (format!("{}.{}", row.element, row.reason), row.packets)).collect()
    }

    /// Packets in the graph: with what made = gone + lost + held says.
    pub fn held(&self) -> u64 {
        let (made, gone, lost) = self.router.balance();
        made - gone - lost
    }

    /// Runs until there is nothing to do; gives the time of the next timer.
    fn run(&mut self) -> u64 {
        for _ in 0..10_000 {
            let round = self.engine.round();
            if !round.useful {
                return round.next_timer.unwrap_or(u64::MAX);
            }
        }
        panic!("it does not come to rest");
    }
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
            carried: HashMap::new(),
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
        let frame = |ttl: u8, header: [u8; 12], tags: &[u8]| {
            let mut frame = header.to_vec();
            frame.extend(tags);
            frame.extend([8, 0]);
            let mut ip =
                vec![0x45, 0, 0, 0, 0, 0, 0, 0, ttl, 17, 0, 0, 10, input as u8, 9, 9, 10, output as u8, 0, 7];
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
        self.sent.push(Sent { input, output, flow, number, frame: out, at: self.now, delivered: false });
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
            node.clock.advance(now);
            next = next.min(node.run());
        }
        for wire in &mut self.wires {
            let node = &self.nodes[usize::from(wire.from)];
            for frame in node.port(&format!("to{}", wire.to)).sent() {
                if is_data(&frame) {
                    let source = u16::from(frame[6] >> 2) << 6 | u16::from(frame[7] >> 2);
                    let key = (wire.from, wire.to, source, frame[0] & 0b10_0000 != 0);
                    *self.carried.entry(key).or_default() += frame.len() as u64;
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
            Some(&last) if last > sent.number => self.reordered += 1,
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
            assert_eq!(node.held(), node.devices.pool().in_use() as u64, "node {number}");
            assert_eq!(node.held(), 0, "node {number}");
        }
    }
}

/// A packet on an internal link, neither hello nor marker.
fn is_data(frame: &[u8]) -> bool {
    frame[12..14] != [0x88, 0xB6]
}
