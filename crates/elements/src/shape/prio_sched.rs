//! `PrioSched`: pulls from its first input; from the next one only if there is nothing in those before.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> a :: Queue -> [0] s :: PrioSched;
//! InfiniteSource(LIMIT 4) -> b :: Queue -> [1] s;
//! s -> d :: Discard;
//! // d.count = 7
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Out, Spec, State, Up};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct PrioSched;

/// One worker's part of [`PrioSched`].
#[derive(Debug)]
pub struct LocalPrioSched {
    inputs: usize,
}

impl Class for PrioSched {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("PrioSched", "-/1", "l/l") };
    type Local = LocalPrioSched;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<PrioSched, ConfigErrors> {
        args.finish()?;
        Ok(PrioSched)
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalPrioSched {
        LocalPrioSched { inputs: cx.inputs }
    }
}

impl Element for LocalPrioSched {
    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        let max = max.min(Batch::MAX);
        let mut batch = Batch::empty();
        for input in 0..self.inputs {
            if batch.len() == max {
                break;
            }
            let mut more = up.pull(input, max - batch.len(), cx, out);
            batch.append(&mut more);
        }
        batch
    }
}
