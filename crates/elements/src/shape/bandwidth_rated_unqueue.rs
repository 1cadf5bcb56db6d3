//! `BandwidthRatedUnqueue`: pulls packets at a limited bandwidth and pushes them on.
//!
//! A token bucket limits it: tokens, one per byte, come at the rate and are kept up to the bucket's capacity. It is
//! full at first.
//! A packet passes when the bucket is not empty, and may take more than is in it; the debt is paid before the next.
//!
//! # Arguments
//! - `RATE`: rate, such as `10Mbps` or `1.5MB/s`; a bare number is bytes a second.
//! - `BURST_DURATION`: capacity of the bucket as the time in which so many tokens come. Default: 20 ms.
//! - `BURST_BYTES`, `BURST_SIZE`: capacity in bytes instead.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `ACTIVE`: false lets it rest. Default true.
//!
//! # Ports
//! One pull input, one push output. Sleeps while there is nothing to pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `rate` | rw | bytes a second |
//! | `count` | r | packets passed |
//! | `reset` | w | `count` starts from 0 again |
//! | `active` | rw | see `ACTIVE` |
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 20) -> Queue(50) -> u :: BandwidthRatedUnqueue(8kbps) -> d :: Discard;
//! // u.rate = 1000
//! // d.count = 20
//! ```

use super::limiter::{Limit, Limiter, RatedMover, Unit, limit_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct BandwidthRatedUnqueue(Arc<Limit>);

impl AsRef<Limit> for BandwidthRatedUnqueue {
    fn as_ref(&self) -> &Limit {
        &self.0
    }
}

impl Class for BandwidthRatedUnqueue {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("BandwidthRatedUnqueue", "1/1", "l/h") };
    type Local = RatedMover;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<BandwidthRatedUnqueue, ConfigErrors> {
        let limit = Limit::configure(Unit::Bytes, args, cx.burst);
        args.finish()?;
        Ok(BandwidthRatedUnqueue(limit))
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> RatedMover {
        RatedMover(Limiter::new(&self.0))
    }

    fn handlers(h: &mut Handlers<BandwidthRatedUnqueue>) {
        limit_handlers(h);
    }
}
