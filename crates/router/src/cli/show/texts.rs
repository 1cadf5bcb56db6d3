//! Tables that elements keep as text, as rows.

use crate::api::client::Client;
use serde_json::{Value, json};

/// The routes of all lookup elements.
pub fn routes(client: &Client) -> Result<Vec<Value>, String> {
    rows(client, |class| class != "ARPQuerier", route)
}

/// The neighbours that ARP has found, or Linux.
pub fn neighbours(client: &Client) -> Result<Vec<Value>, String> {
    let mut all = rows(client, |class| class == "ARPQuerier", neighbour)?;
    all.extend(rows(client, |class| class.ends_with("AdjacencyRewrite"), adjacency)?);
    Ok(all)
}

/// The lines of all `table` handlers of elements of some classes.
fn rows(
    client: &Client,
    of: fn(&str) -> bool,
    row: fn(&str, &str) -> Option<Value>,
) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for element in client.table("/handlers")? {
        let has_table = element["handlers"].as_array().is_some_and(|h| h.iter().any(is_table));
        let (Some(name), Some(class)) = (element["element"].as_str(), element["class"].as_str()) else {
            continue;
        };
        if has_table && of(class) {
            all.extend(client.read(name, "table")?.lines().filter_map(|line| row(name, line)));
        }
    }
    Ok(all)
}

fn is_table(handler: &Value) -> bool {
    handler["name"] == "table" && handler["read"] == true
}

/// `prefix gateway port`, where `-` is no gateway.
fn route(element: &str, line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let (prefix, gateway, port) = (words.next()?, words.next()?, words.next()?);
    prefix.contains('/').then_some(())?;
    let gateway = (gateway != "-").then_some(gateway);
    let port: u64 = port.parse().ok()?;
    Some(json!({ "element": element, "prefix": prefix, "gateway": gateway, "port": port }))
}

/// `address … MAC …`: the words that are neither are the state.
fn neighbour(element: &str, line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let address = words.next()?;
    let is_mac = |w: &&str| w.split([':', '-']).filter(|p| p.len() == 2).count() == 6;
    let (mac, state): (Vec<&str>, Vec<&str>) = words.partition(is_mac);
    Some(json!({ "element": element, "address": address, "mac": mac.first(), "state": state.join(" ") }))
}

/// `port gateway source destination` of a neighbour; the adjacency of something else is none.
fn adjacency(element: &str, line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [port, address, _, mac] = words[..] else { return None };
    (address != "-").then(|| {
        let state = format!("port {port}");
        json!({ "element": element, "address": address, "mac": mac, "state": state })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tables() {
        assert_eq!(
            route("rt", "10.0.0.0/8         10.0.0.1        2"),
            Some(json!({ "element": "rt", "prefix": "10.0.0.0/8", "gateway": "10.0.0.1", "port": 2 }))
        );
        assert_eq!(
            route("rt", "0.0.0.0/0 - 0"),
            Some(json!({ "element": "rt", "prefix": "0.0.0.0/0", "gateway": null, "port": 0 }))
        );
        assert_eq!(route("rt", "entries 5 x"), None);
        let one =
            json!({ "element": "a", "address": "10.0.0.2", "mac": "02-00-00-00-00-02", "state": "port 1" });
        assert_eq!(adjacency("a", "1 10.0.0.2 02-00-00-00-00-01 02-00-00-00-00-02"), Some(one));
        assert_eq!(adjacency("a", "2 - 00-00-00-00-00-00 00-00-00-00-00-00"), None);
        assert_eq!(
            neighbour("arp", "10.0.0.2 1 00:11:22:33:44:55 12.5"),
            Some(
                json!({ "element": "arp", "address": "10.0.0.2", "mac": "00:11:22:33:44:55", "state": "1 12.5" })
            )
        );
        assert_eq!(
            neighbour("arp", "10.0.0.3 waiting"),
            Some(json!({ "element": "arp", "address": "10.0.0.3", "mac": null, "state": "waiting" }))
        );
    }
}
