//! Different orders for classes of packets, in whole clusters.

use super::{drive, seeds};
use crate::net::{MS, Net};
use crate::setup::Setup;
use cluster::random::Random;
use std::collections::HashMap;

/// The order of packets with this code point: flow `f` of a test has `CODES[f % 4]`.
const CODES: [u8; 4] = [0, 46, 8, 34];

/// What came out of a cluster by class.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Came {
    sent: usize,
    reordered: usize,
    lost: usize,
}

/// Everyone to its neighbour, so that half of what is not tied goes by relays, on paths that differ; a class for each flow.
fn mixed(order: &'static str, more: &'static str, seed: u64, between: &'static str) -> (Net, [Came; 4]) {
    let mut net = Net::new(Setup { more, between, ..Setup::mesh(4, order) });
    net.codes = CODES;
    let mut random = Random::new(seed);
    for (from, to) in [(0, 2), (2, 1), (1, 3), (3, 2)] {
        net.wire(from, to).delay = 200_000 + random.below(1_500_000) as u64;
    }
    for load in [0.4, 0.8] {
        drive(&mut net, 80, load, &mut random, |line, _| Some((line + 1) % 4));
    }
    // Batches of several classes.
    for _ in 0..20 {
        for line in 0..4 {
            (0..16).for_each(|_| net.offer(line, (line + 1) % 4, random.below(4) as u16, 986));
        }
        net.run_for(3 * MS);
    }
    net.run_for(300 * MS);
    net.check_books();
    let mut came: [Came; 4] = std::array::from_fn(|_| Came::default());
    for sent in &net.sent {
        let class = &mut came[usize::from(sent.flow)];
        class.sent += 1;
        class.reordered += usize::from(sent.is_late());
        class.lost += usize::from(!sent.is_delivered());
    }
    (net, came)
}

#[test]
fn each_class_has_its_order() {
    const CLASSES: &str = ", CLASSES voice single-path 46 bulk spray 8 10 video flowlet 34";
    for seed in seeds(2) {
        let (net, came) = mixed("strict", CLASSES, seed, "");
        let [strict, single, spray, flowlet] = came;
        assert_eq!((strict.reordered, strict.lost), (0, 0), "{seed} {strict:?}");
        assert_eq!(single.reordered, 0, "{seed} {single:?}");
        assert!(spray.reordered > 20 && spray.lost == 0, "{seed} {spray:?}");
        assert!(flowlet.reordered < spray.reordered / 4, "{seed} {flowlet:?} {spray:?}");
        let lost: u64 = net.losses().values().sum();
        assert_eq!(net.undelivered() as u64, lost, "{seed} {:?}", net.losses());
        // Nothing was taken for something that it was not.
        for name in ["late", "duplicate", "out_of_window", "stale"] {
            assert!(!net.losses().keys().any(|loss| loss.ends_with(name)), "{:?}", net.losses());
        }
    }
}

/// The same where the usual order has no numbers, and where it has the same ones.
#[test]
fn a_strict_class_among_others() {
    for order in ["spray", "flowlet", "single-path", "strict"] {
        let (net, came) = mixed(order, ", CLASSES voice strict 46, GAP 20ms", 3, "");
        assert_eq!((came[1].reordered, came[1].lost), (0, 0), "{order} {came:?}");
        let others: usize = [0, 2, 3].map(|class| came[class].reordered).iter().sum();
        match order {
            "spray" => assert!(others > 50, "{came:?}"),
            "flowlet" => {}
            _ => assert_eq!(others, 0, "{order} {came:?}"),
        }
        let streams = net.nodes[1].read("streams");
        let delivered =
            streams.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
        let is_numbered = |flow| flow == 1 || order == "strict";
        let numbered = net.sent.iter().filter(|sent| sent.output == 1 && is_numbered(sent.flow));
        assert_eq!(delivered.sum::<usize>(), numbered.count());
    }
}

/// By input, flow and link: packets on the first way of a class.
fn first_ways(net: &Net) -> HashMap<(u16, u16), Vec<u16>> {
    let mut ways: HashMap<(u16, u16), Vec<u16>> = HashMap::new();
    for &(source, flow, to) in &net.first_ways {
        let ways = ways.entry((source, flow)).or_default();
        if !ways.contains(&to) {
            ways.push(to);
        }
    }
    ways
}

#[test]
fn paths_are_those_of_the_class() {
    let (net, _) = mixed("strict", ", CLASSES voice single-path 46 bulk spray 8", 1, "");
    let ways = first_ways(&net);
    for source in 0..4 {
        assert_eq!(ways[&(source, 1)].len(), 1, "{ways:?}");
        assert_eq!(ways[&(source, 2)].len(), 3, "{ways:?}");
        assert_eq!(ways[&(source, 0)].len(), 3, "{ways:?}");
    }
}

/// What is known of whole batches holds for their parts.
#[test]
fn frames_that_somebody_looked_at_go_the_same_ways() {
    const CLASSES: &str = ", CLASSES voice single-path 46 bulk spray 8 video flowlet 34";
    let [plain, looked_at] = ["", "Paint(1) -> "].map(|between| {
        let (net, came) = mixed("strict", CLASSES, 7, between);
        (came, net.relayed, std::hash::Hasher::finish(&net.transcript))
    });
    assert_eq!(plain, looked_at);
}

#[test]
fn what_came_of_each_class_is_shown() {
    let (net, came) = mixed("strict", ", CLASSES voice single-path 46 40 bulk spray 8", 1, "");
    for (node, line) in net.nodes.iter().zip(0..) {
        let sent = |flows: &[u16]| {
            let sent = net.sent.iter().filter(|sent| sent.input == line && flows.contains(&sent.flow));
            let packets = sent.count();
            format!("{packets} {}", packets * 986)
        };
        let table = node.read("classes");
        let rows: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "class order dscp state packets bytes".to_owned(),
            format!("default strict - used {}", sent(&[0, 3])),
            format!("voice single-path 46,40 used {}", sent(&[1])),
            format!("bulk spray 8 used {}", sent(&[2])),
        ];
        assert_eq!(rows, expected);
    }
    assert!(came.iter().all(|class| class.sent > 50), "{came:?}");
}

/// A node of the version before takes all packets for ones with numbers, until it has been replaced.
#[test]
fn who_does_not_know_classes_is_not_confused() {
    let setup = Setup { more: ", CLASSES voice single-path 46 bulk spray 8", ..Setup::mesh(4, "strict") };
    let mut net = Net::new(setup);
    net.codes = CODES;
    net.wire(0, 2).delay = 900_000;
    let mut random = Random::new(1);
    let to = |line, _: &mut Random| Some((line + 1) % 4);
    // Hellos of node 2 do not say that it knows.
    net.tamper = Some(|frame| {
        if crate::net::is_hello(frame) && crate::net::source(frame) == 2 {
            frame[15] &= !4;
        }
    });
    net.run_for(30 * MS);
    drive(&mut net, 60, 0.8, &mut random, to);
    net.run_for(100 * MS);
    // Node 2 itself knows, and so do all that it hears.
    let late = net.sent.iter().filter(|sent| sent.is_late() && sent.input != 2).count();
    assert_eq!((late, net.undelivered()), (0, 0), "{:?}", net.losses());
    assert!(
        net.nodes[0].read("classes").contains("unused") && net.nodes[2].read("classes").contains(" used")
    );
    net.tamper = None;
    net.run_for(30 * MS);
    let before = net.reordered;
    drive(&mut net, 60, 0.8, &mut random, to);
    net.run_for(100 * MS);
    assert!(net.reordered > before && net.undelivered() == 0, "{:?}", net.losses());
    assert!(net.nodes[0].read("classes").contains(" used"));
    net.check_books();
}

#[test]
fn in_a_fly_relays_leave_flows_together() {
    let links = |me, _| cluster::topology::Topology::fly(2, 2).unwrap().neighbours(me);
    let setup = Setup {
        shape: "FLY 2 2",
        nodes: 8,
        edge: 4,
        links,
        more: ", CLASSES voice single-path 46 bulk spray 8",
        ..Setup::mesh(4, "strict")
    };
    let mut net = Net::new(setup);
    net.codes = CODES;
    for (number, wire) in (1..).zip(&mut net.wires) {
        wire.delay = 20_000 + number * 370_000 % 1_500_000;
    }
    let mut random = Random::new(4);
    drive(&mut net, 80, 0.5, &mut random, |line, random| Some((line + 1 + random.below(3) as u16) % 4));
    net.run_for(300 * MS);
    let late = |flow| net.sent.iter().filter(|sent| sent.flow == flow && sent.is_late()).count();
    assert_eq!((late(0), late(1), late(3)), (0, 0, 0));
    assert!(late(2) > 20, "{}", late(2));
    net.check_books();
}
