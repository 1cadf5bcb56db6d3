//! `RoundRobinSched`: pulls one packet from each of its inputs in turn, passing over those that have none.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> a :: Queue -> [0] s :: RoundRobinSched;
//! InfiniteSource(LIMIT 4) -> b :: Queue -> [1] s;
//! s -> d :: Discard;
//! // d.count = 7
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Out, Spec, State, Up};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct RoundRobinSched;

/// One worker's part of [`RoundRobinSched`].
#[derive(Debug)]
pub struct LocalRoundRobinSched {
    inputs: usize,
    /// The input whose turn it is.
    next: usize,
}

impl Class for RoundRobinSched {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("RoundRobinSched", "-/1", "l/l") };
    type Local = LocalRoundRobinSched;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<RoundRobinSched, ConfigErrors> {
        args.finish()?;
        Ok(RoundRobinSched)
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalRoundRobinSched {
        LocalRoundRobinSched { inputs: cx.inputs, next: 0 }
    }
}

impl Element for LocalRoundRobinSched {
    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        let max = max.min(Batch::MAX);
        let mut batch = Batch::empty();
        let mut empty = 0;
        while batch.len() < max && empty < self.inputs {
            let mut one = up.pull(self.next, 1, cx, out);
            empty = if one.is_empty() { empty + 1 } else { 0 };
            batch.append(&mut one);
            self.next = (self.next + 1) % self.inputs;
        }
        batch
    }
}
