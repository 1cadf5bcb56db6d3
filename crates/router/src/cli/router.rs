//! `router`: a complete router on some interfaces, with Linux as its control plane.

use super::run::{Processors, announce, http_address, processors};
use super::{Done, Output, Workers, failed};
use crate::api::Server;
use crate::config::{Configuration, Reported};
use crate::linux::{self, Namespaces, Port, Twins, keeper};
use crate::run::RunOptions;
use clap::Args;
use control::Source;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `router`.
#[derive(Debug, Args)]
pub struct RouterArgs {
    /// Linux interfaces; each becomes a port, and a twin of the same name takes its place in Linux
    #[arg(value_name = "PORT", required = true)]
    ports: Vec<String>,

    /// Print the configuration instead of running it
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    workers: Workers,

    /// Processors to bind the workers to, in turn, such as 2,4-7
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpus: Option<Processors>,

    /// Take routes from FRR's zebra (-M dplane_fpm_nl), which connects here, instead of from the kernel
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "127.0.0.1:2620")]
    fpm: Option<SocketAddr>,

    /// Serve handlers, tables and metrics by HTTP; a port alone means 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = http_address)]
    http: Option<SocketAddr>,

    /// Arguments for DPDK's EAL
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    eal: Vec<String>,
}

/// Arguments of the process that outlives a killed router.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// What to give back
    #[arg(value_name = "NAME[:up][:promiscuous]")]
    ports: Vec<keeper::Kept>,
}

/// Waits for the end of the router that started this process, and gives back what it left.
pub fn keep(args: &KeepArgs) -> Done {
    keeper::keep(&args.ports)
        .map_err(|e| failed(format!("an interface could not be given back to Linux: {e}")))
}

/// How long the first look at the kernel may take before packets flow.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// Runs a router until something asks it to stop, then gives the interfaces back.
pub fn router(args: &RouterArgs) -> Done {
    let found = args.ports.iter().enumerate().map(|(i, name)| Port::find(name, i));
    let ports: Vec<Port> = found.collect::<Result<_, _>>().map_err(failed)?;
    let text = linux::text(&ports);
    if args.print_config {
        let mut out = Output::stdout();
        out.text(&text);
        return out.done();
    }
    let Configuration { flat, sources, .. } = Configuration::of_text("router", text)?;
    let tables = graph::Tables::new();
    let published = linux::tables(&tables);
    let options = RunOptions {
        workers: args.workers.count(),
        burst: 64,
        cpus: args.cpus.as_ref().map_or(Vec::new(), |p| p.0.clone()),
        simulated: None,
        eal: args.eal.clone(),
        read: Vec::new(),
        tables,
    };
    let namespaces =
        Namespaces::new(&ports).map_err(|e| failed(format!("cannot make a network namespace: {e}")))?;
    let twins = Twins::take(&namespaces, &ports).map_err(failed)?;
    let source = args.fpm.map_or(Source::Kernel, Source::Fpm);
    let serve = |router: &Arc<graph::Router>| {
        let (numbers, cables) = twins.hand_over().map_err(|e| format!("cannot make the twins: {e}"))?;
        let control =
            linux::follow(&numbers, cables, source, published).map_err(|e| format!("netlink: {e}"))?;
        if source == Source::Kernel && !control.wait(FIRST_LOOK) {
            return Err("the kernel's routes cannot be read".to_owned());
        }
        let server = Server::start(router.clone(), router.devices().ports(), args.http);
        let server = server.inspect(announce).map_err(|e| e.to_string())?;
        Ok((server, control))
    };
    // Devices are opened where the ports are.
    namespaces.enter_private().map_err(failed)?;
    let ended = crate::run::run(flat, &sources, &options, serve);
    drop(twins);
    ended.map_err(|_| Reported)
}
