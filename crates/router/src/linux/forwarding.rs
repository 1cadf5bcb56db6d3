//! Linux is to forward what comes in by twins: what the data plane leaves to it.

use std::fs;
use std::io;

const CONF4: &str = "/proc/sys/net/ipv4/conf";
/// Stands for all interfaces, and when it changes the kernel sets that of each.
const ALL: &str = "all";

/// Switches forwarding on for the twins of these names in the calling thread's namespace. For IPv4 the other interfaces stay as
/// they are; Linux forwards IPv6 between any interfaces or none.
pub fn switch_on<'a>(twins: impl Iterator<Item = &'a str>) {
    // A kernel without one of the families does not forward it.
    let _ = switch_all_on();
    for twin in twins {
        let _ = fs::write(path(twin), "1");
    }
    let _ = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
}

fn path(interface: &str) -> String {
    format!("{CONF4}/{interface}/forwarding")
}

/// Sets what stands for all interfaces, and nothing else, so that the kernel hears of it when an operator switches it off.
fn switch_all_on() -> io::Result<()> {
    if fs::read_to_string(path(ALL))?.trim() != "0" {
        return Ok(());
    }
    let names = fs::read_dir(CONF4)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_off = |name: &String| fs::read_to_string(path(name)).is_ok_and(|value| value.trim() == "0");
    let off: Vec<String> = names.filter(|name| name != ALL).filter(is_off).collect();
    fs::write(path(ALL), "1")?;
    for name in off {
        // One that has gone meanwhile needs nothing.
        let _ = fs::write(path(&name), "0");
    }
    Ok(())
}
