//! Arguments that users of Click write on device elements and that mean nothing here.

use graph::{Args, Text};
use packet::Batch;

/// Takes arguments that make no difference here, with a warning for each that was given.
pub fn ignore(args: &mut Args, names: &[&str]) {
    for name in names {
        if args.keyword_if_given::<Text>(name).is_some() {
            args.warn(name, "has no effect here");
        }
    }
}

/// Reads `BURST` of a device, packets that go to or come from it by one call.
pub fn burst_argument(args: &mut Args, default: usize) -> usize {
    let burst = args.keyword("BURST", default);
    if !(1..=Batch::MAX).contains(&burst) {
        args.error("BURST", format!("{burst} is not between 1 and {}", Batch::MAX));
    }
    burst
}

/// Refuses arguments that would make a difference but are not supported; `instead` says what to do.
pub fn refuse(args: &mut Args, names: &[&str], instead: &str) {
    for name in names {
        if args.keyword_if_given::<Text>(name).is_some() {
            args.error(name, format!("not supported; {instead}"));
        }
    }
}
