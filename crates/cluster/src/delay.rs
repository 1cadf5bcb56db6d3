//! How far apart the delays of paths are.
//!
//! All paths from one node to another start at one clock and end at another. However far the clocks are apart, arrival by
//! the one minus departure by the other, compared between paths, says how the paths differ. Hellos and markers carry the
//! departure. Deadlines of the resequencer and δ of flowlets are made from the spread that comes out.

/// The spread of delays from one node, over a window of time.
#[derive(Debug, Clone)]
pub struct DelaySpread {
    window: u64,
    since: u64,
    present: Option<(i64, i64)>,
    before: Option<(i64, i64)>,
}

impl DelaySpread {
    /// The spread over the last window or two of `window` nanoseconds each.
    pub fn new(window: u64) -> DelaySpread {
        DelaySpread { window: window.max(1), since: 0, present: None, before: None }
    }

    /// Something that left by the peer's clock at `sent` arrived by ours at `now`, on any of the paths from it.
    pub fn note(&mut self, sent: u64, now: u64) {
        self.advance(now);
        let delay = now.wrapping_sub(sent) as i64;
        let (low, high) = self.present.unwrap_or((delay, delay));
        self.present = Some((low.min(delay), high.max(delay)));
    }

    /// Nanoseconds between the shortest and the longest delay that was seen; 0 if none was.
    pub fn spread(&mut self, now: u64) -> u64 {
        self.advance(now);
        let seen = [self.present, self.before].into_iter().flatten();
        let both = seen.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        both.map_or(0, |(low, high)| high.abs_diff(low))
    }

    /// What a deadline or a δ is set to: twice the spread, since what is in the buffers now may be twice what was seen, and
    /// never less than `floor` nanoseconds.
    pub fn deadline(&mut self, now: u64, floor: u64) -> u64 {
        self.spread(now).saturating_mul(2).max(floor)
    }

    fn advance(&mut self, now: u64) {
        let windows = now.saturating_sub(self.since) / self.window;
        if windows > 0 {
            self.before = if windows == 1 { self.present } else { None };
            self.present = None;
            self.since += windows * self.window;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clocks_do_not_matter_and_old_delays_are_forgotten() {
        for offset in [0u64, 1 << 40, u64::MAX - 5000] {
            let mut spread = DelaySpread::new(1000);
            assert_eq!(spread.spread(0), 0);
            spread.note(offset.wrapping_add(100), 150);
            spread.note(offset.wrapping_add(200), 950);
            assert_eq!(spread.spread(960), 700);
            assert_eq!(spread.deadline(960, 50), 1400);
            assert_eq!(spread.deadline(960, 5000), 5000);
            spread.note(offset.wrapping_add(1200), 1300);
            assert_eq!(spread.spread(1999), 700);
            assert_eq!(spread.spread(2000), 0);
        }
    }

    proptest! {
        #[test]
        fn at_least_what_the_last_window_saw(delays in prop::collection::vec((0u64..400, 0u64..5000), 1..100)) {
            let mut meter = DelaySpread::new(1000);
            let mut seen: Vec<(u64, u64)> = Vec::new();
            let mut now = 10_000;
            for (gap, delay) in delays {
                now += gap;
                meter.note(now - delay, now);
                seen.push((now, delay));
                let over = |from: u64| {
                    let last = seen.iter().filter(|&&(at, _)| at + from > now).map(|&(_, delay)| delay);
                    last.clone().max().unwrap() - last.min().unwrap()
                };
                prop_assert!((over(1000)..=over(2000)).contains(&meter.spread(now)));
            }
        }
    }
}
