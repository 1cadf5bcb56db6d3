//! The configuration of one node, as a Click text.

use super::config::{Cluster, LinkType, Named};
use crate::api::socket;
use crate::linux::{Port, lookup};
use std::fmt::Write;

/// The element of each node that knows about the cluster.
pub const SWITCH: &str = "cluster";

/// A device that is not there yet.
const LATER: &str = "-";

/// The elements that receive and send by the link to a node.
pub fn link_elements(peer: usize) -> [String; 2] {
    [format!("from{peer}"), format!("to{peer}")]
}

/// The elements that receive and send by the twin of a line.
pub fn twin_elements(line: usize) -> [String; 2] {
    [format!("inject{line}"), format!("twin{line}")]
}

/// The element by which what is punted of an own line of a node, by number from 0, goes to its twin or to the control node:
/// there is one where the control node is elected.
pub fn punt_switch(line: usize) -> String {
    format!("way{line}")
}

/// The name of a tap that becomes the twin of a line.
pub fn tap(line: usize) -> String {
    format!("rbtwin{line}")
}

/// The device that leads from a node to another.
pub fn link_device(cluster: &Cluster, node: usize, to: usize) -> String {
    match link_interface(cluster, node, to) {
        Some(interface) if cluster.link_type == LinkType::AfPacket => format!("af_packet:{interface}"),
        Some(interface) => interface,
        None => ring(cluster, node, to),
    }
}

/// The same if it is an interface of Linux, whose name is one in the node's namespace.
pub fn link_interface(cluster: &Cluster, node: usize, to: usize) -> Option<String> {
    let node_of = |number: usize| cluster.nodes.get(number);
    let device = node_of(node).and_then(|node| node.links.get(to).cloned().flatten());
    let laid = || format!("to-{}", node_of(to).map_or("", |to| &to.name));
    device.or_else(|| (cluster.link_type != LinkType::Ring).then(laid))
}

/// The ring between two nodes, as both call it.
fn ring(cluster: &Cluster, node: usize, to: usize) -> String {
    let (low, high) = (node.min(to), node.max(to));
    let file = format!("cluster-{}.{low}-{high}.ring", cluster.name);
    let path = socket::directory().unwrap_or_default().join(file);
    format!("ring:{},mtu={}", path.display(), cluster.laid_mtu())
}

/// A device as an argument, with quotes where it has commas.
fn argument(device: &str) -> String {
    if !device.contains(',') {
        return device.to_owned();
    }
    format!("\"{}\"", device.replace('\\', r"\\").replace('"', "\\\""))
}

/// The configuration of node number `node` in its life number `incarnation`. `lines` are its own lines, as they were found.
///
/// IPv4 and IPv6 packets to the lines' addresses and those of VLANs are checked, looked up and rewritten here, whatever line they
/// leave by; `ClusterSwitch` brings them there, and sees to tags. Next hops and interfaces have lines as ports. What is for the router itself goes to the Linux of the control node.
pub fn text(cluster: &Cluster, node: usize, incarnation: u8, lines: &[Port]) -> String {
    let mut text = format!("// Node {} of cluster {}.\n", name(cluster, node), cluster.name);
    let _ = write!(
        text,
        "cluster :: ClusterSwitch(NODE {node}, {shape}, PORTS {ports}, LINE_RATE {rate}bps,{links}\n\
         \x20 ORDER {order},{classes} POLICY {policy}, CONTROL {control}, INCARNATION {incarnation}, HELLO {hello}us, INTERFACES main);\n",
        shape = shape(cluster),
        ports = cluster.ports(),
        rate = cluster.line_rate,
        links = rates(cluster),
        order = cluster.order.name(),
        classes = classes(cluster),
        policy = cluster.policy.name(),
        control = cluster.control,
        hello = cluster.hello.as_micros(),
    );
    if let Some(buffers) = cluster.nodes.get(node).and_then(|node| node.buffers) {
        let _ = writeln!(text, "DPDKInfo(SPARE {buffers});");
    }
    let peers = cluster.peers(node);
    for (i, peer) in peers.iter().enumerate() {
        let (what, device) = match name(cluster, *peer) {
            "" => (format!("node {peer}, which is not there yet"), LATER.to_owned()),
            name => (name.to_owned(), argument(&link_device(cluster, node, *peer))),
        };
        let [from, to] = link_elements(*peer);
        let _ = write!(
            text,
            "\n// The link to {what}.\n\
             {from} :: FromDPDKDevice({device}, PROMISC true) -> [{input}] cluster[{output}]\n\
             \x20 -> {to} :: ToDPDKDevice({device});\n",
            input = i + 1,
            output = lines.len() + i,
        );
    }
    text += &bound(cluster, node, &peers);
    let wrapped = peers.len() + 1;
    let _ =
        write!(text, "\n// Frames that cross the cluster whole.\nwrapped :: Null -> [{wrapped}] cluster;\n");
    if cluster.may_control(node) {
        text += &twins(cluster, node, lines.len() + peers.len());
    }
    if lines.is_empty() {
        text += "\n// A node without lines: nothing comes in here.\nIdle -> [0] cluster;\nIdle -> wrapped;\n";
    }
    for (i, port) in lines.iter().enumerate() {
        text += &own_line(cluster, node, i, port);
    }
    text
}

/// How nodes are joined, and which there are.
fn shape(cluster: &Cluster) -> String {
    if let Some([radix, columns]) = cluster.fly {
        return format!("FLY {radix} {columns}");
    }
    let numbers: Vec<String> = cluster.members().iter().map(usize::to_string).collect();
    format!("NODES {}, MEMBERS {}", cluster.room(), numbers.join(" "))
}

/// What links carry, if the file says it: the same at all nodes, since each weighs relays by links that it does not have.
fn rates(cluster: &Cluster) -> String {
    let usual = match cluster.link_rate {
        0 => String::new(),
        rate => format!(" LINK_RATE {rate}bps,"),
    };
    let others = match cluster.rates_text() {
        none if none.is_empty() => none,
        rates => format!(" RATES {rates},"),
    };
    usual + &others
}

/// What packets go in another order, if there are any.
fn classes(cluster: &Cluster) -> String {
    let classes: String = cluster.classes.iter().map(|class| format!(" {}", class.text())).collect();
    if classes.is_empty() { classes } else { format!(" CLASSES{classes},") }
}

/// Binds the switch and its links to one worker, if there are several: what comes by a link stays in order only if nobody
/// spreads it.
fn bound(cluster: &Cluster, node: usize, peers: &[usize]) -> String {
    if cluster.nodes.get(node).is_none_or(|node| node.workers() == 1) {
        return String::new();
    }
    let links: String = peers.iter().map(|peer| format!(", {} 0", link_elements(*peer)[0])).collect();
    format!("\n// In order as it came.\nStaticThreadSched(cluster 0{links});\n")
}

fn name(cluster: &Cluster, node: usize) -> &str {
    cluster.name_of(node)
}

/// What an external port of the node is connected to.
fn own_line(cluster: &Cluster, node: usize, i: usize, port: &Port) -> String {
    let line = node * cluster.ports() + i;
    let wrap = format!("ClusterWrap(cluster, LINE {line}) -> wrapped");
    let (punted, injected) = if !cluster.may_control(node) {
        (wrap, String::new())
    } else if cluster.etcd.is_none() {
        (format!("twin{line}"), format!("inject{line} -> out{i};\n"))
    } else {
        let way = punt_switch(i);
        (
            format!("{way} :: Switch(1)"),
            format!("{way}[0] -> twin{line};\n{way}[1] -> {wrap};\ninject{line} -> out{i};\n"),
        )
    };
    let mut text = format!(
        "\n// Line {line}: {name}.\n\
         in{i} :: FromDPDKDevice({name});\n\
         cluster[{i}] -> out{i} :: ToDPDKDevice({name});\n\
         punt{i} :: PuntLimiter -> {punted};\n\
         {injected}",
        name = port.name,
    );
    text += &lookup((i, line), port, cluster.extras, ("ONE_OUTPUT true, SETTLE 50ms, ", 1));
    let _ = writeln!(text, "next{i}[0], next6_{i}[0] -> [0] cluster;");
    text
}

/// The twins of all lines, at the control node; the first of their outputs of the switch has number `first`.
fn twins(cluster: &Cluster, node: usize, first: usize) -> String {
    let mut text = String::from("\n// The lines' twins in Linux.\n");
    for line in 0..cluster.all_lines() {
        let owner = line / cluster.ports().max(1);
        // Who may be elected gets them then.
        let is_later = cluster.etcd.is_some() || name(cluster, owner).is_empty();
        let device = if is_later { LATER.to_owned() } else { format!("tap:{}", tap(line)) };
        let wrap = format!(" -> ClusterWrap(cluster, LINE {line}) -> wrapped");
        let [inject, twin] = twin_elements(line);
        let _ = write!(
            text,
            "cluster[{output}] -> {twin} :: ToDPDKDevice({device});\n\
             {inject} :: FromDPDKDevice({device}){};\n",
            if owner == node { "" } else { &wrap },
            output = first + line,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::config::{Class, Node, Order};
    use crate::config::Configuration;
    use crate::linux::{Extras, Lookup, ReversePath, Wanted};

    #[test]
    fn candidates_have_room_for_twins() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        cluster.etcd = Some(crate::cluster::config::Etcd::default());
        cluster.nodes[3].spectator = true;
        for node in 0..4 {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            let configuration = Configuration::of_text("node", text.clone()).unwrap();
            configuration.check_elements(1).unwrap();
            let count = |class: &str| text.matches(class).count();
            // Twins of all lines that there may come to be, none of them there yet.
            let (twins, wraps) = if node == 3 { (0, 1) } else { (8, 8) };
            assert_eq!(count("ToDPDKDevice("), 1 + 7 + twins, "{text}");
            assert_eq!(count("DPDKDevice(-"), 2 * 4 + 2 * twins, "{text}");
            assert_eq!((count("ClusterWrap("), count("Switch(1)")), (wraps, twins / 8), "{text}");
        }
    }

    #[test]
    fn what_is_asked_for_is_on_the_way() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        (cluster.nodes[2].workers, cluster.nodes[2].buffers) = (Some(3), Some(20_000));
        cluster.extras = Extras {
            sources: Some(ReversePath::Strict),
            redirects: true,
            counts: true,
            lookup: Lookup { ipv4: Wanted::of_name::<u32>("quickest").unwrap(), ..Lookup::default() },
            sockets: false,
        };
        for (node, workers) in [(1, 1), (2, 3)] {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            let configuration = Configuration::of_text("node", text.clone()).unwrap();
            configuration.check_elements(workers).unwrap();
            let count = |class: &str| text.matches(class).count();
            // Of both protocols, with tags and without.
            let extras =
                ["CheckReversePath(", "CheckIP6ReversePath(", "IP6RouteCounter(", "DivertReturning("];
            assert_eq!(extras.map(count), [5, 2, 2, 4], "{text}");
            assert_eq!(count("DirectIPLookup(TABLE main, ONE_OUTPUT true, STRUCTURE quickest, "), 1);
            // The links to the other nodes, and to those that may come.
            let bound =
                "StaticThreadSched(cluster 0, from0 0, from1 0, from3 0, from4 0, from5 0, from6 0, from7 0)";
            assert_eq!(text.contains(bound), workers > 1, "{text}");
            assert_eq!(text.contains("DPDKInfo(SPARE 20000);"), workers > 1, "{text}");
        }
    }

    #[test]
    fn links_may_be_rings() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        cluster.link_type = LinkType::Ring;
        cluster.nodes[2].links[0] = Some("eth9".to_owned());
        let directory = socket::directory().unwrap_or_default();
        for node in 0..4 {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            Configuration::of_text("node", text.clone()).unwrap().check_elements(1).unwrap();
            for peer in (0..4).filter(|peer| *peer != node) {
                let (low, high) = (node.min(peer), node.max(peer));
                let ring = format!("ring:{}/cluster-rb4.{low}-{high}.ring,mtu=1522", directory.display());
                let device = match [node, peer] {
                    [2, 0] => "eth9".to_owned(),
                    _ => format!("\"{ring}\""),
                };
                assert!(text.contains(&format!("from{peer} :: FromDPDKDevice({device}, PROMISC")), "{text}");
                assert!(text.contains(&format!("to{peer} :: ToDPDKDevice({device});")), "{text}");
            }
        }
    }

    #[test]
    fn links_may_be_raw_sockets() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        cluster.link_type = LinkType::AfPacket;
        cluster.nodes[2].links[0] = Some("eth9".to_owned());
        assert_eq!(link_device(&cluster, 2, 0), "af_packet:eth9");
        assert_eq!(link_device(&cluster, 2, 1), "af_packet:to-b");
        assert_eq!(link_interface(&cluster, 2, 1).as_deref(), Some("to-b"));
    }

    #[test]
    fn all_nodes_know_what_links_carry() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        cluster.link_rate = 60_000_000;
        cluster.rates = [((0, 2), 10_000_000), ((1, 2), 20_000_000)].into();
        for node in 0..4 {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            let rates =
                " LINE_RATE 100000000bps, LINK_RATE 60000000bps, RATES 0 2 10000000bps 1 2 20000000bps,\n";
            assert!(text.contains(rates), "{text}");
            Configuration::of_text("node", text).unwrap().check_elements(1).unwrap();
        }
    }

    #[test]
    fn all_nodes_know_the_classes() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        let class =
            |name: &str, order, codes: &[u8]| Class { name: name.to_owned(), order, codes: codes.to_vec() };
        cluster.classes =
            vec![class("voice", Order::SinglePath, &[46, 40]), class("bulk", Order::Spray, &[8])];
        for node in 0..4 {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            let classes = "  ORDER strict, CLASSES voice single-path 46 40 bulk spray 8, POLICY adaptive,";
            assert!(text.contains(classes), "{text}");
            Configuration::of_text("node", text).unwrap().check_elements(1).unwrap();
        }
    }

    #[test]
    fn nodes_of_a_fly_have_the_links_that_it_has() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let mut cluster = Cluster::load(file.as_ref()).unwrap();
        cluster.fly = Some([2, 2]);
        cluster
            .nodes
            .extend(["e", "f", "g", "h"].map(|name| Node { name: name.to_owned(), ..Node::default() }));
        for node in 0..8 {
            let line = Port::idle("eth1", [2, 0, 0, 0, 0, 1]);
            let lines = if node < 4 { vec![line] } else { Vec::new() };
            let text = text(&cluster, node, 15, &lines);
            Configuration::of_text("node", text.clone()).unwrap().check_elements(1).unwrap();
            let count = |class: &str| text.matches(class).count();
            let twins = if node == 0 { 4 } else { 0 };
            assert_eq!(count("FromDPDKDevice("), lines.len() + 3 + twins, "{text}");
            assert_eq!(
                (count("DPDKDevice(-"), count("Idle -> ")),
                (0, if node < 4 { 0 } else { 2 }),
                "{text}"
            );
            let start = format!("ClusterSwitch(NODE {node}, FLY 2 2, PORTS 1, LINE_RATE 100000000bps,\n");
            assert!(text.contains(&start), "{text}");
            let peers =
                [[4, 5, 6], [4, 5, 7], [4, 6, 7], [5, 6, 7], [0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
                    [node];
            for peer in 0..8 {
                assert_eq!(
                    count(&format!("from{peer} :: ")),
                    usize::from(peers.contains(&peer)),
                    "{peer}\n{text}"
                );
            }
        }
    }

    #[test]
    fn every_node_has_a_sound_configuration() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/cluster.toml");
        let cluster = Cluster::load(file.as_ref()).unwrap();
        assert_eq!((cluster.name.as_str(), cluster.nodes.len(), cluster.control), ("rb4", 4, 0));
        for node in 0..4 {
            let text = text(&cluster, node, 15, &[Port::idle("eth1", [2, 0, 0, 0, 0, 1])]);
            let configuration = Configuration::of_text("node", text.clone()).unwrap();
            configuration.check_elements(1).unwrap();
            let count = |class: &str| text.matches(class).count();
            // Its line and three links, and at the control node four twins; and room for four nodes more.
            let devices = if node == 0 { 1 + 7 + 8 } else { 1 + 7 };
            assert_eq!((count("FromDPDKDevice("), count("ToDPDKDevice(")), (devices, devices), "{text}");
            assert_eq!(count("DPDKDevice(-"), if node == 0 { 4 * 4 } else { 2 * 4 }, "{text}");
            assert_eq!(count("ClusterWrap("), if node == 0 { 7 } else { 1 }, "{text}");
            let start = format!("NODE {node}, NODES 8, MEMBERS 0 1 2 3, PORTS 1, LINE_RATE 100000000bps,\n");
            assert!(text.contains(&start), "{text}");
            assert_eq!(
                (count("StaticThreadSched("), count("RouteCounter("), count("ReversePath(")),
                // That of frames with tags, which does what Linux has set.
                (0, 0, 1)
            );
        }
    }
}
