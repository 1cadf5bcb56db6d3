//! `ScheduleInfo`: says how often tasks run next to others.
//!
//! # Arguments
//! Any number of `ELEMENT SHARE`: the element's task gets this share of its worker's runs; 1 is what tasks get of whom
//! nothing is said, 2 is twice as often. The name of a compound element concerns all tasks in it; what is said of an
//! element and of the compounds around it is multiplied. Said twice of one name, the last holds.
//!
//! A share counts in steps of 1/1024, from 1/1024 to 32. It matters only among tasks of one worker that all have
//! something to do.
//!
//! # Ports
//! None.
//!
//! # Example
//! ```click
//! often :: InfiniteSource(LIMIT 30) -> c :: Counter -> Discard;
//! seldom :: InfiniteSource(LIMIT 10) -> d :: Counter -> Discard;
//! ScheduleInfo(often 3, seldom 0.5);
//! // c.count = 30
//! // d.count = 10
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Element, LocalCx, Phase, Share, Spec};
use lang::Text;
use lang::args::{ArgError, FromArg, Words};
use std::sync::Arc;

/// The most that a share can be.
const MOST: f64 = 32.0;

/// See the module.
#[derive(Debug)]
pub struct ScheduleInfo {
    shares: Vec<Share>,
}

/// Nothing happens while the router runs.
#[derive(Debug)]
pub struct LocalScheduleInfo;

/// `ELEMENT SHARE`.
struct Entry(Share);

impl FromArg for Entry {
    fn from_arg(arg: &Text) -> Result<Entry, ArgError> {
        let mut words = Words::new(arg);
        let element = words.take("element name")?;
        let share: f64 = words.take("share")?;
        words.end()?;
        if !(0.0..=MOST).contains(&share) {
            return Err(ArgError::new(format!("share: out of range, 0 to {MOST}")));
        }
        Ok(Entry(Share { element, share, span: arg.span }))
    }

    fn placeholder() -> Entry {
        Entry(Share { element: String::new(), share: 1.0, span: lang::Span::default() })
    }
}

impl Class for ScheduleInfo {
    const SPEC: Spec = Spec { phase: Phase::Info, ..Spec::new("ScheduleInfo", "0/0", "a/a") };
    type Local = LocalScheduleInfo;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<ScheduleInfo, ConfigErrors> {
        args.keywords(&[]);
        let entries: Vec<Entry> = args.rest("ENTRY");
        args.finish()?;
        Ok(ScheduleInfo { shares: entries.into_iter().map(|e| e.0).collect() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalScheduleInfo {
        LocalScheduleInfo
    }

    fn shares(&self) -> &[Share] {
        &self.shares
    }
}

impl Element for LocalScheduleInfo {}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::errors;

    /// How often each of these sources has run when one of them has sent all of its packets.
    fn runs(config: &str, sources: &[&str]) -> Vec<u64> {
        let mut bench = Bench::new(config, &Setup { burst: 1, ..Setup::default() }).unwrap();
        bench.run().unwrap();
        let counts = sources.iter().map(|s| bench.read(&format!("{s}.count")).parse().unwrap()).collect();
        bench.end().unwrap();
        counts
    }

    #[test]
    fn tasks_run_by_their_shares() {
        let config = |info: &str| {
            format!(
                "elementclass S {{ s :: InfiniteSource(LIMIT 6000, BURST 1, STOP true) -> output }}
                 a :: S -> Discard; b :: S -> Discard; c :: InfiniteSource(BURST 1) -> Discard; {info}"
            )
        };
        let sources = ["a/s", "b/s", "c"];
        for (info, shares) in [
            ("", [1.0, 1.0, 1.0]),
            ("ScheduleInfo(a/s 2, c 0.5);", [2.0, 1.0, 0.5]),
            ("ScheduleInfo(a 2, a/s 1.5, b 4); ScheduleInfo(b 0.25);", [3.0, 0.25, 1.0]),
            ("ScheduleInfo(a 0, c 32);", [1.0 / 1024.0, 1.0, 32.0]),
        ] {
            let runs = runs(&config(info), &sources);
            let most = shares.iter().copied().fold(0.0, f64::max);
            for (i, share) in shares.iter().enumerate() {
                let (seen, wanted) = (runs[i] as f64 / *runs.iter().max().unwrap() as f64, share / most);
                assert!((seen - wanted).abs() < 0.01, "{info} {i}: {seen}, not {wanted}; {runs:?}");
            }
        }
    }

    #[test]
    fn names_are_those_of_the_compound() {
        let config = "elementclass T { s :: InfiniteSource(LIMIT 4000, BURST 1, STOP true) -> Discard;
                ScheduleInfo(s 4); }
            t :: T; s :: InfiniteSource(BURST 1) -> Discard;";
        let runs = runs(config, &["t/s", "s"]);
        assert!(runs[0] == 4000 && (990..=1030).contains(&runs[1]), "{runs:?}");
    }

    #[test]
    fn mistakes() {
        let text = errors("a :: Idle; ScheduleInfo(a, a x, a 33, a -1, a 1 2);");
        for want in ["share missing", "share: invalid", "out of range, 0 to 32", "unexpected '2'"] {
            assert!(text.contains(want), "{text}");
        }
        assert!(errors("ScheduleInfo(a 1);").contains("no element named 'a'"));
    }
}
