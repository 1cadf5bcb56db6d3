//! Capture files: any bytes as a file, read to the end or to the first error.
#![no_main]

use std::io::Write as _;

use io::pcap::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let Ok(mut reader) = Reader::open(file.path()) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.data.len() <= bytes.len(), "a record is longer than its file");
    }
});
