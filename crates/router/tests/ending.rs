//! How runs end: what comes out, the books, exit codes, and what is told to whom.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::running::Running;
use common::{command, did, run};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_router_goes_on_when_nobody_reads_its_messages() {
    // Each of these packets is faulty, and each is told about.
    let mut running = Running::with(
        "InfiniteSource(LIMIT 5) -> ToDump(out.pcap);
         RatedSource(DATA \\<00>, RATE 1000) -> CheckIPHeader(VERBOSE true) -> c :: Counter -> Discard;
         RatedSource(RATE 1000) -> went :: Counter -> Discard;",
    );
    drop(running.child.stderr.take());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(running.show(&["drops"]).code, 0);
    running.signal("-TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    // A capture begins with 24 bytes; 16 come before each packet.
    let written = std::fs::metadata(running.dir.path().join("out.pcap")).unwrap().len();
    assert_eq!(written, 24 + 5 * (16 + 64));
}

#[test]
fn a_signal_told_twice_is_one() {
    let mut running =
        Running::with("InfiniteSource -> Discard; InfiniteSource(LIMIT 5) -> ToDump(out.pcap);");
    std::thread::sleep(Duration::from_millis(300));
    let pid = running.child.id().to_string();
    let twice = format!("kill -INT {pid}; kill -INT {pid}");
    // The second may come when it is gone.
    let _ = std::process::Command::new("sh").args(["-c", &twice]).stderr(Stdio::null()).status().unwrap();
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_terminal_that_goes_ends_a_router_in_order_unless_that_is_ignored() {
    let text = "InfiniteSource -> Discard; InfiniteSource(LIMIT 5) -> ToDump(out.pcap);";
    let mut running = Running::with(text);
    running.signal("-HUP");
    running.signal("-HUP");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    let written = std::fs::metadata(running.dir.path().join("out.pcap")).unwrap().len();
    assert_eq!(written, 24 + 5 * (16 + 64));

    let mut running = Running::started_by(&["nohup"], text);
    running.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(running.child.try_wait().unwrap(), None);
    running.signal("-TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

/// A directory with a capture of so many packets.
fn with_capture(packets: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("InfiniteSource(LIMIT {packets}) -> ToDump(a.pcap);");
    assert_eq!(run(dir.path(), &["run", "-e", &text]), did(0, "", ""));
    dir
}

#[test]
fn all_that_came_in_comes_out_with_any_number_of_workers() {
    let dir = with_capture(10_000);
    let text = "FromDump(a.pcap, STOP true) -> t :: RoundRobinSwitch;
        t[0] -> q0 :: Queue(200000) -> u0 :: Unqueue -> d0 :: ToDump(s0.pcap);
        t[1] -> q1 :: Queue(200000) -> u1 :: Unqueue -> d1 :: ToDump(s1.pcap);";
    let want = did(0, "d0.count:\n5000\n\nd1.count:\n5000\n\n", "");
    for workers in ["1", "2", "2", "2", "2", "2", "2", "3", "3"] {
        let args = ["run", "-j", workers, "-e", text, "--read", "d0.count", "--read", "d1.count"];
        assert_eq!(run(dir.path(), &args), want, "{workers} workers");
    }
}

#[test]
fn what_waits_at_the_end_is_held_and_in_the_books() {
    let dir = with_capture(10_000);
    let text =
        "FromDump(a.pcap, STOP true) -> c :: Counter -> Queue(20000) -> Unqueue(ACTIVE false) -> Discard;
        InfiniteSource(LIMIT 7) -> Idle;";
    let books = "routebricks: stopped: 10007 packets in, 0 out, 7 lost, 10000 held, 0 buffers missing\n";
    for workers in ["1", "2"] {
        let args = ["run", "-j", workers, "-e", text, "--read", "c.count"];
        assert_eq!(run(dir.path(), &args), did(0, "10000\n", books), "{workers} workers");
    }
}

#[test]
fn packets_that_go_round_by_a_queue_do_not_keep_a_router_from_its_end() {
    let text = "InfiniteSource(LIMIT 10, STOP true) -> q :: Queue -> Unqueue -> q;";
    let books = "routebricks: stopped: 10 packets in, 0 out, 0 lost, 10 held, 0 buffers missing\n";
    assert_eq!(run(std::path::Path::new("."), &["run", "-e", text]), did(0, "", books));
}

#[test]
fn handlers_that_cannot_be_read_are_refused_before_anything_runs() {
    let read = |name| {
        let text = "InfiniteSource(LIMIT 3) -> x :: Counter -> Idle;";
        run(std::path::Path::new("."), &["run", "-e", text, "--read", name])
    };
    assert_eq!(read("x.nosuch"), did(1, "", "error: no 'x.nosuch' handler\n"));
    assert_eq!(read("y.count"), did(1, "", "error: no element named 'y'\n"));
    assert_eq!(read("x.reset"), did(1, "", "error: 'x.reset' is not readable\n"));
    assert_eq!(read("nodot"), did(1, "", "error: 'nodot' is not of the form ELEMENT.HANDLER\n"));
}

#[test]
fn values_that_cannot_be_written_are_an_error() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let text = "InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;";
    let mut child = command(std::path::Path::new("."), &["run", "-e", text, "--read", "c.count"]);
    let output = child.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "error: cannot write standard output: No space left on device\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_router_that_does_not_answer_is_not_waited_for() {
    let running = Running::with("InfiniteSource -> Discard;");
    running.signal("-STOP");
    let want = format!("error: no answer from {} within 5 s\n", running.socket.display());
    assert_eq!(running.show(&["runtime"]), did(1, "", &want));
}

#[test]
fn pictures_clear_a_screen_only_where_there_is_one() {
    let running = Running::with("InfiniteSource -> Discard;");
    let socket = running.socket.to_str().unwrap();
    let mut watch = command(running.dir.path(), &["show", "runtime", "--watch", "--socket", socket]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 7];
    watch.stdout.take().unwrap().read_exact(&mut first).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(&first, b"element");
}
