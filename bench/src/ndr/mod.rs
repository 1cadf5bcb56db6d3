//! Throughput (RFC 2544 §26.1) by the rules of MLRsearch (RFC 9971).

mod live;
mod load;
mod search;

use clap::Args;
use live::{Forwarder, Live};
use load::{Goal, Trial};
use search::{Found, Measurer, Range, search};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `ndr`.
#[derive(Debug, Args)]
pub struct NdrArgs {
    /// Who forwards
    #[arg(value_enum, default_value = "routebricks")]
    forwarder: Forwarder,

    /// Loss ratios to search the highest load for: 0 is the no-drop rate
    #[arg(long, value_name = "RATIO", value_delimiter = ',', default_values_t = [0.0, 0.005])]
    loss: Vec<f64>,

    /// Seconds of a full-length trial; RFC 2544 wants 60
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    trial: f64,

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

    /// Bytes of each frame, without check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(60..=1514))]
    frame: u16,

    /// The router; $ROUTEBRICKS or target/release/routebricks if not given
    #[arg(long, value_name = "PATH")]
    router: Option<PathBuf>,
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

/// Searches for each loss ratio; a JSON line each.
pub fn ndr(args: &NdrArgs) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder: {e}"))?;
    let router = crate::router(args.router.as_deref());
    let mut live = Live::start(args.forwarder, &router, crate::root(), args.frame, folder.path())?;
    for &loss_ratio in &args.loss {
        let goal = Goal {
            loss_ratio,
            exceed_ratio: args.exceed,
            trial_seconds: args.trial,
            sum_seconds: args.sum,
            width: args.width,
        };
        let found = search(goal, Range { min: args.min, max: args.max }, &mut Told(&mut live))?;
        println!("{}", line(args, &goal, &found));
    }
    Ok(())
}

fn line(args: &NdrArgs, goal: &Goal, found: &Found) -> Value {
    let config = match args.forwarder {
        Forwarder::Routebricks => "conf/forward.click",
        Forwarder::Linux => "Linux, one route",
    };
    json!({
        "schema": "routebricks.ndr/1",
        "config": config,
        "arrangement": "two veth pairs, raw sockets, ordinary pages; generator (conf/generator.click), router and kernel \
                        share the processors, and packets that the generator was too slow to send count as lost",
        "frame_bytes": args.frame,
        "goal_loss_ratio": goal.loss_ratio,
        "goal_exceed_ratio": goal.exceed_ratio,
        "goal_trial_seconds": goal.trial_seconds,
        "goal_duration_sum_seconds": goal.sum_seconds,
        "goal_width": goal.width,
        "lower_bound_packets_per_second": found.lower.map(f64::round),
        "upper_bound_packets_per_second": found.upper.map(f64::round),
        "conditional_throughput_packets_per_second": found.throughput.map(f64::round),
        "trials": found.trials,
        "trial_seconds": found.seconds,
    })
}
