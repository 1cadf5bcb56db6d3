//! Elements at which packets enter and leave: devices and capture files.

use graph::AnyClass;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[];
