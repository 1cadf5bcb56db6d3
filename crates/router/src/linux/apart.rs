//! The process of the control side: what the router tells it, and what it does.

use crate::cli::failed;
use crate::config::Reported;
use control::link::link;
use control::replicate::Log;
use control::replicate::apart::{ChannelError, Side};
use control::{Cables, Control, Handle, Settings, Source, Status};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The command that such a process runs; nobody types it.
pub const COMMAND: &str = "control-side";
/// What `top` shows of it.
const PROCESS_NAME: &CStr = c"control-side";
/// A thread that has not looked around for so long hangs; it does so once a second.
const HANGS: Duration = Duration::from_secs(30);

/// What the process is told, as JSON on its standard input. Its standard output is the socket to the router.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The router's process; without that it ends.
    pub router: i32,
    /// The network namespace of the ports, as a file.
    pub private: PathBuf,
    /// The names of the ports there.
    pub ports: Vec<String>,
    /// Interface numbers of the twins, by port.
    pub twins: Vec<u32>,
    /// Where zebra connects, if routes come from FRR.
    pub fpm: Option<SocketAddr>,
}

/// How the control side gets on, as it tells the router.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The version of its program.
    pub version: String,
    /// Whoever has come so far in its log has everything that is told of here.
    pub position: u64,
    /// What its thread has done.
    #[serde(flatten)]
    pub status: Status,
}

impl Report {
    /// As this program gets on; `position` is that after the status.
    pub fn of(status: Status, position: u64) -> Report {
        Report { version: env!("CARGO_PKG_VERSION").to_owned(), position, status }
    }
}

/// Reads what is to be done, and does it until the router is gone.
///
/// # Errors
/// What was wrong was printed.
pub fn run() -> Result<(), Reported> {
    ::io::tell_panics();
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(failed)?;
    let task: Task = serde_json::from_slice(&text)
        .map_err(|e| failed(format_args!("{COMMAND} is started by `routebricks router`: {e}")))?;
    set_pdeathsig(Signal::SIGKILL).map_err(failed)?;
    // It was started from a link of the kernel's, whose name says nothing.
    let _ = set_name(PROCESS_NAME);
    if getppid().as_raw() != task.router {
        return Err(failed("the router is gone"));
    }
    let stream = io::stdout().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(failed)?;
    let cables = cables(&task.private, &task.ports)
        .map_err(|e| failed(format_args!("control: cannot listen to the ports: {e}")))?;
    let side = match Side::open(stream) {
        Err(ChannelError::Closed) => return Ok(()),
        opened => opened.map_err(|e| failed(format_args!("control: {e}")))?,
    };
    let source = task.fpm.map_or(Source::Kernel, Source::Fpm);
    let settings = Settings { ports: task.twins, source, buffer: Settings::BUFFER };
    let handle = Control::start_apart(&settings, Some(cables), side.log());
    let handle = handle.map_err(|e| match task.fpm {
        Some(address) => failed(format_args!("control: netlink, or FPM at {address}: {e}")),
        None => failed(format_args!("control: netlink: {e}")),
    })?;
    let log = side.log().clone();
    let mut alive = Alive { rounds: 0, since: Instant::now() };
    match side.serve(|| alive.report(&handle, &log)) {
        Ok(()) | Err(ChannelError::Closed) => Ok(()),
        Err(e) => Err(failed(format_args!("control: {e}"))),
    }
}

/// Listens to the carriers of the ports, in their namespace. The router itself asks them, and tells by their twins.
fn cables(private: &Path, ports: &[String]) -> io::Result<Cables> {
    let (own, private) = (File::open("/proc/thread-self/ns/net")?, File::open(private)?);
    setns(&private, CloneFlags::CLONE_NEWNET)?;
    let numbers = ports.iter().map(|name| Ok(link(name)?.index)).collect::<io::Result<Vec<u32>>>();
    let cables = numbers.and_then(|numbers| Cables::listen(&numbers));
    setns(&own, CloneFlags::CLONE_NEWNET)?;
    cables
}

/// Whether the control side's thread gets on.
struct Alive {
    rounds: u64,
    since: Instant,
}

impl Alive {
    /// What the router is told; nothing if the thread hangs, so that the router ends this process.
    fn report(&mut self, handle: &Handle, log: &Log) -> Option<Vec<u8>> {
        let status = handle.status();
        if status.rounds != self.rounds {
            *self = Alive { rounds: status.rounds, since: Instant::now() };
        }
        let lives = self.since.elapsed() < HANGS;
        let report = Report::of(status, log.ring().position());
        lives.then(|| serde_json::to_vec(&report).unwrap_or_default())
    }
}
