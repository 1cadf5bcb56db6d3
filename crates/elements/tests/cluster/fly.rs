//! k-ary n-flies in which something fails far away.

use crate::net::{MS, Net, is_hello, source};
use crate::setup::Setup;
use crate::{drive, names, seeds};
use cluster::random::Random;
use cluster::topology::Topology;

const MORE: &str = ", HELLO 3ms";

fn two_two(order: &'static str) -> Setup {
    let links = |me, _| Topology::fly(2, 2).unwrap().neighbours(me);
    Setup { shape: "FLY 2 2", nodes: 8, edge: 4, links, more: MORE, ..Setup::mesh(4, order) }
}

fn two_three() -> Setup {
    let links = |me, _| Topology::fly(2, 3).unwrap().neighbours(me);
    Setup { shape: "FLY 2 3", nodes: 24, edge: 8, links, more: MORE, ..Setup::mesh(4, "strict") }
}

/// A net with links of different delays, whose links are all in use.
fn net(setup: Setup, random: &mut Random) -> Net {
    let mut net = Net::new(setup);
    for wire in &mut net.wires {
        wire.delay = 10_000 + random.below(400_000) as u64;
    }
    net.run_for(50 * MS);
    net
}

/// Something fails, and comes back, while everyone sends to everyone of `lines`.
fn fail(setup: Setup, seed: u64, lines: &[u16], change: impl Fn(&mut Net, bool), meanwhile: impl Fn(&Net)) {
    let mut random = Random::new(seed);
    let mut net = net(setup, &mut random);
    let among = |line: u16, random: &mut Random| {
        let place = lines.iter().position(|&n| n == line)?;
        Some(lines[(place + 1 + random.below(lines.len() - 1)) % lines.len()])
    };
    let load = 0.4;
    drive(&mut net, 20, load, &mut random, among);
    assert_eq!(names(&net), [""; 0]);
    change(&mut net, false);
    drive(&mut net, 25, load, &mut random, among);
    let known = net.now;
    drive(&mut net, 40, load, &mut random, among);
    meanwhile(&net);
    change(&mut net, true);
    drive(&mut net, 80, load, &mut random, among);
    let back = net.now;
    let edge = net.setup.edge;
    drive(&mut net, 20, load, &mut random, |_, random| Some(random.below(edge.into()) as u16));
    net.run_for(100 * MS);
    assert_eq!(net.reordered, 0, "seed {seed}");
    assert_eq!(net.undelivered_since(known), 0, "seed {seed}: {:?} {:?}", net.losses(), net.now - back);
    for name in names(&net) {
        assert!(["cluster.link_down", "cluster.unreachable"].contains(&&name[..]), "{:?}", net.losses());
    }
    for node in 0..net.setup.nodes {
        let far = net.nodes[usize::from(node)].read("far_links");
        assert_eq!(far.lines().count(), 1, "node {node}: {far}");
    }
    net.check_books();
}

#[test]
fn who_is_dead_behind_is_avoided() {
    for seed in seeds(4) {
        let dead = 4 + (seed % 4) as u16;
        let change = |net: &mut Net, up: bool| if up { net.restart(dead, 2) } else { net.kill(dead) };
        fail(two_two("strict"), seed, &[0, 1, 2, 3], change, |_| {});
    }
    let change = |net: &mut Net, up: bool| if up { net.restart(18, 2) } else { net.kill(18) };
    fail(two_three(), 9, &[0, 1, 2, 3, 4, 5, 6, 7], change, |_| {});
}

#[test]
fn a_link_that_is_cut_far_away_is_avoided() {
    for seed in seeds(4) {
        let fly = Topology::fly(2, 2).unwrap();
        let links = (0..8).flat_map(|node| (0..2).map(move |link| (node, fly.peer(node, link))));
        let (a, b) = links.collect::<Vec<_>>()[(seed * 5 % 16) as usize];
        let change = |net: &mut Net, up: bool| net.set_link(a, b, up);
        fail(two_two("strict"), seed, &[0, 1, 2, 3], change, |net| {
            let told = net.nodes.iter().map(|node| node.read("far_links"));
            let told = told.filter(|far| far.contains("down")).count();
            assert_eq!(told, 6, "all but those at its ends");
        });
    }
}

/// Its line is out of reach for all, in time, and the others go on; then it is there again, in a new life.
#[test]
fn a_line_goes_with_its_node_and_comes_back() {
    for seed in seeds(3) {
        let dead = (seed % 3) as u16 + 1;
        let others: Vec<u16> = (0..4).filter(|&line| line != dead).collect();
        let change = |net: &mut Net, up: bool| if up { net.restart(dead, 2) } else { net.kill(dead) };
        fail(two_two("strict"), seed, &others, change, |net| {
            for &node in &others {
                let shares = net.nodes[usize::from(node)].read("shares");
                let to: Vec<&str> =
                    shares.lines().skip(1).filter_map(|row| row.split_whitespace().next()).collect();
                let reached = (0..4).filter(|line| to.contains(&&line.to_string()[..]));
                assert_eq!(reached.collect::<Vec<_>>(), others, "{shares}");
            }
        });
    }
}

/// What has gone by a node that was not for it, in packets.
fn relayed(net: &Net, node: u16) -> u64 {
    let traffic = net.nodes[usize::from(node)].read("traffic");
    let row = traffic.lines().find(|row| row.trim_start().starts_with("relayed")).unwrap();
    row.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Nothing goes by a node that drains, wherever it is, so that it can end and takes nothing with it.
#[test]
fn who_drains_can_end_and_nothing_is_lost() {
    for seed in seeds(8) {
        let mut random = Random::new(seed);
        let mut net = net(two_two("strict"), &mut random);
        let node = seed as u16 % 8;
        let others = |line: u16, random: &mut Random| {
            let to = (line + 1 + random.below(3) as u16) % 4;
            (line != node && to != node).then_some(to)
        };
        drive(&mut net, 30, 0.4, &mut random, others);
        assert!(relayed(&net, node) > 0);
        net.nodes[usize::from(node)].router.write("cluster", "drain", "true").unwrap();
        drive(&mut net, 30, 0.4, &mut random, others);
        let told =
            net.nodes.iter().map(|node| node.read("news")).filter(|news| news.contains(" yes")).count();
        assert_eq!(told, 7, "all but itself");
        let before = relayed(&net, node);
        // Its own line goes on.
        drive(&mut net, 20, 0.4, &mut random, |line, random| Some((line + 1 + random.below(3) as u16) % 4));
        assert_eq!(relayed(&net, node), before, "seed {seed}");
        drive(&mut net, 20, 0.4, &mut random, others);
        net.kill(node);
        drive(&mut net, 60, 0.4, &mut random, others);
        net.restart(node, 2);
        drive(&mut net, 100, 0.4, &mut random, others);
        assert!(relayed(&net, node) > 0, "it is in use again, and does not drain");
        net.nodes[usize::from(node)].router.write("cluster", "drain", "true").unwrap();
        drive(&mut net, 30, 0.4, &mut random, others);
        let before = relayed(&net, node);
        net.nodes[usize::from(node)].router.write("cluster", "drain", "false").unwrap();
        drive(&mut net, 20, 0.4, &mut random, others);
        assert!(relayed(&net, node) > before, "seed {seed}");
        net.run_for(100 * MS);
        assert_eq!((net.undelivered(), net.reordered, names(&net)), (0, 0, vec![]), "seed {seed}");
        net.check_books();
    }
}

/// If all ways lead by nodes that drain, they are used all the same.
#[test]
fn who_drains_is_used_where_nothing_else_leads() {
    let mut random = Random::new(6);
    let mut net = net(two_two("strict"), &mut random);
    for node in 4..8 {
        net.nodes[node].router.write("cluster", "drain", "true").unwrap();
    }
    drive(&mut net, 40, 0.4, &mut random, |line, _| Some((line + 1) % 4));
    net.run_for(100 * MS);
    assert_eq!((net.undelivered(), net.reordered, names(&net)), (0, 0, vec![]));
    net.check_books();
}

/// A node of a version without news neither sends nor reads any: those around it still know, and avoid what is down unless
/// it chooses for them.
#[test]
fn nodes_without_news_are_no_hindrance() {
    let mut random = Random::new(4);
    let mut net = net(two_two("strict"), &mut random);
    net.tamper = Some(|frame| {
        let node = u16::from(frame[1]) << 4 | u16::from(frame[2] >> 4);
        if is_hello(frame) && (source(frame) == 5 || node == 5) {
            // 14 octets of header, 16 of hello, 3 of neighbours.
            frame[33..].fill(0);
        }
    });
    net.run_for(500 * MS);
    let row = |net: &Net, node: usize| net.nodes[0].read("news").lines().nth(node).unwrap().to_owned();
    assert!(row(&net, 5).contains("unheard") && row(&net, 4).contains(" heard"), "{}", row(&net, 5));
    // What comes in at nodes 2 and 3 goes by 6 and 7.
    let to = |line, random: &mut Random| (line > 1).then(|| (line + 1 + random.below(3) as u16) % 4);
    drive(&mut net, 30, 0.4, &mut random, to);
    net.kill(7);
    net.run_for(50 * MS);
    let known = net.now;
    drive(&mut net, 50, 0.4, &mut random, to);
    net.run_for(100 * MS);
    assert_eq!((net.undelivered_since(known), net.reordered), (0, 0), "{:?}", net.losses());
    assert_eq!(names(&net), [""; 0]);
    net.check_books();
}

/// News out of range is lost by name; the hello that brings it holds, and so does what was known.
#[test]
fn forged_news_is_lost_by_name() {
    let mut random = Random::new(5);
    let mut net = net(two_two("spray"), &mut random);
    let before = net.nodes[0].read("far_links");
    net.tamper = Some(|frame| {
        if is_hello(frame) && source(frame) == 4 && frame.len() > 40 {
            frame[36] = 0xFF;
        }
    });
    drive(&mut net, 60, 0.4, &mut random, |line, _| Some((line + 1) % 4));
    net.tamper = None;
    net.run_for(50 * MS);
    assert_eq!(names(&net), ["cluster.news"]);
    assert!(net.losses()["cluster.news"] >= 3 * 18, "{:?}", net.losses());
    assert_eq!(net.undelivered(), 0);
    assert_eq!(net.nodes[0].read("far_links"), before);
    assert!(!net.nodes[0].read("links").contains(" down "));
    net.check_books();
}
