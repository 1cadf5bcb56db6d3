//! Elements that know nothing of packet contents.

mod align;
mod byte_anno;
mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod paint;
mod static_thread_sched;
mod store_data;
mod strip;
mod tee;
mod unstrip;

use graph::{AnyClass, of};

pub use align::Align;
pub(crate) use byte_anno::ByteAnno;
pub use counter::Counter;
pub use discard::Discard;
pub use idle::Idle;
pub use infinite_source::InfiniteSource;
pub use null::Null;
pub use paint::Paint;
pub use static_thread_sched::StaticThreadSched;
pub use store_data::StoreData;
pub use strip::Strip;
pub use tee::Tee;
pub use unstrip::Unstrip;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<Align>(),
    &of::<Counter>(),
    &of::<Discard>(),
    &of::<Idle>(),
    &of::<InfiniteSource>(),
    &of::<Null>(),
    &of::<Paint>(),
    &of::<StaticThreadSched>(),
    &of::<StoreData>(),
    &of::<Strip>(),
    &of::<Tee>(),
    &of::<Unstrip>(),
];
