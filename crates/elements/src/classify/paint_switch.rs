//! `PaintSwitch`: sends packets to the output whose number is their colour.
//!
//! # Arguments
//! - `ANNO`: the annotation byte that holds the colour: an offset or a name. Default `PAINT`.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Losses
//! - `no_output`: there is no output of this number.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> Paint(1) -> s :: PaintSwitch;
//! s[0] -> a :: Counter -> Discard;
//! s[1] -> b :: Counter -> Discard;
//! // a.count = 0
//! // b.count = 5
//! ```

use crate::anno_offset::AnnoOffset;
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, LocalCx, Loss, Out, Spec, Way};
use packet::Batch;
use std::sync::Arc;

const NO_OUTPUT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct PaintSwitch {
    anno: usize,
}

/// One worker's part of [`PaintSwitch`].
#[derive(Debug)]
pub struct LocalPaintSwitch {
    anno: usize,
    outputs: usize,
}

impl Class for PaintSwitch {
    const SPEC: Spec =
        Spec { losses: &["no_output"], annotations: true, ..Spec::new("PaintSwitch", "1/-", "h/h") };
    type Local = LocalPaintSwitch;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<PaintSwitch, ConfigErrors> {
        args.keywords(&["ANNO"]);
        let anno = args.optional("ANNO", AnnoOffset::<1>::PAINT);
        args.finish()?;
        Ok(PaintSwitch { anno: anno.0 })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalPaintSwitch {
        LocalPaintSwitch { anno: self.anno, outputs: cx.outputs }
    }
}

impl Element for LocalPaintSwitch {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        out.split(batch, |p| match usize::from(p.anno_u8(self.anno)) {
            color if color < self.outputs => Way::Port(color),
            _ => Way::Lost(NO_OUTPUT),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab};

    #[test]
    fn the_colour_is_the_output() {
        let mut lab =
            Lab::new("f :: Feed -> s :: PaintSwitch(ANNO PAINT); s[0] -> a :: Keep; s[1] -> b :: Keep;");
        for paint in [1, 0, 2, 1, 255] {
            lab.at(0, "f", &Frame { paint, ..Frame::new(&[paint]) });
        }
        lab.run();
        assert_eq!(
            (lab.kept_hex("a"), lab.kept_hex("b")),
            (vec!["00".into()], vec!["01".into(), "01".into()])
        );
        assert_eq!(lab.losses(), ["s.no_output = 2"]);
        lab.end();
    }
}
