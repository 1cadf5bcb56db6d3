//! Which columns each table has for people, made of the rows that programs get.

use serde_json::Value;

/// A column.
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// What it shows of a row.
    pub cell: fn(&Value) -> String,
}

const fn column(heading: &'static str, cell: fn(&Value) -> String) -> Column {
    Column { heading, cell }
}

/// Of `show interfaces`.
pub const INTERFACES: &[Column] = &[
    column("interface", |r| text(&r["name"])),
    column("VLAN", |r| text(&r["vlan"])),
    column("VRF", |r| text(&r["vrf"])),
    column("admin", admin),
    column("link", link),
    column("MAC", |r| text(&r["mac"])),
    column("MTU", |r| text(&r["mtu_bytes"])),
    column("rx packets", |r| text(&r["rx_packets"])),
    column("rx bytes", |r| text(&r["rx_bytes"])),
    column("rx lost", |r| sum(r, &["rx_missed_packets", "rx_faulty_packets", "rx_no_buffer_packets"])),
    column("tx packets", |r| text(&r["tx_packets"])),
    column("tx bytes", |r| text(&r["tx_bytes"])),
    column("tx failed", |r| text(&r["tx_failed_packets"])),
    column("queues", queues),
    column("driver", |r| text(&r["driver"])),
];

/// Of `show elements`.
pub const ELEMENTS: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("class", |r| text(&r["class"])),
    column("inputs", |r| kinds(&r["inputs"])),
    column("outputs", |r| kinds(&r["outputs"])),
    column("worker", |r| if r["worker"].is_null() { "all".to_owned() } else { text(&r["worker"]) }),
    column("packets", |r| text(&r["packets"])),
    column("lost", |r| text(&r["lost_packets"])),
    column("configuration", |r| shortened(&text(&r["config"]))),
];

/// Of `show runtime`.
pub const RUNTIME: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("class", |r| text(&r["class"])),
    column("calls", |r| text(&r["calls"])),
    column("packets", |r| text(&r["packets"])),
    column("packets/call", |r| decimal(&r["packets_per_call"], 1)),
    column("cycles/packet", |r| decimal(&r["cycles_per_packet"], 1)),
    column("cycles/call", |r| decimal(&r["cycles_per_call"], 0)),
    column("share", |r| percent(&r["share_of_cycles"])),
    column("empty polls", |r| text(&r["empty_polls"])),
    column("share", |r| percent(&r["share_of_cycles_in_empty_polls"])),
];

/// Of `show drops`.
pub const DROPS: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("class", |r| text(&r["class"])),
    column("reason", |r| text(&r["reason"])),
    column("packets", |r| text(&r["packets"])),
];

/// Of `show punt`.
pub const PUNT: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("port", |r| text(&r["port"])),
    column("kind", |r| text(&r["kind"])),
    column("passed", |r| text(&r["passed_packets"])),
    column("lost", |r| text(&r["lost_packets"])),
    column("limit/s", |r| text(&r["limit_packets_per_s"])),
];

/// Of `show routes`.
pub const ROUTES: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("VRF", |r| text(&r["vrf"])),
    column("prefix", |r| text(&r["prefix"])),
    column("gateway", |r| if is_linux(r) { "-".to_owned() } else { text(&r["gateway"]) }),
    column("port", |r| if is_linux(r) { "Linux".to_owned() } else { port(&r["port"]) }),
    column("interface", |r| text(&r["interface"])),
    column("MTU", |r| text(&r["mtu_bytes"])),
];

/// Further ones of `show routes` where packets are counted for each route.
pub const ROUTE_COUNTS: &[Column] =
    &[column("packets", |r| text(&r["packets"])), column("bytes", |r| text(&r["bytes"]))];

/// True of routes that Linux serves itself, by a gateway that is nobody's.
fn is_linux(row: &Value) -> bool {
    row["gateway"] == "0.0.0.0"
}

/// A port, or what stands for one in a router of Linux's routes.
fn port(value: &Value) -> String {
    match value.as_u64().and_then(|port| u32::try_from(port).ok()) {
        Some(control::PUNT) => "Linux".to_owned(),
        Some(control::BLACKHOLE) => "blackhole".to_owned(),
        Some(port) if control::object_number(port) == Some(0) => "Linux, by policy".to_owned(),
        Some(port) => {
            let object = control::object_number(port).map(|id| format!("nhid {id}"));
            let set = || control::set_number(port).map(|set| format!("several, set {set}"));
            object.or_else(set).unwrap_or_else(|| port.to_string())
        }
        None => text(value),
    }
}

/// Of `show neighbours`.
pub const NEIGHBOURS: &[Column] = &[
    column("element", |r| text(&r["element"])),
    column("address", |r| text(&r["address"])),
    column("MAC", |r| text(&r["mac"])),
    column("interface", |r| text(&r["interface"])),
    column("state", |r| text(&r["state"])),
];

/// Of `show control`.
pub const CONTROL: &[Column] = &[
    column("runs as", |r| text(&r["runs_as"])),
    column("state", |r| text(&r["state"])),
    column("process", |r| text(&r["pid"])),
    column("for s", |r| text(&r["since_s"])),
    column("restarts", |r| text(&r["restarts"])),
    column("messages", |r| text(&r["netlink_messages"])),
    column("overruns", |r| text(&r["netlink_overruns"])),
    column("FPM messages", |r| text(&r["fpm_messages"])),
    column("route changes", |r| text(&r["route_changes"])),
    column("last end", |r| text(&r["last_end"])),
];

/// Control characters of configurations could move the terminal's cursor.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(s) => visible(s),
        other => other.to_string(),
    }
}

fn decimal(value: &Value, digits: usize) -> String {
    value.as_f64().map_or("-".to_owned(), |v| format!("{v:.digits$}"))
}

fn percent(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), |v| format!("{:.1} %", v * 100.0))
}

fn sum(row: &Value, keys: &[&str]) -> String {
    if keys.iter().all(|k| row[*k].is_null()) {
        return text(&Value::Null);
    }
    keys.iter().filter_map(|k| row[*k].as_u64()).fold(0u64, u64::saturating_add).to_string()
}

/// Whether the operator has set it up; nobody has a say about ports of other routers.
fn admin(row: &Value) -> String {
    match row["admin_up"].as_bool() {
        Some(true) => "up".to_owned(),
        Some(false) => "down".to_owned(),
        None => text(&Value::Null),
    }
}

fn link(row: &Value) -> String {
    if row["link_up"] != true {
        return "down".to_owned();
    }
    match row["speed_mbit_per_s"].as_u64() {
        Some(speed) if speed >= 1000 && speed % 1000 == 0 => format!("up {} Gbit/s", speed / 1000),
        Some(speed) => format!("up {speed} Mbit/s"),
        None => "up".to_owned(),
    }
}

/// Receive and send queues; VLANs have none.
fn queues(row: &Value) -> String {
    match (&row["rx_queues"], &row["tx_queues"]) {
        (Value::Null, Value::Null) => text(&Value::Null),
        (rx, tx) => format!("{}/{}", text(rx), text(tx)),
    }
}

/// `2 push, 1 pull`.
fn kinds(ports: &Value) -> String {
    let count = |kind| ports.as_array().map_or(0, |p| p.iter().filter(|k| *k == kind).count());
    match (count("push"), count("pull")) {
        (0, 0) => "-".to_owned(),
        (push, 0) => format!("{push} push"),
        (0, pull) => format!("{pull} pull"),
        (push, pull) => format!("{push} push, {pull} pull"),
    }
}

/// The first line of a configuration, as far as it fits.
fn shortened(config: &str) -> String {
    const LONGEST: usize = 48;
    let line = config.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    let start: String = line.chars().take(LONGEST - 3).collect();
    start + "..."
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        assert_eq!(link(&json!({ "link_up": false, "speed_mbit_per_s": 10 })), "down");
        assert_eq!(link(&json!({ "link_up": true, "speed_mbit_per_s": 10000 })), "up 10 Gbit/s");
        assert_eq!(link(&json!({ "link_up": true, "speed_mbit_per_s": 2500 })), "up 2500 Mbit/s");
        assert_eq!(link(&json!({ "link_up": true, "speed_mbit_per_s": null })), "up");
        assert_eq!(kinds(&json!(["push", "pull", "push"])), "2 push, 1 pull");
        assert_eq!(percent(&json!(0.0523)), "5.2 %");
        assert_eq!(decimal(&json!(null), 1), "-");
        assert_eq!(text(&json!("a\u{1b}[2J")), "a [2J");
        assert_eq!(shortened("1,\n  2"), "1, 2");
        assert_eq!(shortened(&"x".repeat(49)), "x".repeat(45) + "...");
    }
}
