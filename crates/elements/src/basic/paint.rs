//! `Paint`: notes a colour on packets.
//!
//! # Arguments
//! - `COLOR`: a number from 0 to 255.
//! - `ANNO`: the annotation byte to write: an offset or a name. Default `PAINT`.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `color` | rw | see `COLOR` |
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> p :: Paint(3) -> CheckPaint(3) -> c :: Counter -> Discard;
//! // c.count = 5
//! // p.color = 3
//! ```

use crate::color::{Color, color_handler};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Paint {
    color: Color,
}

/// One worker's part of [`Paint`].
#[derive(Debug)]
pub struct LocalPaint {
    shared: Arc<Paint>,
}

impl Class for Paint {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("Paint", "1/1", "a/a") };
    type Local = Agnostic<LocalPaint>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Paint, ConfigErrors> {
        Ok(Paint { color: Color::read(args)? })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalPaint { shared: self.clone() })
    }

    fn handlers(h: &mut Handlers<Paint>) {
        color_handler(h, |c| &c.color);
    }
}

impl Simple for LocalPaint {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        let (color, anno) = self.shared.color.get();
        batch.iter_mut().for_each(|p| p.set_anno_u8(anno, color));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, errors, through};

    #[test]
    fn any_byte_can_be_painted() {
        let (kept, _) = through("Paint(255) -> Paint(COLOR 7, ANNO 3)", &[Frame::new(&[1]).to([1, 2, 3, 4])]);
        assert_eq!((kept[0].paint, kept[0].dst), (255, 0x0102_0307));
    }

    #[test]
    fn the_colour_can_be_changed() {
        let mut lab = Lab::new("f :: Feed -> p :: Paint(1) -> k :: Keep;");
        lab.0.write("p.color", "9").unwrap();
        assert_eq!(lab.0.write("p.color", "256"), Err("out of range, bound 255".to_owned()));
        lab.at(0, "f", &Frame::new(&[1]));
        lab.run();
        assert_eq!(lab.kept("k")[0].paint, 9);
        lab.end();
        assert!(errors("Idle -> Paint(-1) -> Discard;").contains("COLOR: "));
    }
}
