//! A private namespace held by a file, with a record of the ports in it beside: if all processes of a router are killed at once, the
//! next start, or `routebricks recover`, finds the interfaces there.
//!
//! ```text
//!   /run/routebricks/ports-PID.netns   the namespace (a bind mount, as `ip netns` makes them); PID is that of the keeper
//!   /run/routebricks/ports-PID.json    who holds it, where the ports came from, and how to give them back
//! ```

use super::Port;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where root's routers have their files.
pub const DIRECTORY: &str = "/run/routebricks";
const RECORD: &str = "json";
const NAMESPACE: &str = "netns";

/// A process: a number may be used again, by one that was started at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    started: u64,
}

impl Process {
    /// The process of this number.
    pub fn of(pid: i32) -> Process {
        Process { pid, started: started(pid).unwrap_or(0) }
    }

    /// Its number.
    pub fn pid(self) -> i32 {
        self.pid
    }

    /// Whether it still runs.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process was started, in ticks since the machine was; `None` if there is none, or it has ended already.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and parentheses. Behind it: state, …; field 22 of all is the time.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(fields.nth(18)?.parse().ok()?)
}

/// A namespace as `stat` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// That of an open namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn of(namespace: &File) -> io::Result<Identity> {
        let found = namespace.metadata()?;
        Ok(Identity { device: found.dev(), inode: found.ino() })
    }
}

/// What is written down.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// The router and its keeper.
    pub processes: [Process; 2],
    /// The namespace where the ports came from.
    pub caller: Identity,
    /// The ports, as they are to be given back.
    pub ports: Vec<Port>,
}

/// Goes where mounts outlive this process: `ip netns exec` and service managers start programs in mount namespaces that end with
/// them. That is where the first process is, or the farthest ancestor of this one that may be looked at. For processes of one thread.
pub fn enter_first_mounts() {
    let mut ancestors = Vec::new();
    let mut pid = i32::try_from(std::process::id()).ok();
    while let Some(of) = pid.filter(|pid| *pid > 0 && !ancestors.contains(pid)) {
        ancestors.push(of);
        pid = parent(of);
    }
    let first = [1].into_iter().chain(ancestors.into_iter().rev());
    for pid in first {
        let path = format!("/proc/{pid}/ns/mnt");
        let is_own = match (fs::read_link(&path), fs::read_link("/proc/self/ns/mnt")) {
            (Ok(its), Ok(own)) => its == own,
            _ => continue,
        };
        if is_own || File::open(&path).is_ok_and(|its| setns(its, CloneFlags::CLONE_NEWNS).is_ok()) {
            return;
        }
    }
}

/// The process that started another, or took its place as its parent.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The files of a namespace that is held.
#[derive(Clone, Debug)]
pub struct Pin(PathBuf);

impl Pin {
    /// Holds the current network namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Pin> {
        DirBuilder::new().mode(0o700).recursive(true).create(DIRECTORY)?;
        let pin = Pin(Path::new(DIRECTORY).join(format!("ports-{}", std::process::id())));
        pin.remove();
        let file = pin.namespace();
        File::create(&file)?;
        let mounted = mount(Some("/proc/self/ns/net"), &file, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        mounted.inspect_err(|_| pin.remove())?;
        Ok(pin)
    }

    /// All that there are.
    pub fn all() -> Vec<Pin> {
        let Ok(entries) = fs::read_dir(DIRECTORY) else { return Vec::new() };
        let records = entries.flatten().map(|entry| entry.path());
        let is_record = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("ports-") && path.extension().is_some_and(|end| end == RECORD)
        };
        records.filter(is_record).map(|path| Pin(path.with_extension(""))).collect()
    }

    /// The file of the namespace.
    pub fn namespace(&self) -> PathBuf {
        self.0.with_extension(NAMESPACE)
    }

    /// What is written down.
    pub fn read(&self) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.0.with_extension(RECORD)).ok()?).ok()
    }

    /// Writes it down: the old text or the new one is there, whatever happens.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let next = self.0.with_extension("new");
        fs::write(&next, serde_json::to_vec(record)?)?;
        fs::rename(next, self.0.with_extension(RECORD))
    }

    /// Lets go of the namespace. That of a file that is not there is nobody's.
    pub fn remove(&self) {
        let _ = umount2(&self.namespace(), MntFlags::MNT_DETACH);
        for end in [NAMESPACE, RECORD, "new"] {
            let _ = fs::remove_file(self.0.with_extension(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_of_its_number() {
        let own = Process::of(i32::try_from(std::process::id()).unwrap());
        assert!(own.lives() && own.started > 0);
        assert!(!Process { started: own.started + 1, ..own }.lives());
        // No process has so high a number.
        assert!(!Process { pid: i32::MAX, started: 0 }.lives());
    }
}
