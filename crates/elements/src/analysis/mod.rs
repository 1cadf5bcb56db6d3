//! Elements that look at packets and tell: prints, traces, statistics.

mod ip_line;
mod ip_print;
mod print;

pub use ip_print::IPPrint;
pub use print::Print;

use graph::{AnyClass, of};

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<IPPrint>(), &of::<Print>()];
