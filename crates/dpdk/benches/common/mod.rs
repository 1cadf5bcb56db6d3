//! What the benches of lookups share: routes from files, draws, spreads, processor time.

use std::fs;
use std::path::Path;
use std::process::Command;

use fib::RouteFile;
use nix::time::{ClockId, clock_gettime};

/// The routes of a file, perhaps packed by gzip.
pub fn read_routes(source: &Path) -> Result<RouteFile, String> {
    let problem = |e: &dyn std::fmt::Display| format!("{}: {e}", source.display());
    let text = if source.extension().is_some_and(|e| e == "gz") {
        let unpacked = Command::new("gzip").arg("-dc").arg(source).output().map_err(|e| problem(&e))?;
        if !unpacked.status.success() {
            return Err(problem(&String::from_utf8_lossy(&unpacked.stderr).trim()));
        }
        unpacked.stdout
    } else {
        fs::read(source).map_err(|e| problem(&e))?
    };
    RouteFile::parse(&text, Some(0)).map_err(|e| problem(&e))
}

/// Seconds of processor time that this thread has used.
pub fn processor_time() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}

/// Lowest, middle and highest of some values.
#[derive(Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let median = f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]);
        Spread { min: sorted[0], median, max: sorted[last] }
    }

    pub fn json(self) -> serde_json::Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        serde_json::json!({"min": round(self.min), "median": round(self.median), "max": round(self.max)})
    }

    pub fn cell(self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.min, self.max)
    }
}

/// SplitMix64: the same seed gives the same traffic everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The numbers below `n` in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// Draws numbers below `n`: the k-th of a random order with a likelihood in proportion to 1/k.
pub struct Zipf {
    order: Vec<usize>,
    sums: Vec<f64>,
    sum: f64,
}

impl Zipf {
    pub fn new(n: usize, random: &mut Random) -> Zipf {
        let order = random.order(n);
        let mut sum = 0.0;
        let add = |rank: usize| {
            sum += 1.0 / rank as f64;
            sum
        };
        let sums = (1..=n).map(add).collect();
        Zipf { order, sums, sum }
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.sum;
        let rank = self.sums.partition_point(|&below| below <= at).min(self.order.len() - 1);
        self.order[rank]
    }
}
