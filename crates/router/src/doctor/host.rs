//! The machine, as files under a root; tests make one of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A machine.
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine that this runs on.
    pub fn this() -> Host {
        Host { root: PathBuf::from("/") }
    }

    /// What looks like a machine under a directory.
    #[cfg(test)]
    pub fn at(root: &Path) -> Host {
        Host { root: root.to_owned() }
    }

    /// The path of a file of the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without the space around it; `None` if it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|t| t.trim().to_owned())
    }

    /// A file's bytes; `None` if it cannot be read.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    /// The names in a directory, in order; none if it cannot be read.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last part of what a link points to.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// True if there is such a file.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// True if this process may read and write the file.
    pub fn is_writable(&self, path: &str) -> bool {
        let flags = nix::unistd::AccessFlags::R_OK | nix::unistd::AccessFlags::W_OK;
        nix::unistd::access(&self.path(path), flags).is_ok()
    }

    /// What a program prints, if it is there and succeeds.
    pub fn run(&self, program: &str, args: &[&str]) -> Option<String> {
        if self.root != Path::new("/") {
            return None;
        }
        let output = Command::new(program).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
