//! Elements that make, pace and choose packets: rated sources, limiters, pull schedulers.

mod bandwidth_rated_unqueue;
mod bandwidth_shaper;
pub mod bucket;
mod fast_udp_source;
mod limiter;
mod prio_sched;
mod punt_limiter;
pub mod random;
mod rated_source;
mod rated_unqueue;
mod round_robin_sched;
mod shaper;
mod source;

use graph::{AnyClass, of};

pub use bandwidth_rated_unqueue::BandwidthRatedUnqueue;
pub use bandwidth_shaper::BandwidthShaper;
pub use fast_udp_source::FastUdpSource;
pub use prio_sched::PrioSched;
pub use punt_limiter::{PuntLimiter, is_urgent};
pub use rated_source::RatedSource;
pub use rated_unqueue::RatedUnqueue;
pub use round_robin_sched::RoundRobinSched;
pub use shaper::Shaper;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<BandwidthRatedUnqueue>(),
    &of::<BandwidthShaper>(),
    &of::<FastUdpSource>(),
    &of::<PrioSched>(),
    &of::<PuntLimiter>(),
    &of::<RatedSource>(),
    &of::<RatedUnqueue>(),
    &of::<RoundRobinSched>(),
    &of::<Shaper>(),
];
