//! Tests of whole routers under a full kernel, in a virtual machine (`scripts/lab-vm`): VLANs, VRFs, bonds and NICs for DPDK
//! are there whatever this machine's kernel has.

use crate::summary::Summary;
use crate::tests_run::{WITH_DPDK, conclude, stream, target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `scripts/lab-vm` ends with where no virtual machine can run.
const CANNOT: i32 = 77;

/// What one boot of the guest runs.
struct Round {
    /// Models of its NICs; there are two of each.
    nics: &'static [&'static str],
    /// Test programs of `lab`, each with words of which the names of its tests must contain one (none: all tests).
    programs: &'static [(&'static str, &'static [&'static str])],
    /// Words that names of tests must not contain: those hold the router to a time, for which an emulated processor is too slow.
    not: &'static [&'static str],
    /// Seconds.
    limit: u32,
}

/// What `make test` runs: tests of what only a full kernel has.
const SHORT: &[Round] =
    &[Round { nics: &[], programs: &[("linux_router", &["vlans::", "vrfs::"])], not: &[], limit: 480 }];

/// What `make lab-vm` runs.
const LONG: &[Round] = &[
    Round { nics: &[], programs: &[("linux_router", &[]), ("interfaces", &[])], not: &[], limit: 3600 },
    Round { nics: &[], programs: &[("like_linux", &[])], not: &[], limit: 3600 },
    Round {
        nics: &["virtio-net-pci", "e1000e", "vmxnet3"],
        programs: &[("nics", &[])],
        not: &[],
        limit: 1200,
    },
];

/// Builds what the guest runs, and runs it; with `words` only the tests whose names contain one of them.
///
/// # Errors
/// What does not build; empty if a test failed, which is told.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let mut build = xtask::cargo();
    build.args(["build", "--package", "router"]).args(WITH_DPDK).current_dir(root);
    if !build.status().is_ok_and(|status| status.success()) {
        return Err("the router does not build".to_owned());
    }
    let mut summary = Summary::default();
    let clean = rounds(root, LONG, words, &mut summary)?;
    conclude(clean, summary)
}

/// The part of it that `make test` runs; whether it ended well.
///
/// # Errors
/// What does not build.
pub fn short(root: &Path, summary: &mut Summary) -> Result<bool, String> {
    rounds(root, SHORT, &[], summary)
}

fn rounds(root: &Path, rounds: &[Round], words: &[String], summary: &mut Summary) -> Result<bool, String> {
    let programs = programs(root)?;
    let mut clean = true;
    for round in rounds {
        let mut machine = Command::new(root.join("scripts/lab-vm"));
        machine.args(["--limit", &round.limit.to_string()]);
        machine.args(round.nics.iter().flat_map(|model| ["--nic", model]));
        machine.args(["bash", "-c", &script(round, words, &programs)?]).current_dir(root);
        machine.env("CARGO_TARGET_DIR", target(root));
        machine.env("ROUTEBRICKS", target(root).join("debug/routebricks"));
        let code = stream(machine, summary).map_err(|e| format!("cannot run scripts/lab-vm: {e}"))?;
        if code == Some(CANNOT) {
            summary.skip("tests under a full kernel", "no virtual machine can run here: see above");
            return Ok(clean);
        }
        clean &= code == Some(0);
    }
    Ok(clean)
}

/// What the guest does: it runs one test program after the other, as cargo would.
fn script(round: &Round, words: &[String], programs: &BTreeMap<String, PathBuf>) -> Result<String, String> {
    let mut script = String::from("code=0\n");
    for (name, wanted) in round.programs {
        let program = programs.get(*name).ok_or_else(|| format!("there is no test program {name} in lab"))?;
        let wanted: Vec<&str> =
            if words.is_empty() { wanted.to_vec() } else { words.iter().map(String::as_str).collect() };
        let not: String = round.not.iter().fold(String::new(), |text, word| text + " --skip " + word);
        let _ = writeln!(
            script,
            "echo '     Running {name} in a virtual machine'\n\
             '{}' --test-threads 1 --show-output --color never{not} {} || code=1",
            program.display(),
            wanted.join(" "),
        );
    }
    Ok(script + "exit $code\n")
}

/// The test programs of `lab`, by name, built if they were not.
fn programs(root: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut cargo = xtask::cargo();
    cargo.args(["test", "--no-run", "--message-format=json", "--workspace"]).args(WITH_DPDK);
    cargo.current_dir(root).env("CARGO_TARGET_DIR", target(root)).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let messages = output.stdout.split(|&byte| byte == b'\n');
    Ok(messages.filter_map(|line| program(&serde_json::from_slice(line).ok()?)).collect())
}

/// The name and the file of a test program, if this is cargo's message about one of `lab`.
fn program(message: &Value) -> Option<(String, PathBuf)> {
    let target = &message["target"];
    let is_test = target["kind"].as_array()?.iter().any(|kind| kind == "test");
    let of_lab = message["manifest_path"].as_str()?.ends_with("tests/lab/Cargo.toml");
    let file = message["executable"].as_str().filter(|_| is_test && of_lab)?;
    Some((target["name"].as_str()?.to_owned(), file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn test_programs_of_lab_are_found_in_the_messages_of_cargo() {
        let message = |kind: &str, manifest: &str| {
            json!({"reason": "compiler-artifact", "manifest_path": manifest, "executable": "/t/a-1",
                "target": {"kind": [kind], "name": "a"}})
        };
        let found = program(&message("test", "/r/tests/lab/Cargo.toml"));
        assert_eq!(found, Some(("a".to_owned(), PathBuf::from("/t/a-1"))));
        assert_eq!(program(&message("bin", "/r/tests/lab/Cargo.toml")), None);
        assert_eq!(program(&message("test", "/r/crates/fib/Cargo.toml")), None);
        assert_eq!(program(&json!({"reason": "build-finished"})), None);
    }

    #[test]
    fn the_guest_runs_each_program_and_remembers_failures() {
        let programs = BTreeMap::from([("a".to_owned(), PathBuf::from("/t/a-1"))]);
        let round = Round { nics: &[], programs: &[("a", &["x::", "y::"])], not: &["z"], limit: 1 };
        assert_eq!(
            script(&round, &[], &programs).unwrap(),
            "code=0\necho '     Running a in a virtual machine'\n\
             '/t/a-1' --test-threads 1 --show-output --color never --skip z x:: y:: || code=1\nexit $code\n"
        );
        let chosen = script(&round, &["w".to_owned()], &programs).unwrap();
        assert!(chosen.contains(" --skip z w || code=1"), "{chosen}");
        let missing = Round { programs: &[("b", &[])], ..round };
        assert_eq!(script(&missing, &[], &programs), Err("there is no test program b in lab".to_owned()));
    }
}
