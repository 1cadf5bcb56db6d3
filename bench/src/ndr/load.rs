//! What trials at one load say about it, by the rules of MLRsearch (RFC 9971, "Load Classification").

/// What a search looks for: the highest load at which a router loses so much at most, so often at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// A trial that loses more than this part of its packets is a high-loss trial.
    pub loss_ratio: f64,
    /// This part of the time may go to high-loss trials, from 0 to below 1.
    pub exceed_ratio: f64,
    /// A trial of so many seconds is a full-length one.
    pub trial_seconds: f64,
    /// Trials that only guess where the bounds are take so many seconds.
    pub initial_seconds: f64,
    /// Full-length trials of so many seconds together settle what a load is.
    pub sum_seconds: f64,
    /// Bounds that differ by this part of the upper one are close enough.
    pub width: f64,
}

/// The outcome of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// How long it took.
    pub seconds: f64,
    /// Part of the packets that did not arrive, from 0 to 1.
    pub loss_ratio: f64,
}

/// What a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The goal is met at it, whatever further trials show.
    Lower,
    /// The goal is missed at it.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Seconds of a kind of trials.
fn seconds(trials: &[Trial], of: impl Fn(&Trial) -> bool) -> f64 {
    trials.iter().filter(|trial| of(trial)).map(|trial| trial.seconds).sum()
}

impl Goal {
    fn is_high(&self, trial: &Trial) -> bool {
        trial.loss_ratio > self.loss_ratio
    }

    fn is_full(&self, trial: &Trial) -> bool {
        trial.seconds >= self.trial_seconds
    }

    /// Judges a load by all trials that were made at it.
    pub fn classify(&self, trials: &[Trial]) -> Class {
        let full_low = seconds(trials, |t| self.is_full(t) && !self.is_high(t));
        let full_high = seconds(trials, |t| self.is_full(t) && self.is_high(t));
        let short_low = seconds(trials, |t| !self.is_full(t) && !self.is_high(t));
        let short_high = seconds(trials, |t| !self.is_full(t) && self.is_high(t));
        // Short trials without loss excuse as many short ones with loss as the exceed ratio allows. What is left of
        // those counts like full-length trials; short ones without loss never speak for a load.
        let excused = short_low * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let high = full_high + (short_high - excused).max(0.0);
        let whole = (full_low + high).max(self.sum_seconds);
        let allowed = whole * self.exceed_ratio;
        // All time that is still missing could go to low-loss trials, or to high-loss ones.
        let (best, worst) = (high, whole - full_low);
        if worst <= allowed {
            Class::Lower
        } else if best <= allowed {
            Class::Undecided
        } else {
            Class::Upper
        }
    }

    /// The loss ratio that counts at a lower bound: of the time in full-length trials, ordered by loss, the part that
    /// need not be excused loses so much at most.
    pub fn relevant_loss(&self, trials: &[Trial]) -> f64 {
        let mut full: Vec<&Trial> = trials.iter().filter(|t| self.is_full(t)).collect();
        full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let all: f64 = full.iter().map(|t| t.seconds).sum();
        let mut left = all.max(self.sum_seconds) * (1.0 - self.exceed_ratio);
        let mut loss = if full.is_empty() { 1.0 } else { 0.0 };
        for trial in full {
            if left <= 0.0 {
                break;
            }
            loss = trial.loss_ratio;
            left -= trial.seconds;
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOAL: Goal = Goal {
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        trial_seconds: 1.0,
        initial_seconds: 0.1,
        sum_seconds: 5.0,
        width: 0.01,
    };

    fn trial(seconds: f64, loss_ratio: f64) -> Trial {
        Trial { seconds, loss_ratio }
    }

    #[test]
    fn plain_cases() {
        let (low, high) = (trial(1.0, 0.0), trial(1.0, 0.1));
        assert_eq!(GOAL.classify(&[]), Class::Undecided);
        assert_eq!(GOAL.classify(&[low, low]), Class::Undecided);
        assert_eq!(GOAL.classify(&[low, low, low]), Class::Lower, "two of five seconds may still be lost");
        assert_eq!(GOAL.classify(&[high, high]), Class::Undecided);
        assert_eq!(GOAL.classify(&[high, high, high]), Class::Upper);
        assert_eq!(GOAL.classify(&[high, low, high, low, low]), Class::Lower);
        // RFC 2544: one trial, and it must lose nothing.
        let strict = Goal { exceed_ratio: 0.0, trial_seconds: 60.0, sum_seconds: 60.0, ..GOAL };
        assert_eq!(strict.classify(&[trial(60.0, 0.0)]), Class::Lower);
        assert_eq!(strict.classify(&[trial(60.0, 1e-9)]), Class::Upper);
        assert_eq!(
            strict.classify(&[trial(1.0, 0.0)]),
            Class::Undecided,
            "short trials never speak for a load"
        );
        assert_eq!(strict.classify(&[trial(1.0, 0.5)]), Class::Upper, "but against it");
    }

    #[test]
    fn the_loss_that_counts() {
        let trials = [trial(1.0, 0.3), trial(1.0, 0.0), trial(1.0, 0.1), trial(1.0, 0.0), trial(1.0, 0.2)];
        // Half of five seconds, ordered by loss, end in the third trial.
        assert!((GOAL.relevant_loss(&trials) - 0.1).abs() < 1e-12);
        assert!((GOAL.relevant_loss(&[]) - 1.0).abs() < 1e-12);
    }

    fn goals() -> impl Strategy<Value = Goal> {
        (0.0..0.9f64, 1u32..30).prop_map(|(exceed_ratio, sum)| Goal {
            exceed_ratio,
            sum_seconds: sum.into(),
            ..GOAL
        })
    }

    fn trials() -> impl Strategy<Value = Vec<Trial>> {
        let one = prop::bool::ANY.prop_map(|high| trial(1.0, if high { 0.1 } else { 0.0 }));
        prop::collection::vec(one, 0..40)
    }

    proptest! {
        // By definition: decided is what no further full-length trial within the sum can change, and when the sum is
        // full the part of high-loss trials decides.
        #[test]
        fn as_all_ways_to_go_on_would_decide(goal in goals(), trials in trials()) {
            let sum = goal.sum_seconds as usize;
            let settled = |high: usize, total: usize| high as f64 <= total as f64 * goal.exceed_ratio;
            let high = trials.iter().filter(|t| t.loss_ratio > 0.0).count();
            let missing = sum.saturating_sub(trials.len());
            let total = trials.len() + missing;
            let outcomes: Vec<bool> = (0..=missing).map(|more| settled(high + more, total)).collect();
            let want = match (outcomes.iter().all(|met| *met), outcomes.iter().any(|met| *met)) {
                (true, _) => Class::Lower,
                (false, true) => Class::Undecided,
                (false, false) => Class::Upper,
            };
            prop_assert_eq!(goal.classify(&trials), want);
        }

        #[test]
        fn short_trials_never_make_a_lower_bound(goal in goals(), trials in trials(), short in 0usize..20) {
            let mut more = trials.clone();
            more.extend(std::iter::repeat_n(trial(0.1, 0.0), short));
            if goal.classify(&trials) != Class::Lower {
                prop_assert_ne!(goal.classify(&more), Class::Lower);
            }
        }
    }
}
