//! `StaticThreadSched`: binds elements to workers.
//!
//! # Arguments
//! Any number of `ELEMENT THREAD`: the element runs on the worker of this number, from 0. The name of a compound element
//! binds all that is in it; an entry for a single element wins over that.
//!
//! # Ports
//! None.
//!
//! # Example
//! ```click
//! s :: InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;
//! StaticThreadSched(s 0, c 0);
//! // c.count = 3
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Element, LocalCx, Phase, Placement, Spec};
use lang::Text;
use lang::args::{ArgError, FromArg, Words};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct StaticThreadSched {
    placements: Vec<Placement>,
}

/// One worker's part of [`StaticThreadSched`].
#[derive(Debug)]
pub struct LocalStaticThreadSched;

/// `ELEMENT THREAD`.
struct Entry(Placement);

impl FromArg for Entry {
    fn from_arg(arg: &Text) -> Result<Entry, ArgError> {
        let mut words = Words::new(arg);
        let element = words.take("element name")?;
        let worker = words.take("thread")?;
        words.end()?;
        Ok(Entry(Placement { element, worker, span: arg.span }))
    }

    fn placeholder() -> Entry {
        Entry(Placement { element: String::new(), worker: 0, span: lang::Span::default() })
    }
}

impl Class for StaticThreadSched {
    const SPEC: Spec = Spec { phase: Phase::Info, ..Spec::new("StaticThreadSched", "0/0", "a/a") };
    type Local = LocalStaticThreadSched;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<StaticThreadSched, ConfigErrors> {
        args.keywords(&[]);
        let entries: Vec<Entry> = args.rest("ENTRY");
        args.finish()?;
        Ok(StaticThreadSched { placements: entries.into_iter().map(|e| e.0).collect() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalStaticThreadSched {
        LocalStaticThreadSched
    }

    fn placements(&self) -> &[Placement] {
        &self.placements
    }
}

impl Element for LocalStaticThreadSched {}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, errors};

    #[test]
    fn elements_and_compounds_are_bound() {
        let config = "elementclass Source { s :: InfiniteSource(LIMIT 3) -> q :: Queue -> output; }
            A :: Source -> u :: Unqueue -> Discard; b :: InfiniteSource(LIMIT 3) -> Discard;
            StaticThreadSched(A 1, b 1, A/s 0);";
        let lab = Lab::with_workers(config, 2);
        let home = |name: &str| {
            let node = lab.0.router.find(name).unwrap();
            lab.0.router.home(node)
        };
        assert_eq!(["A/s", "A/q", "u", "b"].map(home), [Some(0), Some(1), Some(1), Some(1)]);
        lab.end();
    }

    #[test]
    fn mistakes() {
        let text = errors("a :: Idle; StaticThreadSched(a 1, b 0, a, a x);");
        assert!(
            text.contains("ENTRY: thread missing") && text.contains("ENTRY: thread: invalid number"),
            "{text}"
        );
        let text = errors("a :: Idle; StaticThreadSched(a 1, b 0);");
        assert!(text.contains("thread 1 does not exist") && text.contains("no element named 'b'"), "{text}");
    }
}
