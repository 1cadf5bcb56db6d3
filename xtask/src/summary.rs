//! Reads the output of `cargo test -- --show-output` line by line: what to show of it, and what it adds up to.

use std::collections::BTreeMap;
use std::fmt;

/// How many tests did what. A test that finds its conditions missing prints `skipped: REASON` and returns: the
/// harness takes it for passed, here it counts as skipped, as an ignored one does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Ran and held.
    pub passed: usize,
    /// Ran and did not hold, or took its whole program down.
    pub failed: usize,
    /// Could not run here.
    pub skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The state of one pass over the output of any number of `cargo test` runs.
#[derive(Default)]
pub struct Summary {
    finished: Counts,
    failures: Vec<String>,
    skips: Vec<String>,
    program: Program,
}

/// One test program, from cargo's `Running` line to the next.
#[derive(Default)]
struct Program {
    /// As cargo names it, e.g. `unittests src/lib.rs`.
    name: String,
    /// Documentation tests come in several rounds with a result each; of a program only the last result is its
    /// own, for it may print those of programs that it started.
    doc: bool,
    started: bool,
    results: Vec<Counts>,
    failed: Vec<String>,
    /// Test name to reason.
    skipped: BTreeMap<String, String>,
    /// The test whose captured output is being read.
    section: Option<String>,
    /// Within what the passed tests printed, which is of no interest.
    hidden: bool,
}

impl Summary {
    /// Takes the next line; true if it is to be shown.
    pub fn line(&mut self, line: &str) -> bool {
        let words = line.trim_start();
        let doc = line.starts_with("   Doc-tests ");
        if doc || line.starts_with("     Running ") {
            self.end_program();
            self.program.name = words.strip_prefix("Running ").unwrap_or(words).to_string();
            self.program.doc = doc;
            return true;
        }
        let program = &mut self.program;
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            program.started = true;
        } else if let Some(result) = parse_result(line) {
            program.results.push(result);
            program.hidden = false;
            program.section = None;
        } else if let Some(test) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            program.failed.push(test.to_string());
        } else if line == "successes:" || line == "failures:" {
            program.hidden = line == "successes:";
            program.section = None;
        } else if let Some(test) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            program.section = Some(test.to_string());
        } else if let (Some(test), Some(reason)) = (&program.section, line.strip_prefix("skipped:")) {
            program.skipped.entry(test.clone()).or_insert_with(|| reason.trim().to_string());
        }
        !program.hidden
    }

    /// Something that would have run tests cannot, for this reason.
    pub fn skip(&mut self, what: &str, reason: &str) {
        self.finished.skipped += 1;
        self.skips.push(format!("{what}: {reason}"));
    }

    /// The counts of all programs, after the last line; then the tests that failed and those skipped, with why.
    pub fn finish(mut self) -> (Counts, Vec<String>, Vec<String>) {
        self.end_program();
        (self.finished, self.failures, self.skips)
    }

    fn end_program(&mut self) {
        let program = std::mem::take(&mut self.program);
        let first = if program.doc { 0 } else { program.results.len().saturating_sub(1) };
        let mut counts = Counts::default();
        for result in &program.results[first..] {
            counts.passed += result.passed;
            counts.failed += result.failed;
            counts.skipped += result.skipped;
        }
        if program.started && program.results.is_empty() {
            counts.failed += 1;
            self.failures.push(format!("{}: ended before its tests did", program.name));
        }
        for (test, reason) in &program.skipped {
            if !program.failed.contains(test) && counts.passed > 0 {
                counts.passed -= 1;
                counts.skipped += 1;
                self.skips.push(format!("{test}: {reason}"));
            }
        }
        if counts.failed > 0 {
            self.failures.extend(program.failed.iter().map(|test| format!("{test} ({})", program.name)));
        }
        self.finished.passed += counts.passed;
        self.finished.failed += counts.failed;
        self.finished.skipped += counts.skipped;
    }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn parse_result(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| -> Option<usize> {
        numbers.split("; ").find_map(|part| part.strip_suffix(what))?.trim().parse().ok()
    };
    Some(Counts { passed: number(" passed")?, failed: number(" failed")?, skipped: number(" ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> (Counts, Vec<String>, Vec<String>, Vec<String>) {
        let mut summary = Summary::default();
        let shown = output.lines().filter(|line| summary.line(line)).map(str::to_string).collect();
        let (counts, failures, skips) = summary.finish();
        (counts, failures, skips, shown)
    }

    fn counts(passed: usize, failed: usize, skipped: usize) -> Counts {
        Counts { passed, failed, skipped }
    }

    const TWO_PROGRAMS: &str = "\
     Running unittests src/lib.rs (target/debug/deps/fib-1)

running 3 tests
test a ... ok
test b ... ok
test c ... ignored

successes:

---- a stdout ----
chatter
---- b stdout ----
skipped: not root
skipped: said twice

successes:
    a
    b

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/x.rs (target/debug/deps/x-2)

running 2 tests
test d ... FAILED
test e ... ok

successes:

successes:
    e

failures:

---- d stdout ----
skipped: no, it went on and failed
thread 'd' panicked

failures:
    d

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn programs_add_up_and_skips_are_told_from_passes() {
        let (total, failures, skips, shown) = read(TWO_PROGRAMS);
        assert_eq!(total, counts(2, 1, 2));
        assert_eq!(failures, ["d (tests/x.rs (target/debug/deps/x-2))"]);
        assert_eq!(skips, ["b: not root"]);
        assert!(!shown.contains(&"chatter".to_string()), "what passed tests print is not shown");
        assert!(shown.contains(&"thread 'd' panicked".to_string()), "what failed tests print is shown");
        assert_eq!(total.to_string(), "2 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn results_of_programs_that_a_test_starts_do_not_count() {
        let (total, ..) = read(
            "     Running unittests src/lib.rs (x)\n\nrunning 2 tests\n\nrunning 1 test\ntest child ... ok\n\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n\n\
             test parent ... ok\ntest other ... ok\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(total, counts(2, 0, 0));
    }

    #[test]
    fn a_program_that_dies_is_a_failure_and_one_without_the_harness_is_nothing() {
        let (total, failures, ..) = read(
            "     Running unittests src/lib.rs (x)\n\nrunning 2 tests\ntest a ... ok\n\
             \x20    Running tests/plain.rs (y)\nsomething\n",
        );
        assert_eq!(total, counts(0, 1, 0));
        assert_eq!(failures, ["unittests src/lib.rs (x): ended before its tests did"]);
    }

    #[test]
    fn every_round_of_documentation_tests_counts() {
        let (total, ..) = read(
            "   Doc-tests graph\n\nrunning 2 tests\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
             running 1 test\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(total, counts(3, 0, 0));
    }

    #[test]
    fn other_lines_are_no_results() {
        assert_eq!(parse_result("test result: ok. nothing"), None);
        assert_eq!(parse_result("result: ok. 1 passed; 0 failed; 0 ignored;"), None);
    }
}
