//! See `fuzz::fpm`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::fpm(bytes));
