//! How long packets take through a router at a load (RFC 2544 §26.2), from the times at which probes passed its two ends.

use super::tap::Passed;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Probes of a trial at most: their numbers must differ, and the kernel keeps them until they are read.
const MOST_PROBES: f64 = 10_000.0;
/// Probes a second at most, and this part of the load at most.
const RATE: f64 = 1000.0;
const PART: f64 = 0.05;

/// Probes a second beside a load, in packets a second, for so many seconds.
pub fn probe_rate(load: f64, seconds: f64) -> f64 {
    RATE.min(load * PART).min(MOST_PROBES / seconds).floor().max(1.0)
}

/// What a trial with probes found; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Packets a second, probes among them.
    pub load: f64,
    /// Part of them that did not arrive.
    pub loss_ratio: f64,
    /// Seconds of the trial.
    pub seconds: f64,
    /// Probes that count.
    pub probes: usize,
    /// Those of them that did not arrive.
    pub lost: usize,
    /// Shortest, mean, median, 99th percentile, longest.
    pub times: [f64; 5],
}

/// The names of the times, in order.
const NAMES: [&str; 5] = ["min_us", "mean_us", "p50_us", "p99_us", "max_us"];

impl Latency {
    /// For the line of JSON.
    pub fn json(&self) -> Value {
        let mut all = json!({
            "load_packets_per_second": self.load.round(), "loss_ratio": self.loss_ratio, "seconds": self.seconds,
            "probes": self.probes, "probes_lost": self.lost,
        });
        for (name, time) in NAMES.into_iter().zip(self.times) {
            all[name] = json!((time * 10.0).round() / 10.0);
        }
        all
    }

    /// For people; it says so if the trial lost more than it should.
    pub fn text(&self, loss_ratio: f64) -> String {
        let [min, mean, median, p99, max] = self.times;
        let times = format!("{min:.1} / {mean:.1} / {median:.1} / {p99:.1} / {max:.1}");
        if self.loss_ratio > loss_ratio {
            format!("{times}, {:.1} % LOST", 100.0 * self.loss_ratio)
        } else {
            times
        }
    }
}

/// Probes of the second half of the trial, that lost, and shortest, mean, median, 99th percentile and longest time of the
/// others in microseconds. RFC 2544 has its tagged frame after half of the stream. `None` if no probe arrived.
pub fn times(left: &[Passed], arrived: &[Passed]) -> Option<(usize, usize, [f64; 5])> {
    let (first, last) = (left.first()?.0, left.last()?.0);
    let half = first + last.saturating_sub(first) / 2;
    let arrived: HashMap<u16, u64> = arrived.iter().map(|&(time, number)| (number, time)).collect();
    let counted: Vec<&Passed> = left.iter().filter(|(time, _)| *time >= half).collect();
    let took = |&&(time, number): &&Passed| Some(arrived.get(&number)?.saturating_sub(time) as f64 / 1000.0);
    let mut all: Vec<f64> = counted.iter().filter_map(took).collect();
    all.sort_by(f64::total_cmp);
    let at = |part: f64| all.get(((all.len().saturating_sub(1)) as f64 * part).round() as usize).copied();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Some((counted.len(), counted.len() - all.len(), [at(0.0)?, mean, at(0.5)?, at(0.99)?, at(1.0)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_few() {
        assert_eq!(probe_rate(1e6, 5.0), 1000.0);
        assert_eq!(probe_rate(10_000.0, 5.0), 500.0);
        assert_eq!(probe_rate(1e6, 120.0), 83.0);
        assert_eq!(probe_rate(10.0, 5.0), 1.0);
    }

    #[test]
    fn times_of_the_second_half() {
        let left: Vec<Passed> = (0..200).map(|n| (u64::from(n) * 1000, n)).collect();
        // Those of the first half take long; of the others, every one a microsecond longer than the one before, but one
        // that is lost.
        let arrive =
            |&(time, n): &Passed| (time + if n < 100 { 900_000 } else { (u64::from(n) - 99) * 1000 }, n);
        let arrived: Vec<Passed> = left.iter().filter(|(_, n)| *n != 199).map(arrive).collect();
        assert_eq!(times(&left, &arrived), Some((100, 1, [1.0, 50.0, 50.0, 98.0, 99.0])));
        assert_eq!(times(&left, &[]), None);
        assert_eq!(times(&[], &arrived), None);
        assert_eq!(times(&left[150..151], &arrived), Some((1, 0, [51.0; 5])));
    }

    #[test]
    fn what_is_written_down() {
        let latency = Latency {
            load: 5.4,
            loss_ratio: 0.25,
            seconds: 2.0,
            probes: 3,
            lost: 1,
            times: [1.0, 2.0, 3.0, 4.0, 5.26],
        };
        assert_eq!(
            latency.json(),
            json!({"load_packets_per_second": 5.0, "loss_ratio": 0.25, "seconds": 2.0, "probes": 3, "probes_lost": 1,
                "min_us": 1.0, "mean_us": 2.0, "p50_us": 3.0, "p99_us": 4.0, "max_us": 5.3})
        );
        assert_eq!(latency.text(0.25), "1.0 / 2.0 / 3.0 / 4.0 / 5.3");
        assert_eq!(latency.text(0.2), "1.0 / 2.0 / 3.0 / 4.0 / 5.3, 25.0 % LOST");
    }
}
