//! Queues that are full: who gets what, and what follows for order.

use super::{drive, drive_frames};
use crate::net::{MS, Net};
use crate::setup::Setup;
use cluster::random::Random;

/// The smallest frames and more of them than the links carry: queues are full for long. What goes by them is not so late that a
/// resequencer has given it up.
#[test]
fn full_queues_do_not_lead_out_of_the_window() {
    for (nodes, seed) in [(4, 1), (8, 2)] {
        let mut net = Net::new(Setup { line_rate: 10_000_000, ..Setup::mesh(nodes, "strict") });
        let mut random = Random::new(seed);
        drive_frames(&mut net, 60, 1500, 1.05, &mut random, |line, _| Some(line ^ 1));
        net.run_for(2000 * MS);
        let losses = net.losses();
        let of_queues = ["cluster.link_full", "cluster.relay_full", "cluster.line_full"];
        assert!(losses.keys().all(|name| of_queues.contains(&&**name)), "{losses:?}");
        let (lost, all) = (net.undelivered(), net.sent.len());
        // Markers wait, too.
        assert!(net.reordered == 0 && lost as u64 <= losses.values().sum(), "{lost}: {losses:?}");
        assert!(lost > 0 && lost * 4 < all, "{lost} of {all}");
        net.check_books();
    }
}

/// Inputs that offer R, R/2, R/4 to one line get what max-min fairness gives them.
#[test]
fn a_line_is_shared_fairly_by_input_node() {
    for order in ["strict", "flowlet"] {
        let mut net = Net::new(Setup { more: ", BUFFER 64000", ..Setup::mesh(4, order) });
        let mut random = Random::new(5);
        let loads = [1.0, 0.5, 0.25];
        drive(&mut net, 400, 1.0, &mut random, |line, random| {
            (line < 3 && random.fraction() < loads[usize::from(line)]).then_some(3)
        });
        let got: Vec<f64> = (0..3).map(|input| net.bytes[&(3, input)] as f64).collect();
        let line = 100e6 / 8.0 * 0.4 * 986.0 / 1010.0;
        let demands = loads.map(|load| load * line);
        let index = cluster::fairness::fairness(line, &demands, &got);
        assert!(index >= 0.99, "{order}: {index} {got:?}");
        let sum: f64 = got.iter().sum();
        assert!(sum > 0.97 * line, "{order}: {sum} of {line}");
        net.run_for(300 * MS);
        let lost: u64 = net.losses().values().sum();
        assert_eq!(net.undelivered() as u64, lost, "{:?}", net.losses());
        net.check_books();
    }
}

/// The link of a relay that cannot carry what comes for it is shared as max-min fairness has it, too.
#[test]
fn a_relays_link_is_shared_fairly_by_input_node() {
    for order in ["strict", "spray"] {
        let more = ", POLICY vlb, LINK_RATE 14Mbps, BUFFER 64000";
        let mut net = Net::new(Setup { more, ..Setup::mesh(8, order) });
        let mut random = Random::new(6);
        let loads = [1.0, 0.5, 0.25];
        let to = |line: u16, random: &mut Random| {
            (line < 3 && random.fraction() < loads[usize::from(line)]).then_some(7)
        };
        // Until all links have something waiting.
        drive(&mut net, 100, 1.0, &mut random, to);
        net.carried.clear();
        drive(&mut net, 400, 1.0, &mut random, to);
        let link = 14e6 / 8.0 * 0.4 * 986.0 / 1010.0;
        for relay in 3..7 {
            let bytes = |key: (u16, u16, u16, bool)| net.carried.get(&key).copied().unwrap_or(0) as f64;
            let demands: Vec<f64> = (0..3).map(|input| bytes((input, relay, input, false))).collect();
            let got: Vec<f64> = (0..3).map(|input| bytes((relay, 7, input, true))).collect();
            let (asked, sum): (f64, f64) = (demands.iter().sum(), got.iter().sum());
            assert!(asked > 1.2 * link, "{order}, relay {relay}: {demands:?} of {link}");
            // The rest is for hellos and markers.
            assert!(sum > 0.94 * link && sum < 1.01 * link, "{order}, relay {relay}: {got:?} of {link}");
            let index = cluster::fairness::fairness(link, &demands, &got);
            assert!(index >= 0.99, "{order}, relay {relay}: {index} {demands:?} {got:?}");
        }
        net.run_for(300 * MS);
        let lost: u64 = net.losses().values().sum();
        assert_eq!(net.undelivered() as u64, lost, "{:?}", net.losses());
        net.check_books();
    }
}
