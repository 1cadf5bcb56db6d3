//! What sources and movers have in common: whether they are on, how many packets they have passed and may pass, how
//! many at a time; and the handlers for all that.

use graph::{Class, Handlers, value};
use packet::Batch;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// See the module. Handlers change it while packets flow.
#[derive(Debug)]
pub struct Quota {
    limit: AtomicI64,
    count: AtomicU64,
    active: AtomicBool,
    burst: AtomicUsize,
}

impl Quota {
    /// At most `limit` packets, without limit if that is negative; `burst` at a time, within what a batch holds.
    pub fn new(limit: i64, burst: usize, active: bool) -> Quota {
        Quota {
            limit: AtomicI64::new(limit),
            count: AtomicU64::new(0),
            active: AtomicBool::new(active),
            burst: AtomicUsize::new(burst.clamp(1, Batch::MAX)),
        }
    }

    /// How many packets may still pass.
    pub fn left(&self) -> usize {
        match u64::try_from(self.limit.load(Relaxed)) {
            Ok(limit) => usize::try_from(limit.saturating_sub(self.count())).unwrap_or(usize::MAX),
            Err(_) => usize::MAX,
        }
    }

    /// Packets that have passed.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// So many packets have passed.
    pub fn add(&self, packets: usize) {
        self.count.fetch_add(packets as u64, Relaxed);
    }

    /// False while it is switched off.
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Packets at a time.
    pub fn burst(&self) -> usize {
        self.burst.load(Relaxed)
    }
}

/// The handlers `count` and `reset`.
pub fn count_handlers<C: Class>(h: &mut Handlers<C>, quota: fn(&C) -> &Quota) {
    h.read("count", move |c| quota(c).count().to_string());
    h.write("reset", move |c, _, cx| {
        quota(c).count.store(0, Relaxed);
        cx.wake();
        Ok(())
    });
}

/// The handler `active`.
pub fn active_handler<C: Class>(h: &mut Handlers<C>, quota: fn(&C) -> &Quota) {
    h.read("active", move |c| quota(c).is_active().to_string());
    h.write("active", move |c, text, cx| {
        quota(c).active.store(value(text)?, Relaxed);
        cx.wake();
        Ok(())
    });
}

/// The handler `limit`.
pub fn limit_handler<C: Class>(h: &mut Handlers<C>, quota: fn(&C) -> &Quota) {
    h.read("limit", move |c| quota(c).limit.load(Relaxed).to_string());
    h.write("limit", move |c, text, cx| {
        quota(c).limit.store(value(text)?, Relaxed);
        cx.wake();
        Ok(())
    });
}

/// The handler `burst`.
pub fn burst_handler<C: Class>(h: &mut Handlers<C>, quota: fn(&C) -> &Quota) {
    h.read("burst", move |c| quota(c).burst().to_string());
    h.write("burst", move |c, text, _| {
        quota(c).burst.store(value::<usize>(text)?.clamp(1, Batch::MAX), Relaxed);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left() {
        let quota = Quota::new(5, 1000, true);
        assert_eq!((quota.left(), quota.burst()), (5, Batch::MAX));
        quota.add(3);
        assert_eq!((quota.left(), quota.count()), (2, 3));
        quota.add(9);
        assert_eq!((quota.left(), Quota::new(-1, 0, false).left()), (0, usize::MAX));
        assert_eq!(Quota::new(0, 0, false).burst(), 1);
    }
}
