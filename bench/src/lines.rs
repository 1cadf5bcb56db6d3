//! Where figures go, line by line, and how many targets were met, missed and not measured.

use crate::figure::{Arrangement, Figure};
use crate::plan::Group;
use crate::report;
use crate::value::Measured;
use serde_json::{Value, json};
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What figures of a group with a target begin with, how many of them there are, and what they must be. It is for rows of
/// what could not be measured; what was measured says its target itself.
fn targets(group: Group) -> &'static [(&'static str, usize, &'static str)] {
    match group {
        Group::Workers => &[("rate of 2 workers, of that of 1", 1, "at least 1.9")],
        Group::Latency => &[("p99, as a multiple of testpmd's", 1, "at most 3")],
        Group::Accounting => &[("cost of the accounting, as a ratio", 2, "at most 1.02")],
        Group::Rings => &[("rate, as a multiple of net_memif's", 3, "at least 1")],
        Group::Lookups => &[
            ("ratio to the best rival", 3, "at least 1.2"),
            ("memory", 1, "at most 64"),
            ("build from the RIB", 1, "at most 0.15"),
            ("updates per processor second", 1, "at least 1"),
            ("reader's rate beside updates at a pace", 1, "at least 0.9"),
        ],
        Group::Lookups6 => {
            &[("ratio to rte_fib6", 2, "at least 1.5"), ("memory, as a part of rte_fib6's", 1, "at most 0.2")]
        }
        Group::Cluster => &[
            ("more than to route and to forward", 2, "at most 15 or 30"),
            ("throughput of the worst of", 2, "at least 95"),
            ("reordered sequences", 2, "at most 0"),
            ("Jain's index of max-min shares", 2, "at least 0.99"),
            ("longest silence of a line", 4, "at most 50"),
        ],
        _ => &[],
    }
}

/// A target that could not be measured: the figure's beginning, how many such figures there are, what they must be.
type Absent = (&'static str, usize, &'static str);

fn absent(group: Group, found: &[Measured]) -> Vec<Absent> {
    let there = |what: &str| {
        found
            .iter()
            .filter(|m| m.target.is_some() && !m.values.is_empty() && m.what.starts_with(what))
            .count()
    };
    let missing = |&(what, count, target): &Absent| (what, count.saturating_sub(there(what)), target);
    targets(group).iter().map(missing).filter(|(_, count, _)| *count > 0).collect()
}

/// Targets by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    met: usize,
    missed: usize,
    absent: usize,
}

impl Tally {
    fn add(&mut self, met: Option<bool>) {
        match met {
            Some(true) => self.met += 1,
            Some(false) => self.missed += 1,
            None => {}
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { met, missed, absent } = self;
        write!(f, "targets: {met} met, {missed} MISSED, {absent} not measured here")
    }
}

/// Where the figures go.
pub struct Lines {
    path: PathBuf,
    file: File,
    tally: Tally,
}

impl Lines {
    /// Into this folder, which is made.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(folder: &Path) -> Result<Lines, String> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let path = folder.join("figures.jsonl");
        let file = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Lines { path, file, tally: Tally::default() })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Those of the system.
    pub fn add(&mut self, line: &Value) -> Result<(), String> {
        println!("{line}");
        writeln!(self.file, "{line}").map_err(|e| format!("{}: {e}", self.path.display()))
    }

    /// Adds a line for a figure, and a row for people.
    ///
    /// # Errors
    /// Those of the system.
    pub fn figure(&mut self, figure: &Figure, arrangement: &Arrangement) -> Result<(), String> {
        eprintln!("{}", figure.row());
        self.tally.add(figure.plan.target.map(|_| !figure.missed()));
        self.add(&figure.json(arrangement))
    }

    /// Adds a line for each value of a group, and a row for people; then for each target that has no value, with the
    /// reason for that.
    ///
    /// # Errors
    /// Those of the system.
    pub fn values(&mut self, group: Group, found: Result<&[Measured], &str>) -> Result<(), String> {
        let (found, why) = match found {
            Ok(found) => (found, "what it is compared with did not run"),
            Err(why) => {
                eprintln!("{:<18} left out: {why}", group.name());
                (&[][..], why)
            }
        };
        for measured in found {
            eprintln!("{}", measured.row());
            self.tally.add(measured.target.map(|_| !measured.missed()));
            self.add(&measured.json())?;
        }
        for (what, count, target) in absent(group, found) {
            self.tally.absent += count;
            // What a program said is above.
            let why = why.lines().next().unwrap_or_default();
            eprintln!("{:<18} {what} ({count} × {target}): not measured here: {why}", group.name());
            self.add(&json!({
                "schema": "routebricks.bench-value/1", "group": group.name(), "what": what, "target": target,
                "figures": count, "value": null, "met": null, "not_measured_because": why,
            }))?;
        }
        Ok(())
    }

    /// Draws what there is and says what came of all targets; true if none was missed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn end(&self) -> Result<bool, String> {
        let page = self.path.with_file_name("report.html");
        report::write(&self.path, &page)?;
        eprintln!("{}\n{}\n{}", self.path.display(), page.display(), self.tally);
        Ok(self.tally.missed == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Target;
    use serde_json::Map;

    fn measured(what: &str, values: &[f64], target: Option<Target>) -> Measured {
        Measured {
            group: "lookups6",
            at: None,
            what: what.to_owned(),
            of: "range tree".to_owned(),
            unit: "x",
            values: values.to_vec(),
            target,
            arrangement: Map::new(),
        }
    }

    #[test]
    fn what_has_no_value_is_absent() {
        let target = Some(Target::AtLeast(1.5));
        let found = [
            measured("ratio to rte_fib6 scalar: zipf", &[2.0], target),
            measured("ratio to rte_fib6 scalar: uniform over all", &[2.0], None),
        ];
        let memory = ("memory, as a part of rte_fib6's", 1, "at most 0.2");
        assert_eq!(absent(Group::Lookups6, &found), [("ratio to rte_fib6", 1, "at least 1.5"), memory]);
        assert_eq!(absent(Group::Lookups6, &[])[0].1, 2);
        assert_eq!(absent(Group::Load, &[]), []);
    }

    #[test]
    fn targets_are_counted_and_those_without_value_have_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Lines::create(folder.path()).unwrap();
        let (good, bad) = (Some(Target::AtLeast(1.5)), Some(Target::AtMost(0.2)));
        let found = [
            measured("ratio to rte_fib6 AVX-512: zipf", &[2.0], good),
            measured("memory, as a part of rte_fib6's", &[0.3], bad),
            measured("lookups", &[9.0], None),
        ];
        lines.values(Group::Lookups6, Ok(&found)).unwrap();
        lines.values(Group::Rings, Err("it needs two processors")).unwrap();
        assert_eq!(lines.tally, Tally { met: 1, missed: 1, absent: 4 });
        assert_eq!(lines.tally.to_string(), "targets: 1 met, 1 MISSED, 4 not measured here");
        let text = fs::read_to_string(folder.path().join("figures.jsonl")).unwrap();
        let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let why = |at: usize| (&all[at]["what"], &all[at]["figures"], &all[at]["not_measured_because"]);
        assert_eq!(all.len(), 5);
        assert_eq!(
            why(3),
            (&json!("ratio to rte_fib6"), &json!(1), &json!("what it is compared with did not run"))
        );
        assert_eq!(
            why(4),
            (&json!("rate, as a multiple of net_memif's"), &json!(3), &json!("it needs two processors"))
        );
        assert!(!lines.end().unwrap(), "one was missed");
    }
}
