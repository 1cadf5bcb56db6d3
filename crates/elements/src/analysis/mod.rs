//! Elements that look at packets and tell: prints, traces, statistics.

use graph::AnyClass;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[];
