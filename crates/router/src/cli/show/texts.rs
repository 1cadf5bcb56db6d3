//! Tables that elements keep as text, as rows.

use super::interfaces::{interfaces, names};
use crate::api::client::Client;
use fib::NextHop;
use lang::args::{keyword, split};
use lang::{Span, Text};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The routes of all lookup elements, those of a table that several share once, under the first of them; of one VRF if it
/// is named.
pub fn routes(client: &Client, vrf: Option<&str>) -> Result<Vec<Value>, String> {
    let first = first_of_tables(&client.table("/api/elements")?);
    let is_lookup = |class: &str| class != "ARPQuerier" && class != PUNT_LIMITER;
    let of = |with_tags: bool, handler: &'static str| {
        let first = &first;
        move |name: &str, class: &str| {
            let is_one = is_lookup(class) && first.contains(name) && is_of_vlans(name) == with_tags;
            is_one.then_some(handler)
        }
    };
    let mut all = rows(client, of(false, "table"), route)?;
    all.extend(rows(client, of(true, "vrfs"), route_of_vrf)?);
    add_counts(client, &first, &mut all)?;
    let names = names(client)?;
    for row in &mut all {
        if let Some(name) = row["port"].as_u64().and_then(|number| names.get(&number)) {
            row["interface"] = json!(name);
        }
    }
    if let Some(vrf) = vrf {
        has_vrf(all.iter().chain(&interfaces(client)?), vrf)?;
        let wanted = if vrf == MAIN { Value::Null } else { json!(vrf) };
        all.retain(|row| row["vrf"] == wanted);
    }
    Ok(all)
}

/// The elements, without those that have the table of one before them: by the argument `TABLE`, each family for itself.
/// Elements of packets with tags show another part of it.
fn first_of_tables(elements: &[Value]) -> HashSet<String> {
    let mut seen = HashSet::new();
    let is_first = |element: &&Value| {
        let [name, class, config] =
            ["element", "class", "config"].map(|key| element[key].as_str().unwrap_or(""));
        let arguments = split(&Text::verbatim(config, Span::default()));
        let mut keywords = arguments.iter().filter_map(|argument| keyword(&argument.text));
        let table = keywords.find(|(word, _)| *word == "TABLE");
        let is_six = class.contains('6');
        table.is_none_or(|(_, table)| seen.insert((is_six, is_of_vlans(name), table.to_owned())))
    };
    elements
        .iter()
        .filter(is_first)
        .filter_map(|element| Some(element["element"].as_str()?.to_owned()))
        .collect()
}

/// What is outside all VRFs.
const MAIN: &str = "main";

/// An error unless a route or an interface is in this VRF. One without interfaces of the router is not known to it.
fn has_vrf<'a>(rows: impl Iterator<Item = &'a Value>, name: &str) -> Result<(), String> {
    let vrfs: BTreeSet<&str> = rows.filter_map(|row| row["vrf"].as_str()).collect();
    if name == MAIN || vrfs.contains(name) {
        return Ok(());
    }
    let there = match vrfs.len() {
        0 => format!("there is only {MAIN}"),
        _ => format!("there are {} and {MAIN}", vrfs.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("no interface of the router is in a VRF `{name}`: {there}"))
}

/// Adds what was counted for each route, if anything is.
fn add_counts(client: &Client, first: &HashSet<String>, routes: &mut [Value]) -> Result<(), String> {
    let of = |with_tags: bool, handler: &'static str| {
        move |name: &str, _: &str| (first.contains(name) && is_of_vlans(name) == with_tags).then_some(handler)
    };
    let mut all = rows(client, of(false, "counts"), count)?;
    all.extend(rows(client, of(true, "vrf_counts"), count_of_vrf)?);
    let key = |row: &Value| {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        (text("element"), row["table"].as_u64(), text("prefix"))
    };
    let counts: HashMap<_, Value> = all.into_iter().map(|row| (key(&row), row)).collect();
    for route in routes {
        if let Some(count) = counts.get(&key(route)) {
            (route["packets"], route["bytes"]) = (count["packets"].clone(), count["bytes"].clone());
        }
    }
    Ok(())
}

/// True of elements that look up packets of VLANs: in the same routes as others, or in those of VRFs.
fn is_of_vlans(element: &str) -> bool {
    element.starts_with("vrt")
}

const PUNT_LIMITER: &str = "PuntLimiter";

/// What Linux gets; the port is known in a router of Linux's routes.
pub fn punt(client: &Client) -> Result<Vec<Value>, String> {
    let mut all = rows(client, |_, class| (class == PUNT_LIMITER).then_some("table"), limit)?;
    let elements = client.table("/api/elements")?;
    for row in &mut all {
        let number = row["element"].as_str().and_then(|name| name.strip_prefix("punt"));
        let port = number.and_then(|number| {
            let out = format!("out{number}");
            elements.iter().find(|e| e["element"] == out && e["class"] == "ToDPDKDevice")
        });
        row["port"] = port.map_or(Value::Null, |port| port["config"].clone());
    }
    Ok(all)
}

/// The neighbours that ARP has found, or Linux.
pub fn neighbours(client: &Client) -> Result<Vec<Value>, String> {
    let mut all = rows(client, |_, class| (class == "ARPQuerier").then_some("table"), neighbour)?;
    let is_rewrite = |_: &str, class: &str| class.ends_with("AdjacencyRewrite").then_some("table");
    let mut adjacencies = rows(client, is_rewrite, adjacency)?;
    let names = names(client)?;
    for row in &mut adjacencies {
        let number = row["state"].as_str().and_then(|state| state.strip_prefix("port ")?.parse().ok());
        if let Some(name) = number.and_then(|number: u64| names.get(&number)) {
            row["interface"] = json!(name);
        }
    }
    all.extend(adjacencies);
    Ok(all)
}

/// The lines of a handler of each element: `handler` names it, by the element's name and class, where there is one to read.
fn rows(
    client: &Client,
    handler: impl Fn(&str, &str) -> Option<&'static str>,
    row: fn(&str, &str) -> Option<Value>,
) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for element in client.table("/handlers")? {
        let (Some(name), Some(class)) = (element["element"].as_str(), element["class"].as_str()) else {
            continue;
        };
        let Some(handler) = handler(name, class) else { continue };
        let is_it = |one: &Value| one["name"] == handler && one["read"] == true;
        if element["handlers"].as_array().is_some_and(|handlers| handlers.iter().any(is_it)) {
            all.extend(client.read(name, handler)?.lines().filter_map(|line| row(name, line)));
        }
    }
    Ok(all)
}

/// `prefix gateway port`, where `-` is no gateway.
fn route(element: &str, line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let (prefix, gateway, port) = (words.next()?, words.next()?, words.next()?);
    prefix.contains('/').then_some(())?;
    let gateway = (gateway != "-").then_some(gateway);
    let hop = NextHop { gateway: None, port: port.parse().ok()? };
    let mut row =
        json!({ "element": element, "prefix": prefix, "gateway": gateway, "port": hop.widened().port });
    if let Some(mtu) = hop.mtu() {
        row["mtu_bytes"] = json!(mtu);
    }
    Some(row)
}

/// `VRF table`, and a route.
fn route_of_vrf(element: &str, line: &str) -> Option<Value> {
    of_vrf(element, line, route)
}

/// `prefix packets bytes`.
fn count(element: &str, line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let (prefix, packets, bytes) = (words.next()?, words.next()?, words.next()?);
    let [packets, bytes] = [packets, bytes].map(|word| word.parse::<u64>().ok());
    Some(json!({ "element": element, "prefix": prefix, "packets": packets?, "bytes": bytes? }))
}

/// `VRF table`, and a count.
fn count_of_vrf(element: &str, line: &str) -> Option<Value> {
    of_vrf(element, line, count)
}

/// `VRF table`, and what `rest` reads.
fn of_vrf(element: &str, line: &str, rest: fn(&str, &str) -> Option<Value>) -> Option<Value> {
    let (vrf, after) = line.split_once(' ')?;
    let (table, after) = after.split_once(' ')?;
    let mut row = rest(element, after)?;
    row["vrf"] = json!(vrf);
    row["table"] = json!(table.parse::<u64>().ok()?);
    Some(row)
}

/// `address … MAC …`: the words that are neither are the state.
fn neighbour(element: &str, line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let address = words.next()?;
    let is_mac = |w: &&str| w.split([':', '-']).filter(|p| p.len() == 2).count() == 6;
    let (mac, state): (Vec<&str>, Vec<&str>) = words.partition(is_mac);
    Some(json!({ "element": element, "address": address, "mac": mac.first(), "state": state.join(" ") }))
}

/// `kind passed lost limit`, where 0 is no limit.
fn limit(element: &str, line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [kind, passed, lost, limit] = words[..] else { return None };
    let [passed, lost, limit] = [passed, lost, limit].map(|word| word.parse::<u64>().ok());
    Some(json!({
        "element": element,
        "kind": kind,
        "passed_packets": passed?,
        "lost_packets": lost?,
        "limit_packets_per_s": limit.filter(|limit| *limit > 0),
    }))
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
    fn vrfs_are_those_of_routes_and_interfaces() {
        let rows = [json!({ "vrf": "red" }), json!({ "vrf": null }), json!({ "vrf": "blue" })];
        assert_eq!(["main", "red", "blue"].map(|name| has_vrf(rows.iter(), name)), [Ok(()), Ok(()), Ok(())]);
        assert_eq!(has_vrf([].iter(), "main"), Ok(()));
        let error = |rows: &[Value]| has_vrf(rows.iter(), "rde").unwrap_err();
        let begin = "no interface of the router is in a VRF `rde`: ";
        assert_eq!(error(&rows), format!("{begin}there are blue, red and main"));
        assert_eq!(error(&[]), format!("{begin}there is only main"));
    }

    #[test]
    fn a_table_is_of_the_first_element_that_has_it() {
        let element = |name: &str, class: &str, config: &str| json!({ "element": name, "class": class, "config": config });
        let all = [
            element("rt0", "DirectIPLookup", "TABLE main, ONE_OUTPUT true, PORT 0"),
            element("rt6_0", "LookupIP6Route", "TABLE main, ONE_OUTPUT true"),
            element("vrt0", "DirectIPLookup", "TABLE main, INTERFACES main"),
            element("rt1", "RadixIPLookup", "10.0.0.0/8 0, TABLE main"),
            element("rt6_1", "LookupIP6Route", "TABLE main"),
            element("vrt1", "DirectIPLookup", "TABLE main"),
            element("rt2", "DirectIPLookup", "TABLE other"),
            element("own", "DirectIPLookup", "10.0.0.0/8 0"),
            element("its_own", "DirectIPLookup", "10.0.0.0/8 0"),
        ];
        let mut first: Vec<_> = first_of_tables(&all).into_iter().collect();
        first.sort();
        assert_eq!(first, ["its_own", "own", "rt0", "rt2", "rt6_0", "vrt0"]);
    }

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
        assert_eq!(
            route_of_vrf("vrt0", "red 10 ::/0     -    7"),
            Some(
                json!({ "element": "vrt0", "vrf": "red", "table": 10, "prefix": "::/0", "gateway": null, "port": 7 })
            )
        );
        assert_eq!(route_of_vrf("vrt0", "red x ::/0 - 7"), None);
        let row = |limit: Option<u64>| {
            json!({ "element": "p", "kind": "others", "passed_packets": 5, "lost_packets": 1,
                "limit_packets_per_s": limit })
        };
        assert_eq!(limit("p", "others 5 1 100"), Some(row(Some(100))));
        assert_eq!(limit("p", "others 5 1 0"), Some(row(None)));
        assert_eq!(limit("p", "others 5 x 0"), None);
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
