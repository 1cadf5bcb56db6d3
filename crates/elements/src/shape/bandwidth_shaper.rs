//! `BandwidthShaper`: lets packets be pulled through it at a limited bandwidth.
//!
//! A token bucket limits it: tokens, one per byte, come at the rate and are kept up to the bucket's capacity. It is
//! full at first.
//! A packet passes when the bucket is not empty, and may take more than is in it; the debt is paid before the next.
//!
//! # Arguments
//! - `RATE`: rate, such as `10Mbps` or `1.5MB/s`; a bare number is bytes a second.
//! - `BURST_DURATION`: capacity of the bucket as the time in which so many tokens come. Default: 20 ms.
//! - `BURST_BYTES`, `BURST_SIZE`: capacity in bytes instead.
//! - `ACTIVE`: false lets it rest. Default true.
//!
//! # Ports
//! One pull input, one pull output.
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
//! InfiniteSource(LIMIT 20) -> Queue(50) -> s :: BandwidthShaper(1kBps) -> d :: Discard;
//! // s.rate = 1000
//! // d.count = 20
//! ```

use super::limiter::{Limit, Limiter, RatedPull, Unit, limit_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct BandwidthShaper(Arc<Limit>);

impl AsRef<Limit> for BandwidthShaper {
    fn as_ref(&self) -> &Limit {
        &self.0
    }
}

impl Class for BandwidthShaper {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("BandwidthShaper", "1/1", "l/l") };
    type Local = RatedPull;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<BandwidthShaper, ConfigErrors> {
        let limit = Limit::configure(Unit::Bytes, args, cx.burst);
        args.finish()?;
        Ok(BandwidthShaper(limit))
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> RatedPull {
        RatedPull(Limiter::new(&self.0))
    }

    fn handlers(h: &mut Handlers<BandwidthShaper>) {
        limit_handlers(h);
    }
}
