//! What is read of pcapng files, beside what the writer of the file put there, tcpdump and scapy.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod encode;
mod judges;
mod random;

use encode::{File, TSOFFSET, TSRESOL};
use io::pcap::{LinkType, Reader, Record, SNAP_LEN};
use std::path::Path;

/// Every packet of a file, how many were skipped, and how the file ended.
struct Got {
    link: LinkType,
    records: Vec<Record>,
    invalid: usize,
    error: Option<String>,
}

fn read(path: &Path) -> Got {
    let mut reader = Reader::open(path).unwrap();
    let (mut records, mut error) = (Vec::new(), None);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(e) => {
                error = Some(e.to_string());
                break;
            }
        }
    }
    Got { link: reader.link_type(), records, invalid: reader.invalid(), error }
}

fn read_bytes(bytes: &[u8]) -> Got {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read(file.path())
}

fn record(timestamp: Option<u64>, wire_len: u32, link: LinkType, data: &[u8]) -> Record {
    Record { timestamp, wire_len, link, data: data.to_vec() }
}

const ETHERNET: u16 = 1;

#[test]
fn each_interface_has_its_own_clock_and_link_type() {
    for big in [false, true] {
        let mut file = File::new(big);
        file.interface(ETHERNET, 0, &[]);
        let nanos = file.option(TSRESOL, &[9]);
        file.interface(101, 96, &[nanos, file.u32(0)].concat());
        let binary = file.option(TSRESOL, &[0x80 | 20]);
        let offset = file.option(TSOFFSET, &file.u64(u64::MAX - 9));
        file.interface(ETHERNET, 65_535, &[binary, offset].concat());
        file.enhanced(1, 5, 3, b"two", &[]);
        file.enhanced(0, 7, 1400, b"one", &file.option(1, b"a comment"));
        file.obsolete(2, 12 << 20 | 1 << 19, 5, b"three", &[]);
        let got = read_bytes(&file.bytes);
        let want = [
            record(Some(5), 3, LinkType::RawIp, b"two"),
            record(Some(7_000), 1400, LinkType::Ethernet, b"one"),
            record(Some(2_500_000_000), 5, LinkType::Ethernet, b"three"),
        ];
        assert_eq!((got.link, &got.records[..], got.error), (LinkType::RawIp, &want[..], None));
    }
}

#[test]
fn simple_packets_have_no_time_and_the_first_interface_s_limit() {
    let mut file = File::new(false);
    file.interface(ETHERNET, 6, &[]);
    file.simple(4, b"four");
    file.simple(90, b"sixsixXX");
    file.section(true, 1234);
    file.interface(ETHERNET, 0, &[]);
    file.simple(9, b"not limit");
    let got = read_bytes(&file.bytes);
    let simple = |wire, data| record(None, wire, LinkType::Ethernet, data);
    let want: [Record; 3] = [simple(4, b"four"), simple(90, b"sixsix"), simple(9, b"not limit")];
    assert_eq!((&got.records[..], got.invalid, got.error), (&want[..], 0, None));
}

#[test]
fn malformed_options_cost_nothing() {
    let right = File::new(false).option(TSRESOL, &[9]);
    let wrong: [&[u8]; 7] = [
        // Longer than the block; no room for a header; wrong lengths of what is looked at; more behind the end.
        &[2, 0, 200, 0, 1, 2, 3, 4],
        &[1, 0],
        &[9, 0, 0, 0],
        &[14, 0, 4, 0, 1, 2, 3, 4],
        &[9, 0, 2, 0, 3, 3, 0, 0],
        &[0, 0, 0, 0, 9, 0, 1, 0, 6, 0, 0, 0],
        &[4, 0, 3, 0, 1, 2, 3, 0, 0xff, 0xff, 0xff, 0xff],
    ];
    for wrong in wrong {
        let mut file = File::new(false);
        file.interface(ETHERNET, 0, &[&right, wrong].concat());
        file.enhanced(0, 123, 4, b"data", wrong);
        file.obsolete(0, 124, 4, b"more", wrong);
        let got = read_bytes(&file.bytes);
        let times: Vec<_> = got.records.iter().map(|r| r.timestamp).collect();
        assert_eq!((times, got.error), (vec![Some(123), Some(124)], None), "{wrong:?}");
    }
}

#[test]
fn packets_that_make_no_sense_cost_themselves() {
    let mut file = File::new(true);
    file.enhanced(0, 1, 4, b"no interface yet", &[]);
    file.interface(ETHERNET, 0, &[]);
    file.block(1, b"bad");
    file.interface(ETHERNET, 0, &[]);
    file.enhanced(3, 1, 4, b"no such interface", &[]);
    file.enhanced(1, 1, 4, b"its interface is malformed", &[]);
    file.block(6, b"too short");
    file.block(3, b"");
    let long = [0, 0, 1, 33, 33].map(|n| file.u32(n)).concat();
    file.block(6, &[&long[..], &[0; 32]].concat());
    file.enhanced(2, 1, 4, b"fine", &[]);
    // The interfaces of a section are its own.
    file.section(false, 0);
    file.enhanced(0, 1, 4, b"no interface here", &[]);
    let got = read_bytes(&file.bytes);
    let want = [record(Some(1_000), 4, LinkType::Ethernet, b"fine")];
    assert_eq!((&got.records[..], got.invalid, got.error), (&want[..], 7, None));
}

#[test]
fn long_packets_come_as_far_as_tcpdump_captures() {
    let mut file = File::new(false);
    file.interface(ETHERNET, 0, &[]);
    file.enhanced(0, 1, 300_000, &[7; 300_000], &[]);
    file.enhanced(0, 2, 4, b"next", &[]);
    let got = read_bytes(&file.bytes);
    let lengths: Vec<_> = got.records.iter().map(|r| (r.data.len(), r.wire_len)).collect();
    assert_eq!((lengths, got.error), (vec![(SNAP_LEN as usize, 300_000), (4, 4)], None));
}

#[test]
fn lengths_that_do_not_count_the_padding_are_understood() {
    let mut file = File::new(false);
    file.interface(ETHERNET, 0, &[]);
    let before = file.bytes.len();
    file.enhanced(0, 1, 5, b"short", &[]);
    let length = u32::try_from(file.bytes.len() - before).unwrap();
    let end = file.bytes.len() - 4;
    for at in [before + 4, end] {
        file.bytes[at..at + 4].copy_from_slice(&(length - 3).to_le_bytes());
    }
    let padded = file.bytes.clone();
    let mut bare = file.bytes;
    bare.drain(end - 3..end);
    for bytes in [padded, bare] {
        let bytes = [bytes, File::new(true).bytes].concat();
        let got = read_bytes(&bytes);
        assert_eq!((&got.records[0].data[..], got.error), (&b"short"[..], None));
    }
}

#[test]
fn a_file_that_is_cut_is_read_as_far_as_its_blocks_are_whole() {
    let mut file = File::new(false);
    file.interface(ETHERNET, 0, &[]);
    let mut ends = vec![file.bytes.len()];
    for n in 0..3_u8 {
        file.enhanced(0, 1, 9, &[n; 9], &[]);
        ends.push(file.bytes.len());
    }
    for cut in ends[0]..file.bytes.len() {
        let got = read_bytes(&file.bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!((got.records.len(), got.link), (whole, LinkType::Ethernet));
        let error = got.error.unwrap_or_default();
        assert_eq!(error.is_empty(), ends.contains(&cut), "{error}");
        assert!(error.is_empty() || error.ends_with("the file ends in the middle of a block"), "{error}");
    }
}

#[test]
fn what_nobody_can_read_on_from_is_told_with_its_place() {
    let mut fine = File::new(false);
    fine.interface(ETHERNET, 0, &[]);
    fine.enhanced(0, 1, 4, b"fine", &[]);
    let at = fine.bytes.len();
    let mut mismatch = fine.clone();
    mismatch.block(77, &[0; 8]);
    *mismatch.bytes.last_mut().unwrap() = 1;
    let zeros = [&fine.bytes[..], &[0; 32]].concat();
    let other = [&fine.bytes[..], &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 1, 2, 3, 4]].concat();
    for (bytes, want) in [
        (mismatch.bytes, format!("damaged capture: the block at octet {at} does not end with its length")),
        (zeros, format!("damaged capture: a block of 0 bytes at octet {at}")),
        (other, format!("damaged capture: no byte-order magic in the section header at octet {at}")),
    ] {
        let got = read_bytes(&bytes);
        let error = got.error.unwrap();
        assert!(error.ends_with(&want), "{error}");
        assert_eq!(got.records.len(), 1);
    }
    let mut version = File::new(false).bytes;
    version[12] = 2;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), version).unwrap();
    let error = Reader::open(file.path()).err().unwrap().to_string();
    assert!(error.ends_with("version 2.0 of pcapng is not known"), "{error}");
}

#[test]
fn old_variants_of_pcap() {
    // Magic number, version, bytes between the header of a packet and its data, which length comes first.
    for (magic, version, more, wire_first) in [
        (0xa1b2_c3d4_u32, [2_u16, 4], 0, false),
        (0xa1b2_cd34, [2, 4], 8, false),
        (0xa1b2_c3d4, [2, 3], 0, true),
        (0xa1b2_c3d4, [2, 3], 0, false),
        (0xa1b2_c3d4, [2, 2], 0, true),
    ] {
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(version.iter().flat_map(|n| n.to_be_bytes()));
        // Time zone, accuracy, no limit, Ethernet with a frame check sequence of 4 octets.
        bytes.extend([0_u32, 0, 0, 0x4400_0001].iter().flat_map(|n| n.to_be_bytes()));
        for n in [1_u8, 2] {
            let lengths = if wire_first { [60_u32, 3] } else { [3, 60] };
            bytes.extend([u32::from(n), 7].iter().chain(&lengths).flat_map(|n| n.to_be_bytes()));
            bytes.extend(vec![0xff; more]);
            bytes.extend([n; 3]);
        }
        let got = read_bytes(&bytes);
        let at = |n: u8| record(Some(u64::from(n) * 1_000_000_000 + 7_000), 60, LinkType::Ethernet, &[n; 3]);
        assert_eq!((got.records, got.error), (vec![at(1), at(2)], None), "{magic:x} {version:?}");
    }
}
