//! Patterns made into one graph of tests, which is walked once per packet.

use super::expr::{Expr, Test};
use super::view::View;
use std::collections::HashMap;
use std::fmt::Write;

/// Steps that the search for unreachable patterns may take.
const SEARCH: usize = 20_000;

/// A pattern and what becomes of packets that match it.
pub type Rule = (Expr, u16);

/// Where to go on: at a test, or at a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    Step(u32),
    Result(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    test: Test,
    yes: Target,
    no: Target,
}

/// Rules as a graph of tests without loops.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    start: Target,
}

/// Makes steps; equal steps are made once.
#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    known: HashMap<Step, u32>,
}

impl Builder {
    fn step(&mut self, test: Test, yes: Target, no: Target) -> Target {
        let yes = self.skip(&test, true, yes);
        let no = self.skip(&test, false, no);
        if yes == no {
            return yes;
        }
        let step = Step { test, yes, no };
        let steps = &mut self.steps;
        let index = *self.known.entry(step).or_insert_with(|| {
            steps.push(step);
            u32::try_from(steps.len() - 1).unwrap_or(u32::MAX)
        });
        Target::Step(index)
    }

    /// Passes over steps whose outcome is known after this test came out as `outcome`.
    fn skip(&self, test: &Test, outcome: bool, mut target: Target) -> Target {
        while let Target::Step(i) = target
            && let Some(step) = self.steps.get(i as usize)
            && let Some(known) = test.implies(outcome, &step.test)
        {
            target = if known { step.yes } else { step.no };
        }
        target
    }

    fn expr(&mut self, expr: &Expr, yes: Target, no: Target) -> Target {
        match expr {
            Expr::Constant(true) => yes,
            Expr::Constant(false) => no,
            Expr::Test(test) => self.step(*test, yes, no),
            Expr::Not(e) => self.expr(e, no, yes),
            Expr::And(a, b) => {
                let then = self.expr(b, yes, no);
                self.expr(a, then, no)
            }
            Expr::Or(a, b) => {
                let otherwise = self.expr(b, yes, no);
                self.expr(a, yes, otherwise)
            }
            Expr::If(c, a, b) => {
                let then = self.expr(a, yes, no);
                let otherwise = self.expr(b, yes, no);
                self.expr(c, then, otherwise)
            }
        }
    }
}

impl Program {
    /// Compiles rules: the result of the first one that matches counts, else `none`.
    pub fn new(rules: &[Rule], none: u16) -> Program {
        let mut builder = Builder::default();
        let mut start = Target::Result(none);
        for (expr, result) in rules.iter().rev() {
            start = builder.expr(expr, Target::Result(*result), start);
        }
        Program { steps: builder.steps, start }
    }

    /// The result for a packet.
    #[inline]
    pub fn run(&self, view: &View<'_>) -> u16 {
        let mut target = self.start;
        loop {
            match target {
                Target::Result(result) => return result,
                // Steps refer to earlier ones only, so this ends, and all are there.
                Target::Step(i) => {
                    let step = &self.steps[i as usize];
                    target = if step.test.holds(view) { step.yes } else { step.no };
                }
            }
        }
    }

    /// True unless it is certain that no packet has this result.
    pub fn may_reach(&self, result: u16) -> bool {
        let mut left = SEARCH;
        self.search(self.start, &mut Vec::new(), result, &mut left)
    }

    fn search(&self, at: Target, facts: &mut Vec<(Test, bool)>, result: u16, left: &mut usize) -> bool {
        let step = match at {
            Target::Result(r) => return r == result,
            Target::Step(i) => &self.steps[i as usize],
        };
        // A path as long as this is not worth following: assume that it leads there.
        if *left == 0 || facts.len() > 500 {
            return true;
        }
        *left -= 1;
        let known = facts.iter().find_map(|(test, outcome)| test.implies(*outcome, &step.test));
        [(true, step.yes), (false, step.no)].into_iter().any(|(outcome, next)| {
            if known.is_some_and(|k| k != outcome) {
                return false;
            }
            facts.push((step.test, outcome));
            let found = self.search(next, facts, result, left);
            facts.pop();
            found
        })
    }

    /// The steps as text, in the order in which they may come; `name` names results.
    pub fn text(&self, name: impl Fn(u16) -> String) -> String {
        let count = self.steps.len();
        // Steps are made from the last to the first.
        let target = |t: Target| match t {
            Target::Step(i) => format!("step {}", count - 1 - i as usize),
            Target::Result(r) => name(r),
        };
        if count == 0 {
            return format!("all -> {}\n", target(self.start));
        }
        let mut text = String::new();
        if self.start != Target::Step(u32::try_from(count - 1).unwrap_or(u32::MAX)) {
            let _ = writeln!(text, "start at {}", target(self.start));
        }
        for (n, step) in self.steps.iter().rev().enumerate() {
            let (yes, no) = (target(step.yes), target(step.no));
            let _ = writeln!(text, "{n:3}  {}  yes -> {yes}  no -> {no}", step.test);
        }
        text
    }
}
