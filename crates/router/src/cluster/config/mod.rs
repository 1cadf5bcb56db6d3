//! What `cluster.toml` says: the nodes of a cluster, their lines and links.
//!
//! ```toml
//! [cluster]
//! name = "rb4"
//! line_rate = "10G"
//! control = "a"
//!
//! [[node]]
//! name = "a"
//! ports = [{ name = "ext0", device = "eth1", address = ["192.0.2.1/24"] }]
//! links = [{ to = "b", device = "eth2", rate = "5G" }]
//! ```

mod changes;
mod check;
mod class;
mod etcd;
mod joins;
mod read;
mod words;

#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use etcd::{Etcd, endpoint, parts};
pub use words::{Address, LinkType, Named, Order, Policy};

use crate::config::Reported;
use crate::linux::Extras;
use crate::toml_file;
use cluster::overhead::Overhead;
use cluster::shares::Links;
use cluster::topology::Topology;
use lang::Diagnostic;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cluster of nodes with as many lines each: all of a full mesh, those of the first column of a k-ary n-fly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// What it is called, also in the names of files.
    pub name: String,
    /// The node whose Linux is the control plane, by number; the preferred one if it is elected.
    pub control: usize,
    /// R: what a line carries, in bits per second.
    pub line_rate: u64,
    /// What each internal link carries, in bits per second; 0 = what every matrix needs.
    pub link_rate: u64,
    /// What links are that are laid here.
    pub link_type: LinkType,
    /// Links that carry something else, both ways: the numbers of the nodes at their ends, the lower one first.
    pub rates: BTreeMap<(usize, usize), u64>,
    /// What order packets are kept in.
    pub order: Order,
    /// Packets that are kept in another one.
    pub classes: Vec<Class>,
    /// Which rule chooses paths.
    pub policy: Policy,
    /// Between two hellos on a link.
    pub hello: Duration,
    /// Longest IP packet on lines, in bytes.
    pub mtu: u32,
    /// What packets pass at their input nodes, beside what all pass.
    pub extras: Extras,
    /// Arguments for DPDK's EAL, on all nodes.
    pub eal: Vec<String>,
    /// Where the control node hands out its tables.
    pub listen: Option<SocketAddr>,
    /// Who signed the certificates of all nodes.
    pub authority: Option<PathBuf>,
    /// How many nodes the cluster may come to have while it runs; 0 = [`Cluster::USUAL_ROOM`].
    pub max_nodes: usize,
    /// Where the control node is elected; without it, it is always the same.
    pub etcd: Option<Etcd>,
    /// k and n, if the nodes are a k-ary n-fly; else they are a full mesh.
    pub fly: Option<[u16; 2]>,
    /// The nodes by number. Those without a name do not exist.
    pub nodes: Vec<Node>,
}

/// Packets with some code points of differentiated services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// What order they are kept in.
    pub order: Order,
    /// The code points, 0 to 63.
    pub codes: Vec<u8>,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What it is called.
    pub name: String,
    /// Its external ports.
    pub lines: Vec<Line>,
    /// Linux interfaces that lead to other nodes, by number of the node; none if all nodes are on one machine.
    pub links: Vec<Option<String>>,
    /// By which it proves who it is.
    pub certificate: Option<PathBuf>,
    /// The key of that.
    pub key: Option<PathBuf>,
    /// Where it hands out its tables, when it is elected control node.
    pub listen: Option<SocketAddr>,
    /// It is never elected.
    pub spectator: bool,
    /// Its workers, if the file says how many.
    pub workers: Option<u16>,
    /// Processors to bind workers to, in turn; wherever the system puts them if there are none.
    pub cpus: Vec<usize>,
    /// Packet buffers besides those that rings of devices hold, if the file says how many.
    pub buffers: Option<u32>,
}

/// An external port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What its twin is called in the Linux of the control node.
    pub name: String,
    /// The interface of Linux on its node.
    pub device: String,
    /// The Ethernet address of that, if the file says it.
    pub mac: Option<[u8; 6]>,
    /// Addresses of the twin.
    pub addresses: Vec<Address>,
}

impl Node {
    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or(1).into()
    }

    /// Whether there is such a node.
    pub fn exists(&self) -> bool {
        !self.name.is_empty()
    }
}

impl Cluster {
    /// For how many nodes a cluster is made, unless the file says otherwise or has more.
    pub const USUAL_ROOM: usize = 8;

    /// Bytes that a frame that travels whole is longer than what it carries: an Ethernet header, and room for a VLAN tag.
    const WRAPPING: u32 = 18;
    /// Bytes of a further tag.
    const TAG: u32 = 4;

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid; all mistakes were printed.
    pub fn load(file: &Path) -> Result<Cluster, Reported> {
        let mut cluster = toml_file::load(file, Cluster::parse)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let of_nodes = cluster.nodes.iter_mut().flat_map(|node| [&mut node.certificate, &mut node.key]);
        let etcd = cluster.etcd.iter_mut();
        let of_etcd = etcd
            .flat_map(|etcd| [&mut etcd.authority, &mut etcd.certificate, &mut etcd.key, &mut etcd.password]);
        for path in of_nodes.chain(of_etcd).chain([&mut cluster.authority]).flatten() {
            *path = folder.join(&*path);
        }
        Ok(cluster)
    }

    /// Reads a text, which is number `source` of a map.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub fn parse(text: &str, source: u32) -> Result<Cluster, Vec<Diagnostic>> {
        toml_file::parse(text, source, read::cluster)
    }

    /// The number of the node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.there().find(|(_, node)| node.name == name).map(|(number, _)| number)
    }

    /// Whether a node is, or can become, the control node.
    pub fn may_control(&self, node: usize) -> bool {
        match (&self.etcd, self.nodes.get(node)) {
            (Some(_), Some(of)) => of.exists() && !of.spectator && self.has_lines(node),
            _ => node == self.control,
        }
    }

    /// The nodes that there are, with their numbers.
    pub fn there(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.exists())
    }

    /// Their numbers.
    pub fn members(&self) -> Vec<usize> {
        self.there().map(|(number, _)| number).collect()
    }

    /// The name of a node; empty if there is none of this number.
    pub fn name_of(&self, node: usize) -> &str {
        self.nodes.get(node).map_or("", |node| &node.name)
    }

    /// How nodes are joined, if there are as many as may be.
    fn topology(&self, nodes: usize) -> Option<Topology> {
        match self.fly {
            Some(_) => self.fly_topology(),
            None => Topology::mesh(u16::try_from(nodes).ok()?).ok(),
        }
    }

    /// How nodes of a k-ary n-fly are joined; `None` of a full mesh.
    fn fly_topology(&self) -> Option<Topology> {
        let [radix, columns] = self.fly?;
        Topology::fly(radix, columns).ok()
    }

    /// Whether a node has external ports.
    pub fn has_lines(&self, node: usize) -> bool {
        self.fly_topology().is_none_or(|fly| node < fly.edge_nodes().into())
    }

    /// Whether there is a link between two nodes, if both are there.
    pub fn are_joined(&self, a: usize, b: usize) -> bool {
        let [Ok(from), Ok(to)] = [a, b].map(u16::try_from) else { return false };
        match self.fly_topology() {
            None => a != b,
            Some(fly) if from.max(to) >= fly.nodes() => false,
            Some(fly) => fly.link_to(from, to).or(fly.link_to(to, from)).is_some(),
        }
    }

    /// The nodes that a node has links to, also those that may come.
    pub fn peers(&self, node: usize) -> Vec<usize> {
        (0..self.room()).filter(|peer| self.are_joined(node, *peer)).collect()
    }

    /// Lines of all nodes that the cluster may come to have.
    pub fn all_lines(&self) -> usize {
        self.edge_nodes() * self.ports()
    }

    /// Nodes with lines that the cluster may come to have.
    pub fn edge_nodes(&self) -> usize {
        (0..self.room()).filter(|node| self.has_lines(*node)).count()
    }

    /// All nodes that the cluster may come to have are numbered below this.
    pub fn room(&self) -> usize {
        if let Some(fly) = self.fly_topology() {
            return fly.nodes().into();
        }
        if self.max_nodes == 0 { self.nodes.len().max(Cluster::USUAL_ROOM) } else { self.max_nodes }
    }

    /// Has a node as another cluster has it, which may be not at all, with its links.
    pub fn take(&mut self, other: &Cluster, node: usize) {
        let count = self.nodes.len().max(other.nodes.len());
        let has = |(a, b): &(usize, usize)| *a == node || *b == node;
        self.rates.retain(|ends, _| !has(ends));
        self.rates.extend(other.rates.iter().filter(|(ends, _)| has(ends)));
        self.nodes.resize_with(count, Node::default);
        self.nodes.iter_mut().for_each(|node| node.links.resize(count, None));
        let nobody = Node::default();
        for (number, ours) in self.nodes.iter_mut().enumerate() {
            let theirs = other.nodes.get(number).unwrap_or(&nobody);
            if number == node {
                ours.clone_from(theirs);
                ours.links.resize(count, None);
            } else if let Some(link) = ours.links.get_mut(node) {
                *link = theirs.links.get(node).cloned().flatten();
            }
        }
    }

    /// Lines of each node that has lines.
    pub fn ports(&self) -> usize {
        self.there().next().map_or(0, |(_, node)| node.lines.len())
    }

    /// All lines in the order of their numbers: number, number of the node, and what the file says.
    pub fn lines(&self) -> impl Iterator<Item = (usize, usize, &Line)> {
        let ports = self.ports();
        self.there().flat_map(move |(number, node)| {
            node.lines.iter().enumerate().map(move |(i, line)| (number * ports + i, number, line))
        })
    }

    /// What each internal link carries that has no rate of its own, in bits per second: as the file says, or 2sR/N, in a
    /// k-ary n-fly 2sR/k.
    pub fn link_rate(&self) -> u64 {
        let needed = || {
            let topology = self.topology(self.there().count())?;
            Some(topology.link_rate(self.line_rate, u8::try_from(self.ports()).ok()?))
        };
        if self.link_rate == 0 { needed().unwrap_or(0) } else { self.link_rate }
    }

    /// The slowest and the fastest of the internal links, in bits per second.
    pub fn link_rates(&self) -> [u64; 2] {
        let ends = self.members().into_iter().flat_map(|a| self.members().into_iter().map(move |b| (a, b)));
        let rates = ends.filter(|(a, b)| a < b && self.are_joined(*a, *b));
        let rates: Vec<u64> =
            rates.map(|ends| self.rates.get(&ends).copied().unwrap_or(self.link_rate())).collect();
        [rates.iter().min(), rates.iter().max()].map(|rate| rate.copied().unwrap_or(0))
    }

    /// Links of other rates than the rest, as `ClusterSwitch` takes them.
    pub fn rates_text(&self) -> String {
        let one = |((a, b), rate): (&(usize, usize), &u64)| format!("{a} {b} {rate}bps");
        self.rates.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// What of a link of this rate is not for traffic.
    pub fn overhead(&self, rate: u64) -> Overhead {
        let nodes = u16::try_from(self.members().len()).unwrap_or(u16::MAX);
        let hello = u64::try_from(self.hello.as_nanos()).unwrap_or(u64::MAX);
        let is_strict =
            self.order == Order::Strict || self.classes.iter().any(|class| class.order == Order::Strict);
        Overhead::new(nodes, rate, hello, is_strict)
    }

    /// What load, as a part of a line's rate, passes without loss whatever the traffic matrix, if links carry what they should; it
    /// is known of a full mesh. Direct traffic fills links up to 97 %, and what is not traffic takes its part.
    pub fn permitted_load(&self) -> Option<f64> {
        let members = self.members();
        let topology = self.topology(members.len()).filter(Topology::is_mesh)?;
        let usable = |rate: u64| rate.saturating_sub(self.overhead(rate).sum().max(rate / 100 * 3));
        let mut links = Links::new(topology, usable(self.link_rate()));
        let place = |number: &usize| members.iter().position(|member| member == number);
        for ((a, b), rate) in &self.rates {
            let (a, b) = (u16::try_from(place(a)?).ok()?, u16::try_from(place(b)?).ok()?);
            // In a full mesh a link has the number of the node that it leads to.
            links.set(a, b, usable(*rate));
            links.set(b, a, usable(*rate));
        }
        links.guaranteed_load(self.line_rate.saturating_mul(self.ports() as u64))
    }

    /// The MTU that internal links must have, in bytes.
    pub fn link_mtu(&self) -> u32 {
        self.mtu + Cluster::WRAPPING
    }

    /// That of those that are laid here: for whole frames with two tags, too.
    pub fn laid_mtu(&self) -> u32 {
        self.link_mtu() + Cluster::TAG
    }
}
