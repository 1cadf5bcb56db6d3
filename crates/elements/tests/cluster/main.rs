//! Whole clusters of `ClusterSwitch`es: order, conservation, failure, fairness.

#![allow(clippy::unwrap_used, reason = "what fails here is to be seen")]

mod classes;
mod flowlets;
mod fly;
mod growth;
mod net;
mod node;
mod queues;
mod rates;
mod setup;
mod vlans;

use cluster::random::Random;
use cluster::topology::Topology;
use net::{MS, Net};
use setup::Setup;
use std::hash::Hasher;

/// Offers packets of 986 bytes (with what a wire adds, 1,010) for some milliseconds: line `i` sends at `load` of its rate to
/// the outputs that `to` draws, from any of its interfaces.
fn drive(
    net: &mut Net,
    ms: u64,
    load: f64,
    random: &mut Random,
    to: impl Fn(u16, &mut Random) -> Option<u16>,
) {
    drive_frames(net, 986, ms, load, random, to);
}

/// The same with packets of another length.
fn drive_frames(
    net: &mut Net,
    len: usize,
    ms: u64,
    load: f64,
    random: &mut Random,
    to: impl Fn(u16, &mut Random) -> Option<u16>,
) {
    let (lines, kinds) = (net.setup.lines(), net.setup.kinds);
    let interval = ((len + 24) as f64 * 8.0 * 1e9 / net.setup.line_rate as f64 / load) as u64;
    let end = net.now + ms * MS;
    let mut due: Vec<(u64, u16)> =
        (0..lines).map(|line| (net.now + random.below(interval as usize) as u64, line)).collect();
    loop {
        due.sort_unstable();
        let (at, line) = due[0];
        if at >= end {
            break;
        }
        net.run_until(at);
        if let Some(output) = to(line, random) {
            let kind = if kinds > 1 { random.below(kinds.into()) as u16 } else { 0 };
            net.offer(line + kind * lines, output, random.below(4) as u16, len);
        }
        due[0].0 += interval;
    }
    net.run_until(end);
}

/// The seeds of a random test: so many, or as many as `CLUSTER_SEEDS` says.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("CLUSTER_SEEDS").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(usual)
}

fn names(net: &Net) -> Vec<String> {
    let mut names: Vec<String> = net.losses().into_keys().collect();
    names.sort();
    names
}

#[test]
fn links_come_up_and_a_packet_crosses() {
    let mut net = Net::new(Setup::mesh(2, "strict"));
    let links = net.nodes[0].read("links");
    assert!(links.contains("  up "), "{links}");
    net.offer(0, 1, 1, 100);
    net.offer(1, 0, 1, 100);
    net.offer(0, 0, 1, 100);
    net.run_for(50 * MS);
    assert_eq!((net.delivered, net.undelivered()), (3, 0), "{:?}", net.losses());
    net.check_books();
}

#[test]
fn strict_keeps_order_where_spray_does_not() {
    for (order, lines) in [("strict", 4), ("spray", 4), ("flowlet", 4), ("single-path", 4)] {
        let mut net = Net::new(Setup::mesh(lines, order));
        let mut random = Random::new(1);
        // Everyone to its neighbour: the worst case for direct links; paths that differ.
        net.wire(0, 2).delay = 1_500_000;
        net.wire(2, 1).delay = 900_000;
        drive(&mut net, 100, 0.95, &mut random, |line, _| Some((line + 1) % 4));
        net.run_for(200 * MS);
        let strange: Vec<String> = names(&net);
        match order {
            "strict" => assert_eq!((net.reordered, net.undelivered()), (0, 0), "{strange:?}"),
            "spray" => assert!(net.reordered > 50 && net.undelivered() == 0, "{} {strange:?}", net.reordered),
            "flowlet" => assert_eq!(net.undelivered(), 0, "{strange:?}"),
            _ => assert_eq!(net.reordered, 0),
        }
        if order == "strict" || order == "spray" {
            assert!(net.relayed * 5 > net.sent.len() * 2, "{} of {}", net.relayed, net.sent.len());
            assert_eq!(strange, [""; 0]);
        }
        net.check_books();
    }
}

/// What is known of whole batches saves work and changes nothing: neither which frames links carry, nor when.
#[test]
fn frames_that_somebody_looked_at_go_the_same_ways() {
    for (order, kinds) in [("strict", 1), ("spray", 1), ("flowlet", 1), ("flowlet", 3), ("single-path", 1)] {
        let [mut plain, mut looked_at] = ["", "Paint(1) -> "].map(|between| {
            let more = ", GAP 20ms";
            let mut net = Net::new(Setup { between, kinds, more, ..Setup::mesh(4, order) });
            let interfaces = usize::from(net.setup.interfaces());
            let mut random = Random::new(5);
            for load in [0.3, 0.95] {
                drive(&mut net, 250, load, &mut random, |line, random| {
                    let any = random.below(interfaces) as u16;
                    Some(if random.below(4) == 0 { any } else { (line + 1) % 4 })
                });
            }
            net.run_for(200 * MS);
            net.check_books();
            net
        });
        let facts = |net: &mut Net| {
            let (delivered, reordered, lost) = (net.delivered, net.reordered, net.undelivered());
            (delivered, reordered, lost, net.relayed, net.transcript.finish())
        };
        let [plain, looked_at] = [&mut plain, &mut looked_at].map(facts);
        assert_eq!(plain, looked_at, "{order}");
        assert!(plain.0 > 1000 && plain.3 > 100, "{plain:?}");
    }
}

/// A link that is cut while everyone sends to its neighbour, and mended.
#[test]
fn order_is_kept_and_traffic_goes_on_without_a_link() {
    for seed in seeds(6) {
        let mut net = Net::new(Setup { more: ", HELLO 3ms", ..Setup::mesh(4, "strict") });
        let mut random = Random::new(seed);
        for wire in &mut net.wires {
            wire.delay = 10_000 + random.below(1_000_000) as u64;
        }
        let to = |line, _: &mut Random| Some((line + 1) % 4);
        drive(&mut net, 30, 0.6, &mut random, to);
        // Without any of them gone, nothing is lost.
        assert_eq!(net.losses().len(), 0, "{:?}", net.losses());
        let (a, b) = [(0, 1), (1, 3), (2, 0)][seed as usize % 3];
        net.set_link(a, b, false);
        drive(&mut net, 60, 0.6, &mut random, to);
        assert!(net.nodes[usize::from(a)].read("links").contains(" down "));
        let known = net.now;
        drive(&mut net, 40, 0.6, &mut random, to);
        net.set_link(a, b, true);
        drive(&mut net, 60, 0.6, &mut random, to);
        net.run_for(200 * MS);
        assert_eq!(net.reordered, 0);
        assert_eq!(net.undelivered_since(known), 0, "seed {seed}: {:?}", net.losses());
        let lost: u64 = net.losses().values().sum();
        let gap = net.gaps.values().map(|(_, gap)| *gap).max().unwrap();
        assert!(gap < 30 * MS, "seed {seed}: {gap}");
        // What the link took with it, nothing else; hellos and markers that waited for it count, too.
        assert!(net.undelivered() <= net.cut + lost as usize, "seed {seed}: {:?} {}", net.losses(), net.cut);
        assert!(
            net.losses().keys().all(|name| ["cluster.link_down", "cluster.late"].contains(&&name[..])),
            "{:?}",
            net.losses()
        );
        assert!(!net.nodes[usize::from(a)].read("links").contains(" down "));
        net.check_books();
    }
}

/// A node that dies, and comes back in a new life.
#[test]
fn a_node_that_dies_takes_only_its_own_traffic_with_it() {
    for seed in seeds(6) {
        let mut net = Net::new(Setup { more: ", HELLO 3ms", ..Setup::mesh(4, "strict") });
        let mut random = Random::new(seed);
        for wire in &mut net.wires {
            wire.delay = 10_000 + random.below(1_000_000) as u64;
        }
        let dead = 1 + random.below(3) as u16;
        let others: Vec<u16> = (0..4).filter(|&n| n != dead).collect();
        let among = |line: u16, random: &mut Random| {
            let place = others.iter().position(|&n| n == line)?;
            Some(others[(place + 1 + random.below(2)) % 3])
        };
        drive(&mut net, 30, 0.6, &mut random, |_, random| Some(random.below(4) as u16));
        let before = net.now;
        net.kill(dead);
        drive(&mut net, 60, 0.6, &mut random, among);
        let known = net.now;
        drive(&mut net, 40, 0.6, &mut random, among);
        net.restart(dead, 2);
        drive(&mut net, 40, 0.6, &mut random, among);
        let back = net.now;
        drive(&mut net, 60, 0.6, &mut random, |_, random| Some(random.below(4) as u16));
        net.run_for(200 * MS);
        assert_eq!(net.reordered, 0);
        assert_eq!(net.undelivered_since(known), 0, "seed {seed}: {:?}", net.losses());
        let of_others = |(pair, gap): (&(u16, u16), &(u64, u64))| {
            (pair.0 != dead && pair.1 != dead && pair.0 != pair.1).then_some(gap.1)
        };
        let gap = net.gaps.iter().filter_map(of_others).max().unwrap();
        assert!(gap < 40 * MS, "seed {seed}: {gap}");
        assert!(before < back);
        net.check_books();
    }
}

/// Links that differ in delay by more from one millisecond to the next.
#[test]
fn order_is_kept_while_delays_change() {
    for seed in seeds(10) {
        let nodes = [2, 4, 8][seed as usize % 3];
        let mut net =
            Net::new(Setup { ports: if nodes == 8 { 1 } else { 2 }, ..Setup::mesh(nodes, "strict") });
        let mut random = Random::new(seed);
        let lines = nodes * net.setup.ports;
        let to = random.permutation(lines.into());
        for _ in 0..20 {
            for wire in &mut net.wires {
                wire.delay = 10_000 + random.below(3_000_000) as u64;
            }
            drive(&mut net, 3, 0.9, &mut random, |line, _| Some(to[usize::from(line)] as u16));
        }
        net.run_for(300 * MS);
        assert_eq!((net.reordered, net.undelivered()), (0, 0), "seed {seed}: {:?}", net.losses());
        assert_eq!(net.losses().len(), 0);
        net.check_books();
    }
}

/// A stream that stops leaves nothing behind, even if its last packets but one are lost.
#[test]
fn markers_release_what_waits_when_paths_are_idle() {
    markers_release_what_waits("strict", ", DEADLINE 5s");
    markers_release_what_waits("spray", ", DEADLINE 5s, CLASSES all strict 0");
}

fn markers_release_what_waits(order: &'static str, more: &'static str) {
    let mut net = Net::new(Setup { more, ..Setup::mesh(4, order) });
    let mut random = Random::new(7);
    drive(&mut net, 20, 0.9, &mut random, |line, _| (line == 0).then_some(1));
    // What goes by node 2 is lost, unnoticed.
    net.tamper = Some(|frame| {
        if frame[12..14] == [8, 0] && frame[0] & 0b10_0000 == 0 && frame[9] & 1 == 0 {
            frame[0] = 0;
        }
    });
    drive(&mut net, 5, 0.9, &mut random, |line, _| (line == 0).then_some(1));
    net.tamper = None;
    net.run_for(20 * MS);
    let foreign: u64 = net.losses().values().sum();
    assert!(foreign > 3, "{:?}", net.losses());
    assert_eq!(net.losses().keys().collect::<Vec<_>>(), ["cluster.foreign"]);
    // Nothing has waited for the deadline.
    assert_eq!((net.undelivered() as u64, net.reordered), (foreign, 0));
    net.check_books();
}

/// Frames with any bytes in place of the internal header are lost by name, or are what they say; nothing stands still.
#[test]
fn forged_frames_neither_stall_streams_nor_grow_state() {
    let mut net = Net::new(Setup::mesh(4, "strict"));
    let mut random = Random::new(3);
    let mut forged = 0_u64;
    for _ in 0..20 {
        drive(&mut net, 3, 0.5, &mut random, |line, _| Some((line + 1) % 4));
        for _ in 0..20 {
            let mut frame = vec![0; [60, 200, 14, 13, 0][random.below(5)]];
            frame.iter_mut().for_each(|byte| *byte = random.bits() as u8);
            // Most of them are nearly right; what is right in all is not of a life that anybody lives.
            if frame.len() > 12 && random.below(8) > 0 {
                let right =
                    [0x62, 0, 0x20, 0, 0, [1, 3][random.below(2)], 0x02, 0x04, 0x0F, 0xFF, 0xFF, 0xFF];
                let wrong = random.below(8);
                frame[..12].copy_from_slice(&right);
                let any = random.bits() as u8;
                match wrong {
                    0 => frame[0] = 0xA2,
                    1 => frame[2] = any | 0x40,
                    2 => frame[3] = any | 0x10,
                    3 => frame[6] = any | 0x06,
                    4 => frame[8] = any | 0x10,
                    5 => frame[7] = 0x08,
                    6 => frame[2] = 0x30,
                    _ => {}
                }
            }
            net.nodes[2].inject("to1", &frame);
            forged += 1;
        }
    }
    net.run_for(300 * MS);
    assert_eq!((net.undelivered(), net.reordered), (0, 0), "{:?}", net.losses());
    let lost: u64 = net.losses().values().sum();
    assert_eq!(lost, forged, "{:?}", net.losses());
    for name in [
        "short",
        "version",
        "node",
        "port",
        "source",
        "worker",
        "own",
        "misrouted",
        "stale",
        "wrong_incarnation",
    ] {
        assert!(net.losses().contains_key(&format!("cluster.{name}")), "{name}: {:?}", net.losses());
    }
    net.check_books();
}

#[test]
fn what_follows_the_header_crosses_unchanged() {
    for (order, input, output) in [("strict", 0, 1), ("flowlet", 2, 3)] {
        let mut net = Net::new(Setup::mesh(4, order));
        net.offer(input, output, 0, 200);
        net.run_for(MS);
        assert_eq!(net.delivered, 1);
        // The same frame again, as its input node sent it to a relay, with rubbish behind the EtherType.
        let mut frame = vec![
            0x42,
            0,
            (output << 4) as u8,
            0,
            0,
            output as u8 + 1,
            (input >> 4) as u8 | 2,
            (input << 4) as u8,
            1,
            0,
            0,
            1,
        ];
        frame[1] = (output >> 4) as u8;
        frame[6] = ((input >> 6) << 2) as u8 | 2;
        frame[7] = ((input & 0x3F) << 2) as u8;
        frame.extend([0x88, 0x63]);
        frame.extend((0..100).map(|i| i as u8 ^ 0x5A));
        let relay = 3 - input;
        let relay = if relay == output { 1 } else { relay };
        net.nodes[usize::from(relay)].inject(&format!("to{input}"), &frame);
        net.run_for(30 * MS);
        assert_eq!(net.losses().len(), 0, "{:?}", net.losses());
        let (line, out) = net.twins.pop().expect("it came out");
        assert_eq!((line, &out[12..]), (output | 0x8000, &frame[12..]));
        net.check_books();
    }
}

#[test]
fn whole_frames_go_to_the_twins_and_from_them() {
    let mut net = Net::new(Setup { ports: 2, ..Setup::mesh(4, "strict") });
    let arp: Vec<u8> = [vec![0xFF; 6], vec![2, 0, 0, 0, 9, 9], vec![8, 6], (0..46).collect()].concat();
    net.nodes[3].inject("line1", &arp);
    net.nodes[0].inject("line0", &arp);
    net.run_for(MS);
    assert_eq!(net.twins, [(0, arp.clone()), (7, arp.clone())]);
    net.twins.clear();
    net.nodes[0].inject("twin5", &arp);
    net.run_for(MS);
    assert_eq!(net.twins, [(5 | 0x8000, arp.clone())]);
    net.twins.clear();
    // Without the direct link they go over others.
    net.set_link(0, 2, false);
    net.run_for(50 * MS);
    net.nodes[0].inject("twin5", &arp);
    net.nodes[2].inject("line1", &arp);
    net.run_for(MS);
    net.twins.sort();
    assert_eq!(net.twins, [(5, arp.clone()), (5 | 0x8000, arp)]);
    net.check_books();
}

#[test]
fn the_control_node_can_be_another_one() {
    let mut net = Net::new(Setup { ports: 2, candidates: 2, ..Setup::mesh(4, "strict") });
    let arp: Vec<u8> = [vec![0xFF; 6], vec![2, 0, 0, 0, 9, 9], vec![8, 6], (0..46).collect()].concat();
    let passed = |net: &mut Net, node: usize, port: &str| {
        net.nodes[node].inject(port, &arp);
        net.run_for(MS);
        net.twins.drain(..).map(|(where_to, _)| where_to).collect::<Vec<_>>()
    };
    let is_control = |net: &Net, node: usize, is: bool| {
        for port in 0..2 {
            net.nodes[node]
                .router
                .write(&format!("punt{port}"), "switch", if is { "0" } else { "1" })
                .unwrap();
        }
    };
    // Node 1 takes over, while node 0 and node 3 do not know yet.
    is_control(&net, 1, true);
    for node in [1, 2] {
        net.nodes[node].router.write("cluster", "control", "1").unwrap();
    }
    assert_eq!(passed(&mut net, 1, "line0"), [0x102]);
    assert_eq!(passed(&mut net, 2, "line1"), [0x105]);
    assert_eq!(passed(&mut net, 3, "line1"), [7]);
    assert_eq!(passed(&mut net, 1, "twin4"), [0x8004]);
    // What the old one sends counts where it is still the control node, and nowhere else.
    assert_eq!(passed(&mut net, 0, "twin7"), [0x8007]);
    assert_eq!(passed(&mut net, 0, "twin4"), []);
    assert_eq!(net.losses(), [("cluster.no_twin".to_owned(), 1)].into());
    for node in [0, 3] {
        net.nodes[node].router.write("cluster", "control", "1").unwrap();
    }
    is_control(&net, 0, false);
    assert_eq!(passed(&mut net, 0, "line1"), [0x101]);
    assert_eq!(passed(&mut net, 3, "line1"), [0x107]);
    assert_eq!(passed(&mut net, 1, "twin7"), [0x8007]);
    assert_eq!(passed(&mut net, 0, "twin7"), []);
    assert_eq!(net.losses().len(), 2);
    assert_eq!(net.nodes[0].read("control"), "1");
    assert!(net.nodes[0].router.write("cluster", "control", "4").is_err());
    net.check_books();
}

/// Without a word said against it, a node that drains is chosen as relay no more, and nothing is lost.
#[test]
fn a_node_that_drains_relays_nothing() {
    let mut net = Net::new(Setup::mesh(4, "strict"));
    let mut random = Random::new(5);
    let to = |line: u16, _: &mut Random| (line == 0).then_some(1);
    drive(&mut net, 30, 0.9, &mut random, to);
    let relayed = |net: &Net, node: usize| net.nodes[node].read("traffic").lines().nth(4).unwrap().to_owned();
    assert!(!relayed(&net, 2).contains(" 0 "));
    net.nodes[2].router.write("cluster", "drain", "true").unwrap();
    drive(&mut net, 40, 0.6, &mut random, to);
    let before = relayed(&net, 2);
    drive(&mut net, 40, 0.6, &mut random, to);
    assert_eq!(relayed(&net, 2), before);
    net.run_for(100 * MS);
    assert_eq!((net.undelivered(), net.reordered, net.losses().len()), (0, 0, 0));
    net.check_books();
}

/// A 2-ary 2-fly: four nodes with lines, four behind them; and a 4-ary one, of 32.
#[test]
fn a_multi_stage_network_carries_and_keeps_order() {
    let two = Setup {
        shape: "FLY 2 2",
        nodes: 8,
        edge: 4,
        links: |me, _| Topology::fly(2, 2).unwrap().neighbours(me),
        ..Setup::mesh(4, "strict")
    };
    let four = Setup {
        shape: "FLY 4 2",
        nodes: 32,
        edge: 16,
        links: |me, _| Topology::fly(4, 2).unwrap().neighbours(me),
        ..Setup::mesh(4, "strict")
    };
    for setup in [two.clone(), Setup { order: "spray", ..two }, four] {
        let order = setup.order;
        let mut net = Net::new(setup);
        // Links are used later the more columns there are.
        net.run_for(20 * MS);
        let lines = net.setup.edge;
        let mut random = Random::new(9);
        for wire in &mut net.wires {
            wire.delay = 10_000 + random.below(500_000) as u64;
        }
        drive(&mut net, 240 / u64::from(lines), 0.9, &mut random, |line, _| Some((line + 1) % lines));
        net.run_for(60 * MS);
        assert_eq!(net.undelivered(), 0, "{:?}", net.losses());
        assert_eq!(net.reordered == 0, order == "strict");
        net.check_books();
    }
}
