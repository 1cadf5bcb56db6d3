//! What this process may do, and what it was built with.

use super::host::Host;
use super::{Row, Verdict};

/// Numbers of capabilities (`linux/capability.h`), and what they are needed for.
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
const NEEDED: [(&str, u32, &str); 3] = [
    ("CAP_NET_ADMIN", NET_ADMIN, "taps, and settings of Linux interfaces"),
    ("CAP_NET_RAW", NET_RAW, "raw sockets on Linux interfaces"),
    ("CAP_IPC_LOCK", IPC_LOCK, "memory that devices use"),
];

pub fn rows(host: &Host) -> Vec<Row> {
    let set = host.read("/proc/self/status").and_then(|s| effective(&s));
    let mut rows: Vec<Row> =
        NEEDED.iter().map(|(name, bit, why)| capability_row(set, name, *bit, why)).collect();
    rows.push(tun_row(host));
    rows.push(dpdk_row());
    rows
}

/// The effective capabilities in `/proc/self/status`.
fn effective(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

/// True if this process may lock as much memory as it likes.
pub fn has_ipc_lock(host: &Host) -> bool {
    host.read("/proc/self/status").and_then(|s| effective(&s)).is_some_and(|set| set >> IPC_LOCK & 1 == 1)
}

fn capability_row(set: Option<u64>, name: &str, bit: u32, why: &str) -> Row {
    match set {
        None => Row::new(name, "cannot be told", Verdict::NotApplicable),
        Some(set) if set >> bit & 1 == 1 => Row::new(name, "yes", Verdict::Ok),
        Some(_) => Row::new(name, format!("no: needed for {why}"), Verdict::Warn).mend(
            "setcap cap_net_admin,cap_net_raw,cap_ipc_lock+ep $(command -v routebricks)   # or run as root",
        ),
    }
}

fn tun_row(host: &Host) -> Row {
    let (what, path) = ("/dev/net/tun", "/dev/net/tun");
    match (host.exists(path), host.is_writable(path)) {
        (true, true) => Row::new(what, "can be opened", Verdict::Ok),
        (true, false) => {
            Row::new(what, "not for this user: no taps", Verdict::Warn).mend("chmod 666 /dev/net/tun")
        }
        (false, _) => Row::new(what, "not there: no taps", Verdict::Warn).mend("modprobe tun"),
    }
}

#[cfg(feature = "dpdk")]
fn dpdk_row() -> Row {
    Row::new("DPDK", dpdk::facts().version, Verdict::Ok)
}

#[cfg(not(feature = "dpdk"))]
fn dpdk_row() -> Row {
    Row::new("DPDK", "not built in: pcap files only", Verdict::Bad).mend("make build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities() {
        let status = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000005000\n";
        assert_eq!(effective(status), Some(0x5000));
        let verdict = |bit| capability_row(effective(status), "x", bit, "y").verdict;
        assert_eq!([NET_ADMIN, NET_RAW, IPC_LOCK].map(verdict), [Verdict::Ok, Verdict::Warn, Verdict::Ok]);
        assert_eq!(effective("CapEff:\tzz\n"), None);
    }
}
