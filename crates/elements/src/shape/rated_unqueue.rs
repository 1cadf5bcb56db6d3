//! `RatedUnqueue`: pulls packets at a limited rate and pushes them on.
//!
//! A token bucket limits it: tokens, one per packet, come at the rate and are kept up to the bucket's capacity. It is
//! full at first.
//!
//! # Arguments
//! - `RATE`: packets a second.
//! - `BURST_DURATION`: capacity of the bucket as the time in which so many tokens come. Default: 20 ms.
//! - `BURST_SIZE`: capacity in packets instead.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `ACTIVE`: false lets it rest. Default true.
//!
//! # Ports
//! One pull input, one push output. Sleeps while there is nothing to pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `rate` | rw | packets a second |
//! | `count` | r | packets passed |
//! | `reset` | w | `count` starts from 0 again |
//! | `active` | rw | see `ACTIVE` |
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 20) -> Queue(50) -> u :: RatedUnqueue(5) -> d :: Discard;
//! // u.count = 20
//! // d.count = 20
//! ```

use super::limiter::{Limit, Limiter, RatedMover, Unit, limit_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct RatedUnqueue(Arc<Limit>);

impl AsRef<Limit> for RatedUnqueue {
    fn as_ref(&self) -> &Limit {
        &self.0
    }
}

impl Class for RatedUnqueue {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("RatedUnqueue", "1/1", "l/h") };
    type Local = RatedMover;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<RatedUnqueue, ConfigErrors> {
        let limit = Limit::configure(Unit::Packets, args, cx.burst);
        args.finish()?;
        Ok(RatedUnqueue(limit))
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> RatedMover {
        RatedMover(Limiter::new(&self.0))
    }

    fn handlers(h: &mut Handlers<RatedUnqueue>) {
        limit_handlers(h);
    }
}
