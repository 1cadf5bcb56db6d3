//! What cannot be a port, and what a router needs, found out before anything is touched.

use super::pin::{Identity, Pin};
use ::io::say;
use control::link::links;
use control::netlink::Link;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::{self, File};
use std::io;

/// The longest name of an interface.
const LONGEST_NAME: usize = 15;
/// Kinds of interfaces that the kernel does not move to another network namespace.
const IMMOVABLE: [&str; 4] = ["bridge", "bond", "team", "vrf"];
/// Capabilities that a router needs, with their numbers (capabilities(7)).
const NEEDED: [(u8, &str); 3] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (21, "CAP_SYS_ADMIN")];

/// Whether an interface may have such a name, and a configuration can name it.
///
/// # Errors
/// What to tell the user.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_kernels = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if name.is_empty()
        || name.len() > LONGEST_NAME
        || [".", ".."].contains(&name)
        || name.contains(is_kernels)
    {
        let rule = "these have 1 to 15 bytes, without slashes, colons and spaces";
        return Err(format!("'{}' cannot be the name of a Linux interface: {rule}", name.escape_debug()));
    }
    let is_reserved = name.strip_prefix("rbtwin").is_some_and(|number| number.parse::<u32>().is_ok());
    let is_syntax = |c: char| ",\"'()\\=;{}[]".contains(c) || c.is_control();
    let why = if name.bytes().all(|byte| byte.is_ascii_digit()) {
        "a number stands for a port of DPDK"
    } else if is_reserved {
        "twins are called that before they get their names"
    } else if name.starts_with('-') || name.contains(is_syntax) {
        "a dash in front, quotes, commas, brackets, semicolons, equals signs, backslashes and control characters have a meaning \
         of their own"
    } else {
        return Ok(());
    };
    let name = name.escape_debug();
    Err(format!(
        "the interface '{name}' cannot be a port under this name: {why}; `ip link set dev OLD name NEW` renames it"
    ))
}

/// What to say of an interface that is not there.
pub fn missing(name: &str) -> String {
    let names: Vec<String> = links().unwrap_or_default().into_iter().map(|link| link.name).collect();
    let same = names.iter().find(|other| other.eq_ignore_ascii_case(name)).map(String::as_str);
    let near = same.or_else(|| lang::nearest(name, names.iter().map(String::as_str)));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("there is no interface {name}; ports are Linux interfaces of this network namespace{near}")
}

/// The Ethernet address of an interface that can be moved and has frames of Ethernet.
///
/// # Errors
/// What to tell the user.
pub fn check_link(link: &Link) -> Result<[u8; 6], String> {
    let (name, kind) = (&link.name, &link.kind);
    let Some(mac) = link.mac else {
        return Err(format!(
            "{name} has no Ethernet address: only interfaces with Ethernet frames can be ports"
        ));
    };
    if mac == [0; 6] && kind.is_empty() {
        return Err(format!("{name} is the loopback interface, which belongs to Linux and cannot be a port"));
    }
    if IMMOVABLE.contains(&&kind[..]) {
        return Err(format!(
            "{name} is a {kind}, which the kernel binds to its network namespace: it cannot be a port"
        ));
    }
    if link.master != 0
        && let Ok(all) = links()
        && let Some(master) = all.iter().find(|other| other.index == link.master)
        && master.kind != "vrf"
    {
        let Link { name: of, kind, .. } = master;
        return Err(format!(
            "{name} belongs to the {kind} {of}, which a port cannot: take it out first (`ip link set {name} nomaster`)"
        ));
    }
    Ok(mac)
}

/// Names what an interface loses that is taken: a VRF that it is in, and interfaces on top of it.
pub fn warn(link: &Link) {
    let all = links().unwrap_or_default();
    let name = &link.name;
    if let Some(vrf) = all.iter().find(|other| link.master != 0 && other.index == link.master) {
        let vrf = &vrf.name;
        say!(
            "warning: {name}: its twin is not in {vrf} until `ip link set {name} master {vrf}` says so again"
        );
    }
    let is_above =
        |other: &&Link| other.below == link.index && matches!(&other.kind[..], "vlan" | "macvlan" | "ipvlan");
    let above: Vec<&str> = all.iter().filter(is_above).map(|other| &other.name[..]).collect();
    if !above.is_empty() {
        let above = above.join(", ");
        say!("warning: {name}: {above} on it gets no packets while it is a port; make it again on the twin");
    }
}

/// Whether a router with these ports and workers may do what it will have to do, and none of the ports is one of another router.
///
/// # Errors
/// What to tell the user.
pub fn check_router(ports: &[String], workers: usize) -> Result<(), String> {
    check_capabilities()?;
    check_open_files(ports.len(), workers)?;
    let own = File::open("/proc/thread-self/ns/net").and_then(|own| Identity::of(&own));
    let own =
        own.map_err(|e: io::Error| format!("cannot look at the own network namespace in /proc: {e}"))?;
    for record in Pin::all().iter().filter_map(Pin::read).filter(|record| record.caller == own) {
        let [router, _] = record.processes;
        let taken = record.ports.iter().find(|port| router.lives() && ports.contains(&port.name));
        if let Some(taken) = taken {
            let (name, pid) = (&taken.name, router.pid());
            return Err(format!(
                "{name} is a port of the router with process ID {pid}: stop that first (kill {pid})"
            ));
        }
    }
    Ok(())
}

fn check_capabilities() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    // Without /proc the kernel will say it later.
    let Some(effective) = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) else {
        return Ok(());
    };
    let lacks = NEEDED.iter().filter(|(bit, _)| effective & (1 << bit) == 0).map(|(_, name)| *name);
    let lacks = lacks.collect::<Vec<_>>().join(", ");
    if lacks.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a router of Linux interfaces needs root, or the capabilities that are missing here: {lacks}"
    ))
}

/// How many files a router of Linux interfaces has open at most.
fn open_files(ports: usize, workers: usize) -> u64 {
    // Each port has some 13, and with further workers a further queue of it and of its tap for each.
    let of_port = 13 + 2 * workers.saturating_sub(1);
    ports.saturating_mul(of_port).saturating_add(30 + 4 * workers) as u64
}

fn check_open_files(ports: usize, workers: usize) -> Result<(), String> {
    let needed = open_files(ports, workers);
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, most)) if most < needed => Err(format!(
            "a router with {ports} ports needs up to {needed} open files, and its limit is {most}: raise the hard limit (`ulimit -n`, \
             LimitNOFILE= of a service)"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_mean_something_else_are_refused() {
        for name in
            ["eth1", "a.b", "abcdefghijklmno", "äöü", "a@b", "net_tap0", "x-1", "rbtwin", "1a", "$A", "a#b"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in
            ["0", "17", "a,b", "a\"b", "a'b", "a(b", "a)b", "a\\", "-", "-x", "rbtwin0", "a\u{1}b", "a=b"]
        {
            assert!(check_name(name).is_err_and(|e| e.contains("ip link set dev OLD name NEW")), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "tap:x", "abcdefghijklmnop"] {
            assert!(check_name(name).is_err_and(|e| e.contains("cannot be the name")), "{name}");
        }
    }

    #[test]
    fn only_ethernet_that_linux_lets_go_is_a_port() {
        let link =
            |kind: &str, mac| Link { name: "x0".to_owned(), kind: kind.to_owned(), mac, ..Link::default() };
        assert_eq!(check_link(&link("veth", Some([2; 6]))), Ok([2; 6]));
        let refusal = |kind, mac| check_link(&link(kind, mac)).unwrap_err();
        assert!(refusal("tun", None).contains("no Ethernet address"));
        assert!(refusal("", Some([0; 6])).contains("loopback"));
        assert!(refusal("bridge", Some([2; 6])).contains("is a bridge"));
    }

    #[test]
    fn files_suffice_for_what_was_measured() {
        for (ports, open) in [(17, 227), (32, 407), (64, 631)] {
            assert!(open_files(ports, 1) >= open);
        }
    }
}
