//! See `fuzz::cluster`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::cluster(bytes));
