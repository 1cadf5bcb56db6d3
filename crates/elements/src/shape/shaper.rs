//! `Shaper`: lets packets be pulled through it at a limited rate.
//!
//! A token bucket limits it: tokens, one per packet, come at the rate and are kept up to the bucket's capacity. It is
//! full at first.
//!
//! # Arguments
//! - `RATE`: packets a second.
//! - `BURST_DURATION`: capacity of the bucket as the time in which so many tokens come. Default: 20 ms.
//! - `BURST_SIZE`: capacity in packets instead.
//! - `ACTIVE`: false lets it rest. Default true.
//!
//! # Ports
//! One pull input, one pull output.
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
//! InfiniteSource(LIMIT 20) -> Queue(50) -> s :: Shaper(5) -> d :: Discard;
//! // s.count = 20
//! // d.count = 20
//! ```

use super::limiter::{Limit, Limiter, RatedPull, Unit, limit_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Shaper(Arc<Limit>);

impl AsRef<Limit> for Shaper {
    fn as_ref(&self) -> &Limit {
        &self.0
    }
}

impl Class for Shaper {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("Shaper", "1/1", "l/l") };
    type Local = RatedPull;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Shaper, ConfigErrors> {
        let limit = Limit::configure(Unit::Packets, args, cx.burst);
        args.finish()?;
        Ok(Shaper(limit))
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> RatedPull {
        RatedPull(Limiter::new(&self.0))
    }

    fn handlers(h: &mut Handlers<Shaper>) {
        limit_handlers(h);
    }
}
