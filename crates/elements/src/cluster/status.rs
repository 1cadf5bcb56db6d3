//! What a `ClusterSwitch` shows of itself.

use super::far::FarStatus;
use super::settings::{Settings, order_name};
use super::switch::Switch;
use super::table::{Cell, Table};
use cluster::path::Order;
use cluster::resequence::Counts;
use graph::Nanos;
use std::sync::PoisonError;

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    packets: u64,
    bytes: u64,
}

impl Tally {
    /// Counts a packet that takes so many bytes on the wire.
    #[inline]
    pub fn add(&mut self, length: u32) {
        self.add_many(1, length);
    }

    /// Counts packets that take so many bytes on the wire together.
    #[inline]
    pub fn add_many(&mut self, packets: u32, length: u32) {
        self.packets += u64::from(packets);
        self.bytes += u64::from(length.saturating_sub(packets * super::outlet::OVERHEAD));
    }
}

/// Where packets went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From this node's lines to this node's lines.
    pub own: Tally,
    /// Directly to their output nodes.
    pub direct: Tally,
    /// To relays.
    pub to_relays: Tally,
    /// Of other nodes, to further ones.
    pub relayed: Tally,
}

/// A link or a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutletStatus {
    packets: u64,
    bytes: u64,
    waiting: usize,
    waiting_bytes: u64,
}

/// The other end of a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkStatus {
    node: u16,
    up: bool,
    incarnation: Option<u8>,
    hellos: u64,
    downs: u64,
    rate: u64,
    is_member: bool,
}

/// An input node.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamStatus {
    counts: Counts,
    held: usize,
    spread: Nanos,
    deadline: Nanos,
}

/// All that handlers read, as it was a few milliseconds ago.
#[derive(Debug, Default)]
pub struct Status {
    outlets: Vec<OutletStatus>,
    links: Vec<LinkStatus>,
    /// By output node and link of the topology.
    weights: Vec<Vec<u8>>,
    traffic: Traffic,
    /// What came in of each class, if there are several, and whether all nodes know what classes mean.
    came: Vec<Tally>,
    is_agreed: bool,
    /// By input node.
    streams: Vec<StreamStatus>,
    /// The nodes that there are.
    members: Vec<u16>,
    pub(super) far: FarStatus,
}

impl Status {
    /// The links of a node.
    pub fn links(&self, settings: &Settings) -> Table {
        let outlets = self.outlets.iter().skip(settings.own_lines().into());
        let row = |(link, outlet): (&LinkStatus, &OutletStatus)| {
            let mut row = vec![
                Cell::from(link.node),
                Cell::Word(if link.up { "up" } else { "down" }),
                link.incarnation.map_or(Cell::Word("-"), |number| Cell::Number(number.into())),
                Cell::from(link.hellos),
                Cell::from(link.downs),
                Cell::from(link.rate),
            ];
            row.extend(outlet.cells());
            row
        };
        Table {
            name: "cluster_links",
            columns: &[
                "node",
                "state",
                "incarnation",
                "hellos",
                "times_down",
                "rate",
                "tx_packets",
                "tx_bytes",
                "waiting_packets",
                "waiting_bytes",
            ],
            rows: self.links.iter().zip(outlets).filter(|(link, _)| link.is_member).map(row).collect(),
        }
    }

    /// The lines of a node.
    pub fn lines(&self, settings: &Settings) -> Table {
        let outlets = self.outlets.iter().take(settings.own_lines().into());
        let row = |(port, outlet): (usize, &OutletStatus)| {
            let mut row = vec![Cell::from(settings.first_line() as usize + port)];
            row.extend(outlet.cells());
            row
        };
        Table {
            name: "cluster_lines",
            columns: &["line", "tx_packets", "tx_bytes", "waiting_packets", "waiting_bytes"],
            rows: outlets.enumerate().map(row).collect(),
        }
    }

    /// Weights of links on first ways.
    pub fn shares(&self, settings: &Settings) -> Table {
        let topology = settings.topology;
        let rows = (0_u16..).zip(&self.weights).flat_map(|(to, weights)| {
            let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            let links = (0_u16..).zip(weights).filter(|(_, weight)| **weight > 0);
            links.map(move |(link, &weight)| {
                let via = topology.peer(settings.me, link);
                vec![Cell::from(to), Cell::from(via), Cell::Number(weight.into()), Cell::Number(total)]
            })
        });
        Table {
            name: "cluster_shares",
            columns: &["to_node", "via_node", "weight", "of"],
            rows: rows.collect(),
        }
    }

    /// Where packets went.
    pub fn traffic(&self) -> Table {
        let Traffic { own, direct, to_relays, relayed } = self.traffic;
        let row =
            |name, tally: Tally| vec![Cell::Word(name), Cell::from(tally.packets), Cell::from(tally.bytes)];
        Table {
            name: "cluster_traffic",
            columns: &["way", "packets", "bytes"],
            rows: vec![
                row("own", own),
                row("direct", direct),
                row("to_relays", to_relays),
                row("relayed", relayed),
            ],
        }
    }

    /// What came in of each class, if there are several. While some node does not know what classes mean, all packets belong to
    /// the usual one.
    pub fn classes(&self, settings: &Settings) -> Table {
        let usual = (super::classes::USUAL.to_owned(), settings.order, "-".to_owned());
        let others = settings.classes.list().iter();
        let others = others.map(|class| (class.name.clone(), class.order, class.codes()));
        let row = |((name, order, codes), came): ((String, Order, String), &Tally)| {
            let state = if self.is_agreed { "used" } else { "unused" };
            let words =
                [Cell::Text(name), Cell::Word(order_name(order)), Cell::Text(codes), Cell::Word(state)];
            words.into_iter().chain([came.packets.into(), came.bytes.into()]).collect()
        };
        Table {
            name: "cluster_classes",
            columns: &["class", "order", "dscp", "state", "packets", "bytes"],
            rows: std::iter::once(usual).chain(others).zip(&self.came).map(row).collect(),
        }
    }

    /// What resequencers did, by input node.
    pub fn streams(&self, settings: &Settings) -> Table {
        let row = |(node, stream): (u16, &StreamStatus)| {
            let counts = stream.counts;
            let numbers = [
                counts.delivered,
                stream.held as u64,
                counts.waited,
                counts.given_up,
                counts.expired,
                counts.late,
                counts.duplicate,
                counts.out_of_window,
                counts.wrong_incarnation,
                stream.spread / 1000,
                stream.deadline / 1000,
            ];
            std::iter::once(Cell::from(node)).chain(numbers.map(Cell::Number)).collect()
        };
        let is_there = |node: u16| node != settings.me && self.members.contains(&node);
        let others = (0_u16..).zip(&self.streams).filter(|(node, _)| is_there(*node));
        Table {
            name: "cluster_streams",
            columns: &[
                "from_node",
                "delivered",
                "held",
                "waited",
                "given_up",
                "expired",
                "late",
                "duplicate",
                "out_of_window",
                "wrong_incarnation",
                "delay_spread_us",
                "deadline_us",
            ],
            rows: others.map(row).collect(),
        }
    }
}

impl OutletStatus {
    fn cells(&self) -> [Cell; 4] {
        [self.packets.into(), self.bytes.into(), self.waiting.into(), self.waiting_bytes.into()]
    }
}

impl Switch {
    /// Shows handlers how things are. If one is just reading, next time will do.
    pub(super) fn publish(&mut self, now: Nanos) {
        let shared = self.shared.clone();
        let mut status = match shared.status.try_lock() {
            Ok(status) => status,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(std::sync::TryLockError::WouldBlock) => return,
        };
        status.outlets.clear();
        status.outlets.extend(self.outlets.iter().map(|outlet| OutletStatus {
            packets: outlet.packets,
            bytes: outlet.bytes,
            waiting: outlet.waiting(),
            waiting_bytes: outlet.waiting_bytes(),
        }));
        status.links.clear();
        status.links.extend(self.neighbours.iter().map(|neighbour| LinkStatus {
            node: neighbour.node,
            up: neighbour.is_up(),
            incarnation: neighbour.incarnation,
            hellos: neighbour.hellos,
            downs: neighbour.downs,
            rate: self.rate_to(neighbour.node),
            is_member: neighbour.is_member,
        }));
        status.weights.clone_from(&self.weights);
        status.members.clone_from(&self.members);
        self.far_status(&mut status.far, now);
        status.traffic = self.traffic;
        (status.came, status.is_agreed) = (self.manners.came.to_vec(), self.manners.is_agreed);
        status.streams.clear();
        for node in 0..self.settings.topology.edge_nodes() {
            let (counts, held, deadline) = self.egress.counts(node);
            let spread = self.egress.spread(node, now);
            status.streams.push(StreamStatus { counts, held, spread, deadline });
        }
    }
}
