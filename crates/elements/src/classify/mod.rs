//! Elements that choose a way by what is in a packet or noted on it.

use graph::AnyClass;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[];
