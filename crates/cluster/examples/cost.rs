//! What paths and order cost a packet, in instructions.
//!
//! ```sh
//! cargo build --release -p cluster --example cost
//! for mode in none spray flowlet strict; do
//!     for packets in 100000 200000; do
//!         valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/cost $mode $packets
//!     done
//! done
//! ```
//!
//! The difference between two numbers of packets, less that of `none`, is what a packet costs at its input node and, with
//! `strict`, at its output node. 4 nodes, 64 K flows, batches of 32, packets of 64 bytes at the rate R to one node: half of
//! them by relays, whose paths are of different lengths.

use std::hint::black_box;

use cluster::numbering::Numbering;
use cluster::path::{Ask, Config, Order, PathChooser, Policy};
use cluster::resequence::Resequencer;
use cluster::shares::{Links, small};
use cluster::topology::Topology;

const R: u64 = 10_000_000_000;
const BATCH: usize = 32;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let packets: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let order = match mode.as_str() {
        "none" => None,
        "spray" => Some(Order::Spray),
        "flowlet" => Some(Order::Flowlet),
        "strict" => Some(Order::Strict),
        _ => {
            eprintln!("usage: cost none|spray|flowlet|strict [PACKETS]");
            std::process::exit(2);
        }
    };
    let Ok(topology) = Topology::mesh(4) else { return };
    let mut chooser = PathChooser::new(Config {
        flowlets: 1 << 16,
        ..Config::mesh(4, R, Policy::Adaptive, order.unwrap_or(Order::Spray))
    });
    let links = Links::new(topology, R / 2);
    (1..4).for_each(|to| chooser.set_weights(to, &small(&links.weights(0, to))));
    let mut rig = Rig::new();
    let started = std::time::Instant::now();
    let mut asks = [Ask { to: 1, len: 64, flow: 0 }; BATCH];
    let mut paths = [Some(1); BATCH];
    for batch in 0..packets / BATCH as u64 {
        let now = batch * BATCH as u64 * 64 * 8 / 10;
        for (place, ask) in asks.iter_mut().enumerate() {
            ask.flow = (batch as u32).wrapping_mul(0x9E37_79B1).wrapping_add(place as u32 * 2049) >> 7;
        }
        let asks = black_box(&asks);
        if order.is_some() {
            chooser.choose_batch(now, asks, &mut paths);
        }
        if order == Some(Order::Strict) {
            rig.cross(now, &paths);
        }
        black_box(&paths);
    }
    println!(
        "{mode}: {packets} packets, {:.2} ns each, {} delivered",
        started.elapsed().as_nanos() as f64 / packets as f64,
        rig.delivered
    );
}

/// One stream from numbers to order.
struct Rig {
    numbers: Numbering,
    stream: Resequencer<u32>,
    /// What is on the paths over relays, a batch for each: they are a batch later than the direct one.
    late: [Vec<u32>; 4],
    out: Vec<u32>,
    delivered: usize,
}

impl Rig {
    fn new() -> Rig {
        let mut stream = Resequencer::new(4, 4096, 1_000_000, 0);
        stream.path_down(0, &mut Vec::new());
        let late = std::array::from_fn(|_| Vec::with_capacity(2 * BATCH));
        Rig { numbers: Numbering::new(4), stream, late, out: Vec::with_capacity(4096), delivered: 0 }
    }

    fn cross(&mut self, now: u64, paths: &[Option<u16>; BATCH]) {
        for path in [2, 3] {
            for number in self.late[path].drain(..) {
                let _ = self.stream.accept(path, 0, number, number, now, &mut self.out);
            }
        }
        for path in paths.iter().flatten().map(|&path| usize::from(path)) {
            let number = self.numbers.number(path, now);
            if path == 1 {
                let _ = self.stream.accept(path, 0, number, number, now, &mut self.out);
            } else {
                self.late[path].push(number);
            }
        }
        self.delivered += self.out.len();
        black_box(&self.out);
        self.out.clear();
    }
}
