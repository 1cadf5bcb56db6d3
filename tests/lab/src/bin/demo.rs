//! Three Linux hosts, one router with a million routes, and everything that it must do; then a router that Linux drives,
//! between providers; then four nodes that are one router.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use lab::checks::Checks;
use lab::cluster::Show;
use lab::exchange::Exchange;
use lab::internet::Internet;
use lab::linux::LinuxRouter;
use lab::report::thousands;
use lab::routebricks::{self, Launch, Routebricks};
use lab::router::Router;
use lab::steps::{self, Stage};
use lab::table::{RouteTable, synthetic};
use lab::topology::{Hosts, Link, Topology};
use lab::{Context, Result, netns, replay, wait};
use tempfile::TempDir;

/// Prefixes in the table when Linux is the router.
const FEW: usize = 2_000;
/// The configuration of the router under test, in `conf/`.
const CONFIGURATION: &str = "ip-router.click";

/// Joins three Linux hosts by a router and checks what it does. Exit code 0: every check holds.
#[derive(Parser)]
struct Options {
    /// Who routes.
    #[arg(long, value_enum, default_value_t = Who::Routebricks)]
    router: Who,
    /// How many prefixes routebricks is given; the hosts' subnets are added.
    #[arg(long, default_value_t = 1_000_000)]
    prefixes: usize,
    /// How many IPv4 prefixes FRR is to learn by BGP; some of IPv6 are added.
    #[arg(long, default_value_t = 250_000)]
    learn: usize,
    /// Show only this.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Leave the first router up afterwards, until Ctrl-C (as does KEEP=1 in the environment).
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Who {
    /// Ours: conf/ip-router.click on DPDK ports.
    Routebricks,
    /// The kernel's own forwarding: shows that the checks are right.
    Linux,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Three hosts and a router with a million routes.
    Hosts,
    /// A router that Linux drives, between providers.
    Linux,
    /// Four nodes that are one router.
    Cluster,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.keep |= std::env::var_os("KEEP").is_some_and(|value| !value.is_empty() && value != "0");
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
    if let Some(program) = netns::missing_program(&["ping", "traceroute", "iperf3", "bird", "vtysh"]) {
        return Err(lab::Error::new(format!("cannot run: {program} is not installed")));
    }
    let start = Instant::now();
    let mut checks = Checks::default();
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let ours = options.router == Who::Routebricks;
    let first = if wanted(Part::Hosts) { Some(three_hosts(options, &mut checks)?) } else { None };
    if wanted(Part::Linux) && ours {
        driven(options.learn, &mut checks)?;
    }
    if wanted(Part::Cluster) && ours {
        cluster(&mut checks)?;
    }
    if let Some(mut first) = first.filter(|_| options.keep) {
        println!("\n{}", checks.summary());
        play(&first.topology, first.directory.path(), options.router);
        end(&mut *first.router, &mut checks)?;
    }
    println!("\n{}", checks.summary());
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(checks.all_hold())
}

/// The first network.
struct First {
    router: Box<dyn Router>,
    topology: Topology,
    directory: TempDir,
}

/// Three hosts and a router, which has ended unless it is to be kept.
fn three_hosts(options: &Options, checks: &mut Checks) -> Result<First> {
    let directory = tempfile::tempdir().map_err(|error| lab::Error::new(error.to_string()))?;
    checks.heading("three hosts, one router");
    let prefix = prefix();
    let topology = progress("namespaces and cables", || Topology::build(&prefix, Hosts::Live))?;
    println!("  {}", topology.picture().replace('\n', "\n  "));
    let (mut router, table) = match options.router {
        Who::Linux => linux(&topology)?,
        Who::Routebricks => ours(&topology, directory.path(), options.prefixes)?,
    };
    progress("every host is reached", || {
        Exchange::open(&topology, Hosts::Live)?.open_ways(Duration::from_secs(20))
    })?;
    println!("  {} forwards, {} routes", router.title(), thousands(table.routes().len()));

    Stage { topology: &topology, table: &table, directory: directory.path() }.run(checks)?;
    if let Some(text) = router.live_table()? {
        checks.heading("what the running router has counted");
        println!("{text}");
    }
    if let Some(lost) = router.losses()? {
        checks.heading("what it has lost, and why");
        let plan = replay::plan(steps::CAPTURE, steps::SEED, &table)?;
        replay::judge_losses(&plan, &lost).into_iter().for_each(|check| checks.add(check));
    }
    if !options.keep {
        end(&mut *router, checks)?;
    }
    Ok(First { router, topology, directory })
}

fn end(router: &mut dyn Router, checks: &mut Checks) -> Result<()> {
    checks.heading("the end");
    router.stop()?.into_iter().for_each(|check| checks.add(check));
    Ok(())
}

/// The router that Linux drives, between providers with a table of so many prefixes.
fn driven(prefixes: usize, checks: &mut Checks) -> Result<()> {
    checks.heading("routebricks router: Linux drives it, FRR and BIRD route");
    println!("  {}", Internet::picture().replace('\n', "\n  "));
    let internet = progress("namespaces, a table, daemons", || Internet::build(prefixes))?;
    internet.run(checks)?;
    checks.heading("the end of that router");
    internet.stop()?.into_iter().for_each(|check| checks.add(check));
    Ok(())
}

/// Four nodes on this machine that are one router.
fn cluster(checks: &mut Checks) -> Result<()> {
    checks.heading("routebricks cluster: four nodes are one router");
    println!("  {}", Show::picture().replace('\n', "\n  "));
    let show = progress("namespaces, four nodes, links", Show::build)?;
    progress("every host is reached", || show.reach())?;
    show.run(checks)?;
    checks.heading("the end of the cluster");
    show.stop()?.into_iter().for_each(|check| checks.add(check));
    Ok(())
}

/// Namespaces that are easy to type, unless another demo has them.
fn prefix() -> String {
    let taken = netns::exists("rb-router") || netns::exists("rb-h1");
    if taken { netns::unique_prefix() } else { "rb".to_owned() }
}

/// Says what is being done, does it, and says how long it took.
fn progress<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    print!("  {what} ...");
    // Somebody may be watching; if nobody can, it does not matter.
    let _ = std::io::stdout().flush();
    let start = Instant::now();
    let done = work();
    println!(" {}{:.1} s", if done.is_ok() { "" } else { "failed after " }, start.elapsed().as_secs_f64());
    done
}

fn linux(topology: &Topology) -> Result<(Box<dyn Router>, RouteTable)> {
    let hops = [Link { port: 1 }, Link { port: 2 }].map(|link| (link.host(), link.port));
    let mut routes = synthetic(FEW, 1, &hops);
    routes.extend(Link::all().iter().flat_map(|link| link.routes()));
    let table = RouteTable::new(routes);
    let router = progress("Linux reads its table", || LinuxRouter::start(topology, &table, Hosts::Live))?;
    Ok((Box::new(router), table))
}

/// Makes the table with `routebricks table synth`, adds the hosts' subnets, and starts the router with it.
fn ours(topology: &Topology, directory: &Path, prefixes: usize) -> Result<(Box<dyn Router>, RouteTable)> {
    let path = directory.join("routes.txt");
    let what = format!("a table of {} prefixes is made", thousands(prefixes));
    progress(&what, || make_table(topology, &path, prefixes))?;
    let table = progress("the checks read it, too", || RouteTable::read(&path))?;
    let launch = Launch::router(CONFIGURATION, topology, &path)?;
    println!("  {} {}", launch.program.display(), launch.arguments.join(" "));
    let launch = launch.showing(&["interfaces", "runtime", "drops"]);
    let router = progress("it reads the table and opens its ports", || {
        Routebricks::start(topology.router(), launch, directory)
    })?;
    println!("  {}", router.memory());
    Ok((Box::new(router), table))
}

fn make_table(topology: &Topology, path: &Path, prefixes: usize) -> Result<()> {
    let program = routebricks::binary()?.display().to_string();
    let (count, file) = (prefixes.to_string(), path.display().to_string());
    let hops = [Link { port: 1 }, Link { port: 2 }].map(|link| format!("{}@{}", link.host(), link.port));
    let mut arguments = vec!["table", "synth", "--count", &count, "--seed", "1", "-o", &file];
    arguments.extend(hops.iter().flat_map(|hop| ["--next-hop", hop]));
    topology.router().run(&program, &arguments)?;
    let subnets = RouteTable::new(Link::all().iter().flat_map(|link| link.routes()).collect());
    let mut file =
        fs::OpenOptions::new().append(true).open(path).cannot(|| format!("open {}", path.display()))?;
    file.write_all(subnets.text().as_bytes()).cannot(|| format!("write {}", path.display()))
}

/// Says how to play, and waits for Ctrl-C.
fn play(topology: &Topology, directory: &Path, who: Who) {
    let [h1, _, h3] = Link::all();
    let (first, last) = (topology.host(h1).name(), topology.host(h3).name());
    let capture = directory.join("capture.pcap");
    println!("\n== everything stays up until Ctrl-C; in another terminal, for example");
    println!("  ip netns exec {first} ping {}", h3.host());
    println!("  ip netns exec {first} traceroute -n {}", h3.host());
    println!("  ip netns exec {last} tcpdump -ni eth0");
    println!("  ip netns exec {last} iperf3 -s -1 &");
    println!("  ip netns exec {first} iperf3 -c {}", h3.host());
    println!("  tcpdump -nr {} | less", capture.display());
    if who == Who::Routebricks {
        if let Ok(program) = routebricks::binary() {
            println!("  watch -n 1 {} show drops", program.display());
        }
        println!("  less {}", directory.join("routebricks.log").display());
    }
    while !wait::interrupted() {
        std::thread::sleep(Duration::from_millis(100));
    }
}
