//! Elements that choose a way by what is in a packet or noted on it.

mod byte_pattern;
mod byte_program;
mod classifier;
pub mod filter;
mod ip_classifier;
mod ip_filter;

use graph::{AnyClass, of};

pub use classifier::Classifier;
pub use ip_classifier::IpClassifier;
pub use ip_filter::IpFilter;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] =
    &[&of::<Classifier>(), &of::<IpClassifier>(), &of::<IpFilter>()];
