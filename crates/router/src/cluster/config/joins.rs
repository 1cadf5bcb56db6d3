//! What follows from how nodes are joined: which have ports, which links there are, and what links carry.

use super::Cluster;
use super::read::NodeText;
use crate::toml_file::Reader;
use lang::Diagnostic;
use std::collections::BTreeMap;
use std::ops::Range;

/// Ports that the text gives a node.
pub fn count(node: &NodeText) -> usize {
    node.ports.as_ref().map_or(0, Vec::len)
}

/// Whether it is known where each node is. In a fly all are there, or they say it.
pub fn are_placed(cluster: &Cluster, nodes: &[NodeText]) -> bool {
    match nodes.len() {
        _ if cluster.fly.is_none() => true,
        count if count < cluster.room() => nodes.iter().all(|node| node.number.is_some()),
        count => count == cluster.room(),
    }
}

/// All nodes have as many ports, or those of a fly's first column have, and only these can be the control node.
pub fn ports(reader: &mut Reader, cluster: &Cluster, nodes: &[NodeText], numbers: &[usize]) {
    if !are_placed(cluster, nodes) {
        return;
    }
    let with = |(node, number): (_, &usize)| cluster.has_lines(*number).then_some(node);
    let edge: Vec<&NodeText> = nodes.iter().zip(numbers).filter_map(with).collect();
    for (node, _) in nodes.iter().zip(numbers).filter(|(_, number)| !cluster.has_lines(**number)) {
        let what = match (count(node), &node.candidate) {
            (1.., _) => "have ports",
            (_, Some((true, _))) => "are candidates",
            _ => continue,
        };
        let last = cluster.edge_nodes().saturating_sub(1);
        let message = format!("only nodes of the first column {what}: numbers 0 to {last}");
        reader.mistake(node.at.clone(), message);
    }
    for node in edge.iter().filter(|node| node.ports.is_none()) {
        reader.mistake(node.at.clone(), "this node lacks `ports`");
    }
    let Some(first) = edge.first() else { return };
    if count(first) == 0 && first.ports.is_some() {
        reader.mistake(first.at.clone(), "a node has at least one port");
    }
    let all = if cluster.fly.is_some() { "all nodes of the first column" } else { "all nodes" };
    for node in edge.iter().filter(|node| count(node) != count(first)) {
        let message = format!("{all} have as many ports: {}, not {}", count(first), count(node));
        let note = reader.span(first.at.clone());
        reader.note(Diagnostic::error(reader.span(node.at.clone()), message).note(note, "as this one"));
    }
}

/// The number of the node of this name.
fn number(nodes: &[NodeText], numbers: &[usize], name: &str) -> Option<usize> {
    let is = |node: &NodeText| node.name.as_ref().is_some_and(|word| word.text == name);
    nodes.iter().position(is).and_then(|place| numbers.get(place)).copied()
}

/// Links are those that there are in a fly.
pub fn links(reader: &mut Reader, cluster: &Cluster, nodes: &[NodeText], numbers: &[usize]) {
    for (node, from) in nodes.iter().zip(numbers) {
        for to in node.links.iter().flatten().filter_map(|link| link.to.as_ref()) {
            let other = number(nodes, numbers, &to.text).filter(|other| other != from);
            if other.is_some_and(|other| !cluster.are_joined(*from, other)) {
                let own = node.name.as_ref().map_or("", |name| &name.text);
                let message = format!("there is no link between nodes `{own}` and `{}` in this fly", to.text);
                reader.mistake(to.at.clone(), message);
            }
        }
    }
}

/// What links carry: one end says it, or both say the same.
pub fn rates(reader: &mut Reader, cluster: &mut Cluster, nodes: &[NodeText], numbers: &[usize]) {
    let mut said: BTreeMap<(usize, usize), Range<usize>> = BTreeMap::new();
    for (node, from) in nodes.iter().zip(numbers) {
        for link in node.links.iter().flatten() {
            let to = link.to.as_ref().and_then(|to| number(nodes, numbers, &to.text));
            let (Some(to), Some((rate, at))) = (to.filter(|to| to != from), &link.rate) else { continue };
            let ends = (to.min(*from), to.max(*from));
            let first = said.entry(ends).or_insert_with(|| at.clone()).clone();
            if cluster.rates.insert(ends, *rate).is_some_and(|before| before != *rate) {
                let message = "the other end of this link has another `rate`";
                let note = reader.span(first);
                reader.note(Diagnostic::error(reader.span(at.clone()), message).note(note, "here"));
            }
        }
    }
}
