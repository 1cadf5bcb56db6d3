//! Throughput and latency (RFC 2544 §26.1 and §26.2) by the rules of MLRsearch (RFC 9971).

mod latency;
mod live;
mod load;
mod search;
mod tap;

use clap::Args;
use latency::Latency;
use live::{Forwarder, Live, Rules};
use load::{Goal, Trial};
use search::{Found, Measurer, Outcome, Range, search};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `ndr`.
#[derive(Debug, Args)]
pub struct NdrArgs {
    /// Who forwards
    #[arg(value_enum, default_value = "routebricks")]
    forwarder: Forwarder,

    /// Loss ratios to search the highest load for, in one search: 0 is the no-drop rate
    #[arg(long, value_name = "RATIO", value_delimiter = ',', default_values_t = [0.0, 0.005])]
    loss: Vec<f64>,

    /// Seconds of a full-length trial; RFC 2544 wants 60
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    trial: f64,

    /// Seconds of the trials that only guess where the bounds are; a tenth of a full-length one if not given
    #[arg(long, value_name = "S")]
    initial: Option<f64>,

    /// Seconds of full-length trials that settle what a load is
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    sum: f64,

    /// Part of them that may lose more; RFC 2544 wants 0
    #[arg(long, value_name = "RATIO", default_value_t = 0.5)]
    exceed: f64,

    /// How close the bounds must come, as a part of the upper one
    #[arg(long, value_name = "RATIO", default_value_t = 0.05)]
    width: f64,

    /// Lowest load, in packets a second
    #[arg(long, value_name = "PPS", default_value_t = 1000.0)]
    min: f64,

    /// Highest load, in packets a second
    #[arg(long, value_name = "PPS", default_value_t = 1_000_000.0)]
    max: f64,

    /// Trials at most; what was found until then is an irregular result
    #[arg(long, value_name = "N", default_value_t = 2000)]
    trials: usize,

    /// Seconds that packets have to arrive after the end of a trial; RFC 2544 wants 2
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = wait)]
    settle: Duration,

    /// Seconds that the router is left alone before a trial; RFC 2544 wants 5
    #[arg(long, value_name = "S", default_value = "0", value_parser = wait)]
    rest: Duration,

    /// A generator that offers more than this part of a load counts as on time
    #[arg(long, value_name = "RATIO", default_value_t = 0.98, value_parser = part)]
    on_time: f64,

    /// Seconds of the trial that measures latency at the throughput found; RFC 2544 wants 120, 0 leaves it out
    #[arg(long, value_name = "S", default_value = "4", value_parser = wait)]
    latency: Duration,

    /// Bytes of each frame, without check sequence; a search for each length
    #[arg(long, visible_alias = "frame", value_name = "BYTES", value_delimiter = ',', default_values_t = [60])]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=1514))]
    frames: Vec<u16>,

    /// The router; $ROUTEBRICKS or target/release/routebricks if not given
    #[arg(long, value_name = "PATH")]
    router: Option<PathBuf>,
}

fn wait(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.0..=3600.0).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "from 0 to 3600".to_owned())
}

fn part(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|part| (0.0..=1.0).contains(part)).ok_or_else(|| "from 0 to 1".to_owned())
}

impl NdrArgs {
    fn goals(&self) -> Vec<Goal> {
        let goal = |&loss_ratio: &f64| Goal {
            loss_ratio,
            exceed_ratio: self.exceed,
            trial_seconds: self.trial,
            initial_seconds: self.initial.unwrap_or(self.trial / 10.0),
            sum_seconds: self.sum,
            width: self.width,
        };
        self.loss.iter().map(goal).collect()
    }

    fn range(&self) -> Range {
        Range { min: self.min, max: self.max, trials: self.trials }
    }

    fn rules(&self, frame_bytes: u16) -> Rules {
        Rules { frame_bytes, settle: self.settle, rest: self.rest, on_time: self.on_time }
    }
}

/// Prints every trial to the standard error.
struct Told<'a>(&'a mut Live);

impl Measurer for Told<'_> {
    fn trial(&mut self, load: f64, seconds: f64) -> Result<Trial, String> {
        let trial = self.0.trial(load, seconds)?;
        eprintln!("{load:>10.0} packets/s for {seconds} s: {:.3} % lost", trial.loss_ratio * 100.0);
        Ok(trial)
    }
}

/// What was measured at the throughput of one goal; why not, if not.
type Delay = Result<Latency, String>;

/// Searches for all loss ratios with each length of frames; a JSON line each, a table to the standard error.
pub fn ndr(args: &NdrArgs) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder: {e}"))?;
    let router = crate::router(args.router.as_deref());
    let goals = args.goals();
    let mut rows = Vec::new();
    for &frame_bytes in &args.frames {
        let rules = args.rules(frame_bytes);
        let mut live = Live::start(args.forwarder, &router, crate::root(), rules, folder.path())?;
        let outcome = search(&goals, args.range(), &mut Told(&mut live))?;
        let delays = delays(&live, &outcome, args.latency.as_secs_f64());
        for ((goal, found), delay) in goals.iter().zip(&outcome.found).zip(&delays) {
            println!("{}", line(args, frame_bytes, goal, (&outcome, found), delay));
            rows.push(row(frame_bytes, goal, found, delay));
        }
    }
    eprintln!("{HEADER}\n{}", rows.join("\n"));
    Ok(())
}

/// Latency at the throughput of each goal: measured once where goals have the same.
fn delays(live: &Live, outcome: &Outcome, seconds: f64) -> Vec<Delay> {
    let mut made: Vec<(u64, Delay)> = Vec::new();
    let mut delay = |found: &Found| {
        let load = found.throughput.filter(|load| *load >= 2.0).ok_or("no load meets the goal")?;
        if seconds == 0.0 {
            return Err("not asked for".to_owned());
        }
        let key = load.round() as u64;
        if let Some((_, delay)) = made.iter().find(|(other, _)| *other == key) {
            return delay.clone();
        }
        made.push((key, live.latency(load, seconds)));
        made.last().map_or(Err(String::new()), |(_, delay)| delay.clone())
    };
    outcome.found.iter().map(&mut delay).collect()
}

const HEADER: &str = "frame bytes  loss ratio  lower bound  upper bound   throughput  \
                      latency µs: min / mean / p50 / p99 / max  result";

fn row(frame_bytes: u16, goal: &Goal, found: &Found, delay: &Delay) -> String {
    let number = |load: Option<f64>| load.map_or("–".to_owned(), |load| format!("{load:.0}"));
    let result = found.irregular.map_or("regular".to_owned(), |why| format!("IRREGULAR: {why}"));
    let delay = delay.as_ref().map_or_else(|why| format!("– ({why})"), |delay| delay.text(goal.loss_ratio));
    let (lower, upper) = (number(found.lower), number(found.upper));
    let throughput = number(found.throughput);
    format!(
        "{frame_bytes:>11} {:>11} {lower:>12} {upper:>12} {throughput:>12}  {delay:<40}  {result}",
        goal.loss_ratio
    )
}

fn line(
    args: &NdrArgs,
    frame_bytes: u16,
    goal: &Goal,
    (outcome, found): (&Outcome, &Found),
    delay: &Delay,
) -> Value {
    let config = match args.forwarder {
        Forwarder::Routebricks => "conf/forward.click",
        Forwarder::Linux => "Linux, one route",
    };
    json!({
        "schema": "routebricks.ndr/1",
        "config": config,
        "arrangement": "two veth pairs, raw sockets, ordinary pages; generator (conf/generator.click), router and kernel \
                        share the processors, and packets that the generator was too slow to send count as lost",
        "frame_bytes": frame_bytes,
        "goal_loss_ratio": goal.loss_ratio,
        "goal_exceed_ratio": goal.exceed_ratio,
        "goal_initial_trial_seconds": goal.initial_seconds,
        "goal_final_trial_seconds": goal.trial_seconds,
        "goal_duration_sum_seconds": goal.sum_seconds,
        "goal_width": goal.width,
        "goal_width_kind": "relative to the upper bound",
        "min_load_packets_per_second": args.min,
        "max_load_packets_per_second": args.max,
        "most_trials": args.trials,
        "wait_after_trial_seconds": args.settle.as_secs_f64(),
        "wait_before_trial_seconds": args.rest.as_secs_f64(),
        "offered_by_intended_load_that_is_full": args.on_time,
        "regular": found.irregular.is_none(),
        "irregular_because": found.irregular,
        "lower_bound_packets_per_second": found.lower.map(f64::round),
        "upper_bound_packets_per_second": found.upper.map(f64::round),
        "conditional_throughput_packets_per_second": found.throughput.map(f64::round),
        "latency": delay.as_ref().ok().map(Latency::json),
        "latency_left_out": delay.as_ref().err(),
        "trials_of_all_goals": outcome.trials,
        "trial_seconds_of_all_goals": outcome.seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        ndr: NdrArgs,
    }

    fn args(words: &[&str]) -> NdrArgs {
        Cli::parse_from(["ndr"].iter().chain(words)).ndr
    }

    #[test]
    fn lists_of_goals_and_of_frames() {
        let losses =
            |words: &[&str]| args(words).goals().iter().map(|goal| goal.loss_ratio).collect::<Vec<_>>();
        assert_eq!(losses(&[]), [0.0, 0.005]);
        assert_eq!(losses(&["--loss", "0.1,0", "--loss", "0.2"]), [0.1, 0.0, 0.2]);
        assert_eq!(args(&["--frames", "60,1514"]).frames, [60, 1514]);
        assert_eq!(args(&["--frame", "124"]).frames, [124]);
        let goal = args(&["--trial", "60", "--sum", "60"]).goals()[0];
        assert_eq!((goal.trial_seconds, goal.initial_seconds), (60.0, 6.0));
        assert_eq!(args(&["--initial", "0.5"]).goals()[0].initial_seconds, 0.5);
        assert_eq!(args(&["--settle", "2", "--rest", "5"]).rules(60).rest, Duration::from_secs(5));
        assert!(Cli::try_parse_from(["ndr", "--on-time", "1.1"]).is_err());
        assert!(Cli::try_parse_from(["ndr", "--rest=-1"]).is_err());
    }

    #[test]
    fn a_line_says_what_was_applied_and_whether_it_is_regular() {
        let args = args(&["--min", "100", "--max", "9000", "--rest", "5", "--on-time", "0.9"]);
        let found = Found {
            lower: Some(50.4),
            upper: None,
            throughput: Some(49.6),
            irregular: Some("the trials ran out"),
        };
        let outcome = Outcome { found: vec![found.clone()], trials: 7, seconds: 3.5 };
        let goal = args.goals()[1];
        let delay = Err("no probe arrived".to_owned());
        let line = line(&args, 124, &goal, (&outcome, &found), &delay);
        for (key, value) in [
            ("frame_bytes", json!(124)),
            ("goal_loss_ratio", json!(0.005)),
            ("goal_initial_trial_seconds", json!(0.1)),
            ("goal_final_trial_seconds", json!(1.0)),
            ("min_load_packets_per_second", json!(100.0)),
            ("max_load_packets_per_second", json!(9000.0)),
            ("most_trials", json!(2000)),
            ("wait_after_trial_seconds", json!(0.2)),
            ("wait_before_trial_seconds", json!(5.0)),
            ("offered_by_intended_load_that_is_full", json!(0.9)),
            ("regular", json!(false)),
            ("irregular_because", json!("the trials ran out")),
            ("lower_bound_packets_per_second", json!(50.0)),
            ("upper_bound_packets_per_second", Value::Null),
            ("conditional_throughput_packets_per_second", json!(50.0)),
            ("latency", Value::Null),
            ("latency_left_out", json!("no probe arrived")),
            ("trials_of_all_goals", json!(7)),
        ] {
            assert_eq!(line[key], value, "{key}");
        }
        let row = row(124, &goal, &found, &delay);
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "124 0.005 50 – 50 – (no probe arrived) IRREGULAR: the trials ran out"
        );
    }
}
