//! Time is an argument: clocks are read in one place and handed down as [`Nanos`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
pub type Nanos = u64;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// Where simulated time begins: second 1,000,000,000, as in Click.
pub const SIMULATED_START: Nanos = 1_000_000_000 * SECOND;

/// The clock of a router.
#[derive(Debug)]
pub enum Clock {
    /// The system's time of day at start, carried on by the monotonic clock: it never jumps.
    Real {
        /// Time of day at `since`.
        start: Nanos,
        /// When that was.
        since: Instant,
    },
    /// Stands still but for one nanosecond a reading; moved on by whoever finds nothing to do.
    Simulated(AtomicU64),
}

impl Clock {
    /// The real clock.
    pub fn real() -> Clock {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
        Clock::Real { start, since: Instant::now() }
    }

    /// A simulated clock that begins at `start`.
    pub fn simulated(start: Nanos) -> Clock {
        Clock::Simulated(AtomicU64::new(start))
    }

    /// Reads the clock.
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Real { start, since } => start.saturating_add(nanos(since.elapsed())),
            Clock::Simulated(t) => t.fetch_add(1, Ordering::Relaxed).saturating_add(1),
        }
    }

    /// True if the clock is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Simulated(_))
    }

    /// Moves a simulated clock on to `to`; a real clock goes by itself.
    pub fn advance(&self, to: Nanos) {
        if let Clock::Simulated(t) = self {
            t.fetch_max(to, Ordering::Relaxed);
        }
    }
}

fn nanos(d: Duration) -> Nanos {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
