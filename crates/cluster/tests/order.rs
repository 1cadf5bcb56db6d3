//! Order, failure and fairness of a whole cluster in virtual time.
//!
//! `CLUSTER_PACKETS=100000000 cargo test --release -p cluster --test order strict` runs the long version of the first.

use cluster::fairness::{fairness, max_min};
use cluster::model::scenario::{self, order, restless, ring, setup};
use cluster::model::{Loss, Matrix, Model, Setup, Traffic};
use cluster::path::{Order, Policy};
use cluster::random::Random;
use cluster::reorder::ReorderMeter;
use cluster::topology::Topology;
use cluster::utilisation::SECOND;

const R: u64 = scenario::LINE_RATE;
const LEN: u32 = scenario::LENGTH;
const MS: u64 = SECOND / 1000;

fn packets(usual: usize) -> usize {
    std::env::var("CLUSTER_PACKETS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

#[test]
fn strict_order_is_strict_while_most_packets_take_relays() {
    let mesh = Topology::mesh(8).unwrap();
    let count = packets(400_000);
    let traffic = || Traffic::new(&ring(8), &[0.95; 8], R, LEN, 64, 1).take(count);
    let (totals, report) = order(setup(mesh, Order::Strict), traffic(), restless(8, 1));
    println!(
        "strict: {} packets, {} relayed, {} at most held, {report:?}",
        totals.delivered, totals.relayed, totals.most_held
    );
    assert_eq!((report.reordered, report.events), (0, 0));
    assert_eq!(totals.all_lost(), 0);
    assert_eq!(report.packets, count as u64);
    assert!(totals.relayed * 2 >= totals.offered);
    let (_, spray) = order(setup(mesh, Order::Spray), traffic().take(400_000), restless(8, 1));
    println!("spray:  {spray:?}");
    assert!(spray.event_ratio() > 0.01);
}

#[test]
fn strict_order_survives_failures_which_last_less_than_50_ms() {
    for seed in 0..6 {
        let mesh = Topology::mesh(4).unwrap();
        let count = 120_000;
        let matrix = if seed % 2 == 0 { ring(4) } else { Matrix::uniform(4) };
        let traffic = Traffic::new(&matrix, &[0.6; 4], R, LEN, 16, seed).take(count);
        // A link, or both directions of node 3 towards 1, go and come back.
        let (mut stage, mut delays) = (0, restless(4, seed));
        let (totals, report) = order(setup(mesh, Order::Strict), traffic, |now, model| {
            delays(now, model);
            let at = [500 * MS, 1200 * MS, u64::MAX][stage];
            if now >= at {
                model.set_link(0, (seed % 3 + 1) as u16, stage == 1);
                model.set_link((seed % 3 + 1) as u16, 0, stage == 1);
                stage += 1;
            }
        });
        assert_eq!(report.reordered, 0);
        // Lost is what the two directions had to send until it was known, and what was late then.
        let most = 2 * R / 8 / u64::from(LEN) / 2 * 25 / 1000;
        assert!(totals.all_lost() > 0 && totals.all_lost() <= most, "{:?} of {most}", totals.lost);
        assert!(totals.lost_by(Loss::LinkDown) * 10 >= totals.all_lost() * 9, "{:?}", totals.lost);
    }
}

#[test]
fn surviving_lines_lose_less_than_50_ms_when_a_node_dies() {
    let mesh = Topology::mesh(4).unwrap();
    // Everyone sends to the next of the three that survive; node 3 is a relay only.
    let matrix = Matrix::new(vec![
        vec![0.0, 1.0, 0.0, 0.0],
        vec![0.0, 0.0, 1.0, 0.0],
        vec![1.0, 0.0, 0.0, 0.0],
        vec![0.0; 4],
    ]);
    for order in [Order::Spray, Order::Strict] {
        let (widest, totals) =
            scenario::outage(setup(mesh, order), &matrix, 0.7, 60_000, |model| model.set_node(3, false));
        println!("{order:?}: a dead relay costs {:?}, widest gap {} us", totals.lost, widest / 1000);
        assert!(widest < 50 * MS, "{order:?}: {widest}");
        // A quarter of 0.7 R for the 10 ms until it is known, of three inputs, and what was under way.
        assert!(totals.all_lost() < 200, "{totals:?}");
    }
}

#[test]
fn a_fly_keeps_strict_order_by_its_deadline() {
    let fly = Topology::fly(4, 2).unwrap();
    let matrix = Matrix::permutation(&(0..16).map(|i| (i + 5) % 16).collect::<Vec<_>>());
    let mut strict = setup(fly, Order::Strict);
    strict.policy = Policy::Vlb;
    let traffic = || Traffic::new(&matrix, &[0.9; 16], R, LEN, 16, 4).take(100_000);
    let (totals, report) = order(strict, traffic(), restless(4, 2));
    assert_eq!((report.reordered, totals.all_lost()), (0, 0));
    let (_, spray) = order(Setup { order: Order::Spray, ..strict }, traffic(), restless(4, 2));
    assert!(spray.event_ratio() > 0.01, "{spray:?}");
}

#[test]
fn inputs_that_want_one_output_share_it_fairly() {
    for (nodes, order) in [(4, Order::Spray), (8, Order::Spray), (8, Order::Strict)] {
        let (matrix, loads) = (scenario::to_the_last(nodes), scenario::halves(nodes));
        let mesh = Topology::mesh(nodes as u16).unwrap();
        let (rates, _) = scenario::rates(setup(mesh, order), &matrix, &loads);
        let index = fairness(1.0, &loads, &rates);
        println!(
            "N = {nodes}, {order:?}: got {rates:.3?}, fair {:.3?}, Jain's index {index:.4}",
            max_min(1.0, &loads)
        );
        assert!(index >= 0.99, "{rates:?}");
        assert!((rates.iter().sum::<f64>() - 1.0).abs() < 0.01, "and the line is full");
    }
}

#[test]
fn inputs_share_the_links_of_relays_fairly() {
    // Links of R/8: into node 3 go 3R/8, so the line is never full and relays drop.
    let mut narrow = setup(Topology::mesh(4).unwrap(), Order::Spray);
    narrow.link_rate = R / 8;
    let loads = scenario::halves(4);
    let (rates, totals) = scenario::rates(narrow, &scenario::to_the_last(4), &loads);
    let index = fairness(0.375, &loads, &rates);
    println!("at relays: got {rates:.3?}, Jain's index {index:.4}, lost {:?}", totals.lost);
    assert!(index >= 0.99 && totals.lost_by(Loss::RelayFull) > 1000);
}

#[test]
fn whatever_fails_each_packet_leaves_at_most_once_and_in_order() {
    let count = std::env::var("CLUSTER_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(120);
    let topologies = [Topology::mesh(4), Topology::fly(4, 2), Topology::mesh(8), Topology::fly(2, 2)];
    for seed in 0..count {
        let topology = topologies[seed as usize % 4].unwrap();
        let mut strict = setup(topology, Order::Strict);
        if seed % 4 == 2 {
            strict = Setup { ports: 2, link_rate: topology.link_rate(R, 2), ..strict };
        }
        let lines = strict.lines() as usize;
        let mut random = Random::new(seed);
        let parts: Vec<_> = (0..3).map(|_| (1.0 / 3.0, random.permutation(lines))).collect();
        let mut seen = std::collections::HashSet::new();
        let mut meter = ReorderMeter::default();
        let mut leave = |packet: cluster::model::Packet| {
            assert!(seen.insert((packet.flow, packet.number)), "seed {seed}: twice");
            meter.packet(packet.flow, packet.number);
        };
        let mut model = Model::new(strict);
        let mut last = 0;
        let traffic = Traffic::new(&Matrix::mixture(&parts), &vec![0.7; lines], R, LEN, 4, seed);
        for packet in traffic.take(300 * lines) {
            if random.below(200) == 0 {
                let node = random.below(topology.nodes().into()) as u16;
                let link = random.below(topology.radix().into()) as u16;
                match random.below(3) {
                    0 => model.set_delay(node, link, random.below(5_000_000) as u64),
                    change => model.set_link(node, link, change == 1),
                }
            }
            last = packet.at;
            model.offer(packet);
            model.drain().for_each(|(_, packet)| leave(packet));
        }
        model.run_until(last + 2 * SECOND);
        model.drain().for_each(|(_, packet)| leave(packet));
        let (totals, report) = (model.totals(), meter.report());
        assert_eq!(report.reordered, 0, "seed {seed}");
        assert_eq!((model.inside(), model.held()), (0, 0), "seed {seed}: nothing is held for ever");
        assert_eq!(totals.offered, totals.delivered + totals.all_lost(), "seed {seed}");
        assert!(totals.most_held < strict.window && totals.delivered > 0, "seed {seed}: {totals:?}");
    }
}
