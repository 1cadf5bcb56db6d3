//! Figures as lines of JSON on standard output and as a table on standard error.

use serde_json::{Value, json};

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

    fn json(self) -> Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        json!({"min": round(self.min), "median": round(self.median), "max": round(self.max)})
    }

    pub fn cell(self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.min, self.max)
    }
}

/// What all figures of a run have in common.
pub struct Report {
    pub table: String,
    pub routes: usize,
    pub next_hops: u32,
    pub batch: usize,
}

impl Report {
    /// One figure as a line of JSON and as a row.
    pub fn figure(&self, name: &str, of: &str, pattern: Option<&str>, unit: &str, values: &[f64]) {
        let spread = Spread::of(values);
        let line = json!({
            "schema": "routebricks.bench/1",
            "name": name,
            "of": of,
            "pattern": pattern,
            "unit": unit,
            "table": self.table,
            "routes": self.routes,
            "next_hops": self.next_hops,
            "batch": self.batch,
            "rounds": values.len(),
            "value": spread.json(),
        });
        println!("{line}");
        let digits = if spread.median < 10.0 { 3 } else { 1 };
        let what = pattern.unwrap_or(name);
        eprintln!("{of:<22} {what:<34} {:>26} {unit}", spread.cell(digits));
    }
}
