//! `restart-control`: a new control process in place of the one that a router has.

use super::which::Which;
use super::{Done, Output, failed};
use crate::api::client::Client;
use clap::Args;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Arguments of `restart-control`.
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    router: Which,

    /// Do not wait until the new process is in step
    #[arg(long)]
    no_wait: bool,
}

/// How long the new one may take to be in step.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Asks for it, and waits until the new process is in step.
pub fn restart(args: &RestartArgs) -> Done {
    let client = args.router.client()?;
    let starts = |row: &Value| row["starts"].as_u64().unwrap_or(0);
    let before = starts(&row(&client).map_err(failed)?);
    client.put("/control/restart", "").map_err(failed)?;
    if args.no_wait {
        return Ok(());
    }
    let begun = Instant::now();
    loop {
        sleep(LOOK);
        let now = row(&client).map_err(failed)?;
        let state = now["state"].as_str().unwrap_or_default().to_owned();
        // What the kernel has is there; what FRR has stays until that has sent it again.
        let is_up = now["synced"] == true || state == "waiting for FRR";
        if starts(&now) > before && is_up {
            let (pid, after) = (&now["pid"], begun.elapsed().as_secs_f64());
            let version = now["version"].as_str().unwrap_or_default();
            let mut out = Output::stdout();
            out.line(format_args!(
                "control side: process {pid}, version {version}, {state} after {after:.1} s"
            ));
            out.done()?;
            if starts(&now) > before + 1 {
                let why = now["last_end"].as_str().unwrap_or_default();
                return Err(failed(format_args!(
                    "the first new process ended ({why}); this one is the next"
                )));
            }
            return Ok(());
        }
        if begun.elapsed() >= LIMIT {
            let why = now["last_end"].as_str().unwrap_or("-");
            return Err(failed(format_args!(
                "the control side is still {state} (the last one ended: {why})"
            )));
        }
    }
}

fn row(client: &Client) -> Result<Value, String> {
    let row = client.table("/api/control")?.into_iter().next();
    row.ok_or_else(|| "this router has no control side: `routebricks router` has one".to_owned())
}
