//! What a model is made of, and what it counts.

use crate::path::{Order, Policy};
use crate::topology::Topology;
use crate::utilisation::SECOND;

/// What a model is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Nodes and links.
    pub topology: Topology,
    /// External lines of each edge node.
    pub ports: u8,
    /// Rate R of each line, bits per second.
    pub line_rate: u64,
    /// Rate of each link, bits per second, unless [`super::Model::set_rate`] says otherwise.
    pub link_rate: u64,
    /// Bytes of a link's queue for first ways, and of each input node in its queue for second ways.
    pub link_buffer: u32,
    /// Bytes of each input node in the queue of a line.
    pub line_buffer: u32,
    /// The delay of each link, in nanoseconds.
    pub delay: u64,
    /// The rule for paths.
    pub policy: Policy,
    /// The order.
    pub order: Order,
    /// How full direct traffic may make a link, in percent.
    pub fill: u8,
    /// Bytes that direct traffic may be ahead of that.
    pub slack: u32,
    /// Bytes that flowlets may put on a path beyond its share.
    pub overdraft: u32,
    /// δ of flowlets, in nanoseconds.
    pub gap: u64,
    /// Numbers in the window of a resequencer.
    pub window: usize,
    /// How long packets wait in a resequencer, nanoseconds.
    pub deadline: u64,
    /// After what time a path is idle and gets a marker, nanoseconds.
    pub idle: u64,
    /// How long after a failure the cluster knows, nanoseconds.
    pub detection: u64,
}

/// Why packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// No path to the output node.
    Unreachable,
    /// The queue of a link at the input node is full.
    InputFull,
    /// The queue of a link at a relay is full.
    RelayFull,
    /// The queue of the line is full.
    OutputFull,
    /// The link is down.
    LinkDown,
    /// Refused by the resequencer.
    Resequencer,
}

/// What a model counts, in packets where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// That came in.
    pub offered: u64,
    /// That went out.
    pub delivered: u64,
    /// Lost, by [`Loss`].
    pub lost: [u64; 6],
    /// That left an input node for another.
    pub crossed: u64,
    /// Those of them that went by a relay.
    pub relayed: u64,
    /// Markers sent.
    pub markers: u64,
    /// Markers received or lost.
    pub markers_gone: u64,
    /// The longest delay of a packet, in nanoseconds.
    pub delay: u64,
    /// The most that one resequencer held.
    pub most_held: usize,
}

impl Totals {
    /// All losses.
    pub fn all_lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Losses of one kind.
    pub fn lost_by(&self, loss: Loss) -> u64 {
        self.lost[loss as usize]
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.lost[loss as usize] += 1;
    }
}

impl Setup {
    /// Length of a marker.
    pub(super) const MARKER_LEN: u32 = 64;

    /// The usual: one line of `line_rate` for each edge node, links of 2R/k, buffers of 256 packets of 1,000 bytes.
    pub fn new(topology: Topology, line_rate: u64, policy: Policy, order: Order) -> Setup {
        let ms = SECOND / 1000;
        Setup {
            topology,
            ports: 1,
            line_rate,
            link_rate: topology.link_rate(line_rate, 1),
            link_buffer: 256_000,
            line_buffer: 256_000,
            delay: 20_000,
            policy,
            order,
            fill: 97,
            slack: 16 * 1514,
            overdraft: crate::spread::MAX_OVERDRAFT,
            gap: crate::flowlet::PAPER_GAP,
            window: 4096,
            deadline: 200 * ms,
            idle: 2 * ms,
            detection: 10 * ms,
        }
    }

    /// External lines of all nodes.
    pub fn lines(&self) -> u32 {
        u32::from(self.topology.edge_nodes()) * u32::from(self.ports)
    }

    pub(super) fn node_of(&self, line: u32) -> u16 {
        (line / u32::from(self.ports.max(1))) as u16
    }

    /// Nanoseconds that it takes to send so many bytes.
    pub(super) fn time(&self, len: u32, rate: u64) -> u64 {
        u64::from(len) * 8 * SECOND / rate.max(1)
    }

    /// How often markers and deadlines are looked after.
    pub(super) fn tick(&self) -> u64 {
        (self.idle.min(self.deadline) / 2).max(1)
    }
}
