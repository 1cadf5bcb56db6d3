//! `cluster`: several servers as one router.

use super::{Done, Output, failed};
use crate::api::{client::Client, socket};
use crate::cluster::config::{Cluster, Named, endpoint};
use crate::cluster::requests::{NodeState, Request, Running};
use crate::cluster::supervisor::EtcdFlags;
use crate::cluster::{self, node, places, supervisor};
use crate::config::Reported;
use crate::words::counted;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What may be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Say what is wrong with a cluster's file
    Check(CheckArgs),
    /// Print the configuration of one node
    PrintConfig(PrintArgs),
    /// Run all nodes on this machine, or one of them, until something asks to stop
    Up(UpArgs),
    /// Show links, traffic, order and losses of a running cluster
    Status(super::cluster_status::StatusArgs),
    /// Let the other nodes choose a node as relay no more, or again
    Drain(DrainArgs),
    /// Start a node that has ended
    Start(StartArgs),
    /// Read the file of a running cluster again: nodes may come and go, the others go on
    Reload(ReloadArgs),
    /// End a running cluster
    Down(DownArgs),
}

/// Arguments of `cluster check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The cluster's file, TOML
    file: PathBuf,
}

/// Arguments of `cluster print-config`.
#[derive(Debug, Args)]
pub struct PrintArgs {
    /// The cluster's file, TOML
    file: PathBuf,

    /// The node; its interfaces must be there
    node: String,
}

/// Arguments of `cluster up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The cluster's file, TOML
    file: PathBuf,

    /// Run this node only: the others are on other machines
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Have the control node elected by this etcd, in place of what the file says: URLs of its members
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = endpoint)]
    etcd: Vec<String>,

    /// The certificate of who signed those of etcd's members, PEM
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_authority: Option<PathBuf>,

    /// The certificate to show etcd, PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "etcd_key"])]
    etcd_certificate: Option<PathBuf>,

    /// The private key of that, PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    etcd_key: Option<PathBuf>,

    /// The user to ask etcd as
    #[arg(long, value_name = "NAME", requires_all = ["etcd", "etcd_password_file"])]
    etcd_user: Option<String>,

    /// A file with the user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

/// A running cluster; the only one here, unless it is named.
#[derive(Debug, Args)]
pub struct WhichCluster {
    /// The cluster of this name, if several are running
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

impl WhichCluster {
    /// The cluster.
    pub(super) fn find(&self) -> Result<Running, Reported> {
        Running::find(self.cluster.as_deref()).map_err(failed)
    }
}

/// Arguments of `cluster drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The node
    node: String,

    /// It may be chosen again
    #[arg(long)]
    off: bool,

    #[command(flatten)]
    which: WhichCluster,
}

/// Arguments of `cluster start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The node
    node: String,

    #[command(flatten)]
    which: WhichCluster,
}

/// Arguments of `cluster reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Only say what would change
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    which: WhichCluster,
}

/// Arguments of `cluster down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    #[command(flatten)]
    which: WhichCluster,
}

/// Does what was asked.
pub fn cluster(command: &ClusterCommand) -> Done {
    match command {
        ClusterCommand::Check(args) => check(args),
        ClusterCommand::PrintConfig(args) => print_config(args),
        ClusterCommand::Up(args) => up(args),
        ClusterCommand::Status(args) => super::cluster_status::status(args),
        ClusterCommand::Drain(args) => drain(args),
        ClusterCommand::Start(args) => start(args),
        ClusterCommand::Reload(args) => reload(args),
        ClusterCommand::Down(args) => down(args),
    }
}

/// The process of one node.
pub fn one_node() -> Done {
    node::run()
}

fn check(args: &CheckArgs) -> Done {
    let cluster = Cluster::load(&args.file)?;
    let nodes = counted(cluster.there().count(), "node");
    let lines = counted(cluster.lines().count(), "line");
    let mut out = Output::stdout();
    out.line(format_args!(
        "cluster {}: {nodes}, {lines}, internal links of {}",
        cluster.name,
        links(&cluster)
    ));
    if let Some(overhead) = overhead(&cluster) {
        out.line(format_args!("{overhead}"));
    }
    for class in &cluster.classes {
        let codes: Vec<String> = class.codes.iter().map(u8::to_string).collect();
        let (order, codes) = (class.order.name(), codes.join(", "));
        out.line(format_args!("class {}: {order}, for packets with DSCP {codes}", class.name));
    }
    out.done()
}

/// What links carry: `50 Mbit/s or more`, or what they are and what passes them.
fn links(cluster: &Cluster) -> String {
    let [least, most] = cluster.link_rates().map(|rate| rate.div_ceil(1_000_000));
    let load = cluster.permitted_load().filter(|_| !cluster.rates.is_empty());
    match load {
        None if least == most => format!("{} Mbit/s or more", cluster.link_rate().div_ceil(1_000_000)),
        None => format!("{least} to {most} Mbit/s"),
        Some(load) if least == most => format!("{most} Mbit/s, {}", passes(load)),
        Some(load) => format!("{least} to {most} Mbit/s, {}", passes(load)),
    }
}

/// What passes whatever the traffic matrix.
fn passes(load: f64) -> String {
    // From 0 to 97, as that is how full direct traffic makes links.
    let percent = (load.clamp(0.0, 0.97) * 100.0).floor();
    format!("which carry every traffic matrix up to {percent} % of the lines")
}

/// What the slowest link has to carry besides traffic, where that is more than a little.
fn overhead(cluster: &Cluster) -> Option<String> {
    let [least, _] = cluster.link_rates();
    let all = cluster.overhead(least);
    let percent = all.sum().saturating_mul(100).checked_div(least)?;
    let kbits = [all.hellos, all.markers, all.punted].map(|rate| rate.div_ceil(1000));
    let [hellos, markers, punted] = kbits;
    let left = match cluster.permitted_load() {
        _ if all.sum() >= least => {
            "nothing is left for traffic: give links a higher rate, or a longer `hello`".to_owned()
        }
        Some(load) => format!(
            "every traffic matrix passes up to {} % of the lines",
            (load.clamp(0.0, 0.97) * 100.0).floor()
        ),
        None => format!("{} % are left for traffic", 100_u64.saturating_sub(percent)),
    };
    (percent > 5).then(|| {
        format!(
            "besides traffic the slowest link carries up to {hellos} kbit/s of hellos, {markers} of markers and {punted} of frames \
             for and from Linux: {left}"
        )
    })
}

/// The number of a node of the file.
fn number(cluster: &Cluster, name: &str) -> Result<usize, Reported> {
    let names = || cluster.there().map(|(_, node)| node.name.as_str()).collect::<Vec<_>>().join(", ");
    cluster.node(name).ok_or_else(|| failed(format_args!("there is no node {name}; there are: {}", names())))
}

fn print_config(args: &PrintArgs) -> Done {
    let cluster = Cluster::load(&args.file)?;
    let node = number(&cluster, &args.node)?;
    let lines = places::own_lines(&cluster, node).map_err(failed)?;
    let mut out = Output::stdout();
    out.text(&cluster::text(&cluster, node, 0, &lines));
    out.done()
}

fn up(args: &UpArgs) -> Done {
    crate::linux::recover::before_start();
    let cluster = Cluster::load(&args.file)?;
    let node = args.node.as_deref().map(|name| number(&cluster, name)).transpose()?;
    let etcd = EtcdFlags {
        endpoints: args.etcd.clone(),
        authority: args.etcd_authority.clone(),
        certificate: args.etcd_certificate.clone(),
        key: args.etcd_key.clone(),
        user: args.etcd_user.clone(),
        password: args.etcd_password_file.clone(),
    };
    supervisor::up(&args.file, cluster, node, etcd).map_err(failed)
}

fn drain(args: &DrainArgs) -> Done {
    let running = args.which.find()?;
    let node = one(&running, &args.node)?;
    let value = if args.off { "false" } else { "true" };
    client(&node).and_then(|client| client.write(cluster::SWITCH, "drain", value)).map_err(failed)
}

/// The node of this name.
fn one(running: &Running, name: &str) -> Result<NodeState, Reported> {
    let nodes = running.nodes().map_err(failed)?;
    let found = nodes.into_iter().find(|node| node.node == name);
    found.ok_or_else(|| failed(format_args!("cluster {} has no node {name} here", running.name)))
}

/// A connection to a running node.
pub(super) fn client(node: &NodeState) -> Result<Client, String> {
    let directory = socket::directory().ok_or("XDG_RUNTIME_DIR is not set")?;
    let pid = node.pid.ok_or_else(|| format!("node {} does not run: {}", node.node, node.state))?;
    Ok(Client::new(directory.join(format!("{pid}.sock"))))
}

fn start(args: &StartArgs) -> Done {
    let running = args.which.find()?;
    let answer = running.ask(&Request::Start(args.node.clone())).map_err(failed)?;
    match answer.trim_end() {
        "ok" => Ok(()),
        other => Err(failed(other.strip_prefix("error: ").unwrap_or(other))),
    }
}

fn reload(args: &ReloadArgs) -> Done {
    let running = args.which.find()?;
    let file = running.ask(&Request::File).map_err(failed)?;
    // Mistakes are told here, all of them, not in the other terminal.
    Cluster::load(file.trim_end().as_ref())?;
    let answer = running.ask(&Request::Reload { check: args.check }).map_err(failed)?;
    let lines: Vec<&str> = answer.lines().collect();
    let (last, changes) = lines.split_last().ok_or_else(|| failed("the cluster ended meanwhile"))?;
    let mut out = Output::stdout();
    changes.iter().for_each(|line| out.line(format_args!("{line}")));
    if *last != "ok" {
        return Err(failed(last.strip_prefix("error: ").unwrap_or(last)));
    }
    if changes.is_empty() {
        out.line(format_args!("nothing differs"));
    }
    out.done()
}

fn down(args: &DownArgs) -> Done {
    args.which.find()?.ask(&Request::Down).map(drop).map_err(failed)
}
