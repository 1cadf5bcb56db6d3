//! Runs every test of the workspace and closes with one line that says how it went.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::summary::Summary;

/// How long the output may be silent once cargo has ended, before something left behind is no longer waited for.
const QUIET: Duration = Duration::from_secs(2);

const WITH_DPDK: &[&str] = &["--features", "router/dpdk"];

/// The fuzz targets over their seeds; a workspace of its own.
const FUZZ: &[&str] = &["--manifest-path", "fuzz/Cargo.toml", "--no-default-features"];

/// Builds the router, then runs `cargo test` over the workspace with `extra` arguments, and over the fuzz targets' seeds
/// if there are none for cargo, which would be about packages of the workspace.
///
/// The tests find the router by the environment variable `ROUTEBRICKS`. Tests in network namespaces need root: for
/// an ordinary user who has sudo, those of `lab` are started through it.
pub fn run(root: &Path, extra: &[String]) -> Result<(), String> {
    let (for_cargo, for_tests) = match extra.iter().position(|word| word == "--") {
        Some(at) => (&extra[..at], &extra[at + 1..]),
        None => (extra, &[][..]),
    };
    let mut summary = Summary::default();
    let mut clean = build_router(root, &[])?;
    // What `make build` makes, for the counts of instructions; not for a few tests of somebody's choice.
    let release = for_cargo.is_empty().then(|| target(root).join("release/routebricks"));
    if release.is_some() {
        clean = clean && build_router(root, &["--release"])? && build_cluster_cost(root)?;
    }
    if clean {
        let mut selections = selections();
        if for_cargo.is_empty() {
            selections.push(FUZZ.to_vec());
        }
        for selection in selections {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--no-fail-fast"]).args(selection).args(for_cargo);
            cargo.args(["--", "--show-output"]).args(for_tests);
            cargo
                .env("ROUTEBRICKS", target(root).join("debug/routebricks"))
                .env("CARGO_TARGET_DIR", target(root));
            cargo.envs(release.iter().map(|router| ("ROUTEBRICKS_RELEASE", router)));
            cargo.env("CARGO_TERM_COLOR", "never").current_dir(root);
            clean &= stream(cargo, &mut summary).map_err(|e| format!("cannot run cargo test: {e}"))?;
        }
    }
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

/// Builds the router that tests start, as `cargo test` of other packages does not; whether it builds.
fn build_router(root: &Path, profile: &[&str]) -> Result<bool, String> {
    build(root, &[&["--package", "router"], WITH_DPDK, profile].concat())
}

/// What the pins of the cluster are counted with.
fn build_cluster_cost(root: &Path) -> Result<bool, String> {
    build(root, &["--release", "--package", "elements", "--example", "cluster_cost"])
}

fn build(root: &Path, what: &[&str]) -> Result<bool, String> {
    let mut cargo = Command::new("cargo");
    cargo.arg("build").args(what).current_dir(root);
    cargo.env("CARGO_TARGET_DIR", target(root));
    cargo.status().map(|status| status.success()).map_err(|e| format!("cannot run cargo build: {e}"))
}

/// Where cargo builds, for both workspaces.
fn target(root: &Path) -> PathBuf {
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

/// Runs the command with its output shown and summed up; whether it succeeded.
fn stream(mut command: Command, summary: &mut Summary) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // It still holds its ends of the pipe, which would keep the reader from seeing the end of the output.
    drop(command);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
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
    Ok(child.wait()?.success())
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
