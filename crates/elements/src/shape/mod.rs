//! Elements that decide when and in which order packets move: sources at a rate, shapers, schedulers.

pub mod random;

use graph::AnyClass;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[];
