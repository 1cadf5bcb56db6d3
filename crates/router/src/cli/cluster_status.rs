//! `cluster status`: what the nodes of a running cluster have to show, side by side.

use super::cluster::{WhichCluster, client};
use super::{Done, Output, columns, failed, json_rows};
use crate::cluster::SWITCH;
use crate::cluster::requests::NodeState;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Arguments of `cluster status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON: a row for each row of each table, and for each loss
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    which: WhichCluster,
}

/// A table of `ClusterSwitch`.
struct Table {
    handler: &'static str,
    /// What it is called here.
    title: &'static str,
    /// Headings, and what stands below them in a row.
    columns: &'static [(&'static str, &'static str)],
    /// Nodes of the version before do not have it, and where it has no rows it is left out.
    may_lack: bool,
}

const TABLES: [Table; 7] = [
    Table {
        handler: "links",
        title: "internal links",
        columns: &[
            ("to", "peer"),
            ("state", "state"),
            ("times down", "times_down"),
            ("bit/s", "rate"),
            ("packets", "tx_packets"),
            ("bytes", "tx_bytes"),
            ("waiting", "waiting_packets"),
        ],
        may_lack: false,
    },
    Table {
        handler: "lines",
        title: "lines",
        columns: &[
            ("line", "name"),
            ("packets", "tx_packets"),
            ("bytes", "tx_bytes"),
            ("waiting", "waiting_packets"),
        ],
        may_lack: false,
    },
    Table {
        handler: "traffic",
        title: "traffic, by the way that it takes",
        columns: &[("way", "way"), ("packets", "packets"), ("bytes", "bytes")],
        may_lack: false,
    },
    Table {
        handler: "classes",
        title: "packets that came in, by class",
        columns: &[
            ("class", "class"),
            ("order", "order"),
            ("DSCP", "dscp"),
            ("state", "state"),
            ("packets", "packets"),
            ("bytes", "bytes"),
        ],
        may_lack: true,
    },
    Table {
        handler: "shares",
        title: "shares of what does not go directly",
        columns: &[("to", "to_node"), ("via", "shares")],
        may_lack: false,
    },
    Table {
        handler: "far_links",
        title: "far links that are not used, by who knows of it",
        columns: &[("link from", "from_node"), ("to", "to_node"), ("state", "state")],
        may_lack: true,
    },
    Table {
        handler: "streams",
        title: "order, by input node",
        columns: &[
            ("from", "from_node"),
            ("delivered", "delivered"),
            ("held", "held"),
            ("waited", "waited"),
            ("given up", "given_up"),
            ("expired", "expired"),
            ("late", "late"),
            ("duplicate", "duplicate"),
            ("out of window", "out_of_window"),
            ("delays apart, us", "delay_spread_us"),
        ],
        may_lack: false,
    },
];

/// Asks all nodes, and prints what they say.
pub fn status(args: &StatusArgs) -> Done {
    let running = args.which.find()?;
    let rows = rows(&running.nodes().map_err(failed)?);
    let mut out = Output::stdout();
    out.text(&if args.json { json_rows("cluster", &rows) } else { text(&rows) });
    out.done()
}

/// All tables for people.
fn text(rows: &[Value]) -> String {
    let mut text = states(rows);
    for table in &TABLES {
        let rows: Vec<&Value> = rows.iter().filter(|row| row["table"] == table.handler).collect();
        if table.may_lack && rows.is_empty() {
            continue;
        }
        let together = if table.handler == "shares" { shares(&rows) } else { Vec::new() };
        let rows = if together.is_empty() { rows } else { together.iter().collect() };
        let _ = write!(text, "\n{}\n{}", table.title, table.text(&rows));
    }
    let _ = write!(text, "\nlost packets\n{}", losses(rows));
    text
}

/// One row for each pair of nodes: `b 2/4, c 1/4, d 1/4`.
fn shares(rows: &[&Value]) -> Vec<Value> {
    let mut together: Vec<Value> = Vec::new();
    for row in rows {
        let share = format!("{} {}/{}", cell(&row["via_node"]), cell(&row["weight"]), cell(&row["of"]));
        match together.last_mut() {
            Some(last) if last["node"] == row["node"] && last["to_node"] == row["to_node"] => {
                last["shares"] = format!("{}, {share}", cell(&last["shares"])).into();
            }
            _ => together.push(json!({ "node": row["node"], "to_node": row["to_node"], "shares": share })),
        }
    }
    together
}

fn states(rows: &[Value]) -> String {
    let row_of = |row: &Value| {
        let role = match (row["control"] == true, row["candidate"] == true) {
            (true, _) => "control",
            (_, true) => "candidate",
            _ => "",
        };
        let drains = if row["drains"] == true { "yes" } else { "" };
        vec![cell(&row["node"]), cell(&row["pid"]), cell(&row["state"]), role.to_owned(), drains.to_owned()]
    };
    let nodes: Vec<&Value> = rows.iter().filter(|row| row["table"] == "nodes").collect();
    let text = columns(
        &["node", "process", "state", "role", "drains"],
        &nodes.iter().map(|row| row_of(row)).collect::<Vec<_>>(),
    );
    if nodes.iter().all(|row| row["present"].is_null()) { text } else { text + &election(&nodes) }
}

/// Who etcd knows, and who each node takes for the control node.
fn election(nodes: &[&Value]) -> String {
    let row = |row: &&Value| {
        let news = &row["election"];
        let etcd = match (&news["silent"], news.is_null()) {
            (_, true) => "-".to_owned(),
            (Value::String(why), _) => why.clone(),
            _ => "answers".to_owned(),
        };
        let present = if row["present"] == true { "yes" } else { "no" };
        vec![cell(&row["node"]), present.to_owned(), cell(&news["control"]), cell(&news["term"]), etcd]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    format!("\nelection\n{}", columns(&["node", "present", "control node", "term", "etcd"], &rows))
}

impl Table {
    /// The rows of all nodes, and the sums where sums mean something.
    fn text(&self, rows: &[&Value]) -> String {
        let heading: Vec<&str> =
            ["node"].into_iter().chain(self.columns.iter().map(|(heading, _)| *heading)).collect();
        let cells = |row: &&Value| {
            ["node"]
                .into_iter()
                .chain(self.columns.iter().map(|(_, key)| *key))
                .map(|key| cell(&row[key]))
                .collect()
        };
        let mut cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        if let Some(total) = self.total(rows) {
            cells.push(total);
        }
        columns(&heading, &cells)
    }

    /// The sums of packets and bytes; of traffic by each way.
    fn total(&self, rows: &[&Value]) -> Option<Vec<String>> {
        let adds_up = |key: &str| key.contains("packets") || key.contains("bytes");
        let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).fold(0, u64::saturating_add);
        let cell = |(_, key): &(&str, &str)| if adds_up(key) { sum(key).to_string() } else { "-".to_owned() };
        let any = rows.len() > 1 && self.columns.iter().any(|(_, key)| adds_up(key));
        any.then(|| ["total".to_owned()].into_iter().chain(self.columns.iter().map(cell)).collect())
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Packets lost, by element and reason, at each node and in all.
fn losses(rows: &[Value]) -> String {
    let lost = rows.iter().filter(|row| row["table"] == "lost");
    let lost =
        lost.filter_map(|row| Some((row["loss"].as_str()?, row["node"].as_str()?, row["packets"].as_u64()?)));
    let mut all: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (loss, node, packets) in lost {
        *all.entry(loss).or_default().entry(node).or_default() += packets;
    }
    let nodes: BTreeSet<&str> = all.values().flat_map(|by_node| by_node.keys().copied()).collect();
    let heading: Vec<&str> = ["reason"].into_iter().chain(nodes.iter().copied()).chain(["total"]).collect();
    let row = |(loss, by_node): (&&str, &BTreeMap<&str, u64>)| {
        let cells = nodes.iter().map(|node| by_node.get(node).map_or("-".to_owned(), u64::to_string));
        let total = by_node.values().fold(0, |sum: u64, packets| sum.saturating_add(*packets));
        [(*loss).to_owned()].into_iter().chain(cells).chain([total.to_string()]).collect()
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

/// Everything as rows: `table` says what each is about, `node` whose it is. A node that has just ended, or does not answer,
/// says so in its state.
fn rows(nodes: &[NodeState]) -> Vec<Value> {
    let (mut states, mut all) = (Vec::new(), Vec::new());
    for node in nodes {
        let mut state = json!(node);
        state["table"] = "nodes".into();
        if node.pid.is_some() && node.ready {
            match rows_of(node, nodes) {
                Ok((rows, drains)) => {
                    all.extend(rows);
                    state["drains"] = drains.into();
                }
                Err(e) => {
                    state["state"] = e.into();
                    state["ready"] = false.into();
                }
            }
        }
        states.push(state);
    }
    states.extend(all);
    states
}

/// What one node has to show, and whether it drains.
fn rows_of(node: &NodeState, nodes: &[NodeState]) -> Result<(Vec<Value>, bool), String> {
    let mut all = Vec::new();
    let client = client(node)?;
    for table in &TABLES {
        let found = client.table(&format!("/handlers/{SWITCH}/{}?json", table.handler));
        for mut row in if table.may_lack { found.unwrap_or_default() } else { found? } {
            named(&mut row, nodes);
            row["table"] = table.handler.into();
            row["node"] = node.node.clone().into();
            all.push(row);
        }
    }
    let drops = client.table("/api/drops")?.into_iter().filter(|row| row["packets"] != 0);
    all.extend(drops.map(
        |row| json!({ "table": "lost", "node": node.node, "loss": row["loss"], "packets": row["packets"] }),
    ));
    Ok((all, client.read(SWITCH, "drain")?.trim_end() == "true"))
}

/// Puts names in the place of the numbers of nodes and lines.
fn named(row: &mut Value, nodes: &[NodeState]) {
    let name = |number: &Value| -> Value {
        let node = number.as_u64().and_then(|number| nodes.iter().find(|node| node.number as u64 == number));
        node.map_or(number.clone(), |node| node.node.clone().into())
    };
    if let Some(peer) = row.get("node").map(name) {
        row["peer"] = peer;
    }
    for key in ["to_node", "via_node", "from_node"] {
        if let Some(value) = row.get_mut(key) {
            *value = name(value);
        }
    }
    let ports = nodes.iter().map(|node| node.lines.len()).max().unwrap_or(1).max(1);
    let line = row["line"].as_u64().and_then(|line| usize::try_from(line).ok());
    let line = line.and_then(|line| {
        let node = nodes.iter().find(|node| node.number == line / ports)?;
        node.lines.get(line % ports)
    });
    if let Some(line) = line {
        row["name"] = line.clone().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, number: usize) -> NodeState {
        NodeState { node: name.to_owned(), number, lines: vec![format!("{name}0")], ..NodeState::default() }
    }

    #[test]
    fn losses_stand_side_by_side() {
        let lost =
            |node, loss, packets| json!({ "table": "lost", "node": node, "loss": loss, "packets": packets });
        let all = [lost("a", "cluster.late", 1), lost("c", "cluster.late", 20), lost("b", "in0.short", 3)];
        let expected = "reason        a  b   c  total\n\
                        cluster.late  1  -  20     21\n\
                        in0.short     -  3   -      3\n";
        assert_eq!(losses(&all), expected);
    }

    #[test]
    fn who_drains_says_so() {
        let node = |name, drains| json!({ "table": "nodes", "node": name, "pid": 7, "state": "forwards", "control": true, "drains": drains });
        let expected = "node  process  state     role     drains\n\
                        a           7  forwards  control  yes\n\
                        b           7  forwards  control\n";
        assert_eq!(states(&[node("a", true), node("b", false)]), expected);
    }

    #[test]
    fn tables_have_names_and_sums() {
        let nodes = [node("a", 0), node("b", 1)];
        let mut rows = [
            json!({ "node": 1, "state": "up", "times_down": 2, "rate": 8000, "tx_packets": 5, "tx_bytes": 500, "waiting_packets": 0 }),
            json!({ "node": 0, "state": "down", "times_down": 1, "rate": 10000, "tx_packets": 70, "tx_bytes": 7000, "waiting_packets": 9 }),
        ];
        for (row, node) in rows.iter_mut().zip(["a", "b"]) {
            named(row, &nodes);
            row["node"] = node.into();
        }
        let expected = "node   to  state  times down  bit/s  packets  bytes  waiting\n\
                        a      b   up              2   8000        5    500        0\n\
                        b      a   down            1  10000       70   7000        9\n\
                        total  -   -               -      -       75   7500        9\n";
        assert_eq!(TABLES[0].text(&rows.iter().collect::<Vec<_>>()), expected);
        let mut line = json!({ "line": 1, "tx_packets": 5 });
        named(&mut line, &nodes);
        assert_eq!(line["name"], "b0");
        let share = |to, via, weight| json!({ "node": "a", "to_node": to, "via_node": via, "weight": weight, "of": 4 });
        let rows = [share("b", "b", 2), share("b", "c", 1), share("b", "d", 1), share("c", "c", 4)];
        let together = shares(&rows.iter().collect::<Vec<_>>());
        let expected = "node  to  via\n\
                        a     b   b 2/4, c 1/4, d 1/4\n\
                        a     c   c 4/4\n";
        assert_eq!(TABLES[4].text(&together.iter().collect::<Vec<_>>()), expected);
    }
}
