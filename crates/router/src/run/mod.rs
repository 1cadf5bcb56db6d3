//! `routebricks run`: a router from its configuration to its end.

mod args;

pub use args::RunArgs;

use std::process::ExitCode;

/// Runs a configuration until all its sources are exhausted, or something asks it to stop.
#[expect(clippy::needless_pass_by_value, reason = "a command owns its arguments")]
pub fn run(args: RunArgs) -> ExitCode {
    eprintln!("error: cannot run {args:?} yet");
    ExitCode::FAILURE
}
