//! The control side of a router: a thread of it, or a process of its own.

use super::apart::{Report, Task};
use super::supervise::{Seen, Supervisor};
use crate::api::Controlled;
use crate::run::Service;
use control::{Cables, Control, Handle, Settings, Source, Tables};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the control side runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// In a process of its own, which can end and be started again while packets flow. It has a second copy of the routes.
    #[default]
    Process,
    /// In a thread of the router, which a fault in it ends as well.
    Thread,
}

/// A running one; dropping it ends it.
pub enum ControlSide {
    /// A thread of this process, and since when.
    Thread(Handle, Instant),
    /// A process of its own.
    Process(Supervisor),
}

impl ControlSide {
    /// Starts it, from the network namespace of the twins. `cables` are for a thread.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn start(
        mode: Mode,
        task: Task,
        cables: Cables,
        tables: Tables,
        service: &Arc<Service>,
    ) -> Result<ControlSide, String> {
        match mode {
            Mode::Thread => {
                let source = task.fpm.map_or(Source::Kernel, Source::Fpm);
                let settings = Settings { ports: task.twins, source, buffer: Settings::BUFFER };
                let handle = Control::start(&settings, Some(cables), tables);
                Ok(ControlSide::Thread(handle.map_err(|e| format!("netlink: {e}"))?, Instant::now()))
            }
            Mode::Process => {
                let supervisor = Supervisor::start(task, tables, service.clone());
                Ok(ControlSide::Process(supervisor.map_err(|e| format!("control side: {e}"))?))
            }
        }
    }

    /// Takes routes from zebra, which connects there, or from the kernel.
    ///
    /// # Errors
    /// What to tell the user; then they come from where they came from.
    pub fn set_fpm(&self, fpm: Option<SocketAddr>, limit: Duration) -> Result<(), String> {
        match self {
            ControlSide::Thread(..) => Err("a thread cannot be started again".to_owned()),
            ControlSide::Process(supervisor) => supervisor.set_fpm(fpm, limit),
        }
    }

    /// Waits until everything that the kernel has is in the tables.
    ///
    /// # Errors
    /// What to tell the user if that takes longer than `limit`.
    pub fn wait(&self, limit: Duration) -> Result<(), String> {
        match self {
            ControlSide::Thread(handle, _) => {
                let read = handle.wait_for_kernel(limit);
                read.then_some(()).ok_or_else(|| "the kernel's routes cannot be read".to_owned())
            }
            ControlSide::Process(supervisor) => supervisor.wait(limit),
        }
    }
}

impl Controlled for ControlSide {
    fn row(&self) -> Value {
        let (mode, pid, since, starts, in_step, last_end, report) = match self {
            ControlSide::Thread(handle, since) => {
                let status = handle.status();
                ("thread", Some(std::process::id()), *since, 1, true, None, Report::of(status, 0))
            }
            ControlSide::Process(supervisor) => {
                let Seen { pid, since, starts, in_step, last_end, report, .. } = supervisor.seen();
                ("process", pid, since, starts, in_step, last_end, report)
            }
        };
        let status = report.status;
        let state = match () {
            () if pid.is_none() => "ended",
            () if !in_step => "starting",
            () if !status.kernel => "reading again",
            () if !status.synced => "waiting for FRR",
            () => "in step",
        };
        json!({
            "runs_as": mode,
            "state": state,
            "pid": pid,
            "since_s": since.elapsed().as_secs(),
            "starts": starts,
            "restarts": starts.saturating_sub(1),
            "synced": state == "in step",
            "last_end": last_end,
            "version": report.version,
            "netlink_messages": status.netlink.messages,
            "netlink_dumps": status.netlink.dumps,
            "netlink_overruns": status.netlink.overruns,
            "fpm_messages": status.fpm_messages,
            "route_changes": status.publish.route_changes,
            "adjacency_changes": status.publish.adjacency_changes,
        })
    }

    fn restart(&self) -> Result<(), String> {
        match self {
            ControlSide::Thread(..) => {
                Err("the control side is a thread of this router (control = \"thread\")".to_owned())
            }
            ControlSide::Process(supervisor) => {
                supervisor.restart();
                Ok(())
            }
        }
    }
}
