use proptest::prelude::*;

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

#[test]
fn who_drains_has_no_share_where_others_have() {
    let mut links = mesh(4, 5);
    links.avoid(2);
    assert_eq!(links.weights(0, 1), [0, 10, 0, 5]);
    assert_eq!(links.weights(0, 2), [0, 5, 10, 5], "what is for it gets there");
    assert_eq!(links.weights(2, 1), [5, 10, 0, 5], "and what is from it leaves");
    [(0, 1), (0, 3)].into_iter().for_each(|(from, to)| links.set(from, to, 0));
    assert_eq!(links.weights(0, 1), [0, 0, 5, 0], "there is no other way");
}

/// All ways of packets from `at` on their first way: the first link, and the nodes between, the output node left out.
fn all_ways(fly: Topology, links: &Links, at: u16, to: u16) -> Vec<(u16, Vec<u16>)> {
    let mut first = vec![(None, at, vec![])];
    for _ in fly.column(at)..fly.columns() {
        let mut next = vec![];
        for (begin, node, nodes) in first {
            for link in (0..fly.radix()).filter(|&link| links.rate(node, link) > 0) {
                let peer = fly.peer(node, link);
                next.push((Some(begin.unwrap_or(link)), peer, [&nodes[..], &[peer]].concat()));
            }
        }
        first = next;
    }
    let mut ways = vec![];
    for (begin, mut node, mut nodes) in first {
        let mut is_up = true;
        while node != to {
            let link = fly.link_towards(node, to);
            is_up &= links.rate(node, link) > 0;
            node = fly.peer(node, link);
            nodes.push(node);
        }
        nodes.pop();
        if is_up {
            ways.extend(begin.map(|begin| (begin, nodes)));
        }
    }
    ways
}

proptest! {
    /// Links that have a weight are those that begin a way, around those to be avoided if any way is. So whoever chooses
    /// among them, link by link, avoids them all the way.
    #[test]
    fn ways_lead_around_who_drains(
        (radix, columns) in prop_oneof![Just((2, 2)), Just((3, 2)), Just((2, 3))],
        down in prop::collection::vec((any::<u16>(), any::<u16>()), 0..8),
        drains in prop::collection::vec(any::<u16>(), 0..4),
        (at, to) in any::<(u16, u16)>(),
    ) {
        let fly = Topology::fly(radix, columns).unwrap();
        let (at, to) = (at % fly.nodes(), to % fly.edge_nodes());
        let mut links = Links::new(fly, 7);
        down.iter().for_each(|(node, link)| links.set(node % fly.nodes(), link % radix, 0));
        let drains: Vec<u16> = drains.iter().map(|node| node % fly.nodes()).collect();
        drains.iter().for_each(|&node| links.avoid(node));
        let ways = all_ways(fly, &links, at, to);
        let around: Vec<_> =
            ways.iter().filter(|(_, nodes)| !nodes.iter().any(|node| drains.contains(node))).cloned().collect();
        let best = if around.is_empty() { &ways } else { &around };
        let mut wanted = vec![false; radix.into()];
        best.iter().for_each(|(link, _)| wanted[usize::from(*link)] = true);
        let weights = links.weights(at, to);
        prop_assert_eq!(weights.iter().map(|&weight| weight > 0).collect::<Vec<_>>(), wanted);
    }

    /// One node alone never takes away the last way.
    #[test]
    fn one_that_drains_is_always_avoided(
        (radix, columns) in prop_oneof![Just((2, 2)), Just((3, 2)), Just((2, 3))],
        (drains, at, to) in any::<(u16, u16, u16)>(),
    ) {
        let fly = Topology::fly(radix, columns).unwrap();
        let (drains, at, to) = (drains % fly.nodes(), at % fly.edge_nodes(), to % fly.edge_nodes());
        let mut links = Links::new(fly, 7);
        links.avoid(drains);
        let ways = all_ways(fly, &links, at, to);
        prop_assert!(at == to || ways.iter().any(|(_, nodes)| !nodes.contains(&drains)));
        let all = links.weights(at, to);
        for (link, _) in (0..).zip(&all).filter(|(_, weight)| **weight > 0) {
            prop_assert!(at == to || fly.peer(at, link) != drains);
        }
    }
}
