//! What `Classifier` compiles its patterns to: tests of masked 32-bit words, each with a way for yes and one for no.
//!
//! Patterns are first laid out one after the other. Then every way is led past the tests whose outcome is already known
//! from the tests before it, so a packet meets each word test at most once where patterns share it.

use super::byte_pattern::{Clause, Pattern};
use std::fmt;

/// Do these bits of this word have this value?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    /// Offset of the word, a multiple of 4.
    offset: usize,
    /// The packet must be at least so long, else the answer is no.
    need: usize,
    mask: [u8; 4],
    value: [u8; 4],
}

/// Where to go after a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Step(usize),
    Output(usize),
    Nowhere,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    test: Test,
    yes: Goal,
    no: Goal,
}

/// Patterns in compiled form.
#[derive(Debug)]
pub struct Program {
    /// Ways lead only to later steps, so a run ends.
    steps: Vec<Step>,
    start: Goal,
}

impl Test {
    #[inline]
    fn matches(&self, data: &[u8]) -> bool {
        if data.len() < self.need {
            return false;
        }
        let rest = data.get(self.offset..).unwrap_or(&[]);
        let word = match rest.first_chunk::<4>() {
            Some(word) => *word,
            None => {
                // What is missing does not count: `need` covers every byte that does.
                let mut word = [0; 4];
                word.iter_mut().zip(rest).for_each(|(w, r)| *w = *r);
                word
            }
        };
        u32::from_ne_bytes(word) & u32::from_ne_bytes(self.mask) == u32::from_ne_bytes(self.value)
    }

    fn mask_bits(&self) -> u32 {
        u32::from_be_bytes(self.mask)
    }

    fn value_bits(&self) -> u32 {
        u32::from_be_bytes(self.value)
    }
}

/// The word tests that a clause stands for, all of which must be true.
fn tests(clause: &Clause) -> Vec<Test> {
    let need = clause.end();
    let mut tests: Vec<Test> = Vec::new();
    for (i, (&mask, &value)) in clause.mask.iter().zip(&clause.value).enumerate() {
        let at = clause.offset + i;
        let offset = at & !3;
        if tests.last().is_none_or(|t| t.offset != offset) {
            tests.push(Test { offset, need, mask: [0; 4], value: [0; 4] });
        }
        if let Some(test) = tests.last_mut() {
            test.mask[at & 3] = mask;
            test.value[at & 3] = value;
        }
    }
    // Words without bits that count only say that the packet is long enough; one test at least must say it.
    let first = tests.first().copied();
    tests.retain(|t| t.mask != [0; 4]);
    if tests.is_empty() { first.into_iter().collect() } else { tests }
}

/// Tests whose outcome is known.
#[derive(Clone, Debug, Default)]
struct Known {
    yes: Vec<Test>,
    no: Vec<Test>,
}

impl Known {
    fn and(&self, test: Test, outcome: bool) -> Known {
        let mut known = self.clone();
        if outcome {
            known.yes.push(test);
        } else {
            known.no.push(test);
        }
        known
    }

    /// The outcome of a test, if what is known tells.
    fn outcome(&self, test: &Test) -> Option<bool> {
        let (mut mask, mut value, mut len) = (0, 0, 0);
        for t in &self.yes {
            len = len.max(t.need);
            if t.offset == test.offset {
                mask |= t.mask_bits();
                value |= t.value_bits();
            }
        }
        let (want_mask, want) = (test.mask_bits(), test.value_bits());
        if (value ^ want) & mask & want_mask != 0 {
            return Some(false);
        }
        if want_mask & !mask == 0 && test.need <= len {
            return Some(true);
        }
        // If it were true, would something be true of which we know that it is not?
        let (mask, value, len) = (mask | want_mask, value | want, len.max(test.need));
        let refuted = self.no.iter().any(|t| {
            t.offset == test.offset
                && t.need <= len
                && t.mask_bits() & !mask == 0
                && value & t.mask_bits() == t.value_bits()
        });
        refuted.then_some(false)
    }
}

/// A step before its ways have been shortened, and what is known whenever it is reached.
struct Draft {
    step: Step,
    known: Known,
}

/// The steps of one pattern, the first of which will have number `base`; `other` is where packets go that do not match.
fn lay_out(pattern: &Pattern, output: usize, base: usize, other: Goal) -> Vec<Draft> {
    let clauses: Vec<(bool, Vec<Test>)> = pattern.0.iter().map(|c| (c.negated, tests(c))).collect();
    let total: usize = clauses.iter().map(|(_, tests)| tests.len()).sum();
    let goal = |n: usize| if n == base + total { Goal::Output(output) } else { Goal::Step(n) };
    let mut drafts = Vec::new();
    let mut known = Known::default();
    let mut at = base;
    for (negated, tests) in clauses {
        let after = goal(at + tests.len());
        let before = known.clone();
        for (i, &test) in tests.iter().enumerate() {
            at += 1;
            let last = i + 1 == tests.len();
            let (yes, no) = match (negated, last) {
                (false, _) => (goal(at), other),
                (true, false) => (goal(at), after),
                (true, true) => (other, after),
            };
            drafts.push(Draft { step: Step { test, yes, no }, known: known.clone() });
            known = known.and(test, true);
        }
        if negated {
            // Any of its tests may have failed; only of a single one we know which.
            known = match tests[..] {
                [only] => before.and(only, false),
                _ => before,
            };
        }
    }
    drafts
}

impl Program {
    /// Compiles patterns; the first that matches counts, its index is the output.
    pub fn new(patterns: &[Pattern]) -> Program {
        let lengths: Vec<usize> = patterns.iter().map(|p| p.0.iter().map(|c| tests(c).len()).sum()).collect();
        let mut bases = Vec::new();
        let mut base = 0;
        for length in &lengths {
            bases.push(base);
            base += length;
        }
        let entry = |p: usize| match lengths.get(p) {
            None => Goal::Nowhere,
            Some(0) => Goal::Output(p),
            Some(_) => Goal::Step(bases[p]),
        };
        let drafts: Vec<Draft> = patterns
            .iter()
            .enumerate()
            .flat_map(|(p, pattern)| lay_out(pattern, p, bases[p], entry(p + 1)))
            .collect();
        let steps = drafts.iter().map(|d| shorten(d, &drafts)).collect();
        let mut program = Program { steps, start: entry(0) };
        program.drop_unreached();
        program
    }

    fn reached(&self) -> (Vec<bool>, Vec<usize>) {
        let mut steps = vec![false; self.steps.len()];
        let mut outputs = Vec::new();
        let mut goals = vec![self.start];
        while let Some(goal) = goals.pop() {
            match goal {
                Goal::Step(s) if !steps[s] => {
                    steps[s] = true;
                    goals.extend([self.steps[s].yes, self.steps[s].no]);
                }
                Goal::Output(o) => outputs.push(o),
                _ => {}
            }
        }
        (steps, outputs)
    }

    fn drop_unreached(&mut self) {
        let (reached, _) = self.reached();
        let mut numbers = Vec::new();
        let mut kept = 0;
        for &r in &reached {
            numbers.push(kept);
            kept += usize::from(r);
        }
        let renumber = |goal: Goal| match goal {
            Goal::Step(s) => Goal::Step(numbers[s]),
            other => other,
        };
        let mut keep = reached.iter();
        self.steps.retain(|_| keep.next() == Some(&true));
        for step in &mut self.steps {
            step.yes = renumber(step.yes);
            step.no = renumber(step.no);
        }
        self.start = renumber(self.start);
    }

    /// True if some packet may leave by this output, as far as the program knows.
    pub fn reaches(&self, output: usize) -> bool {
        self.reached().1.contains(&output)
    }

    /// The output of the first pattern that matches; `None` if none does.
    #[inline]
    pub fn classify(&self, data: &[u8]) -> Option<usize> {
        let mut goal = self.start;
        loop {
            match goal {
                Goal::Output(output) => return Some(output),
                Goal::Nowhere => return None,
                Goal::Step(s) => {
                    let step = self.steps.get(s)?;
                    goal = if step.test.matches(data) { step.yes } else { step.no };
                }
            }
        }
    }
}

/// A step whose ways are led past all tests of known outcome.
fn shorten(draft: &Draft, all: &[Draft]) -> Step {
    let Step { test, yes, no } = draft.step;
    let follow = |mut goal: Goal, known: &Known| {
        while let Goal::Step(s) = goal
            && let Some(next) = all.get(s)
            && let Some(outcome) = known.outcome(&next.step.test)
        {
            goal = if outcome { next.step.yes } else { next.step.no };
        }
        goal
    };
    Step {
        test,
        yes: follow(yes, &draft.known.and(test, true)),
        no: follow(no, &draft.known.and(test, false)),
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Step(s) => write!(f, "step {s}"),
            Goal::Output(o) => write!(f, "[{o}]"),
            Goal::Nowhere => f.write_str("[X]"),
        }
    }
}

/// One line a step, as Click's handler `program` prints them.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Step { test, yes, no }) in self.steps.iter().enumerate() {
            let (offset, value, mask) = (test.offset, test.value_bits(), test.mask_bits());
            writeln!(f, "{i:2}  {offset:2}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}")?;
        }
        if self.steps.is_empty() {
            writeln!(f, "all->{}", self.start)?;
        }
        let safe = self.steps.iter().map(|s| s.test.need).max().unwrap_or(0);
        writeln!(f, "safe length {safe}")?;
        writeln!(f, "alignment offset 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::args::FromArg;
    use lang::{Span, Text};
    use proptest::prelude::*;

    fn program(patterns: &[&str]) -> Program {
        let read = |p: &&str| Pattern::from_arg(&Text::verbatim(*p, Span::default())).unwrap();
        Program::new(&patterns.iter().map(read).collect::<Vec<_>>())
    }

    /// The definition: every clause looked at byte by byte.
    fn naive(patterns: &[Pattern], data: &[u8]) -> Option<usize> {
        let holds = |c: &Clause| {
            let bytes = data.get(c.offset..c.end());
            let equal = bytes.is_some_and(|b| {
                b.iter().zip(&c.mask).zip(&c.value).all(|((byte, mask), value)| byte & mask == *value)
            });
            equal != c.negated
        };
        patterns.iter().position(|p| p.0.iter().all(holds))
    }

    #[test]
    fn shared_tests_are_made_once() {
        let p = program(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]);
        assert_eq!(
            p.to_string(),
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
             1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
             2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
             3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
             safe length 22\nalignment offset 0\n"
        );
        assert_eq!(program(&["-"]).to_string(), "all->[0]\nsafe length 0\nalignment offset 0\n");
        assert_eq!(
            program(&["0/01"]).to_string(),
            " 0   0/01000000%ff000000  yes->[0]  no->[X]\nsafe length 1\nalignment offset 0\n"
        );
    }

    #[test]
    fn patterns_that_cannot_match_are_noticed() {
        let p = program(&["12/0800", "12/0800 20/01", "12/0806 12/0800", "12/08", "-", "0/00"]);
        let reached: Vec<bool> = (0..6).map(|o| p.reaches(o)).collect();
        assert_eq!(reached, [true, false, false, true, true, false]);
    }

    #[test]
    fn short_packets_have_no_value() {
        let p = program(&["2/0000", "!6/??", "4/??%00", "-"]);
        assert_eq!(p.classify(&[]), Some(1));
        assert_eq!(p.classify(&[0; 3]), Some(1));
        assert_eq!(p.classify(&[0; 4]), Some(0));
        assert_eq!(p.classify(&[1; 6]), Some(1));
        assert_eq!(p.classify(&[1; 7]), Some(2));
    }

    /// Few offsets, values and masks, so that patterns overlap and contradict each other.
    fn clause() -> impl Strategy<Value = Clause> {
        let byte = prop_oneof![Just((0xff, 0)), Just((0xff, 1)), Just((0, 0)), Just((0x0f, 1)), Just((1, 0))];
        (0..7usize, proptest::collection::vec(byte, 1..7), any::<bool>()).prop_map(
            |(offset, bytes, negated)| {
                let (mask, value) = bytes.into_iter().unzip();
                Clause { offset, mask, value, negated }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn like_the_definition(
            patterns in proptest::collection::vec(proptest::collection::vec(clause(), 0..4), 0..6),
            packets in proptest::collection::vec(proptest::collection::vec(0..2u8, 0..14), 30),
        ) {
            let patterns: Vec<Pattern> = patterns.into_iter().map(Pattern).collect();
            let program = Program::new(&patterns);
            for packet in packets {
                let want = naive(&patterns, &packet);
                prop_assert_eq!(program.classify(&packet), want, "{:?}\n{}", packet, program);
                if let Some(output) = want {
                    prop_assert!(program.reaches(output));
                }
            }
        }
    }
}
