//! `Unqueue`: pulls packets as fast as they come and pushes them on.
//!
//! # Arguments
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `LIMIT`: packets to move; -1 = no limit. Default -1.
//! - `ACTIVE`: false lets it rest. Default true.
//!
//! # Ports
//! One pull input, one push output. Sleeps while there is nothing to pull.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets moved |
//! | `reset` | w | start from 0 again |
//! | `active` | rw | see `ACTIVE` |
//! | `limit`, `burst` | rw | see the arguments |
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 20) -> Queue(5) -> u :: Unqueue -> d :: Discard;
//! // u.count = 20
//! // d.count = 20
//! ```

use crate::quota::{Quota, active_handler, burst_handler, count_handlers, limit_handler};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Out, Spec, State, Up};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Unqueue {
    quota: Quota,
}

/// One worker's part of [`Unqueue`].
#[derive(Debug)]
pub struct LocalUnqueue {
    shared: Arc<Unqueue>,
}

impl Class for Unqueue {
    const SPEC: Spec = Spec { state: State::Home, ..Spec::new("Unqueue", "1/1", "l/h") };
    type Local = LocalUnqueue;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Unqueue, ConfigErrors> {
        let limit = args.keyword("LIMIT", -1);
        let active = args.keyword("ACTIVE", true);
        let burst = args.optional("BURST", cx.burst);
        args.finish()?;
        Ok(Unqueue { quota: Quota::new(limit, burst, active) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalUnqueue {
        LocalUnqueue { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<Unqueue>) {
        count_handlers(h, |u| &u.quota);
        active_handler(h, |u| &u.quota);
        limit_handler(h, |u| &u.quota);
        burst_handler(h, |u| &u.quota);
    }
}

impl Element for LocalUnqueue {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let quota = &self.shared.quota;
        let left = quota.left();
        if left == 0 || !quota.is_active() {
            return false;
        }
        let batch = up.pull(0, left.min(quota.burst()), cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        quota.add(batch.len());
        out.emit(0, batch);
        out.wake();
        true
    }
}
