//! Links of different rates.

use super::{drive, names};
use crate::net::{MS, Net};
use crate::node::Node;
use crate::setup::Setup;
use cluster::random::Random;
use cluster::topology::Topology;
use graph::SIMULATED_START;

/// The rates of a node's links, by the nodes at their ends.
fn rates(node: &Node) -> Vec<(u16, u64)> {
    let links = node.read("links");
    let mut rows = links.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let heading = rows.next().unwrap();
    let rate = heading.iter().position(|name| *name == "rate").unwrap();
    rows.map(|row| (row[0].parse().unwrap(), row[rate].parse().unwrap())).collect()
}

/// The weights of a node's links for packets to another, of so many.
fn shares(node: &Node, to: u16) -> Vec<(u16, u16)> {
    let shares = node.read("shares");
    let rows = shares
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<u16>>());
    rows.filter(|row| row[0] == to).map(|row| (row[1], row[2])).collect()
}

#[test]
fn a_node_says_what_its_links_carry() {
    let node = |me, more| Node::new(&Setup { more, ..Setup::mesh(4, "strict") }, me, 1, SIMULATED_START);
    let million = |rates: [(u16, u64); 3]| rates.map(|(node, rate)| (node, rate * 1_000_000)).to_vec();
    // 2R/N, one rate for all, one for each.
    assert_eq!(rates(&node(1, "")), million([(0, 50), (2, 50), (3, 50)]));
    assert_eq!(rates(&node(1, ", LINK_RATE 8Mbps")), million([(0, 8), (2, 8), (3, 8)]));
    assert_eq!(rates(&node(1, ", LINK_RATE 8Mbps 9Mbps 7Mbps")), million([(0, 8), (2, 9), (3, 7)]));
    let one = node(1, ", LINK_RATE 8Mbps, RATES 3 1 9Mbps 2 3 7Mbps");
    assert_eq!(rates(&one), million([(0, 8), (2, 8), (3, 9)]));
    assert_eq!(one.read("rates"), "1 3 9000000bps 2 3 7000000bps");
    assert!(one.router.write("cluster", "rates", "1 4 9Mbps").is_err());
}

/// One link has half the rate of the others: three quarters of R pass whatever the matrix.
#[test]
fn what_a_slow_link_permits_passes() {
    for order in ["strict", "spray"] {
        for to in [[1, 0, 3, 2], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]] {
            let more = ", RATES 0 1 25Mbps";
            let mut net = Net::new(Setup { more, ..Setup::mesh(4, order) });
            net.run_for(50 * MS);
            assert_eq!(shares(&net.nodes[0], 1), [(1, 1), (2, 1), (3, 1)]);
            assert_eq!(shares(&net.nodes[2], 1), [(0, 1), (1, 4), (3, 2)], "0 has the slow link to 1");
            let mut random = Random::new(3);
            drive(&mut net, 300, 0.7, &mut random, |line, _| Some(to[usize::from(line)]));
            net.run_for(200 * MS);
            assert_eq!((net.undelivered(), names(&net)), (0, vec![]), "{order} {to:?}");
            assert!(order == "spray" || net.reordered == 0);
            net.check_books();
        }
    }
}

/// Rates that change while packets pass are those that links have from then on.
#[test]
fn rates_may_change() {
    let mut net = Net::new(Setup::mesh(4, "strict"));
    let mut random = Random::new(4);
    let to_next = |line: u16, _: &mut Random| Some((line + 1) % 4);
    drive(&mut net, 50, 0.7, &mut random, to_next);
    for node in &net.nodes {
        node.router.write("cluster", "rates", "0 1 25Mbps").unwrap();
    }
    drive(&mut net, 100, 0.7, &mut random, to_next);
    assert_eq!(rates(&net.nodes[1]), [(0, 25_000_000), (2, 50_000_000), (3, 50_000_000)]);
    assert_eq!(shares(&net.nodes[2], 1), [(0, 1), (1, 4), (3, 2)]);
    for node in &net.nodes {
        node.router.write("cluster", "rates", "").unwrap();
    }
    drive(&mut net, 100, 0.7, &mut random, to_next);
    assert_eq!(shares(&net.nodes[2], 1), [(0, 1), (1, 2), (3, 1)]);
    net.run_for(200 * MS);
    assert_eq!((net.undelivered(), net.reordered, names(&net)), (0, 0, vec![]));
    net.check_books();
}

/// In a fly, a node weighs its links by what those behind them carry, too.
#[test]
fn slow_links_of_a_fly_get_less() {
    let links = |me, _| Topology::fly(2, 2).unwrap().neighbours(me);
    let more = ", RATES 3 5 25Mbps";
    let setup = Setup { shape: "FLY 2 2", nodes: 8, edge: 4, links, more, ..Setup::mesh(4, "strict") };
    let mut net = Net::new(setup);
    net.run_for(50 * MS);
    assert_eq!(rates(&net.nodes[5]), [(0, 100_000_000), (1, 100_000_000), (3, 25_000_000)]);
    // Node 5 leads to relays 1, whose way to 3 is by the slow link, and 3, by the slow link: 50 of 100 Mbit/s.
    assert_eq!(shares(&net.nodes[0], 3), [(4, 2), (5, 1)]);
    assert_eq!(shares(&net.nodes[0], 2), [(4, 1), (5, 1)]);
}
