//! What a node of this machine is made of: its interfaces, found before anything is changed.

use super::config::{Cluster, Line};
use super::node::Twin;
use super::text::{self, tap};
use crate::linux::Port;
use control::link::link;
use std::io;

/// A node of this machine.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its number.
    pub node: usize,
    /// Its external ports.
    pub lines: Vec<Port>,
    /// The interfaces that lead to other nodes, as far as the file names them.
    pub links: Vec<Port>,
}

impl Place {
    /// All interfaces that the node takes from Linux.
    pub fn taken(&self) -> Vec<Port> {
        self.lines.iter().chain(&self.links).cloned().collect()
    }

    /// The names of all interfaces of the node, also of those that are made for it.
    pub fn devices(&self, cluster: &Cluster) -> Vec<String> {
        let links = cluster.members().into_iter().filter(|to| cluster.are_joined(self.node, *to));
        let links = links.filter_map(|to| text::link_interface(cluster, self.node, to));
        self.lines.iter().map(|port| port.name.clone()).chain(links).collect()
    }
}

/// Looks for the interfaces of these nodes.
///
/// # Errors
/// What to tell the user.
pub fn places(cluster: &Cluster, here: &[usize]) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    for number in here {
        let Some(node) = cluster.nodes.get(*number) else { continue };
        let lines = own_lines(cluster, *number)?;
        let links = node.links.iter().flatten().map(|name| Port::find(name, 0)).collect::<Result<_, _>>()?;
        let place = Place { node: *number, lines, links };
        for port in place.taken() {
            let other = places.iter().find(|other| other.taken().iter().any(|taken| taken.name == port.name));
            if let Some(other) = other {
                let names = [other.node, *number].map(|n| cluster.name_of(n));
                return Err(format!(
                    "{}: nodes {} and {} of this machine cannot both have it",
                    port.name, names[0], names[1]
                ));
            }
        }
        places.push(place);
    }
    Ok(places)
}

/// The interfaces of a node's lines, which must be there.
///
/// # Errors
/// What to tell the user.
pub fn own_lines(cluster: &Cluster, node: usize) -> Result<Vec<Port>, String> {
    cluster
        .nodes
        .get(node)
        .into_iter()
        .flat_map(|node| &node.lines)
        .map(|line| found(cluster, line))
        .collect()
}

/// The interface of a line.
fn found(cluster: &Cluster, line: &Line) -> Result<Port, String> {
    let port = Port::find(&line.device, 0)?;
    if port.mtu > cluster.mtu {
        return Err(format!(
            "{}: its MTU is {}, the cluster's {}: change the one or the other",
            line.device, port.mtu, cluster.mtu
        ));
    }
    match line.mac {
        Some(mac) if mac != port.mac => {
            Err(format!("{}: its Ethernet address is not the one in the file", line.device))
        }
        _ => Ok(port),
    }
}

/// The twins of the lines of some nodes of the cluster, as the control node makes them. `places` are the nodes of this
/// machine.
///
/// # Errors
/// What to tell the user.
pub fn twins(cluster: &Cluster, of: &[usize], places: &[Place]) -> Result<Vec<Twin>, String> {
    let mut twins = Vec::new();
    for (number, owner, line) in cluster.lines().filter(|(_, owner, _)| of.contains(owner)) {
        let index = number - owner * cluster.ports();
        let port = places.iter().find(|place| place.node == owner).and_then(|place| place.lines.get(index));
        let mac = port.map(|port| port.mac).or(line.mac);
        let missing = || {
            format!(
                "port {} is on another machine: the file must say its Ethernet address (`mac`)",
                line.name
            )
        };
        free(&line.name, places)?;
        let told = line.addresses.iter().map(|address| (address.ip, address.bits));
        let port = Port {
            name: line.name.clone(),
            tap: tap(number),
            mac: mac.ok_or_else(missing)?,
            mtu: port.map_or(cluster.mtu, |port| port.mtu),
            offloads: Vec::new(),
            addresses: port.map_or(&[][..], |port| &port.addresses).iter().copied().chain(told).collect(),
            state: port.map(|port| port.state.clone()).unwrap_or_default(),
            up: true,
            promiscuous: false,
            xdp: false,
        };
        twins.push(Twin { line: number, port, node: owner, device: line.device.clone() });
    }
    Ok(twins)
}

/// Whether a twin can get this name: no interface has it that stays.
fn free(name: &str, places: &[Place]) -> Result<(), String> {
    let goes = places.iter().flat_map(Place::taken).any(|port| port.name == name);
    match link(name) {
        Ok(_) if goes => Ok(()),
        Ok(_) => Err(format!("{name}: there is an interface of that name, which a port's twin is to get")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(format!("{name}: {e}")),
    }
}
