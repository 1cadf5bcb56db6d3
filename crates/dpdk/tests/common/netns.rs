//! A network namespace of the test's own.

use super::is_root;
use packet::Packet;
use std::process::Command;

/// Moves this thread, and those it starts, to an empty network namespace. False if that takes root.
#[allow(unsafe_code)]
pub fn own_namespace() -> bool {
    if !is_root() {
        println!("skipped: a network namespace takes root");
        return false;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        println!("skipped: iproute2 is not installed");
        return false;
    }
    // SAFETY: plain system call.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        println!("skipped: no new network namespace: {}", std::io::Error::last_os_error());
        return false;
    }
    // Else Linux sends neighbour discovery on every interface.
    // A kernel without IPv6 has no such file.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    ip("link set lo up");
    true
}

/// Runs `ip` and gives what it printed.
pub fn ip(args: &str) -> String {
    let out = Command::new("ip").args(args.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Two ends of a wire, both up.
pub fn veth(a: &str, b: &str) {
    ip(&format!("link add {a} type veth peer name {b}"));
    for end in [a, b] {
        ip(&format!("link set {end} up"));
    }
}

/// The EtherType of `common::frame`: what Linux sends by itself is of another.
pub fn ours(p: &Packet) -> bool {
    p.data().get(12..14) == Some(&[0x88, 0xb5])
}
