//! Figures as lines of JSON on standard output and as a table on standard error.

use serde_json::json;

use crate::common::Spread;

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
        let what = pattern.map_or(name.to_owned(), |pattern| format!("{name}, {pattern}"));
        eprintln!("{of:<22} {what:<60} {:>26} {unit}", spread.cell(digits));
    }
}
