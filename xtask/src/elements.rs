//! Holds the manual's chapter on elements to the texts at the top of their files, of which it is made.

use std::fs;
use std::path::Path;
use std::process::Command;

const CHAPTER: &str = "docs/elements.md";
const MEND: &str = "cargo run --package router --features dpdk -- elements --markdown >docs/elements.md";

/// Compares the chapter under `root` with what the command prints. The error says how to mend it.
pub fn check(root: &Path) -> Result<(), String> {
    // As the tests build it, so that nothing is built twice.
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--package", "router", "--features", "router/dpdk", "--"]);
    let made = cargo.args(["elements", "--markdown"]).current_dir(root).output();
    let made = made.map_err(|e| format!("cannot run cargo: {e}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned());
    }
    compare(&fs::read(root.join(CHAPTER)).unwrap_or_default(), &made.stdout)
}

fn compare(chapter: &[u8], made: &[u8]) -> Result<(), String> {
    if chapter == made {
        return Ok(());
    }
    Err(format!("{CHAPTER} is not what the elements' files say; mend it:\n  {MEND}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_chapter_is_told_how_to_mend() {
        assert_eq!(compare(b"# Elements\n", b"# Elements\n"), Ok(()));
        let message = compare(b"", b"# Elements\n").unwrap_err();
        assert_eq!(
            message,
            format!("docs/elements.md is not what the elements' files say; mend it:\n  {MEND}")
        );
    }
}
