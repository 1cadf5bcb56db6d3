//! Captures that others have written go in and come out as tcpdump has them.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
#[path = "../../io/tests/captures/encode.rs"]
mod encode;

use common::{did, run};
use encode::TSRESOL;
use std::path::Path;
use std::process::Command;

const ETHERNET: u16 = 1;
const THROUGH: &str = "f :: FromDump(in, STOP true) -> ToDump(out);";

/// One line for each packet, with its time and all its bytes; `None` without tcpdump.
fn printed(path: &Path) -> Option<String> {
    let options = ["--time-stamp-precision=nano", "-tt", "-xx", "-n", "-e", "-r"];
    let done = Command::new("tcpdump").args(options).arg(path).output().ok()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}

/// What routers send each other with segment routing: blocks and options of many kinds around the packets.
fn blocks(big: bool) -> encode::File {
    let mut file = encode::File::new(big);
    let name = file.option(2, b"\\Device\\NPF_{0}");
    let options = [&name[..], &file.option(TSRESOL, &[9]), &file.option(12, b"Linux"), &file.u32(0)].concat();
    file.interface(ETHERNET, 262_144, &options);
    file.interface(ETHERNET, 262_144, &file.option(TSRESOL, &[0x80 | 30]));
    // Names, secrets, a journal entry, a custom block, one from the future.
    for kind in [4, 10, 9, 0xbad, 0x8000_0042] {
        file.block(kind, &[0x5a; 37]);
    }
    for n in 0..40_u8 {
        let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
        data.extend(vec![n; 46 + usize::from(n)]);
        let wire_len = u32::try_from(data.len()).unwrap() + u32::from(n % 3);
        // A comment that is not ended by an end-of-options.
        let options = file.option(1, b"a comment");
        let nanos = 1_700_000_000_123_456_789 + u64::from(n);
        match n % 3 {
            0 => file.enhanced(0, nanos, wire_len, &data, &options),
            1 => file.enhanced(1, (1_700_000_000 << 30) + u64::from(n) * 12_345, wire_len, &data, &[]),
            _ => file.obsolete(0, nanos, wire_len, &data, &options),
        }
    }
    file.block(5, &[0; 12]);
    file
}

#[test]
fn a_capture_comes_out_as_tcpdump_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["in", "out"].map(|name| dir.path().join(name));
    for big in [false, true] {
        let bytes = blocks(big).bytes;
        std::fs::write(&from, &bytes).unwrap();
        let done = run(dir.path(), &["run", "-e", THROUGH, "--read", "f.count"]);
        assert_eq!(done, did(0, "40\n", ""));
        let Some(want) = printed(&from) else {
            println!("skipped: there is no tcpdump");
            return;
        };
        assert_eq!(want.matches("ethertype").count(), 40);
        assert_eq!(printed(&to), Some(want));
    }
}

#[test]
fn what_is_whole_of_a_cut_capture_is_used_and_the_rest_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = blocks(false).bytes;
    // The statistics are 24 octets, the last packet's block is longer than 100.
    std::fs::write(dir.path().join("in"), &bytes[..bytes.len() - 24 - 50]).unwrap();
    let done = run(dir.path(), &["run", "-e", THROUGH, "--read", "f.count"]);
    // The element is named once.
    let want = "error: f: in: the file ends in the middle of a block; what is before that was read";
    assert_eq!((done.code, done.out.trim()), (1, "39"), "{}", done.err);
    assert!(done.err.contains(want), "{}", done.err);
}
