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
//! links = [{ to = "b", device = "eth2" }]
//! ```

mod check;
mod read;
mod words;

#[cfg(test)]
mod tests;

pub use words::{Address, Named, Order, Policy};

use crate::config::Reported;
use crate::toml_file;
use cluster::topology::Topology;
use lang::Diagnostic;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cluster that is a full mesh of nodes with as many lines each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// What it is called, also in the names of files.
    pub name: String,
    /// The node whose Linux is the control plane, by number.
    pub control: usize,
    /// R: what a line carries, in bits per second.
    pub line_rate: u64,
    /// What each internal link carries, in bits per second; 0 = what every matrix needs.
    pub link_rate: u64,
    /// What order packets are kept in.
    pub order: Order,
    /// Which rule chooses paths.
    pub policy: Policy,
    /// Between two hellos on a link.
    pub hello: Duration,
    /// Longest IP packet on lines, in bytes.
    pub mtu: u32,
    /// Arguments for DPDK's EAL, on all nodes.
    pub eal: Vec<String>,
    /// Where the control node hands out its tables.
    pub listen: Option<SocketAddr>,
    /// Who signed the certificates of all nodes.
    pub authority: Option<PathBuf>,
    /// The nodes, in the order of their numbers.
    pub nodes: Vec<Node>,
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

impl Cluster {
    /// Bytes that a frame that travels whole is longer than what it carries: an Ethernet header, and room for a VLAN tag.
    const WRAPPING: u32 = 18;

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid; all mistakes were printed.
    pub fn load(file: &Path) -> Result<Cluster, Reported> {
        let mut cluster = toml_file::load(file, Cluster::parse)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let of_nodes = cluster.nodes.iter_mut().flat_map(|node| [&mut node.certificate, &mut node.key]);
        for path in of_nodes.chain([&mut cluster.authority]).flatten() {
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
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Lines of each node.
    pub fn ports(&self) -> usize {
        self.nodes.first().map_or(0, |node| node.lines.len())
    }

    /// All lines in the order of their numbers, with the numbers of their nodes.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.nodes
            .iter()
            .enumerate()
            .flat_map(|(number, node)| node.lines.iter().map(move |line| (number, line)))
    }

    /// What each internal link carries, in bits per second: as the file says, or 2sR/N.
    pub fn link_rate(&self) -> u64 {
        let needed = || {
            let mesh = Topology::mesh(u16::try_from(self.nodes.len()).ok()?).ok()?;
            Some(mesh.link_rate(self.line_rate, u8::try_from(self.ports()).ok()?))
        };
        if self.link_rate == 0 { needed().unwrap_or(0) } else { self.link_rate }
    }

    /// The MTU of internal links, in bytes.
    pub fn link_mtu(&self) -> u32 {
        self.mtu + Cluster::WRAPPING
    }
}
