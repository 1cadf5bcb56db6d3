//! Elements that choose a way by what is in a packet or noted on it.

mod byte_pattern;
mod byte_program;
mod classifier;

use graph::{AnyClass, of};

pub use classifier::Classifier;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<Classifier>()];
