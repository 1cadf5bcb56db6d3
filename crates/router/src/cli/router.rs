//! `router`: a complete router on some interfaces, with Linux as its control plane.

use super::http::Http;
use super::reload::Reload;
use super::run::{Processors, http_address, processors};
use super::settings::Settings;
use super::{Done, Output, Workers, failed};
use crate::api::Server;
use crate::config::{Configuration, Reported};
use crate::linux::apart::Task;
use crate::linux::follow::Follow;
use crate::linux::{self, ControlSide, Mirror, Mode, Namespaces, Port, ReversePath, Twins, keeper};
use crate::run::{ROUTER_BURST, RunOptions, Service};
use crate::toml_file::repeated;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Arguments of `router`.
#[derive(Clone, Debug, Args)]
pub struct RouterArgs {
    /// Linux interfaces; each becomes a port, and a twin of the same name takes its place in Linux
    #[arg(value_name = "PORT", required_unless_present = "settings")]
    ports: Vec<String>,

    /// Take what the command line does not say from this TOML file
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

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

    /// Lose packets whose source no route leads to (loose), or none out of the port that they come from (strict); off = none
    /// as long as the settings say nothing else
    #[arg(long, value_name = "MODE")]
    rpf: Option<ReversePath>,

    /// Have Linux tell senders of a better way than back out of the interface that their packets come in by (ICMP redirects)
    #[arg(long)]
    redirects: bool,

    /// Count packets and bytes of each route, for `show routes`; costs a second look-up of each packet
    #[arg(long)]
    count_routes: bool,

    /// Where the control side runs [default: process]
    #[arg(long, value_name = "MODE")]
    control: Option<Mode>,

    /// Serve handlers, tables and metrics by HTTP; a port alone means 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = http_address)]
    http: Option<SocketAddr>,

    /// Arguments for DPDK's EAL
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    eal: Vec<String>,
}

impl RouterArgs {
    /// Whether there is a file that may change.
    pub(super) fn has_file(&self) -> bool {
        self.settings.is_some()
    }

    /// What the command line says, and the settings file where it says nothing.
    pub(super) fn settings(&self) -> Result<Settings, Reported> {
        let file = self.settings.as_deref().map(Settings::load).transpose()?.unwrap_or_default();
        let given = |here: &Vec<String>, there| if here.is_empty() { there } else { here.clone() };
        let settings = Settings {
            ports: given(&self.ports, file.ports),
            workers: self.workers.workers.or(file.workers),
            cpus: self.cpus.clone().map(|list| list.0).or(file.cpus),
            fpm: self.fpm.or(file.fpm),
            rpf: self.rpf.or(file.rpf),
            redirects: self.redirects || file.redirects,
            count_routes: self.count_routes || file.count_routes,
            control: self.control.or(file.control),
            http: self.http.or(file.http),
            punt: file.punt,
            lookup: file.lookup,
            eal: given(&self.eal, file.eal),
        };
        if let Some((again, _)) = repeated(&settings.ports).next() {
            return Err(failed(format!("port {} is given twice", settings.ports[again])));
        }
        match (&self.settings, settings.ports.is_empty()) {
            (Some(file), true) => Err(failed(format!("{}: no ports are given", file.display()))),
            _ => Ok(settings),
        }
    }
}

/// Arguments of `recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Give interfaces to the current network namespace whose own one is gone
    #[arg(long)]
    here: bool,
}

/// Gives interfaces back that killed routers left.
pub fn recover(args: &RecoverArgs) -> Done {
    linux::recover::recover(args.here).map_err(failed)
}

/// Waits for the end of the router that started this process, and gives back what it left.
pub fn keep() -> Done {
    keeper::keep().map_err(|e| failed(format!("an interface could not be given back to Linux: {e}")))
}

/// How long the first look at the kernel may take before packets flow.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// How a router with these settings runs.
fn options(settings: &Settings, tables: graph::Tables, reloads: bool) -> RunOptions {
    RunOptions {
        workers: settings.workers.unwrap_or(1).into(),
        burst: ROUTER_BURST.into(),
        cpus: settings.cpus.clone().unwrap_or_default(),
        accounting: true,
        simulated: None,
        eal: settings.eal.clone(),
        read: Vec::new(),
        tables,
        reloads,
        service: Arc::new(Service::from_environment()),
    }
}

/// Runs a router until something asks it to stop, then gives the interfaces back.
pub fn router(args: &RouterArgs) -> Done {
    let settings = args.settings()?;
    if !args.print_config {
        linux::recover::before_start();
        linux::check_router(&settings.ports, settings.workers.unwrap_or(1).into()).map_err(failed)?;
    }
    let found = settings.ports.iter().enumerate().map(|(i, name)| Port::find(name, i));
    let mut ports: Vec<Port> = found.collect::<Result<_, _>>().map_err(failed)?;
    linux::find_routes(&mut ports).map_err(|e| failed(format!("cannot read the kernel's routes: {e}")))?;
    let mode = settings.control.unwrap_or_default();
    let text = linux::text(&ports, settings.punt, settings.extras());
    if args.print_config {
        let mut out = Output::stdout();
        out.text(&text);
        return out.done();
    }
    let Configuration { flat, sources, .. } = Configuration::of_text("router", text)?;
    let tables = graph::Tables::new();
    let published = linux::tables(&tables, settings.workers.unwrap_or(1).into());
    let own = linux::own_addresses(&tables);
    let options = options(&settings, tables, args.has_file());
    let namespaces =
        Namespaces::new(&ports).map_err(|e| failed(format!("cannot make a network namespace: {e}")))?;
    let namespaces = Arc::new(namespaces);
    let twins = Twins::take(namespaces.clone(), &ports).map_err(failed)?;
    let lost = Arc::new(AtomicBool::new(false));
    let serve = |router: &Arc<graph::Router>| {
        options.service.status("reading the kernel's routes");
        let (numbers, cables) = twins.hand_over().map_err(|e| format!("cannot make the twins: {e}"))?;
        let mirror = Mirror::start(&namespaces, &ports, &numbers, &router.devices().ports(), &lost)
            .map_err(|e| format!("the twins: {e}"))?;
        let follow = Follow::start(namespaces.clone(), ports.clone()).map_err(|e| e.to_string())?;
        let task = Task {
            router: i32::try_from(std::process::id()).unwrap_or(0),
            private: namespaces.private_file(),
            ports: settings.ports.clone(),
            twins: numbers,
            fpm: settings.fpm,
        };
        let control = Arc::new(ControlSide::start(mode, task, cables, published, &options.service)?);
        control.wait(FIRST_LOOK)?;
        let server = Server::start_with(router.clone(), control.clone()).map_err(|e| e.to_string())?;
        let http = Http::start(router, &control, settings.http).map_err(|e| e.to_string())?;
        let http = Arc::new(Mutex::new(http));
        let reload = Reload::on_signal(router, &control, &http, args, &settings)
            .map_err(|e| format!("SIGHUP: {e}"))?;
        let sockets = linux::Watch::start(router, &settings.ports, own).map_err(|e| e.to_string())?;
        // Devices are closed by this thread, where the ports are: elsewhere drivers would not find them.
        namespaces.enter_private().map_err(|e| e.to_string())?;
        Ok((server, http, control, reload, mirror, sockets, follow))
    };
    // Devices are opened where the ports are.
    namespaces.enter_private().map_err(failed)?;
    let ended = crate::run::run(flat, &sources, &options, serve);
    let back = twins.give_back();
    let back = back.map_err(|e| failed(format!("an interface could not be given back to Linux: {e}")));
    match ended {
        // What was lost has been told.
        Ok(()) if !lost.load(Ordering::Acquire) => back,
        _ => Err(Reported),
    }
}
