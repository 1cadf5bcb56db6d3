//! `Idle`: never sends anything; throws away what it gets.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! Any number of inputs and outputs, push or pull. Use it for ports that must be connected but are not needed.
//!
//! # Losses
//! - `idle`: it came in here.
//!
//! # Example
//! ```click
//! Idle -> c :: Counter -> Discard;
//! InfiniteSource(LIMIT 2) -> Idle;
//! // c.count = 0
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Loss, Notifier, Out, Spec};
use packet::Batch;
use std::sync::Arc;

const IDLE: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Idle {
    /// For ever empty: tasks that pull from here sleep.
    empty: Arc<Notifier>,
}

/// One worker's part of [`Idle`].
#[derive(Debug)]
pub struct LocalIdle;

impl Class for Idle {
    const SPEC: Spec = Spec { flow: "x/y", losses: &["idle"], ..Spec::new("Idle", "-/-", "a/a") };
    type Local = LocalIdle;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Idle, ConfigErrors> {
        args.finish()?;
        Ok(Idle { empty: Arc::new(Notifier::without_full(0)) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalIdle {
        LocalIdle
    }

    fn notifier(&self) -> Option<&Arc<Notifier>> {
        Some(&self.empty)
    }
}

impl Element for LocalIdle {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        out.lose_all(batch, IDLE);
    }
}
