//! Tells the compiler that `cfg(loom)` is a name we mean.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
