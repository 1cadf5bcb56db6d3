//! What `Paint`, `CheckPaint` and `PaintTee` have in common: a colour, where it stands on packets, and its handler.

use crate::anno_offset::AnnoOffset;
use graph::{Args, Class, ConfigErrors, Handlers, value};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// See the module. A handler changes it while packets flow.
#[derive(Debug)]
pub struct Color {
    color: AtomicU8,
    anno: usize,
}

impl Color {
    /// Reads `COLOR` and `ANNO`, which must be all that there is.
    pub fn read(args: &mut Args) -> Result<Color, ConfigErrors> {
        args.keywords(&["COLOR", "ANNO"]);
        let color = args.required("COLOR");
        let anno = args.optional("ANNO", AnnoOffset::<1>::PAINT);
        args.finish()?;
        Ok(Color { color: AtomicU8::new(color), anno: anno.0 })
    }

    /// The colour, and the offset of the annotation byte.
    pub fn get(&self) -> (u8, usize) {
        (self.color.load(Relaxed), self.anno)
    }
}

/// The handler `color`.
pub fn color_handler<C: Class>(h: &mut Handlers<C>, color: fn(&C) -> &Color) {
    h.read("color", move |c| color(c).get().0.to_string());
    h.write("color", move |c, text, _| {
        color(c).color.store(value(text)?, Relaxed);
        Ok(())
    });
}
