//! `Counter`: counts packets and bytes, and passes them on unchanged.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets so far |
//! | `byte_count` | r | bytes so far |
//! | `reset_counts`, `reset` | w | both start from 0 again |
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "12345678", LIMIT 100) -> c :: Counter -> Discard;
//! // c.count = 100
//! // c.byte_count = 800
//! ```

use epoch::{PerWorker, Tally};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Counter {
    tallies: PerWorker<Tally>,
}

/// One worker's part of [`Counter`].
#[derive(Debug)]
pub struct LocalCounter {
    shared: Arc<Counter>,
    worker: usize,
}

impl Class for Counter {
    const SPEC: Spec = Spec::new("Counter", "1/1", "a/a");
    type Local = Agnostic<LocalCounter>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Counter, ConfigErrors> {
        args.finish()?;
        Ok(Counter { tallies: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalCounter { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<Counter>) {
        h.read("count", |c| c.tallies.sum(Tally::packets).to_string());
        h.read("byte_count", |c| c.tallies.sum(Tally::bytes).to_string());
        for name in ["reset_counts", "reset"] {
            h.write(name, |c, _, _| {
                c.tallies.rebase();
                Ok(())
            });
        }
    }
}

impl Simple for LocalCounter {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        self.shared.tallies[self.worker].add(batch.len() as u64, batch.bytes());
    }
}
