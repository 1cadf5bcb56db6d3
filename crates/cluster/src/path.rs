//! The choice of a path for each packet.
//!
//! Our rule ([`Policy::Adaptive`]): what node i sends to node j by way of the split M_ij is spread evenly over all N nodes,
//! itself and j included, which both mean directly. The link from i to j so carries at most M_i/N on first ways and at
//! most R/N on second ways, of others and its own; in an admissible matrix that is less than the link's 2R/N. What is left
//! of the link at any moment, measured by a bucket that all its bytes go through, is filled with packets for j that then
//! need no relay at all. So a uniform matrix goes all directly, a permutation goes as Valiant had it, and nothing in between
//! loses packets. Round robin has no ties to break, so there is no second choice to draw.
//!
//! The others are to compare with: the paper's Direct VLB sends R/N to each node directly and the rest over the other N − 2
//! nodes; classic VLB spreads everything; flow hash gives each flow one path for good.

use crate::flowlet::FlowletTable;
use crate::spread::Spread;
use crate::utilisation::Bucket;

/// Which rule chooses paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Ours: directly while the link has room, the rest spread over all nodes.
    Adaptive,
    /// The paper's: R/N directly to each node, the rest over the others.
    DirectVlb,
    /// Everything spread over all nodes.
    Vlb,
    /// Each flow has one path, drawn by its hash.
    FlowHash,
}

/// What order packets are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// None: each packet goes its own way.
    Spray,
    /// Mostly: flowlets stay on their path while it has room.
    Flowlet,
    /// Always: as spray, and put in order at the output node.
    Strict,
    /// Always, without work at the output node and without an even load: each flow has one path.
    SinglePath,
}

/// What a chooser is told about its cluster.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Output nodes, numbered from 0.
    pub nodes: usize,
    /// Links out of this node. In a full mesh as many as nodes, each numbered as the node that it leads to.
    pub links: usize,
    /// The rule.
    pub policy: Policy,
    /// The order.
    pub order: Order,
    /// The line rate R of this node, in bits per second.
    pub line_rate: u64,
    /// The rate of each internal link, in bits per second; [`PathChooser::set_link_rate`] for others.
    pub link_rate: u64,
    /// How full direct traffic may make a link, in percent. More than the load that is to pass without loss, less than
    /// 100.
    pub fill: u8,
    /// Bytes that direct traffic may be ahead of that rate.
    pub slack: u32,
    /// Bytes that flowlets may put on a path beyond its share.
    pub overdraft: u32,
    /// Entries of the flowlet table.
    pub flowlets: usize,
    /// δ in nanoseconds.
    pub gap: u64,
}

impl Config {
    /// The usual values for a full mesh of `nodes` nodes with links of 2R/N.
    pub fn mesh(nodes: u16, line_rate: u64, policy: Policy, order: Order) -> Config {
        let count = usize::from(nodes.max(1));
        Config {
            nodes: count,
            links: count,
            policy,
            order,
            line_rate,
            link_rate: 2 * line_rate / u64::from(nodes.max(1)),
            fill: 97,
            slack: 16 * 1514,
            overdraft: 16 * 1514,
            flowlets: 1 << 14,
            gap: crate::flowlet::PAPER_GAP,
        }
    }
}

/// A packet that asks for a path.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Output node.
    pub to: u16,
    /// Length in bytes.
    pub len: u32,
    /// Hash of the flow.
    pub flow: u32,
}

/// Chooses for one worker of one input node. What other workers of the node put on a link counts if
/// [`PathChooser::set_link_rate`] leaves it out.
#[derive(Debug, Clone)]
pub struct PathChooser {
    config: Config,
    now: u64,
    /// Everything that is sent on each link.
    links: Vec<Bucket>,
    /// What is sent directly to each node under the paper's rule.
    quotas: Vec<Bucket>,
    spread: Spread,
    /// Whether the direct link to a node is up.
    direct: Vec<bool>,
    flowlets: Option<FlowletTable>,
}

impl PathChooser {
    /// A chooser that knows no paths yet: [`PathChooser::set_weights`].
    pub fn new(config: Config) -> PathChooser {
        let share = config.line_rate / config.nodes.max(1) as u64;
        let is_flowlet = config.order == Order::Flowlet && config.policy != Policy::FlowHash;
        PathChooser {
            now: 0,
            links: vec![Bucket::new(filled(config.link_rate, config.fill)); config.links],
            quotas: vec![Bucket::new(share); config.nodes],
            spread: Spread::new(config.nodes, config.links),
            direct: vec![false; config.nodes],
            flowlets: is_flowlet.then(|| FlowletTable::new(config.flowlets, config.gap)),
            config,
        }
    }

    /// Sets how traffic to a node is split over the links ([`crate::shares`]); all 0 if it is not reachable. The paper's
    /// rule keeps the direct link for its quota.
    pub fn set_weights(&mut self, to: u16, weights: &[u8]) {
        let to = usize::from(to);
        let mut weights = weights.to_vec();
        self.direct[to] = weights.get(to).is_some_and(|&weight| weight > 0);
        if self.config.policy == Policy::DirectVlb
            && weights.iter().enumerate().any(|(i, &w)| i != to && w > 0)
        {
            weights.get_mut(to).into_iter().for_each(|weight| *weight = 0);
        }
        self.spread.set_weights(to, &weights);
    }

    /// Sets what this worker may fill of a link, in bits per second: its rate, less what others send on it; 0 if it is down.
    pub fn set_link_rate(&mut self, link: u16, rate: u64) {
        self.links[usize::from(link)].set_rate(filled(rate, self.config.fill));
    }

    /// Changes δ, in nanoseconds.
    pub fn set_gap(&mut self, gap: u64) {
        self.flowlets.iter_mut().for_each(|table| table.set_gap(gap));
    }

    /// Lets time pass until `now`, in nanoseconds. Once for each batch.
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        match self.config.policy {
            Policy::Adaptive => self.links.iter_mut().for_each(|bucket| bucket.advance(now)),
            Policy::DirectVlb => self.quotas.iter_mut().for_each(|bucket| bucket.advance(now)),
            Policy::Vlb | Policy::FlowHash => {}
        }
    }

    /// Counts what this worker relays on a link: room that is taken.
    pub fn relayed(&mut self, link: u16, bytes: u32) {
        self.links[usize::from(link)].add(bytes);
    }

    /// The link that a packet of `len` bytes to node `to` takes, `None` if there is none. `flow` is a hash of its flow.
    pub fn choose(&mut self, to: u16, len: u32, flow: u32) -> Option<u16> {
        let to = usize::from(to);
        let link = match self.config.order {
            _ if self.config.policy == Policy::FlowHash => self.spread.drawn(to, flow),
            Order::SinglePath => self.spread.drawn(to, flow),
            Order::Spray | Order::Strict => self.by_rule(to, len),
            Order::Flowlet => self.by_flowlet(to, len, flow),
        }?;
        self.links[link].add(len);
        Some(link as u16)
    }

    /// Chooses for a batch that is there at `now`; as many answers as there are packets in both.
    pub fn choose_batch(&mut self, now: u64, packets: &[Ask], links: &mut [Option<u16>]) {
        self.advance(now);
        for (packet, link) in packets.iter().zip(links) {
            *link = self.choose(packet.to, packet.len, packet.flow);
        }
    }

    fn by_rule(&mut self, to: usize, len: u32) -> Option<usize> {
        if self.goes_directly(to, len, self.config.slack) {
            return Some(to);
        }
        let link = self.spread.next(to)?;
        self.spread.charge(to, link, len);
        Some(link)
    }

    /// Whether the direct link has room, by the rule that there is; the paper's quota is taken.
    fn goes_directly(&mut self, to: usize, len: u32, slack: u32) -> bool {
        match self.config.policy {
            Policy::Adaptive => self.direct[to] && self.links[to].level() < slack,
            Policy::DirectVlb if self.direct[to] && self.quotas[to].level() < slack => {
                self.quotas[to].add(len);
                true
            }
            _ => false,
        }
    }

    fn by_flowlet(&mut self, to: usize, len: u32, flow: u32) -> Option<usize> {
        let now = self.now;
        let path = self.flowlets.as_mut().and_then(|table| table.path(flow, now)).map(usize::from);
        let Some(path) = path else {
            // New flowlets leave the last half of the room to those that are there.
            let link = if self.goes_directly(to, len, self.config.slack / 2) {
                to
            } else {
                let link = self.spread.emptiest(to)?;
                self.spread.charge(to, link, len);
                link
            };
            self.flowlets.iter_mut().for_each(|table| table.set_path(flow, link as u16));
            return Some(link);
        };
        if path == to && self.goes_directly(to, len, self.config.slack) {
            return Some(to);
        }
        if self.spread.may_stay(to, path, self.config.overdraft) {
            self.spread.charge(to, path, len);
            return Some(path);
        }
        self.by_rule(to, len)
    }
}

/// `fill` percent of a rate.
fn filled(rate: u64, fill: u8) -> u64 {
    (u128::from(rate) * u128::from(fill.min(100)) / 100) as u64
}
