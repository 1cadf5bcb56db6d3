//! The search for the highest load at which a goal is met: bisection, coarse and with short trials first.
//!
//! The rules of MLRsearch (RFC 9971) say when a load is a bound; which loads are tried, and for how long, is free.

use super::load::{Class, Goal, Trial};

/// Makes trials.
pub trait Measurer {
    /// One trial at a load, in packets a second, for so many seconds.
    ///
    /// # Errors
    /// If it cannot be made: the search ends with that.
    fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String>;
}

/// Where a search looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lowest load, in packets a second, above 0.
    pub min: f64,
    /// The highest one.
    pub max: f64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest load at which the goal is met that lies below `upper`; `None` if there is none.
    pub lower: Option<f64>,
    /// The lowest load at which the goal is missed; `None` if it is met even at the highest load.
    pub upper: Option<f64>,
    /// What got through at the lower bound, in packets a second, by the loss that counts there.
    pub throughput: Option<f64>,
    /// Trials made.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
}

/// Trials before a search gives up on a router that answers differently every time.
const MOST_TRIALS: usize = 2000;
/// Short trials in the first phase are this part of a full-length one.
const SHORT: f64 = 0.1;
/// The first phase ends when bounds differ by so many times the width.
const COARSE: f64 = 4.0;

/// Trials by load, in the order of loads.
struct Search<'a> {
    goal: Goal,
    measurer: &'a mut dyn Measurer,
    loads: Vec<(f64, Vec<Trial>)>,
    trials: usize,
    seconds: f64,
}

/// Searches.
///
/// # Errors
/// If a trial cannot be made, or the goal or the range make no sense, or too many trials were needed.
pub fn search(goal: Goal, range: Range, measurer: &mut dyn Measurer) -> Result<Found, String> {
    check(&goal, range)?;
    let mut search = Search { goal, measurer, loads: Vec::new(), trials: 0, seconds: 0.0 };
    if search.settle(range.max)? == Class::Lower || search.settle(range.min)? == Class::Upper {
        return Ok(search.found());
    }
    // Where the bound seems to be: short trials only guess.
    let (mut low, mut high) = (range.min, range.max);
    while high - low > COARSE * goal.width * high {
        let load = middle(low, high);
        search.try_once(load, goal.trial_seconds * SHORT)?;
        let lost = search.at(load).last().is_some_and(|trial| trial.loss_ratio > goal.loss_ratio);
        if lost { high = load } else { low = load }
    }
    // The guess becomes bounds, or leads to where they are; then they are brought together.
    for guess in [low, high] {
        search.settle(guess)?;
    }
    loop {
        let found = search.found();
        let (low, high) = (found.lower.unwrap_or(range.min), found.upper.unwrap_or(range.max));
        if high - low <= goal.width * high {
            return Ok(found);
        }
        search.settle(middle(low, high))?;
    }
}

fn check(goal: &Goal, range: Range) -> Result<(), String> {
    let sound = (0.0..1.0).contains(&goal.loss_ratio)
        && (0.0..1.0).contains(&goal.exceed_ratio)
        && goal.trial_seconds > 0.0
        && goal.sum_seconds >= goal.trial_seconds
        && goal.width >= 1e-6
        && goal.width < 1.0
        && range.min > 0.0
        && range.min <= range.max
        && range.max.is_finite()
        && goal.sum_seconds.is_finite();
    if sound { Ok(()) } else { Err(format!("a search for {goal:?} in {range:?} makes no sense")) }
}

/// Between two loads, on a scale of ratios.
fn middle(low: f64, high: f64) -> f64 {
    (low * high).sqrt()
}

impl Search<'_> {
    fn at(&mut self, load: f64) -> &mut Vec<Trial> {
        let place = self.loads.partition_point(|(other, _)| *other < load);
        if self.loads.get(place).is_none_or(|(other, _)| *other > load) {
            self.loads.insert(place, (load, Vec::new()));
        }
        &mut self.loads[place].1
    }

    fn try_once(&mut self, load: f64, seconds: f64) -> Result<(), String> {
        if self.trials == MOST_TRIALS {
            return Err(format!("no result after {MOST_TRIALS} trials"));
        }
        let trial = self.measurer.trial(load, seconds)?;
        self.trials += 1;
        self.seconds += trial.seconds;
        self.at(load).push(trial);
        Ok(())
    }

    /// Makes full-length trials until it is clear what a load is.
    fn settle(&mut self, load: f64) -> Result<Class, String> {
        loop {
            let goal = self.goal;
            let class = goal.classify(self.at(load));
            if class != Class::Undecided {
                return Ok(class);
            }
            self.try_once(load, goal.trial_seconds)?;
        }
    }

    /// The relevant bounds: the smallest upper bound, and the largest lower bound below that.
    fn found(&self) -> Found {
        let class =
            |wanted: Class| self.loads.iter().filter(move |(_, trials)| self.goal.classify(trials) == wanted);
        let upper = class(Class::Upper).map(|(load, _)| *load).next();
        let below = class(Class::Lower).rfind(|(load, _)| upper.is_none_or(|upper| *load < upper));
        Found {
            lower: below.map(|(load, _)| *load),
            upper,
            throughput: below.map(|(load, trials)| load * (1.0 - self.goal.relevant_loss(trials))),
            trials: self.trials,
            seconds: self.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fib::Random;
    use proptest::prelude::*;

    /// A router that forwards `capacity` packets a second, and now and then fewer.
    struct Simulated {
        capacity: f64,
        /// Likelihood of a trial in which it forwards half of that.
        hiccup: f64,
        random: Random,
    }

    impl Measurer for Simulated {
        fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String> {
            let hiccup = self.random.fraction() < self.hiccup;
            let capacity = if hiccup { self.capacity / 2.0 } else { self.capacity };
            Ok(Trial { seconds, loss_ratio: (1.0 - capacity / load).max(0.0) })
        }
    }

    fn goal(loss_ratio: f64) -> Goal {
        Goal { loss_ratio, exceed_ratio: 0.5, trial_seconds: 1.0, sum_seconds: 5.0, width: 0.01 }
    }

    const RANGE: Range = Range { min: 1e4, max: 1e7 };

    fn run(capacity: f64, hiccup: f64, seed: u64, goal: Goal) -> Result<Found, String> {
        search(goal, RANGE, &mut Simulated { capacity, hiccup, random: Random::new(seed) })
    }

    #[test]
    fn at_the_ends_of_the_range() {
        let fast = run(1e9, 0.0, 1, goal(0.0)).unwrap();
        assert_eq!((fast.lower, fast.upper, fast.throughput), (Some(1e7), None, Some(1e7)));
        assert_eq!(fast.trials, 3, "three of five seconds are enough");
        let slow = run(10.0, 0.0, 1, goal(0.0)).unwrap();
        assert_eq!((slow.lower, slow.upper, slow.throughput), (None, Some(1e4), None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let simulated = || Simulated { capacity: 1.0, hiccup: 0.0, random: Random::new(1) };
        for (goal, range) in [
            (Goal { exceed_ratio: 1.0, ..goal(0.0) }, RANGE),
            (Goal { width: 0.0, ..goal(0.0) }, RANGE),
            (Goal { sum_seconds: 0.5, ..goal(0.0) }, RANGE),
            (goal(f64::NAN), RANGE),
            (goal(0.0), Range { min: 0.0, max: 1.0 }),
            (goal(0.0), Range { min: 2.0, max: 1.0 }),
        ] {
            assert!(search(goal, range, &mut simulated()).is_err(), "{goal:?} {range:?}");
        }
    }

    proptest! {
        #[test]
        fn the_bounds_hold_what_a_steady_router_forwards(capacity in 2e4..9e6f64, lossy in prop::bool::ANY) {
            let goal = goal(if lossy { 0.005 } else { 0.0 });
            let found = run(capacity, 0.0, 1, goal).unwrap();
            let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
            // The highest load that loses no more than the goal allows.
            let true_bound = capacity / (1.0 - goal.loss_ratio);
            prop_assert!(lower <= true_bound * 1.000_001 && true_bound < upper * 1.000_001, "{:?}", found);
            prop_assert!(upper - lower <= goal.width * upper);
            prop_assert!(found.throughput.unwrap() <= capacity * 1.000_001);
            prop_assert!(found.trials < 100, "{:?}", found);
        }

        #[test]
        fn hiccups_below_the_exceed_ratio_do_not_mislead_far(seed in 0u64..2000, capacity in 2e4..9e6f64) {
            let found = run(capacity, 0.1, seed, goal(0.0)).unwrap();
            let (lower, upper) = (found.lower.unwrap_or(RANGE.min), found.upper.unwrap());
            // An upper bound above the capacity is one by right; a false one needs three hiccups in five trials.
            prop_assert!(lower <= capacity && lower < upper, "{:?}", found);
            prop_assert!(found.lower.is_none() || upper - lower <= 0.01 * upper);
        }

        #[test]
        fn the_same_seed_gives_the_same_result(seed in 0u64..1000) {
            prop_assert_eq!(run(3e6, 0.3, seed, goal(0.0)), run(3e6, 0.3, seed, goal(0.0)));
        }
    }
}
