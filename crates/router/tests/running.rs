//! `run`, and `show` looking into it.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::running::Running;
use common::{command, did, run};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const ENDLESS: &str =
    "s :: InfiniteSource -> c :: Counter -> Discard; InfiniteSource(LIMIT 60) -> sink :: Idle;";

#[test]
fn a_run_ends_when_its_sources_are_exhausted() {
    let dir = tempfile::tempdir().unwrap();
    let text = "InfiniteSource(LIMIT $N) -> c :: Counter -> Discard;";
    let args = ["run", "-e", text, "N=1000", "-j", "2", "--read", "c.count"];
    assert_eq!(run(dir.path(), &args), did(0, "1000\n", ""));
    let result = run(dir.path(), &["run", "-e", "Idle -> Discard(", "N=1"]);
    assert_eq!(result.code, 1);
    assert!(result.err.starts_with("config:1:"), "{}", result.err);
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let result = run(Path::new("."), &["run", "-e", "Idle -> Discard;", "--http", &address.to_string()]);
    let want = format!(
        "error: cannot serve HTTP on {address}: Address already in use; another program serves there: choose another \
         port\n"
    );
    assert_eq!(result, did(1, "", &want));
}

#[test]
fn show_looks_into_a_running_router() {
    let running = Running::with(ENDLESS);
    let drops = did(0, "element  class  reason  packets\nsink     Idle   idle         60\n", "");
    assert_eq!(running.shows(&["drops"], &drops), drops);
    let runtime: Value = serde_json::from_str(&running.show(&["runtime", "--json"]).out).unwrap();
    assert_eq!(runtime["schema"], "routebricks.runtime/1");
    let counter = &runtime["rows"][1];
    assert_eq!(counter["element"], "c");
    assert!(counter["packets"].as_u64().unwrap() > 0, "{counter}");
    let elements = running.show(&["elements"]);
    let row = elements.out.lines().find(|l| l.starts_with("sink ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..4], ["sink", "Idle", "1", "push"], "{row}");
    let no_ports = "interface  VLAN  VRF  admin  link  MAC  MTU  rx packets  rx bytes  rx lost  tx packets  tx bytes  tx failed  \
                    queues  driver\n";
    assert_eq!(running.show(&["interfaces"]), did(0, no_ports, ""));
    assert_eq!(
        running.show(&["routes"]),
        did(0, "element  VRF  prefix  gateway  port  interface  MTU\n", "")
    );
    assert_eq!(running.show(&["fib"]).code, 0);
    assert_eq!(running.show(&["neighbours"]), did(0, "element  address  MAC  interface  state\n", ""));
    // Filters that nothing can match, or that are for something else, are mistakes.
    let no_vrf = did(1, "", "error: no interface of the router is in a VRF `red`: there is only main\n");
    assert_eq!(running.show(&["routes", "--vrf", "red"]), no_vrf);
    assert_eq!(running.show(&["routes", "--vrf", "red", "--json"]), no_vrf);
    assert_eq!(running.show(&["routes", "--vrf", "main"]).code, 0);
    let misplaced = running.show(&["interfaces", "--vrf", "main"]);
    assert_eq!((misplaced.code, &*misplaced.out), (2, ""));
    assert!(misplaced.err.starts_with("error: --vrf is for `show routes`\n"), "{}", misplaced.err);
    let (code, socket) = running.terminate();
    assert_eq!(code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn routes_are_shown_with_what_was_counted() {
    let running = Running::with(
        "InfiniteSource(DATA \\<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 5) -> MarkIPHeader(0) -> GetIPAddress(16)
           -> RouteCounter(rt) -> rt :: DirectIPLookup(10.0.0.0/8 0, 10.1.0.0/16 10.9.9.9 0) -> Discard;
         Idle -> other :: LookupIP6Route(::/0 0) -> Discard; InfiniteSource -> Discard;",
    );
    let shown = "element  VRF  prefix       gateway   port  interface  MTU  packets  bytes\n\
                 rt       -    10.0.0.0/8   -            0  -          -          0      0\n\
                 rt       -    10.1.0.0/16  10.9.9.9     0  -          -          5    100\n\
                 other    -    ::/0         -            0  -          -          -      -\n";
    let shown = did(0, shown, "");
    assert_eq!(running.shows(&["routes"], &shown), shown);
    let rows: Value = serde_json::from_str(&running.show(&["routes", "--json"]).out).unwrap();
    let counts = |row: usize| (rows["rows"][row]["packets"].as_u64(), rows["rows"][row]["bytes"].as_u64());
    assert_eq!([counts(0), counts(1), counts(2)], [(Some(0), Some(0)), (Some(5), Some(100)), (None, None)]);
}

#[test]
fn a_table_that_elements_share_is_shown_once() {
    let running = Running::with(
        "Idle -> a :: DirectIPLookup(10.0.0.0/8 0, TABLE main) -> Discard; Idle -> b :: RadixIPLookup(TABLE main) -> Discard;
         Idle -> c :: LookupIP6Route(::/0 0, TABLE main) -> Discard; Idle -> d :: LookupIP6Route(TABLE main) -> Discard;
         Idle -> e :: DirectIPLookup(10.0.0.0/8 0) -> Discard; InfiniteSource -> Discard;",
    );
    let shown = "element  VRF  prefix      gateway  port  interface  MTU\n\
                 a        -    10.0.0.0/8  -           0  -          -\n\
                 c        -    ::/0        -           0  -          -\n\
                 e        -    10.0.0.0/8  -           0  -          -\n";
    let shown = did(0, shown, "");
    assert_eq!(running.shows(&["routes"], &shown), shown);
    let rows: Value = serde_json::from_str(&running.show(&["routes", "--json"]).out).unwrap();
    let elements: Vec<_> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["element"].clone()).collect();
    assert_eq!(elements, ["a", "c", "e"]);
}

#[test]
fn top_shows_what_happens_in_an_interval() {
    let running = Running::with(ENDLESS);
    let json = running.ask("top", &["--once", "--json", "--interval", "0.2"]);
    assert_eq!((json.code, json.err.as_str()), (0, ""));
    let table: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(table["schema"], "routebricks.top/1");
    let rows = table["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["element"] == name).unwrap();
    assert!(row("c")["packets_per_second"].as_f64().unwrap() > 1000.0, "{}", json.out);
    let share: f64 = rows.iter().filter_map(|row| row["share_of_core"].as_f64()).sum();
    assert!(share > 0.01, "the worker is busy: {share}");
    assert_eq!(row("sink")["packets_per_second"], 0.0);
    let text = running.ask("top", &["--once", "--interval", "0.1"]);
    let lines: Vec<&str> = text.out.lines().collect();
    assert!(lines[0].starts_with("packets/s: 0 received, 0 sent, 0 lost"), "{}", text.out);
    assert_eq!(lines.iter().filter(|line| line.starts_with("c ")).count(), 1, "{}", text.out);
    assert!(!text.out.contains('\u{1b}'), "no terminal, no escapes");
}

#[test]
fn top_ends_in_order_when_interrupted_and_says_when_the_router_is_gone() {
    let running = Running::with(ENDLESS);
    let socket = running.socket.to_str().unwrap().to_owned();
    let args = ["top", "--socket", &socket, "--interval", "0.1"];
    let start =
        || command(running.dir.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (interrupted, orphan) = (start(), start());
    std::thread::sleep(Duration::from_secs(1));
    assert!(Command::new("kill").args(["-INT", &interrupted.id().to_string()]).status().unwrap().success());
    let output = interrupted.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.matches("100 % = one core").count() >= 1, "{text}");
    running.terminate();
    let output = orphan.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: no answer from "), "{error}");
}

#[test]
fn show_without_a_router() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path(), &["show", "--socket", "none.sock", "drops"]);
    assert_eq!(result, did(1, "", "error: no answer from none.sock: No such file or directory\n"));
    let result = run(dir.path(), &["show", "--pid", "4294967295", "drops"]);
    assert_eq!((result.code, result.out.as_str()), (1, ""));
    assert_eq!(run(dir.path(), &["show", "nothing"]).code, 2);
}
