//! The search for the highest loads at which goals are met: bisection, coarse and with short trials first.
//!
//! The rules of MLRsearch (RFC 9971) say when a load is a bound; which loads are tried, and for how long, is free. All
//! goals judge the same trials: what meets a strict goal meets a laxer one, so the bounds of that are never lower.

use super::load::{Class, Goal, Trial};

/// Makes trials.
pub trait Measurer {
    /// One trial at a load, in packets a second, for so many seconds.
    ///
    /// # Errors
    /// If it cannot be made: the search ends with that.
    fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String>;
}

/// Where a search looks, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lowest load, in packets a second, above 0.
    pub min: f64,
    /// The highest one.
    pub max: f64,
    /// Trials at most, for all goals together.
    pub trials: usize,
}

/// What a search found for one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest load at which the goal is met that lies below `upper`; `None` if there is none.
    pub lower: Option<f64>,
    /// The lowest load at which the goal is missed; `None` if it is met even at the highest load.
    pub upper: Option<f64>,
    /// What got through at the lower bound, in packets a second, by the loss that counts there.
    pub throughput: Option<f64>,
    /// Why the result is an irregular one; `None` if it is regular: both bounds are there, as close as they must be.
    pub irregular: Option<&'static str>,
}

/// What a search found, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of the goals.
    pub found: Vec<Found>,
    /// Trials made, for all goals together.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
}

/// The first phase ends when bounds differ by so many times the width.
const COARSE: f64 = 4.0;

/// Why a search ends early.
enum Stop {
    /// As many trials were made as are allowed.
    OutOfTrials,
    Failed(String),
}

/// Trials by load, in the order of loads.
struct Search<'a> {
    range: Range,
    measurer: &'a mut dyn Measurer,
    loads: Vec<(f64, Vec<Trial>)>,
    trials: usize,
    seconds: f64,
}

/// Searches for all goals. When the trials run out, what was found so far is the result.
///
/// # Errors
/// If a trial cannot be made, or a goal or the range make no sense.
pub fn search(goals: &[Goal], range: Range, measurer: &mut dyn Measurer) -> Result<Outcome, String> {
    for goal in goals {
        check(goal, range)?;
    }
    let mut search = Search { range, measurer, loads: Vec::new(), trials: 0, seconds: 0.0 };
    if let Err(Stop::Failed(why)) = search.all(goals) {
        return Err(why);
    }
    let found = goals.iter().map(|goal| search.found(goal)).collect();
    Ok(Outcome { found, trials: search.trials, seconds: search.seconds })
}

fn check(goal: &Goal, range: Range) -> Result<(), String> {
    let sound = (0.0..1.0).contains(&goal.loss_ratio)
        && (0.0..1.0).contains(&goal.exceed_ratio)
        && goal.trial_seconds > 0.0
        && goal.initial_seconds > 0.0
        && goal.initial_seconds <= goal.trial_seconds
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
    /// The strictest goal first: where it ends is where the next one is likely to.
    fn all(&mut self, goals: &[Goal]) -> Result<(), Stop> {
        let mut order = goals.to_vec();
        order.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let mut before: Option<f64> = None;
        for goal in &order {
            self.pursue(goal, before)?;
            before = self.bounds(goal).1;
        }
        // Trials for one goal may have moved the bounds of another one.
        while let Some(goal) = order.iter().find(|goal| !self.is_done(goal)) {
            self.narrow(goal)?;
        }
        Ok(())
    }

    /// Searches for one goal; `guess` is a load that may be its upper bound.
    fn pursue(&mut self, goal: &Goal, guess: Option<f64>) -> Result<(), Stop> {
        for end in [self.range.max, self.range.min].into_iter().chain(guess) {
            self.settle(goal, end)?;
            if self.is_done(goal) {
                return Ok(());
            }
        }
        // Where the bound seems to be: short trials only guess.
        let (lower, upper) = self.bounds(goal);
        let (mut low, mut high) = (lower.unwrap_or(self.range.min), upper.unwrap_or(self.range.max));
        while high - low > COARSE * goal.width * high {
            let load = middle(low, high);
            let lost = self.try_once(load, goal.initial_seconds)? > goal.loss_ratio;
            if lost { high = load } else { low = load }
        }
        // The guess becomes bounds, or leads to where they are; then they are brought together.
        for guess in [low, high] {
            self.settle(goal, guess)?;
        }
        self.narrow(goal)
    }

    /// Brings the bounds together.
    fn narrow(&mut self, goal: &Goal) -> Result<(), Stop> {
        while !self.is_done(goal) {
            let load = match self.bounds(goal) {
                (Some(low), Some(high)) => middle(low, high),
                (None, _) => self.range.min,
                (_, None) => self.range.max,
            };
            self.settle(goal, load)?;
        }
        Ok(())
    }

    fn at(&mut self, load: f64) -> &mut Vec<Trial> {
        let place = self.loads.partition_point(|(other, _)| *other < load);
        if self.loads.get(place).is_none_or(|(other, _)| *other > load) {
            self.loads.insert(place, (load, Vec::new()));
        }
        &mut self.loads[place].1
    }

    /// One trial; gives its loss ratio.
    fn try_once(&mut self, load: f64, seconds: f64) -> Result<f64, Stop> {
        if self.trials >= self.range.trials {
            return Err(Stop::OutOfTrials);
        }
        let trial = self.measurer.trial(load, seconds).map_err(Stop::Failed)?;
        self.trials += 1;
        self.seconds += trial.seconds;
        self.at(load).push(trial);
        Ok(trial.loss_ratio)
    }

    /// Makes full-length trials until it is clear what a load is.
    fn settle(&mut self, goal: &Goal, load: f64) -> Result<(), Stop> {
        while goal.classify(self.at(load)) == Class::Undecided {
            self.try_once(load, goal.trial_seconds)?;
        }
        Ok(())
    }

    /// The trials at the relevant bounds: at the largest lower bound below the smallest upper bound, and at that.
    fn relevant(&self, goal: &Goal) -> [Option<&(f64, Vec<Trial>)>; 2] {
        let class =
            |wanted: Class| self.loads.iter().filter(move |(_, trials)| goal.classify(trials) == wanted);
        let upper = class(Class::Upper).next();
        let lower = class(Class::Lower).rfind(|(load, _)| upper.is_none_or(|upper| *load < upper.0));
        [lower, upper]
    }

    fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let [lower, upper] = self.relevant(goal).map(|at| at.map(|(load, _)| *load));
        (lower, upper)
    }

    /// Whether no further trial is of use to a goal.
    fn is_done(&self, goal: &Goal) -> bool {
        match self.bounds(goal) {
            (Some(low), Some(high)) => high - low <= goal.width * high,
            (Some(low), None) => low >= self.range.max,
            (None, Some(high)) => high <= self.range.min,
            (None, None) => false,
        }
    }

    fn found(&self, goal: &Goal) -> Found {
        let [lower, upper] = self.relevant(goal);
        let irregular = match (self.is_done(goal), lower, upper) {
            (false, _, _) => Some("the trials ran out"),
            (true, None, _) => Some("missed at the lowest load"),
            (true, _, None) => Some("met at the highest load"),
            (true, Some(_), Some(_)) => None,
        };
        Found {
            lower: lower.map(|(load, _)| *load),
            upper: upper.map(|(load, _)| *load),
            throughput: lower.map(|(load, trials)| load * (1.0 - goal.relevant_loss(trials))),
            irregular,
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
        /// Up to this part of the packets is lost in each trial, whatever the load.
        noise: f64,
        random: Random,
        /// Loads and seconds of all trials.
        made: Vec<(f64, f64)>,
    }

    impl Simulated {
        fn new(capacity: f64, hiccup: f64, seed: u64) -> Simulated {
            Simulated { capacity, hiccup, noise: 0.0, random: Random::new(seed), made: Vec::new() }
        }
    }

    impl Measurer for Simulated {
        fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String> {
            self.made.push((load, seconds));
            let hiccup = self.random.fraction() < self.hiccup;
            let capacity = if hiccup { self.capacity / 2.0 } else { self.capacity };
            let noise = if self.noise > 0.0 { self.random.fraction() * self.noise } else { 0.0 };
            Ok(Trial { seconds, loss_ratio: (1.0 - capacity / load).max(noise) })
        }
    }

    fn goal(loss_ratio: f64) -> Goal {
        Goal {
            loss_ratio,
            exceed_ratio: 0.5,
            trial_seconds: 1.0,
            initial_seconds: 0.1,
            sum_seconds: 5.0,
            width: 0.01,
        }
    }

    const RANGE: Range = Range { min: 1e4, max: 1e7, trials: 2000 };

    fn run(capacity: f64, hiccup: f64, seed: u64, goal: Goal) -> (Found, usize) {
        let outcome = search(&[goal], RANGE, &mut Simulated::new(capacity, hiccup, seed)).unwrap();
        (outcome.found[0].clone(), outcome.trials)
    }

    #[test]
    fn at_the_ends_of_the_range() {
        let (fast, trials) = run(1e9, 0.0, 1, goal(0.0));
        assert_eq!((fast.lower, fast.upper, fast.throughput), (Some(1e7), None, Some(1e7)));
        assert_eq!(
            (fast.irregular, trials),
            (Some("met at the highest load"), 3),
            "three of five seconds are enough"
        );
        let (slow, _) = run(10.0, 0.0, 1, goal(0.0));
        assert_eq!((slow.lower, slow.upper, slow.throughput), (None, Some(1e4), None));
        assert_eq!(slow.irregular, Some("missed at the lowest load"));
    }

    #[test]
    fn without_further_trials_what_was_found_is_irregular() {
        let few = |trials| {
            search(&[goal(0.0), goal(0.1)], Range { trials, ..RANGE }, &mut Simulated::new(1e6, 0.0, 1))
        };
        let outcome = few(6).unwrap();
        assert_eq!((outcome.trials, outcome.found.len()), (6, 2));
        for found in &outcome.found {
            assert_eq!((found.lower, found.upper), (Some(1e4), Some(1e7)));
            assert_eq!((found.throughput, found.irregular), (Some(1e4), Some("the trials ran out")));
        }
        assert_eq!(few(0).unwrap().found[0].lower, None);
    }

    #[test]
    fn goals_share_their_trials() {
        let mut simulated = Simulated::new(1e6, 0.0, 1);
        let alone = search(&[goal(0.0)], RANGE, &mut simulated).unwrap();
        let mut simulated = Simulated::new(1e6, 0.0, 1);
        let both = search(&[goal(0.001), goal(0.0)], RANGE, &mut simulated).unwrap();
        assert_eq!(both.found[1], alone.found[0], "in the order asked for");
        // The upper bound of the strict goal is one of the lax goal, too: nothing is left to try.
        assert_eq!((both.trials, both.found[0].upper), (alone.trials, alone.found[0].upper));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (goal, range) in [
            (Goal { exceed_ratio: 1.0, ..goal(0.0) }, RANGE),
            (Goal { width: 0.0, ..goal(0.0) }, RANGE),
            (Goal { sum_seconds: 0.5, ..goal(0.0) }, RANGE),
            (Goal { initial_seconds: 2.0, ..goal(0.0) }, RANGE),
            (goal(f64::NAN), RANGE),
            (goal(0.0), Range { min: 0.0, max: 1.0, ..RANGE }),
            (goal(0.0), Range { min: 2.0, max: 1.0, ..RANGE }),
        ] {
            assert!(search(&[goal], range, &mut Simulated::new(1.0, 0.0, 1)).is_err(), "{goal:?} {range:?}");
        }
    }

    /// Trials at one load, in a list for one goal: what a search for a single goal does, written down straight.
    fn plain(goal: Goal, simulated: &mut Simulated) {
        let mut all: Vec<(f64, Vec<Trial>)> = Vec::new();
        let mut settle = |load: f64, short: bool, simulated: &mut Simulated| -> Class {
            let place = all.iter().position(|(other, _)| *other == load).unwrap_or(all.len());
            if place == all.len() {
                all.push((load, Vec::new()));
            }
            let trials = &mut all[place].1;
            if short {
                trials.push(simulated.trial(load, goal.initial_seconds).unwrap());
                let lost = trials.last().unwrap().loss_ratio > goal.loss_ratio;
                return if lost { Class::Upper } else { Class::Lower };
            }
            while goal.classify(trials) == Class::Undecided {
                trials.push(simulated.trial(load, goal.trial_seconds).unwrap());
            }
            goal.classify(trials)
        };
        if settle(RANGE.max, false, simulated) == Class::Lower
            || settle(RANGE.min, false, simulated) == Class::Upper
        {
            return;
        }
        let (mut low, mut high) = (RANGE.min, RANGE.max);
        while high - low > COARSE * goal.width * high {
            let load = middle(low, high);
            if settle(load, true, simulated) == Class::Upper { high = load } else { low = load }
        }
        let (mut lowers, mut uppers) = (vec![RANGE.min], vec![RANGE.max]);
        let mut next = vec![high, low];
        loop {
            let high = uppers.iter().copied().fold(f64::INFINITY, f64::min);
            let below = lowers.iter().copied().filter(|load| *load < high);
            let low = below.fold(RANGE.min, f64::max);
            if next.is_empty() && high - low <= goal.width * high {
                return;
            }
            let load = next.pop().unwrap_or_else(|| middle(low, high));
            if settle(load, false, simulated) == Class::Lower { lowers.push(load) } else { uppers.push(load) }
        }
    }

    proptest! {
        #[test]
        fn a_single_goal_makes_the_trials_that_are_written_down(
            seed in 0u64..2000, capacity in 5e3..2e7f64, hiccup in 0.0..0.6f64
        ) {
            let mut simulated = [Simulated::new(capacity, hiccup, seed), Simulated::new(capacity, hiccup, seed)];
            search(&[goal(0.005)], RANGE, &mut simulated[0]).unwrap();
            plain(goal(0.005), &mut simulated[1]);
            prop_assert_eq!(&simulated[0].made, &simulated[1].made);
        }

        #[test]
        fn lower_bounds_never_fall_as_goals_get_laxer(
            seed in 0u64..100_000, capacity in 5e3..2e7f64, hiccup in 0.0..0.6f64, noise in 0.0..0.05f64,
            mut losses in prop::collection::vec(0.0..0.3f64, 1..5), few in 1usize..300,
        ) {
            losses.sort_by(f64::total_cmp);
            let goals: Vec<Goal> = losses.iter().rev().map(|&loss| goal(loss)).collect();
            for trials in [few, 2000] {
                let mut simulated = Simulated { noise, ..Simulated::new(capacity, hiccup, seed) };
                let outcome = search(&goals, Range { trials, ..RANGE }, &mut simulated).unwrap();
                prop_assert_eq!(outcome.trials, simulated.made.len());
                for pair in outcome.found.windows(2) {
                    let upper = |found: &Found| found.upper.unwrap_or(f64::INFINITY);
                    prop_assert!(pair[0].lower.unwrap_or(0.0) >= pair[1].lower.unwrap_or(0.0), "{:?}", pair);
                    prop_assert!(upper(&pair[0]) >= upper(&pair[1]), "{:?}", pair);
                }
                for (goal, found) in goals.iter().zip(&outcome.found) {
                    if found.irregular.is_none() {
                        let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
                        prop_assert!(lower < upper && upper - lower <= goal.width * upper, "{:?}", found);
                    }
                }
            }
        }

        #[test]
        fn the_bounds_hold_what_a_steady_router_forwards(capacity in 2e4..9e6f64, lossy in prop::bool::ANY) {
            let goal = goal(if lossy { 0.005 } else { 0.0 });
            let (found, trials) = run(capacity, 0.0, 1, goal);
            let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
            // The highest load that loses no more than the goal allows.
            let true_bound = capacity / (1.0 - goal.loss_ratio);
            prop_assert!(lower <= true_bound * 1.000_001 && true_bound < upper * 1.000_001, "{:?}", found);
            prop_assert!(upper - lower <= goal.width * upper);
            prop_assert!(found.throughput.unwrap() <= capacity * 1.000_001);
            prop_assert!(found.irregular.is_none() && trials < 100, "{:?}", found);
        }

        #[test]
        fn hiccups_below_the_exceed_ratio_do_not_mislead_far(seed in 0u64..2000, capacity in 2e4..9e6f64) {
            let (found, _) = run(capacity, 0.1, seed, goal(0.0));
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
