//! The `routebricks` command.
fn main() {}
