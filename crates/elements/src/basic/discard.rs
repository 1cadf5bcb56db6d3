//! `Discard`: throws packets away on purpose, and counts them.
//!
//! # Arguments
//! - `BURST`: when it pulls, packets at a time. Default: the router's burst.
//! - `ACTIVE`: when it pulls, false lets it rest. Default true.
//!
//! # Ports
//! One input, push or pull; none out. Connected to a pull output it pulls as fast as packets come.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets so far |
//! | `reset_counts` | w | start from 0 again |
//! | `active` | rw | see `ACTIVE` |
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> d :: Discard;
//! // d.count = 10
//! ```

use epoch::{Count, PerWorker};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Out, Spec, Up, value};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Debug)]
pub struct Discard {
    counts: PerWorker<Count>,
    burst: usize,
    active: AtomicBool,
}

/// One worker's part of [`Discard`].
#[derive(Debug)]
pub struct LocalDiscard {
    shared: Arc<Discard>,
    worker: usize,
    pulls: bool,
}

impl Class for Discard {
    const SPEC: Spec = Spec::new("Discard", "1/0", "a/a");
    type Local = LocalDiscard;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Discard, ConfigErrors> {
        let burst = args.keyword("BURST", cx.burst);
        let active = args.keyword("ACTIVE", true);
        args.finish()?;
        Ok(Discard {
            counts: PerWorker::new(cx.workers),
            burst: burst.clamp(1, Batch::MAX),
            active: AtomicBool::new(active),
        })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalDiscard {
        LocalDiscard { shared: self.clone(), worker: cx.worker, pulls: cx.push_inputs == [false] }
    }

    fn handlers(h: &mut Handlers<Discard>) {
        h.read("count", |d| d.counts.sum(Count::get).to_string());
        h.write("reset_counts", |d, _, _| {
            d.counts.rebase();
            Ok(())
        });
        h.read("active", |d| d.active.load(Ordering::Relaxed).to_string());
        h.write("active", |d, text, cx| {
            d.active.store(value(text)?, Ordering::Relaxed);
            cx.wake();
            Ok(())
        });
    }
}

impl LocalDiscard {
    fn discard(&self, batch: Batch, out: &mut Out<'_>) {
        self.shared.counts[self.worker].add(batch.len() as u64);
        out.consume(batch);
    }
}

impl Element for LocalDiscard {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pulls {
            out.wake();
        }
    }

    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        self.discard(batch, out);
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pulls || !self.shared.active.load(Ordering::Relaxed) {
            return false;
        }
        let batch = up.pull(0, self.shared.burst, cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        self.discard(batch, out);
        out.wake();
        true
    }
}
