//! `check`, `fmt`, `graph`, `elements`: exact texts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{command, did, run, run_with};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn five_mistakes_give_five_diagnostics() {
    let dir = tempfile::tempdir().unwrap();
    let text = "// Five mistakes.\n\
        InfiniteSource(LIMT 10)\n    \
        -> Countr\n    \
        -> q :: Queue(ten)\n    \
        -> Unqueue(3, 4)\n    \
        -> Discard;\n\
        q -> [1]undeclared;\n";
    fs::write(dir.path().join("five.click"), text).unwrap();
    let result = run(dir.path(), &["check", "five.click"]);
    let want = "\
five.click:2:16: error: While configuring 'InfiniteSource@1 :: InfiniteSource': LIMT: unknown argument
 2 | InfiniteSource(LIMT 10)
   |                ^^^^
  help: did you mean `LIMIT`?
five.click:3:8: error: no element class `Countr`; did you mean `Counter`?
 3 |     -> Countr
   |        ^^^^^^
  help: write `Counter`
five.click:4:19: error: While configuring 'q :: Queue': CAPACITY: invalid number
 4 |     -> q :: Queue(ten)
   |                   ^^^
five.click:5:19: error: While configuring 'Unqueue@4 :: Unqueue': too many arguments
 5 |     -> Unqueue(3, 4)
   |                   ^
five.click:7:9: error: no element `undeclared`
 7 | q -> [1]undeclared;
   |         ^^^^^^^^^^
  help: declare it before it is used: `undeclared :: Class(...);`
5 errors
";
    assert_eq!(result, did(1, "", want));
    assert_eq!(run(dir.path(), &["run", "five.click"]), did(1, "", want));
    // A byte order mark is no part of the text, nor of its columns.
    fs::write(dir.path().join("five.click"), format!("\u{feff}{text}")).unwrap();
    assert_eq!(run(dir.path(), &["check", "five.click"]), did(1, "", want));
}

#[test]
fn an_unknown_class_hides_no_mistake_in_the_use_of_ports() {
    let text = "FromDump(a.pcap) -> CheckIPHeadr(14) -> q :: Queue;\n\
        a :: InfiniteSource(LIMIT x) -> Discard;\n\
        InfiniteSource -> [3]Tee -> Discard;\n\
        Idle -> t :: Tee -> Unqueue -> Sneak -> Discard;\n";
    let result = run(Path::new(HERE), &["check", "-e", text]);
    let errors: Vec<&str> = result.err.lines().filter(|line| line.starts_with("config:")).collect();
    assert_eq!(
        errors,
        [
            "config:1:21: error: no element class `CheckIPHeadr`; did you mean `CheckIPHeader`?",
            "config:1:41: error: 'q :: Queue' output 0 unused",
            "config:2:27: error: While configuring 'a :: InfiniteSource': LIMIT: invalid number",
            "config:3:19: error: 'Tee@7 :: Tee' has no input 3",
            "config:4:18: error: 't' push output 0 connected to 'Unqueue@11' pull input 0",
            "config:4:32: error: no element class `Sneak`",
        ]
    );
}

#[test]
fn check_says_how_large_a_graph_is() {
    let dir = Path::new(HERE);
    let ok = |n, m| did(0, &format!("ok: {n}, {m}\n"), "");
    assert_eq!(run(dir, &["check", "-e", "Idle -> Counter -> Discard;"]), ok("3 elements", "2 connections"));
    assert_eq!(run(dir, &["check", "-e", "Idle -> Discard;"]), ok("2 elements", "1 connection"));
    assert_eq!(run_with(dir, &["check", "-"], "Idle -> Discard;"), ok("2 elements", "1 connection"));
    let with_variable = ["check", "-e", "Idle -> Queue($N) -> Discard;", "N=5"];
    assert_eq!(run(dir, &with_variable), ok("3 elements", "2 connections"));
}

#[test]
fn a_device_is_not_opened_by_check() {
    let text = "FromDevice(no-such-interface) -> Queue -> ToDevice(no-such-interface);";
    let result = run(Path::new(HERE), &["check", "-e", text]);
    assert_eq!(result, did(0, "ok: 3 elements, 2 connections\n", ""));
}

/// What `check` says to a configuration, which `run` must say as well.
fn refused(config: &str, workers: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let [check, run] =
        ["check", "run"].map(|command| run(dir.path(), &[command, "-j", workers, "-e", config]));
    assert_eq!(check, run, "{config}");
    assert_eq!((check.code, check.out.as_str()), (1, ""), "{config}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{config}");
    check.err
}

#[test]
fn what_run_refuses_check_refuses() {
    let text = refused("s :: InfiniteSource -> Discard; StaticThreadSched(s 1);", "1");
    let want = "\
config:1:51: error: thread 1 does not exist
 1 | s :: InfiniteSource -> Discard; StaticThreadSched(s 1);
   |                                                   ^^^
  help: there are 1: numbers 0 to 0; more with -j
";
    assert_eq!(text, want);
    let cases = [
        ("Idle -> Discard; StaticThreadSched(x 0);", "1", "no element named 'x'"),
        ("Idle -> Discard; ScheduleInfo(x 2);", "1", "no element named 'x'"),
        (
            "Idle -> q :: Queue -> u :: Unqueue -> Discard; StaticThreadSched(q 0, u 1);",
            "2",
            "'u' pulls from or is pulled by an element of thread 0, so it cannot be on thread 1",
        ),
        (
            "c :: Idle -> ToDump(out.pcap, USE_ENCAP_FROM c);",
            "1",
            "While initializing 'ToDump@2 :: ToDump': USE_ENCAP_FROM: only FromDump elements know a link type",
        ),
    ];
    let querier = "Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE d) -> d :: Discard; Idle -> [1] q;";
    let cases = cases.into_iter().chain([(
        querier,
        "1",
        "While initializing 'q :: ARPQuerier': TABLE: not an ARPTable",
    )]);
    for (config, workers, want) in cases {
        let text = refused(config, workers);
        assert!(text.contains(want), "{config}\n{text}");
    }
}

/// Mistakes in the use of devices that can be told whatever devices there are.
#[cfg(feature = "dpdk")]
#[test]
fn devices_that_run_refuses_check_refuses() {
    let null = "FromDPDKDevice(net_null0) -> Discard;";
    let cases = [
        (format!("{null} {null}"), "receive queue 0 of 'net_null0' is read by another element"),
        (
            "FromDPDKDevice(net_null0, N_QUEUES 2) -> Discard; FromDPDKDevice(net_null0, QUEUE 1) -> Discard;"
                .to_owned(),
            "receive queue 1 of 'net_null0' is read by another element",
        ),
        (
            "Idle -> ToDPDKDevice(net_null0); Idle -> ToDPDKDevice(net_null0);".to_owned(),
            "transmit queue 0 of 'net_null0' is used by another element",
        ),
        ("FromDevice(tap:a/b) -> Discard;".to_owned(), "'a/b' cannot be the name of a Linux interface"),
    ];
    for (config, want) in cases {
        let text = refused(&config, "1");
        assert!(text.contains(want), "{config}\n{text}");
    }
}

#[test]
fn check_knows_workers_and_opens_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        "FromDump(none.pcap) -> Print(OUTFILE x.txt) -> IPPrint(OUTFILE y.txt) -> d :: ToDump(z.pcap);
        StaticThreadSched(d 1);";
    let ok = did(0, "ok: 5 elements, 3 connections\n", "");
    assert_eq!(run(dir.path(), &["check", "-j", "2", "-e", config]), ok);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let failed = run(dir.path(), &["run", "-j", "2", "-e", config]);
    assert!(failed.err.contains("While initializing 'FromDump@1 :: FromDump': none.pcap"), "{}", failed.err);
}

#[test]
fn mistakes_in_ports_and_arguments_come_together() {
    let result =
        run(Path::new(HERE), &["check", "-e", "Idle -> Counter(7) -> Discard; Idle -> Null -> [1] Discard;"]);
    let want = "\
config:1:17: error: While configuring 'Counter@2 :: Counter': too many arguments
 1 | Idle -> Counter(7) -> Discard; Idle -> Null -> [1] Discard;
   |                 ^
config:1:48: error: 'Discard@6 :: Discard' has no input 1
 1 | Idle -> Counter(7) -> Discard; Idle -> Null -> [1] Discard;
   |                                                ^^^
  help: Discard has one input: [0]
2 errors
";
    assert_eq!(result, did(1, "", want));
}

#[test]
fn names_of_addresses_are_known_beside_mistakes() {
    let config = "AddressInfo(us 10.0.0.1); Idle -> FixIPSrc(us) -> Nope -> FixIPSrc(su) -> Discard;";
    let result = run(Path::new(HERE), &["check", "-e", config]);
    let errors: Vec<&str> = result.err.lines().filter(|l| l.contains(": error: ")).collect();
    let want = [
        "config:1:51: error: no element class `Nope`",
        "config:1:68: error: While configuring 'FixIPSrc@5 :: FixIPSrc': IPADDR: parse error",
    ];
    assert_eq!(errors, want, "{}", result.err);
}

#[test]
fn libraries_are_found_beside_the_file_and_along_clickpath() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lib")).unwrap();
    fs::write(dir.path().join("lib/a.click"), "A :: Counter;").unwrap();
    fs::write(dir.path().join("b.click"), "require(library a.click); Idle -> A -> Discard;").unwrap();
    let found = command(dir.path(), &["check", "b.click"]).env("CLICKPATH", "/none:lib").output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "ok: 3 elements, 2 connections\n");
    let result = run(dir.path(), &["check", "b.click"]);
    assert_eq!(result.code, 1);
    assert!(result.err.starts_with("b.click:1:"), "{}", result.err);
    assert!(
        result.err.contains("can't find required library 'a.click': not in the current directory"),
        "{}",
        result.err
    );
}

#[test]
fn usage() {
    let dir = Path::new(HERE);
    let cannot_read = did(1, "", "error: cannot read none.click: No such file or directory\n");
    assert_eq!(run(dir, &["check", "none.click"]), cannot_read);
    assert_eq!(run(dir, &["check", "src"]), did(1, "", "error: cannot read src: Is a directory\n"));
    let none = "error: no configuration: name a file, or give one with -e\n\n";
    for args in [&["check"][..], &["check", "A=1"], &["run", "-j", "2"]] {
        let result = run(dir, args);
        assert_eq!((result.code, result.out.as_str()), (2, ""));
        assert!(result.err.starts_with(none), "{}", result.err);
    }
    assert_eq!(run(dir, &["check", "a", "b"]).code, 2);
    assert_eq!(run(dir, &["check", "-e", "", "b"]).code, 2);
    assert_eq!(run(dir, &["nonsense"]).code, 2);
    assert_eq!(run(dir, &[]).code, 2);
    assert_eq!(
        run(dir, &["--version"]),
        did(0, concat!("routebricks ", env!("CARGO_PKG_VERSION"), "\n"), "")
    );
}

#[test]
fn fmt_prints_compares_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (ugly, nice) =
        ("Idle->c::Counter;c->Discard ; // end", "Idle -> c :: Counter;\nc -> Discard; // end\n");
    let file = dir.path().join("x.click");
    fs::write(&file, ugly).unwrap();
    assert_eq!(run(dir.path(), &["fmt", "x.click"]), did(0, nice, ""));
    assert_eq!(
        run(dir.path(), &["fmt", "--check", "x.click"]),
        did(1, "", "error: x.click is not in canonical form\n")
    );
    assert_eq!(run(dir.path(), &["fmt", "--write", "x.click"]), did(0, "", ""));
    assert_eq!(fs::read_to_string(&file).unwrap(), nice);
    assert_eq!(run(dir.path(), &["fmt", "--check", "x.click"]), did(0, "", ""));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(run(dir.path(), &["fmt", "--write", "-e", ugly]), did(1, "", "error: --write needs a file\n"));
    assert_eq!(run(dir.path(), &["fmt", "-e", "Idle -> ;;("]).code, 1);
}

#[test]
fn graph_in_three_formats() {
    let dir = tempfile::tempdir().unwrap();
    let text = "a :: Idle -> b :: Discard;";
    let json = run(dir.path(), &["graph", "--format", "json", "-e", text]);
    let table: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&table["schema"], &table["rows"][0]["outputs"][0]["to"]),
        (&"routebricks.graph/1".into(), &"b".into())
    );
    assert!(run(dir.path(), &["graph", "--format", "dot", "-e", text]).out.starts_with("digraph"));
    assert_eq!(run(dir.path(), &["graph", "-e", text, "-o", "x.svg"]), did(0, "", ""));
    assert!(fs::read_to_string(dir.path().join("x.svg")).unwrap().contains("<svg"));
    let refused = run(dir.path(), &["graph", "-e", text, "-o", "none/x.svg"]);
    assert_eq!(refused, did(1, "", "error: cannot write none/x.svg: No such file or directory\n"));
}

#[test]
fn the_reference() {
    let dir = Path::new(HERE);
    let list = run(dir, &["elements"]);
    assert_eq!((list.code, list.err.as_str()), (0, ""));
    let counter = list.out.lines().find(|l| l.starts_with("  Counter ")).unwrap();
    assert!(counter.ends_with("  counts packets and bytes, and passes them on unchanged."), "{counter}");
    assert!(list.out.lines().any(|l| l == "basic"));
    let one = run(dir, &["elements", "NullElement"]);
    assert!(one.out.starts_with("Null: "), "{}", one.out);
    let unknown = run(dir, &["elements", "Countr"]);
    assert_eq!(unknown, did(1, "", "error: no element class `Countr`; did you mean `Counter`?\n"));
    let json: Value = serde_json::from_str(&run(dir, &["elements", "Counter", "--json"]).out).unwrap();
    let row = &json["rows"][0];
    assert_eq!(
        (&row["class"], &row["layer"], &row["ports"]),
        (&"Counter".into(), &"basic".into(), &"1/1".into())
    );
    assert!(row["text"].as_str().unwrap().contains("# Handlers"));
}

#[test]
fn the_reference_as_markdown() {
    let one = run(Path::new(HERE), &["elements", "--markdown", "Null"]);
    let want = "\
### Null

Passes packets on unchanged.

#### Arguments

None.

#### Ports

One input, one output; push or pull.

#### Example

```click
InfiniteSource(LIMIT 3) -> Null -> d :: Discard;
// d.count = 3
```
";
    assert_eq!(one, did(0, want, ""));
    let all = run(Path::new(HERE), &["elements", "--markdown"]).out;
    assert!(all.starts_with("# Elements\n"), "{all}");
    assert!(all.contains("\n| queue | [Queue](#queue), [Unqueue](#unqueue) |\n"), "{all}");
    assert!(all.contains("\n## Layer queue\n\n### Queue\n"), "{all}");
    assert!(all.contains(&format!("\n{want}\n### ")), "{all}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let mut child = command(Path::new(HERE), &["elements", "--json"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}
