//! Elements of the link layer: Ethernet and ARP.

use graph::AnyClass;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[];
