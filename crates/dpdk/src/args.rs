//! The arguments that EAL gets: ours, unless the user says otherwise.

use crate::facts::HugePages;

/// A PCI address that no machine has: an allow list with it alone scans the bus (so that a device can be plugged in
/// by name later) and takes no device.
const NO_PCI_DEVICE: &str = "ffff:ff:1f.7";

/// What the arguments depend on.
pub(crate) struct Surroundings<'a> {
    /// Unique name of this instance.
    pub prefix: &'a str,
    /// Processors that this process may use.
    pub cpus: &'a [usize],
    /// Bytes that pool and rings will take.
    pub memory: u64,
    /// Huge pages of the machine.
    pub huge: &'a [HugePages],
    /// The machine has a PCI bus.
    pub pci: bool,
}

/// Arguments for EAL without the program name, and what was decided on the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub args: Vec<String>,
    /// The file prefix is ours alone, so its directory may be removed.
    pub own_prefix: bool,
    /// The user wants to see EAL's log.
    pub echo: bool,
}

/// Adds to the user's arguments what they leave open.
pub(crate) fn merge(user: &[String], here: &Surroundings) -> Merged {
    let has = |names: &[&str]| user.iter().any(|arg| names.iter().any(|name| is(arg, name)));
    let mut args = Vec::new();
    let mut add = |text: &str| args.push(text.to_owned());
    if !has(&["-c", "-l", "--lcores"]) && !here.cpus.is_empty() {
        // One lcore that floats over all processors: EAL starts no threads of its own for packets and pins nothing.
        let cpus: Vec<String> = here.cpus.iter().map(usize::to_string).collect();
        add(&format!("--lcores=0@({})", cpus.join(",")));
    }
    let own_prefix = !has(&["--file-prefix"]);
    if own_prefix {
        add(&format!("--file-prefix={}", here.prefix));
    }
    if !has(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        if here.pci {
            add(&format!("--allow={NO_PCI_DEVICE}"));
        } else {
            add("--no-pci");
        }
    }
    let sized = has(&["-m", "--socket-mem"]);
    let decided = has(&["--in-memory", "--huge-dir", "--huge-unlink", "--legacy-mem", "--proc-type"])
        || has(&["--single-file-segments", "--no-shconf"]);
    let no_huge = has(&["--no-huge"]) || (!decided && !enough(here.huge, here.memory));
    if no_huge {
        if !has(&["--no-huge"]) {
            add("--no-huge");
        }
        if !has(&["--no-shconf"]) {
            add("--no-shconf");
        }
        if !sized {
            // An upper bound: ordinary pages are only taken when they are touched.
            add(&format!("-m{}", (here.memory >> 20).max(256) * 3 / 2));
        }
    } else if !decided {
        add("--in-memory");
    }
    args.extend(user.iter().cloned());
    Merged { args, own_prefix, echo: has(&["--log-level", "--syslog", "-v"]) }
}

/// True if `arg` is the option `name` with or without its value attached.
fn is(arg: &str, name: &str) -> bool {
    match arg.strip_prefix(name) {
        Some("") => true,
        Some(rest) => !name.starts_with("--") || rest.starts_with('='),
        None => false,
    }
}

/// True if the free huge pages of one size hold `bytes`.
fn enough(huge: &[HugePages], bytes: u64) -> bool {
    huge.iter().any(|h| h.free * h.size_kib * 1024 >= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(user: &[&str], free: u64) -> Vec<String> {
        let user: Vec<String> = user.iter().map(|s| (*s).to_owned()).collect();
        let huge = [HugePages { size_kib: 2048, total: 1024, free }];
        let here = Surroundings { prefix: "x", cpus: &[0, 3], memory: 200 << 20, huge: &huge, pci: true };
        merge(&user, &here).args
    }

    #[test]
    fn huge_pages_where_they_suffice() {
        let ours = ["--lcores=0@(0,3)", "--file-prefix=x", "--allow=ffff:ff:1f.7"];
        assert_eq!(merged(&[], 100), [&ours[..], &["--in-memory"]].concat());
        assert_eq!(merged(&[], 99), [&ours[..], &["--no-huge", "--no-shconf", "-m384"]].concat());
    }

    #[test]
    fn the_user_wins() {
        assert_eq!(
            merged(&["-l1", "-a", "0000:01:00.0", "--file-prefix=y", "--no-huge", "-m", "64"], 100),
            ["--no-shconf", "-l1", "-a", "0000:01:00.0", "--file-prefix=y", "--no-huge", "-m", "64"]
        );
        assert_eq!(merged(&["--lcores=1", "--no-pci", "--in-memory"], 0)[0], "--file-prefix=x");
        assert_eq!(merged(&["--lcores=1", "--no-pci", "--in-memory"], 0).len(), 4);
    }

    #[test]
    fn an_option_is_not_its_prefix() {
        assert!(is("--allow=x", "--allow") && is("-l0", "-l") && is("-m", "-m"));
        assert!(!is("--allowed", "--allow") && !is("--lcores", "-l"));
    }
}
