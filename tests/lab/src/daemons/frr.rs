//! FRR.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::netns::{self, Namespace, missing_program};
use crate::process::Process;
use crate::wait::wait_until;
use crate::{Context, Error, Result};

/// Where Debian keeps the daemons.
const DAEMONS: &str = "/usr/lib/frr";
/// How long they may take to listen.
const START: Duration = Duration::from_secs(20);

/// Daemons of FRR in a namespace, which FRR knows by the same name. Dropping it kills them.
#[derive(Debug)]
pub struct Frr {
    daemons: Vec<Process>,
    folders: Folders,
}

impl Frr {
    /// Why it cannot be started here, if so.
    pub fn missing() -> Option<&'static str> {
        let there = missing_program(&["vtysh"]).is_none() && Path::new(DAEMONS).join("zebra").exists();
        (!there).then_some("no FRR")
    }

    /// Prints `skipped: no FRR` and gives true if it is not installed.
    pub fn skipped() -> bool {
        let missing = Frr::missing();
        if let Some(reason) = missing {
            println!("skipped: {reason}");
        }
        missing.is_some()
    }

    /// Starts daemons, each with its arguments (`zebra -M dplane_fpm_nl`, `bgpd`), and configures them with these lines of
    /// vtysh. Their logs are in `directory`, which is made.
    pub fn start(namespace: &Namespace, directory: &Path, daemons: &[&str], lines: &str) -> Result<Frr> {
        let folders = Folders::new(namespace)?;
        fs::create_dir_all(directory).cannot(|| format!("make {}", directory.display()))?;
        let mut started = Vec::new();
        for line in daemons {
            let (name, more) = line.split_once(' ').unwrap_or((line, ""));
            let words = format!("-N {} -A 127.0.0.1 --log stdout {more}", namespace.name());
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            started.push(Process::start(namespace, name, &format!("{DAEMONS}/{name}"), &words, directory)?);
            if name == "zebra" {
                // A daemon that does not find it tries again ten seconds later.
                let socket = folders.socket();
                wait_until("zebra", START, || Ok(UnixStream::connect(&socket).is_ok().then_some(())))?;
            }
        }
        let frr = Frr { daemons: started, folders };
        let mut said = String::new();
        wait_until("FRR", START, || match frr.configure(lines) {
            Ok(()) => Ok(Some(())),
            Err(error) => {
                said = error.to_string();
                Ok(None)
            }
        })
        .map_err(|error| Error::new(format!("{error}: {said}")))?;
        Ok(frr)
    }

    /// Lines as if typed after `configure terminal`.
    pub fn configure(&self, lines: &str) -> Result<()> {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        self.vtysh(&["configure terminal"].into_iter().chain(lines).collect::<Vec<_>>()).map(drop)
    }

    /// What it answers to a command of vtysh.
    pub fn ask(&self, command: &str) -> Result<String> {
        self.vtysh(&[command])
    }

    fn vtysh(&self, lines: &[&str]) -> Result<String> {
        let mut vtysh = Command::new("vtysh");
        vtysh.args(["-N", &self.folders.name]);
        lines.iter().for_each(|line| {
            vtysh.args(["-c", line]);
        });
        netns::succeed(&mut vtysh)
    }

    /// Kills all daemons: they have no time to clean up.
    pub fn kill(&mut self) {
        self.daemons.iter_mut().for_each(Process::kill);
    }

    /// Sends all daemons a signal (`KILL`: they have no time to clean up).
    pub fn signal(&self, name: &str) -> Result<()> {
        let ids: Vec<String> = self.daemons.iter().map(|daemon| daemon.id().to_string()).collect();
        netns::succeed(Command::new("kill").arg(format!("-{name}")).args(ids)).map(drop)
    }

    /// How many routes it has of a protocol, and how many of them it has handed to the kernel (`show ip route summary`).
    pub fn routes(&self, family: &str, protocol: &str) -> Result<(usize, usize)> {
        let said = self.ask(&format!("show {family} route summary"))?;
        let line = said.lines().find(|line| line.split_whitespace().next() == Some(protocol));
        let mut figures = line.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok());
        Ok((figures.next().unwrap_or(0), figures.next().unwrap_or(0)))
    }

    /// How many neighbours of BGP in a family are up: those from which prefixes are counted.
    pub fn sessions(&self, family: &str) -> Result<usize> {
        let said = self.ask(&format!("show bgp {family} unicast summary"))?;
        let is_up = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() >= 10 && words[1] == "4" && words[9].parse::<u64>().is_ok()
        };
        Ok(said.lines().filter(is_up).count())
    }
}

/// Folders that the daemons need for a namespace, and that are no longer there afterwards.
#[derive(Debug)]
struct Folders {
    name: String,
}

impl Folders {
    fn new(namespace: &Namespace) -> Result<Folders> {
        let folders = Folders { name: namespace.name().to_owned() };
        for (path, group, mode) in
            folders.paths().into_iter().zip(["frr", "frrvty"]).map(|(p, g)| (p, g, "775"))
        {
            let path = path.display().to_string();
            netns::succeed(
                Command::new("install").args(["-d", "-o", "frr", "-g", group, "-m", mode, &path]),
            )?;
        }
        Ok(folders)
    }

    fn socket(&self) -> PathBuf {
        Path::new("/var/run/frr").join(&self.name).join("zserv.api")
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["/var/run/frr", "/etc/frr"].map(|folder| Path::new(folder).join(&self.name))
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for path in self.paths() {
            // What cannot be removed does no harm.
            let _ = fs::remove_dir_all(path);
        }
    }
}
