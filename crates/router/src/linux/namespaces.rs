//! The caller's network namespace, where Linux routes, and a private one, where the ports are.

use super::Port;
use super::keeper::Keeper;
use ::io::say;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Both namespaces. The calling thread is in the caller's unless it says otherwise.
#[derive(Debug)]
pub struct Namespaces {
    caller: File,
    private: File,
    /// Kept to hold the private one; without it the router works as long as nobody kills it.
    keepers: Mutex<Vec<Keeper>>,
    /// Ports as they are to be given back.
    latest: Mutex<Vec<Port>>,
}

impl Namespaces {
    /// Makes a private namespace for these ports, in which Linux says nothing on its own.
    ///
    /// # Errors
    /// Those of the system; namespaces need root.
    pub fn new(ports: &[Port]) -> io::Result<Namespaces> {
        let current = || File::open("/proc/thread-self/ns/net");
        let caller = current()?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        let private = current().inspect(|_| {
            for which in ["all", "default"] {
                // A kernel without IPv6 says nothing anyway.
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
            }
        });
        let keeper = keeper(&caller, ports);
        setns(&caller, CloneFlags::CLONE_NEWNET)?;
        Ok(Namespaces {
            caller,
            private: private?,
            keepers: Mutex::new(keeper.into_iter().collect()),
            latest: Mutex::default(),
        })
    }

    /// Further ports are to be given back in any case. The calling thread is in the caller's namespace afterwards.
    ///
    /// # Errors
    /// Those of the system.
    pub fn keep(&self, ports: &[Port]) -> io::Result<()> {
        self.enter_private()?;
        let keeper = keeper(&self.caller, ports);
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).extend(keeper);
        self.enter_caller()
    }

    /// The current namespace as the caller's, and a private one that another process holds.
    ///
    /// # Errors
    /// Those of the system.
    pub fn beside(private: File) -> io::Result<Namespaces> {
        Ok(Namespaces {
            caller: File::open("/proc/thread-self/ns/net")?,
            private,
            keepers: Mutex::default(),
            latest: Mutex::default(),
        })
    }

    /// How the ports are to be given back from now on.
    pub fn record(&self, ports: &[Port]) {
        ports.clone_into(&mut self.latest.lock().unwrap_or_else(PoisonError::into_inner));
        for keeper in &mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner) {
            keeper.tell(ports);
        }
    }

    /// How these ports are to be given back, as far as anything is known that is newer.
    pub fn latest(&self, ports: &[Port]) -> Vec<Port> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = |port: &Port| latest.iter().find(|newer| newer.name == port.name).unwrap_or(port).clone();
        ports.iter().map(newer).collect()
    }

    /// Puts the calling thread into the private namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn enter_private(&self) -> io::Result<()> {
        Ok(setns(&self.private, CloneFlags::CLONE_NEWNET)?)
    }

    /// Puts the calling thread into the caller's namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn enter_caller(&self) -> io::Result<()> {
        Ok(setns(&self.caller, CloneFlags::CLONE_NEWNET)?)
    }

    /// The caller's, as an open file.
    pub fn caller(&self) -> &File {
        &self.caller
    }

    /// The private one, as a file that other processes can open.
    pub fn private_file(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.private()))
    }

    /// The private one, as an open file.
    pub fn private(&self) -> RawFd {
        self.private.as_raw_fd()
    }
}

/// Who gives the ports back if this process is killed; started in the namespace where they are.
fn keeper(caller: &File, ports: &[Port]) -> Option<Keeper> {
    let keeper = Keeper::start(caller, ports);
    let warn = |e: &io::Error| {
        say!("warning: if this process is killed, virtual interfaces among the ports are lost: {e}");
    };
    keeper.inspect_err(warn).ok()
}
