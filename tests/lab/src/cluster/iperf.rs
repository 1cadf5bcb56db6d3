//! iperf3 between all pairs of hosts at once.

use std::thread;

use serde_json::Value;

use super::stage::{LIMIT, Stage};
use crate::process::Process;
use crate::{Context, Error, Result};

/// The port of the first server on a host; it has one for each other host.
const PORT: usize = 5201;

/// Runs a client for each of [`Stage::pairs`] with these arguments, and gives their reports in that order.
///
/// # Errors
/// If iperf3 cannot be run, or complains.
pub fn between_all_pairs(stage: &Stage, arguments: &[&str]) -> Result<Vec<Value>> {
    let mut servers = Stage::pairs().map(|(from, to)| server(stage, from, to)).collect::<Result<Vec<_>>>()?;
    for server in &mut servers {
        server.wait_for_line("Server listening", LIMIT)?;
    }
    thread::scope(|scope| {
        let client = |(from, to): (usize, usize)| scope.spawn(move || client(stage, from, to, arguments));
        let clients: Vec<_> = Stage::pairs().map(client).collect();
        let end = |client: thread::ScopedJoinHandle<_>| {
            client.join().unwrap_or_else(|_| Err(Error::new("a client panicked")))
        };
        clients.into_iter().map(end).collect()
    })
}

/// A server on one host, and a client on another with these arguments; its report. The hosts need not be joined by the cluster.
///
/// # Errors
/// If iperf3 cannot be run, or complains.
pub fn between(stage: &Stage, from: usize, to: usize, arguments: &[&str]) -> Result<Value> {
    let mut server = server(stage, from, to)?;
    server.wait_for_line("Server listening", LIMIT)?;
    client(stage, from, to, arguments)
}

/// Serves one client of another host.
fn server(stage: &Stage, from: usize, to: usize) -> Result<Process> {
    let (name, port) = (format!("server{from}{to}"), (PORT + from).to_string());
    let words = ["-s", "-1", "--forceflush", "-p", &port].map(str::to_owned);
    Process::start(&stage.hosts[to], &name, "iperf3", &words, stage.directory.path())
}

fn client(stage: &Stage, from: usize, to: usize, arguments: &[&str]) -> Result<Value> {
    let (address, port) = (Stage::host_address(to), (PORT + from).to_string());
    let words = ["-c", &address, "-p", &port, "-J", "--connect-timeout", "10000"];
    let output = stage.hosts[from].output("iperf3", &[&words, arguments].concat())?;
    let report: Value =
        serde_json::from_slice(&output.stdout).cannot(|| "read the report of iperf3".to_owned())?;
    match report["error"].as_str() {
        Some(complaint) => Err(Error::new(format!("iperf3 from h{} to {address}: {complaint}", from + 1))),
        None => Ok(report),
    }
}
