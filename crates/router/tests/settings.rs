//! `routebricks router --settings` before it does anything with the system.
#![allow(clippy::unwrap_used, reason = "test code may panic")]

mod common;

use common::{did, run};

#[test]
fn mistakes_in_settings_are_told_with_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).unwrap();
    file("r.toml", b"prots = ['eth1']\nworkers = '2'\n");
    let err = "r.toml:1:1: error: no setting `prots`; did you mean `ports`?\n\
               \x201 | prots = ['eth1']\n\
               \x20  | ^^^^^\n\
               r.toml:2:11: error: `workers` is a whole number from 1 to 256, not a string\n\
               \x202 | workers = '2'\n\
               \x20  |           ^^^\n\
               2 errors\n";
    assert_eq!(run(dir.path(), &["router", "--settings", "r.toml"]), did(1, "", err));
    // Nothing else is looked at as long as the file is wrong.
    assert_eq!(
        run(dir.path(), &["router", "eth1", "--settings", "r.toml", "--print-config"]),
        did(1, "", err)
    );
    // A byte order mark is no part of the text, nor of its columns.
    let marked = [&b"\xef\xbb\xbf"[..], b"prots = ['eth1']\nworkers = '2'\n"].concat();
    file("r.toml", &marked);
    assert_eq!(run(dir.path(), &["router", "--settings", "r.toml"]), did(1, "", err));
    file("r.toml", b"workers = 2\n");
    let err = "error: r.toml: no ports are given\n";
    assert_eq!(run(dir.path(), &["router", "--settings", "r.toml"]), did(1, "", err));
    let err = "error: port lo is given twice\n";
    assert_eq!(run(dir.path(), &["router", "lo", "a", "lo"]), did(1, "", err));
    file("r.toml", b"# \xff\n");
    let err = "error: r.toml: byte 2 is not UTF-8, in which TOML is written\n";
    assert_eq!(run(dir.path(), &["router", "--settings", "r.toml"]), did(1, "", err));
    let err = "error: none.toml: No such file or directory\n";
    assert_eq!(run(dir.path(), &["router", "--settings", "none.toml"]), did(1, "", err));
    // Neither ports nor settings is wrong usage.
    assert_eq!(run(dir.path(), &["router"]).code, 2);
}
