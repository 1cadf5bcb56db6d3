//! `CheckPaint`: passes packets of one colour.
//!
//! # Arguments
//! - `COLOR`: the colour, from 0 to 255.
//! - `ANNO`: the annotation byte that holds it: an offset or a name. Default `PAINT`.
//!
//! # Ports
//! One input, one output; push or pull. Packets of another colour leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `color` | rw | see `COLOR` |
//!
//! # Losses
//! - `other_color`: the packet has another colour.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> Paint(3) -> check :: CheckPaint(3) -> a :: Counter -> Discard;
//! InfiniteSource(LIMIT 7) -> Paint(2) -> [0] check;
//! check[1] -> b :: Counter -> Discard;
//! // a.count = 5
//! // b.count = 7
//! ```

use crate::color::{Color, color_handler};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

const OTHER_COLOR: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct CheckPaint {
    color: Color,
}

/// One worker's part of [`CheckPaint`].
#[derive(Debug)]
pub struct LocalCheckPaint {
    shared: Arc<CheckPaint>,
}

impl Class for CheckPaint {
    const SPEC: Spec =
        Spec { losses: &["other_color"], annotations: true, ..Spec::new("CheckPaint", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalCheckPaint>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<CheckPaint, ConfigErrors> {
        Ok(CheckPaint { color: Color::read(args)? })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalCheckPaint { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<CheckPaint>) {
        color_handler(h, |c| &c.color);
    }
}

impl Simple for LocalCheckPaint {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let (color, anno) = self.shared.color.get();
        batch.retain(|p| p.anno_u8(anno) == color, |p| out.reject(1, p, OTHER_COLOR));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, through};

    #[test]
    fn other_colours_are_lost_if_nobody_takes_them() {
        let frames = [1, 2, 3, 2].map(|paint| Frame { paint, ..Frame::new(&[paint]) });
        let (kept, losses) = through("c :: CheckPaint(2)", &frames);
        assert_eq!(kept.iter().map(|f| f.paint).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(losses, ["c.other_color = 2"]);
        let (kept, _) = through("CheckPaint(9, ANNO 0)", &[Frame::new(&[]).to([9, 0, 0, 0])]);
        assert_eq!(kept.len(), 1);
    }
}
