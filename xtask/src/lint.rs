//! Every check that runs no test, one after the other; the first that fails does not hide the others.

use std::path::Path;
use std::process::Stdio;

/// What to run, as words after `cargo`. Twice clippy: the crates that need no DPDK as a plain `cargo test` builds
/// them, then everything.
const COMMANDS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"],
    &[
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--features",
        "router/dpdk",
        "--",
        "-D",
        "warnings",
    ],
    &["doc", "--quiet", "--workspace", "--no-deps", "--features", "router/dpdk"],
];

/// Licences, sources and bans need nothing from outside; advisories would have to be fetched.
const DENY: &[&str] = &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"];

type Check = fn(&Path) -> Result<(), String>;

/// Checks of this package, by the names of their commands.
const OWN: &[(&str, Check)] = &[("arrows", crate::arrows::check), ("links", crate::links::check)];

/// Runs the checks in the workspace under `root`; the error names those that failed.
pub fn run(root: &Path) -> Result<(), String> {
    let mut failed = Vec::new();
    for words in COMMANDS {
        if !cargo(root, words) {
            failed.push(format!("cargo {}", words.join(" ")));
        }
    }
    let probe =
        xtask::cargo().args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: cargo deny is not installed (scripts/setup lint installs it)");
    } else if !cargo(root, DENY) {
        failed.push(format!("cargo {}", DENY.join(" ")));
    }
    for (name, check) in OWN {
        println!("cargo xtask {name}");
        if let Err(findings) = check(root) {
            eprintln!("{findings}");
            failed.push(format!("cargo xtask {name}"));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("lint: failed:\n  {}", failed.join("\n  "))) }
}

fn cargo(root: &Path, words: &[&str]) -> bool {
    println!("cargo {}", words.join(" "));
    let status = xtask::cargo().args(words).env("RUSTDOCFLAGS", "-D warnings").current_dir(root).status();
    status.is_ok_and(|status| status.success())
}
