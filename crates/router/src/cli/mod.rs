//! The command line: what may be typed, and which command answers.

mod bench;
mod check;
mod cluster;
mod cluster_status;
mod elements;
mod fmt;
mod graph;
mod http;
mod output;
mod reload;
mod restart_control;
mod router;
mod run;
mod settings;
mod show;
mod table;
mod top;
mod which;

pub use output::{Output, columns};
pub(crate) use run::processors;

use crate::config::Reported;
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// A software router: Click configurations on DPDK ports, pcap files and memory
#[derive(Debug, Parser)]
#[command(name = "routebricks", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a configuration
    Run(run::RunArgs),
    /// Run a complete router on Linux interfaces, with Linux, FRR or BIRD as its control plane
    Router(router::RouterArgs),
    /// Run several servers as one router, and look after them
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    #[command(name = crate::cluster::node::COMMAND, hide = true)]
    ClusterNode,
    #[command(name = crate::linux::keeper::COMMAND, hide = true)]
    KeepPorts,
    /// Give interfaces back to Linux that routers left which were killed with all their processes
    ///
    /// `routebricks router` does so at its start. An interface goes to the network namespace that it came from.
    Recover(router::RecoverArgs),
    #[command(name = crate::linux::apart::COMMAND, hide = true)]
    ControlSide,
    /// Start the control side of a running router again, while packets are forwarded as before
    ///
    /// The new process runs the program that is now in the file that the router was started from: to upgrade the control
    /// side alone, replace that file and run this. If the new one does not get on, the router starts its own version
    /// again, and this command fails. The data side changes when the router itself is started again.
    RestartControl(restart_control::RestartArgs),
    /// Say what is wrong with a configuration, without opening devices or files
    Check(check::CheckArgs),
    /// Print a configuration in its canonical form
    Fmt(fmt::FmtArgs),
    /// Draw a configuration
    Graph(graph::GraphArgs),
    /// List the element classes, or print the reference of one
    Elements(elements::ElementsArgs),
    /// Make, inspect and convert routing tables
    #[command(subcommand)]
    Table(table::TableCommand),
    /// Look into a running router
    Show(show::ShowArgs),
    /// Watch where a running router spends its time
    Top(top::TopArgs),
    /// Measure this router: cycles per packet, lookups, throughput and latency, beside other programs
    Bench(bench::BenchArgs),
    /// Say what this machine lacks for fast packets, and how to mend it
    Doctor(crate::doctor::DoctorArgs),
}

/// How many workers a configuration has.
#[derive(Clone, Debug, Args)]
struct Workers {
    /// Workers: threads that each own their queues and their instances of the elements [default: 1]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_WORKERS)))]
    workers: Option<u16>,
}

/// More workers than this are a mistake.
pub(crate) const MOST_WORKERS: u16 = 256;

impl Workers {
    fn count(&self) -> usize {
        self.workers.unwrap_or(1).into()
    }
}

/// What a command gives when it has failed: what is wrong was printed.
pub type Done = Result<(), Reported>;

/// Reads the command line and does what it says. Exits 0 when done, 1 on a mistake in the configuration or at the
/// start, 2 on wrong usage.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Router(args) => router::router(&args),
        Command::Cluster(command) => cluster::cluster(&command),
        Command::ClusterNode => cluster::one_node(),
        Command::KeepPorts => router::keep(),
        Command::Recover(args) => router::recover(&args),
        Command::ControlSide => crate::linux::apart::run(),
        Command::RestartControl(args) => restart_control::restart(&args),
        Command::Check(args) => check::check(&args),
        Command::Fmt(args) => fmt::fmt(&args),
        Command::Graph(args) => graph::graph(&args),
        Command::Elements(args) => elements::elements(&args),
        Command::Table(command) => table::table(&command),
        Command::Show(args) => show::show(&args),
        Command::Top(args) => top::top(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Doctor(args) => crate::doctor::doctor(&args),
    };
    io::settle();
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The command line's description, for messages on wrong usage.
pub fn command() -> clap::Command {
    Cli::command()
}

/// A table as JSON: `{"schema":"routebricks.NAME/1","rows":[...]}`, one row a line.
pub fn json_rows(name: &str, rows: &[serde_json::Value]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| format!("\n{row}")).collect();
    let end = if rows.is_empty() { "" } else { "\n" };
    format!("{{\"schema\":\"routebricks.{name}/1\",\"rows\":[{}{end}]}}\n", rows.join(","))
}

/// Prints what went wrong.
pub fn failed(message: impl std::fmt::Display) -> Reported {
    io::say!("error: {message}");
    Reported
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_as_json() {
        let rows = vec![serde_json::json!({"a": 1}), serde_json::json!({"a": "x"})];
        assert_eq!(
            super::json_rows("t", &rows),
            "{\"schema\":\"routebricks.t/1\",\"rows\":[\n{\"a\":1},\n{\"a\":\"x\"}\n]}\n"
        );
        assert_eq!(super::json_rows("t", &[]), "{\"schema\":\"routebricks.t/1\",\"rows\":[]}\n");
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
