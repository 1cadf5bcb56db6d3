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

use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Out, Spec, State, Up, value,
};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// See the module.
#[derive(Debug)]
pub struct Unqueue {
    burst: AtomicUsize,
    limit: AtomicI64,
    active: AtomicBool,
    count: AtomicU64,
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
        Ok(Unqueue {
            burst: AtomicUsize::new(burst.clamp(1, Batch::MAX)),
            limit: AtomicI64::new(limit),
            active: AtomicBool::new(active),
            count: AtomicU64::new(0),
        })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalUnqueue {
        LocalUnqueue { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<Unqueue>) {
        h.read("count", |u| u.count.load(Relaxed).to_string());
        h.write("reset", |u, _, cx| {
            u.count.store(0, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("active", |u| u.active.load(Relaxed).to_string());
        h.write("active", |u, text, cx| {
            u.active.store(value(text)?, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("limit", |u| u.limit.load(Relaxed).to_string());
        h.write("limit", |u, text, cx| {
            u.limit.store(value(text)?, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("burst", |u| u.burst.load(Relaxed).to_string());
        h.write("burst", |u, text, _| {
            u.burst.store(value::<usize>(text)?.clamp(1, Batch::MAX), Relaxed);
            Ok(())
        });
    }
}

impl Element for LocalUnqueue {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let u = &self.shared;
        let left = match u64::try_from(u.limit.load(Relaxed)) {
            Ok(limit) => usize::try_from(limit.saturating_sub(u.count.load(Relaxed))).unwrap_or(usize::MAX),
            Err(_) => usize::MAX,
        };
        if left == 0 || !u.active.load(Relaxed) {
            return false;
        }
        let batch = up.pull(0, left.min(u.burst.load(Relaxed)), cx, out);
        if batch.is_empty() {
            up.wait(out);
            return false;
        }
        u.count.fetch_add(batch.len() as u64, Relaxed);
        out.emit(0, batch);
        out.wake();
        true
    }
}
