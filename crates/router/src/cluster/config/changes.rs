//! What differs between the file of a running cluster and a new one.

use super::{Cluster, Named, Node};
use std::fmt::Write;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What cannot change while the cluster runs, in words.
    pub fixed: Vec<String>,
    /// Nodes that go, by number.
    pub gone: Vec<usize>,
    /// Nodes that come, by number. One that goes and comes is replaced.
    pub new: Vec<usize>,
}

impl Changes {
    /// From what runs to what shall.
    pub fn between(old: &Cluster, new: &Cluster) -> Changes {
        let mut changes = Changes { fixed: settings(old, new), ..Changes::default() };
        for number in 0..old.nodes.len().max(new.nodes.len()) {
            let nodes = [old, new].map(|cluster| cluster.nodes.get(number).filter(|node| node.exists()));
            match nodes {
                [Some(_), None] => changes.gone.push(number),
                [None, Some(_)] => changes.new.push(number),
                [Some(before), Some(after)] if !before.is_like(after) => {
                    changes.gone.push(number);
                    changes.new.push(number);
                }
                _ => {}
            }
        }
        let renumbered = new.there().filter_map(|(number, node)| Some((old.node(&node.name)?, number, node)));
        for (before, now, node) in renumbered.filter(|(before, now, _)| before != now) {
            changes.fixed.push(format!(
                "the number of node {}, which is {before} and would be {now}: write `number = {before}`",
                node.name
            ));
        }
        if old.etcd.is_none() && changes.gone.contains(&old.control) {
            changes.fixed.push(format!("the control node, {}", old.name_of(old.control)));
        }
        changes.links(old, new);
        changes
    }

    /// Links between nodes that stay.
    fn links(&mut self, old: &Cluster, new: &Cluster) {
        let stay: Vec<usize> = new
            .members()
            .into_iter()
            .filter(|node| !self.gone.contains(node) && !self.new.contains(node))
            .collect();
        for from in &stay {
            let device =
                |cluster: &Cluster, to: usize| cluster.nodes.get(*from)?.links.get(to).cloned().flatten();
            let differs = |to: &&usize| device(old, **to) != device(new, **to);
            for to in stay.iter().filter(differs) {
                let (from, to) = (new.name_of(*from), new.name_of(*to));
                self.fixed.push(format!("the interface of {from} that leads to {to}"));
            }
            let ends = stay.iter().map(|to| (*from, *to)).filter(|(from, to)| from < to);
            for (from, to) in ends.filter(|ends| old.rates.get(ends) != new.rates.get(ends)) {
                let (from, to) = (new.name_of(from), new.name_of(to));
                self.fixed.push(format!("the rate of the link between {from} and {to}"));
            }
        }
    }

    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.gone.is_empty() && self.new.is_empty()
    }

    /// A line for each node that goes or comes.
    pub fn text(&self, old: &Cluster, new: &Cluster) -> String {
        let mut text = String::new();
        for (sign, cluster, nodes) in [('-', old, &self.gone), ('+', new, &self.new)] {
            for (number, node) in
                nodes.iter().filter_map(|number| Some((number, cluster.nodes.get(*number)?)))
            {
                let lines: Vec<String> =
                    node.lines.iter().map(|line| format!("{} on {}", line.name, line.device)).collect();
                let _ = writeln!(text, "{sign} node {} (number {number}): {}", node.name, lines.join(", "));
            }
        }
        text
    }
}

impl Node {
    /// Whether only links differ.
    fn is_like(&self, other: &Node) -> bool {
        let of = |node: &Node| Node { links: Vec::new(), ..node.clone() };
        of(self) == of(other)
    }
}

/// The settings of the whole cluster that differ.
fn settings(old: &Cluster, new: &Cluster) -> Vec<String> {
    let same = [
        ("name", old.name == new.name),
        ("control", old.name_of(old.control) == new.name_of(new.control)),
        ("line_rate", old.line_rate == new.line_rate),
        ("link_rate", old.link_rate == new.link_rate),
        ("link_type", old.link_type.name() == new.link_type.name()),
        ("order", old.order.name() == new.order.name()),
        ("class", old.classes == new.classes),
        ("policy", old.policy.name() == new.policy.name()),
        ("hello", old.hello == new.hello),
        ("mtu", old.mtu == new.mtu),
        ("rpf", old.extras.sources == new.extras.sources),
        ("redirects", old.extras.redirects == new.extras.redirects),
        ("count_routes", old.extras.counts == new.extras.counts),
        ("lookup", old.extras.lookup == new.extras.lookup),
        ("eal", old.eal == new.eal),
        ("topology", old.fly == new.fly),
        ("listen", old.listen == new.listen),
        ("authority", old.authority == new.authority),
        ("etcd", old.etcd == new.etcd),
        ("the number of ports of a node", old.ports() == new.ports()),
    ];
    let mut fixed: Vec<String> =
        same.into_iter().filter(|(_, same)| !same).map(|(what, _)| what.to_owned()).collect();
    if new.room() != old.room() {
        fixed.push(format!(
            "how many nodes there can be: it was started with room for {} (`max_nodes`)",
            old.room()
        ));
    }
    fixed
}
