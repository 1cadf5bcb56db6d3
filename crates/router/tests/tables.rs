//! `table` and `doctor`.

mod common;

use common::{did, run};
use serde_json::Value;
use std::fs;

#[test]
fn made_up_tables_are_inspected_and_converted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let hops = ["--next-hop", "10.0.2.2@1", "--next-hop", "-@0"];
    let args = [&["table", "synth", "--count", "2000", "--seed", "7", "-o", "t.txt"][..], &hops].concat();
    assert_eq!(run(dir, &args), did(0, "", "hole: 198.18.0.0/15 (no route leads there)\n"));
    let text = fs::read_to_string(dir.join("t.txt")).unwrap();
    assert_eq!(text.lines().count(), 2000);
    let printed = run(dir, &[&["table", "synth", "--count", "2000", "--seed", "7"][..], &hops].concat());
    assert_eq!(printed.out, text, "the same seed gives the same table");
    assert!(text.lines().all(|l| l.ends_with(" 10.0.2.2 1") || l.ends_with(" 0")), "{text}");

    let stat: Value = serde_json::from_str(&run(dir, &["table", "stat", "--json", "t.txt"]).out).unwrap();
    let row = &stat["rows"][0];
    assert_eq!(
        (&row["family"], &row["routes"], &row["next_hops"]),
        (&"ipv4".into(), &2000.into(), &2.into())
    );
    let stat = run(dir, &["table", "stat", "t.txt"]);
    assert!(stat.out.starts_with("family     IPv4\nroutes     2000\nnext hops  2\n"), "{}", stat.out);

    assert_eq!(run(dir, &["table", "convert", "t.txt", "t.mrt"]), did(0, "", ""));
    assert_eq!(run(dir, &["table", "convert", "t.mrt", "u.txt", "--port", "3"]), did(0, "", ""));
    let prefixes = |name: &str| {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        let mut all: Vec<String> = text.lines().map(|l| l.split(' ').next().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    assert_eq!(prefixes("u.txt"), prefixes("t.txt"));
}

#[test]
fn an_empty_table_is_converted_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("e.txt"), "# nothing\n").unwrap();
    assert_eq!(run(dir, &["table", "convert", "e.txt", "e.mrt"]), did(0, "", ""));
    assert_eq!(run(dir, &["table", "convert", "e.mrt", "-"]), did(0, "", ""));
    fs::write(dir.join("none.mrt"), "").unwrap();
    let none =
        "error: none.mrt: the dump has no table of routes: expected TABLE_DUMP_V2 records (RFC 6396 §4.3)\n";
    assert_eq!(run(dir, &["table", "convert", "none.mrt", "-"]), did(1, "", none));
}

#[test]
fn what_is_passed_over_in_a_dump_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("t.txt"), "10.0.0.0/8 192.0.2.1 1\n").unwrap();
    assert_eq!(run(dir, &["table", "convert", "t.txt", "t.mrt"]), did(0, "", ""));
    let mut bytes = fs::read(dir.join("t.mrt")).unwrap();
    // 11.0.0.0/8 without routes, a record of multicast, one of RIB_GENERIC.
    bytes.extend([0, 0, 0, 0, 0, 13, 0, 2, 0, 0, 0, 8, 0, 0, 0, 1, 8, 11, 0, 0]);
    bytes.extend([0, 0, 0, 0, 0, 13, 0, 3, 0, 0, 0, 0]);
    bytes.extend([0, 0, 0, 0, 0, 13, 0, 6, 0, 0, 0, 0]);
    fs::write(dir.join("t.mrt"), bytes).unwrap();
    let note =
        "note: t.mrt: passed over 2 records that hold no unicast routes and 1 prefix without a next hop\n";
    let read = run(dir, &["table", "convert", "--port", "3", "t.mrt", "-"]);
    assert_eq!(read, did(0, "10.0.0.0/8 192.0.2.1 3\n", note));
}

#[test]
fn gateways_of_made_up_tables_are_of_their_family() {
    let dir = tempfile::tempdir().unwrap();
    let synth = |family: &str, next_hop: &str| {
        let hops = ["--next-hop", "-@0", "--next-hop", next_hop];
        run(dir.path(), &[&["table", "synth", "--count", "2", "--family", family][..], &hops].concat())
    };
    let error =
        "error: --next-hop fe80::1@2: the gateway is not an IPv4 address, as it must be with --family 4\n";
    assert_eq!(synth("4", "fe80::1@2"), did(1, "", error));
    let error =
        "error: --next-hop 10.0.2.2@1: the gateway is not an IPv6 address, as it must be with --family 6\n";
    assert_eq!(synth("6", "10.0.2.2@1"), did(1, "", error));
    assert_eq!((synth("4", "0.0.0.0@1").code, synth("6", "::@1").code), (0, 0));
}

#[test]
fn tables_of_ipv6() {
    let dir = tempfile::tempdir().unwrap();
    let made =
        run(dir.path(), &["table", "synth", "--count", "10", "--family", "6", "--next-hop", "fe80::1@2"]);
    assert_eq!((made.code, made.out.lines().count()), (0, 10));
    assert_eq!(made.err, "hole: 2001:2::/32 (no route leads there)\n");
    assert!(made.out.lines().all(|l| l.ends_with(" fe80::1 2")));
}

#[test]
fn mistakes_in_tables_have_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("bad.txt"), "10.0.0.0/8 1\n10.0.0.0/33 1\nx\n").unwrap();
    let result = run(dir.path(), &["table", "stat", "bad.txt"]);
    let lines: Vec<&str> = result.err.lines().collect();
    assert_eq!((result.code, result.out.as_str(), lines.len()), (1, "", 2));
    assert!(
        lines[0].starts_with("bad.txt:2: error: ") && lines[1].starts_with("bad.txt:3: error: "),
        "{lines:?}"
    );
    let missing = run(dir.path(), &["table", "stat", "none.txt"]);
    assert_eq!(missing, did(1, "", "error: cannot read none.txt: No such file or directory\n"));
    let many = run(dir.path(), &["table", "synth", "--count", "10000001"]);
    assert_eq!(many, did(1, "", "error: 10000001 routes are too many: at most 10000000\n"));
    assert_eq!(run(dir.path(), &["table", "synth", "--next-hop", "x"]).code, 2);
}

#[test]
fn doctor_looks_at_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path(), &["doctor", "--json"]);
    assert_eq!((result.code, result.err.as_str()), (0, ""));
    let table: Value = serde_json::from_str(&result.out).unwrap();
    assert_eq!(table["schema"], "routebricks.doctor/1");
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().all(|r| ["ok", "warn", "bad", "n.a."].contains(&r["verdict"].as_str().unwrap())));
    assert!(rows.iter().any(|r| r["what"] == "/dev/net/tun"));
    let text = run(dir.path(), &["doctor"]);
    assert_eq!(text.out.lines().filter(|l| !l.contains("  -> ")).count(), rows.len() + 2);
}
