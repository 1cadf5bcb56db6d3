//! What the benches of lookups share: routes from files, draws, spreads, processor time.

use std::path::Path;

use fib::{Random, RouteFile};
use nix::time::{ClockId, clock_gettime};

/// The routes of a file, perhaps packed by gzip.
pub fn read_routes(source: &Path) -> Result<RouteFile, String> {
    RouteFile::read(source, Some(0)).map_err(|e| format!("{}: {e}", source.display()))
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

/// The numbers below `n` in random order.
pub fn order(random: &mut Random, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, random.below(i + 1));
    }
    order
}

/// Draws numbers below `n`: the k-th of a random order with a likelihood in proportion to 1/k.
pub struct Zipf {
    order: Vec<usize>,
    sums: Vec<f64>,
    sum: f64,
}

impl Zipf {
    pub fn new(n: usize, random: &mut Random) -> Zipf {
        let order = order(random, n);
        let mut sum = 0.0;
        let add = |rank: usize| {
            sum += 1.0 / rank as f64;
            sum
        };
        let sums = (1..=n).map(add).collect();
        Zipf { order, sums, sum }
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.fraction() * self.sum;
        let rank = self.sums.partition_point(|&below| below <= at).min(self.order.len() - 1);
        self.order[rank]
    }
}
