//! The Unix socket of a running router: `PID.sock` in a directory that only its user can enter.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const NAME: &str = "routebricks";

/// Where this user's routers have their sockets: `/run/routebricks` for root, `$XDG_RUNTIME_DIR/routebricks` for
/// others; `None` if they have no such directory.
pub fn directory() -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Some(Path::new("/run").join(NAME));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty())?;
    Some(PathBuf::from(runtime).join(NAME))
}

/// The sockets of routers that run, with their process numbers.
pub fn running(directory: &Path) -> Vec<(u32, PathBuf)> {
    let mut found: Vec<_> =
        sockets(directory).into_iter().filter(|(_, path)| UnixStream::connect(path).is_ok()).collect();
    found.sort();
    found
}

fn sockets(directory: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let pid = |path: &Path| path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok();
    entries.flatten().map(|e| e.path()).filter_map(|path| Some((pid(&path)?, path))).collect()
}

/// A socket's file, removed when dropped.
#[derive(Debug)]
pub struct Bound(PathBuf);

impl Bound {
    /// Where it is.
    #[cfg(test)]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // If somebody else removed it there is nothing left to do.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the socket of this process; `None` if that is not possible.
pub fn bind(directory: &Path) -> Option<(UnixListener, Bound)> {
    // Whoever may enter the directory may write to handlers.
    DirBuilder::new().mode(0o700).recursive(true).create(directory).ok()?;
    remove_left_over(directory);
    let path = directory.join(format!("{}.sock", std::process::id()));
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).ok()?;
    Some((listener, Bound(path)))
}

/// Removes sockets of processes that were killed.
fn remove_left_over(directory: &Path) {
    for (pid, path) in sockets(directory) {
        let is_dead = !Path::new("/proc").join(pid.to_string()).exists();
        if is_dead && UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_over_sockets_go_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        // No process has so high a number (PID_MAX_LIMIT is 2^22).
        let dead = dir.path().join("4294967295.sock");
        drop(UnixListener::bind(&dead).unwrap());
        fs::write(dir.path().join("x.sock"), "").unwrap();
        let (_listener, bound) = bind(dir.path()).unwrap();
        assert!(!dead.exists() && dir.path().join("x.sock").exists());
        assert_eq!(running(dir.path()), [(std::process::id(), bound.path().to_owned())]);
        drop(bound);
        assert_eq!(running(dir.path()), []);
    }
}
