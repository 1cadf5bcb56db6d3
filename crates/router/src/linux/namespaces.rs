//! The caller's network namespace, where Linux routes, and a private one, where the ports are.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Both namespaces. The calling thread is in the caller's unless it says otherwise.
#[derive(Debug)]
pub struct Namespaces {
    caller: File,
    private: File,
}

impl Namespaces {
    /// Makes a private namespace in which Linux says nothing on its own.
    ///
    /// # Errors
    /// Those of the system; namespaces need root.
    pub fn new() -> io::Result<Namespaces> {
        let current = || File::open("/proc/thread-self/ns/net");
        let caller = current()?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        let private = current().inspect(|_| {
            for which in ["all", "default"] {
                // A kernel without IPv6 says nothing anyway.
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
            }
        });
        setns(&caller, CloneFlags::CLONE_NEWNET)?;
        Ok(Namespaces { caller, private: private? })
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
    pub fn caller(&self) -> RawFd {
        self.caller.as_raw_fd()
    }

    /// The private one, as an open file.
    pub fn private(&self) -> RawFd {
        self.private.as_raw_fd()
    }
}
