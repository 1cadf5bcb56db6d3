//! A token bucket: what rate limiters have in common. Pure arithmetic in whole numbers.

use graph::{Nanos, SECOND};

/// One token in the bucket's own unit, so that a rate in tokens per second times nanoseconds is a level.
const TOKEN: i128 = SECOND as i128;
/// What a bucket holds unless it is said: this time's worth of tokens.
const DEFAULT_TIME: i128 = 20_000_000;
/// A bucket that holds less than two tokens is looked at this much late, as Click's are, or this part of a token's time
/// late if that is less. What comes in meanwhile does not fit: a bucket said to hold one token gives ten elevenths of
/// the rate or more.
const LATE: i128 = 1_000_000;
const LATE_PART: i128 = 10;
/// The same part where the capacity was not said: the rate is to be kept within half a percent.
const LATE_PART_DEFAULT: i128 = 200;

/// How much a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// 20 ms worth of tokens.
    Default,
    /// So many tokens.
    Tokens(u64),
    /// What comes in so many nanoseconds.
    Time(Nanos),
}

/// Tokens come at a rate, up to a capacity; whoever passes something takes tokens. A taker may go into debt, for
/// packets whose length is known only when they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: u64,
    capacity: i128,
    late: i128,
    level: i128,
    filled: Nanos,
}

impl Bucket {
    /// A bucket for `rate` tokens a second, full (but for fractions of a token).
    pub fn new(rate: u64, capacity: Capacity, now: Nanos) -> Bucket {
        let late = lateness(rate, capacity);
        let capacity = level_of(rate, capacity);
        Bucket { rate, capacity, late, level: capacity / TOKEN * TOKEN, filled: now }
    }

    /// Changes the rate; what is in the bucket stays, as far as it fits.
    pub fn set_rate(&mut self, rate: u64, capacity: Capacity, now: Nanos) {
        self.fill(now);
        self.rate = rate;
        self.late = lateness(rate, capacity);
        self.capacity = level_of(rate, capacity);
        self.level = self.level.min(self.capacity);
    }

    /// Tokens a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn fill(&mut self, now: Nanos) {
        let time = i128::from(now.saturating_sub(self.filled));
        self.filled = self.filled.max(now);
        self.level = time.saturating_mul(i128::from(self.rate)).saturating_add(self.level).min(self.capacity);
    }

    /// Whole tokens that may be taken now.
    pub fn available(&mut self, now: Nanos) -> u64 {
        self.fill(now);
        u64::try_from(self.level.max(0) / TOKEN).unwrap_or(u64::MAX)
    }

    /// Takes tokens, into debt if there are fewer.
    pub fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(i128::from(tokens) * TOKEN);
    }

    /// When to look again for a token; never (the end of time) at rate 0.
    pub fn next(&self) -> Nanos {
        let rate = i128::from(self.rate);
        if rate == 0 {
            return Nanos::MAX;
        }
        let missing = (TOKEN - self.level).max(0);
        let wait = (missing + rate - 1) / rate + self.late;
        self.filled.saturating_add(Nanos::try_from(wait).unwrap_or(Nanos::MAX))
    }
}

/// A capacity as a level; at least one token.
fn level_of(rate: u64, capacity: Capacity) -> i128 {
    let rate = i128::from(rate);
    let level = match capacity {
        Capacity::Default => rate * DEFAULT_TIME,
        Capacity::Tokens(n) => i128::from(n) * TOKEN,
        Capacity::Time(t) => rate.saturating_mul(i128::from(t)),
    };
    level.max(TOKEN)
}

/// How much too late to look at the bucket, in nanoseconds.
fn lateness(rate: u64, capacity: Capacity) -> i128 {
    if level_of(rate, capacity) >= 2 * TOKEN {
        return 0;
    }
    let part = if capacity == Capacity::Default { LATE_PART_DEFAULT } else { LATE_PART };
    LATE.min(TOKEN / i128::from(rate.max(1)) / part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tokens passed one by one in `time`, by somebody who always comes when told to.
    fn passed(rate: u64, capacity: Capacity, time: Nanos) -> u64 {
        let mut bucket = Bucket::new(rate, capacity, 0);
        let (mut now, mut count) = (0, 0);
        while now <= time {
            let n = bucket.available(now);
            bucket.take(n);
            count += n;
            now = bucket.next();
        }
        count
    }

    #[test]
    fn what_passes_in_ten_seconds() {
        for (rate, capacity, want) in [
            (2, Capacity::Default, 20),
            (2, Capacity::Tokens(50), 70),
            (2, Capacity::Time(25 * SECOND), 70),
            (100, Capacity::Tokens(1), 910),
            (0, Capacity::Default, 1),
        ] {
            assert_eq!(passed(rate, capacity, 10 * SECOND), want, "{rate} {capacity:?}");
        }
    }

    #[test]
    fn debt_is_paid_before_anything_passes() {
        let mut bucket = Bucket::new(1000, Capacity::Tokens(100), 0);
        bucket.take(1500);
        assert_eq!(bucket.available(SECOND), 0);
        assert_eq!(bucket.available(SECOND + 400_000_000), 0);
        assert_eq!(bucket.available(SECOND + 401_000_000), 1);
        bucket.set_rate(2000, Capacity::Tokens(100), SECOND + 401_000_000);
        assert_eq!((bucket.rate(), bucket.available(SECOND + 402_000_000)), (2000, 3));
    }

    proptest! {
        #[test]
        fn the_rate_is_reached_and_never_exceeded(rate in 100..20_000u64) {
            let count = passed(rate, Capacity::Default, 10 * SECOND);
            let burst = u64::try_from(level_of(rate, Capacity::Default) / TOKEN).unwrap();
            prop_assert!(count <= 10 * rate + burst && 100 * count >= 99 * 10 * rate, "{}", count);
        }

        #[test]
        fn slow_rates_are_reached_too(rate in 1..100u64) {
            let count = passed(rate, Capacity::Default, 100 * SECOND);
            prop_assert!(count <= 100 * rate + 2 && count >= 99 * rate, "{}", count);
        }

        #[test]
        fn no_numbers_overflow(rate: u64, n: u64, time: u64, now: u64) {
            let mut bucket = Bucket::new(rate, Capacity::Time(time), now);
            bucket.take(n);
            bucket.available(now.saturating_add(time));
            bucket.next();
            bucket.set_rate(n, Capacity::Tokens(rate), u64::MAX);
            bucket.available(u64::MAX);
            bucket.next();
        }
    }
}
