//! The directory in which DPDK keeps an instance's files, and what killed processes left of theirs.
//!
//! A process that lives holds a lock on a file in its directory; the system takes the lock away when it ends, however
//! it ends. So a directory may go when its process is gone and its lock can be had. Whoever got a lock looks whether
//! the file is still in place: if not, somebody else was faster.

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getuid};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What our directories are called, with the process id behind it.
const PREFIX: &str = "routebricks-";
/// The file in a directory that its owner has locked.
const LOCK: &str = "routebricks.lock";
/// How often the lock of the own directory is asked for, a millisecond apart: whoever sweeps has it that long.
const TRIES: u32 = 1000;

/// The directory of this process. Removed when dropped.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    // Kept for its lock; without one the directory is as safe as the process id says.
    _lock: Option<File>,
}

/// The prefix of DPDK's files that is this process's own.
pub(crate) fn own_prefix() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Where DPDK puts the directories of all instances of this user.
pub(crate) fn base() -> PathBuf {
    let from = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let run = getuid().is_root().then(|| PathBuf::from("/var/run"));
    let dir = from("RUNTIME_DIRECTORY").or(run).or_else(|| from("XDG_RUNTIME_DIR"));
    dir.unwrap_or_else(|| PathBuf::from("/tmp")).join("dpdk")
}

impl RuntimeDir {
    /// Makes the directory of this process in `base` before DPDK does, and locks it.
    pub(crate) fn claim(base: &Path) -> RuntimeDir {
        let path = base.join(own_prefix());
        let made = DirBuilder::new().mode(0o700).recursive(true).create(base);
        let lock = made.ok().and_then(|()| lock_own(&path));
        RuntimeDir { path, _lock: lock }
    }

    /// Takes the directory away.
    pub(crate) fn remove(&self) {
        // Already gone is fine, and there is nobody to tell if it is not.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Makes and locks the directory, which somebody may be sweeping away: an earlier process had the same number.
fn lock_own(path: &Path) -> Option<File> {
    for _ in 0..TRIES {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        match lock(path) {
            Ok(Some(file)) => return Some(file),
            Err(error) if error.kind() != ErrorKind::NotFound => return None,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// The locked file of a directory; `None` if somebody else has the lock, or had it and swept.
fn lock(dir: &Path) -> std::io::Result<Option<File>> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path)?;
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let (ours, there) = (file.metadata()?, fs::symlink_metadata(&path)?);
    Ok(((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then_some(file))
}

/// Removes the directories in `base` whose processes are gone.
pub(crate) fn sweep(base: &Path) {
    // What cannot be looked at stays.
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        let Some(process) = owner(&entry.file_name()).filter(|_| is_dir) else { continue };
        // Asked first: a process that is just starting may not have its lock yet.
        if lives(process) {
            continue;
        }
        if let Ok(Some(lock)) = lock(&entry.path()) {
            // What stays is tried again at the next start.
            let _ = remove_locked(&entry.path());
            drop(lock);
        }
    }
}

/// Removes a directory whose lock the caller has. The locked file goes last: who claims the directory meanwhile makes
/// a new one, which nobody takes away, and with it the directory stays.
fn remove_locked(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(dir.join(LOCK))?;
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        done => done,
    }
}

/// The process whose directory would be called so.
fn owner(name: &OsStr) -> Option<libc::pid_t> {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
    let number = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
    number.parse().ok().filter(|&n| n > 0)
}

/// True if there is a process of this number.
fn lives(process: libc::pid_t) -> bool {
    kill(Pid::from_raw(process), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The number of a process that has just ended.
    fn gone() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn names(base: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(base).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_the_dead_left_goes() {
        let base = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("dpdk_telemetry.v2"), "").unwrap();
            path
        };
        let (old, locked, own) = (gone(), gone(), std::process::id());
        dir(&format!("routebricks-{old}"));
        let held = lock(&dir(&format!("routebricks-{locked}"))).unwrap().unwrap();
        let mut stay = vec![format!("routebricks-{locked}"), format!("routebricks-{own}")];
        dir(&format!("routebricks-{own}"));
        for other in ["rte", "routebricks-", "routebricks-x1", "routebricks-0", "routebricks-99999999999"] {
            dir(other);
            stay.push(other.to_owned());
        }
        // Neither files nor links are ours, whatever they are called.
        let (file, link) = (format!("routebricks-{}", gone()), format!("routebricks-{}", gone()));
        fs::write(base.path().join(&file), "").unwrap();
        std::os::unix::fs::symlink(base.path().join("rte"), base.path().join(&link)).unwrap();
        stay.extend([file, link]);
        stay.sort();
        sweep(base.path());
        assert_eq!(names(base.path()), stay);
        drop(held);
        sweep(base.path());
        stay.retain(|name| *name != format!("routebricks-{locked}"));
        assert_eq!(names(base.path()), stay);
        assert!(base.path().join("rte/dpdk_telemetry.v2").exists());
    }

    #[test]
    fn a_directory_of_the_same_number_is_taken_over() {
        let parent = tempfile::tempdir().unwrap();
        let base = parent.path().join("dpdk");
        let own = RuntimeDir::claim(&base);
        assert!(lock(&own.path).unwrap().is_none(), "it is locked");
        drop(own);
        assert_eq!(names(&base), [""; 0]);
        // Somebody sweeps while we come: between any two of its steps we may be there.
        let path = base.join(own_prefix());
        for wait_us in (0..3000).step_by(100) {
            fs::create_dir(&path).unwrap();
            fs::create_dir(path.join("left")).unwrap();
            fs::write(path.join("dpdk_telemetry.v2"), "").unwrap();
            let sweeping = lock(&path).unwrap().unwrap();
            let ours = std::thread::scope(|scope| {
                let ours = scope.spawn(|| RuntimeDir::claim(&base));
                std::thread::sleep(Duration::from_micros(wait_us));
                remove_locked(&path).unwrap();
                drop(sweeping);
                ours.join().unwrap()
            });
            assert!(ours._lock.is_some() && path.join(LOCK).exists());
            assert_eq!(names(&path), [LOCK], "what was left is gone, the lock is there");
            assert!(lock(&path).unwrap().is_none(), "it is locked");
        }
    }
}
