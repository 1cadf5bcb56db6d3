//! Figures: medians, ratios, verdicts, and how they are written down.

use crate::plan::Plan;
use crate::value::{Measured, Target};
use serde_json::{Map, Value, json};

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

    /// `{"min":…,"median":…,"max":…}`, to three places.
    pub fn json(self) -> Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        json!({"min": round(self.min), "median": round(self.median), "max": round(self.max)})
    }

    /// As [`json`](Spread::json) writes it.
    pub fn from_json(value: &Value) -> Option<Spread> {
        let number = |key: &str| value[key].as_f64();
        Some(Spread { min: number("min")?, median: number("median")?, max: number("max")? })
    }
}

/// What one program spent, run by run.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// TSC cycles of CPU time for each packet, all cores together.
    pub cycles: Vec<f64>,
    /// Millions of packets for each second that passed.
    pub wall_mpps: Vec<f64>,
}

/// What was measured, in which arrangement.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was planned.
    pub plan: Plan,
    /// Routes in the table, if there is one.
    pub routes: Option<usize>,
    /// Packets of the trace.
    pub destinations: usize,
    /// Buffers of both programs' pools.
    pub pool_buffers: u64,
    /// Of the router, pair by pair.
    pub router: Costs,
    /// Of `dpdk-testpmd`, pair by pair.
    pub testpmd: Costs,
}

/// What all figures of a run have in common.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// The table.
    pub table: String,
    /// DPDK of both programs.
    pub dpdk: String,
    /// Kind of memory.
    pub memory: &'static str,
    /// The processors that both run on.
    pub cores: Vec<usize>,
    /// Rate of the time-stamp counter.
    pub tsc_ghz: f64,
    /// Seconds of each measurement.
    pub seconds: f64,
}

/// What the second figure's cores forward by what the first one's do, pair by pair: of the router, with a target, and of
/// testpmd.
pub fn speed_up(one: &Figure, two: &Figure) -> Vec<Measured> {
    let cores = two.plan.workers as f64 / one.plan.workers as f64;
    let ratios = |one: &Costs, two: &Costs| -> Vec<f64> {
        one.cycles.iter().zip(&two.cycles).map(|(one, two)| cores * one / two).collect()
    };
    let measured = |of: &str, values, target| Measured {
        group: "workers",
        at: None,
        what: format!("rate of {} workers, of that of {}", two.plan.workers, one.plan.workers),
        of: of.to_owned(),
        unit: "x",
        values,
        target,
        arrangement: Map::from_iter([("config".to_owned(), json!(two.plan.config))]),
    };
    vec![
        measured("router", ratios(&one.router, &two.router), Some(Target::AtLeast(0.95 * cores))),
        measured("testpmd io", ratios(&one.testpmd, &two.testpmd), None),
    ]
}

impl Figure {
    /// Ratios, pair by pair.
    fn ratios(&self) -> Vec<f64> {
        self.router
            .cycles
            .iter()
            .zip(&self.testpmd.cycles)
            .map(|(router, testpmd)| router / testpmd)
            .collect()
    }

    /// True if there is a target and it was missed.
    pub fn missed(&self) -> bool {
        match (self.plan.target, Spread::of(&self.ratios())) {
            (Some(target), Some(ratio)) => ratio.median > target,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// One line of JSON.
    pub fn json(&self, here: &Arrangement) -> Value {
        let spread = |values: &[f64]| Spread::of(values).map(Spread::json);
        let plan = &self.plan;
        // What the cores would forward if nothing else had them.
        let cores = plan.workers as f64;
        let mpps = |cycles: &[f64]| -> Vec<f64> {
            cycles.iter().map(|cycles| cores * here.tsc_ghz * 1000.0 / cycles).collect()
        };
        json!({
            "schema": "routebricks.bench/2",
            "name": plan.name(),
            "group": plan.group.name(),
            "at": plan.at.as_ref().map(|(text, _)| text),
            "at_value": plan.at.as_ref().map(|(_, value)| value),
            "config": plan.config,
            "arrangement": plan.hops.arrangement(),
            "frames": plan.frames.to_string(),
            "mean_frame_bytes": (plan.frames.mean() * 10.0).round() / 10.0,
            "destinations": self.destinations,
            "table": self.routes.map(|_| &here.table),
            "routes": self.routes,
            "next_hops": self.routes.map(|_| plan.hops.count()),
            "burst_packets": plan.burst,
            "workers": plan.workers,
            "pool_buffers": self.pool_buffers,
            "memory": here.memory,
            "dpdk": here.dpdk,
            "cores": here.cores,
            "tsc_ghz": here.tsc_ghz,
            "pairs": self.router.cycles.len(),
            "measurement_seconds": here.seconds,
            "router_tsc_cycles_per_packet": spread(&self.router.cycles),
            "testpmd_tsc_cycles_per_packet": spread(&self.testpmd.cycles),
            "ratio": spread(&self.ratios()),
            "router_mpps": spread(&mpps(&self.router.cycles)),
            "testpmd_mpps": spread(&mpps(&self.testpmd.cycles)),
            "router_wall_mpps": spread(&self.router.wall_mpps),
            "testpmd_wall_mpps": spread(&self.testpmd.wall_mpps),
            "target_ratio": plan.target,
            "met": plan.target.map(|_| !self.missed()),
        })
    }

    /// One line of the table.
    pub fn row(&self) -> String {
        let cell = |values: &[f64], digits: usize| match Spread::of(values) {
            Some(s) => format!("{:.digits$} ({:.digits$}–{:.digits$})", s.median, s.min, s.max),
            None => "–".to_owned(),
        };
        let verdict = match (self.plan.target, self.missed()) {
            (None, _) => "no target".to_owned(),
            (Some(target), false) => format!("at most {target:.2}: met"),
            (Some(target), true) => format!("at most {target:.2}: MISSED"),
        };
        format!(
            "{:<18} {:>22} {:>22} {:>22}   {verdict}",
            self.plan.name(),
            cell(&self.router.cycles, 1),
            cell(&self.testpmd.cycles, 1),
            cell(&self.ratios(), 3),
        )
    }
}

/// Head of the table.
pub fn header() -> String {
    let [name, router, testpmd, ratio] = ["figure", "router", "testpmd", "ratio"];
    format!("{name:<18} {router:>22} {testpmd:>22} {ratio:>22}   target")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Group, plans};

    fn figure(router: &[f64], testpmd: &[f64], target: Option<f64>) -> Figure {
        let costs = |cycles: &[f64]| Costs { cycles: cycles.to_vec(), wall_mpps: vec![60.0; cycles.len()] };
        let plan = Plan { target, ..plans(Group::Io).remove(0) };
        Figure {
            plan,
            routes: None,
            destinations: 4096,
            pool_buffers: 40_960,
            router: costs(router),
            testpmd: costs(testpmd),
        }
    }

    #[test]
    fn the_middle_of_odd_and_even_numbers() {
        assert_eq!(Spread::of(&[3.0, 1.0, 9.0]), Some(Spread { min: 1.0, median: 3.0, max: 9.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]).map(|s| s.median), Some(3.0));
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread { min: 1.0, median: 2.5, max: 9.0 };
        assert_eq!(Spread::from_json(&spread.json()), Some(spread));
        assert_eq!(Spread::from_json(&json!({"min": 1.0})), None);
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
    fn two_workers_are_as_fast_as_their_cycles_say() {
        let (one, mut two) =
            (figure(&[30.0, 40.0], &[30.0, 30.0], None), figure(&[31.0, 50.0], &[30.0, 60.0], None));
        two.plan.workers = 2;
        let [router, testpmd] = speed_up(&one, &two).try_into().unwrap();
        let close =
            |found: &[f64], wanted: [f64; 2]| found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(&router.values, [60.0 / 31.0, 1.6]) && close(&testpmd.values, [2.0, 1.0]));
        assert_eq!(
            (router.target, router.missed(), testpmd.target),
            (Some(Target::AtLeast(1.9)), true, None)
        );
    }

    #[test]
    fn what_is_written_down() {
        let here = Arrangement {
            table: "t".to_owned(),
            dpdk: "DPDK 22.11".to_owned(),
            memory: "huge pages of 2 MB",
            cores: vec![1],
            tsc_ghz: 2.0,
            seconds: 3.0,
        };
        let f = figure(&[33.0], &[30.0], Some(1.1));
        let json = f.json(&here);
        assert_eq!(json["schema"], "routebricks.bench/2");
        assert_eq!(json["ratio"], json!({"min": 1.1, "median": 1.1, "max": 1.1}));
        assert_eq!(json["router_mpps"]["median"], 60.606);
        assert_eq!((&json["met"], &json["table"]), (&Value::Bool(true), &Value::Null));
        assert_eq!(figure(&[33.0], &[30.0], None).json(&here)["met"], Value::Null);
        assert_eq!(
            f.row(),
            "io                       33.0 (33.0–33.0)       30.0 (30.0–30.0)    1.100 (1.100–1.100)   at most 1.10: met"
        );
        // Right edges of the columns.
        assert_eq!(header().find("router"), Some(18 + 1 + 22 - "router".len()));
        assert_eq!(header().find("ratio"), Some(18 + 3 * (1 + 22) - "ratio".len()));
    }
}
