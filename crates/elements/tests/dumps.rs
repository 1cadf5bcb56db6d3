//! Capture files: what is read, what is written, and what happens when a file cannot be read or written.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../io/tests/captures/encode.rs"]
mod encode;

use elements::harness::{Bench, Setup};
use io::NoDevices;
use io::pcap::{LinkType, Reader, Record, SNAP_LEN, Writer};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// Simulated time begins here too.
const START: u64 = 1_000_000_000 * SECOND;

fn write(path: &Path, link: LinkType, records: &[(u64, u32, Vec<u8>)]) {
    let mut writer = Writer::create(path, link, SNAP_LEN).unwrap();
    records.iter().for_each(|(time, length, data)| writer.write(*time, *length, data).unwrap());
    writer.flush().unwrap();
}

fn read(path: &Path) -> (LinkType, Vec<Record>) {
    let mut reader = Reader::open(path).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        all.push(record);
    }
    (reader.link_type(), all)
}

/// `n` packets, one a second, each 20 bytes longer than the one before.
fn packets(n: u64) -> Vec<(u64, u32, Vec<u8>)> {
    let packet = |i: u64| {
        let data = vec![u8::try_from(i).unwrap(); usize::try_from(60 + 20 * i).unwrap()];
        (START + i * SECOND + 7, u32::try_from(data.len()).unwrap(), data)
    };
    (0..n).map(packet).collect()
}

/// Runs a configuration in which `DIR` stands for a directory.
fn bench(config: &str, dir: &Path) -> Result<Bench, String> {
    Bench::new(&config.replace("DIR", dir.to_str().unwrap()), &Setup::default())
}

fn run(config: &str, dir: &Path) -> Bench {
    let mut bench = bench(config, dir).unwrap();
    bench.run().unwrap();
    bench
}

#[test]
fn what_is_read_is_written() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::Ethernet, &packets(100));
    let want = read(&dir.path().join("in"));
    for way in [
        "FromDump(DIR/in) -> ToDump(DIR/out)",
        "FromDump(DIR/in) -> ToDump(DIR/out) -> Discard",
        "FromDump(DIR/in) -> Queue(7) -> ToDump(DIR/out, UNBUFFERED true)",
        "FromDump(DIR/in) -> Queue(7) -> ToDump(DIR/out) -> Discard",
        "FromDump(DIR/in) -> Unqueue -> ToDump(DIR/out)",
    ] {
        run(way, dir.path()).end().unwrap();
        assert_eq!(read(&dir.path().join("out")), want, "{way}");
    }
}

#[test]
fn lengths_on_the_wire_survive() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::RawIp, &[(START, 1400, vec![0x45; 60])]);
    let cases = [
        ("SNAPLEN 20, USE_ENCAP_FROM f", LinkType::RawIp, 1400, 20),
        ("ENCAP IP, EXTRA_LENGTH false", LinkType::RawIp, 60, 60),
        ("ENCAP 147", LinkType::Other(147), 1400, 60),
        ("0, ETHER", LinkType::Ethernet, 1400, 60),
    ];
    for (arguments, link, wire, captured) in cases {
        run(&format!("f :: FromDump(DIR/in) -> ToDump(DIR/out, {arguments})"), dir.path()).end().unwrap();
        let (got, records) = read(&dir.path().join("out"));
        assert_eq!((got, records[0].wire_len, records[0].data.len()), (link, wire, captured), "{arguments}");
    }
}

#[test]
fn parts_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::Ethernet, &packets(10));
    for (arguments, want) in [
        ("START 1000000003", 7),
        ("START_AFTER 3s", 7),
        ("END 1000000003", 3),
        ("END_AFTER 3", 3),
        ("START_AFTER 2, INTERVAL 4", 4),
        ("SAMPLE 0", 0),
        ("ACTIVE false", 0),
    ] {
        let bench = run(&format!("f :: FromDump(DIR/in, {arguments}) -> Discard"), dir.path());
        assert_eq!(bench.read("f.count"), want.to_string(), "{arguments}");
        bench.end().unwrap();
    }
    let bench = run("f :: FromDump(DIR/in, SAMPLE 0.5) -> Discard", dir.path());
    assert!(bench.read("f.count").parse::<u32>().unwrap() < 10);
    bench.end().unwrap();
}

#[test]
fn packets_come_at_the_pace_of_the_capture_if_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::Ethernet, &packets(10));
    for way in [
        "FromDump(DIR/in, TIMING true) -> c :: Counter -> Discard",
        "f :: FromDump(DIR/in, TIMING true) -> Unqueue -> c :: Counter -> Discard",
    ] {
        let mut bench = bench(way, dir.path()).unwrap();
        bench.run_for(4 * SECOND + SECOND / 2);
        // The clock jumps to the next packet's time when nothing else is to be done, so that one has come too.
        assert_eq!(bench.read("c.count"), "5", "{way}");
        bench.run_for(20 * SECOND);
        assert_eq!(bench.read("c.count"), "10", "{way}");
        bench.end().unwrap();
    }
}

#[test]
fn only_ip_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut ip = vec![0; 12];
    ip.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 1, 17, 0, 0, 1, 1, 1, 1, 10, 0, 0, 9]);
    write(&dir.path().join("in"), LinkType::Ethernet, &[(START, 34, ip), (START, 60, vec![0; 60])]);
    let bench = run("f :: FromDump(DIR/in, FORCE_IP true) -> Discard", dir.path());
    assert_eq!((bench.read("f.count"), bench.losses()), ("1".into(), vec!["f.not_ip = 1".to_owned()]));
    bench.end().unwrap();
    let bench = run("f :: FromDump(DIR/in, FORCE_IP true) -> Discard; f[1] -> d :: Discard", dir.path());
    assert_eq!((bench.read("f.count"), bench.read("d.count")), ("1".into(), "1".into()));
    bench.end().unwrap();
}

#[test]
fn damaged_and_oversized_are_lost_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    write(&path, LinkType::Ethernet, &packets(3));
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let bench = run("f :: FromDump(DIR/in) -> Discard", dir.path());
    assert_eq!((bench.read("f.count"), bench.losses()), ("2".into(), vec!["f.damaged = 1".to_owned()]));
    let error = bench.end().unwrap_err();
    assert!(error.contains("ends in the middle of a packet"), "{error}");
    write(&path, LinkType::Ethernet, &[(START, 60_000, vec![1; 60_000]), (START, 60, vec![2; 60])]);
    let bench = run("f :: FromDump(DIR/in) -> Discard", dir.path());
    assert_eq!((bench.read("f.count"), bench.losses()), ("1".into(), vec!["f.too_big = 1".to_owned()]));
    bench.end().unwrap();
}

#[test]
fn packets_of_a_pcapng_file_that_cannot_be_used_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = encode::File::new(true);
    // One without packets, of another link type, says nothing of the file.
    file.interface(113, 0, &[]);
    file.interface(1, 0, &[]);
    file.enhanced(9, 1, 4, b"its interface is not there", &[]);
    file.enhanced(1, 1, 4, b"data", &[]);
    file.enhanced(0, 2, 4, b"cooked", &[]);
    file.block(0x77, b"unknown");
    file.enhanced(1, 3, 4, b"data", &[]);
    std::fs::write(dir.path().join("in"), &file.bytes).unwrap();
    let bench = run("f :: FromDump(DIR/in) -> Discard", dir.path());
    assert_eq!((bench.read("f.count"), bench.read("f.encap")), ("2".into(), "ETHER".into()));
    assert_eq!(bench.losses(), ["f.invalid = 1", "f.other_link = 1"]);
    bench.end().unwrap();
}

#[test]
fn packets_without_time_come_with_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = encode::File::new(false);
    file.interface(1, 0, &file.option(encode::TSRESOL, &[9]));
    file.simple(4, b"data");
    file.enhanced(0, START, 4, b"data", &[]);
    file.simple(4, b"data");
    file.enhanced(0, START + 10 * SECOND, 4, b"data", &[]);
    std::fs::write(dir.path().join("in"), &file.bytes).unwrap();
    let mut bench =
        bench("f :: FromDump(DIR/in, TIMING true) -> c :: Counter -> Discard", dir.path()).unwrap();
    bench.run_for(SECOND);
    assert_eq!(bench.read("c.count"), "3");
    bench.run_for(20 * SECOND);
    assert_eq!(bench.read("c.count"), "4");
    bench.end().unwrap();
    for (arguments, want) in [("START_AFTER 5", 1), ("END_AFTER 5", 3)] {
        let bench = run(&format!("f :: FromDump(DIR/in, {arguments}) -> Discard"), dir.path());
        assert_eq!(bench.read("f.count"), want.to_string(), "{arguments}");
        bench.end().unwrap();
    }
}

#[test]
fn more_packets_than_buffers() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::Ethernet, &packets(100));
    struct Small(packet::Pool, NoDevices);
    impl io::Devices for Small {
        fn limits(&self, name: &str) -> Result<io::Limits, io::OpenError> {
            self.1.limits(name)
        }
        fn claim(&self, name: &str, claim: io::Claim) -> Result<(), io::OpenError> {
            self.1.claim(name, claim)
        }
        fn start(&self) -> Result<(), io::OpenError> {
            Ok(())
        }
        fn port(&self, name: &str) -> Result<Arc<dyn io::Port>, io::OpenError> {
            self.1.port(name)
        }
        fn pool(&self) -> packet::Pool {
            self.0.clone()
        }
        fn set_pool_size(&self, _: io::PoolSize) {}
        fn stop(&self) {}
    }
    let devices = Arc::new(Small(packet::Pool::heap(5, 2100), NoDevices::new("")));
    let config = format!("f :: FromDump({}/in) -> Queue -> d :: Discard", dir.path().display());
    let mut bench = Bench::new(&config, &Setup { devices, ..Setup::default() }).unwrap();
    bench.run().unwrap();
    assert_eq!((bench.read("d.count"), bench.losses()), ("100".into(), vec![]));
    bench.end().unwrap();
}

#[test]
fn files_that_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "hello, world").unwrap();
    for (config, want) in [
        ("FromDump(DIR/none) -> Discard", "none: No such file or directory"),
        ("FromDump(DIR/text) -> Discard", "text: not a capture file"),
        ("Idle -> ToDump(DIR/no/file)", "file: No such file or directory"),
        ("Idle -> ToDump(/dev/full)", "/dev/full: No space left on device"),
        ("Idle -> ToDump(DIR/out, ENCAP FOO)", "ENCAP: parse error"),
        ("Idle -> ToDump(DIR/out, USE_ENCAP_FROM x)", "USE_ENCAP_FROM: no element named 'x'"),
        ("FromDump(DIR/text, SAMPLE 2) -> Discard", "SAMPLE: a probability is between 0 and 1"),
    ] {
        let error = bench(config, dir.path()).err().unwrap_or_default();
        assert!(error.contains(want), "{config}: {error}");
    }
}

#[test]
fn a_file_that_stops_taking_packets() {
    for (next, lost, passed) in [("", 20, "0"), (" -> c :: Counter -> Discard", 0, "20")] {
        // A pipe whose reader goes away stands for a disk that fills up.
        let (reader, writer) = std::io::pipe().unwrap();
        let config = format!(
            "InfiniteSource(LIMIT 20) -> d :: ToDump(/proc/self/fd/{}, UNBUFFERED true){next}",
            writer.as_raw_fd()
        );
        let mut bench = Bench::new(&config, &Setup::default()).unwrap();
        drop(reader);
        bench.run().unwrap();
        let losses: Vec<String> = (lost > 0).then(|| format!("d.write_error = {lost}")).into_iter().collect();
        assert_eq!((bench.read("d.count"), bench.losses()), ("0".into(), losses));
        if passed != "0" {
            assert_eq!(bench.read("c.count"), passed);
        }
        let error = bench.end().unwrap_err();
        assert!(error.contains("20 packets could not be written to /proc/self/fd/"), "{error}");
    }
}

#[test]
fn stop_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), LinkType::Ethernet, &packets(3));
    // Without STOP this would run for ever.
    let config = "f :: FromDump(DIR/in, STOP true) -> Discard; InfiniteSource -> Discard";
    let bench = run(config, dir.path());
    assert_eq!(bench.read("f.count"), "3");
    bench.end().unwrap();
}
