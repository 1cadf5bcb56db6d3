//! Elements that know nothing of packet contents.

mod byte_anno;
mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod paint;
mod strip;
mod tee;
mod unstrip;

use graph::{AnyClass, of};

pub(crate) use byte_anno::ByteAnno;
pub use counter::Counter;
pub use discard::Discard;
pub use idle::Idle;
pub use infinite_source::InfiniteSource;
pub use null::Null;
pub use paint::Paint;
pub use strip::Strip;
pub use tee::Tee;
pub use unstrip::Unstrip;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<Counter>(),
    &of::<Discard>(),
    &of::<Idle>(),
    &of::<InfiniteSource>(),
    &of::<Null>(),
    &of::<Paint>(),
    &of::<Strip>(),
    &of::<Tee>(),
    &of::<Unstrip>(),
];
