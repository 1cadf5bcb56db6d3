//! How many messages may be sent: in all, and to one address (RFC 1812 §4.3.2.8).
//!
//! A limit is one number, the time at which the messages sent so far would all be due if they came at the rate (the
//! generic cell rate algorithm): workers share it without locks.

use graph::{Args, Nanos, SECOND};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Limits for single addresses; addresses that hash alike share one.
const HOSTS: usize = 4096;

/// A rate in messages a second, and how many may go at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval: Nanos,
    tolerance: Nanos,
}

impl Rate {
    /// `None` for no limit: a rate of 0.
    pub fn new(per_second: u32, burst: u32) -> Option<Rate> {
        let interval = SECOND.checked_div(u64::from(per_second))?;
        Some(Rate { interval, tolerance: interval * u64::from(burst.max(1) - 1) })
    }

    /// Whether one more may go now; counts it if so. `due` belongs to one limit and starts at 0.
    pub fn take(self, due: &AtomicU64, now: Nanos) -> bool {
        let next = |due: Nanos| {
            (due <= now.saturating_add(self.tolerance)).then(|| due.max(now).saturating_add(self.interval))
        };
        due.try_update(Relaxed, Relaxed, next).is_ok()
    }
}

/// The limits of one element.
#[derive(Debug)]
pub struct Limits {
    total: Option<Rate>,
    total_due: AtomicU64,
    host: Option<Rate>,
    /// By hash of the address; none without a limit.
    host_due: Box<[AtomicU64]>,
    /// Nobody can choose addresses that share a limit with somebody else's.
    hasher: RandomState,
}

impl Limits {
    /// Limits for all messages together and for those to one address.
    pub fn new(total: Option<Rate>, host: Option<Rate>) -> Limits {
        let slots = if host.is_some() { HOSTS } else { 0 };
        Limits {
            total,
            total_due: AtomicU64::new(0),
            host,
            host_due: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Reads the limits that the arguments `RATE_LIMIT`, `RATE`, `BURST`, `HOST_RATE` and `HOST_BURST` set: those of Linux,
    /// or none unless any is asked for or `by_default` says so.
    pub fn from_args(args: &mut Args, by_default: bool) -> Limits {
        let mut given = |name: &str| args.keyword_if_given::<u32>(name);
        let [rate, burst, host_rate, host_burst] =
            ["RATE", "BURST", "HOST_RATE", "HOST_BURST"].map(&mut given);
        let any = [rate, burst, host_rate, host_burst].iter().any(Option::is_some);
        if !args.keyword("RATE_LIMIT", any || by_default) {
            return Limits::new(None, None);
        }
        let total = Rate::new(rate.unwrap_or(1000), burst.unwrap_or(50));
        Limits::new(total, Rate::new(host_rate.unwrap_or(1), host_burst.unwrap_or(6)))
    }

    /// Whether a message may go to this address now; counts it if so. One that the address has had enough of does not
    /// count for all.
    pub fn take(&self, address: impl Hash, now: Nanos) -> bool {
        let of_host = |rate: Rate| {
            let slot = self.hasher.hash_one(&address) % HOSTS as u64;
            self.host_due.get(slot as usize).is_none_or(|due| rate.take(due, now))
        };
        self.host.is_none_or(of_host) && self.total.is_none_or(|rate| rate.take(&self.total_due, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_many_as_the_burst_then_at_the_rate() {
        let limits = Limits::new(None, Rate::new(1, 6));
        let start = 1_000 * SECOND;
        let sent = |address, at| (0..100).filter(|_| limits.take(address, at)).count();
        assert_eq!([sent(1, start), sent(1, start + SECOND - 1), sent(1, start + SECOND)], [6, 0, 1]);
        // Two seconds make up for two, an hour for no more than the burst.
        assert_eq!([sent(1, start + 3 * SECOND), sent(1, start + 3600 * SECOND)], [2, 6]);
        // Unless two addresses share a limit, which is a matter of luck, each has its own.
        let fresh = (2..52).filter(|address| sent(*address, start) == 6).count();
        assert!(fresh > 45, "{fresh}");
    }

    #[test]
    fn all_together_and_none() {
        let limits = Limits::new(Rate::new(1000, 50), Rate::new(1, 1));
        let sent = (0..10_000).filter(|address| limits.take(*address, SECOND)).count();
        assert_eq!(sent, 50);
        // Refused for lack of a turn among all, an address has spent its own all the same.
        assert!((0..10_000).filter(|address| limits.take(*address, 2 * SECOND)).count() <= 50);
        let none = Limits::new(Rate::new(0, 5), Rate::new(0, 5));
        assert!((0..10_000).all(|_| none.take(1, 0)));
    }

    #[test]
    fn workers_share_a_limit() {
        let limits = Limits::new(Rate::new(10, 1000), None);
        let sent = |_| (0..2000).filter(|_| limits.take(7, 5 * SECOND)).count();
        let sent: usize = std::thread::scope(|s| {
            let all: Vec<_> = (0..4).map(|i| s.spawn(move || sent(i))).collect();
            all.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(sent, 1000);
    }

    proptest! {
        /// The same answers as a bucket that is filled at the rate and holds the burst, in units of a rate-th of a
        /// nanosecond so that nothing is rounded.
        #[test]
        fn a_bucket_of_tokens(
            rate in prop::sample::select(vec![1_u32, 2, 8, 1000]),
            burst in 1_u32..20,
            steps in prop::collection::vec(0_u64..2_000_000_000, 1..200),
        ) {
            let limit = Rate::new(rate, burst).unwrap();
            let due = AtomicU64::new(0);
            let full = u128::from(burst) * u128::from(SECOND);
            let (mut tokens, mut now) = (full, 100 * SECOND);
            for step in steps {
                // Many come at once.
                let step = if step % 3 == 0 { step } else { 0 };
                now += step;
                tokens = full.min(tokens + u128::from(step) * u128::from(rate));
                let allowed = tokens >= u128::from(SECOND);
                tokens -= if allowed { u128::from(SECOND) } else { 0 };
                prop_assert_eq!(limit.take(&due, now), allowed);
            }
        }
    }
}
