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

use crate::flowlet::{DIRECT, FlowletTable};
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

/// A way that packets to one node may take one after the other, without another look.
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
        let (now, rate) = (self.now, filled(rate, self.config.fill));
        let bucket = &mut self.links[usize::from(link)];
        bucket.advance(now);
        bucket.set_rate(rate);
    }

    /// Sets what the paper's rule sends directly to each node at most, in bits per second: R/N.
    pub fn set_quota(&mut self, rate: u64) {
        for quota in &mut self.quotas {
            quota.advance(self.now);
            quota.set_rate(rate);
        }
    }

    /// Changes δ, in nanoseconds.
    pub fn set_gap(&mut self, gap: u64) {
        self.flowlets.iter_mut().for_each(|table| table.set_gap(gap));
    }

    /// Lets time pass until `now`, in nanoseconds. Once for each batch.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        // Buckets drain when they are looked at.
        self.now = self.now.max(now);
    }

    /// Counts what this worker relays on a link: room that is taken.
    #[inline]
    pub fn relayed(&mut self, link: u16, bytes: u32) {
        self.links[usize::from(link)].add(self.now, bytes);
    }

    /// The link that a packet of `len` bytes to node `to` takes, `None` if there is none. `flow` is a hash of its flow.
    #[inline]
    pub fn choose(&mut self, to: u16, len: u32, flow: u32) -> Option<u16> {
        let to = usize::from(to);
        let link = match self.config.order {
            _ if self.config.policy == Policy::FlowHash => self.spread.drawn(to, flow),
            Order::SinglePath => self.spread.drawn(to, flow),
            Order::Spray | Order::Strict => self.by_rule(to, len),
            Order::Flowlet => {
                let path = self.flowlet(flow);
                self.by_flowlet(to, len, flow, path)
            }
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
            let node = usize::from(to);
            let link = self.spread.next(node)?;
            Some(Run { link: link as u16, left: self.spread.left(node, link), kind: Kind::Split })
        })
    }

    /// What may go directly to node `to`, in what is left of the link there.
    #[inline]
    pub fn direct_run(&mut self, to: u16) -> Option<Run> {
        let node = usize::from(to);
        let bucket = match self.config.policy {
            Policy::Adaptive => self.links.get_mut(node),
            Policy::DirectVlb => self.quotas.get_mut(node),
            _ => None,
        };
        let bucket = bucket.filter(|_| self.direct.get(node) == Some(&true))?;
        let room = self.config.slack.saturating_sub(bucket.level(self.now));
        let left = room.min(1 << 29) as i32;
        (left > 0).then_some(Run { link: to, left, kind: Kind::Fills })
    }

    /// Counts what has gone to node `to` by a run.
    #[inline]
    pub fn charge(&mut self, to: u16, run: &Run, bytes: u32) {
        let (to, link) = (usize::from(to), usize::from(run.link));
        match run.kind {
            Kind::Split => self.spread.charge(to, link, bytes),
            Kind::Fills if self.config.policy == Policy::DirectVlb => self.quotas[to].add(self.now, bytes),
            Kind::Fills => {}
        }
        self.links[link].add(self.now, bytes);
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
        let direct = if link == to { self.direct_run(to) } else { None };
        direct.or_else(|| {
            let room = self.spread.room(to.into(), link.into(), self.config.overdraft);
            (room > 0).then_some(Run { link, left: room.min(LONGEST_RUN), kind: Kind::Split })
        })
    }

    /// The link that a packet takes whose flowlet is on `path`, `None` if there is none.
    #[inline]
    pub fn follow(&mut self, to: u16, len: u32, flow: u32, path: Option<u16>) -> Option<u16> {
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
        self.spread.charge(to, link, len);
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shares::{Links, small};
    use crate::topology::Topology;

    const R: u64 = 8_000_000_000;

    /// Node 0 of four.
    fn chooser(policy: Policy, order: Order) -> PathChooser {
        let mut chooser = PathChooser::new(Config::mesh(4, R, policy, order));
        let links = Links::new(Topology::mesh(4).unwrap(), R / 2);
        (1..4).for_each(|to| chooser.set_weights(to, &small(&links.weights(0, to))));
        chooser
    }

    /// Sends at rate R to node 1, a packet of 1,000 bytes each microsecond, and counts by link.
    fn flood(chooser: &mut PathChooser, packets: u64) -> [u32; 4] {
        let mut count = [0; 4];
        for packet in 0..packets {
            chooser.advance(packet * 1000);
            count[usize::from(chooser.choose(1, 1000, packet as u32 % 64).unwrap())] += 1;
        }
        count
    }

    #[test]
    fn a_node_that_sends_all_to_one_goes_half_by_relays() {
        for policy in [Policy::Adaptive, Policy::Vlb] {
            let [here, direct, a, b] = flood(&mut chooser(policy, Order::Strict), 40_000);
            assert_eq!(here, 0);
            assert!(direct.abs_diff(20_000) < 100 && a.abs_diff(b) < 30, "{policy:?}: {direct} {a} {b}");
        }
        let [_, direct, a, b] = flood(&mut chooser(Policy::DirectVlb, Order::Spray), 40_000);
        assert!(direct.abs_diff(10_000) < 100 && a.abs_diff(b) < 30, "{direct} {a} {b}");
    }

    #[test]
    fn direct_traffic_fills_what_relays_leave() {
        // To node 1 goes 0.4 R, less than the link can take, until a relay puts 0.3 R on it.
        let mut chooser = chooser(Policy::Adaptive, Order::Spray);
        let mut relayed = [0, 0];
        for packet in 0..40_000u64 {
            chooser.advance(packet * 1000);
            if packet >= 20_000 && packet % 10 < 3 {
                chooser.relayed(1, 1000);
            }
            if packet % 10 < 4 && chooser.choose(1, 1000, 0) != Some(1) {
                relayed[usize::from(packet >= 20_000)] += 1;
            }
        }
        // D + M/2 + 0.3 R = 0.485 R where D + M = 0.4 R: M = 0.43 R, more than there is, so all is spread: half by relays.
        assert_eq!(relayed[0], 0);
        assert!((3800..=4000).contains(&relayed[1]), "{relayed:?}");
    }

    #[test]
    fn flows_and_flowlets_stay_on_their_paths() {
        let mut hashed = chooser(Policy::FlowHash, Order::Spray);
        let mut single = chooser(Policy::Adaptive, Order::SinglePath);
        for flow in 0..100 {
            let path = hashed.choose(1, 1000, flow);
            assert!(
                (0..50).all(|_| hashed.choose(1, 1000, flow) == path && single.choose(1, 64, flow) == path)
            );
        }
        let mut flowlets = chooser(Policy::Adaptive, Order::Flowlet);
        let mut paths = [None; 64];
        let mut moves = 0;
        for packet in 0..40_000u64 {
            flowlets.advance(packet * 1000);
            let flow = (packet * 7 % 64) as usize;
            let path = flowlets.choose(1, 1000, flow as u32);
            moves += u32::from(paths[flow] != path && paths[flow].is_some());
            paths[flow] = path;
        }
        assert!(moves < 400, "{moves}");
    }

    #[test]
    fn what_is_down_is_not_chosen() {
        for policy in [Policy::Adaptive, Policy::DirectVlb, Policy::Vlb, Policy::FlowHash] {
            for order in [Order::Spray, Order::Flowlet, Order::Strict, Order::SinglePath] {
                let mut chooser = chooser(policy, order);
                flood(&mut chooser, 1000);
                chooser.set_weights(1, &[0, 0, 3, 0]);
                assert_eq!(flood(&mut chooser, 1000), [0, 0, 1000, 0], "{policy:?} {order:?}");
                chooser.set_weights(1, &[0, 2, 0, 0]);
                assert_eq!(flood(&mut chooser, 1000), [0, 1000, 0, 0], "{policy:?} {order:?}");
                chooser.set_weights(1, &[]);
                assert_eq!(chooser.choose(1, 1000, 0), None, "{policy:?} {order:?}");
            }
        }
    }

    #[test]
    fn a_batch_is_its_packets() {
        let mut one = chooser(Policy::Adaptive, Order::Flowlet);
        let mut many = one.clone();
        let asks: Vec<Ask> =
            (0..96).map(|i| Ask { to: 1 + i % 3, len: 64 + u32::from(i), flow: u32::from(i) % 7 }).collect();
        let mut links = vec![None; asks.len()];
        for now in (0..100_000).step_by(500) {
            many.choose_batch(now, &asks, &mut links);
            one.advance(now);
            let expected: Vec<_> = asks.iter().map(|ask| one.choose(ask.to, ask.len, ask.flow)).collect();
            assert_eq!(links, expected);
        }
    }

    proptest! {
        /// What the throughput of the cluster rests on: whatever comes, no relay gets more than its share of what a
        /// destination is sent by relays or not, and direct traffic beyond its share only fills what is left.
        #[test]
        fn no_relay_gets_more_than_its_share(
            packets in prop::collection::vec((1u16..4, 64u32..1515, 0u32..8, 0u64..2000), 500..2000),
            order in prop_oneof![Just(Order::Spray), Just(Order::Flowlet)],
        ) {
            let mut chooser = chooser(Policy::Adaptive, order);
            let (mut sent, mut by) = ([0u64; 4], [[0u64; 4]; 4]);
            let mut now = 0;
            for (to, len, flow, gap) in packets {
                now += gap;
                chooser.advance(now);
                let link = chooser.choose(to, len, flow).unwrap();
                sent[usize::from(to)] += u64::from(len);
                by[usize::from(to)][usize::from(link)] += u64::from(len);
                let slack = u64::from(crate::spread::MAX_OVERDRAFT) + 1514 + 4 * crate::spread::QUANTUM as u64;
                for to in 1..4 {
                    for relay in (1..4).filter(|&relay| relay != to) {
                        prop_assert!(by[to][relay] * 4 <= sent[to] + slack * 4);
                    }
                }
            }
        }
    }
}
