//! `RoundRobinSwitch`: sends packets to its outputs in turn.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> s :: RoundRobinSwitch;
//! s[0] -> a :: Counter -> Discard;
//! s[1] -> b :: Counter -> Discard;
//! // a.count = 3
//! // b.count = 2
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Out, Spec, State, Way};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct RoundRobinSwitch;

/// One worker's part of [`RoundRobinSwitch`].
#[derive(Debug)]
pub struct LocalRoundRobinSwitch {
    next: usize,
    outputs: usize,
}

impl Class for RoundRobinSwitch {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("RoundRobinSwitch", "1/1-", "h/h") };
    type Local = LocalRoundRobinSwitch;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<RoundRobinSwitch, ConfigErrors> {
        args.finish()?;
        Ok(RoundRobinSwitch)
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalRoundRobinSwitch {
        LocalRoundRobinSwitch { next: 0, outputs: cx.outputs }
    }
}

impl Element for LocalRoundRobinSwitch {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        out.split(batch, |_| {
            let output = self.next;
            self.next = if output + 1 < self.outputs { output + 1 } else { 0 };
            Way::Port(output)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab};

    #[test]
    fn outputs_take_turns_across_batches() {
        let mut lab = Lab::new(
            "f :: Feed -> s :: RoundRobinSwitch; s[0] -> a :: Keep; s[1] -> b :: Keep; s[2] -> c :: Keep;",
        );
        for (ms, byte) in [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)] {
            lab.at(ms, "f", &Frame::new(&[byte]));
        }
        lab.run();
        assert_eq!(["a", "b", "c"].map(|k| lab.kept_hex(k).join(" ")), ["00 03", "01 04", "02"]);
        lab.end();
    }
}
