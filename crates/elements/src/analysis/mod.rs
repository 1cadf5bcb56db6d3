//! Elements that look at packets and tell: prints, traces, statistics.

mod print;

use graph::{AnyClass, of};

pub use print::Print;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<Print>()];
