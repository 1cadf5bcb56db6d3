//! Long-running commands inside a namespace.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::netns::Namespace;
use crate::wait::wait_until;
use crate::{Context, Error, Result};

/// A running command whose output goes to files. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `program` inside `namespace`; standard output and error go to `DIRECTORY/NAME.log`.
    pub fn start(
        namespace: &Namespace,
        name: &str,
        program: &str,
        arguments: &[String],
        directory: &Path,
    ) -> Result<Process> {
        let mut command = namespace.command(program);
        command.args(arguments);
        Process::spawn(command, name, directory)
    }

    /// Starts a command; standard output and error go to `DIRECTORY/NAME.log`.
    pub fn spawn(mut command: Command, name: &str, directory: &Path) -> Result<Process> {
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).cannot(|| format!("create {}", log.display()))?;
        let same = file.try_clone().cannot(|| format!("write {}", log.display()))?;
        // A group of its own, so that a Ctrl-C at the terminal reaches only us and we end it in order.
        command.stdin(Stdio::null()).stdout(file).stderr(same).process_group(0);
        let child = command.spawn().cannot(|| format!("start {name}"))?;
        Ok(Process { name: name.to_owned(), child, log, ended: None })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processor time that all its threads have used so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.id()));
        let mut total = Duration::ZERO;
        for task in fs::read_dir(&tasks).cannot(|| format!("read {}", tasks.display()))? {
            let path = task.cannot(|| format!("read {}", tasks.display()))?.path().join("schedstat");
            // A thread may end between listing and reading; the first figure is its time in nanoseconds.
            let text = fs::read_to_string(&path).unwrap_or_default();
            let nanoseconds = text.split_whitespace().next().and_then(|figure| figure.parse().ok());
            total += Duration::from_nanos(nanoseconds.unwrap_or(0));
        }
        Ok(total)
    }

    /// What it has printed so far.
    pub fn printed(&self) -> Result<String> {
        let bytes = fs::read(&self.log).cannot(|| format!("read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().cannot(|| format!("ask for the state of {}", self.name))?;
        }
        Ok(self.ended)
    }

    /// Waits until `ready` gives something.
    ///
    /// # Errors
    /// With the last lines that it printed: if the process ends before, or `limit` is over.
    pub fn wait_until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut(&Process) -> Result<Option<T>>,
    ) -> Result<T> {
        let what = format!("{}: {what}", self.name);
        let waited = wait_until(&what, limit, || {
            if let Some(found) = ready(self)? {
                return Ok(Some(found));
            }
            match self.ended()? {
                Some(status) => Err(Error::new(format!("{} ended early ({status})", self.name))),
                None => Ok(None),
            }
        });
        waited.map_err(|error| Error::new(format!("{error}\n{}", self.last_lines())))
    }

    /// Waits until it has printed a line that contains `text`.
    pub fn wait_for_line(&mut self, text: &str, limit: Duration) -> Result<()> {
        self.wait_until(&format!("a line with {text:?}"), limit, |process| {
            Ok(process.printed()?.lines().any(|line| line.contains(text)).then_some(()))
        })
    }

    /// Kills it without warning, and waits until it is gone.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            // It may have ended in between, which is what we want.
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// If it has not ended after `limit`; it is killed then.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        let id = i32::try_from(self.id()).cannot(|| format!("signal {}", self.name))?;
        kill(Pid::from_raw(id), Signal::SIGTERM).cannot(|| format!("signal {}", self.name))?;
        let deadline = std::time::Instant::now() + limit;
        // Not wait_until: it must also work while an interrupt is being handled.
        while std::time::Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        Err(Error::new(format!("{} did not end within {limit:?} of SIGTERM", self.name)))
    }

    /// The last lines that it printed, indented, for error messages.
    pub fn last_lines(&self) -> String {
        let printed = self.printed().unwrap_or_default();
        let lines: Vec<&str> = printed.lines().collect();
        let tail = &lines[lines.len().saturating_sub(20)..];
        tail.iter().map(|line| format!("  | {line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
