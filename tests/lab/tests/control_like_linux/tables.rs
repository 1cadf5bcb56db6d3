//! What both kernels have, and what our tables show of it.

use std::collections::{BTreeMap, BTreeSet};

use lab::twins::Stage;
use lab::{Error, Result};
use serde_json::Value;

use crate::labs::{Labs, shown};

/// Compares them.
///
/// # Errors
/// What differs.
pub fn compare(labs: &Labs<'_>, stage: &Stage) -> Result<()> {
    for family in ["-4", "-6"] {
        for words in [&["route", "show", "table", "all"][..], &["rule", "show"], &["nexthop", "show"]] {
            let words = [&[family], words].concat();
            let [theirs, ours] = [0, 1].map(|i| shown(labs.both[i].router, &words).map(|all| lines(&all)));
            let (theirs, ours) = (theirs?, ours?);
            let differ: Vec<_> = theirs.symmetric_difference(&ours).collect();
            if !differ.is_empty() {
                return Err(Error::new(format!("the kernels differ in {words:?}: {differ:#?}")));
            }
        }
    }
    for (family, element) in [("-4", "rt0"), ("-6", "rt6_0")] {
        let found = differences(labs, stage, family, element)?;
        if !found.is_empty() {
            return Err(Error::new(format!("our tables are not the kernel's: {found:#?}")));
        }
    }
    Ok(())
}

/// Routes that the kernel has and our table has not, or the other way round. What stands for several routes, or for what is
/// decided by more than the destination, is judged by packets alone.
fn differences(labs: &Labs<'_>, stage: &Stage, family: &str, element: &str) -> Result<Vec<String>> {
    let kernel = labs.both[1].router;
    let rules = shown(kernel, &[family, "rule", "show"])?;
    let is_own = |rule: &Value| [0, 32_766, 32_767].map(Value::from).contains(&rule["priority"]);
    if !rules.as_array().is_some_and(|rules| rules.iter().all(is_own)) {
        return Ok(Vec::new());
    }
    let mut routes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for table in ["local", "main"] {
        for route in
            shown(kernel, &[family, "route", "show", "table", table])?.as_array().into_iter().flatten()
        {
            routes
                .entry(prefix(family, route["dst"].as_str().unwrap_or_default()))
                .or_default()
                .push(route.clone());
        }
    }
    let rows = stage.router.rows("routes")?;
    let ours: BTreeMap<&str, &Value> = rows
        .iter()
        .filter(|row| row["element"] == element)
        .filter_map(|row| Some((row["prefix"].as_str()?, row)))
        .collect();
    let mut found = Vec::new();
    for (prefix, of_prefix) in &routes {
        let is_plain = |route: &Value| {
            !["nhid", "nexthops", "expires", "tos", "from"].iter().any(|key| !route[key].is_null())
        };
        let wanted = match (&of_prefix[..], ours.get(prefix.as_str())) {
            ([route], row) if is_plain(route) => expected(route, row.copied()),
            (_, Some(_)) => continue,
            // Of several none may be in use: their interfaces are down, or they have ended.
            (several, None) => several.iter().all(|route| !is_plain(route)) || several.len() > 1,
        };
        if !wanted {
            found.push(format!("{of_prefix:?}, ours {:?}", ours.get(prefix.as_str())));
        }
    }
    for (prefix, row) in ours.iter().filter(|(prefix, _)| !routes.contains_key(**prefix)) {
        let is_neighbour = row["gateway"].as_str().is_some_and(|ip| prefix.split('/').next() == Some(ip));
        let base = ["0.0.0.0/0", "224.0.0.0/4", "255.255.255.255/32", "::/0", "fe80::/10", "ff00::/8"];
        if !is_neighbour && !base.contains(prefix) {
            found.push(format!("no route of the kernel: {row}"));
        }
    }
    Ok(found)
}

/// True if our row says what the only route of its prefix does.
fn expected(route: &Value, row: Option<&Value>) -> bool {
    let port = row.and_then(|row| row["port"].as_u64());
    let is_linux_s = port == Some(u32::MAX.into());
    match route["type"].as_str() {
        Some("blackhole") => port == Some(u64::from(u32::MAX - 1)),
        Some("multicast" | "anycast") => true,
        Some(_) => is_linux_s,
        None if route["dst"].as_str().is_some_and(|prefix| prefix.starts_with("fe80:")) => true,
        None => {
            let gateway =
                [&route["gateway"], &route["via"]["host"]].into_iter().find(|value| !value.is_null());
            row.is_some_and(|row| {
                row["gateway"] == *gateway.unwrap_or(&Value::Null) && row["interface"] == route["dev"]
            })
        }
    }
}

/// The prefix as our tables write it.
fn prefix(family: &str, text: &str) -> String {
    let (all, host) = if family == "-4" { ("0.0.0.0/0", 32) } else { ("::/0", 128) };
    match text {
        "default" => all.to_owned(),
        text if text.contains('/') => text.to_owned(),
        text => format!("{text}/{host}"),
    }
}

/// One line for each entry, without what is the kernel's own business: times, and the state of a link that it tells later.
fn lines(all: &Value) -> BTreeSet<String> {
    let entries = all.as_array().map_or(&[][..], Vec::as_slice);
    // Shown for up to half a minute after their end.
    let stays = |entry: &&Value| entry.get("expires").is_none() && entry["dst"] != "multicast";
    entries.iter().filter(stays).map(line).collect()
}

fn line(entry: &Value) -> String {
    let left_out = ["flags", "expires", "nexthops", "cache"];
    let fields: BTreeMap<&String, String> = entry
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !left_out.contains(&name.as_str()))
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    let hops = entry["nexthops"].as_array().map_or(&[][..], Vec::as_slice);
    format!("{fields:?} {:?}", hops.iter().map(line).collect::<Vec<_>>())
}
