//! `StaticSwitch`: sends all packets to one output.
//!
//! # Arguments
//! - `OUTPUT`: the output; negative = packets are lost.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Losses
//! - `off`: the output is negative.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> s :: StaticSwitch(1);
//! s[0] -> a :: Counter -> Discard;
//! s[1] -> b :: Counter -> Discard;
//! // a.count = 0
//! // b.count = 5
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Loss, Out, Spec};
use packet::Batch;
use std::sync::Arc;

const OFF: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct StaticSwitch {
    output: Option<usize>,
}

/// One worker's part of [`StaticSwitch`].
#[derive(Debug)]
pub struct LocalStaticSwitch {
    output: Option<usize>,
}

impl Class for StaticSwitch {
    const SPEC: Spec = Spec { losses: &["off"], ..Spec::new("StaticSwitch", "1/-", "h/h") };
    type Local = LocalStaticSwitch;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<StaticSwitch, ConfigErrors> {
        let output: i32 = args.required("OUTPUT");
        let output = usize::try_from(output).ok();
        if let Some(output) = output.filter(|o| *o >= cx.outputs) {
            args.error("OUTPUT", format!("there is no output {output}: there are {}", cx.outputs));
        }
        args.finish()?;
        Ok(StaticSwitch { output })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalStaticSwitch {
        LocalStaticSwitch { output: self.output }
    }
}

impl Element for LocalStaticSwitch {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        match self.output {
            Some(output) => out.emit(output, batch),
            None => out.lose_all(batch, OFF),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, errors, through};

    #[test]
    fn one_output_or_none() {
        assert_eq!(through("s :: StaticSwitch(0)", &[Frame::new(&[1])]).0.len(), 1);
        assert_eq!(
            through("s :: StaticSwitch(-1)", &[Frame::new(&[1])]),
            (vec![], vec!["s.off = 1".to_owned()])
        );
        let text = errors("Idle -> StaticSwitch(1) -> Discard;");
        assert!(text.contains("OUTPUT: there is no output 1: there are 1"), "{text}");
    }
}
