//! What a cluster is made of, and what its nodes are configured as.

use std::fmt::Write;

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
    /// Elements between who makes frames for their next hops and the switch, each with an arrow behind it.
    pub between: &'static str,
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
            between: "",
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
    pub fn tags(&self, interface: u16) -> &'static [u8] {
        TAGS[usize::from(interface / self.lines())].0
    }
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
    let (routes, next, vlans, between) = (routes(setup), neighbours(setup), vlans(setup), setup.between);
    if lines == 0 {
        text.push_str("Idle -> [0] cluster;\n");
    }
    for port in 0..lines {
        let line = me * setup.ports + port;
        let _ = write!(
            text,
            "FromDPDKDevice(line{port}) -> class{port} :: Classifier(12/0800, 12/8100, 12/88a8, -);
             class{port}[0] -> CheckIPHeader(OFFSET 14) -> rt{port} :: DirectIPLookup({routes}, ONE_OUTPUT true)
               -> AdjacencyRewrite(rt{port}, {next}, ADJACENCIES main, INTERFACES main, ONE_OUTPUT true) -> {between}[0] cluster;
             class{port}[1], class{port}[2] -> vlan{port} :: FindInterface(PORT {line}, INTERFACES main{vlans});
             vlan{port}[0] -> CheckIPHeader(OFFSET 18) -> rt{port}; vlan{port}[2] -> CheckIPHeader(OFFSET 22) -> rt{port};
             vlan{port}[1], vlan{port}[3], vlan{port}[5], vlan{port}[6] -> Discard; vlan{port}[4] -> others{port} :: Null; class{port}[3] -> others{port};
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
