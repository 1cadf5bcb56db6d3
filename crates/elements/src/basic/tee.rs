//! `Tee`: sends a copy of each packet to every output.
//!
//! # Arguments
//! - `N`: number of outputs; must be the number of connected ones. Optional.
//!
//! # Ports
//! One push input, one or more push outputs. The last output gets the packet itself, the others copies.
//!
//! # Losses
//! - `no_buffer`: there was no buffer for a copy.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> t :: Tee;
//! t[0] -> a :: Counter -> Discard;
//! t[1] -> b :: Counter -> Discard;
//! // a.count = 5
//! // b.count = 5
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Loss, Out, Spec};
use packet::Batch;
use std::sync::Arc;

const NO_BUFFER: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Tee;

/// One worker's part of [`Tee`].
#[derive(Debug)]
pub struct LocalTee {
    outputs: usize,
}

impl Class for Tee {
    const SPEC: Spec = Spec { losses: &["no_buffer"], ..Spec::new("Tee", "1/1-", "h/h") };
    type Local = LocalTee;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Tee, ConfigErrors> {
        if let Some(n) = args.optional_if_given::<usize>("N")
            && n != cx.outputs
        {
            args.error("N", format!("{n} outputs wanted, but {} connected", cx.outputs));
        }
        args.finish()?;
        Ok(Tee)
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalTee {
        LocalTee { outputs: cx.outputs }
    }
}

impl Element for LocalTee {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        for output in 0..self.outputs - 1 {
            let copies: Batch = batch.iter().filter_map(|p| p.duplicate(cx.pool)).collect();
            out.made(batch.len());
            out.count_loss(NO_BUFFER, batch.len() - copies.len());
            out.emit(output, copies);
        }
        out.emit(self.outputs - 1, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::errors;

    #[test]
    fn the_number_of_outputs_is_that_of_the_connected_ones() {
        assert_eq!(errors("Idle -> Tee(1) -> Discard"), "");
        for n in [0, 2] {
            let error = errors(&format!("Idle -> Tee({n}) -> Discard"));
            assert!(error.contains(&format!("N: {n} outputs wanted, but 1 connected")), "{error}");
        }
    }
}
