//! The choice of a path for each packet.
//!
//! Our rule ([`Policy::Adaptive`]): what node i sends to node j by way of the split M_ij is spread evenly over all N nodes,
//! itself and j included, which both mean directly. The link from i to j so carries at most M_i/N on first ways and at
//! most R/N on second ways, of others and its own; in an admissible matrix that is less than the link's 2R/N. What is left
//! of the link at any moment, measured by a bucket that all its bytes go through, is filled with packets for j that then
//! need no relay at all. So a uniform matrix goes all directly, a permutation goes as Valiant had it, and nothing in between
//! loses packets. Round robin, in runs of some 2 KB, has no ties to break, so there is no second choice to draw.
//!
//! The others are to compare with: the paper's Direct VLB sends R/N to each node directly and the rest over the other N − 2
//! nodes; classic VLB spreads everything; flow hash gives each flow one path for good.

mod rest;

use crate::flowlet::{DIRECT, FlowletTable};
use crate::spread::Spread;
use crate::utilisation::Bucket;
use rest::Rest;

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
    /// The order of packets that nothing else is said of.
    pub order: Order,
    /// Other packets may go by flowlets, too: [`PathChooser::choose_in`].
    pub has_flowlets: bool,
    /// The line rate R of this node, in bits per second.
    pub line_rate: u64,
    /// The rate of each internal link, in bits per second; [`PathChooser::set_link_rate`] for others.
    pub link_rate: u64,
    /// How full direct traffic may make a link, in percent. More than the load that is to pass without loss, less than
    /// 100.
    pub fill: u8,
    /// Bytes that direct traffic may be ahead of that rate.
    pub slack: u32,
    /// Bytes that flowlets may put on a path beyond its share, up to [`crate::spread::MAX_OVERDRAFT`]. Relays need buffers for
    /// as much; the more, the fewer flowlets have to move.
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
            has_flowlets: order == Order::Flowlet,
            line_rate,
            link_rate: 2 * line_rate / u64::from(nodes.max(1)),
            fill: 97,
            slack: 16 * 1514,
            overdraft: crate::spread::MAX_OVERDRAFT,
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

/// A way that packets to one node may take one after the other, without another look, until the next question about that node; if
/// [`PathChooser::changes`] says nothing else, for longer.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The link.
    pub link: u16,
    /// As long as it is positive there is room for one packet more, which takes its bytes from it. Less than 2³⁰.
    pub left: i32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Direct traffic, which fills what is left of its link.
    Fills,
    /// By the split.
    Split,
}

/// Bytes that flowlets may put on a path before it is looked at again: with a packet more, [`Spread`] counts them all.
const LONGEST_RUN: i32 = 1 << 16;

/// Chooses for one worker of one input node. What other workers of the node put on a link counts if
/// [`PathChooser::set_link_rate`] leaves it out. What every batch asks for stands together.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct PathChooser {
    now: u64,
    rest: Rest,
    /// Everything that is sent on each link.
    links: Box<[Bucket]>,
    /// Whether the direct link to a node is up.
    direct: Box<[bool]>,
    /// [`PathChooser::changes`].
    changes: u32,
    config: Config,
    flowlets: Option<FlowletTable>,
    spread: Spread,
    /// What is sent directly to each node under the paper's rule.
    quotas: Box<[Bucket]>,
}

impl PathChooser {
    /// A chooser that knows no paths yet: [`PathChooser::set_weights`].
    pub fn new(config: Config) -> PathChooser {
        let share = config.line_rate / config.nodes.max(1) as u64;
        let is_flowlet = config.has_flowlets && config.policy != Policy::FlowHash;
        PathChooser {
            now: 0,
            links: vec![Bucket::new(filled(config.link_rate, config.fill)); config.links].into(),
            quotas: vec![Bucket::new(share); config.nodes].into(),
            spread: Spread::new(config.nodes, config.links),
            direct: vec![false; config.nodes].into(),
            flowlets: is_flowlet.then(|| FlowletTable::new(config.flowlets, config.gap)),
            rest: Rest::new(is_flowlet && config.policy != Policy::Vlb, config.gap),
            changes: 0,
            config,
        }
    }

    /// Sets how traffic to a node is split over the links ([`crate::shares`]); all 0 if it is not reachable. The paper's
    /// rule keeps the direct link for its quota.
    pub fn set_weights(&mut self, to: u16, weights: &[u8]) {
        self.change();
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
        self.change();
        let (now, rate) = (self.now, filled(rate, self.config.fill));
        let bucket = &mut self.links[usize::from(link)];
        bucket.advance(now);
        bucket.set_rate(rate);
    }

    /// Sets what the paper's rule sends directly to each node at most, in bits per second: R/N.
    pub fn set_quota(&mut self, rate: u64) {
        self.change();
        for quota in &mut self.quotas {
            quota.advance(self.now);
            quota.set_rate(rate);
        }
    }

    /// Changes δ, in nanoseconds.
    pub fn set_gap(&mut self, gap: u64) {
        if self.rest.is_other(gap) {
            self.wake();
            self.rest.set_gap(gap);
        }
        self.flowlets.iter_mut().for_each(|table| table.set_gap(gap));
    }

    /// What time it is, in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets time pass until `now`, in nanoseconds. Once for each batch.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        // Buckets drain when they are looked at.
        self.now = self.now.max(now);
    }

    /// Counts what goes on a link beside what was chosen here: what is relayed, hellos, markers, frames that travel whole. That is
    /// room that is taken.
    #[inline]
    pub fn relayed(&mut self, link: u16, bytes: u32) {
        self.change();
        self.links[usize::from(link)].add(self.now, bytes);
    }

    /// Another number whenever something else than runs that go directly may take room on links, or links are others. As long
    /// as it stays, what is left of such a run may be used later, too: buckets only drain.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    #[inline]
    fn change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// The link that a packet of `len` bytes to node `to` takes, `None` if there is none. `flow` is a hash of its flow.
    #[inline]
    pub fn choose(&mut self, to: u16, len: u32, flow: u32) -> Option<u16> {
        self.choose_in(self.config.order, to, len, flow)
    }

    /// The same for a packet that goes in another order. Of those whose order is [`Order::Flowlet`], flowlets are only known if the
    /// configuration says that there are some.
    #[inline]
    pub fn choose_in(&mut self, order: Order, to: u16, len: u32, flow: u32) -> Option<u16> {
        self.change();
        let to = usize::from(to);
        let link = match order {
            _ if self.config.policy == Policy::FlowHash => self.drawn(to, flow),
            Order::SinglePath => self.drawn(to, flow),
            Order::Spray | Order::Strict => self.by_rule(to, len),
            Order::Flowlet => match self.rests_with(to, len) {
                true => Some(to),
                false => {
                    let path = self.flowlet(flow);
                    self.by_flowlet(to, len, flow, path)
                }
            },
        }?;
        self.links[link].add(self.now, len);
        Some(link as u16)
    }

    /// Chooses for a batch that is there at `now`; as many answers as there are packets in both.
    pub fn choose_batch(&mut self, now: u64, packets: &[Ask], links: &mut [Option<u16>]) {
        self.advance(now);
        for (packet, link) in packets.iter().zip(links) {
            *link = self.choose(packet.to, packet.len, packet.flow);
        }
    }

    /// The way that packets to node `to` take from now on, if they need not stay with their flows and there is one. What goes
    /// is to be told by [`PathChooser::charge`] before the next question about that node.
    pub fn run(&mut self, to: u16) -> Option<Run> {
        self.direct_run(to).or_else(|| {
            self.change();
            let node = usize::from(to);
            let link = self.spread.next(node)?;
            Some(Run { link: link as u16, left: self.spread.left(node, link), kind: Kind::Split })
        })
    }

    /// What may go directly to node `to`, in what is left of the link there.
    #[inline]
    pub fn direct_run(&mut self, to: u16) -> Option<Run> {
        self.direct_up_to(to, self.config.slack)
    }

    /// What may go directly to node `to` until the link there, or the paper's quota, is `slack` bytes ahead.
    #[inline]
    fn direct_up_to(&mut self, to: u16, slack: u32) -> Option<Run> {
        let node = usize::from(to);
        let bucket = match self.config.policy {
            Policy::Adaptive => self.links.get_mut(node),
            Policy::DirectVlb => self.quotas.get_mut(node),
            _ => None,
        };
        let bucket = bucket.filter(|_| self.direct.get(node) == Some(&true))?;
        let room = slack.saturating_sub(bucket.level(self.now));
        let left = room.min(1 << 29) as i32;
        (left > 0).then_some(Run { link: to, left, kind: Kind::Fills })
    }

    /// Counts what has gone to node `to` by a run.
    #[inline]
    pub fn charge(&mut self, to: u16, run: &Run, bytes: u32) {
        let (to, link) = (usize::from(to), usize::from(run.link));
        match run.kind {
            Kind::Split => {
                self.went_by(to, link);
                self.spread.charge(to, link, bytes);
            }
            Kind::Fills if self.config.policy == Policy::DirectVlb => self.quotas[to].add(self.now, bytes),
            Kind::Fills => {}
        }
        self.links[link].add(self.now, bytes);
    }

    /// Counts what has gone directly to node `to` in what [`PathChooser::direct_run`] or [`PathChooser::resting_run`] had left.
    #[inline]
    pub fn charge_directly(&mut self, to: u16, bytes: u32) {
        self.charge(to, &Run { link: to, left: 0, kind: Kind::Fills }, bytes);
    }

    /// The path that the flowlet of a packet is on: [`DIRECT`], or one more than the number of a link; `None` if it begins
    /// one. Notes that there was a packet.
    #[inline]
    pub fn flowlet(&mut self, flow: u32) -> Option<u16> {
        let now = self.now;
        self.flowlets.as_mut().and_then(|table| table.path(flow, now))
    }

    /// What is known of flowlets, if they matter.
    #[inline]
    pub fn flowlets(&mut self) -> Option<&mut FlowletTable> {
        self.flowlets.as_mut()
    }

    /// The way that packets to node `to` take from now on whose flowlets are on `path`, if they may stay there.
    pub fn flowlet_run(&mut self, to: u16, path: u16) -> Option<Run> {
        let link = path.checked_sub(1).unwrap_or(to);
        if path != DIRECT {
            // Nor are there two lasting runs by one link.
            self.change();
        }
        let direct = if link == to { self.direct_run(to) } else { None };
        direct.or_else(|| {
            self.change();
            let room = self.spread.room(to.into(), link.into(), self.config.overdraft);
            (room > 0).then_some(Run { link, left: room.min(LONGEST_RUN), kind: Kind::Split })
        })
    }

    /// The link that a packet takes whose flowlet is on `path`, `None` if there is none.
    #[inline]
    pub fn follow(&mut self, to: u16, len: u32, flow: u32, path: Option<u16>) -> Option<u16> {
        self.change();
        let link = self.by_flowlet(to.into(), len, flow, path)?;
        self.links[link].add(self.now, len);
        Some(link as u16)
    }

    #[inline]
    fn by_rule(&mut self, to: usize, len: u32) -> Option<usize> {
        if self.goes_directly(to, len, self.config.slack) {
            return Some(to);
        }
        let link = self.spread.next(to)?;
        self.went_by(to, link);
        self.spread.charge(to, link, len);
        Some(link)
    }

    #[inline]
    fn drawn(&mut self, to: usize, flow: u32) -> Option<usize> {
        let link = self.spread.drawn(to, flow)?;
        self.went_by(to, link);
        Some(link)
    }

    /// Whether the direct link has room, by the rule that there is; the paper's quota is taken.
    #[inline]
    fn goes_directly(&mut self, to: usize, len: u32, slack: u32) -> bool {
        match self.config.policy {
            Policy::Adaptive => self.direct[to] && self.links[to].level(self.now) < slack,
            Policy::DirectVlb if self.direct[to] && self.quotas[to].level(self.now) < slack => {
                self.quotas[to].add(self.now, len);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn by_flowlet(&mut self, to: usize, len: u32, flow: u32, path: Option<u16>) -> Option<usize> {
        let path = match path {
            None => return self.moved(to, len, flow),
            Some(DIRECT) => to,
            Some(path) => usize::from(path) - 1,
        };
        if path == to && self.goes_directly(to, len, self.config.slack) {
            return Some(to);
        }
        if self.spread.may_stay(to, path, self.config.overdraft) {
            self.went_by(to, path);
            self.spread.charge(to, path, len);
            return Some(path);
        }
        self.moved(to, len, flow)
    }

    /// A path for a flowlet that begins, or fits no longer where it was.
    fn moved(&mut self, to: usize, len: u32, flow: u32) -> Option<usize> {
        // The last half of the room is left to flowlets that are there.
        let link = if self.goes_directly(to, len, self.config.slack / 2) {
            to
        } else {
            let link = self.spread.emptiest(to)?;
            self.went_by(to, link);
            self.spread.charge(to, link, len);
            link
        };
        let path = if link == to { DIRECT } else { link as u16 + 1 };
        self.flowlets.iter_mut().for_each(|table| table.set_path(flow, path));
        Some(link)
    }
}

/// `fill` percent of a rate.
fn filled(rate: u64, fill: u8) -> u64 {
    (u128::from(rate) * u128::from(fill.min(100)) / 100) as u64
}

#[cfg(test)]
mod tests;
