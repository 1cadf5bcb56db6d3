//! From the text to values, each with its place where the later checks need that.

use super::words::{Named, duration, mac, rate, topology};
use super::{Address, Cluster, Line, LinkType, Order, Policy, check, class, etcd};
use crate::cli::{MOST_WORKERS, processors};
use crate::linux::{Lookup, ReversePath};
use crate::toml_file::{Reader, Value};
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeTable;

const TABLES: [&str; 4] = ["cluster", "class", "node", "etcd"];
const CLUSTER: [&str; 18] = [
    "name",
    "control",
    "line_rate",
    "link_rate",
    "link_type",
    "order",
    "policy",
    "hello",
    "mtu",
    "max_nodes",
    "rpf",
    "redirects",
    "count_routes",
    "lookup",
    "eal",
    "listen",
    "authority",
    "topology",
];
const NODE: [&str; 11] = [
    "name",
    "number",
    "ports",
    "links",
    "workers",
    "cpus",
    "buffers",
    "certificate",
    "key",
    "listen",
    "candidate",
];
/// Buffers of a node besides those in rings: enough for what is under way, and as many as could be needed.
const BUFFERS: RangeInclusive<u32> = 1024..=1 << 22;
const PORT: [&str; 4] = ["name", "device", "mac", "address"];
const LINK: [&str; 3] = ["to", "device", "rate"];

/// All settings there are, by table.
#[cfg(test)]
pub const SETTINGS: [&[&str]; 7] =
    [&CLUSTER, &Lookup::FAMILIES, &class::CLASS, &NODE, &PORT, &LINK, &etcd::ETCD];

/// A word and where it stands.
pub struct Word {
    /// The word.
    pub text: String,
    /// Its place.
    pub at: Range<usize>,
}

/// A node before names are looked up.
pub struct NodeText {
    /// Where it begins.
    pub at: Range<usize>,
    pub name: Option<Word>,
    /// Its number, if the text says it, and where.
    pub number: Option<(usize, Range<usize>)>,
    /// Ports, if the text says anything about them.
    pub ports: Option<Vec<PortText>>,
    /// Links, if the text says anything about them.
    pub links: Option<Vec<LinkText>>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub listen: Option<SocketAddr>,
    /// Whether it can be elected, if the text says it, and where.
    pub candidate: Option<(bool, Range<usize>)>,
    pub workers: Option<u16>,
    pub cpus: Vec<usize>,
    pub buffers: Option<u32>,
}

/// A port, and where its names stand.
pub struct PortText {
    pub line: Line,
    pub name: Option<Range<usize>>,
    pub device: Option<Range<usize>>,
}

/// A link before its node is looked up.
pub struct LinkText {
    pub at: Range<usize>,
    pub to: Option<Word>,
    pub device: Option<Word>,
    /// Bits per second, and where it stands.
    pub rate: Option<(u64, Range<usize>)>,
}

/// Reads the whole file.
pub fn cluster(reader: &mut Reader, table: &DeTable<'_>) -> Cluster {
    let mut cluster = Cluster { hello: Duration::from_millis(10), mtu: 1500, ..Cluster::default() };
    let mut control = None;
    let mut nodes = Vec::new();
    let mut has_cluster = false;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "cluster" => {
                has_cluster = true;
                control = general(reader, value, &mut cluster);
            }
            "node" => {
                let all = reader.array("node", "an array of tables: [[node]]", value);
                nodes = all.iter().filter_map(|value| node(reader, value)).collect();
            }
            "class" => cluster.classes = class::read(reader, value),
            "etcd" => cluster.etcd = etcd::read(reader, value),
            name => reader.unknown(key.span(), name, "table", TABLES),
        }
    }
    if !has_cluster {
        reader.mistake(0..0, "there is no table [cluster]");
    }
    check::nodes(reader, &mut cluster, nodes, control);
    cluster
}

/// The table `[cluster]`; returns the name of the control node.
fn general(reader: &mut Reader, value: &Value<'_>, cluster: &mut Cluster) -> Option<Word> {
    let mut control = None;
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("cluster", "a table", value);
        return None;
    };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => cluster.name = reader.word("name", value, check::name).unwrap_or_default(),
            "control" => control = word(reader, "control", value),
            "line_rate" => cluster.line_rate = reader.word("line_rate", value, rate).unwrap_or(0),
            "link_rate" => cluster.link_rate = reader.word("link_rate", value, rate).unwrap_or(0),
            "link_type" => cluster.link_type = named::<LinkType>(reader, "link_type", value),
            "order" => cluster.order = named::<Order>(reader, "order", value),
            "policy" => cluster.policy = named::<Policy>(reader, "policy", value),
            "hello" => cluster.hello = reader.word("hello", value, hello).unwrap_or_default(),
            "mtu" => cluster.mtu = reader.number("mtu", value, 576..=9000).unwrap_or(0),
            "max_nodes" => {
                let number = reader.number("max_nodes", value, 2..=check::MOST_NODES as u32);
                cluster.max_nodes = number.map_or(0, |number| number as usize);
            }
            "rpf" => {
                let mode = reader.word("rpf", value, ReversePath::of_word);
                cluster.extras.sources = mode.filter(|mode| *mode != ReversePath::Off);
            }
            "redirects" => cluster.extras.redirects = reader.flag("redirects", value),
            "count_routes" => cluster.extras.counts = reader.flag("count_routes", value),
            "lookup" => cluster.extras.lookup = Lookup::read(reader, value),
            "eal" => cluster.eal = reader.words("eal", value).into_iter().map(|(word, _)| word).collect(),
            "listen" => cluster.listen = reader.word("listen", value, listen),
            "authority" => cluster.authority = file(reader, "authority", value),
            "topology" => cluster.fly = reader.word("topology", value, topology).flatten(),
            name => reader.unknown(key.span(), name, "setting of a cluster", CLUSTER),
        }
    }
    if cluster.fly.is_some() {
        // Its nodes are as many as they are, and there is no choice of ways that could differ.
        for (key, value) in
            table.iter().filter(|(key, _)| ["max_nodes", "policy"].contains(&&**key.get_ref()))
        {
            let message = format!("`{}` is for a full mesh, not for a fly", key.get_ref());
            reader.mistake(key.span().start..value.span().end, message);
        }
    }
    let lacks = ["name", "control", "line_rate"].into_iter().filter(|name| !table.contains_key(*name));
    for name in lacks {
        reader.mistake(value.span(), format!("[cluster] lacks `{name}`"));
    }
    control
}

fn node(reader: &mut Reader, value: &Value<'_>) -> Option<NodeText> {
    let table = table(reader, "node", value)?;
    let at = value.span();
    let mut node = NodeText {
        at: at.clone(),
        name: None,
        number: None,
        ports: None,
        links: None,
        certificate: None,
        key: None,
        listen: None,
        candidate: None,
        workers: None,
        cpus: Vec::new(),
        buffers: None,
    };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => {
                let text = reader.word("name", value, check::name);
                node.name = text.map(|text| Word { text, at: value.span() });
            }
            "number" => {
                let number = reader.number("number", value, 0..=check::MOST_NODES as u32 - 1);
                node.number = number.map(|number| (number as usize, value.span()));
            }
            "ports" => {
                let all = reader.array("ports", "an array of tables", value);
                node.ports = Some(all.iter().filter_map(|value| port(reader, value)).collect());
            }
            "links" => {
                let all = reader.array("links", "an array of tables", value);
                node.links = Some(all.iter().filter_map(|value| link(reader, value)).collect());
            }
            "workers" => {
                let number = reader.number("workers", value, 1..=MOST_WORKERS.into());
                node.workers = number.and_then(|number| number.try_into().ok());
            }
            "cpus" => node.cpus = reader.word("cpus", value, processors).map_or(Vec::new(), |list| list.0),
            "buffers" => node.buffers = reader.number("buffers", value, BUFFERS),
            "certificate" => node.certificate = file(reader, "certificate", value),
            "key" => node.key = file(reader, "key", value),
            "listen" => node.listen = reader.word("listen", value, listen),
            "candidate" => match value.get_ref().as_bool() {
                Some(is) => node.candidate = Some((is, value.span())),
                None => reader.wrong_type("candidate", "true or false", value),
            },
            name => reader.unknown(key.span(), name, "setting of a node", NODE),
        }
    }
    for [one, other] in [["certificate", "key"], ["key", "certificate"]] {
        if table.contains_key(one) && !table.contains_key(other) {
            reader.mistake(at.clone(), format!("this node has a `{one}`, and lacks the `{other}` for it"));
        }
    }
    if !table.contains_key("name") {
        reader.mistake(at, "this node lacks `name`");
    }
    Some(node)
}

fn port(reader: &mut Reader, value: &Value<'_>) -> Option<PortText> {
    let table = table(reader, "a port", value)?;
    let mut port = PortText { line: Line::default(), name: None, device: None };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => {
                port.name = interface(reader, "name", value).map(|word| {
                    port.line.name = word.text;
                    word.at
                });
            }
            "device" => {
                port.device = interface(reader, "device", value).map(|word| {
                    port.line.device = word.text;
                    word.at
                });
            }
            "mac" => port.line.mac = reader.word("mac", value, mac),
            "address" => port.line.addresses = addresses(reader, value),
            name => reader.unknown(key.span(), name, "setting of a port", PORT),
        }
    }
    for name in ["name", "device"].into_iter().filter(|name| !table.contains_key(*name)) {
        reader.mistake(value.span(), format!("this port lacks `{name}`"));
    }
    Some(port)
}

fn link(reader: &mut Reader, value: &Value<'_>) -> Option<LinkText> {
    let table = table(reader, "a link", value)?;
    let mut link = LinkText { at: value.span(), to: None, device: None, rate: None };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "to" => link.to = word(reader, "to", value),
            "device" => link.device = interface(reader, "device", value),
            "rate" => link.rate = reader.word("rate", value, rate).map(|rate| (rate, value.span())),
            name => reader.unknown(key.span(), name, "setting of a link", LINK),
        }
    }
    if !table.contains_key("to") {
        reader.mistake(value.span(), "this link lacks `to`");
    }
    if !["device", "rate"].into_iter().any(|name| table.contains_key(name)) {
        reader.mistake(value.span(), "this link lacks `device` or `rate`");
    }
    Some(link)
}

pub(super) fn table<'a, 'b>(
    reader: &mut Reader,
    name: &str,
    value: &'b Value<'a>,
) -> Option<&'b DeTable<'a>> {
    let table = value.get_ref().as_table();
    if table.is_none() {
        reader.wrong_type(name, "a table", value);
    }
    table
}

fn word(reader: &mut Reader, name: &str, value: &Value<'_>) -> Option<Word> {
    let text = reader.word(name, value, |text| Ok(text.to_owned()))?;
    Some(Word { text, at: value.span() })
}

/// The name of an interface of Linux.
fn interface(reader: &mut Reader, name: &str, value: &Value<'_>) -> Option<Word> {
    let word = word(reader, name, value)?;
    if cluster_pci(&word.text) {
        reader.mistake(
            word.at.clone(),
            format!("`{}` is a PCI device; ports of a cluster are interfaces of Linux", word.text),
        );
    } else {
        reader.interface(&word.text, word.at.clone());
    }
    Some(word)
}

/// `0000:3b:00.0`.
fn cluster_pci(text: &str) -> bool {
    let pattern = "xxxx:xx:xx.x";
    let matches = |(c, p): (char, char)| if p == 'x' { c.is_ascii_hexdigit() } else { c == p };
    text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(matches)
}

/// Where a node hands out its tables.
fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an address and a port such as 192.0.2.1:7400".to_owned())
}

pub(super) fn file(reader: &mut Reader, name: &str, value: &Value<'_>) -> Option<PathBuf> {
    let read =
        |text: &str| if text.is_empty() { Err("the name of a file".to_owned()) } else { Ok(text.into()) };
    reader.word(name, value, read)
}

fn addresses(reader: &mut Reader, value: &Value<'_>) -> Vec<Address> {
    let mut all = Vec::new();
    for (text, at) in reader.words("address", value) {
        match text.parse() {
            Ok(address) => all.push(address),
            Err(must) => reader.mistake(at, format!("`address` is a list, each {must}")),
        }
    }
    all
}

fn hello(text: &str) -> Result<Duration, String> {
    const RANGE: RangeInclusive<u64> = 1_000_000..=1_000_000_000;
    let nanos = duration(text).filter(|nanos| RANGE.contains(nanos));
    nanos.map(Duration::from_nanos).ok_or_else(|| "a time from 1ms to 1s, such as 5ms".to_owned())
}

/// A value of few; what is none of them gets a suggestion.
pub(super) fn named<T: Named + Default>(reader: &mut Reader, name: &str, value: &Value<'_>) -> T {
    let Some(word) = word(reader, name, value) else { return T::default() };
    let found = T::ALL.iter().find(|(name, _)| *name == word.text);
    if found.is_none() {
        reader.unknown(word.at, &word.text, name, T::ALL.iter().map(|(name, _)| *name));
    }
    found.map_or(T::default(), |(_, value)| *value)
}
