//! Checks and chores for developers.
fn main() {}
