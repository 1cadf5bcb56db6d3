//! Our control side in this process: in a thread that changes the tables, or in threads that do all that a process of its
//! own and its router do, over a Unix socket.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use control::replicate::apart::{Reins, Side, follow};
use control::replicate::{Log, Replica};
use control::{Control, Handle, Settings, Tables};
use lab::{Context, Error, Result};

/// Where the control side runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Thread,
    Process,
}

/// Both, for tests that compare them.
pub const MODES: [Mode; 2] = [Mode::Thread, Mode::Process];

/// A running control side, and the tables that workers read.
pub struct Ours {
    pub handle: Arc<Handle>,
    pub tables: Tables,
    log: Option<Arc<Log>>,
    reins: Option<Arc<Reins>>,
}

impl Ours {
    /// Starts it in the current network namespace.
    pub fn start(mode: Mode, settings: &Settings, tables: Tables) -> Result<Ours> {
        if mode == Mode::Thread {
            let handle = Control::start(settings, None, tables.clone()).cannot(|| "listen".to_owned())?;
            return Ok(Ours { handle: Arc::new(handle), tables, log: None, reins: None });
        }
        let (ours, theirs) = UnixStream::pair().cannot(|| "make a socket".to_owned())?;
        let reins = Arc::new(Reins::new().cannot(|| "make reins".to_owned())?);
        let (mut replica, its) = (Replica::new(tables.clone()), reins.clone());
        thread::spawn(move || follow(ours, &mut replica, &its, |_, _| {}));
        let side = Side::open(theirs).map_err(|error| Error::new(error.to_string()))?;
        let log = side.log().clone();
        let handle = Arc::new(Control::start_apart(settings, None, &log).cannot(|| "listen".to_owned())?);
        thread::spawn(move || side.serve(|| Some(b"{}".to_vec())));
        Ok(Ours { handle, tables, log: Some(log), reins: Some(reins) })
    }

    /// Waits until the tables have everything that there is; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        let is_complete = self.handle.wait(limit);
        while !self.has_all() {
            if begun.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        is_complete
    }

    fn has_all(&self) -> bool {
        self.log.as_ref().is_none_or(|log| {
            let (theirs, ours) = (log.tables(), &self.tables);
            theirs.routes4.len() == ours.routes4.len() && theirs.routes6.len() == ours.routes6.len()
        })
    }

    /// Bytes of changes that are kept for whoever follows; there is a bound.
    pub fn kept(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.ring().size().1 as u64)
    }

    /// As [`wait`](Self::wait), by comparing every IPv4 route.
    pub fn has_same_routes(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.tables().routes4.routes() == self.tables.routes4.routes())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(reins) = &self.reins {
            reins.pull();
        }
    }
}
