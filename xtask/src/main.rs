//! Checks and chores for developers: `cargo xtask` lists them.

mod arrows;
mod lab_vm;
mod links;
mod lint;
mod summary;
mod tests_run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  arrows         which crate may use which, and which may hold unsafe code
  lab-vm [WORD...]
                 tests of whole routers under a full kernel, in a virtual machine; with WORDs those whose names
                 contain one of them
  links          the files that the manual links to or names are there
  lint           every check that runs no test
  test [ARG...]  every test; ends with the line `N passed, N failed, N skipped`; with ARGs for `cargo test`, those of
                 the workspace that they choose";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, [])) if command == "arrows" => arrows::check(&root()),
        Some((command, [])) if command == "links" => links::check(&root()),
        Some((command, [])) if command == "lint" => lint::run(&root()),
        Some((command, words)) if command == "lab-vm" => lab_vm::run(&root(), words),
        Some((command, rest)) if command == "test" => tests_run::run(&root(), rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("{message}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the parent of this package's folder.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
