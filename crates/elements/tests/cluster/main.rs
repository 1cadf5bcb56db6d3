//! Whole clusters of `ClusterSwitch`es: order, conservation, failure, fairness.

mod net;

use cluster::random::Random;
use net::{MS, Net, Setup};

/// Offers packets of 986 bytes (with what a wire adds, 1,010) for some milliseconds: input `i` sends at `load` of its line to
/// the outputs that `to` draws.
fn drive(
    net: &mut Net,
    ms: u64,
    load: f64,
    random: &mut Random,
    to: impl Fn(u16, &mut Random) -> Option<u16>,
) {
    let lines = net.setup.edge * net.setup.ports;
    let interval = (1010.0 * 8.0 * 1e9 / net.setup.line_rate as f64 / load) as u64;
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
            net.offer(line, output, random.below(4) as u16, 986);
        }
        due[0].0 += interval;
    }
    net.run_until(end);
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
