//! What can be seen, as tables: rows of JSON, units in the names of keys.

use super::Subject;
use crate::cli::json_rows;
use graph::{Kind, NodeRow};
use io::Port;
use serde_json::{Value, json};

/// The tables there are.
pub const NAMES: [&str; 5] = ["interfaces", "elements", "runtime", "drops", "control"];

/// The table of this name.
pub fn table(subject: &Subject, name: &str) -> Option<String> {
    let rows: Vec<Value> = match name {
        "interfaces" => subject.ports.iter().map(|p| interface(&**p)).collect(),
        "elements" => elements(subject),
        "runtime" => runtime(&subject.router.node_rows()),
        "drops" => drops(subject),
        "control" => subject.control.iter().map(|control| control.row()).collect(),
        _ => return None,
    };
    Some(json_rows(name, &rows))
}

fn interface(port: &dyn Port) -> Value {
    let (link, stats, queues) = (port.link(), port.stats(), port.queues());
    json!({
        "name": port.name(),
        "driver": port.driver(),
        "mac": port.mac().map(|m| m.map(|byte| format!("{byte:02x}")).join(":")),
        "mtu_bytes": port.mtu(),
        "link_up": link.up,
        "speed_mbit_per_s": link.speed_mbps,
        "full_duplex": link.full_duplex,
        "numa_node": port.numa_node(),
        "rx_queues": queues.rx_queues,
        "tx_queues": queues.tx_queues,
        "rx_packets": stats.rx_packets,
        "rx_bytes": stats.rx_bytes,
        "rx_missed_packets": stats.rx_missed,
        "rx_faulty_packets": stats.rx_errors,
        "rx_no_buffer_packets": stats.rx_no_buffer,
        "tx_packets": stats.tx_packets,
        "tx_bytes": stats.tx_bytes,
        "tx_failed_packets": stats.tx_errors,
    })
}

fn elements(subject: &Subject) -> Vec<Value> {
    let router = &subject.router;
    let kinds = |kinds: &[Kind]| -> Vec<&str> {
        kinds.iter().map(|k| if *k == Kind::Push { "push" } else { "pull" }).collect()
    };
    let row = |(id, counts): (graph::NodeId, NodeRow)| {
        let node = router.plan().node(id);
        let lost: u64 = router.losses_of(id).iter().map(|l| l.packets).sum();
        json!({
            "element": node.name,
            "class": node.spec().name,
            "config": router.flat().elements.get(id.index()).map(|e| e.config.text.as_str()),
            "inputs": kinds(&node.inputs),
            "outputs": kinds(&node.outputs),
            "worker": router.home(id),
            "packets": counts.packets,
            "lost_packets": lost,
        })
    };
    router.plan().ids().zip(router.node_rows()).map(row).collect()
}

fn runtime(rows: &[NodeRow]) -> Vec<Value> {
    let all: u64 = rows.iter().map(|r| r.cycles.saturating_add(r.empty_cycles)).sum();
    let share = |cycles: u64| if all == 0 { 0.0 } else { rounded(cycles as f64 / all as f64, 4) };
    let row = |r: &NodeRow| {
        json!({
            "element": r.element,
            "class": r.class,
            "calls": r.calls,
            "packets": r.packets,
            "packets_per_call": (r.calls > 0).then(|| rounded(r.packets as f64 / r.calls as f64, 2)),
            "cycles_per_packet": r.cycles_per_packet.map(|c| rounded(c, 1)),
            "cycles_per_call": r.cycles_per_call.map(|c| rounded(c, 1)),
            "cycles": r.cycles,
            "share_of_cycles": share(r.cycles),
            "empty_polls": r.empty_polls,
            "empty_poll_cycles": r.empty_cycles,
            "share_of_cycles_in_empty_polls": share(r.empty_cycles),
        })
    };
    rows.iter().map(row).collect()
}

fn drops(subject: &Subject) -> Vec<Value> {
    let row = |l: &graph::LossRow| {
        json!({
            "element": l.element,
            "class": l.class,
            "reason": l.reason,
            "loss": format!("{}.{}", l.element, l.reason),
            "packets": l.packets,
        })
    };
    subject.router.loss_rows().iter().map(row).collect()
}

/// Every element with its handlers.
pub fn handlers(subject: &Subject) -> String {
    let router = &subject.router;
    let row = |id| {
        let node = router.plan().node(id);
        let list = router.read(&node.name, "handlers", "").unwrap_or_default();
        let handler = |line: &str| {
            let (name, mode) = line.split_once('\t')?;
            Some(json!({ "name": name, "read": mode.contains('r'), "write": mode.contains('w') }))
        };
        let handlers: Vec<Value> = list.lines().filter_map(handler).collect();
        json!({ "element": node.name, "class": node.spec().name, "handlers": handlers })
    };
    json_rows("handlers", &router.plan().ids().map(row).collect::<Vec<_>>())
}

fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}
