//! The arguments of `ClusterSwitch`.

use super::classes::Classes;
use super::rates::{LEAST, Rates};
use cluster::header::{Header, INCARNATIONS, Phase, WORKERS};
use cluster::path::{Order, Policy};
use cluster::topology::Topology;
use graph::{ArgError, Args, FromArg, Text};
use lang::args::{Bandwidth, Words};
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
/// The least δ that is made from what is measured, nanoseconds.
pub const LEAST_GAP: u64 = 10 * MILLISECOND;
/// The largest window, as the resequencer has it.
const MAX_WINDOW: usize = 1 << 21;
/// The usual window, and how much of it there is at least for each node.
const WINDOW: usize = 4096;
const WINDOW_OF_NODE: usize = 1024;
/// Packets that may wait for a link however small the window is.
const LEAST_PACKETS: usize = 32;

/// What a configuration says of a node and its cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node.
    pub me: u16,
    /// Nodes and links.
    pub topology: Topology,
    /// Lines of each node that has lines.
    pub ports: u8,
    /// The nodes at the ends of the links.
    pub links: Vec<u16>,
    /// Rate R of a line, bits per second.
    pub line_rate: u64,
    /// Rate of a link, bits per second, if it does not follow from the number of members.
    pub link_rate: Option<u64>,
    /// Links of other rates, at first.
    pub rates: Rates,
    /// The nodes that there are at first.
    pub members: Vec<u16>,
    /// What order is kept of packets that belong to no class.
    pub order: Order,
    /// The others.
    pub classes: Classes,
    /// The rule for paths.
    pub policy: Policy,
    /// The node whose Linux is the control plane, at first.
    pub control: u16,
    /// Which life of the node this is.
    pub incarnation: u8,
    /// Nanoseconds between hellos.
    pub hello: u64,
    /// Workers of a node, at most.
    pub workers: u8,
    /// Numbers in the window of a resequencer.
    pub window: usize,
    /// The least deadline of resequencers, nanoseconds.
    pub deadline: u64,
    /// δ of flowlets, nanoseconds; 0 = from what is measured.
    pub gap: u64,
    /// Bytes that may wait for a link or line, for each input node.
    pub buffer: u32,
}

/// A rule or an order, by its name.
pub struct Named<T>(pub T);

/// What an order is called.
pub fn order_name(order: Order) -> &'static str {
    match order {
        Order::Strict => "strict",
        Order::Flowlet => "flowlet",
        Order::Spray => "spray",
        Order::SinglePath => "single-path",
    }
}

impl FromArg for Named<Order> {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        let orders = [Order::Strict, Order::Flowlet, Order::Spray, Order::SinglePath];
        let found = orders.into_iter().find(|order| order_name(*order) == arg.text.trim());
        found.map(Named).ok_or_else(|| ArgError::new("not one of strict, flowlet, spray, single-path"))
    }

    fn placeholder() -> Self {
        Named(Order::Strict)
    }
}

impl FromArg for Named<Policy> {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        match arg.text.trim() {
            "adaptive" => Ok(Named(Policy::Adaptive)),
            "direct-vlb" => Ok(Named(Policy::DirectVlb)),
            "vlb" => Ok(Named(Policy::Vlb)),
            "flow-hash" => Ok(Named(Policy::FlowHash)),
            _ => Err(ArgError::new("not one of adaptive, direct-vlb, vlb, flow-hash")),
        }
    }

    fn placeholder() -> Self {
        Named(Policy::Adaptive)
    }
}

/// Numbers with spaces between them.
struct Numbers(Vec<u16>);

impl FromArg for Numbers {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        let mut words = Words::new(arg);
        let mut numbers = Vec::new();
        while words.peek().is_some() {
            numbers.push(words.take("node")?);
        }
        Ok(Numbers(numbers))
    }

    fn placeholder() -> Self {
        Numbers(Vec::new())
    }
}

impl Settings {
    /// Reads all arguments; mistakes are noted in `args`.
    pub fn read(args: &mut Args) -> Settings {
        let me = args.required_keyword("NODE");
        let topology = topology(args);
        if me >= topology.nodes() {
            args.error("NODE", format!("no node {me}, there are {}", topology.nodes()));
        }
        let ports = number(args, "PORTS", 1, 1, u8::MAX);
        let links = links(args, &topology, me);
        let Bandwidth(line_rate) = args.required_keyword("LINE_RATE");
        let line_rate = line_rate.saturating_mul(8);
        if line_rate < LEAST {
            args.error("LINE_RATE", "less than 1 kB/s");
        }
        let (link_rate, rates) = Rates::read(args, &topology, me, &links);
        let members = args.keyword_if_given("MEMBERS").map(|Numbers(given)| given);
        let members = members.unwrap_or_else(|| (0..topology.nodes()).collect());
        if let Err(e) = check_members(&members, &topology, me) {
            args.error("MEMBERS", e);
        }
        let control = args.keyword("CONTROL", 0);
        if control >= topology.edge_nodes() {
            args.error(
                "CONTROL",
                format!("no node with lines {control}, there are {}", topology.edge_nodes()),
            );
        }
        let Named(order) = args.keyword("ORDER", Named(Order::Strict));
        let classes = Classes::read(args);
        let Named(policy) = args.keyword("POLICY", Named(Policy::Adaptive));
        let incarnation = number(args, "INCARNATION", 0, 0, INCARNATIONS - 1);
        let hello = nanoseconds(args, "HELLO", 5 * MILLISECOND);
        if hello < MILLISECOND {
            args.error("HELLO", "less than 1 ms");
        }
        let of_nodes = WINDOW_OF_NODE * usize::from(topology.edge_nodes());
        let usual_window = of_nodes.clamp(WINDOW, MAX_WINDOW);
        Settings {
            me,
            topology,
            ports,
            links,
            line_rate,
            link_rate,
            rates,
            members,
            order,
            classes,
            policy,
            control,
            incarnation,
            hello,
            workers: number(args, "WORKERS", 1, 1, WORKERS),
            window: number(args, "WINDOW", usual_window, 2, MAX_WINDOW),
            deadline: nanoseconds(args, "DEADLINE", 20 * MILLISECOND),
            gap: nanoseconds(args, "GAP", cluster::flowlet::PAPER_GAP),
            buffer: number(args, "BUFFER", 256_000, 1 << 14, 1 << 30),
        }
    }

    /// Packets of an input node that may wait for a link. A relay has 1/N of what a node sends another for the second way, so
    /// that N times as many numbers pass while so many wait: half of those that a resequencer can look ahead.
    pub fn link_packets(&self) -> usize {
        let nodes = usize::from(self.topology.edge_nodes());
        match self.has(Order::Strict) {
            true => (self.window / (2 * nodes)).max(LEAST_PACKETS),
            false => usize::MAX,
        }
    }

    /// Whether the packets of any class are kept in this order.
    pub fn has(&self, order: Order) -> bool {
        self.order == order || self.classes.list().iter().any(|class| class.order == order)
    }

    /// Reads the numbers of nodes, which can be all that there are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read_members(&self, text: &str) -> Result<Vec<u16>, String> {
        let numbers: Result<Vec<u16>, _> = text.split_whitespace().map(str::parse).collect();
        let members = numbers.map_err(|_| "numbers of nodes are wanted, such as 0 1 2".to_owned())?;
        check_members(&members, &self.topology, self.me)?;
        Ok(members)
    }

    /// Lines of this node.
    pub fn own_lines(&self) -> u8 {
        if self.me < self.topology.edge_nodes() { self.ports } else { 0 }
    }

    /// The number of this node's first line in the whole cluster.
    pub fn first_line(&self) -> u32 {
        u32::from(self.me) * u32::from(self.ports)
    }

    /// Lines of the whole cluster.
    pub fn all_lines(&self) -> usize {
        usize::from(self.topology.edge_nodes()) * usize::from(self.ports)
    }

    /// The node and port that a line is.
    pub fn line(&self, line: u32) -> Option<(u16, u8)> {
        self.topology.line(line, self.ports)
    }

    /// A header of this node for packets to a port of a node.
    pub fn header(&self, node: u16, port: u8, phase: Phase) -> Header {
        let (source, incarnation) = (self.me, self.incarnation);
        Header {
            phase,
            class: 0,
            punt: false,
            node,
            port,
            adjacency: 0,
            source,
            worker: 0,
            incarnation,
            sequence: 0,
        }
    }

    /// The header for whole frames of a line while `control` is the control node: there to the node that has the line, at
    /// others to the control node.
    pub fn whole(&self, line: u32, control: u16) -> Option<Header> {
        let (node, port) = self.line(line)?;
        let (node, port) = if self.me == control { (node, port) } else { (control, 0) };
        Some(Header { punt: true, adjacency: line, ..self.header(node, port, Phase::ToOutput) })
    }

    /// Reads the number of a node that can be the control node.
    ///
    /// # Errors
    /// If it is none.
    pub fn read_control(&self, text: &str) -> Result<u16, String> {
        let edge = self.topology.edge_nodes();
        let node = text.trim().parse().ok().filter(|node| *node < edge);
        node.ok_or_else(|| format!("the number of a node with lines is wanted, 0 to {}", edge - 1))
    }

    /// The first output that is no line and no link.
    pub fn first_twin(&self) -> usize {
        usize::from(self.own_lines()) + self.links.len()
    }
}

/// `NODES` or `FLY`.
fn topology(args: &mut Args) -> Topology {
    let nodes: Option<u16> = args.keyword_if_given("NODES");
    let fly: Option<Numbers> = args.keyword_if_given("FLY");
    let (name, made) = match (nodes, fly) {
        (Some(nodes), None) => ("NODES", Topology::mesh(nodes).map_err(|e| e.to_string())),
        (None, Some(Numbers(fly))) => match fly[..] {
            [radix, columns] => ("FLY", Topology::fly(radix, columns).map_err(|e| e.to_string())),
            _ => ("FLY", Err("two numbers wanted: links out of a node, and columns".to_owned())),
        },
        (Some(_), Some(_)) => ("FLY", Err("either NODES or FLY".to_owned())),
        (None, None) => ("NODE", Err("NODES or FLY is missing".to_owned())),
    };
    made.unwrap_or_else(|message| {
        args.error(name, message);
        Topology::ONE
    })
}

/// Whether these can be the nodes that there are.
fn check_members(members: &[u16], topology: &Topology, me: u16) -> Result<(), String> {
    for (place, node) in members.iter().enumerate() {
        if *node >= topology.nodes() {
            return Err(format!("no node {node}, there are {}", topology.nodes()));
        } else if members[..place].contains(node) {
            return Err(format!("node {node} twice"));
        }
    }
    if members.contains(&me) { Ok(()) } else { Err(format!("without node {me}, which is this one")) }
}

/// The nodes at the ends of the links: those that are given, which must be neighbours, or all.
fn links(args: &mut Args, topology: &Topology, me: u16) -> Vec<u16> {
    let neighbours = if me < topology.nodes() { topology.neighbours(me) } else { Vec::new() };
    let given: Option<Numbers> = args.keyword_if_given("LINKS");
    let Some(Numbers(given)) = given else { return neighbours };
    for (place, node) in given.iter().enumerate() {
        if !neighbours.contains(node) {
            args.error("LINKS", format!("node {node} is no neighbour of this one"));
        } else if given[..place].contains(node) {
            args.error("LINKS", format!("two links to node {node}"));
        }
    }
    given
}

/// A number in a range.
fn number<T: FromArg + PartialOrd + Copy + std::fmt::Display>(
    args: &mut Args,
    name: &'static str,
    default: T,
    least: T,
    most: T,
) -> T {
    let number = args.keyword(name, default);
    if number < least || number > most {
        args.error(name, format!("out of range, {least} to {most}"));
    }
    number
}

fn nanoseconds(args: &mut Args, name: &'static str, default: u64) -> u64 {
    let time = args.keyword(name, Duration::from_nanos(default));
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::testing::errors;

    fn check(arguments: &str, wanted: &[&str]) {
        let text = errors(&format!("Idle -> s :: ClusterSwitch({arguments}) -> Discard;"));
        for wanted in wanted {
            assert!(text.contains(wanted), "no '{wanted}' in\n{text}");
        }
        assert_eq!(text.is_empty(), wanted.is_empty(), "{text}");
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        check("NODE 0, NODES 1, LINE_RATE 1Gbps", &[]);
        check("NODES 4, LINE_RATE 1Gbps", &["NODE"]);
        check("NODE 0, LINE_RATE 1Gbps", &["NODES or FLY is missing"]);
        check("NODE 0, NODES 5000, LINE_RATE 1Gbps", &["more than 4,096 nodes"]);
        check("NODE 0, NODES 2, FLY 2 2, LINE_RATE 1Gbps", &["either NODES or FLY"]);
        check("NODE 0, FLY 2, LINE_RATE 1Gbps", &["two numbers wanted"]);
        check("NODE 0, NODES 4, LINE_RATE 1Gbps", &["1 inputs, a node with 3 links has 4 or 5", "1 outputs"]);
        check(
            "NODE 4, NODES 4, PORTS 0, LINE_RATE 1, CONTROL 4, INCARNATION 16, HELLO 1us, ORDER none, POLICY none, WORKERS 65",
            &[
                "no node 4, there are 4",
                "PORTS: out of range, 1 to 255",
                "LINE_RATE: less than 1 kB/s",
                "CONTROL: no node with lines 4, there are 4",
                "INCARNATION: out of range, 0 to 15",
                "HELLO: less than 1 ms",
                "ORDER: not one of strict, flowlet, spray, single-path",
                "POLICY: not one of adaptive, direct-vlb, vlb, flow-hash",
                "WORKERS: out of range, 1 to 64",
            ],
        );
        check(
            "NODE 1, NODES 3, LINE_RATE 1Gbps, LINKS 0 1 0 7",
            &["node 1 is no neighbour", "two links to node 0", "node 7 is no neighbour"],
        );
        check(
            "NODE 0, NODES 3, LINE_RATE 1Gbps, LINK_RATE 1Mbps 2Mbps 3Mbps",
            &["LINK_RATE: 3 rates, the node has 2 links"],
        );
        check("NODE 0, NODES 1, LINE_RATE 1Gbps, LINK_RATE 10 Mbps", &[]);
        check("NODE 0, NODES 3, LINE_RATE 1Gbps, LINK_RATE 1Mbps 1bps", &["LINK_RATE: less than 1 kB/s"]);
        check("NODE 0, NODES 3, LINE_RATE 1Gbps, LINK_RATE 1Mbps x", &["LINK_RATE: rate: "]);
        check("NODE 0, NODES 2, LINE_RATE 1Gbps, RATES 0 2 1Mbps", &["RATES: no node 2, there are 2"]);
        check(
            "NODE 0, NODES 3, LINE_RATE 1Gbps, LINK_RATE 1Mbps 2Mbps, RATES 2 0 1Mbps",
            &["RATES: two rates for the link between nodes 2 and 0"],
        );
        check("NODE 0, NODES 1, LINE_RATE 1Gbps, MEMBERS 0 1", &["MEMBERS: no node 1, there are 1"]);
        check("NODE 0, NODES 1, LINE_RATE 1Gbps, MEMBERS 0 0", &["MEMBERS: node 0 twice"]);
        check(
            "NODE 0, NODES 2, LINE_RATE 1Gbps, LINKS, MEMBERS 1",
            &["MEMBERS: without node 0, which is this one"],
        );
        check("NODE 0, FLY 2 2, LINE_RATE 1Gbps, MEMBERS 0 1 8", &["MEMBERS: no node 8, there are 8"]);
    }
}
