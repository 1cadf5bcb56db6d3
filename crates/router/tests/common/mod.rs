//! Runs the command as users do.
#![allow(dead_code, clippy::unwrap_used, reason = "test code may panic; each program uses a part")]

pub mod running;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub struct Did {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The command, in this directory.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    command_by(&[], dir, args)
}

/// The same, started by another one.
pub fn command_by(starter: &[&str], dir: &Path, args: &[&str]) -> Command {
    let mut words = starter.iter().chain(&[env!("CARGO_BIN_EXE_routebricks")]).chain(args);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).current_dir(dir).env_remove("CLICKPATH").env("NO_COLOR", "1").env("COLUMNS", "100");
    command
}

/// Runs it with this standard input.
pub fn run_with(dir: &Path, args: &[&str], input: &str) -> Did {
    let mut command = command(dir, args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its input may be gone before it is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Did { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs it.
pub fn run(dir: &Path, args: &[&str]) -> Did {
    run_with(dir, args, "")
}

/// A result of this code and these texts.
pub fn did(code: i32, out: &str, err: &str) -> Did {
    Did { code, out: out.to_owned(), err: err.to_owned() }
}
