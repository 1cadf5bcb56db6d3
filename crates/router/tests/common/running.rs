//! A router that runs, and whoever looks into it.

use super::{Did, command_by, run};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A router that runs until it is stopped or dropped.
pub struct Running {
    pub child: Child,
    pub socket: PathBuf,
    pub dir: tempfile::TempDir,
}

impl Running {
    pub fn with(config: &str) -> Running {
        Running::started_by(&[], config)
    }

    /// The same, started by another command.
    pub fn started_by(starter: &[&str], config: &str) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let mut child = command_by(starter, dir.path(), &["run", "-e", config]);
        child.env("XDG_RUNTIME_DIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let of_root = Path::new("/run/routebricks");
        let of_user = dir.path().join("routebricks");
        let directory = if nix::unistd::geteuid().is_root() { of_root } else { &of_user };
        let socket = directory.join(format!("{}.sock", child.id()));
        let running = Running { child, socket, dir };
        let began = Instant::now();
        while running.show(&["runtime"]).code != 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "no socket {}", running.socket.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub fn show(&self, args: &[&str]) -> Did {
        self.ask("show", args)
    }

    /// What `show` says once it says `want`, or after thirty seconds: a worker needs not have run yet.
    pub fn shows(&self, args: &[&str], want: &Did) -> Did {
        let began = Instant::now();
        loop {
            let shown = self.show(args);
            if shown == *want || began.elapsed() > Duration::from_secs(30) {
                return shown;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn ask(&self, command: &str, args: &[&str]) -> Did {
        let socket = self.socket.to_str().unwrap();
        run(self.dir.path(), &[&[command, "--socket", socket], args].concat())
    }

    pub fn terminate(mut self) -> (Option<i32>, PathBuf) {
        self.signal("-TERM");
        (self.child.wait().unwrap().code(), self.socket.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
