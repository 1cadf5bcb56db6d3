//! What names must be, and how nodes fit together.

use super::joins::{self, count};
use super::read::{LinkText, NodeText, Word};
use super::{Cluster, Node};
use crate::toml_file::{Reader, repeated};
use lang::Diagnostic;
use std::ops::Range;

/// Nodes of a cluster at most: in the full mesh each has a link to every other.
pub const MOST_NODES: usize = 256;
/// Lines of a node at most: the internal header has 8 bits for them.
const MOST_LINES: usize = 256;
/// With `to-` in front it is still the name of an interface.
const LONGEST: usize = crate::toml_file::LONGEST_NAME - 3;

/// The name of a cluster or node, which is also one for certificates.
pub fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let fine = |c: char| plain(c) || c == '-';
    if text.starts_with(plain) && text.ends_with(plain) && text.len() <= LONGEST && text.chars().all(fine) {
        Ok(text.to_owned())
    } else {
        Err(format!("1 to {LONGEST} letters and digits, perhaps with `-` between them"))
    }
}

/// Looks names up and fits the nodes together.
pub fn nodes(reader: &mut Reader, cluster: &mut Cluster, nodes: Vec<NodeText>, control: Option<Word>) {
    let names: Vec<(String, Range<usize>)> = nodes
        .iter()
        .filter_map(|node| node.name.as_ref())
        .map(|name| (name.text.clone(), name.at.clone()))
        .collect();
    unique(reader, "node", &names);
    let end = nodes.last().map_or(0..0, |node| node.at.clone());
    if let Some([radix, columns]) = cluster.fly.filter(|_| !joins::are_placed(cluster, &nodes)) {
        let (room, count) = (cluster.room(), nodes.len());
        let unless = if count < room { ": where some are missing the others say their `number`" } else { "" };
        reader.mistake(end, format!("a fly {radix} {columns} has {room} nodes, not {count}{unless}"));
    } else if nodes.len() < 2 {
        reader.mistake(end, "a cluster has at least two nodes");
    } else if nodes.len() > MOST_NODES {
        reader.mistake(end, format!("a full mesh has at most {MOST_NODES} nodes"));
    }
    let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
    let numbers = numbers(reader, cluster, &nodes);
    if let Some(control) = control {
        control_node(reader, cluster, &nodes, (&names, &numbers), control);
    }
    lines(reader, &nodes);
    joins::ports(reader, cluster, &nodes, &numbers);
    let devices: Vec<Vec<Option<String>>> = (nodes.iter())
        .map(|node| links(reader, node, node.links.as_deref().unwrap_or_default(), &names))
        .collect();
    both_ends(reader, &nodes, &devices);
    joins::links(reader, cluster, &nodes, &numbers);
    joins::rates(reader, cluster, &nodes, &numbers);
    let count = numbers.iter().max().map_or(0, |last| last + 1);
    cluster.nodes = vec![Node { links: vec![None; count], ..Node::default() }; count];
    for ((node, devices), number) in nodes.into_iter().zip(devices).zip(&numbers) {
        let Some(place) = cluster.nodes.get_mut(*number) else { continue };
        place.name = node.name.map_or(String::new(), |name| name.text);
        place.lines = node.ports.into_iter().flatten().map(|port| port.line).collect();
        (place.certificate, place.key) = (node.certificate, node.key);
        (place.listen, place.spectator) = (node.listen, matches!(node.candidate, Some((false, _))));
        (place.workers, place.cpus, place.buffers) = (node.workers, node.cpus, node.buffers);
        for (device, to) in devices.into_iter().zip(&numbers) {
            place.links.get_mut(*to).into_iter().for_each(|link| link.clone_from(&device));
        }
    }
}

/// Looks for the control node, which must be one that can be it.
fn control_node(
    reader: &mut Reader,
    cluster: &mut Cluster,
    nodes: &[NodeText],
    (names, numbers): (&[String], &[usize]),
    control: Word,
) {
    match names.iter().position(|name| *name == control.text) {
        Some(place) => {
            cluster.control = numbers.get(place).copied().unwrap_or(0);
            let is_spectator = |node: &NodeText| matches!(node.candidate, Some((false, _)));
            let why = match nodes.get(place).is_some_and(is_spectator) {
                true => Some("it is no `candidate`"),
                false if cluster.has_lines(cluster.control) => None,
                false => Some("it has no ports"),
            };
            if let Some(why) = why {
                reader.mistake(
                    control.at,
                    format!("node `{}` cannot be the control node: {why}", control.text),
                );
            }
        }
        None => reader.unknown(control.at, &control.text, "node", names.iter().map(String::as_str)),
    }
}

/// The numbers of nodes: as they stand in the file, unless one says its own.
fn numbers(reader: &mut Reader, cluster: &Cluster, nodes: &[NodeText]) -> Vec<usize> {
    let place = |(place, node): (usize, &NodeText)| node.number.as_ref().map_or(place, |(number, _)| *number);
    let numbers: Vec<usize> = nodes.iter().enumerate().map(place).collect();
    let at = |node: &NodeText| node.number.as_ref().map_or(node.at.clone(), |(_, at)| at.clone());
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    for (again, first) in repeated(&texts) {
        reader.twice(&format!("number {}", texts[again]), at(&nodes[again]), at(&nodes[first]));
    }
    if cluster.fly.is_some() {
        let beyond = numbers
            .iter()
            .zip(nodes)
            .filter(|(number, node)| **number >= cluster.room() && node.number.is_some());
        for (number, node) in beyond {
            reader.mistake(at(node), format!("there is no node {number} in this fly: they begin with 0"));
        }
    }
    let most = if cluster.max_nodes == 0 { MOST_NODES } else { cluster.max_nodes };
    let beyond = numbers.iter().zip(nodes).find(|(number, _)| **number >= most);
    if let Some((number, node)) = beyond.filter(|_| cluster.max_nodes != 0) {
        reader.mistake(
            at(node),
            format!("node number {number} is one too many for `max_nodes` {most}: they begin with 0"),
        );
    }
    numbers
}

pub fn unique(reader: &mut Reader, what: &str, names: &[(String, Range<usize>)]) {
    let texts: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    for (again, first) in repeated(&texts) {
        reader.twice(&format!("{what} `{}`", texts[again]), names[again].1.clone(), names[first].1.clone());
    }
}

/// Lines have names of their own in the whole cluster, and devices in their node.
fn lines(reader: &mut Reader, nodes: &[NodeText]) {
    let ports = nodes.iter().flat_map(|node| node.ports.iter().flatten());
    let named = |port: &super::read::PortText| Some((port.line.name.clone(), port.name.clone()?));
    unique(reader, "port", &ports.filter_map(named).collect::<Vec<_>>());
    for node in nodes {
        let ports = node
            .ports
            .iter()
            .flatten()
            .filter_map(|port| Some((port.line.device.clone(), port.device.clone()?)));
        let links = node.links.iter().flatten().filter_map(|link| link.device.as_ref());
        let links = links.map(|word| (word.text.clone(), word.at.clone()));
        unique(reader, "device", &ports.chain(links).collect::<Vec<_>>());
        if count(node) > MOST_LINES {
            reader.mistake(node.at.clone(), format!("a node has at most {MOST_LINES} ports"));
        }
    }
}

/// The devices of a node's links, by number of the other node.
fn links(reader: &mut Reader, node: &NodeText, links: &[LinkText], names: &[String]) -> Vec<Option<String>> {
    let mut devices = vec![None; names.len()];
    let own = node.name.as_ref().map_or("", |name| &name.text);
    let mut seen: Vec<(String, Range<usize>)> = Vec::new();
    for link in links {
        let Some(to) = &link.to else { continue };
        let number = names.iter().position(|name| *name == to.text);
        match number.and_then(|number| devices.get_mut(number)) {
            _ if to.text == own => reader.mistake(to.at.clone(), "a link leads to another node"),
            Some(device) => *device = link.device.as_ref().map(|device| device.text.clone()),
            None => {
                reader.unknown(
                    to.at.clone(),
                    &to.text,
                    "node",
                    names.iter().map(String::as_str).filter(|name| *name != own),
                );
            }
        }
        seen.push((format!("to {}", to.text), to.at.clone()));
    }
    unique(reader, "link", &seen);
    devices
}

/// A link that has a device at one end has one at the other.
fn both_ends(reader: &mut Reader, nodes: &[NodeText], devices: &[Vec<Option<String>>]) {
    let name = |i: usize| nodes[i].name.as_ref().map_or("", |name| &name.text);
    // With names missing or twice, numbers mean nothing.
    if devices.iter().any(|row| row.len() != nodes.len()) {
        return;
    }
    for (from, row) in devices.iter().enumerate() {
        for to in (0..row.len()).filter(|to| row[*to].is_some() && devices[*to][from].is_none()) {
            let message =
                format!("node `{}` lacks a link to `{}`, which has one to it", name(to), name(from));
            let there = nodes[from].links.iter().flatten();
            let there = there
                .filter(|link| link.to.as_ref().is_some_and(|word| word.text == name(to)))
                .map(|link| link.at.clone())
                .next();
            let error = Diagnostic::error(reader.span(nodes[to].at.clone()), message);
            let note = reader.span(there.unwrap_or(0..0));
            reader.note(error.note(note, "here"));
        }
    }
}
