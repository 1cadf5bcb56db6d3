//! Our router: the `routebricks` binary in the router's namespace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::checks::Check;
use crate::netns::Namespace;
use crate::process::Process;
use crate::router::Router;
use crate::{Error, Result};

/// How long it may take to end after SIGTERM.
const END: Duration = Duration::from_secs(10);
/// What it prints at the end when every packet buffer is back in its pool.
const NO_LEAK: &str = "0 buffers missing";

/// How to start it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// It is ready when it has printed a line that contains this.
    pub ready: String,
    /// How long that may take.
    pub limit: Duration,
    /// Arguments with which the same binary, run beside it, prints its counters.
    pub show: Option<Vec<String>>,
}

/// A running `routebricks` process.
#[derive(Debug)]
pub struct Routebricks<'a> {
    launch: Launch,
    namespace: &'a Namespace,
    process: Process,
}

impl<'a> Routebricks<'a> {
    /// Starts it and waits until it is ready. Its log is `DIRECTORY/routebricks.log`.
    pub fn start(namespace: &'a Namespace, launch: Launch, directory: &Path) -> Result<Routebricks<'a>> {
        let program = launch.program.display().to_string();
        let mut process = Process::start(namespace, "routebricks", &program, &launch.arguments, directory)?;
        process.wait_for_line(&launch.ready, launch.limit)?;
        Ok(Routebricks { launch, namespace, process })
    }

    /// The running process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn ending(&self, status: ExitStatus) -> Result<Vec<Check>> {
        let printed = self.process.printed()?;
        let seen = printed.lines().rev().find(|line| line.contains("buffers missing"));
        let leak = Check::that(
            "packet buffers at the end",
            NO_LEAK,
            seen.unwrap_or("nothing said").trim(),
            seen.is_some_and(|line| {
                line.trim_start().starts_with(NO_LEAK) || line.contains(&format!(" {NO_LEAK}"))
            }),
        );
        Ok(vec![Check::same("how the router ended", "exit status: 0", status), leak])
    }
}

impl Router for Routebricks<'_> {
    fn title(&self) -> &str {
        "routebricks"
    }

    fn live_table(&mut self) -> Result<Option<String>> {
        let Some(arguments) = &self.launch.show else { return Ok(None) };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.namespace.run(&self.launch.program.display().to_string(), &arguments).map(Some)
    }

    fn stop(&mut self) -> Result<Vec<Check>> {
        let status = self.process.terminate(END)?;
        self.ending(status)
    }
}

/// The binary: `$ROUTEBRICKS_BIN`, or the newest build beside the running program's own.
///
/// # Errors
/// If there is none; says how to get one.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os("ROUTEBRICKS_BIN") {
        return Ok(PathBuf::from(path));
    }
    let own = env::current_exe().unwrap_or_default();
    // The program is target/PROFILE/NAME, a test target/PROFILE/deps/NAME.
    let target = own
        .ancestors()
        .skip(1)
        .find(|path| path.join("../release").exists() || path.join("../debug").exists());
    let builds = target.into_iter().flat_map(|path| {
        ["release", "debug"].map(|profile| path.join("..").join(profile).join("routebricks"))
    });
    let changed = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    builds.filter(|path| path.is_file()).max_by_key(changed).ok_or_else(|| {
        Error::new("there is no routebricks binary: build it (cargo build -p router) or set ROUTEBRICKS_BIN")
    })
}
