//! Nodes that come and go while the others run.

use super::{drive, names};
use crate::net::{MS, Net};
use crate::setup::Setup;
use cluster::random::Random;

/// Tells all nodes but the last which nodes there are, one after the other while packets pass.
fn tell(net: &mut Net, random: &mut Random, members: &str) {
    for node in 0..4 {
        net.nodes[node].router.write("cluster", "members", members).unwrap();
        drive(net, 4, 0.7, random, among_four);
    }
}

/// Each of the first four sends everything to the next.
fn among_four(line: u16, _: &mut Random) -> Option<u16> {
    (line < 4).then_some((line + 1) % 4)
}

fn relayed(net: &Net, node: usize) -> u64 {
    let traffic = net.nodes[node].read("traffic");
    let row = traffic.lines().find(|line| line.trim_start().starts_with("relayed")).unwrap();
    row.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A fifth node comes, has its part of the traffic, and goes: nothing is lost, and order stays.
#[test]
fn a_node_comes_and_goes_without_loss() {
    for order in ["strict", "spray"] {
        let mut net = Net::new(Setup::mesh(5, order));
        let mut random = Random::new(9);
        net.kill(4);
        tell(&mut net, &mut random, "0 1 2 3");
        // What the fifth node had said of itself is forgotten.
        net.run_for(50 * MS);
        assert_eq!(net.nodes[0].read("members"), "0 1 2 3");
        assert_eq!(net.nodes[0].read("links").lines().count(), 1 + 3);
        assert_eq!(net.nodes[0].read("streams").lines().count(), 1 + 3);
        let (begun, cut) = (net.now, net.cut);
        drive(&mut net, 40, 0.7, &mut random, among_four);

        tell(&mut net, &mut random, "0 1 2 3 4");
        drive(&mut net, 20, 0.7, &mut random, among_four);
        net.restart(4, 2);
        drive(&mut net, 60, 0.7, &mut random, among_four);
        assert!(relayed(&net, 4) > 20, "{}", net.nodes[0].read("links"));
        drive(&mut net, 60, 0.7, &mut random, |line, _| Some((line + 1) % 5));
        assert_eq!(net.nodes[0].read("links").matches(" up ").count(), 4);

        net.nodes[4].router.write("cluster", "drain", "true").unwrap();
        drive(&mut net, 60, 0.7, &mut random, among_four);
        let before = relayed(&net, 4);
        tell(&mut net, &mut random, "0 1 2 3");
        assert_eq!(relayed(&net, 4), before);
        net.kill(4);
        drive(&mut net, 60, 0.7, &mut random, among_four);
        net.run_for(200 * MS);
        assert_eq!(net.cut, cut, "{order}");
        assert_eq!(net.undelivered_since(begun), 0, "{order}: {:?}", net.losses());
        if order == "strict" {
            assert_eq!(net.reordered, 0);
        }
        assert!(names(&net).iter().all(|name| !name.contains("unreachable")), "{:?}", net.losses());
        net.check_books();
    }
}

/// A link that is there before both ends know of it carries nothing.
#[test]
fn only_members_are_sent_to() {
    let mut net = Net::new(Setup::mesh(3, "strict"));
    for node in [0, 1] {
        net.nodes[node].router.write("cluster", "members", "0 1").unwrap();
    }
    net.run_for(100 * MS);
    // Node 2 still sends hellos, and is not heard.
    assert!(net.nodes[2].read("links").lines().skip(1).all(|line| line.contains(" down ")));
    let shares = net.nodes[0].read("shares");
    assert_eq!(shares.lines().skip(1).count(), 1, "{shares}");
    for text in ["0 3", "0 0", "1", "x", ""] {
        assert!(net.nodes[0].router.write("cluster", "members", text).is_err(), "{text}");
    }
    assert_eq!(net.nodes[0].read("members"), "0 1");
    net.check_books();
}
