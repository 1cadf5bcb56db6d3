//! `cluster status`: what the nodes of a running cluster have to show, side by side.

use super::cluster::{WhichCluster, client};
use super::{Done, Output, columns, failed, json_rows};
use crate::cluster::SWITCH;
use crate::cluster::requests::NodeState;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Arguments of `cluster status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON: a row for each row of each table, and for each loss
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    which: WhichCluster,
}

/// The tables of `ClusterSwitch`, and what they are called here.
const TABLES: [(&str, &str); 5] = [
    ("links", "internal links"),
    ("lines", "lines"),
    ("traffic", "traffic"),
    ("shares", "shares of links on first ways"),
    ("streams", "order, by input node"),
];

/// Asks all nodes, and prints what they say.
pub fn status(args: &StatusArgs) -> Done {
    let running = args.which.find()?;
    let nodes = running.nodes().map_err(failed)?;
    let mut out = Output::stdout();
    if args.json {
        out.text(&json_rows("cluster", &rows(&nodes).map_err(failed)?));
        return out.done();
    }
    out.text(&states(&nodes));
    for (handler, title) in TABLES {
        out.line(format_args!("\n{title}"));
        out.text(&table(&nodes, handler).map_err(failed)?);
    }
    out.line(format_args!("\nlost"));
    out.text(&losses(&drops(&nodes).map_err(failed)?));
    out.done()
}

fn states(nodes: &[NodeState]) -> String {
    let row = |node: &NodeState| {
        let process = node.pid.map_or("-".to_owned(), |pid| pid.to_string());
        let role = if node.control { "control" } else { "" };
        vec![node.node.clone(), process, node.state.clone(), role.to_owned()]
    };
    columns(&["node", "process", "state", "role"], &nodes.iter().map(row).collect::<Vec<_>>())
}

fn running(nodes: &[NodeState]) -> impl Iterator<Item = &NodeState> {
    nodes.iter().filter(|node| node.pid.is_some() && node.ready)
}

/// The rows of a handler of all nodes under one heading, and the sums where sums mean something.
fn table(nodes: &[NodeState], handler: &str) -> Result<String, String> {
    let mut heading: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for node in running(nodes) {
        let text = client(node)?.read(SWITCH, handler)?;
        let mut lines = text.lines();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        heading = lines.next().map(words).unwrap_or_default();
        rows.extend(lines.map(|line| [vec![node.node.clone()], words(line)].concat()));
    }
    heading.insert(0, "node".to_owned());
    rows.extend(total(&heading, &rows));
    Ok(columns(&heading.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}

/// The sums of columns of packets and bytes.
fn total(heading: &[String], rows: &[Vec<String>]) -> Option<Vec<String>> {
    let adds_up = |name: &str| name.contains("packets") || name.contains("bytes");
    let sum =
        |i: usize| rows.iter().filter_map(|row| row.get(i)?.parse::<u64>().ok()).fold(0, u64::saturating_add);
    let cell = |(i, name): (usize, &String)| match i {
        0 => "total".to_owned(),
        _ if adds_up(name) => sum(i).to_string(),
        _ => "-".to_owned(),
    };
    (rows.len() > 1 && heading.iter().any(|name| adds_up(name)))
        .then(|| heading.iter().enumerate().map(cell).collect())
}

/// Packets lost, by element and reason, and there by node.
type Losses = BTreeMap<String, BTreeMap<String, u64>>;

fn drops(nodes: &[NodeState]) -> Result<Losses, String> {
    let mut all = Losses::new();
    for node in running(nodes) {
        for row in client(node)?.table("/api/drops")? {
            let packets = row["packets"].as_u64().unwrap_or(0);
            if let Some(loss) = row["loss"].as_str().filter(|_| packets > 0) {
                *all.entry(loss.to_owned()).or_default().entry(node.node.clone()).or_default() += packets;
            }
        }
    }
    Ok(all)
}

fn losses(all: &Losses) -> String {
    let mut nodes: Vec<&str> = all.values().flat_map(|by_node| by_node.keys().map(String::as_str)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let heading = [&["reason"], &nodes[..], &["total"]].concat();
    let row = |(loss, by_node): (&String, &BTreeMap<String, u64>)| {
        let cells = nodes.iter().map(|node| by_node.get(*node).map_or("-".to_owned(), u64::to_string));
        let total = by_node.values().fold(0, |sum: u64, packets| sum.saturating_add(*packets));
        [loss.clone()].into_iter().chain(cells).chain([total.to_string()]).collect()
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

/// Everything as rows: `table` says what each is about.
fn rows(nodes: &[NodeState]) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for node in nodes {
        let mut row = serde_json::to_value(node).map_err(|e| e.to_string())?;
        row["table"] = "nodes".into();
        all.push(row);
    }
    for node in running(nodes) {
        let client = client(node)?;
        for (handler, _) in TABLES {
            for mut row in client.table(&format!("/handlers/{SWITCH}/{handler}?json"))? {
                row["table"] = handler.into();
                row["node"] = node.node.clone().into();
                all.push(row);
            }
        }
    }
    for (loss, by_node) in drops(nodes)? {
        all.extend(by_node.iter().map(
            |(node, packets)| json!({ "table": "lost", "node": node, "loss": loss, "packets": packets }),
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_stand_side_by_side() {
        let by = |list: &[(&str, u64)]| {
            list.iter().map(|(node, packets)| ((*node).to_owned(), *packets)).collect()
        };
        let all = Losses::from([
            ("cluster.late".to_owned(), by(&[("a", 1), ("c", 20)])),
            ("in0.short".to_owned(), by(&[("b", 3)])),
        ]);
        let expected = "reason        a  b   c  total\n\
                        cluster.late  1  -  20     21\n\
                        in0.short     -  3   -      3\n";
        assert_eq!(losses(&all), expected);
    }

    #[test]
    fn packets_and_bytes_add_up() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let heading = words("node to state packets bytes");
        let rows = [words("a 1 up 5 500"), words("b 0 up 7 700")];
        assert_eq!(total(&heading, &rows), Some(words("total - - 12 1200")));
        assert_eq!(total(&heading, &rows[..1]), None);
        assert_eq!(total(&words("node weight"), &[words("a 1"), words("b 1")]), None);
    }
}
