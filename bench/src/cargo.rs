//! Programs that are built and run by cargo.

use std::process::Command;

/// The cargo that runs us, or another one, as somebody would type it: what it says of the package of this program would have build
/// scripts that ask for it run again, and everything behind them built again.
pub fn command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(name);
        }
    }
    cargo
}
