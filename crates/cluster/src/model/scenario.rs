//! What is asked of a model again and again: what it loses, how much order it keeps, who gets how much of a line, how long a
//! failure lasts.
//!
//! Packets of [`LENGTH`] bytes on lines of [`LINE_RATE`]; all loads are parts of it.

use super::{Matrix, Model, Packet, Setup, Totals, Traffic};
use crate::path::{Order, Policy};
use crate::random::Random;
use crate::reorder::{ReorderMeter, Report};
use crate::topology::Topology;
use crate::utilisation::SECOND;

/// R, in bits per second.
pub const LINE_RATE: u64 = 100_000_000;
/// Bytes of a packet.
pub const LENGTH: u32 = 1000;

/// Lines of [`LINE_RATE`] and our rule, with buffers of 64 packets for each input node at links, and of 512 at lines.
pub fn setup(topology: Topology, order: Order) -> Setup {
    let setup = Setup::new(topology, LINE_RATE, Policy::Adaptive, order);
    Setup { link_buffer: 64 * LENGTH, line_buffer: 512 * LENGTH, ..setup }
}

/// Each input sends everything to the next node.
pub fn ring(nodes: usize) -> Matrix {
    Matrix::permutation(&(0..nodes).map(|i| (i + 1) % nodes).collect::<Vec<_>>())
}

/// All inputs but the last send everything to the last, which sends nothing.
pub fn to_the_last(nodes: usize) -> Matrix {
    let last = nodes.saturating_sub(1);
    let part = |i, j| if j == last && i != last { 1.0 } else { 0.0 };
    Matrix::new((0..nodes).map(|i| (0..nodes).map(|j| part(i, j)).collect()).collect())
}

/// Loads R, R/2, R/4 and so on; the last sends nothing.
pub fn halves(nodes: usize) -> Vec<f64> {
    (0..nodes).map(|i| if i + 1 == nodes { 0.0 } else { 0.5f64.powi(i as i32) }).collect()
}

/// Changes the delays of all links of a full mesh every 5 ms, each to something up to 3 ms: to be called with the time of each
/// packet.
pub fn restless(nodes: u16, seed: u64) -> impl FnMut(u64, &mut Model) {
    let mut random = Random::new(seed);
    let mut next = 0;
    move |now, model| {
        if now >= next {
            next = now + SECOND / 200;
            for (node, link) in (0..nodes).flat_map(|node| (0..nodes).map(move |link| (node, link))) {
                model.set_delay(node, link, 10_000 + random.below(3_000_000) as u64);
            }
        }
    }
}

/// Offers so many packets of each line, all with the same load, and waits until the last has left.
///
/// # Panics
/// As [`order`].
pub fn totals(setup: Setup, matrix: &Matrix, load: f64, packets: usize, seed: u64) -> Totals {
    let lines = matrix.rows().len();
    let mut model = Model::new(setup);
    let mut last = 0;
    let traffic = Traffic::new(matrix, &vec![load; lines], setup.line_rate, LENGTH, 16, seed);
    for packet in traffic.take(packets * lines) {
        last = packet.at;
        model.offer(packet);
        model.drain().for_each(drop);
    }
    finish(&mut model, last + 2 * SECOND);
    model.totals()
}

/// Offers traffic, lets `change` do something before each packet, and gives what happened and the order in which packets left.
///
/// # Panics
/// If something stays behind two seconds after the last packet.
pub fn order(
    setup: Setup,
    traffic: impl Iterator<Item = Packet>,
    mut change: impl FnMut(u64, &mut Model),
) -> (Totals, Report) {
    let mut model = Model::new(setup);
    let mut meter = ReorderMeter::default();
    let mut last = 0;
    for packet in traffic {
        last = packet.at;
        change(packet.at, &mut model);
        model.offer(packet);
        model.drain().for_each(|(_, packet)| meter.packet(packet.flow, packet.number));
    }
    finish(&mut model, last + 2 * SECOND);
    model.drain().for_each(|(_, packet)| meter.packet(packet.flow, packet.number));
    (model.totals(), meter.report())
}

/// Lets time pass until what came in has gone out or has been counted as lost.
fn finish(model: &mut Model, until: u64) {
    model.run_until(until);
    assert_eq!((model.inside(), model.held()), (0, 0), "nothing stays behind");
    let totals = model.totals();
    assert_eq!(totals.offered, totals.delivered + totals.all_lost(), "what does not go out has a name");
}

/// What each input gets out, as parts of R, from the second second to the fifth; and what happened.
pub fn rates(setup: Setup, matrix: &Matrix, loads: &[f64]) -> (Vec<f64>, Totals) {
    let mut model = Model::new(setup);
    let mut got = vec![0.0; loads.len()];
    let traffic = Traffic::new(matrix, loads, setup.line_rate, LENGTH, 16, 1);
    for packet in traffic.take_while(|packet| packet.at < 5 * SECOND) {
        model.offer(packet);
        for (now, packet) in model.drain() {
            got[packet.input as usize] += if now >= SECOND { f64::from(packet.len) } else { 0.0 };
        }
    }
    let rates = got.iter().map(|bytes| bytes * 8.0 / 4.0 / setup.line_rate as f64);
    (rates.collect(), model.totals())
}

/// Something fails 300 ms after the start, for good: the longest time for which a line to which something is sent has sent
/// nothing, in nanoseconds, and what happened.
pub fn outage(
    setup: Setup,
    matrix: &Matrix,
    load: f64,
    packets: usize,
    fail: impl FnOnce(&mut Model),
) -> (u64, Totals) {
    let lines = matrix.rows().len();
    let traffic = Traffic::new(matrix, &vec![load; lines], setup.line_rate, LENGTH, 16, 9);
    let mut model = Model::new(setup);
    let (mut last, mut widest, mut fail) = (vec![0; lines], 0, Some(fail));
    for packet in traffic.take(packets) {
        if packet.at >= SECOND * 3 / 10
            && let Some(fail) = fail.take()
        {
            fail(&mut model);
        }
        model.offer(packet);
        for (now, packet) in model.drain() {
            let line = packet.output as usize;
            widest = widest.max(now - last[line]);
            last[line] = now;
        }
    }
    (widest, model.totals())
}
