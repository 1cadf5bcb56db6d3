//! Links of different rates: what load passes then without loss, and that it does.
//!
//! As in `throughput.rs`, at 97 % of what [`Links::guaranteed_load`] allows, which is the part of a link that direct traffic may
//! fill.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cluster::model::scenario::{LENGTH, LINE_RATE, ring, setup};
use cluster::model::{Matrix, Model, Totals, Traffic};
use cluster::path::Order;
use cluster::random::Random;
use cluster::shares::Links;
use cluster::topology::Topology;
use cluster::utilisation::SECOND;

const R: u64 = LINE_RATE;
const PACKETS: usize = 4000;

/// Links of 2R/N, but for some: the nodes at their ends, and R/100.
type Slow<'a> = &'a [(u16, u16, u64)];

/// Links with the rates that a model with these slow ones has.
fn links(topology: Topology, slow: Slow<'_>) -> Links {
    let mut links = Links::new(topology, topology.link_rate(R, 1));
    each(slow, |from, to, rate| links.set(from, to, rate));
    links
}

/// In a full mesh a link has the number of the node that it leads to.
fn each(slow: Slow<'_>, mut set: impl FnMut(u16, u16, u64)) {
    for &(a, b, rate) in slow {
        set(a, b, rate * R / 100);
        set(b, a, rate * R / 100);
    }
}

/// What happens at a load, as a part of R.
fn run(nodes: u16, slow: Slow<'_>, order: Order, matrix: &Matrix, load: f64, seed: u64) -> Totals {
    let setup = setup(Topology::mesh(nodes).unwrap(), order);
    let mut model = Model::new(setup);
    each(slow, |from, to, rate| model.set_rate(from, to, rate));
    let lines = matrix.rows().len();
    let mut last = 0;
    for packet in Traffic::new(matrix, &vec![load; lines], R, LENGTH, 16, seed).take(PACKETS * lines) {
        last = packet.at;
        model.offer(packet);
        model.drain().for_each(drop);
    }
    model.run_until(last + 2 * SECOND);
    assert_eq!((model.inside(), model.held()), (0, 0));
    model.totals()
}

fn matrices(nodes: usize, random: &mut Random) -> Vec<Matrix> {
    let mut all = vec![Matrix::uniform(nodes), ring(nodes)];
    all.extend((0..6).map(|_| Matrix::permutation(&random.permutation(nodes))));
    all.extend((0..4).map(|_| {
        let part = random.fraction();
        Matrix::mixture(&[(part, random.permutation(nodes)), (1.0 - part, random.permutation(nodes))])
    }));
    all
}

#[test]
fn what_slow_links_permit_passes() {
    let cases: [(u16, Slow<'_>); 4] = [
        (4, &[(0, 1, 25)]),
        // No proportion that small weights could have.
        (4, &[(2, 3, 37)]),
        (4, &[(0, 1, 25), (1, 2, 40)]),
        (8, &[(0, 1, 10), (0, 2, 20), (5, 6, 5)]),
    ];
    for (nodes, slow) in cases {
        let topology = Topology::mesh(nodes).unwrap();
        let permitted = links(topology, slow).guaranteed_load(R).unwrap();
        assert!(permitted > 0.5 && permitted < 1.0, "{slow:?}: {permitted}");
        let mut random = Random::new(u64::from(nodes));
        for (seed, matrix) in matrices(nodes.into(), &mut random).iter().enumerate() {
            for order in [Order::Spray, Order::Strict] {
                let totals = run(nodes, slow, order, matrix, 0.97 * permitted, seed as u64);
                assert_eq!(totals.lost, [0; 6], "{slow:?} {order:?} {permitted} {matrix:?}");
            }
        }
        println!("{nodes} nodes, slow {slow:?}: lost 0 at 97 % of {:.1} % of R", permitted * 100.0);
    }
}

/// However slow a link is, markers take no more of it than a part.
#[test]
fn markers_leave_room_on_slow_links() {
    let slow: Slow<'_> = &[(0, 1, 2)];
    let permitted = links(Topology::mesh(8).unwrap(), slow).guaranteed_load(R).unwrap();
    let totals = run(8, slow, Order::Strict, &Matrix::uniform(8), 0.97 * permitted, 0);
    assert_eq!(totals.lost, [0; 6], "{totals:?}");
}

/// One link of a tenth of what the others have: it carries what it can of what is sent between its ends, and relays the rest.
#[test]
fn what_a_slow_link_cannot_carry_goes_by_relays() {
    let slow: Slow<'_> = &[(0, 1, 5)];
    let load = 0.9 * links(Topology::mesh(4).unwrap(), slow).guaranteed_load(R).unwrap();
    let totals = run(4, slow, Order::Strict, &Matrix::permutation(&[1, 0, 3, 2]), load, 1);
    assert_eq!(totals.lost, [0; 6], "{totals:?}");
    // Between 2 and 3 direct traffic fills 0.485 R, between 0 and 1 0.0485 R.
    let directly = |rate: f64| (0.97 * rate / load).min(1.0);
    let expected = 1.0 - (directly(0.05) + directly(0.5)) / 2.0;
    let part = totals.relayed as f64 / totals.crossed as f64;
    assert!((part - expected).abs() < 0.02, "{part}, not {expected}, at {load} R");
}
