//! BIRD.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::netns::{self, Namespace, missing_program};
use crate::process::Process;
use crate::{Context, Result};

/// What makes BIRD try again at once.
pub const IMPATIENT: &str = "connect retry time 1; connect delay time 1; error wait time 1,1;";

/// BIRD in a namespace. Dropping it kills it.
#[derive(Debug)]
pub struct Bird {
    process: Process,
    role: String,
    arguments: Vec<String>,
    socket: PathBuf,
}

impl Bird {
    /// Prints `skipped: no bird` and gives true if it is not installed.
    pub fn skipped() -> bool {
        let missing = missing_program(&["bird", "birdc"]).is_some();
        if missing {
            println!("skipped: no bird");
        }
        missing
    }

    /// Starts it. `role` names its files; `config` is what stands in its file beside the protocols of devices and of the
    /// kernel, which gets all routes.
    pub fn start(namespace: &Namespace, directory: &Path, role: &str, config: &str) -> Result<Bird> {
        let kernel = "protocol device {}\n\
             protocol kernel kernel4 { ipv4 { import none; export all; }; }\n\
             protocol kernel kernel6 { ipv6 { import none; export all; }; }\n";
        Bird::start_with(namespace, directory, role, &format!("{kernel}{config}"))
    }

    /// Starts it with nothing else in its file.
    pub fn start_with(namespace: &Namespace, directory: &Path, role: &str, config: &str) -> Result<Bird> {
        let file = directory.join(format!("{role}.conf"));
        fs::write(&file, config).cannot(|| format!("write {}", file.display()))?;
        let socket = directory.join(format!("{role}.ctl"));
        let arguments = ["-f", "-c", &file.display().to_string(), "-s", &socket.display().to_string()];
        let arguments = arguments.map(str::to_owned).to_vec();
        let process = Process::start(namespace, role, "bird", &arguments, directory)?;
        Ok(Bird { process, role: role.to_owned(), arguments, socket })
    }

    /// Starts it again where and as it was, to recover gracefully (`-R`).
    pub fn start_again(&mut self, namespace: &Namespace, directory: &Path) -> Result<()> {
        self.process.kill();
        let arguments = [&["-R".to_owned()], &self.arguments[..]].concat();
        self.process = Process::start(namespace, &self.role, "bird", &arguments, directory)?;
        Ok(())
    }

    /// What it answers to a command of `birdc`.
    pub fn ask(&self, command: &str) -> Result<String> {
        let mut birdc = netns::command("birdc");
        birdc.arg("-s").arg(&self.socket).args(command.split(' '));
        netns::succeed(&mut birdc)
    }

    /// Whether a protocol is up.
    pub fn is_established(&self, protocol: &str) -> Result<bool> {
        // It does not listen in its first moments.
        Ok(self.ask(&format!("show protocols {protocol}")).is_ok_and(|said| said.contains("Established")))
    }

    /// Kills it: it says goodbye to nobody.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Ends it in order.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate(Duration::from_secs(20)).map(drop)
    }

    /// A session with a neighbour: as which number from which address, with whose number at which address, and the
    /// channels.
    pub fn session(name: &str, local: (&str, u32), neighbour: (&str, u32), channels: &str) -> String {
        let (from, ours) = local;
        let (to, theirs) = neighbour;
        format!(
            "protocol bgp {name} {{ local {from} as {ours}; neighbor {to} as {theirs}; {IMPATIENT}\n{channels} }}\n"
        )
    }
}
