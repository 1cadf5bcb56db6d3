//! Elements at which packets enter and leave: devices and capture files.

mod dpdk_info;
mod facts;
mod force_ip;
mod from_device;
mod from_dpdk_device;
mod from_dump;
mod keywords;
mod rss;
mod rx;
mod steer;
mod to_device;
mod to_dpdk_device;
mod to_dump;
mod tx;

use graph::{AnyClass, of};

pub use dpdk_info::DpdkInfo;
pub use from_device::FromDevice;
pub use from_dpdk_device::FromDpdkDevice;
pub use from_dump::FromDump;
pub use to_device::ToDevice;
pub use to_dpdk_device::ToDpdkDevice;
pub use to_dump::ToDump;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<DpdkInfo>(),
    &of::<FromDevice>(),
    &of::<FromDpdkDevice>(),
    &of::<FromDump>(),
    &of::<ToDevice>(),
    &of::<ToDpdkDevice>(),
    &of::<ToDump>(),
];
