//! What programs of this repository that run cargo have in common.

use std::process::Command;

/// The cargo that runs this program, or else the usual one, as somebody would type it: what cargo says of a program's package in
/// its environment would have build scripts that ask for it run again, and everything behind them built again.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        cargo.env_remove(name);
    }
    cargo
}
