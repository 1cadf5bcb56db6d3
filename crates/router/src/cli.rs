//! The command line: what may be typed, and which command answers.

use crate::run;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A software router: Click configurations on DPDK, pcap files and memory
#[derive(Debug, Parser)]
#[command(name = "routebricks", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a configuration
    Run(run::RunArgs),
}

/// Reads the command line and does what it says. Exits 0 when done, 1 on a mistake in the configuration or at the
/// start, 2 on wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run::run(args),
    }
}
