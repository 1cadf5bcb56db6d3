//! VLANs and VRFs in a router of Linux's routes, which its elements `vlan0`, `vlan1`, … know.

use crate::api::client::Client;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The class of these elements.
pub const CLASS: &str = "FindInterface";

/// Ports and VLANs.
pub fn interfaces(client: &Client) -> Result<Vec<Value>, String> {
    let mut all = client.table("/api/interfaces")?;
    let (mut vrfs, mut twins, mut vlans) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let elements = client.table("/api/elements")?;
    for (element, port, _) in finders(&elements) {
        let vrf = client.read(element, "vrf")?;
        vrfs.insert(port, vrf.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned));
        twins.insert(port, client.read(element, "port")?);
        vlans.extend(client.read(element, "table")?.lines().filter_map(|line| vlan(port, line)));
    }
    for row in all.iter_mut().filter_map(Value::as_object_mut) {
        let vrf = row.get("name").and_then(Value::as_str).and_then(|name| vrfs.get(name));
        if let Some(vrf) = vrf {
            row.insert("vrf".to_owned(), json!(vrf));
        }
        let twin = row.get("name").and_then(Value::as_str).and_then(|name| twins.get(name));
        if let Some((name, state)) = twin.and_then(|twin| twin_state(twin)) {
            row.insert("twin".to_owned(), json!(name));
            row.insert("admin_up".to_owned(), json!(state));
        }
    }
    all.extend(vlans);
    Ok(all)
}

/// Names of interfaces by number, as next hops have them; none in other routers.
pub fn names(client: &Client) -> Result<BTreeMap<u64, String>, String> {
    let mut names = BTreeMap::new();
    let elements = client.table("/api/elements")?;
    for (element, port, number) in finders(&elements) {
        let twin = client.read(element, "port").unwrap_or_default();
        names.insert(number, twin_state(&twin).map_or(port, |(name, _)| name).to_owned());
        for line in client.read(element, "table")?.lines() {
            let mut words = line.split(' ');
            let number = words.next().and_then(|number| number.parse().ok());
            names.extend(number.zip(words.next().map(str::to_owned)));
        }
    }
    Ok(names)
}

/// The elements that know the interfaces of a port, with its name and its number, which in a cluster is that of the line.
fn finders(elements: &[Value]) -> impl Iterator<Item = (&str, &str, u64)> {
    elements.iter().filter(|element| element["class"] == CLASS).filter_map(|element| {
        let name = element["element"].as_str()?;
        let out = format!("out{}", name.strip_prefix("vlan")?);
        let out =
            elements.iter().find(|other| other["element"] == out && other["class"] == "ToDPDKDevice")?;
        let mut arguments = element["config"].as_str()?.split(',');
        let number = arguments.find_map(|argument| argument.trim().strip_prefix("PORT ")?.parse().ok())?;
        Some((name, out["config"].as_str()?, number))
    })
}

/// The name of a port's twin, and whether it is set up: of `name address MTU up|down`.
fn twin_state(line: &str) -> Option<(&str, bool)> {
    Some((line.split(' ').next().filter(|name| !name.is_empty())?, line.ends_with(" up")))
}

/// `number name tags address MTU up|down VRF|- table|- packets bytes packets bytes`.
fn vlan(port: &str, line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split(' ').collect();
    let [_, name, tags, mac, mtu, state, vrf, _, ref counts @ ..] = words[..] else { return None };
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("name", json!(name));
    put("port", json!(port));
    put("vlan", json!(tags));
    put("vrf", json!((vrf != "-").then_some(vrf)));
    put("mac", json!(mac.replace('-', ":").to_lowercase()));
    put("mtu_bytes", json!(mtu.parse::<u64>().ok()?));
    put("admin_up", json!(state == "up"));
    put("link_up", json!(state == "up"));
    let keys = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"];
    for (key, count) in keys.into_iter().zip(counts) {
        put(key, json!(count.parse::<u64>().ok()?));
    }
    Some(Value::Object(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_vlans() {
        let row = |vrf: Option<&str>| {
            json!({ "name": "eth1.100", "port": "eth1", "vlan": "ad:7.100", "vrf": vrf, "mac": "02:00:00:00:00:0a",
                "mtu_bytes": 1400, "admin_up": true, "link_up": true, "rx_packets": 1, "rx_bytes": 60, "tx_packets": 2, "tx_bytes": 120 })
        };
        let line = "3 eth1.100 ad:7.100 02-00-00-00-00-0A 1400 up red 10 1 60 2 120";
        assert_eq!(vlan("eth1", line), Some(row(Some("red"))));
        assert_eq!(vlan("eth1", &line.replace("red 10", "- -")), Some(row(None)));
        assert_eq!(vlan("eth1", "3 eth1.100"), None);
    }

    #[test]
    fn lines_of_ports() {
        assert_eq!(twin_state("lan0 02-00-00-00-00-01 1500 up"), Some(("lan0", true)));
        assert_eq!(twin_state("eth1 02-00-00-00-00-01 1500 down"), Some(("eth1", false)));
        assert_eq!(twin_state(""), None);
    }

    #[test]
    fn elements_are_of_ports() {
        let element = |name: &str, class: &str, config: &str| json!({ "element": name, "class": class, "config": config });
        let elements = [
            element("vlan1", CLASS, "PORT 5, INTERFACES main"),
            element("out1", "ToDPDKDevice", "eth2"),
            element("x", CLASS, ""),
        ];
        assert_eq!(finders(&elements).collect::<Vec<_>>(), [("vlan1", "eth2", 5)]);
    }
}
