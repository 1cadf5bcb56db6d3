//! Arguments that users of Click write on device elements and that mean nothing here.

use graph::{Args, Text};

/// Takes arguments that make no difference here, with a warning for each that was given.
pub fn ignore(args: &mut Args, names: &[&str]) {
    for name in names {
        if args.keyword_if_given::<Text>(name).is_some() {
            args.warn(name, "has no effect here");
        }
    }
}

/// Refuses arguments that would make a difference but are not supported; `instead` says what to do.
pub fn refuse(args: &mut Args, names: &[&str], instead: &str) {
    for name in names {
        if args.keyword_if_given::<Text>(name).is_some() {
            args.error(name, format!("not supported; {instead}"));
        }
    }
}
