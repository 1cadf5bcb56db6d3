//! Figures: medians, ratios, verdicts, and how they are written down.

use serde_json::{Value, json};

/// Lowest, middle and highest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Lowest.
    pub min: f64,
    /// Middle; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// Highest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { min, median, max })
    }

    fn json(self) -> Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        json!({"min": round(self.min), "median": round(self.median), "max": round(self.max)})
    }
}

/// What was measured, in which arrangement.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// The configuration's file.
    pub config: &'static str,
    /// Destinations of the trace, one packet each.
    pub destinations: usize,
    /// Buffers of both programs' pools.
    pub pool_buffers: u64,
    /// Cycles per packet of the router, pair by pair.
    pub router: Vec<f64>,
    /// Cycles per packet of `dpdk-testpmd`, pair by pair.
    pub testpmd: Vec<f64>,
    /// The ratio that must not be exceeded.
    pub target: Option<f64>,
}

/// What all figures of a run have in common.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// The table.
    pub table: String,
    /// Its routes.
    pub routes: usize,
    /// DPDK of both programs.
    pub dpdk: String,
    /// Kind of memory.
    pub memory: &'static str,
    /// The processor that both run on.
    pub core: usize,
    /// Rate of the time-stamp counter.
    pub tsc_ghz: f64,
    /// Seconds of each measurement.
    pub seconds: f64,
}

impl Figure {
    /// Ratios, pair by pair.
    fn ratios(&self) -> Vec<f64> {
        self.router.iter().zip(&self.testpmd).map(|(router, testpmd)| router / testpmd).collect()
    }

    /// True if there is a target and it was missed.
    pub fn missed(&self) -> bool {
        match (self.target, Spread::of(&self.ratios())) {
            (Some(target), Some(ratio)) => ratio.median > target,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// One line of JSON.
    pub fn json(&self, here: &Arrangement) -> Value {
        let spread = |values: &[f64]| Spread::of(values).map(Spread::json);
        json!({
            "schema": "routebricks.bench/1",
            "name": self.name,
            "config": self.config,
            "arrangement": "one-port",
            "frame_bytes": crate::trace::FRAME,
            "destinations": self.destinations,
            "table": here.table,
            "routes": here.routes,
            "pool_buffers": self.pool_buffers,
            "memory": here.memory,
            "dpdk": here.dpdk,
            "core": here.core,
            "tsc_ghz": here.tsc_ghz,
            "pairs": self.router.len(),
            "measurement_seconds": here.seconds,
            "router_tsc_cycles_per_packet": spread(&self.router),
            "testpmd_tsc_cycles_per_packet": spread(&self.testpmd),
            "ratio": spread(&self.ratios()),
            "target_ratio": self.target,
            "met": self.target.map(|_| !self.missed()),
        })
    }

    /// One line of the table.
    pub fn row(&self) -> String {
        let cell = |values: &[f64], digits: usize| match Spread::of(values) {
            Some(s) => format!("{:.digits$} ({:.digits$}–{:.digits$})", s.median, s.min, s.max),
            None => "–".to_owned(),
        };
        let verdict = match (self.target, self.missed()) {
            (None, _) => "no target".to_owned(),
            (Some(target), false) => format!("at most {target:.2}: met"),
            (Some(target), true) => format!("at most {target:.2}: MISSED"),
        };
        format!(
            "{:<12} {:>22} {:>22} {:>22}   {verdict}",
            self.name,
            cell(&self.router, 1),
            cell(&self.testpmd, 1),
            cell(&self.ratios(), 3),
        )
    }
}

/// Head of the table.
pub fn header() -> String {
    let [name, router, testpmd, ratio] = ["figure", "router", "testpmd", "ratio"];
    format!("{name:<12} {router:>22} {testpmd:>22} {ratio:>22}   target")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(router: &[f64], testpmd: &[f64], target: Option<f64>) -> Figure {
        Figure {
            name: "io",
            config: "conf/bench/io.click",
            destinations: 4096,
            pool_buffers: 40_960,
            router: router.to_vec(),
            testpmd: testpmd.to_vec(),
            target,
        }
    }

    #[test]
    fn the_middle_of_odd_and_even_numbers() {
        assert_eq!(Spread::of(&[3.0, 1.0, 9.0]), Some(Spread { min: 1.0, median: 3.0, max: 9.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]).map(|s| s.median), Some(3.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_verdict_is_on_the_median_of_ratios_pair_by_pair() {
        // 1.0, 2.0 and 1.1: a run in which both were slow is no outlier.
        let f = figure(&[30.0, 60.0, 110.0], &[30.0, 30.0, 100.0], Some(1.1));
        assert!(!f.missed());
        assert!(figure(&[34.0], &[30.0], Some(1.1)).missed());
        assert!(!figure(&[34.0], &[30.0], None).missed());
        assert!(figure(&[], &[], Some(1.1)).missed(), "nothing measured is nothing met");
    }

    #[test]
    fn what_is_written_down() {
        let here = Arrangement {
            table: "t".to_owned(),
            routes: 3,
            dpdk: "DPDK 22.11".to_owned(),
            memory: "huge pages of 2 MB",
            core: 1,
            tsc_ghz: 2.0,
            seconds: 3.0,
        };
        let f = figure(&[33.0], &[30.0], Some(1.1));
        let json = f.json(&here);
        assert_eq!(json["schema"], "routebricks.bench/1");
        assert_eq!(json["ratio"], json!({"min": 1.1, "median": 1.1, "max": 1.1}));
        assert_eq!(json["met"], true);
        assert_eq!(figure(&[33.0], &[30.0], None).json(&here)["met"], Value::Null);
        assert_eq!(
            f.row(),
            "io                 33.0 (33.0–33.0)       30.0 (30.0–30.0)    1.100 (1.100–1.100)   at most 1.10: met"
        );
        // Right edges of the columns.
        assert_eq!(header().find("router"), Some(12 + 1 + 22 - "router".len()));
        assert_eq!(header().find("ratio"), Some(12 + 3 * (1 + 22) - "ratio".len()));
    }
}
