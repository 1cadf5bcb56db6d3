//! What a link has carried: how much of it is spoken for now, and at what rate.

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A leaky bucket: bytes go in as they are sent, and drain at a rate. What it holds is the work that a link of that rate
/// would have before it.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Bytes · 2³².
    level: u64,
    /// Bytes in a nanosecond · 2³².
    drain: u64,
    last: u64,
}

impl Bucket {
    /// An empty bucket that drains `rate` bits per second.
    pub fn new(rate: u64) -> Bucket {
        Bucket { level: 0, drain: drain(rate), last: 0 }
    }

    /// Drains `rate` bits per second from the last [`Bucket::advance`] on.
    pub fn set_rate(&mut self, rate: u64) {
        self.drain = drain(rate);
    }

    /// Lets time pass until `now`, in nanoseconds. Time does not run backwards.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        if now <= self.last {
            return;
        }
        let elapsed = now - self.last;
        self.last = now;
        self.level = self.level.saturating_sub(elapsed.saturating_mul(self.drain));
    }

    /// Puts in what is sent at `now`.
    #[inline]
    pub fn add(&mut self, now: u64, bytes: u32) {
        self.advance(now);
        self.level = self.level.saturating_add(u64::from(bytes) << 32);
    }

    /// Bytes that it holds at `now`.
    #[inline]
    pub fn level(&mut self, now: u64) -> u32 {
        self.advance(now);
        self.last_level()
    }

    /// Bytes that it held when it was last asked, or something was put in.
    #[inline]
    pub fn last_level(&self) -> u32 {
        (self.level >> 32) as u32
    }
}

/// Bits per second as bytes per nanosecond · 2³².
fn drain(rate: u64) -> u64 {
    let drain = (u128::from(rate) << 32) / (8 * u128::from(SECOND));
    u64::try_from(drain).unwrap_or(u64::MAX)
}

/// The rate of a link over the last window or two.
#[derive(Debug, Clone)]
pub struct RateMeter {
    window: u64,
    /// When the present window began.
    since: u64,
    bytes: u64,
    /// Bytes of the window before.
    before: u64,
}

impl RateMeter {
    /// A meter whose windows last `window` nanoseconds, at least 1.
    pub fn new(window: u64) -> RateMeter {
        RateMeter { window: window.max(1), since: 0, bytes: 0, before: 0 }
    }

    /// Counts bytes sent at `now`.
    pub fn add(&mut self, now: u64, bytes: u64) {
        self.advance(now);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Bits per second at `now`: what the present window has, and of the one before the part that is less than a window
    /// ago. A steady rate is met exactly after one window.
    pub fn rate(&mut self, now: u64) -> u64 {
        self.advance(now);
        let gone = now.saturating_sub(self.since);
        let left = u128::from(self.window.saturating_sub(gone));
        let window = u128::from(self.window);
        let bytes = u128::from(self.bytes) + u128::from(self.before) * left / window;
        u64::try_from(bytes * 8 * u128::from(SECOND) / window).unwrap_or(u64::MAX)
    }

    fn advance(&mut self, now: u64) {
        let windows = now.saturating_sub(self.since) / self.window;
        if windows > 0 {
            self.before = if windows == 1 { self.bytes } else { 0 };
            self.bytes = 0;
            self.since += windows * self.window;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_drains_at_its_rate() {
        let mut bucket = Bucket::new(8_000_000_000);
        bucket.add(0, 1000);
        assert_eq!(bucket.level(0), 1000);
        assert_eq!(bucket.level(400), 600);
        assert_eq!(bucket.level(300), 600, "time does not run backwards");
        bucket.set_rate(800_000_000);
        assert_eq!(bucket.level(1400), 500);
        bucket.add(10_000, 100);
        assert_eq!(bucket.level(10_000), 100, "what drained before is not for what comes later");
        assert_eq!(bucket.level(u64::MAX), 0);
        bucket.add(0, u32::MAX);
        bucket.add(0, u32::MAX);
        assert_eq!(bucket.level(0), u32::MAX, "it does not overflow");
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_a_queue_would(events in prop::collection::vec((0u64..5000, 0u32..2000), 1..200)) {
            let rate = 1_000_000_000;
            let mut bucket = Bucket::new(rate);
            let (mut level, mut now) = (0.0f64, 0);
            for (gap, bytes) in events {
                now += gap;
                level = (level - gap as f64 * rate as f64 / 8e9).max(0.0);
                prop_assert!((f64::from(bucket.level(now)) - level).abs() <= 1.0);
                bucket.add(now, bytes);
                level += f64::from(bytes);
            }
        }

        #[test]
        fn a_meter_is_between_what_one_and_two_windows_saw(gaps in prop::collection::vec(0u64..300, 1..200)) {
            let mut meter = RateMeter::new(1000);
            let mut sent: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                meter.add(now, 1);
                sent.push(now);
                let count = |from: u64| sent.iter().filter(|&&at| at >= from).count() as u64;
                let scale = 8 * SECOND / 1000;
                let rate = meter.rate(now);
                let start = now / 1000 * 1000;
                prop_assert!(rate >= count(start) * scale);
                prop_assert!(rate <= count(start.saturating_sub(1000)) * scale);
            }
        }
    }

    #[test]
    fn a_steady_rate_is_met_exactly() {
        let mut meter = RateMeter::new(1000);
        for now in (0..10_000).step_by(10) {
            meter.add(now, 125);
        }
        assert_eq!(meter.rate(10_000), 100_000_000_000);
        assert_eq!(meter.rate(10_500), 50_000_000_000);
        assert_eq!(meter.rate(12_000), 0);
    }
}
