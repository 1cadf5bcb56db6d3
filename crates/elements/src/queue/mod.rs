//! Elements that store packets, and elements that move them on from where they are stored.

mod fifo;
mod store;
mod unqueue;

use graph::{AnyClass, of};

pub use fifo::Queue;
pub use unqueue::Unqueue;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<Queue>(), &of::<Unqueue>()];
