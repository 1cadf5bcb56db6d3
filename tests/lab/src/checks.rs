//! What was expected and what was seen.

use std::fmt::Display;

use crate::report;

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What it should be.
    pub expected: String,
    /// What it was.
    pub seen: String,
    /// Whether it is all right.
    pub holds: bool,
}

impl Check {
    /// A check whose expectation may be wider than one value, such as a bound.
    pub fn that(name: impl Display, expected: impl Display, seen: impl Display, holds: bool) -> Check {
        Check { name: name.to_string(), expected: expected.to_string(), seen: seen.to_string(), holds }
    }

    /// A check that holds if both read the same.
    pub fn same(name: impl Display, expected: impl Display, seen: impl Display) -> Check {
        let mut check = Check::that(name, expected, seen, false);
        check.holds = check.expected == check.seen;
        check
    }
}

/// All checks of a run, printed as they come.
#[derive(Debug, Default)]
pub struct Checks {
    done: Vec<Check>,
}

impl Checks {
    /// Prints a heading.
    pub fn heading(&self, text: &str) {
        println!("\n== {text}");
    }

    /// Notes a check and prints it.
    pub fn add(&mut self, check: Check) {
        let Check { name, expected, seen, holds } = &check;
        if *holds {
            println!("  ok      {name}: {seen}");
        } else {
            println!("  FAILED  {name}: expected {expected}, seen {seen}");
        }
        self.done.push(check);
    }

    /// Whether all of them hold, and there are some.
    pub fn all_hold(&self) -> bool {
        !self.done.is_empty() && self.done.iter().all(|check| check.holds)
    }

    /// Those that do not hold.
    pub fn failed(&self) -> Vec<&Check> {
        self.done.iter().filter(|check| !check.holds).collect()
    }

    /// The table of all checks and a last line that counts them.
    pub fn summary(&self) -> String {
        let word = |holds| if holds { "ok" } else { "FAILED" };
        let rows: Vec<Vec<String>> = self
            .done
            .iter()
            .map(|c| vec![c.name.clone(), c.expected.clone(), c.seen.clone(), word(c.holds).to_owned()])
            .collect();
        let table = report::table(&["what", "expected", "seen", ""], &rows);
        let (all, failed) = (self.done.len(), self.failed().len());
        format!("{table}\n{} of {all} checks hold\n", all - failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_checked_is_not_success() {
        assert!(!Checks::default().all_hold());
    }

    #[test]
    fn one_failure_fails_all() {
        let mut checks = Checks::default();
        checks.add(Check::same("a", 1, 1));
        assert!(checks.all_hold());
        checks.add(Check::same("b", "2", 3));
        checks.add(Check::that("c", "at least 2", "3 or so", true));
        assert!(!checks.all_hold());
        assert_eq!(checks.failed()[0].name, "b");
        let summary = checks.summary();
        assert!(summary.contains("b     2           3        FAILED"), "{summary}");
        assert!(summary.ends_with("\n2 of 3 checks hold\n"), "{summary}");
    }
}
