//! Three Linux hosts, one router, and everything that it must do.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use lab::checks::Checks;
use lab::exchange::Exchange;
use lab::linux::LinuxRouter;
use lab::report::thousands;
use lab::router::Router;
use lab::steps::Stage;
use lab::table::{RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};
use lab::{Result, netns, wait};

/// Prefixes in the table when Linux is the router.
const FEW: usize = 2_000;

/// Joins three Linux hosts by a router and checks what it does. Exit code 0: every check holds.
#[derive(Parser)]
struct Options {
    /// Who routes.
    #[arg(long, value_enum, default_value_t = Who::Linux)]
    router: Who,
    /// Leave everything up afterwards, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Who {
    /// The kernel's own forwarding: shows that the checks are right.
    Linux,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match demo(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo(options: &Options) -> Result<bool> {
    wait::catch_signals()?;
    if let Some(reason) = netns::unavailable() {
        return Err(lab::Error::new(format!("cannot run: {reason}")));
    }
    if let Some(program) = netns::missing_program(&["ping", "traceroute", "iperf3"]) {
        return Err(lab::Error::new(format!("cannot run: {program} is not installed")));
    }
    let start = Instant::now();
    let directory = tempfile::tempdir().map_err(|error| lab::Error::new(error.to_string()))?;
    let mut checks = Checks::default();

    checks.heading("three hosts, one router");
    let table = table();
    let topology = Topology::build(&prefix(), Hosts::Live)?;
    let mut router = start_router(options.router, &topology, &table)?;
    Exchange::open(&topology, Hosts::Live)?.open_ways(Duration::from_secs(20))?;
    println!(
        "  {} forwards, {} routes, {:.1} s",
        router.title(),
        thousands(table.routes().len()),
        seconds(start)
    );

    Stage { topology: &topology, table: &table, directory: directory.path() }.run(&mut checks)?;
    if let Some(text) = router.live_table()? {
        checks.heading("what the router counted");
        println!("{text}");
    }
    if options.keep {
        println!("\n{}", checks.summary());
        play(&topology, directory.path());
    }
    checks.heading("the end");
    router.stop()?.into_iter().for_each(|check| checks.add(check));
    println!("\n{}", checks.summary());
    println!("{:.1} s", seconds(start));
    Ok(checks.all_hold())
}

/// Namespaces that are easy to type, unless another demo has them.
fn prefix() -> String {
    let taken = netns::exists("rb-router") || netns::exists("rb-h1");
    if taken { netns::unique_prefix() } else { "rb".to_owned() }
}

fn start_router(who: Who, topology: &Topology, table: &RouteTable) -> Result<Box<dyn Router>> {
    match who {
        Who::Linux => Ok(Box::new(LinuxRouter::start(topology, table, Hosts::Live)?)),
    }
}

/// Random prefixes behind h2 and h3, and the subnets.
fn table() -> RouteTable {
    let hops = [Link { port: 1 }, Link { port: 2 }].map(|link| (link.host(), link.port));
    let mut routes = synthetic(FEW, 1, &hops);
    routes.extend(Link::all().iter().flat_map(|link| link.routes()));
    RouteTable::new(routes)
}

/// Says how to play, and waits for Ctrl-C.
fn play(topology: &Topology, directory: &Path) {
    let [h1, _, h3] = Link::all();
    let (first, last) = (topology.host(h1).name(), topology.host(h3).name());
    let capture: PathBuf = directory.join("capture.pcap");
    println!("\n== everything stays up until Ctrl-C; in another terminal, for example");
    println!("  ip netns exec {first} ping {}", h3.host());
    println!("  ip netns exec {first} traceroute -n {}", h3.host());
    println!("  ip netns exec {last} tcpdump -ni eth0");
    println!("  ip netns exec {last} iperf3 -s -1 &");
    println!("  ip netns exec {first} iperf3 -c {}", h3.host());
    println!("  tcpdump -nr {} | less", capture.display());
    while !wait::interrupted() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}
