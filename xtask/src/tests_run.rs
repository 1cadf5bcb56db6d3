//! Runs every test of the workspace and closes with one line that says how it went.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::lab_vm;
use crate::summary::Summary;

/// How long the output may be silent once cargo has ended, before something left behind is no longer waited for.
const QUIET: Duration = Duration::from_secs(2);

/// What brings DPDK ports into the router.
pub const WITH_DPDK: &[&str] = &["--features", "router/dpdk"];

/// Builds the router, then runs `cargo test` over the workspace with `extra` arguments.
///
/// The tests find the router by the environment variable `ROUTEBRICKS`. Tests in network namespaces need root: for
/// an ordinary user who has sudo, those of `lab` are started through it.
pub fn run(root: &Path, extra: &[String]) -> Result<(), String> {
    let (for_cargo, for_tests) = match extra.iter().position(|word| word == "--") {
        Some(at) => (&extra[..at], &extra[at + 1..]),
        None => (extra, &[][..]),
    };
    let mut summary = Summary::default();
    let selections = selections();
    // What `make build` makes, for the counts of instructions; not for a few tests of somebody's choice.
    let release = for_cargo.is_empty().then(|| target(root).join("release/routebricks"));
    let mut clean = build_all(root, &selections, for_cargo, release.is_some())?;
    if clean {
        for selection in selections {
            let mut cargo = xtask::cargo();
            cargo.args(["test", "--no-fail-fast"]).args(selection).args(for_cargo);
            cargo.args(["--", "--show-output"]).args(for_tests);
            cargo
                .env("ROUTEBRICKS", target(root).join("debug/routebricks"))
                .env("CARGO_TARGET_DIR", target(root));
            cargo.envs(release.iter().map(|router| ("ROUTEBRICKS_RELEASE", router)));
            cargo.env("CARGO_TERM_COLOR", "never").current_dir(root);
            clean &= succeeds(cargo, &mut summary)?;
        }
        if for_cargo.is_empty() {
            clean &= succeeds(models(root, for_tests), &mut summary)?;
            clean &= lab_vm::short(root, &mut summary)?;
        }
    }
    conclude(clean, summary)
}

/// Prints what was skipped and what failed, and the line that closes a run.
///
/// # Errors
/// An empty one if something failed: it is printed.
pub fn conclude(clean: bool, summary: Summary) -> Result<(), String> {
    let (mut counts, failures, skips) = summary.finish();
    if !clean && counts.failed == 0 {
        counts.failed = 1;
        println!("\nfailed outside of any test: see above");
    }
    list("skipped", &skips);
    list("failed", &failures);
    println!("\n{counts}");
    if counts.failed == 0 { Ok(()) } else { Err(String::new()) }
}

/// Runs `cargo test` with its output shown and summed up; whether it succeeded.
fn succeeds(cargo: Command, summary: &mut Summary) -> Result<bool, String> {
    let code = stream(cargo, summary).map_err(|e| format!("cannot run cargo test: {e}"))?;
    Ok(code == Some(0))
}

/// The tests of `epoch` under every interleaving of threads. Everything they use is built with another `cfg`, so it has a folder of
/// its own.
fn models(root: &Path, for_tests: &[String]) -> Command {
    let mut cargo = xtask::cargo();
    cargo.args(["test", "--package", "epoch", "--test", "loom", "--", "--show-output"]).args(for_tests);
    cargo.env("CARGO_TARGET_DIR", target(root).join("loom")).env("RUSTFLAGS", "--cfg loom");
    cargo.env("CARGO_TERM_COLOR", "never").current_dir(root);
    cargo
}

/// Builds the router that tests start, which `cargo test` of other packages does not, the tests, and with `release` what counts of
/// instructions are made with; whether all of it builds. What is optimised as a whole keeps one processor busy for long: the
/// tests are built beside it.
fn build_all(
    root: &Path,
    selections: &[Vec<&str>],
    for_cargo: &[String],
    release: bool,
) -> Result<bool, String> {
    thread::scope(|scope| {
        let release = scope.spawn(move || if release { build_release(root) } else { Ok(true) });
        let tests = build_tests(root, selections, for_cargo);
        let release = release.join().map_err(|_| "the build of the release panicked".to_owned())??;
        Ok(tests? && release)
    })
}

fn build_release(root: &Path) -> Result<bool, String> {
    let router = [&["build", "--release", "--package", "router"], WITH_DPDK].concat();
    // In a run of its own: what examples need besides would make the router another one than that of `make build`.
    let cluster_cost = [&router[..], &["--example", "cluster_cost"]].concat();
    Ok(cargo(root, &router)? && cargo(root, &cluster_cost)?)
}

fn build_tests(root: &Path, selections: &[Vec<&str>], for_cargo: &[String]) -> Result<bool, String> {
    // With all of the workspace comes the router; on its own it is built of libraries with other features, and so of others.
    let mut built =
        for_cargo.is_empty() || cargo(root, &[&["build", "--package", "router"], WITH_DPDK].concat())?;
    for selection in selections {
        let chosen: Vec<&str> = for_cargo.iter().map(String::as_str).collect();
        built = built && cargo(root, &[&["test", "--no-run"], &selection[..], &chosen].concat())?;
    }
    Ok(built)
}

fn cargo(root: &Path, words: &[&str]) -> Result<bool, String> {
    let mut cargo = xtask::cargo();
    cargo.args(words).current_dir(root).env("CARGO_TARGET_DIR", target(root));
    // Two at a time would draw over each other.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "never");
    cargo.status().map(|status| status.success()).map_err(|e| format!("cannot run cargo: {e}"))
}

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The runs of `cargo test` over the workspace, each with what tells cargo which packages.
fn selections() -> Vec<Vec<&'static str>> {
    let output = |program: &str, argument: &str| Command::new(program).arg(argument).output();
    let root = output("id", "-u").is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    if root || output("sudo", "--version").is_err() {
        return vec![[&["--workspace"], WITH_DPDK].concat()];
    }
    vec![
        [&["--workspace", "--exclude", "lab"], WITH_DPDK].concat(),
        vec!["--package", "lab", "--config", r#"target."cfg(unix)".runner=["sudo","-E"]"#],
    ]
}

/// Runs the command with its output shown and summed up; its exit code, if it was not killed.
///
/// # Errors
/// If it cannot be started, or its output cannot be shown.
pub fn stream(mut command: Command, summary: &mut Summary) -> io::Result<Option<i32>> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // It still holds its ends of the pipe, which would keep the reader from seeing the end of the output.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut stdout = io::stdout();
    loop {
        match lines.recv_timeout(QUIET) {
            Ok(line) if summary.line(&line) => writeln!(stdout, "{line}")?,
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if has_ended(&mut child)? => {
                writeln!(stdout, "(a process that a test started is still running)")?;
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(child.wait()?.code())
}

fn has_ended(child: &mut Child) -> io::Result<bool> {
    Ok(child.try_wait()?.is_some())
}

fn list(what: &str, tests: &[String]) {
    if !tests.is_empty() {
        println!("\n{what}:");
        for test in tests {
            println!("  {test}");
        }
    }
}
