//! The architecture as a check: which crate may use which, and where unsafe code may live.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Each crate and the crates of this workspace that it may use, for its tests too.
///
/// `elements` and `control` never see each other: they meet in tables that `router` hands to both. `dpdk` is a
/// leaf, so that everything else is built and tested without DPDK.
const MAY_USE: &[(&str, &[&str])] = &[
    ("epoch", &[]),
    ("packet", &[]),
    ("fib", &["epoch"]),
    ("cluster", &[]),
    ("lang", &[]),
    ("ipsec", &["packet"]),
    ("io", &["packet"]),
    ("graph", &["epoch", "packet", "lang", "io"]),
    // The tables for benches, which set them beside DPDK's own.
    ("dpdk", &["epoch", "packet", "fib", "io", "ipsec"]),
    ("elements", &["epoch", "packet", "fib", "cluster", "lang", "ipsec", "io", "graph"]),
    ("control", &["epoch", "packet", "fib", "cluster", "io", "graph"]),
    ("sim", &["epoch", "packet", "fib", "cluster", "lang", "ipsec", "io", "graph", "elements"]),
    (
        "router",
        &[
            "epoch", "packet", "fib", "cluster", "lang", "ipsec", "io", "graph", "dpdk", "elements",
            "control", "sim",
        ],
    ),
    ("lab", &["packet", "fib", "io", "control"]),
    ("bench", &["epoch", "packet", "fib", "io", "cluster", "lab", "xtask"]),
    ("fuzz", &["packet", "fib", "cluster", "lang", "io", "elements", "control"]),
    ("xtask", &[]),
];

/// What a crate may use beyond that in its tests and benches only: the lookup structures are measured beside DPDK's, and
/// read as workers read them while Linux changes them.
const MAY_MEASURE: &[(&str, &[&str])] = &[("dpdk", &["epoch", "fib"]), ("lab", &["epoch"])];

/// The crates that may lift the workspace's ban on unsafe code, in a module or on an item.
const MAY_BE_UNSAFE: &[&str] = &["packet", "epoch", "dpdk", "io"];

/// Folders of other crates that may, too: one module of vector instructions each, if measurements earn it.
const UNSAFE_FOLDERS: &[&str] = &["crates/fib/src/simd"];

/// The page of the manual that has the table of arrows, too.
const PAGE: &str = "docs/packet-way.md";

/// A package of the workspace, as `cargo metadata` tells of it.
struct Package {
    name: String,
    manifest: PathBuf,
    /// The packages of this workspace that it depends on, in any kind of dependency.
    uses: Vec<String>,
}

/// Checks the workspace under `root`. The error lists everything that is wrong, one finding a line.
pub fn check(root: &Path) -> Result<(), String> {
    let packages = packages(root)?;
    let mut findings: Vec<String> = packages.iter().flat_map(wrong_arrows).collect();
    for package in &packages {
        findings.extend(wrong_lints(package)?);
    }
    let crates: Vec<&str> =
        packages.iter().filter(|p| is_below_crates(&p.manifest)).map(|p| p.name.as_str()).collect();
    findings.extend(wrong_rows(&read(&root.join(PAGE))?, &crates));
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

fn is_below_crates(manifest: &Path) -> bool {
    manifest.ancestors().nth(2).is_some_and(|folder| folder.ends_with("crates"))
}

/// Rows of the manual's table, `| crate | what it knows | may use |`, that are missing or say something else for one of
/// the crates that there are.
fn wrong_rows(page: &str, crates: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, allowed) in MAY_USE.iter().filter(|(name, _)| crates.contains(name)) {
        let allowed: Vec<&str> = allowed.iter().copied().filter(|used| crates.contains(used)).collect();
        let others = crates.len() - 1;
        let expected = match allowed[..] {
            [] => "–".to_string(),
            _ if allowed.len() == others => "all of them".to_string(),
            _ => format!("`{}`", allowed.join("` `")),
        };
        let is_row = |line: &&str| line.starts_with(&format!("| `{name}` |"));
        if !page.lines().find(is_row).is_some_and(|row| row.ends_with(&format!(" | {expected} |"))) {
            findings.push(format!("{PAGE}: the row of {name} must end with | {expected} |"));
        }
    }
    findings
}

fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = xtask::cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    parse_metadata(&metadata)
        .ok_or_else(|| "cargo metadata: not in the format that is known here".to_string())
}

fn parse_metadata(metadata: &Value) -> Option<Vec<Package>> {
    let mut packages = Vec::new();
    for package in metadata.get("packages")?.as_array()? {
        let mut uses = Vec::new();
        for dependency in package.get("dependencies")?.as_array()? {
            // Only packages of this workspace are given by path.
            let used = dependency.get("name")?.as_str()?;
            let only_measured = dependency.get("kind").and_then(Value::as_str) == Some("dev")
                && MAY_MEASURE.iter().any(|(name, others)| {
                    package.get("name").and_then(Value::as_str) == Some(name) && others.contains(&used)
                });
            if dependency.get("path").is_some_and(Value::is_string) && !only_measured {
                uses.push(used.to_string());
            }
        }
        packages.push(Package {
            name: package.get("name")?.as_str()?.to_string(),
            manifest: PathBuf::from(package.get("manifest_path")?.as_str()?),
            uses,
        });
    }
    Some(packages)
}

fn wrong_arrows(package: &Package) -> Vec<String> {
    let name = &package.name;
    let Some((_, allowed)) = MAY_USE.iter().find(|(row, _)| row == name) else {
        return vec![format!(
            "{name}: this crate has no row in MAY_USE (xtask/src/arrows.rs); a new crate needs one, \
             and a record in docs/decisions"
        )];
    };
    let allowed_list = if allowed.is_empty() { "nothing".to_string() } else { allowed.join(", ") };
    let used: BTreeSet<&String> = package.uses.iter().collect();
    used.into_iter()
        .filter(|used| !allowed.contains(&used.as_str()))
        .map(|used| {
            format!("{name} -> {used}: not an arrow of the architecture; {name} may use: {allowed_list}")
        })
        .collect()
}

/// Packages that do not take the workspace's lints, and files that allow unsafe code where none may be.
fn wrong_lints(package: &Package) -> Result<Vec<String>, String> {
    let name = &package.name;
    let mut findings = Vec::new();
    if !takes_workspace_lints(&read(&package.manifest)?) {
        findings.push(format!("{name}: Cargo.toml lacks `[lints]` with `workspace = true`"));
    }
    if !MAY_BE_UNSAFE.contains(&name.as_str())
        && let Some(folder) = package.manifest.parent()
    {
        let in_a_room = |file: &&PathBuf| {
            UNSAFE_FOLDERS.iter().any(|room| file.parent().is_some_and(|parent| parent.ends_with(room)))
        };
        let files = rust_files(folder)?;
        for file in files.iter().filter(|file| !in_a_room(file)) {
            for line in allows_unsafe(&read(file)?) {
                let file = file.display();
                findings.push(format!(
                    "{file}:{line}: unsafe code is allowed here, but {name} is none of the crates that may \
                     hold it: {}",
                    MAY_BE_UNSAFE.join(", ")
                ));
            }
        }
    }
    Ok(findings)
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true")
}

/// The numbers of the lines whose attributes lift the ban on unsafe code.
fn allows_unsafe(source: &str) -> Vec<usize> {
    let lifts = |line: &str| {
        let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        line.starts_with("#")
            && ["allow(", "expect(", "warn("].iter().any(|attribute| line.contains(attribute))
            && line.contains("unsafe_code")
    };
    source.lines().enumerate().filter(|(_, line)| lifts(line)).map(|(i, _)| i + 1).collect()
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(&folder).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(ToString::to_string).collect();
        Package { name: name.to_string(), manifest: PathBuf::new(), uses }
    }

    #[test]
    fn an_arrow_of_the_table_passes_and_another_is_named() {
        assert_eq!(wrong_arrows(&package("fib", &["epoch"])), Vec::<String>::new());
        assert_eq!(
            wrong_arrows(&package("fib", &["packet", "epoch", "packet"])),
            ["fib -> packet: not an arrow of the architecture; fib may use: epoch"]
        );
        assert_eq!(
            wrong_arrows(&package("lang", &["packet"])),
            ["lang -> packet: not an arrow of the architecture; lang may use: nothing"]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_a_finding() {
        let findings = wrong_arrows(&package("extra", &[]));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("extra: this crate has no row"), "{findings:?}");
    }

    #[test]
    fn the_table_has_no_cycle_and_names_only_its_own_crates() {
        // Repeatedly take away the crates that use only crates already taken.
        let mut left: Vec<_> = MAY_USE.to_vec();
        while !left.is_empty() {
            let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
            let before = left.len();
            left.retain(|(_, uses)| uses.iter().any(|used| names.contains(used)));
            assert!(left.len() < before, "a cycle among {names:?}");
        }
        for (name, uses) in MAY_USE {
            for used in *uses {
                assert!(MAY_USE.iter().any(|(row, _)| row == used), "{name} -> {used}: no such row");
            }
        }
    }

    #[test]
    fn rows_of_the_manual_are_compared() {
        let page =
            "| `epoch` | tables | – |\n| `fib` | lookup | `epoch` |\n| `router` | wiring | all of them |\n";
        let crates = ["epoch", "fib", "router"];
        assert_eq!(wrong_rows(page, &crates), Vec::<String>::new());
        let stale = page.replace("`epoch` |\n| `router", "– |\n| `router");
        assert_eq!(
            wrong_rows(&stale, &crates),
            ["docs/packet-way.md: the row of fib must end with | `epoch` |"]
        );
        assert_eq!(
            wrong_rows(page, &["epoch", "packet"]),
            ["docs/packet-way.md: the row of packet must end with | – |"]
        );
    }

    #[test]
    fn dependencies_by_path_are_arrows_of_every_kind_and_others_are_none() {
        let metadata = serde_json::json!({"packages": [{
            "name": "graph",
            "manifest_path": "/w/crates/graph/Cargo.toml",
            "dependencies": [
                {"name": "packet", "path": "/w/crates/packet", "kind": null},
                {"name": "serde", "source": "registry", "kind": null},
                {"name": "elements", "path": "/w/crates/elements", "kind": "dev"},
            ],
        }]});
        let packages = parse_metadata(&metadata).unwrap();
        assert_eq!(packages[0].uses, ["packet", "elements"]);
        assert_eq!(wrong_arrows(&packages[0]).len(), 1);
        assert!(parse_metadata(&serde_json::json!({"packages": [{}]})).is_none());
    }

    #[test]
    fn what_is_only_measured_is_an_arrow_only_outside_tests() {
        let uses = |kind: Value| {
            let dependencies = serde_json::json!([{"name": "fib", "path": "/w/crates/fib", "kind": kind}]);
            let manifest = "/w/crates/dpdk/Cargo.toml";
            let package =
                serde_json::json!({"name": "dpdk", "manifest_path": manifest, "dependencies": dependencies});
            parse_metadata(&serde_json::json!({"packages": [package]})).unwrap().remove(0).uses
        };
        assert_eq!(uses("dev".into()), Vec::<String>::new());
        assert_eq!(uses(Value::Null), ["fib"]);
    }

    #[test]
    fn attributes_that_allow_unsafe_code_are_found_by_line() {
        let source = "//! allow(unsafe_code) in words\n#![allow(unsafe_code)]\nfn f() {}\n    #[ expect(missing_docs, \
                      unsafe_code, reason = \"r\") ]\n#![forbid(unsafe_code)]\n";
        assert_eq!(allows_unsafe(source), [2, 4]);
    }

    #[test]
    fn only_the_lints_table_counts_as_taking_the_lints() {
        assert!(takes_workspace_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(!takes_workspace_lints("[package]\nname = \"a\"\n"));
        assert!(!takes_workspace_lints("[lints]\n[dependencies.x]\nworkspace = true\n"));
    }
}
