//! Reading and writing together.

use super::*;
use std::path::Path;

fn write(path: &Path, link: LinkType, packets: &[(u64, &[u8])]) {
    let mut w = Writer::create(path, link, SNAP_LEN).unwrap();
    for (t, data) in packets {
        w.write(*t, u32::try_from(data.len()).unwrap(), data).unwrap();
    }
    w.flush().unwrap();
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    write(&path, LinkType::RawIp, &[(1_700_000_000_123_456_789, b"one"), (0, b"")]);
    let mut r = Reader::open(&path).unwrap();
    assert_eq!(r.link_type(), LinkType::RawIp);
    let first = r.next_record().unwrap().unwrap();
    assert_eq!(
        (first.timestamp, first.wire_len, &first.data[..]),
        (Some(1_700_000_000_123_456_789), 3, &b"one"[..])
    );
    assert_eq!(r.next_record().unwrap().unwrap().data, b"");
    assert_eq!(r.next_record().unwrap(), None);
}

#[test]
fn bad_files_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: Option<&[u8]>| {
        let path = dir.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let text = Reader::open(&path).err().unwrap().to_string();
        text.rsplit("/").next().unwrap().to_owned()
    };
    assert_eq!(open("none", None), "none: No such file or directory (os error 2)");
    assert_eq!(open("empty", Some(b"")), "empty: not a capture file (too short)");
    assert_eq!(
        open("text", Some(b"hello, world")),
        "text: not a capture file (no pcap or pcapng magic number)"
    );
    assert_eq!(
        open("packed", Some(&[0x1f, 0x8b, 8, 0, 0])),
        "packed: compressed with gzip: unpack it first, or to the standard input, which is the file `-`"
    );
}

#[test]
fn a_cut_file_ends_with_an_error_after_its_whole_packets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pcap");
    write(&path, LinkType::Ethernet, &[(1, &[7; 60]), (2, &[8; 60])]);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let mut r = Reader::open(&path).unwrap();
    assert_eq!(r.next_record().unwrap().unwrap().data, [7; 60]);
    assert!(r.next_record().unwrap_err().to_string().ends_with("the file ends in the middle of a packet"));
}

#[test]
fn packets_of_which_only_the_beginning_was_captured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.pcap");
    let mut w = Writer::create(&path, LinkType::Ethernet, 20).unwrap();
    w.write(5_000_000_001, 1400, &[7; 60]).unwrap();
    w.flush().unwrap();
    let mut r = Reader::open(&path).unwrap();
    let want = Record {
        timestamp: Some(5_000_000_001),
        wire_len: 1400,
        link: LinkType::Ethernet,
        data: vec![7; 20],
    };
    assert_eq!((r.next_record().unwrap(), r.next_record().unwrap()), (Some(want), None));
}

#[test]
fn a_time_with_more_than_a_second_in_its_fraction_is_carried_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late.pcap");
    write(&path, LinkType::Ethernet, &[(5_000_000_000, &[7; 60]), (9_000_000_000, &[8; 60])]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[28..32].copy_from_slice(&3_999_999_999_u32.to_ne_bytes());
    for (magic, first) in [(0xa1b2_3c4d_u32, 8_999_999_999), (0xa1b2_c3d4, 4_004_999_999_000)] {
        bytes[..4].copy_from_slice(&magic.to_ne_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let mut r = Reader::open(&path).unwrap();
        let mut next = || r.next_record().unwrap().unwrap().timestamp;
        assert_eq!([next(), next()], [Some(first), Some(9_000_000_000)]);
    }
}

#[test]
fn impossible_lengths_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.pcap");
    write(&path, LinkType::Ethernet, &[(1, &[7; 60])]);
    let whole = std::fs::read(&path).unwrap();
    for (length, want) in [
        (200_000_u32, "the file ends in the middle of a packet"),
        (300_000, "damaged capture: a packet of 300000 bytes at octet 24"),
    ] {
        let mut bytes = whole.clone();
        bytes[32..36].copy_from_slice(&length.to_ne_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let error = Reader::open(&path).unwrap().next_record().unwrap_err().to_string();
        assert!(error.ends_with(want), "{error}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let result = Writer::create(Path::new("/dev/full"), LinkType::Ethernet, SNAP_LEN);
    assert!(result.err().unwrap().to_string().starts_with("/dev/full: No space left on device"));
}
