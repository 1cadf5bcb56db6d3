//! Network namespaces: made with `ip netns`, removed when dropped.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::{Context, Error, Result};

/// A network namespace. Dropping it removes it, with every interface in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new namespace whose name no other process or test has: `labPID-N-ROLE`.
    pub fn unique(role: &str) -> Result<Namespace> {
        Namespace::named(&format!("{}-{role}", unique_prefix()))
    }

    /// A new namespace called `name`, with loopback up and IPv6 off (so that nothing speaks unasked).
    ///
    /// # Errors
    /// If there is one of that name, or this user may not make any.
    pub fn named(name: &str) -> Result<Namespace> {
        succeed(Command::new("ip").args(["netns", "add", name]))?;
        let namespace = Namespace { name: name.to_owned() };
        namespace.set("net/ipv6/conf/all/disable_ipv6", "1")?;
        namespace.set("net/ipv6/conf/default/disable_ipv6", "1")?;
        namespace.ip("link set lo up\n")?;
        Ok(namespace)
    }

    /// What `ip netns` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` in a thread of its own inside the namespace. Sockets opened there stay there for ever.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let handle = File::open(path(&self.name)).cannot(|| format!("open namespace {}", self.name))?;
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                setns(&handle, CloneFlags::CLONE_NEWNET)
                    .cannot(|| format!("enter namespace {}", self.name))?;
                work()
            });
            worker.join().unwrap_or_else(|_| Err(Error::new("a thread inside a namespace panicked")))
        })
    }

    /// A command that will run inside, with the C locale, and that dies with the calling thread.
    pub fn command(&self, program: &str) -> Command {
        let mut command = command("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a command inside to its end and gives what it printed, whatever its exit code.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::null()).output().cannot(|| format!("run {program}"))
    }

    /// Runs a command inside which must succeed, and gives its standard output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        succeed(self.command(program).args(arguments))
    }

    /// Runs `ip` commands inside, one a line, in one process (`ip -batch`).
    pub fn ip(&self, lines: &str) -> Result<()> {
        batch(Command::new("ip").args(["-n", &self.name, "-batch", "-"]), lines)
    }

    /// Sets a variable below `/proc/sys`, for example `net/ipv4/ip_forward`.
    pub fn set(&self, variable: &str, value: &str) -> Result<()> {
        self.inside(|| {
            fs::write(format!("/proc/sys/{variable}"), value).cannot(|| format!("set {variable} to {value}"))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = succeed(Command::new("ip").args(["netns", "del", &self.name])) {
            eprintln!("{error}");
        }
    }
}

/// A command outside any namespace, with the C locale, that dies with the calling thread.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).env("LC_ALL", "C");
    command
}

/// Whether there is a namespace called `name`.
pub fn exists(name: &str) -> bool {
    path(name).exists()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// A prefix for names that no other process or test uses: `labPID-N`.
pub fn unique_prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("lab{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs `ip` commands outside any namespace, one a line.
pub fn ip(lines: &str) -> Result<()> {
    batch(Command::new("ip").args(["-batch", "-"]), lines)
}

/// Why network namespaces cannot be made here, if so: not root, or no `ip`, or no permission.
pub fn unavailable() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    if let Some(program) = missing_program(&["ip", "ethtool", "setpriv"]) {
        return Some(format!("{program} is not installed"));
    }
    Namespace::unique("probe").err().map(|error| error.to_string())
}

/// The first of `programs` that is not in any directory of PATH.
pub fn missing_program<'a>(programs: &[&'a str]) -> Option<&'a str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let here = |program: &str| env::split_paths(&path).any(|directory| directory.join(program).is_file());
    programs.iter().copied().find(|program| !here(program))
}

/// Prints `skipped: REASON` and gives true if the lab cannot run here. Tests return early then.
pub fn skipped() -> bool {
    let reason = unavailable();
    if let Some(reason) = &reason {
        println!("skipped: {reason}");
    }
    reason.is_some()
}

/// Prints `skipped: …` and gives true if this kernel has no interfaces of a kind: `vlan` or `vrf`.
pub fn lacks(kind: &str) -> bool {
    let link = match kind {
        "vlan" => "link eth0 name probe type vlan id 1",
        _ => "probe type vrf table 10",
    };
    let make = |namespace: &Namespace| {
        namespace.ip(&format!("link add eth0 type veth peer eth1\nlink add {link}\n"))
    };
    let lacks = Namespace::unique("probe").and_then(|namespace| make(&namespace)).is_err();
    if lacks {
        println!("skipped: this kernel has no interfaces of kind {kind}");
    }
    lacks
}

/// Runs a command that must succeed, and gives its standard output.
pub fn succeed(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().cannot(|| format!("run {command:?}"))?;
    checked(command, &output)
}

/// Runs a command that must succeed, and gives all that it printed, standard error first.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().cannot(|| format!("run {command:?}"))?;
    let printed = checked(command, &output)?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned() + &printed)
}

fn batch(command: &mut Command, lines: &str) -> Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .cannot(|| format!("run {command:?}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A batch that fails half-way closes its input; its own message says more than "broken pipe".
        let _ = input.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().cannot(|| format!("wait for {command:?}"))?;
    checked(command, &output).map(drop)
}

fn checked(command: &Command, output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{command:?} failed ({}): {}", output.status, complaint.trim())))
}
