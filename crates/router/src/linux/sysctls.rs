//! The settings of an interface under `/proc/sys/net`, as they are in the calling thread's network namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// How often, and how far apart, it looks whether addresses are usable: 100 ms in all.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);
const ROOT: &str = "/proc/sys/net";
const PLACES: [&str; 4] = ["ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"];
/// What is set otherwise for a twin than for the interface.
const FORWARDING: &str = "forwarding";
/// The same as `…_ms`, in coarser units.
const COARSE: [&str; 2] = ["base_reachable_time", "retrans_time"];

/// One setting: where, which, and its value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Setting {
    place: String,
    key: String,
    value: String,
}

/// All settings of an interface that can be written.
pub fn read(name: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for place in PLACES {
        let Ok(files) = fs::read_dir(Path::new(ROOT).join(place).join(name)) else { continue };
        for file in files.flatten() {
            let key = file.file_name().to_string_lossy().into_owned();
            let is_writable = file.metadata().is_ok_and(|found| found.permissions().mode() & 0o200 != 0);
            // A secret that is not set cannot be read.
            let value = fs::read_to_string(file.path()).ok().filter(|_| is_writable);
            if let Some(value) = value.filter(|_| !COARSE.contains(&&key[..])) {
                settings.push(Setting { place: place.to_owned(), key, value: value.trim().to_owned() });
            }
        }
    }
    // A secret changes how addresses are made, which is set after it.
    settings
        .sort_by_key(|setting| (setting.key != "stable_secret", setting.place.clone(), setting.key.clone()));
    settings
}

/// What of an interface's settings is so while it stands in for a port: as `now`, but as it was in `before` where the router has
/// set it.
pub fn merge(before: &[Setting], mut now: Vec<Setting>) -> Vec<Setting> {
    for setting in now.iter_mut().filter(|setting| setting.key == FORWARDING && setting.value == "1") {
        let was = before.iter().find(|was| was.place == setting.place && was.key == setting.key);
        if let Some(was) = was {
            setting.value.clone_from(&was.value);
        }
    }
    now
}

/// Sets what differs; `forwarding` only if `all`. Returns the names of what could not be set.
pub fn write(name: &str, settings: &[Setting], all: bool) -> Vec<String> {
    let mut refused = Vec::new();
    for setting in settings.iter().filter(|setting| all || setting.key != FORWARDING) {
        let path = Path::new(ROOT).join(&setting.place).join(name).join(&setting.key);
        let is_so = fs::read_to_string(&path).is_ok_and(|value| value.trim() == setting.value);
        if !is_so && let Err(e) = fs::write(&path, &setting.value) {
            refused.push(format!("{}/{}: {e}", setting.place, setting.key));
        }
    }
    refused
}

/// Has IPv6 addresses usable at once that are added from now on, until the settings are written again.
pub fn skip_duplicate_detection(name: &str) {
    // A kernel without IPv6 detects nothing.
    let _ = fs::write(Path::new(ROOT).join("ipv6/conf").join(name).join("accept_dad"), "0");
}

/// Waits until the kernel has begun with the addresses that an interface got: what is set for detection of duplicates counts then.
pub fn wait_for_addresses(name: &str) {
    for _ in 0..LOOKS {
        let all = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
        if !all.lines().any(|line| is_tentative(line, name)) {
            return;
        }
        sleep(PAUSE);
    }
}

/// Whether a line of `if_inet6` (address, number, prefix length, scope, flags, name) is about an address of this interface that
/// is not usable yet (`IFA_F_TENTATIVE`).
fn is_tentative(line: &str, name: &str) -> bool {
    const TENTATIVE: u32 = 0x40;
    let mut words = line.split_whitespace().skip(4);
    let flags = words.next().and_then(|word| u32::from_str_radix(word, 16).ok()).unwrap_or(0);
    flags & TENTATIVE != 0 && words.next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_usable_yet_are_told_by_their_flags() {
        let line = |flags: &str| format!("20010db8000700000000000000000001 04 40 00 {flags}     eth1");
        assert_eq!(["40", "c0", "80"].map(|flags| is_tentative(&line(flags), "eth1")), [true, true, false]);
        assert!(!is_tentative(&line("40"), "eth") && !is_tentative("", "eth1"));
    }

    #[test]
    fn forwarding_of_a_twin_is_the_routers() {
        let of = |key: &str, value: &str| Setting {
            place: "ipv4/conf".to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let before = [of("forwarding", "0"), of("rp_filter", "2")];
        let merged = merge(&before, vec![of("forwarding", "1"), of("rp_filter", "1")]);
        assert_eq!(merged, [of("forwarding", "0"), of("rp_filter", "1")]);
        let merged = merge(&[of("forwarding", "1")], vec![of("forwarding", "0")]);
        assert_eq!(merged, [of("forwarding", "0")]);
    }
}
