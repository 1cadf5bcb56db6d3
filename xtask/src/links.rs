//! Holds the manual to the tree: what a page links to or names as a file must be there.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the pages are, from the root of the repository.
const FOLDERS: &[&str] = &[".", "docs", "docs/decisions", "fuzz"];

/// A word in backticks that starts like this is a file of the repository.
const ROOMS: &[&str] =
    &["bench/", "crates/", "conf/", "deploy/", "docs/", "fuzz/", "scripts/", "tests/", "xtask/"];

/// Checks every page under `root`. The error lists everything that is wrong, one finding a line.
pub fn check(root: &Path) -> Result<(), String> {
    let mut findings = Vec::new();
    for folder in FOLDERS {
        for page in pages(&root.join(folder))? {
            let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
            let beside = page.parent().unwrap_or(root);
            for (line, target) in links(&text) {
                if !beside.join(&target).exists() {
                    findings.push(format!("{}:{line}: there is no {target}", page.display()));
                }
            }
            for (line, finding) in wrong_includes(&text, beside) {
                findings.push(format!("{}:{line}: {finding}", page.display()));
            }
            for (line, file) in named_files(&text) {
                if !root.join(&file).exists() {
                    findings.push(format!("{}:{line}: there is no {file}", page.display()));
                }
            }
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Targets of `[text](target)` that are files, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                found.push((number + 1, file.to_string()));
            }
        }
    }
    found
}

/// What is wrong with mdBook's `{{#include FILE:ANCHOR}}`, with line numbers; the book would show it as it stands.
fn wrong_includes(text: &str, beside: &Path) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("{{#include ") else { continue };
        let target = rest.split_once("}}").map_or(rest, |(target, _)| target);
        let (file, anchor) = target.split_once(':').map_or((target, None), |(f, a)| (f, Some(a)));
        match (fs::read_to_string(beside.join(file)), anchor) {
            (Err(_), _) => found.push((number + 1, format!("there is no {file}"))),
            (Ok(code), Some(anchor)) if !code.contains(&format!("// ANCHOR: {anchor}\n")) => {
                found.push((number + 1, format!("there is no anchor {anchor} in {file}")));
            }
            (Ok(_), _) => {}
        }
    }
    found
}

/// Words in backticks that name a file of the repository, with their line numbers.
fn named_files(text: &str) -> Vec<(usize, String)> {
    let is_file = |word: &&str| {
        ROOMS.iter().any(|room| word.starts_with(room)) && !word.contains(['*', '<', '{', ' ', '…'])
    };
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split('`').skip(1).step_by(2).filter(is_file);
        found.extend(words.map(|word| (number + 1, word.to_string())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_others_are_not() {
        let text = "see [a](a.md#part) and ![b](img/b.svg)\n[web](https://example.org) [here](#part)";
        assert_eq!(links(text), [(1, "a.md".to_string()), (1, "img/b.svg".to_string())]);
    }

    #[test]
    fn includes_need_their_file_and_their_anchor() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "{{#include src/links.rs:none}}\n{{#include src/nowhere.rs}}\n{{#include src/links.rs}}";
        let expected = ["there is no anchor none in src/links.rs", "there is no src/nowhere.rs"];
        assert_eq!(wrong_includes(text, here), [(1, expected[0].to_string()), (2, expected[1].to_string())]);
    }

    #[test]
    fn files_in_backticks_are_found_and_patterns_are_not() {
        let text = "`crates/io/src/port.rs` then crates/x\n`cargo test` `crates/*/src` `scripts/setup`";
        let expected = [(1, "crates/io/src/port.rs".to_string()), (2, "scripts/setup".to_string())];
        assert_eq!(named_files(text), expected);
    }
}
