//! How traffic is split over paths when links differ or are down, and what load that can carry.
//!
//! A relay's weight for a pair of nodes is the rate of the slowest link on the way over it; links that are down have rate
//! 0. With equal links that is the even split of Valiant; a relay that lost its link to the output node, or to the input
//! node, has weight 0 for that pair only. So has a way by a node that is to be avoided, unless no other way is left.

use crate::spread::MAX_WEIGHT;
use crate::topology::Topology;

/// What every internal link can carry now, in bits per second, 0 if it is down.
#[derive(Debug, Clone)]
pub struct Links {
    topology: Topology,
    /// By node and number of the link.
    rates: Vec<u64>,
    /// Nodes that are to be on the way of nothing that is not for them. By node; empty if there are none.
    avoided: Vec<bool>,
}

impl Links {
    /// All links up, with this rate.
    pub fn new(topology: Topology, rate: u64) -> Links {
        let count = usize::from(topology.nodes()) * usize::from(topology.radix());
        let mut links = Links { topology, rates: vec![rate; count], avoided: Vec::new() };
        if topology.is_mesh() {
            // Staying where one is costs nothing.
            (0..topology.nodes()).for_each(|node| links.set(node, node, u64::MAX));
        }
        links
    }

    /// The rate of a link.
    pub fn rate(&self, node: u16, link: u16) -> u64 {
        self.rates[self.index(node, link)]
    }

    /// Sets the rate of a link, 0 for down. That is one direction: most failures are two calls.
    pub fn set(&mut self, node: u16, link: u16, rate: u64) {
        let index = self.index(node, link);
        self.rates[index] = rate;
    }

    /// Has ways avoid a node where others lead to the output node.
    pub fn avoid(&mut self, node: u16) {
        self.avoided.resize(self.topology.nodes().into(), false);
        self.avoided.get_mut(usize::from(node)).into_iter().for_each(|avoided| *avoided = true);
    }

    /// Takes a node out: all its links, in both directions.
    pub fn remove_node(&mut self, gone: u16) {
        for node in 0..self.topology.nodes() {
            for link in 0..self.topology.radix() {
                if node == gone || self.topology.peer(node, link) == gone {
                    self.set(node, link, 0);
                }
            }
        }
    }

    fn index(&self, node: u16, link: u16) -> usize {
        usize::from(node) * usize::from(self.topology.radix()) + usize::from(link)
    }

    /// The weights of the links of node `at` for packets to `to` on their first way, in bits per second: what can get
    /// there over each. In a full mesh the weight of the direct link includes that of staying, since both mean the same.
    ///
    /// Who sends on what comes on its first way by weights that avoid the same nodes avoids them, too, as far as can be.
    pub fn weights(&self, at: u16, to: u16) -> Vec<u64> {
        let around = (!self.avoided.is_empty()).then(|| self.weights_by(at, to, &self.avoided));
        let around = around.filter(|weights| weights.iter().any(|&weight| weight > 0));
        around.unwrap_or_else(|| self.weights_by(at, to, &[]))
    }

    fn weights_by(&self, at: u16, to: u16, avoided: &[bool]) -> Vec<u64> {
        let radix = self.topology.radix();
        let mut weights: Vec<u64> = (0..radix)
            .map(|link| {
                let peer = self.topology.peer(at, link);
                self.rate(at, link).min(self.first_way(peer, to, avoided))
            })
            .collect();
        if self.topology.is_mesh() && at != to {
            let (at, to) = (usize::from(at), usize::from(to));
            let direct = self.rates[self.index(at as u16, to as u16)];
            weights[to] = direct.saturating_mul(2);
            weights[at] = 0;
        }
        weights
    }

    /// What can get to `to` from a node that a packet on its first way has come to.
    fn first_way(&self, node: u16, to: u16, avoided: &[bool]) -> u64 {
        if node == to {
            // It is there: as a relay it would have nobody to send it to.
            return u64::MAX;
        } else if is_one_of(avoided, node) {
            return 0;
        } else if self.topology.is_relay(node) {
            return self.second_way(node, to, avoided);
        }
        let over = |link| {
            let peer = self.topology.peer(node, link);
            self.rate(node, link).min(self.first_way(peer, to, avoided))
        };
        (0..self.topology.radix()).map(over).fold(0, u64::saturating_add)
    }

    /// The slowest link on the one way from a relay to `to`.
    fn second_way(&self, relay: u16, to: u16, avoided: &[bool]) -> u64 {
        let mut node = relay;
        let mut slowest = u64::MAX;
        loop {
            let link = self.topology.link_towards(node, to);
            slowest = slowest.min(self.rate(node, link));
            node = self.topology.peer(node, link);
            if self.topology.is_relay(node) {
                return slowest;
            } else if is_one_of(avoided, node) {
                return 0;
            }
        }
    }

    /// In a full mesh, the load that every matrix of that load, as a share of the line rate `line_rate`, can have without
    /// loss: 1 for links of 2R/N that are all up. Pairs that cannot reach each other at all are left out. Above 1 means
    /// room to spare; `None` if this is not a full mesh.
    ///
    /// The link from u to v carries packets of input node u on their first way, and packets for output node v on their
    /// second. The worst matrix gives u the output, and v the input, that use the link most. Weights count as [`small`] makes
    /// them.
    pub fn guaranteed_load(&self, line_rate: u64) -> Option<f64> {
        if !self.topology.is_mesh() {
            return None;
        }
        let nodes = self.topology.nodes();
        let share = |from: u16, to: u16, link: u16| {
            let weights = small(&self.weights(from, to));
            let total: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
            let weight = weights[usize::from(link)];
            if total == 0 || from == to { 0.0 } else { f64::from(weight) / f64::from(total) }
        };
        let mut least = f64::INFINITY;
        for (u, v) in (0..nodes).flat_map(|u| (0..nodes).map(move |v| (u, v))).filter(|(u, v)| u != v) {
            let others = || (0..nodes).filter(move |&node| node != u && node != v);
            let first = others().map(|to| share(u, to, v)).fold(0.0, f64::max);
            let second = others().map(|from| share(from, v, u)).fold(0.0, f64::max);
            let load = (first + second).max(share(u, v, v)) * line_rate as f64;
            if load > 0.0 {
                least = least.min(self.rate(u, v) as f64 / load);
            }
        }
        Some(least)
    }
}

/// Whether a node is one of these; the list ends somewhere.
fn is_one_of(nodes: &[bool], node: u16) -> bool {
    nodes.get(usize::from(node)).copied().unwrap_or(false)
}

/// Weights as [`crate::spread::Spread`] takes them: small numbers in the same proportion, as near as they can be; what is
/// not 0 stays so.
pub fn small(weights: &[u64]) -> Vec<u8> {
    let largest = weights.iter().copied().max().unwrap_or(0);
    let divisor = weights.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let limit = u128::from(MAX_WEIGHT);
    weights
        .iter()
        .map(|&weight| {
            let exact = weight / divisor;
            if u128::from(largest / divisor) <= limit {
                exact as u8
            } else {
                // Rounded to the nearest.
                let scaled = (u128::from(weight) * limit * 2 / u128::from(largest)).div_ceil(2);
                scaled.max(u128::from(weight > 0)) as u8
            }
        })
        .collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
