//! Traffic matrices, and packets that follow them.

use crate::random::Random;
use crate::utilisation::SECOND;

use super::Packet;

/// What part of its line each input sends to each output. In an admissible matrix no row and no column exceeds 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix(Vec<Vec<f64>>);

impl Matrix {
    /// A matrix from its rows, each as long as there are rows.
    pub fn new(rows: Vec<Vec<f64>>) -> Matrix {
        Matrix(rows)
    }

    /// Each input sends the same to each other output.
    pub fn uniform(lines: usize) -> Matrix {
        let part = 1.0 / (lines.max(2) - 1) as f64;
        Matrix::filled(lines, |i, j| if i == j { 0.0 } else { part })
    }

    /// Input `i` sends everything to output `to[i]`.
    pub fn permutation(to: &[usize]) -> Matrix {
        Matrix::filled(to.len(), |i, j| if to[i] == j { 1.0 } else { 0.0 })
    }

    /// The sum of permutations, each with a weight; doubly stochastic if the weights sum up to 1.
    pub fn mixture(parts: &[(f64, Vec<usize>)]) -> Matrix {
        let lines = parts.first().map_or(0, |(_, to)| to.len());
        let weight = |i, j| parts.iter().filter(|(_, to)| to[i] == j).map(|(weight, _)| weight).sum();
        Matrix::filled(lines, weight)
    }

    /// The `sources` lines after line `hot` fill it together; everyone sends what is left of his line evenly to the others,
    /// or as much of that as they can take.
    pub fn hot_spot(lines: usize, hot: usize, sources: usize) -> Matrix {
        let part = 1.0 / sources as f64;
        let is_source = |i: usize| (1..=sources).contains(&((i + lines - hot) % lines));
        let others = |i: usize| (lines - if i == hot { 1 } else { 2 }) as f64;
        let rest = |i: usize, j: usize| {
            let left = if is_source(i) { 1.0 - part } else { 1.0 };
            if j == hot || i == j { 0.0 } else { left / others(i) }
        };
        let column = |j: usize| (0..lines).map(|i| rest(i, j)).sum::<f64>();
        let fullest = (0..lines).map(column).fold(1.0, f64::max);
        let hot_part = |i: usize, j: usize| if j == hot && is_source(i) { part } else { 0.0 };
        Matrix::filled(lines, |i, j| hot_part(i, j) + rest(i, j) / fullest)
    }

    fn filled(lines: usize, part: impl Fn(usize, usize) -> f64) -> Matrix {
        Matrix((0..lines).map(|i| (0..lines).map(|j| part(i, j)).collect()).collect())
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.0
    }

    /// The largest sum of a row or column: at most 1 (give or take rounding) in an admissible matrix.
    pub fn fullest(&self) -> f64 {
        let columns = (0..self.0.len()).map(|j| self.0.iter().map(|row| row[j]).sum::<f64>());
        self.0.iter().map(|row| row.iter().sum()).chain(columns).fold(0.0, f64::max)
    }
}

/// Packets of one length, paced evenly on each input line, with outputs drawn as a matrix says: an endless iterator in order
/// of time.
#[derive(Debug)]
pub struct Traffic {
    random: Random,
    lines: Vec<Source>,
    len: u32,
    /// Flows between each input and output.
    flows: usize,
    /// By input, output and flow: packets so far.
    numbers: Vec<u64>,
}

#[derive(Debug)]
struct Source {
    next: f64,
    interval: f64,
    /// Cumulated parts of the outputs, the last is 1.
    outputs: Vec<f64>,
}

impl Traffic {
    /// Line `i` sends `loads[i]` of what the matrix says of `line_rate` bits per second, in packets of `len` bytes of `flows`
    /// flows for each output, each packet of a random one.
    pub fn new(matrix: &Matrix, loads: &[f64], line_rate: u64, len: u32, flows: usize, seed: u64) -> Traffic {
        let mut random = Random::new(seed);
        let time = f64::from(len) * 8.0 * SECOND as f64 / line_rate as f64;
        let lines = matrix.rows().iter().zip(loads).map(|(row, load)| {
            let sum: f64 = row.iter().sum();
            let interval = if sum * load > 0.0 { time / (sum * load) } else { f64::INFINITY };
            let mut part = 0.0;
            let outputs = row.iter().map(|entry| {
                part += entry / sum;
                part
            });
            let outputs = outputs.collect();
            let start = random.fraction() * interval;
            Source { next: if start.is_nan() { f64::INFINITY } else { start }, interval, outputs }
        });
        let lines: Vec<Source> = lines.collect();
        let numbers = vec![0; lines.len() * lines.len() * flows];
        Traffic { random, lines, len, flows, numbers }
    }
}

impl Iterator for Traffic {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let (input, source) =
            self.lines.iter_mut().enumerate().min_by(|(_, a), (_, b)| a.next.total_cmp(&b.next))?;
        if source.next.is_infinite() {
            return None;
        }
        let at = source.next as u64;
        source.next += source.interval;
        let drawn = self.random.fraction();
        let output = source.outputs.partition_point(|&part| part <= drawn).min(source.outputs.len() - 1);
        let count = self.lines.len();
        let flow = (input * count + output) * self.flows + self.random.below(self.flows);
        let number = self.numbers[flow];
        self.numbers[flow] += 1;
        Some(Packet {
            input: input as u32,
            output: output as u32,
            len: self.len,
            flow: flow as u64,
            number,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_admissible() {
        for lines in [3, 4, 8, 16] {
            let mut random = Random::new(lines as u64);
            let parts: Vec<_> = (0..3).map(|_| (1.0 / 3.0, random.permutation(lines))).collect();
            let mut matrices =
                vec![Matrix::uniform(lines), Matrix::permutation(&parts[0].1), Matrix::mixture(&parts)];
            matrices.extend((1..lines).map(|sources| Matrix::hot_spot(lines, 1, sources)));
            for matrix in matrices {
                assert!((matrix.fullest() - 1.0).abs() < 1e-9, "{lines}: {}", matrix.fullest());
            }
        }
        assert_eq!(Matrix::hot_spot(3, 0, 1).rows()[1][0], 1.0);
        assert_eq!(Matrix::permutation(&[1, 2, 0]).rows()[1], [0.0, 0.0, 1.0]);
    }

    #[test]
    fn packets_follow_the_matrix() {
        let matrix = Matrix::new(vec![vec![0.0, 0.25, 0.75], vec![0.0; 3], vec![1.0, 0.0, 0.0]]);
        let packets: Vec<Packet> =
            Traffic::new(&matrix, &[0.5, 1.0, 1.0], 8_000_000_000, 1000, 2, 1).take(30_000).collect();
        assert!(packets.is_sorted_by_key(|packet| packet.at));
        let count = |input, output| {
            packets.iter().filter(|packet| (packet.input, packet.output) == (input, output)).count() as f64
        };
        assert_eq!(count(1, 0) + count(1, 2) + count(2, 1), 0.0);
        assert!((count(2, 0) - 20_000.0).abs() < 3.0 && (count(0, 1) - 2500.0).abs() < 200.0);
        assert_eq!(packets.last().unwrap().at / 1_000_000, 19, "a packet takes 1 µs at R");
    }
}
