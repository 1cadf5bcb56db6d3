//! `SetAnnoByte`: sets an annotation byte.
//!
//! # Arguments
//! - `ANNO`: the byte: an offset or a name.
//! - `VALUE`: what it is set to, from 0 to 255.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> SetAnnoByte(PAINT, 7) -> CheckPaint(7) -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use crate::anno_offset::AnnoOffset;
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct SetAnnoByte {
    anno: usize,
    value: u8,
}

/// One worker's part of [`SetAnnoByte`].
#[derive(Debug)]
pub struct LocalSetAnnoByte {
    anno: usize,
    value: u8,
}

impl Class for SetAnnoByte {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("SetAnnoByte", "1/1", "a/a") };
    type Local = Agnostic<LocalSetAnnoByte>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<SetAnnoByte, ConfigErrors> {
        args.keywords(&["ANNO", "VALUE"]);
        let anno: AnnoOffset<1> = args.required("ANNO");
        let value = args.required("VALUE");
        args.finish()?;
        Ok(SetAnnoByte { anno: anno.0, value })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalSetAnnoByte { anno: self.anno, value: self.value })
    }
}

impl Simple for LocalSetAnnoByte {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        batch.iter_mut().for_each(|p| p.set_anno_u8(self.anno, self.value));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, through};

    #[test]
    fn bytes_are_set() {
        let (kept, _) =
            through("SetAnnoByte(1, 255) -> SetAnnoByte(16, 9)", &[Frame::new(&[]).to([1, 2, 3, 4])]);
        assert_eq!((kept[0].dst, kept[0].paint), (0x01ff_0304, 9));
    }
}
