//! Elements that know nothing of packet contents.

mod address_info;
mod align;
mod average_counter;
mod counter;
mod discard;
mod idle;
mod infinite_source;
mod null;
mod paint;
mod schedule_info;
mod set_anno_byte;
mod set_packet_type;
mod set_timestamp;
mod source_data;
mod static_thread_sched;
mod store_data;
mod strip;
mod strip_to_network_header;
mod tee;
mod truncate;
mod unstrip;

use graph::{AnyClass, of};

pub use address_info::AddressInfo;
pub use align::Align;
pub use average_counter::AverageCounter;
pub use counter::Counter;
pub use discard::Discard;
pub use idle::Idle;
pub use infinite_source::InfiniteSource;
pub use null::Null;
pub use paint::Paint;
pub use schedule_info::ScheduleInfo;
pub use set_anno_byte::SetAnnoByte;
pub use set_packet_type::SetPacketType;
pub use set_timestamp::SetTimestamp;
pub(crate) use source_data::{DEFAULT_DATA, with_length};
pub use static_thread_sched::StaticThreadSched;
pub use store_data::StoreData;
pub use strip::Strip;
pub use strip_to_network_header::StripToNetworkHeader;
pub use tee::Tee;
pub use truncate::Truncate;
pub use unstrip::Unstrip;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<AddressInfo>(),
    &of::<Align>(),
    &of::<AverageCounter>(),
    &of::<Counter>(),
    &of::<Discard>(),
    &of::<Idle>(),
    &of::<InfiniteSource>(),
    &of::<Null>(),
    &of::<Paint>(),
    &of::<ScheduleInfo>(),
    &of::<SetAnnoByte>(),
    &of::<SetPacketType>(),
    &of::<SetTimestamp>(),
    &of::<StaticThreadSched>(),
    &of::<StoreData>(),
    &of::<Strip>(),
    &of::<StripToNetworkHeader>(),
    &of::<Tee>(),
    &of::<Truncate>(),
    &of::<Unstrip>(),
];
