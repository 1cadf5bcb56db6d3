//! The main paths cost as many instructions per packet as `bench/pins.json` says.

use std::env;
use std::process::Command;

/// The release build is measured, which `cargo xtask test` makes and names.
#[test]
fn paths_cost_what_is_pinned() {
    let Some(router) = env::var_os("ROUTEBRICKS_RELEASE") else {
        println!(
            "skipped: ROUTEBRICKS_RELEASE does not name a release build of the router; `make test` makes one"
        );
        return;
    };
    let mut bench = Command::new(env!("CARGO_BIN_EXE_routebricks-bench"));
    let output =
        bench.arg("pins").arg("--router").arg(router).output().expect("bench was built with this test");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}");
    assert!(output.status.success(), "{out}{err}");
}
