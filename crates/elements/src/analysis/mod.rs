//! Elements that look at packets and tell: prints, traces, statistics.

mod ip6_line;
mod ip6_print;
mod ip_line;
mod ip_print;
mod lines;
mod print;

pub use ip_print::IPPrint;
pub use ip6_print::IP6Print;
pub use print::Print;

use graph::{AnyClass, of};

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<IP6Print>(), &of::<IPPrint>(), &of::<Print>()];
