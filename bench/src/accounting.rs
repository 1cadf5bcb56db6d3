//! What it costs that `show runtime` can say where cycles go: the router beside itself with `run --no-accounting`.

use crate::pairs::{Bench, Patience};
use crate::plan::{Group, plans};
use crate::value::{Measured, Target};
use serde_json::json;

const LIMIT: Target = Target::AtMost(1.02);

/// The path where calls are short, and the one that a router has.
const PATHS: [Group; 2] = [Group::Io, Group::Ip];

/// Cycles per packet with and without, and their ratio, pair by pair.
///
/// # Errors
/// If the router does not run.
pub fn measure_all(bench: &Bench<'_>, patience: Patience) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for group in PATHS {
        let plan = plans(group).into_iter().next().ok_or("nothing is planned")?;
        let [with, without] = bench.with_and_without(&plan, "--no-accounting", patience)?;
        let ratios = with.iter().zip(&without).map(|(with, without)| with / without).collect();
        let arrangement = json!({
            "config": plan.config, "memory": bench.memory.describe(), "tsc_ghz": epoch::tsc_hz() as f64 / 1e9,
        });
        for (what, unit, values, target) in [
            ("cycles per packet", "cycles", with, None),
            ("cycles per packet with --no-accounting", "cycles", without, None),
            ("cost of the accounting, as a ratio", "x", ratios, Some(LIMIT)),
        ] {
            all.push(Measured {
                group: "accounting",
                at: None,
                what: what.to_owned(),
                of: group.name(),
                unit,
                values,
                target,
                arrangement: arrangement.as_object().cloned().unwrap_or_default(),
            });
        }
    }
    Ok(all)
}
