//! Failures in k-ary n-flies, in virtual time: when the news has had time to go round, nothing is lost that could get there.
//!
//! `CLUSTER_SEEDS=1000 cargo test -p cluster --test fly` tries as many failures as that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cluster::model::scenario::{LENGTH, LINE_RATE, setup};
use cluster::model::{Matrix, Model, Packet, Traffic};
use cluster::path::Order;
use cluster::random::Random;
use cluster::reorder::ReorderMeter;
use cluster::shares::Links;
use cluster::topology::Topology;
use cluster::utilisation::SECOND;
use std::collections::HashSet;

const MS: u64 = SECOND / 1000;
/// After a failure: 10 ms until its neighbours know, and what is under way then; and the way of the news.
const KNOWN: u64 = 40 * MS;
/// What came in so shortly before a failure may be caught by it.
const UNDER_WAY: u64 = 20 * MS;

/// Links (node, number) or nodes that are down.
#[derive(Debug, Clone, Default)]
struct Down {
    links: Vec<(u16, u16)>,
    nodes: Vec<u16>,
}

impl Down {
    fn random(topology: Topology, random: &mut Random) -> Down {
        let mut down = Down::default();
        for _ in 0..=random.below(3) {
            let node = random.below(topology.nodes().into()) as u16;
            match random.below(2) {
                0 => down.nodes.push(node),
                _ => down.links.push((node, random.below(topology.radix().into()) as u16)),
            }
        }
        down
    }

    fn set(&self, model: &mut Model, up: bool) {
        self.links.iter().for_each(|&(node, link)| model.set_link(node, link, up));
        self.nodes.iter().for_each(|&node| model.set_node(node, up));
    }

    /// The links as they are.
    fn truth(&self, topology: Topology) -> Links {
        let mut links = Links::new(topology, 1);
        self.nodes.iter().for_each(|&node| links.remove_node(node));
        for &(node, link) in &self.links {
            let peer = topology.peer(node, link);
            links.set(node, link, 0);
            topology.link_to(peer, node).into_iter().for_each(|back| links.set(peer, back, 0));
        }
        links
    }
}

fn reaches(truth: &Links, packet: &Packet) -> bool {
    let (from, to) = (packet.input as u16, packet.output as u16);
    from == to || truth.weights(from, to).iter().any(|&weight| weight > 0)
}

/// A fly whose links take up to a millisecond, each its own.
fn delayed(topology: Topology, order: Order, random: &mut Random) -> Model {
    let mut model = Model::new(setup(topology, order));
    for (node, link) in
        (0..topology.nodes()).flat_map(|node| (0..topology.radix()).map(move |link| (node, link)))
    {
        model.set_delay(node, link, 10_000 + random.below(1_000_000) as u64);
    }
    model
}

/// Fails at 200 ms, comes back at 500 ms, something else fails at 800 ms: gives how many packets had to arrive.
fn one(topology: Topology, order: Order, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let lines = usize::from(topology.edge_nodes());
    let mut model = delayed(topology, order, &mut random);
    let all = [Down::random(topology, &mut random), Down::default(), Down::random(topology, &mut random)];
    let at = [200 * MS, 500 * MS, 800 * MS];
    let truths = all.clone().map(|down| down.truth(topology));
    let (mut stage, mut wanted, mut seen) = (0, Vec::new(), HashSet::new());
    let mut meter = ReorderMeter::default();
    let mut leave = |model: &mut Model| {
        for (_, packet) in model.drain() {
            assert!(seen.insert((packet.flow, packet.number)), "seed {seed}: twice");
            meter.packet(packet.flow, packet.number);
        }
    };
    let whole = Down::default().truth(topology);
    // Lines of dead nodes send, too: what they send is lost at once.
    let traffic = Traffic::new(&Matrix::uniform(lines), &vec![0.05; lines], LINE_RATE, LENGTH, 2, seed);
    for packet in traffic.take_while(|packet| packet.at < 1100 * MS) {
        if stage < 3 && packet.at >= at[stage] {
            match stage {
                1 => all[0].set(&mut model, true),
                _ => all[stage].set(&mut model, false),
            }
            stage += 1;
        }
        let truth = [&whole, &truths[0], &truths[0], &truths[2]][stage];
        let is_far = |failed: u64| packet.at + UNDER_WAY < failed || packet.at > failed + KNOWN;
        // While they come back, what got there before still does.
        if [at[0], at[2]].into_iter().all(is_far) && reaches(truth, &packet) {
            wanted.push((packet.flow, packet.number, packet.at, packet.input, packet.output));
        }
        model.offer(packet);
        leave(&mut model);
    }
    model.run_until(3 * SECOND);
    leave(&mut model);
    let lost: Vec<_> = wanted.iter().filter(|packet| !seen.contains(&(packet.0, packet.1))).take(5).collect();
    assert!(lost.is_empty(), "seed {seed}, {all:?}: {lost:?}, {:?}", model.totals());
    if order == Order::Strict {
        assert_eq!(meter.report().reordered, 0, "seed {seed}");
    }
    assert_eq!((model.inside(), model.held()), (0, 0), "seed {seed}");
    wanted.len()
}

/// Runs it in flies of several shapes and in both orders, by seed.
fn in_many_flies(run: impl Fn(Topology, Order, u64) -> usize) {
    let count = std::env::var("CLUSTER_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(16);
    let shapes = [(2, 2), (4, 2), (2, 3), (3, 2)];
    let mut wanted = 0;
    for seed in 0..count {
        let (radix, columns) = shapes[seed as usize % 4];
        let order = if seed / 4 % 4 == 3 { Order::Spray } else { Order::Strict };
        wanted += run(Topology::fly(radix, columns).unwrap(), order, seed);
    }
    println!("{count} runs, {wanted} packets had to arrive, and did");
}

#[test]
fn nothing_is_lost_that_can_get_there_once_the_news_has_gone_round() {
    in_many_flies(one);
}

/// One drains at 200 ms and ends at 300 ms, comes back at 500 ms, drains at 900 ms and does not any more at 1 s: gives how
/// many packets there were that had neither their input nor their output there.
fn drained(topology: Topology, order: Order, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let lines = usize::from(topology.edge_nodes());
    let mut model = delayed(topology, order, &mut random);
    let node = random.below(topology.nodes().into()) as u16;
    let is_its_own = |packet: &Packet| [packet.input, packet.output].contains(&node.into());
    let change = |model: &mut Model, stage: usize| match stage {
        0 | 3 => model.set_drains(node, true),
        1 => model.set_node(node, false),
        2 => model.set_node(node, true),
        _ => model.set_drains(node, false),
    };
    let mut changes = [200, 300, 500, 900, 1000].map(|at| at * MS).into_iter().enumerate().peekable();
    let (mut wanted, mut seen) = (0, 0);
    let mut meter = ReorderMeter::default();
    let mut leave = |model: &mut Model| {
        for (_, packet) in model.drain() {
            seen += usize::from(!is_its_own(&packet));
            meter.packet(packet.flow, packet.number);
        }
    };
    let traffic = Traffic::new(&Matrix::uniform(lines), &vec![0.05; lines], LINE_RATE, LENGTH, 2, seed);
    for packet in traffic.take_while(|packet| packet.at < 1100 * MS) {
        if let Some((stage, _)) = changes.next_if(|(_, at)| packet.at >= *at) {
            change(&mut model, stage);
        }
        // While a node with lines is down, its own have nowhere to go.
        if is_its_own(&packet) && (290..560).contains(&(packet.at / MS)) {
            continue;
        }
        wanted += usize::from(!is_its_own(&packet));
        model.offer(packet);
        leave(&mut model);
    }
    model.run_until(3 * SECOND);
    leave(&mut model);
    assert_eq!(seen, wanted, "seed {seed}, node {node}: {:?}", model.totals());
    assert_eq!(model.totals().all_lost(), 0, "seed {seed}, node {node}: {:?}", model.totals());
    if order == Order::Strict {
        assert_eq!(meter.report().reordered, 0, "seed {seed}");
    }
    assert_eq!((model.inside(), model.held()), (0, 0), "seed {seed}");
    wanted
}

#[test]
fn who_drains_and_ends_takes_nothing_with_it() {
    in_many_flies(drained);
}
