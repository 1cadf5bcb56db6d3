//! A router whose output is kept, for what is measured by what it says.

use crate::program::{end, pause};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// It starts within this time.
const START: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(5);

/// A router that ends when it is dropped.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it prints goes to the log.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(command: &[String], log: &Path) -> Result<Running, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", log.display());
        let file = File::create(log).map_err(failed)?;
        let same = file.try_clone().map_err(failed)?;
        let (program, words) = command.split_first().ok_or("nothing to start")?;
        let mut child = Command::new(program);
        // Ctrl-C at the terminal is for us; we end our programs in order.
        child.args(words).process_group(0).stdin(Stdio::null()).stdout(file).stderr(same);
        let child = child.spawn().map_err(|e| format!("{program}: {e}"))?;
        Ok(Running { child, log: log.to_owned() })
    }

    /// Everything that it has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// One that waits for others says when it is ready.
    ///
    /// # Errors
    /// If it does not, or ends.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START;
        while !self.said().contains("routebricks: ready") {
            if Instant::now() > deadline || self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(format!("a router does not start; it said\n{}", self.said()));
            }
            pause(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Ends it, so that it has said everything.
    pub fn end(&mut self) {
        end(&mut self.child, END);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
