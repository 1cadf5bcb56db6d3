//! What is set for an interface goes to its twin, and back: settings, addresses, neighbours, routes and the link's attributes.

use super::Port;
use super::sysctls::{self, Setting};
use ::io::say;
use control::carry::{Carried, Kept, disciplines, put_routes, routes};
use control::link::{add_address, change, link};
use control::netlink::Address;
use control::netlink::request::LinkChange;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

/// What is set for an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InterfaceState {
    settings: Vec<Setting>,
    carried: Carried,
    /// Routes through this interface, and through it and others.
    routes: Vec<Kept>,
    /// When it was looked at, in seconds since the machine started.
    at: u64,
}

fn now() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

impl InterfaceState {
    /// What is set for an interface of the current network namespace, but its routes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn of(name: &str, index: u32) -> io::Result<InterfaceState> {
        Ok(InterfaceState {
            settings: sysctls::read(name),
            carried: Carried::of(index)?,
            routes: Vec::new(),
            at: now(),
        })
    }
}

/// Finds the routes through these interfaces of the current network namespace.
///
/// # Errors
/// Those of the system.
pub fn find_routes(ports: &mut [Port]) -> io::Result<()> {
    let through: BTreeSet<u32> = ports.iter().map(|port| port.state.carried.index).collect();
    let found = routes(&through)?;
    ports.iter_mut().for_each(|port| port.state.routes.clear());
    if let Some(first) = ports.first_mut() {
        first.state.routes = found;
    }
    Ok(())
}

/// Names what stays behind when an interface of the current network namespace is taken.
pub fn warn(name: &str, index: u32) {
    let disciplines = disciplines(index).unwrap_or_default();
    if !disciplines.is_empty() {
        let which = disciplines.join(", ");
        say!(
            "warning: {name}: its queueing discipline ({which}) and filters are not carried over to the twin"
        );
    }
    let joined = joined(index);
    if !joined.is_empty() {
        let which = joined.join(", ");
        say!(
            "warning: {name}: multicast addresses that were joined are not carried over to the twin: {which}"
        );
    }
}

/// Multicast addresses that somebody has joined on an interface, besides those that the kernel joins.
fn joined(index: u32) -> Vec<String> {
    let mut found = Vec::new();
    // INDEX NAME USERS GLOBAL ADDRESS: those of `ip maddr add` have global users.
    for line in fs::read_to_string("/proc/net/dev_mcast").unwrap_or_default().lines() {
        if let [number, _, _, global, address] = line.split_whitespace().collect::<Vec<_>>()[..]
            && number.parse() == Ok(index)
            && global != "0"
        {
            found.push(address.to_owned());
        }
    }
    let mut is_here = false;
    for line in fs::read_to_string("/proc/net/igmp").unwrap_or_default().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (line.starts_with(char::is_whitespace), words.first()) {
            (false, Some(number)) => is_here = number.parse() == Ok(index),
            (true, Some(group)) if is_here => {
                let ip = u32::from_str_radix(group, 16).map(|n| std::net::Ipv4Addr::from(n.to_ne_bytes()));
                // All hosts, which everybody joins.
                found.extend(ip.ok().filter(|ip| ip.octets() != [224, 0, 0, 1]).map(|ip| ip.to_string()));
            }
            _ => {}
        }
    }
    found
}

/// Puts on interfaces of the current network namespace, which are called `names` and are down, what is set for their ports.
/// `is_twin`: the router keeps its own settings. An interface that is not there has no name.
///
/// # Errors
/// Those of the system, for an interface that cannot be set up; what is refused otherwise is named.
pub fn put(ports: &[Port], names: &[String], is_twin: bool) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut instead = BTreeMap::new();
    for (port, name) in ports.iter().zip(names) {
        let number = link(name)?.index;
        let InterfaceState { settings, carried, at, .. } = &port.state;
        let mut refused = sysctls::write(name, settings, !is_twin);
        // The IPv6 MTU is set when the interface is up, to any that it may have.
        refused.retain(|what| !what.starts_with("ipv6/conf/mtu"));
        if !settings.is_empty() {
            sysctls::skip_duplicate_detection(name);
        }
        refused.extend(carried.put_link(number).err().map(|e| format!("attributes of the link: {e}")));
        change(number, &LinkChange { up: Some(port.up), ..LinkChange::default() })?;
        refused.extend(carried.put(number, name, Duration::from_secs(now().saturating_sub(*at))));
        for (local, len) in port.addresses.iter().copied() {
            let added = add_address(&Address { link: number, local, len });
            refused.extend(added.err().map(|e| format!("{local}/{len}: {e}")));
        }
        if port.up && !settings.is_empty() {
            sysctls::wait_for_addresses(name);
        }
        refused.extend(sysctls::write(name, settings, !is_twin));
        if !refused.is_empty() {
            let to = if is_twin { "its twin does not take" } else { "was given back without" };
            say!("warning: {name}: {to} {}", refused.join("; "));
        }
        if carried.index != 0 {
            instead.insert(carried.index, number);
        }
        numbers.push(number);
    }
    for port in ports {
        if let Some((count, e)) = put_routes(&port.state.routes, &instead) {
            say!(
                "warning: {count} of {} routes through the ports could not be set again: {e}",
                port.state.routes.len()
            );
        }
    }
    Ok(numbers)
}

/// Looks at the twins, in the current network namespace: the ports as they are to be given back. One whose twin is gone stays as it was.
pub fn look(ports: &mut [Port], with_routes: bool) {
    for port in &mut *ports {
        let Ok(found) = link(&port.name) else { continue };
        let Ok(mut state) = InterfaceState::of(&port.name, found.index) else { continue };
        state.settings = sysctls::merge(&port.state.settings, state.settings);
        state.routes = std::mem::take(&mut port.state.routes);
        if state.settings == port.state.settings && state.carried == port.state.carried {
            state.at = port.state.at;
        }
        (port.state, port.up) = (state, found.up);
        port.addresses.clear();
    }
    if with_routes {
        // Those that were read last are better than none.
        let _ = find_routes(ports);
    }
}
