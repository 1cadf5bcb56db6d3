//! Flowlets in whole clusters.

use super::drive;
use crate::net::{MS, Net};
use crate::setup::Setup;
use cluster::random::Random;

/// Flowlets of which none goes by a relay, then some do, then none.
#[test]
fn flowlets_rest_and_wake() {
    let mut net = Net::new(Setup { more: ", GAP 20ms", ..Setup::mesh(4, "flowlet") });
    let mut random = Random::new(3);
    let to = |line, _: &mut Random| Some((line + 1) % 4);
    drive(&mut net, 150, 0.3, &mut random, to);
    assert_eq!((net.relayed, net.reordered, net.losses().len()), (0, 0, 0), "{:?}", net.losses());
    drive(&mut net, 100, 0.95, &mut random, to);
    assert!(net.relayed * 5 > net.sent.len(), "{} of {}", net.relayed, net.sent.len());
    // Until flowlets by relays have ended.
    drive(&mut net, 100, 0.3, &mut random, |line, _| (line > 3).then_some(0));
    let relayed = net.relayed;
    drive(&mut net, 300, 0.3, &mut random, to);
    assert_eq!(net.relayed, relayed);
    net.run_for(100 * MS);
    let lost: u64 = net.losses().values().sum();
    assert_eq!(net.undelivered() as u64, lost, "{:?}", net.losses());
    net.check_books();
}
