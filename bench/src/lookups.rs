//! Lookups alone, beside DPDK's tables in one process: what the benches of `crates/dpdk` print, against the targets.

use crate::huge_pages::Memory;
use crate::value::{Measured, Target};
use serde_json::{Map, Value};
use std::path::Path;
use std::process::Stdio;

/// Huge pages that DPDK's tables take: `rte_fib` of a full table, and `rte_fib6` and `rte_lpm6`.
const MEMORY: [u64; 2] = [1000 << 20, 900 << 20];
/// Forms of `rte_fib6`, the best first, and what a target beside each says.
const RIVALS6: [(&str, &str); 2] = [
    ("rte_fib6 AVX-512", "rte_fib6 AVX-512"),
    ("rte_fib6 scalar", "rte_fib6 scalar, as there is no AVX-512 here"),
];
/// IPv6 patterns with a target: destinations of traffic. Most of the rest of the space has no route.
const TRAFFIC6: [&str; 2] = ["uniform over prefixes", "zipf over prefixes"];

/// What to run, and how.
pub struct Wish<'a> {
    /// The repository.
    pub root: &'a Path,
    /// The table, if one was named or is at hand.
    pub table: Option<&'a Path>,
    /// The processor of the lookups.
    pub core: usize,
    /// With `rte_lpm`, which takes minutes to load a full table.
    pub lpm: bool,
}

/// IPv4.
///
/// # Errors
/// If the bench does not run here.
pub fn ipv4(wish: &Wish<'_>) -> Result<Vec<Measured>, String> {
    let mut words = vec!["--core".to_owned(), wish.core.to_string()];
    if let Some(table) = wish.table {
        words.extend(["--table".to_owned(), absolute(table)]);
    }
    if !wish.lpm {
        words.push("--without-lpm".to_owned());
    }
    Ok(run(wish, "lookups", &words, MEMORY[0])?.iter().filter_map(of_line4).collect())
}

/// IPv6.
///
/// # Errors
/// As for IPv4.
pub fn ipv6(wish: &Wish<'_>) -> Result<Vec<Measured>, String> {
    let lines = run(wish, "lookups6", &[wish.core.to_string()], MEMORY[1])?;
    let mut all: Vec<Measured> = lines.iter().flat_map(of_line6).collect();
    all.extend(memory6(&lines));
    Ok(all)
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).to_string_lossy().into_owned()
}

/// Runs a bench of `crates/dpdk`; gives its lines of JSON.
fn run(wish: &Wish<'_>, bench: &str, words: &[String], memory: u64) -> Result<Vec<Value>, String> {
    let _pages = Memory::obtain(memory);
    let mut cargo = xtask::cargo();
    cargo.args(["bench", "--quiet", "--package", "dpdk", "--bench", bench, "--"]).args(words);
    if let Some(folder) = wish.table.and_then(Path::parent) {
        cargo.env("ROUTEBRICKS_DATA", absolute(folder));
    }
    let output = cargo.current_dir(wish.root).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.trim_end().lines().rev().take(3).collect();
        return Err(last.into_iter().rev().collect::<Vec<_>>().join("; "));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).map_err(|e| format!("{bench}: {e}"))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn arrangement(line: &Value, more: &[&str]) -> Map<String, Value> {
    let keys = ["table", "routes", "batch"].iter().chain(more);
    keys.map(|key| ((*key).to_owned(), line[*key].clone())).collect()
}

/// Lowest, median and highest: their spread is the one that the bench has found.
fn values(spread: &Value) -> Vec<f64> {
    ["min", "median", "max"].iter().filter_map(|key| spread[*key].as_f64()).collect()
}

fn of_line4(line: &Value) -> Option<Measured> {
    let (name, of) = (text(&line["name"]), text(&line["of"]));
    let target = match (name.as_str(), of.as_str()) {
        ("ratio to the best rival", "Dir24_8") => Some(Target::AtLeast(1.2)),
        ("memory", "Dir24_8") => Some(Target::AtMost(64.0)),
        ("build from the RIB", "Dir24_8") => Some(Target::AtMost(0.15)),
        ("updates per processor second", "RouteTable of Dir24_8") => Some(Target::AtLeast(1.0)),
        ("reader's rate beside updates at a pace", "RouteTable of Dir24_8") => Some(Target::AtLeast(0.9)),
        _ => None,
    };
    let unit = ["M/s", "MB", "s", "x"].into_iter().find(|unit| line["unit"] == *unit)?;
    let what = line["pattern"].as_str().map_or(name.clone(), |pattern| format!("{name}: {pattern}"));
    Some(Measured {
        group: "lookups",
        at: None,
        what,
        of,
        unit,
        values: values(&line["value"]),
        target,
        arrangement: arrangement(line, &["next_hops", "rounds"]),
    })
}

fn of_line6(line: &Value) -> Vec<Measured> {
    let of = text(&line["structure"]);
    let measured = |what: String, unit, values, target| Measured {
        group: "lookups6",
        at: None,
        what,
        of: of.clone(),
        unit,
        values,
        target,
        arrangement: arrangement(line, &["rounds", "rival"]),
    };
    if line["schema"] == "routebricks.updates6/1" {
        let updates = line["updates_per_cpu_second"].as_f64().map(|n| n / 1e6);
        let rate = |at: usize| line["reader_million_per_second"][at].as_f64();
        let kept =
            rate(0).zip(rate(1)).filter(|(before, _)| *before > 0.0).map(|(before, during)| during / before);
        return vec![
            measured("updates per processor second".to_owned(), "M/s", updates.into_iter().collect(), None),
            measured("reader's rate beside updates".to_owned(), "x", kept.into_iter().collect(), None),
        ];
    }
    let pattern = text(&line["pattern"]);
    let mut all =
        vec![measured(format!("lookups: {pattern}"), "M/s", values(&line["million_per_second"]), None)];
    if line["ratio_to_rte_fib6"].is_object() {
        let target = of == "range tree" && TRAFFIC6.contains(&pattern.as_str());
        let ratios = values(&line["ratio_to_rte_fib6"]);
        let (rival, said) =
            RIVALS6.into_iter().find(|(name, _)| line["rival"] == *name).unwrap_or(RIVALS6[0]);
        let target = target.then_some(Target::TimesOf(1.5, said));
        all.push(measured(format!("ratio to {rival}: {pattern}"), "x", ratios, target));
    }
    all
}

/// What each structure holds, and ours as a part of `rte_fib6`'s.
fn memory6(lines: &[Value]) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    let rival = lines.iter().find(|line| text(&line["structure"]).starts_with("rte_fib6"));
    let rival = rival.and_then(|line| line["bytes"].as_f64());
    for line in lines {
        let Some(held) = line["bytes"].as_f64() else { continue };
        let of = text(&line["structure"]);
        if all.iter().any(|measured| measured.of == of) {
            continue;
        }
        let measured = |what: &str, unit, value, target| Measured {
            group: "lookups6",
            at: None,
            what: what.to_owned(),
            of: of.clone(),
            unit,
            values: vec![value],
            target,
            arrangement: arrangement(line, &[]),
        };
        all.push(measured("memory", "MB", held / 1e6, None));
        if let Some(rival) = rival.filter(|_| of == "range tree") {
            all.push(measured(
                "memory, as a part of rte_fib6's",
                "x",
                held / rival,
                Some(Target::AtMost(0.2)),
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_of_ipv4_get_their_targets() {
        let line = json!({
            "name": "ratio to the best rival", "of": "Dir24_8", "pattern": "uniform over 2^32", "unit": "x",
            "table": "t", "routes": 9, "next_hops": 64, "batch": 64, "rounds": 3,
            "value": {"min": 1.0, "median": 1.3, "max": 1.4},
        });
        let found = of_line4(&line).unwrap();
        assert_eq!(found.what, "ratio to the best rival: uniform over 2^32");
        assert_eq!((found.target, found.missed()), (Some(Target::AtLeast(1.2)), false));
        assert_eq!(found.json()["value"], line["value"]);
        let other = json!({"name": "memory", "of": "rte_fib", "unit": "MB", "value": {"min": 1, "median": 1, "max": 1}});
        assert_eq!(of_line4(&other).unwrap().target, None);
        assert!(of_line4(&json!({"unit": "?"})).is_none());
    }

    #[test]
    fn lines_of_ipv6_get_their_targets() {
        let line = |structure: &str, ratio: f64, bytes: u32| {
            json!({
                "schema": "routebricks.lookups6/1", "structure": structure, "pattern": "zipf over prefixes",
                "ratio_to_rte_fib6": {"min": ratio, "median": ratio, "max": ratio}, "bytes": bytes,
                "million_per_second": {"min": 5.0, "median": 5.0, "max": 5.0}, "rival": "rte_fib6 AVX-512",
            })
        };
        let mut scalar = line("range tree", 1.6, 10);
        scalar["rival"] = json!("rte_fib6 scalar");
        let ratio = of_line6(&scalar).pop().unwrap();
        assert_eq!(ratio.what, "ratio to rte_fib6 scalar: zipf over prefixes");
        assert_eq!(ratio.json()["target"], "at least 1.5 × rte_fib6 scalar, as there is no AVX-512 here");
        assert_eq!(ratio.json()["rival"], "rte_fib6 scalar");
        let lines =
            [line("range tree", 1.4, 10), line("rte_fib6 AVX-512", 1.0, 100), line("range tree", 1.6, 10)];
        let missed: Vec<bool> = lines.iter().flat_map(of_line6).map(|m| m.missed()).collect();
        assert_eq!(missed, [false, true, false, false, false, false]);
        let memory: Vec<(String, f64)> = memory6(&lines).into_iter().map(|m| (m.what, m.values[0])).collect();
        let expected = [("memory", 1e-5), ("memory, as a part of rte_fib6's", 0.1), ("memory", 1e-4)];
        assert_eq!(memory, expected.map(|(what, value)| (what.to_owned(), value)));
        let updates = json!({"schema": "routebricks.updates6/1", "structure": "range tree",
            "updates_per_cpu_second": 2e6, "reader_million_per_second": [10.0, 9.0]});
        // A line of the same structure that says nothing of memory comes first.
        let all = [std::slice::from_ref(&updates), &lines[..]].concat();
        assert_eq!(memory6(&all).len(), 3);
        assert!((memory6(&all)[0].values[0] - 1e-5).abs() < 1e-12);
        let found: Vec<f64> = of_line6(&updates).iter().map(|m| m.values[0]).collect();
        assert_eq!(found, [2.0, 0.9]);
    }
}
