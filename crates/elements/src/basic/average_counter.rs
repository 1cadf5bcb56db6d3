//! `AverageCounter`: counts packets and bytes, and says how many came in a second.
//!
//! # Arguments
//! - `IGNORE`: packets of so many seconds after the first one are not counted. Default 0.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets so far |
//! | `byte_count` | r | bytes so far |
//! | `rate` | r | packets a second, from the first to the last packet; 0 before there are two times |
//! | `byte_rate` | r | bytes a second, likewise |
//! | `reset`, `reset_counts` | w | all start again |
//!
//! # Example
//! ```click
//! // A packet every 10 ms: 51 of them in half a second.
//! RatedSource(RATE 100, LIMIT 51) -> c :: AverageCounter -> Discard;
//! // c.count = 51
//! ```

use epoch::{PerWorker, Tally};
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Nanos, Out, SECOND, Simple, Spec,
};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct AverageCounter {
    ignore: Nanos,
    tallies: PerWorker<Tally>,
    spans: PerWorker<Span>,
}

/// When a worker saw its first and its last packet; 0 = never.
#[derive(Debug, Default)]
struct Span {
    first: AtomicU64,
    last: AtomicU64,
}

/// One worker's part of [`AverageCounter`].
#[derive(Debug)]
pub struct LocalAverageCounter {
    shared: Arc<AverageCounter>,
    worker: usize,
}

impl AverageCounter {
    /// Packets or bytes a second.
    fn rate(&self, value: fn(&Tally) -> u64) -> f64 {
        let first = self.spans.iter().map(|span| span.first.load(Relaxed)).filter(|time| *time > 0).min();
        let last = self.spans.iter().map(|span| span.last.load(Relaxed)).max().unwrap_or(0);
        let start = first.unwrap_or(last).saturating_add(self.ignore);
        match last.saturating_sub(start) {
            0 => 0.0,
            time => self.tallies.sum(value) as f64 * SECOND as f64 / time as f64,
        }
    }

    fn reset(&self) {
        self.tallies.rebase();
        for span in self.spans.iter() {
            span.first.store(0, Relaxed);
            span.last.store(0, Relaxed);
        }
    }
}

impl Class for AverageCounter {
    const SPEC: Spec = Spec::new("AverageCounter", "1/1", "a/a");
    type Local = Agnostic<LocalAverageCounter>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<AverageCounter, ConfigErrors> {
        args.keywords(&["IGNORE"]);
        let ignore: Duration = args.optional("IGNORE", Duration::ZERO);
        args.finish()?;
        Ok(AverageCounter {
            ignore: Nanos::try_from(ignore.as_nanos()).unwrap_or(Nanos::MAX),
            tallies: PerWorker::new(cx.workers),
            spans: PerWorker::new(cx.workers),
        })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalAverageCounter { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<AverageCounter>) {
        h.read("count", |c| c.tallies.sum(Tally::packets).to_string());
        h.read("byte_count", |c| c.tallies.sum(Tally::bytes).to_string());
        h.read("rate", |c| format!("{:.3}", c.rate(Tally::packets)));
        h.read("byte_rate", |c| format!("{:.3}", c.rate(Tally::bytes)));
        for name in ["reset_counts", "reset"] {
            h.write(name, |c, _, _| {
                c.reset();
                Ok(())
            });
        }
    }
}

impl Simple for LocalAverageCounter {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, _: &mut Out<'_>) {
        if batch.is_empty() {
            return;
        }
        let span = &self.shared.spans[self.worker];
        if span.first.load(Relaxed) == 0 {
            span.first.store(cx.now, Relaxed);
        }
        if cx.now.saturating_sub(span.first.load(Relaxed)) >= self.shared.ignore {
            span.last.store(cx.now, Relaxed);
            self.shared.tallies[self.worker].add(batch.len() as u64, batch.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};

    fn read(text: &str, handlers: &[&str]) -> Vec<String> {
        let mut bench = Bench::new(text, &Setup::default()).unwrap();
        bench.run().unwrap();
        let values = handlers.iter().map(|name| bench.read(name)).collect();
        bench.end().unwrap();
        values
    }

    #[test]
    fn rates_are_those_between_first_and_last_packet() {
        let all = ["c.count", "c.byte_count", "c.rate", "c.byte_rate"];
        // 51 packets in 49 steps of 10 ms: a full bucket lets two go at once.
        let text = "RatedSource(DATA \"0123456789\", RATE 100, LIMIT 51) -> c :: AverageCounter -> Discard;";
        assert_eq!(read(text, &all), ["51", "510", "104.082", "1040.816"]);
        // Those of the first 0.2 s do not count: 30 in 0.29 s are left.
        let text = "RatedSource(DATA \"0123456789\", RATE 100, LIMIT 51) -> c :: AverageCounter(IGNORE 0.2) -> Discard;";
        assert_eq!(read(text, &all), ["30", "300", "103.448", "1034.483"]);
        // One moment has no duration.
        let text = "InfiniteSource(LIMIT 5, BURST 5) -> c :: AverageCounter -> Discard;";
        assert_eq!(read(text, &all[..1]), ["5"]);
        assert_eq!(read("Idle -> c :: AverageCounter -> Discard;", &["c.rate"]), ["0.000"]);
    }
}
