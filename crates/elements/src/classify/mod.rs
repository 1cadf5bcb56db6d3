//! Elements that choose a way by what is in a packet or noted on it.

mod byte_pattern;
mod byte_program;
mod check_paint;
mod classifier;

use graph::{AnyClass, of};

pub use check_paint::CheckPaint;
pub use classifier::Classifier;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<CheckPaint>(), &of::<Classifier>()];
