//! Elements that look at packets and tell: prints, traces, statistics.

mod ip_line;
mod ip_print;

use graph::{AnyClass, of};

pub use ip_print::IPPrint;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<IPPrint>()];
