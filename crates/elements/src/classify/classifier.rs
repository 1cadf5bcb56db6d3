//! `Classifier`: sends packets to the output of the first pattern of bytes that they match.
//!
//! # Arguments
//! One pattern an output. A pattern is `-`, which matches every packet, or clauses separated by spaces, all of which
//! must hold.
//!
//! - `OFFSET/VALUE`: at the offset (decimal) the packet has these bytes (hexadecimal, an even number of digits). `?`
//!   stands for any digit.
//! - `OFFSET/VALUE%MASK`: only the bits that are 1 in the mask count.
//! - `!OFFSET/VALUE`, `!OFFSET/VALUE%MASK`: the packet does not have these bytes there.
//!
//! A packet that ends before the last byte of a value does not have it.
//!
//! # Ports
//! One push input, one push output for each pattern.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `program` | r | the steps by which packets are classified: `OFFSET/VALUE%MASK` of a word of four bytes, where to go if the packet has it, and where else; `[N]` is output N, `[X]` is the loss |
//!
//! # Losses
//! - `no_match`: no pattern matched.
//!
//! # Example
//! ARP requests, ARP replies, IP packets, everything else:
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001 0800 0604 0001>, LIMIT 3)
//!   -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
//! c[0] -> requests :: Counter -> Discard;
//! c[1] -> replies :: Counter -> Discard;
//! c[2] -> ip :: Counter -> Discard;
//! c[3] -> other :: Counter -> Discard;
//! // requests.count = 3
//! // replies.count = 0
//! // ip.count = 0
//! // other.count = 0
//! ```

use super::byte_pattern::Pattern;
use super::byte_program::Program;
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec, Way};
use packet::Batch;
use std::sync::Arc;

const NO_MATCH: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Classifier {
    program: Program,
}

/// One worker's part of [`Classifier`].
#[derive(Debug)]
pub struct LocalClassifier {
    shared: Arc<Classifier>,
}

impl Class for Classifier {
    const SPEC: Spec = Spec { losses: &["no_match"], ..Spec::new("Classifier", "1/-", "h/h") };
    type Local = LocalClassifier;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Classifier, ConfigErrors> {
        let whole = args.span_of("");
        let patterns: Vec<Pattern> = args.rest("PATTERN");
        if patterns.len() != cx.outputs {
            let (given, outputs) = (patterns.len(), cx.outputs);
            args.error_at(
                whole,
                format!("one pattern for each output needed: {given} for {outputs} outputs"),
            );
        }
        args.finish()?;
        let program = Program::new(&patterns);
        for output in (0..patterns.len()).filter(|o| !program.reaches(*o)) {
            args.warn(
                &format!("pattern {output}"),
                "no packet can match it, or all are taken by patterns before it",
            );
        }
        Ok(Classifier { program })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalClassifier {
        LocalClassifier { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<Classifier>) {
        h.read("program", |c| c.program.to_string());
    }
}

impl Element for LocalClassifier {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let program = &self.shared.program;
        out.split(batch, |p| program.classify(p.data()).map_or(Way::Lost(NO_MATCH), Way::Port));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, errors};

    #[test]
    fn packets_go_to_the_first_match_in_order() {
        let mut lab = Lab::new(
            "f :: Feed -> c :: Classifier(0/01, 0/0?, !2/??); c[0] -> a :: Keep; c[1] -> b :: Keep; c[2] -> d :: Keep;",
        );
        for frame in [&[1u8, 9][..], &[2, 2], &[1, 8, 3], &[0x10], &[0x10, 0, 0], &[]] {
            lab.at(0, "f", &Frame::new(frame));
        }
        lab.run();
        assert_eq!(lab.kept_hex("a"), ["0109", "010803"]);
        assert_eq!(lab.kept_hex("b"), ["0202"]);
        assert_eq!(lab.kept_hex("d"), ["10", ""]);
        assert_eq!(lab.losses(), ["c.no_match = 1"]);
        lab.end();
    }

    #[test]
    fn mistakes() {
        let text = errors("Idle -> c :: Classifier(12/08x0, -); c -> Discard;");
        assert!(text.contains("PATTERN: the value has `x`, which is no hexadecimal digit"), "{text}");
        assert!(text.contains("one pattern for each output needed: 2 for 1 outputs"), "{text}");
    }
}
