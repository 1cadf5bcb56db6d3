//! Elements that know nothing of packet contents.

mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod tee;

use graph::{AnyClass, of};

pub use counter::Counter;
pub use discard::Discard;
pub use idle::Idle;
pub use infinite_source::InfiniteSource;
pub use null::Null;
pub use tee::Tee;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<Counter>(),
    &of::<Discard>(),
    &of::<Idle>(),
    &of::<InfiniteSource>(),
    &of::<Null>(),
    &of::<Tee>(),
];
