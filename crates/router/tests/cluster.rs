//! `routebricks cluster` before it does anything with the system.
#![allow(clippy::unwrap_used, reason = "test code may panic")]

mod common;

use common::{did, run};

const FILE: &str = "\
[cluster]
name = 'none-such'
control = 'a'
line_rate = '10G'
[[node]]
name = 'a'
ports = [{ name = 'ext1', device = 'no-such-port1' }]
[[node]]
name = 'b'
ports = [{ name = 'ext2', device = 'no-such-port2' }]
";

#[test]
fn a_file_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = |text: &str| std::fs::write(dir.path().join("c.toml"), text).unwrap();
    file(FILE);
    let out = "cluster none-such: 2 nodes, 2 lines, internal links of 10000 Mbit/s or more\n";
    assert_eq!(run(dir.path(), &["cluster", "check", "c.toml"]), did(0, out, ""));
    file(&format!("{FILE}[[class]]\nname = 'voice'\norder = 'single-path'\ndscp = ['ef', 40]\n"));
    let classes = format!("{out}class voice: single-path, for packets with DSCP 46, 40\n");
    assert_eq!(run(dir.path(), &["cluster", "check", "c.toml"]), did(0, &classes, ""));
    file(&FILE.replace("control = 'a'", "control = 'x'").replace("line_rate", "line_rat"));
    let err = "c.toml:1:1: error: [cluster] lacks `line_rate`\n\
               \x201 | [cluster]\n\
               \x20  | ^^^^^^^^^\n\
               c.toml:3:11: error: no node `x`\n\
               \x203 | control = 'x'\n\
               \x20  |           ^^^\n\
               \x20 help: there are a and b\n\
               c.toml:4:1: error: no setting of a cluster `line_rat`; did you mean `line_rate`?\n\
               \x204 | line_rat = '10G'\n\
               \x20  | ^^^^^^^^\n\
               3 errors\n";
    assert_eq!(run(dir.path(), &["cluster", "check", "c.toml"]), did(1, "", err));
    // With mistakes nothing is run or printed.
    assert_eq!(run(dir.path(), &["cluster", "print-config", "c.toml", "a"]), did(1, "", err));
    assert_eq!(run(dir.path(), &["cluster", "up", "c.toml"]), did(1, "", err));
}

#[test]
fn what_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.toml"), FILE).unwrap();
    let err = "error: there is no node x; there are: a, b\n";
    assert_eq!(run(dir.path(), &["cluster", "print-config", "c.toml", "x"]), did(1, "", err));
    assert_eq!(run(dir.path(), &["cluster", "up", "c.toml", "--node", "x"]), did(1, "", err));
    let err =
        "error: there is no interface no-such-port1; ports are Linux interfaces of this network namespace\n";
    assert_eq!(run(dir.path(), &["cluster", "print-config", "c.toml", "a"]), did(1, "", err));
    let err = "error: no cluster none-such is running here\n";
    for words in [&["status"][..], &["down"], &["drain", "a"], &["start", "a"]] {
        let words = [&["cluster"], words, &["--cluster", "none-such"]].concat();
        assert_eq!(run(dir.path(), &words), did(1, "", err));
    }
}
