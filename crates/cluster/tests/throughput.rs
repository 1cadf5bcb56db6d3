//! Every admissible matrix passes without loss on links of 2R/N, and what the rules that we compare with lose.
//!
//! At 95 % load: R = 100 Mbit/s, packets of 1,000 bytes paced on each line, outputs drawn at random by the matrix; buffers
//! of 64 packets on each link for first ways, and for each input node on second ways; of 256 for each input node at each line.
//! Runs are so long that a link with a tenth too much fills its buffer several times over. `CLUSTER_MIXTURES=1000 cargo test
//! --release -p cluster --test throughput` tries as many mixtures of permutations as that for each size.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cluster::model::scenario::{self, totals};
use cluster::model::{Loss, Matrix, Model, Setup, Totals, Traffic};
use cluster::path::{Order, Policy};
use cluster::random::Random;
use cluster::topology::Topology;

const R: u64 = scenario::LINE_RATE;
const LOAD: f64 = 0.95;
const LEN: u32 = scenario::LENGTH;

/// Packets of each line in a run, times N.
const PACKETS: usize = 1000;

fn run(setup: Setup, matrix: &Matrix, packets: usize, seed: u64) -> Totals {
    totals(setup, matrix, LOAD, packets, seed)
}

fn mesh(nodes: usize, policy: Policy) -> Setup {
    let setup = Setup::new(Topology::mesh(nodes as u16).unwrap(), R, policy, Order::Spray);
    Setup { link_buffer: 64 * LEN, line_buffer: 256 * LEN, ..setup }
}

fn lost(nodes: usize, policy: Policy, matrix: &Matrix, seed: u64) -> u64 {
    run(mesh(nodes, policy), matrix, PACKETS * nodes, seed).all_lost()
}

/// All permutations of 0..count that leave nothing in its place.
fn derangements(count: usize) -> Vec<Vec<usize>> {
    let mut found = vec![vec![]];
    for place in 0..count {
        let longer = |start: Vec<usize>| {
            let free: Vec<usize> =
                (0..count).filter(|next| *next != place && !start.contains(next)).collect();
            free.into_iter().map(move |next| [start.as_slice(), &[next]].concat())
        };
        found = found.into_iter().flat_map(longer).collect();
    }
    found
}

fn some_derangements(count: usize, wanted: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let is_derangement = |to: &Vec<usize>| to.iter().enumerate().all(|(i, &j)| i != j);
    std::iter::repeat_with(|| random.permutation(count)).filter(is_derangement).take(wanted).collect()
}

/// Mixtures of two and three permutations with random weights.
fn mixture(count: usize, random: &mut Random) -> Matrix {
    let parts = 2 + random.below(2);
    let weights: Vec<f64> = (0..parts).map(|_| random.fraction() + 1e-3).collect();
    let sum: f64 = weights.iter().sum();
    Matrix::mixture(&weights.iter().map(|w| (w / sum, random.permutation(count))).collect::<Vec<_>>())
}

fn doubly_stochastic(count: usize, random: &mut Random) -> Matrix {
    let weights: Vec<f64> = (0..count * count).map(|_| -(1.0 - random.fraction()).ln()).collect();
    let sum: f64 = weights.iter().sum();
    Matrix::mixture(&weights.iter().map(|w| (w / sum, random.permutation(count))).collect::<Vec<_>>())
}

fn mixtures(usual: usize) -> usize {
    std::env::var("CLUSTER_MIXTURES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// Asserts that our rule loses nothing, prints what others lose on some of the matrices, and gives the worst of that: of the
/// paper's rule, classic VLB, flow hash.
fn table(name: &str, nodes: usize, matrices: &[Matrix]) -> [f64; 3] {
    for (seed, matrix) in matrices.iter().enumerate() {
        assert!(matrix.fullest() < 1.0 + 1e-9);
        assert_eq!(lost(nodes, Policy::Adaptive, matrix, seed as u64), 0, "{name}, N = {nodes}, {matrix:?}");
    }
    let worst = [Policy::DirectVlb, Policy::Vlb, Policy::FlowHash].map(|policy| {
        let part = |(seed, matrix)| {
            lost(nodes, policy, matrix, seed as u64) as f64 / (PACKETS * nodes * nodes) as f64
        };
        matrices.iter().enumerate().take(4).map(part).fold(0.0, f64::max)
    });
    let [paper, vlb, hash] = worst.map(|part| format!("{:5.2} %", part * 100.0));
    println!(
        "{name:17} N = {nodes:<2} {:4} matrices: lost 0; direct VLB {paper}, VLB {vlb}, flow hash {hash}",
        matrices.len()
    );
    worst
}

#[test]
fn derangements_pass() {
    assert_eq!(derangements(4).len(), 9);
    let all: Vec<Matrix> = derangements(4).iter().map(|to| Matrix::permutation(to)).collect();
    let [paper, vlb, _] = table("derangements", 4, &all);
    // The paper's rule wants 2·(0.95 − 0.25)/2 R on links of 0.5 R.
    assert!(paper > 0.15, "the paper's rule loses on a derangement at N = 4: {paper}");
    assert_eq!(vlb, 0.0);
    for nodes in [8, 16] {
        let some = some_derangements(nodes, 72 / nodes, &mut Random::new(nodes as u64));
        table("derangements", nodes, &some.iter().map(|to| Matrix::permutation(to)).collect::<Vec<_>>());
    }
}

fn mixtures_pass(nodes: usize, usual: usize) {
    let mut random = Random::new(nodes as u64);
    let matrices: Vec<Matrix> = (0..mixtures(usual)).map(|_| mixture(nodes, &mut random)).collect();
    table("mixtures", nodes, &matrices);
}

#[test]
fn mixtures_of_permutations_of_4_pass() {
    mixtures_pass(4, 40);
}

#[test]
fn mixtures_of_permutations_of_8_pass() {
    mixtures_pass(8, 16);
}

#[test]
fn mixtures_of_permutations_of_16_pass() {
    mixtures_pass(16, 6);
}

#[test]
fn uniform_hot_spot_and_doubly_stochastic_matrices_pass() {
    for nodes in [4, 8, 16] {
        let mut random = Random::new(nodes as u64);
        table("uniform", nodes, &[Matrix::uniform(nodes)]);
        let hot = [1, 2, nodes / 2].map(|sources| Matrix::hot_spot(nodes, 1, sources));
        table("hot spot", nodes, &hot);
        let matrices: Vec<Matrix> = (0..4).map(|_| doubly_stochastic(nodes, &mut random)).collect();
        table("doubly stochastic", nodes, &matrices);
    }
}

#[test]
fn a_uniform_matrix_goes_directly_and_a_permutation_half_by_relays() {
    let totals = run(mesh(4, Policy::Adaptive), &Matrix::uniform(4), 5000, 1);
    assert!(totals.relayed * 100 < totals.crossed, "{totals:?}");
    let totals = run(mesh(4, Policy::Adaptive), &Matrix::permutation(&[1, 2, 3, 0]), 5000, 1);
    let part = totals.relayed as f64 / totals.crossed as f64;
    // Of 0.95 R, 0.485 R may fill the direct link.
    assert!((part - (0.95 - 0.485) / 0.95).abs() < 0.02, "{part}");
    let classic = run(mesh(4, Policy::Vlb), &Matrix::uniform(4), 5000, 1);
    let half = classic.relayed as f64 / classic.crossed as f64;
    assert!((half - 0.5).abs() < 0.01, "classic VLB relays the half of everything: {half}");
}

#[test]
fn flowlets_do_not_cost_throughput() {
    for (nodes, seed) in [(4, 1), (8, 2)] {
        let mut random = Random::new(seed);
        for matrix in
            [Matrix::permutation(&some_derangements(nodes, 1, &mut random)[0]), mixture(nodes, &mut random)]
        {
            for order in [Order::Flowlet, Order::Strict] {
                // Each of the N - 1 streams of a link may overdraw its share by 64 KB, and all may wait in one queue.
                let setup = Setup {
                    order,
                    overdraft: 64_000,
                    link_buffer: 512 * LEN,
                    line_buffer: 512 * LEN,
                    ..mesh(nodes, Policy::Adaptive)
                };
                let totals = run_bounded(setup, &matrix, 5000, seed);
                assert_eq!(totals.all_lost(), 0, "{order:?} {matrix:?}");
            }
        }
    }
}

/// As [`run`], for an order that keeps the model's clock ticking.
fn run_bounded(setup: Setup, matrix: &Matrix, packets: usize, seed: u64) -> Totals {
    let lines = matrix.rows().len();
    let mut model = Model::new(setup);
    for packet in Traffic::new(matrix, &vec![LOAD; lines], R, LEN, 16, seed).take(packets * lines) {
        model.offer(packet);
        model.drain().for_each(drop);
    }
    model.run_until(10 * cluster::utilisation::SECOND);
    assert_eq!((model.inside(), model.held()), (0, 0));
    model.totals()
}

#[test]
fn a_fly_and_several_lines_a_node_pass() {
    let mut random = Random::new(5);
    let fly = Topology::fly(4, 2).unwrap();
    let rate = R;
    for matrix in [
        Matrix::uniform(16),
        Matrix::permutation(&some_derangements(16, 1, &mut random)[0]),
        mixture(16, &mut random),
    ] {
        let totals = run(Setup::new(fly, rate, Policy::Vlb, Order::Spray), &matrix, 8 * PACKETS, 7);
        assert_eq!(totals.all_lost(), 0, "4-ary 2-fly, {matrix:?}");
        let mesh = Topology::mesh(8).unwrap();
        let setup = Setup::new(mesh, rate, Policy::Adaptive, Order::Spray);
        let setup = Setup { ports: 2, link_rate: mesh.link_rate(rate, 2), ..setup };
        assert_eq!(run(setup, &matrix, 8 * PACKETS, 7).all_lost(), 0, "two lines a node, {matrix:?}");
    }
}

#[test]
fn an_overloaded_output_does_not_harm_others() {
    // Inputs 0, 1 and 2 each want all of output 3; input 3 fills output 0, half of it by relays that are busy with 3.
    let matrix = Matrix::new(vec![
        vec![0.0, 0.0, 0.0, 1.0],
        vec![0.0, 0.0, 0.0, 1.0],
        vec![0.0, 0.0, 0.0, 1.0],
        vec![1.0, 0.0, 0.0, 0.0],
    ]);
    let mut model = Model::new(mesh(4, Policy::Adaptive));
    let (mut offered, mut delivered) = (0, 0);
    for packet in Traffic::new(&matrix, &[LOAD; 4], R, LEN, 16, 3).take(40_000) {
        model.offer(packet);
        offered += u64::from(packet.output == 0);
        delivered += model.drain().filter(|(_, packet)| packet.output == 0).count() as u64;
    }
    model.run_until(u64::MAX / 2);
    delivered += model.drain().filter(|(_, packet)| packet.output == 0).count() as u64;
    assert_eq!(delivered, offered);
    let totals = model.totals();
    println!("overloaded output: lost {:?} of {}", totals.lost, totals.offered);
    assert_eq!(totals.all_lost(), totals.offered - totals.delivered);
    assert!(totals.all_lost() > 15_000 && totals.lost_by(Loss::RelayFull) > 0);
}
