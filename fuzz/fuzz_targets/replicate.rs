//! See `fuzz::replicate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::replicate(bytes));
