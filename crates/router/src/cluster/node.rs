//! One node, in a process of its own: what its supervisor tells it, and what it does.

use super::election::{Decision, Elections};
use super::office::{Clerk, Office, State};
use super::orders::{self, Post};
use super::tables::Replication;
use crate::api::Server;
use crate::cli::failed;
use crate::config::{Configuration, Reported};
use crate::linux::{self, Namespaces, Port};
use crate::run::{ROUTER_BURST, RunOptions, Service};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The command that such a process runs; nobody types it.
pub const COMMAND: &str = "cluster-node";

/// So long a node that starts waits for its first tables. Without them it starts all the same.
const FIRST: Duration = Duration::from_secs(10);

/// What a node is told, as a line of JSON on its standard input. What follows are [`super::orders`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Task {
    /// What it is called.
    pub node: String,
    /// Its number.
    pub number: usize,
    /// The process that started it; without that it ends.
    pub supervisor: i32,
    /// The network namespace with its interfaces, as a file.
    pub namespace: PathBuf,
    /// Its configuration.
    pub text: String,
    /// Arguments for DPDK's EAL.
    pub eal: Vec<String>,
    /// Its workers, and the processors to bind them to.
    pub workers: usize,
    pub cpus: Vec<usize>,
    /// How it comes to its tables.
    pub replication: Replication,
    /// The twins of all lines of the cluster, if this is, or can become, the control node.
    pub twins: Vec<Twin>,
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
    /// The interface of the line, on that node.
    pub device: String,
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
    let published = linux::tables(&shared, task.workers);
    let options = RunOptions {
        workers: task.workers,
        burst: ROUTER_BURST.into(),
        cpus: task.cpus.clone(),
        accounting: true,
        simulated: None,
        eal: task.eal.clone(),
        read: Vec::new(),
        tables: shared,
        reloads: false,
        service: Arc::new(Service::from_environment()),
    };
    let serve = |router: &Arc<graph::Router>| {
        let state = State::new(task.twins.clone(), task.replication.others.clone());
        let office = Arc::new(Office {
            me: task.number,
            router: router.clone(),
            namespaces: namespaces.clone(),
            service: options.service.clone(),
            tables: published.clone(),
            replication: task.replication.clone(),
            standing: Arc::default(),
            state: Mutex::new(state),
        });
        let part = take_part(&office)?;
        let server = Server::start(router.clone(), router.devices().ports(), None);
        // Devices are closed by this thread, and attached by one that it starts: where the ports are.
        namespaces.enter_private().map_err(|e| e.to_string())?;
        let running = orders::Running { router: router.clone(), service: options.service.clone(), office };
        let post = Post::open(running).map_err(|e| e.to_string())?;
        Ok((post, part, server.map_err(|e| e.to_string())?))
    };
    // Devices are opened where the ports are.
    namespaces.enter_private().map_err(failed)?;
    crate::run::run(flat, &sources, &options, serve).map_err(|_| Reported)
}

/// What takes part for this node, in the order in which it ends.
struct Part {
    office: Arc<Office>,
    clerk: Option<Clerk>,
    _elections: Option<Elections>,
}

impl Drop for Part {
    fn drop(&mut self) {
        match self.clerk.take() {
            Some(clerk) => drop(clerk),
            None => self.office.end(),
        }
    }
}

/// Becomes control node, or follows it: the one that it always is, or the one that is elected, now and later. The calling
/// thread is in either namespace afterwards.
fn take_part(office: &Arc<Office>) -> Result<Part, String> {
    let Replication { name, control, address, candidacy, .. } = &office.replication;
    let Some(candidacy) = candidacy else {
        office.become_what(&match name == control {
            true => Decision::Control(0),
            false => Decision::Follow { node: 0, name: control.clone(), address: *address, term: 0 },
        })?;
        office.service.status("waiting for tables");
        office.wait(FIRST);
        return Ok(Part { office: office.clone(), clerk: None, _elections: None });
    };
    let (decisions, decided) = channel();
    office.namespaces.enter_caller().map_err(|e| e.to_string())?;
    let elections =
        Elections::start(candidacy.clone(), office.standing.clone(), office.service.clone(), decisions)?;
    office.namespaces.enter_private().map_err(|e| e.to_string())?;
    let clerk = Clerk::start(office.clone(), decided).map_err(|e| e.to_string())?;
    office.service.status("waiting for an election");
    office.wait(FIRST);
    Ok(Part { office: office.clone(), clerk: Some(clerk), _elections: Some(elections) })
}
