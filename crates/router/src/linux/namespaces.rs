//! The caller's network namespace, where Linux routes, and a private one, where the ports are.

use super::Port;
use super::keeper::Keeper;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;

/// Both namespaces. The calling thread is in the caller's unless it says otherwise.
#[derive(Debug)]
pub struct Namespaces {
    caller: File,
    private: File,
    /// Kept to hold the private one; without it the router works as long as nobody kills it.
    _keeper: Option<Keeper>,
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
        let keeper = Keeper::start(&caller, ports).inspect_err(|e| {
            eprintln!("warning: if this process is killed, virtual interfaces among the ports are lost: {e}");
        });
        setns(&caller, CloneFlags::CLONE_NEWNET)?;
        Ok(Namespaces { caller, private: private?, _keeper: keeper.ok() })
    }

    /// The current namespace as the caller's, and a private one that another process holds.
    ///
    /// # Errors
    /// Those of the system.
    pub fn beside(private: File) -> io::Result<Namespaces> {
        Ok(Namespaces { caller: File::open("/proc/thread-self/ns/net")?, private, _keeper: None })
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
