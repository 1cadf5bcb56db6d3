//! How traffic is split over paths when links differ or are down, and what load that can carry.
//!
//! A relay's weight for a pair of nodes is the rate of the slowest link on the way over it; links that are down have rate
//! 0. With equal links that is the even split of Valiant; a relay that lost its link to the output node, or to the input
//! node, has weight 0 for that pair only.

use crate::spread::MAX_WEIGHT;
use crate::topology::Topology;

/// What every internal link can carry now, in bits per second, 0 if it is down.
#[derive(Debug, Clone)]
pub struct Links {
    topology: Topology,
    /// By node and number of the link.
    rates: Vec<u64>,
}

impl Links {
    /// All links up, with this rate.
    pub fn new(topology: Topology, rate: u64) -> Links {
        let count = usize::from(topology.nodes()) * usize::from(topology.radix());
        let mut links = Links { topology, rates: vec![rate; count] };
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
    pub fn weights(&self, at: u16, to: u16) -> Vec<u64> {
        let radix = self.topology.radix();
        let mut weights: Vec<u64> = (0..radix)
            .map(|link| {
                let peer = self.topology.peer(at, link);
                self.rate(at, link).min(self.first_way(peer, to))
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
    fn first_way(&self, node: u16, to: u16) -> u64 {
        if self.topology.is_relay(node) {
            return self.second_way(node, to);
        }
        let over = |link| self.rate(node, link).min(self.first_way(self.topology.peer(node, link), to));
        (0..self.topology.radix()).map(over).fold(0, u64::saturating_add)
    }

    /// The slowest link on the one way from a relay to `to`.
    fn second_way(&self, relay: u16, to: u16) -> u64 {
        let mut node = relay;
        let mut slowest = u64::MAX;
        loop {
            let link = self.topology.link_towards(node, to);
            slowest = slowest.min(self.rate(node, link));
            node = self.topology.peer(node, link);
            if self.topology.is_relay(node) {
                return slowest;
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
mod tests {
    use super::*;

    fn mesh(nodes: u16, rate: u64) -> Links {
        Links::new(Topology::mesh(nodes).unwrap(), rate)
    }

    #[test]
    fn an_even_split_has_two_shares_on_the_direct_link() {
        let links = mesh(4, 5);
        assert_eq!(links.weights(0, 1), [0, 10, 5, 5]);
        assert_eq!(small(&links.weights(3, 2)), [1, 1, 2, 0]);
        assert_eq!(links.guaranteed_load(10), Some(1.0));
        assert_eq!(mesh(4, 10).guaranteed_load(10), Some(2.0));
    }

    #[test]
    fn what_fails_has_no_share() {
        let mut links = mesh(4, 5);
        links.set(2, 1, 0);
        links.set(1, 2, 0);
        assert_eq!(links.weights(0, 1), [0, 10, 0, 5], "2 cannot relay to 1");
        assert_eq!(links.weights(0, 3), [0, 5, 5, 10], "but to 3 it can");
        assert_eq!(links.weights(2, 1), [5, 0, 0, 5], "nor send to it");
        // The link from 2 to 0 has half of what 2 sends to 1, and as a relay a quarter of what 3 sends to 0.
        assert_eq!(links.guaranteed_load(10), Some(5.0 / (10.0 * (0.5 + 0.25))));
        let mut links = mesh(4, 5);
        links.remove_node(2);
        assert_eq!(links.weights(0, 1), [0, 10, 0, 5]);
        assert_eq!(links.weights(0, 2), [0, 0, 0, 0]);
        // N - 1 nodes need links of 2R/(N - 1).
        let load = links.guaranteed_load(10).unwrap();
        assert!((load - 0.75).abs() < 1e-9, "{load}");
    }

    #[test]
    fn slower_links_get_less() {
        let mut links = mesh(3, 8);
        links.set(0, 2, 2);
        assert_eq!(links.weights(0, 1), [0, 16, 2]);
        assert_eq!(small(&[0, 16, 2]), [0, 8, 1]);
        assert_eq!(small(&[1_000_000_007, 1, 500_000_000]), [32, 1, 16]);
        assert_eq!(small(&[0, 0]), [0, 0]);
        assert_eq!(small(&[u64::MAX, u64::MAX / 2]), [32, 16]);
    }

    #[test]
    fn one_slow_link_lowers_the_load_a_little() {
        // The link between 0 and 1 has half the rate of the others.
        let mut links = mesh(4, 8);
        links.set(0, 1, 4);
        links.set(1, 0, 4);
        assert_eq!(links.weights(0, 1), [0, 8, 8, 8]);
        assert_eq!(links.weights(0, 2), [0, 4, 16, 8], "1 gets less of it at first");
        assert_eq!(links.weights(2, 1), [4, 16, 0, 8], "and 0 less than 3 of what is for 1");
        // What 0 sends to 1 needs a third of R there; other pairs 1/7 on each way. Links to 2 and 3 need more: a third of what 0
        // sends to 1 on the first way, and on the second 2/7 of what goes to 2.
        let needed = f64::max(1.0 / 3.0 / 4.0, (1.0 / 3.0 + 2.0 / 7.0) / 8.0);
        let load = links.guaranteed_load(16).unwrap();
        assert!((load - 1.0 / (16.0 * needed)).abs() < 1e-9, "{load}");
    }

    #[test]
    fn a_fly_avoids_what_is_broken_on_either_way() {
        let fly = Topology::fly(2, 2).unwrap();
        let mut links = Links::new(fly, 1);
        assert_eq!(small(&links.weights(0, 3)), [1, 1]);
        assert_eq!(links.guaranteed_load(1), None);
        // Second ways to 3 end with the link of node 7 (row 3 of column 1) to it, or that of 5 (row 1).
        // Relays in rows 1 and 3 reach row 3 over node 7 or 5: digit 0 is set first, so all over row ending in 1.
        let mut node = 0;
        let mut way = vec![];
        for _ in 0..2 {
            let link = fly.link_towards(node, 3);
            way.push((node, link));
            node = fly.peer(node, link);
        }
        assert_eq!(way, [(0, 1), (5, 1)]);
        links.set(5, 1, 0);
        // Relays 0 and 1 reach 3 over node 5 only; 2 and 3 over node 7. On the first way digit 1 is chosen in column 1.
        assert_eq!(links.weights(0, 3), [1, 0], "from row 1 of column 1, relay 3 is behind the broken link");
        assert_eq!(links.weights(4, 3), [0, 1]);
        assert_eq!(links.weights(5, 3), [0, 0]);
        assert_eq!(links.weights(0, 0), [1, 1]);
    }
}
