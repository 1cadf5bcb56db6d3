//! etcd, a store with leases: one member, on the loopback interface of a namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::netns::{Namespace, missing_program};
use crate::process::Process;
use crate::{Context, Result};

/// How long it may take to come up, or to end.
const LIMIT: Duration = Duration::from_secs(30);

/// A member that runs, or has run.
#[derive(Debug)]
pub struct Etcd {
    directory: PathBuf,
    process: Process,
}

impl Etcd {
    /// Where it listens.
    pub const ENDPOINT: &'static str = "http://127.0.0.1:2379";

    /// Prints why and gives true if it is not installed.
    pub fn skipped() -> bool {
        let missing = missing_program(&["etcd"]).is_some();
        if missing {
            println!("skipped: there is no etcd");
        }
        missing
    }

    /// Starts it, with its data in a directory of its own below this one.
    pub fn start(namespace: &Namespace, directory: &Path) -> Result<Etcd> {
        let directory = directory.join("etcd");
        fs::create_dir_all(&directory).cannot(|| format!("make {}", directory.display()))?;
        let process = run(namespace, &directory)?;
        Ok(Etcd { directory, process })
    }

    /// Kills it, which it survives.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again with what it knew.
    pub fn start_again(&mut self, namespace: &Namespace) -> Result<()> {
        self.process = run(namespace, &self.directory)?;
        Ok(())
    }
}

fn run(namespace: &Namespace, directory: &Path) -> Result<Process> {
    let data = directory.join("data").display().to_string();
    let peer = "http://127.0.0.1:2380";
    let words = [
        ["--data-dir", &data],
        ["--listen-client-urls", Etcd::ENDPOINT],
        ["--advertise-client-urls", Etcd::ENDPOINT],
        ["--listen-peer-urls", peer],
        ["--initial-advertise-peer-urls", peer],
        ["--initial-cluster", "default=http://127.0.0.1:2380"],
    ];
    let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
    let mut process = Process::start(namespace, "etcd", "etcd", &words, directory)?;
    process.wait_for_line("ready to serve client requests", LIMIT)?;
    Ok(process)
}
