//! One node, in a process of its own: what its supervisor tells it, and what it does.

use super::carriers::{Carriers, Remote};
use super::orders::{self, Post};
use super::tables::{self, Replication};
use crate::api::Server;
use crate::cli::failed;
use crate::config::{Configuration, Reported};
use crate::linux::{self, Namespaces, Port};
use crate::run::{RunOptions, Service};
use control::link::link;
use control::replicate::Log;
use control::{Cables, Control, Settings, Source};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The command that such a process runs; nobody types it.
pub const COMMAND: &str = "cluster-node";

/// How long the first look at the kernel may take before packets flow.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// What a node is told, as a line of JSON on its standard input. What follows are [`super::orders`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Task {
    /// What it is called.
    pub node: String,
    /// The process that started it; without that it ends.
    pub supervisor: i32,
    /// The network namespace with its interfaces, as a file.
    pub namespace: PathBuf,
    /// Its configuration.
    pub text: String,
    /// Arguments for DPDK's EAL.
    pub eal: Vec<String>,
    /// How it comes to its tables.
    pub replication: Replication,
    /// The twins of all lines of the cluster, if this is the control node.
    pub twins: Option<Vec<Twin>>,
}

/// A line's twin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Twin {
    /// The line's number.
    pub line: usize,
    /// Its tap, and what becomes of that.
    pub port: Port,
    /// The node that has the line.
    pub node: usize,
    /// The interface of the line, if the control node itself has it.
    pub device: Option<String>,
}

/// Reads what is to be done, and does it until something asks to stop.
///
/// # Errors
/// What was wrong was printed.
pub fn run() -> Result<(), Reported> {
    let mut text = String::new();
    io::stdin().lock().read_line(&mut text).map_err(failed)?;
    let task: Task = serde_json::from_str(&text)
        .map_err(|e| failed(format_args!("{COMMAND} is started by `cluster up`: {e}")))?;
    set_pdeathsig(Signal::SIGKILL).map_err(failed)?;
    if getppid().as_raw() != task.supervisor {
        return Err(failed("who started this node is gone"));
    }
    let private =
        File::open(&task.namespace).map_err(|e| failed(format_args!("the node's namespace: {e}")))?;
    let namespaces = Arc::new(Namespaces::beside(private).map_err(failed)?);
    let Configuration { flat, sources, .. } = Configuration::of_text(&task.node, task.text.clone())?;
    let shared = graph::Tables::new();
    let published = linux::tables(&shared);
    let options = RunOptions {
        workers: 1,
        burst: 64,
        cpus: Vec::new(),
        simulated: None,
        eal: task.eal.clone(),
        read: Vec::new(),
        tables: shared,
        service: Arc::new(Service::from_environment()),
    };
    let serve = |router: &Arc<graph::Router>| {
        namespaces.enter_caller().map_err(|e| e.to_string())?;
        let replica = tables::start(&task.replication, &published, &options.service)?;
        let control = task.twins.as_deref().zip(replica.log.as_ref()).map(|(twins, log)| {
            options.service.status("reading the kernel's routes");
            control(&namespaces, router, twins, log)
        });
        let (handle, carriers) = control.transpose()?.unzip();
        let server = Server::start(router.clone(), router.devices().ports(), None);
        // Devices are closed by this thread, and attached by one that it starts: where the ports are.
        namespaces.enter_private().map_err(|e| e.to_string())?;
        let running = orders::Running {
            router: router.clone(),
            namespaces: namespaces.clone(),
            service: options.service.clone(),
            control: handle,
            carriers,
            replica,
        };
        let post = Post::open(running).map_err(|e| e.to_string())?;
        Ok((post, server.map_err(|e| e.to_string())?))
    };
    // Devices are opened where the ports are.
    namespaces.enter_private().map_err(failed)?;
    crate::run::run(flat, &sources, &options, serve).map_err(|_| Reported)
}

/// Hands the twins over to Linux, and follows what it does with them. The calling thread is in the caller's namespace
/// afterwards.
fn control(
    namespaces: &Namespaces,
    router: &Arc<graph::Router>,
    twins: &[Twin],
    log: &Arc<Log>,
) -> Result<(control::Handle, Carriers), String> {
    let hand_over = || -> io::Result<(Vec<u32>, Cables)> {
        namespaces.enter_private()?;
        let own = twins.iter().filter_map(|twin| Some((twin.line, twin.device.as_deref()?)));
        let own =
            own.map(|(line, device)| Ok((link(device)?.index, line))).collect::<io::Result<Vec<_>>>()?;
        let cables = Cables::open_some(own)?;
        let ports: Vec<Port> = twins.iter().map(|twin| twin.port.clone()).collect();
        Ok((linux::hand_over(namespaces, &ports)?, cables))
    };
    let (numbers, cables) = hand_over().map_err(|e| format!("cannot make the twins: {e}"))?;
    let mut ports = vec![0; twins.iter().map(|twin| twin.line + 1).max().unwrap_or(0)];
    for (twin, number) in twins.iter().zip(&numbers) {
        ports[twin.line] = *number;
    }
    let settings = Settings { ports, source: Source::Kernel, buffer: Settings::BUFFER };
    let control = Control::start_replicated(&settings, Some(cables), log);
    let control = control.map_err(|e| format!("netlink: {e}"))?;
    if !control.wait(FIRST_LOOK) {
        return Err("the kernel's routes cannot be read".to_owned());
    }
    let remote = twins.iter().zip(&numbers).filter(|(twin, _)| twin.device.is_none());
    let remote = remote.map(|(twin, number)| Remote { node: twin.node, twin: *number }).collect();
    let carriers = Carriers::keep(router, remote).map_err(|e| e.to_string())?;
    Ok((control, carriers))
}
