//! Lines for people, on standard error.

use std::fmt::Arguments;
use std::io::{Write, stderr};

/// Writes a line to standard error as `eprintln!` does, but goes on if nobody can read it: a router must not end because
/// whoever read its messages did.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::tell(::std::format_args!("{}\n", ::std::format_args!($($arg)*)))
    };
}

/// Writes a text to standard error, in one piece; that it cannot be written is nobody's concern.
pub fn tell(text: Arguments<'_>) {
    let _ = stderr().write_all(text.to_string().as_bytes());
}
