//! `PaintTee`: passes packets on, and sends copies of those of one colour another way as well.
//!
//! Routers use it to notice packets that leave by the interface by which they came (ICMP redirect).
//!
//! # Arguments
//! - `COLOR`: the colour, from 0 to 255.
//! - `ANNO`: the annotation byte that holds it: an offset or a name. Default `PAINT`.
//!
//! # Ports
//! One input, one output; push or pull. Push output 1 gets the copies.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `color` | rw | see `COLOR` |
//!
//! # Losses
//! - `no_buffer`: there was no buffer for a copy.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> Paint(2) -> t :: PaintTee(2) -> a :: Counter -> Discard;
//! InfiniteSource(LIMIT 3) -> Paint(1) -> t;
//! t[1] -> b :: Counter -> Discard;
//! // a.count = 8
//! // b.count = 5
//! ```

use crate::color::{Color, color_handler};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

const NO_BUFFER: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct PaintTee {
    color: Color,
}

/// One worker's part of [`PaintTee`].
#[derive(Debug)]
pub struct LocalPaintTee {
    shared: Arc<PaintTee>,
}

impl Class for PaintTee {
    const SPEC: Spec =
        Spec { losses: &["no_buffer"], annotations: true, ..Spec::new("PaintTee", "1/2", "a/ah") };
    type Local = Agnostic<LocalPaintTee>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<PaintTee, ConfigErrors> {
        Ok(PaintTee { color: Color::read(args)? })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalPaintTee { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<PaintTee>) {
        color_handler(h, |c| &c.color);
    }
}

impl Simple for LocalPaintTee {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let (color, anno) = self.shared.color.get();
        let mut copies = Batch::empty();
        for packet in batch.iter().filter(|p| p.anno_u8(anno) == color) {
            out.made(1);
            match packet.duplicate(cx.pool) {
                Some(copy) => copies.push(copy),
                None => out.count_loss(NO_BUFFER, 1),
            }
        }
        out.emit(1, copies);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab};

    #[test]
    fn copies_carry_bytes_and_notes() {
        let mut lab = Lab::new("f :: Feed -> t :: PaintTee(2) -> k :: Keep; t[1] -> o :: Keep;");
        for paint in [1, 2, 3] {
            lab.at(0, "f", &Frame { paint, ..Frame::new(&[paint, 9]).to([1, 2, 3, 4]).network(1) });
        }
        lab.run();
        let (kept, copies) = (lab.kept("k"), lab.kept("o"));
        assert_eq!(kept.iter().map(|f| f.paint).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(copies, [kept[1].clone()]);
        assert_eq!(kept[1].bytes, [2, 9]);
        lab.end();
    }
}
