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
//! While the router runs, the handlers `tickets` (1,024 times the share) and `scheduled` of elements that have tasks read and
//! change it.
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
    fn shares_can_be_changed_while_tasks_run() {
        let config = "a :: InfiniteSource(BURST 1) -> Discard; b :: InfiniteSource(LIMIT 4000, BURST 1, STOP true) -> Discard;
                ScheduleInfo(b 0.5);";
        let mut bench = Bench::new(config, &Setup { burst: 1, ..Setup::default() }).unwrap();
        assert_eq!(["a", "b"].map(|s| bench.read(&format!("{s}.tickets"))), ["1024", "512"]);
        bench.write("b.tickets", "4096").unwrap();
        assert_eq!(bench.read("b.tickets"), "4096");
        for wrong in ["0", "32769"] {
            let error = bench.write("b.tickets", wrong).unwrap_err();
            assert_eq!(error, "tickets must be between 1 and 32768");
        }
        bench.run().unwrap();
        let count: u64 = bench.read("a.count").parse().unwrap();
        assert!((990..=1030).contains(&count), "{count}");
        bench.end().unwrap();
    }

    #[test]
    fn tasks_say_whether_they_are_scheduled() {
        let config =
            "s :: InfiniteSource(LIMIT 100) -> q :: Queue(5) -> u :: Unqueue(ACTIVE false) -> d :: Discard;
                t :: InfiniteSource(LIMIT 100) -> Discard;";
        let mut bench = Bench::new(config, &Setup::default()).unwrap();
        let scheduled = |bench: &Bench| ["s", "t"].map(|e| bench.read(&format!("{e}.scheduled")));
        assert_eq!(scheduled(&bench), ["true", "true"]);
        bench.write("t.scheduled", "false").unwrap();
        bench.run().unwrap();
        // One waits for room in the queue, the other for somebody to wake it.
        assert_eq!(scheduled(&bench), ["false", "false"]);
        assert_eq!(["s.count", "t.count"].map(|h| bench.read(h)), ["5", "0"]);
        bench.write("u.active", "true").unwrap();
        bench.write("t.scheduled", "true").unwrap();
        bench.run().unwrap();
        assert_eq!(["s.count", "t.count", "d.count"].map(|h| bench.read(h)), ["100", "100", "100"]);
        // A queue and what only gets packets have no tasks.
        for element in ["q", "d"] {
            assert_eq!(bench.read(&format!("{element}.tickets")), format!("no '{element}.tickets' handler"));
            assert!(!bench.read(&format!("{element}.handlers")).contains("scheduled"));
        }
        assert!(bench.read("u.handlers").contains("scheduled\trw\ntickets\trw\n"));
        bench.end().unwrap();
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
