//! Random operations on the control plane of a router. Each is determined by the seed and its own number alone, so that any
//! of them can be left out when a run is repeated.

use std::fmt;

use lab::rng::Rng;

use crate::traffic::PORTS;

/// IPv4 prefixes of routes: nested ones, all, parts of connected networks.
pub const POOL4: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 0),
    ([10, 50, 0, 0], 16),
    ([10, 50, 0, 0], 17),
    ([10, 50, 128, 0], 17),
    ([10, 50, 7, 0], 24),
    ([10, 50, 7, 128], 25),
    ([10, 50, 7, 129], 32),
    ([10, 60, 0, 0], 16),
    ([10, 60, 1, 0], 30),
    ([10, 1, 0, 64], 26),
    ([10, 2, 0, 5], 32),
    ([10, 3, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 2, 0], 24),
    ([169, 254, 0, 0], 16),
    ([10, 102, 0, 0], 17),
];

/// The same of IPv6.
pub const POOL6: [([u16; 8], u8); 13] = [
    ([0; 8], 0),
    ([0x2001, 0xdb8, 0x50, 0, 0, 0, 0, 0], 48),
    ([0x2001, 0xdb8, 0x50, 0, 0, 0, 0, 0], 49),
    ([0x2001, 0xdb8, 0x50, 0x8000, 0, 0, 0, 0], 49),
    ([0x2001, 0xdb8, 0x50, 7, 0, 0, 0, 0], 64),
    ([0x2001, 0xdb8, 0x50, 7, 0, 0, 0, 0x81], 128),
    ([0x2001, 0xdb8, 0x60, 0, 0, 0, 0, 0], 48),
    ([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x40], 122),
    ([0x2001, 0xdb8, 2, 0, 0, 0, 0, 5], 128),
    ([0x2001, 0xdb8, 3, 0, 0, 0, 0, 0], 48),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3),
    ([0xfd00, 0, 0, 0, 0, 0, 0, 0], 8),
    ([0x2001, 0xdb8, 0x102, 0, 0, 0, 0, 0], 49),
];

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Arguments of `ip` in the router.
    Ip(String),
    /// A variable below `/proc/sys` of the router.
    Sysctl(String, String),
    /// The interface of a port is set up or down.
    Port(usize, bool),
    /// The host's end of the cable of a port is.
    Cable(usize, bool),
    /// The last octet but one of a port's Ethernet address.
    Mac(usize, u8),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Step::Ip(words) => write!(f, "ip {words}"),
            Step::Sysctl(name, value) => write!(f, "sysctl {name}={value}"),
            Step::Port(port, up) => write!(f, "ip link set eth{} {}", port + 1, state(*up)),
            Step::Cable(port, up) => write!(f, "host {}: ip link set eth0 {}", port + 1, state(*up)),
            Step::Mac(port, octet) => {
                write!(f, "ip link set eth{0} address 02:00:00:00:{octet:02x}:0{0}", port + 1)
            }
        }
    }
}

/// `up` or `down`.
pub fn state(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

/// What is done at once, and what is undone some operations later.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done.
    pub steps: Vec<Step>,
    /// After so many further operations these are done.
    pub undo: Vec<Step>,
    /// See there.
    pub after: u64,
}

impl Operation {
    fn lasting(step: Step) -> Operation {
        Operation { steps: vec![step], undo: Vec::new(), after: 0 }
    }

    fn for_a_while(rng: &mut Rng, step: Step, undo: Vec<Step>) -> Operation {
        Operation { steps: vec![step], undo, after: rng.within(1..=4).into() }
    }
}

/// Sorts of operations.
#[derive(Clone, Copy)]
enum Sort {
    Route4,
    Route6,
    NextHop,
    Rule,
    Address,
    Neighbour,
    Link,
    Sysctl,
    Flush,
}

/// The operation with this number.
pub fn operation(seed: u64, number: u64) -> Operation {
    let rng = &mut Rng::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
    // Neighbouring seeds have neighbouring first numbers.
    rng.bits();
    match rng.weighted(&[
        (Sort::Route4, 30),
        (Sort::Route6, 24),
        (Sort::NextHop, 10),
        (Sort::Rule, 6),
        (Sort::Address, 8),
        (Sort::Neighbour, 6),
        (Sort::Link, 7),
        (Sort::Sysctl, 8),
        (Sort::Flush, 1),
    ]) {
        Sort::Route4 => Operation::lasting(Step::Ip(route4(rng))),
        Sort::Route6 => Operation::lasting(Step::Ip(route6(rng))),
        Sort::NextHop => Operation::lasting(Step::Ip(next_hop(rng))),
        Sort::Rule => rule(rng, number),
        Sort::Address => address(rng),
        Sort::Neighbour => neighbour(rng),
        Sort::Link => link(rng),
        Sort::Sysctl => sysctl(rng),
        Sort::Flush => {
            let family = rng.pick(&["-4", "-6"]);
            Operation::lasting(Step::Ip(format!("{family} route flush table all proto 44")))
        }
    }
}

/// What every run begins with, and what comes back with an interface.
pub fn base(port: usize) -> Vec<Step> {
    let n = port + 1;
    [
        format!("address replace 10.{n}.0.1/24 dev eth{n}"),
        format!("address replace 2001:db8:{n}::1/64 dev eth{n} nodad"),
        format!("address replace fe80::{n}:1/64 dev eth{n} nodad"),
        format!("route replace 10.{}.0.0/16 via 10.{n}.0.2 dev eth{n}", 100 + n),
        format!("route replace 2001:db8:10{n}::/48 via 2001:db8:{n}::2 dev eth{n}"),
    ]
    .map(Step::Ip)
    .into()
}

fn interface(rng: &mut Rng) -> usize {
    rng.within(1..=PORTS as u32) as usize
}

fn prefix4(rng: &mut Rng) -> String {
    let ([a, b, c, d], length) = rng.pick(&POOL4);
    format!("{a}.{b}.{c}.{d}/{length}")
}

fn prefix6(rng: &mut Rng) -> String {
    let (first, length) = rng.pick(&POOL6);
    format!("{}/{length}", std::net::Ipv6Addr::from(first))
}

/// A gateway and its interface.
fn gateway4(rng: &mut Rng) -> String {
    let n = interface(rng);
    format!("via 10.{n}.0.{} dev eth{n}", rng.pick(&[2, 2, 3, 4, 9]))
}

fn gateway6(rng: &mut Rng) -> String {
    let n = interface(rng);
    match rng.within(1..=4) {
        1 => format!("via fe80::{n}:2 dev eth{n}"),
        _ => format!("via 2001:db8:{n}::{} dev eth{n}", rng.pick(&[2, 2, 3, 4])),
    }
}

fn several(rng: &mut Rng, gateway: fn(&mut Rng) -> String) -> String {
    let count = rng.within(2..=3);
    let hop = |_| {
        let weight = rng.pick(&[1, 1, 2, 5]);
        format!(" nexthop {} weight {weight}", gateway(rng))
    };
    (0..count).map(hop).collect()
}

fn one_of(rng: &mut Rng, choices: &[&str]) -> String {
    rng.pick(choices).to_owned()
}

fn route4(rng: &mut Rng) -> String {
    let prefix = prefix4(rng);
    let table = one_of(rng, &["", "", "", "", "", "", " table 100", " table 101"]);
    let metric = one_of(rng, &["", "", "", " metric 10", " metric 20", " metric 100"]);
    let tos = one_of(rng, &["", "", "", "", "", "", "", "", "", " tos 0x10"]);
    let verb = rng.weighted(&[
        ("add", 30),
        ("replace", 24),
        ("append", 10),
        ("prepend", 4),
        ("change", 8),
        ("del", 24),
    ]);
    if verb == "del" {
        let kind = one_of(rng, &["", "", "", "", "blackhole ", "unreachable "]);
        return format!("route del {kind}{prefix}{tos}{metric}{table}");
    }
    let kind = rng.weighted(&[
        ("", 80),
        ("blackhole", 5),
        ("unreachable", 5),
        ("prohibit", 4),
        ("throw", 4),
        ("local", 2),
    ]);
    let n = interface(rng);
    if !kind.is_empty() {
        let device = if kind == "local" { " dev lo" } else { "" };
        let table = if kind == "local" { String::new() } else { table };
        return format!("route {verb} {kind} {prefix}{tos}{device}{metric}{table} proto 44");
    }
    let way = match rng.within(1..=20) {
        1..=9 => gateway4(rng),
        10..=11 => format!("dev eth{n}"),
        12..=14 => several(rng, gateway4),
        15 => format!("via 10.77.{n}.1 dev eth{n} onlink"),
        16 => format!("via inet6 fe80::{n}:2 dev eth{n}"),
        _ => format!("nhid {}", rng.pick(&[1, 2, 3, 4, 21, 22])),
    };
    let mtu = one_of(rng, &["", "", "", "", "", " mtu 1300", " mtu lock 1000"]);
    let source = if rng.chance(8) { format!(" src 10.{n}.0.1") } else { String::new() };
    // Attributes stand before the ways of a route with several.
    match way.starts_with(" nexthop") {
        true => format!("route {verb} {prefix}{tos}{metric}{table}{source}{mtu} proto 44{way}"),
        false => format!("route {verb} {prefix}{tos} {way}{metric}{table}{source}{mtu} proto 44"),
    }
}

fn route6(rng: &mut Rng) -> String {
    let prefix = prefix6(rng);
    let table = one_of(rng, &["", "", "", "", "", "", " table 100", " table 101"]);
    let metric = one_of(rng, &["", "", "", " metric 10", " metric 20", " metric 2000"]);
    let verb = rng.weighted(&[("add", 30), ("replace", 24), ("append", 14), ("change", 8), ("del", 24)]);
    if verb == "del" {
        let kind = one_of(rng, &["", "", "", "", "blackhole ", "unreachable "]);
        return format!("-6 route del {kind}{prefix}{metric}{table}");
    }
    let kind = rng.weighted(&[("", 82), ("blackhole", 5), ("unreachable", 5), ("prohibit", 4), ("throw", 4)]);
    if !kind.is_empty() {
        return format!("-6 route {verb} {kind} {prefix}{metric}{table} proto 44");
    }
    let n = interface(rng);
    let way = match rng.within(1..=20) {
        1..=9 => gateway6(rng),
        10..=11 => format!("dev eth{n}"),
        12..=14 => several(rng, gateway6),
        15 => format!("via 2001:db8:77:{n}::1 dev eth{n} onlink"),
        _ => format!("nhid {}", rng.pick(&[11, 12, 13, 14, 31, 32])),
    };
    let mtu = one_of(rng, &["", "", "", "", "", " mtu 1300", " mtu lock 1400"]);
    let source = if rng.chance(8) { format!(" src 2001:db8:{n}::1") } else { String::new() };
    let expires = if rng.chance(4) { format!(" expires {}", rng.within(1..=4)) } else { String::new() };
    match way.starts_with(" nexthop") {
        true => format!("-6 route {verb} {prefix}{metric}{table}{source}{mtu}{expires} proto 44{way}"),
        false => format!("-6 route {verb} {prefix} {way}{metric}{table}{source}{mtu}{expires} proto 44"),
    }
}

fn next_hop(rng: &mut Rng) -> String {
    let verb = one_of(rng, &["add", "add", "replace", "replace", "replace", "del"]);
    let is_six = rng.chance(45);
    let low = if is_six { 11 } else { 1 };
    if rng.chance(30) {
        let id = if is_six { 31 } else { 21 } + rng.within(0..=1);
        if verb == "del" {
            return format!("nexthop del id {id}");
        }
        let count = rng.within(1..=3);
        let member = |_| format!("{},{}", low + rng.within(0..=3), rng.within(1..=4));
        let members: Vec<String> = (0..count).map(member).collect();
        let resilient = if rng.chance(15) { " type resilient buckets 32" } else { "" };
        return format!("nexthop {verb} id {id} group {}{resilient}", members.join("/"));
    }
    let id = low + rng.within(0..=3);
    if verb == "del" {
        return format!("nexthop del id {id}");
    }
    let n = interface(rng);
    let way = match rng.within(1..=10) {
        1 => "blackhole".to_owned(),
        2 => format!("dev eth{n}"),
        3 if !is_six => format!("via fe80::{n}:2 dev eth{n}"),
        4 if !is_six => format!("via 10.77.{n}.9 dev eth{n} onlink"),
        _ if is_six => gateway6(rng),
        _ => gateway4(rng),
    };
    let family = if is_six { "-6" } else { "-4" };
    let family = if way.contains("fe80") && !is_six { "" } else { family };
    format!("{family} nexthop {verb} id {id} {way}")
}

fn rule(rng: &mut Rng, number: u64) -> Operation {
    let is_six = rng.chance(40);
    let family = if is_six { "-6" } else { "-4" };
    let n = interface(rng);
    let prefix = if is_six { prefix6(rng) } else { prefix4(rng) };
    let source = if is_six { format!("2001:db8:10{n}::/48") } else { format!("10.{}.0.0/16", 100 + n) };
    let selector = match rng.within(1..=12) {
        1..=3 => format!("to {prefix}"),
        4 => format!("from {source}"),
        5..=6 => format!("iif eth{n}"),
        7 => "fwmark 1".to_owned(),
        8 => "tos 0x10".to_owned(),
        9 => "ipproto udp dport 53".to_owned(),
        10 => format!("not from {source}"),
        11 => format!("from {source} to {prefix} iif eth{n}"),
        _ => "from all".to_owned(),
    };
    let action = rng.weighted(&[
        ("lookup 100", 30),
        ("lookup 101", 20),
        ("lookup main", 8),
        ("lookup main suppress_prefixlength 16", 10),
        ("blackhole", 8),
        ("unreachable", 8),
        ("prohibit", 8),
        ("goto 32766", 4),
        ("lookup 199", 4),
    ]);
    let priority = 100 + number % 400;
    let add = format!("{family} rule add pref {priority} {selector} {action}");
    Operation::for_a_while(rng, Step::Ip(add), vec![Step::Ip(format!("{family} rule del pref {priority}"))])
}

fn address(rng: &mut Rng) -> Operation {
    let n = interface(rng);
    let k = rng.within(1..=5);
    let device = format!("dev eth{n}");
    if rng.chance(10) {
        let step = rng.pick(&["10.N.0.1/24", "2001:db8:N::1/64"]).replace('N', &n.to_string());
        return Operation {
            steps: vec![Step::Ip(format!("address del {step} {device}"))],
            undo: base(n - 1),
            after: rng.within(1..=2).into(),
        };
    }
    let (address, more) = match rng.within(1..=16) {
        1 => (format!("10.{n}.0.{}/24", k + 2), ""),
        2 => (format!("10.{n}.1.{k}/24"), ""),
        3 => (format!("10.{n}.1.{k}/24"), " noprefixroute"),
        4 => ("10.50.7.1/32".to_owned(), ""),
        5 => (format!("10.{n}.5.1 peer 10.{n}.5.{}/32", k + 1), ""),
        6 => (format!("10.{n}.6.1/24"), " scope link"),
        7 => (format!("10.{n}.6.1/24"), " metric 300"),
        8 => ("10.60.1.1/30".to_owned(), ""),
        9 => (format!("10.50.7.{}/24", 128 + k), ""),
        10 => (format!("2001:db8:{n}::{}/64", k + 2), " nodad"),
        11 => (format!("2001:db8:{n}:1::{k}/64"), " nodad"),
        12 => (format!("2001:db8:{n}:1::{k}/64"), " nodad noprefixroute"),
        13 => (format!("2001:db8:{n}:2::{k}/64"), " nodad preferred_lft 0"),
        14 => ("2001:db8:50:7::1/128".to_owned(), " nodad"),
        15 => (format!("2001:db8:{n}:5::1 peer 2001:db8:{n}:5::{}/128", k + 1), " nodad"),
        _ => (format!("2001:db8:50:7::{k}/64"), " nodad metric 300"),
    };
    let undo = vec![Step::Ip(format!("address del {address} {device}"))];
    Operation::for_a_while(rng, Step::Ip(format!("address add {address} {device}{more}")), undo)
}

fn neighbour(rng: &mut Rng) -> Operation {
    let n = interface(rng);
    let k = rng.pick(&[2, 3, 4, 9]);
    let address = match rng.within(1..=3) {
        1..=2 => format!("10.{n}.0.{k}"),
        _ => format!("2001:db8:{n}::{k}"),
    };
    if rng.chance(15) {
        let proxy = format!("proxy {address} dev eth{n}");
        let undo = vec![Step::Ip(format!("neighbour del {proxy}"))];
        return Operation::for_a_while(rng, Step::Ip(format!("neighbour add {proxy}")), undo);
    }
    let mac = rng.within(1..=9);
    let add = format!("neighbour replace {address} lladdr 02:b0:00:00:00:0{mac} dev eth{n} nud permanent");
    let undo = vec![Step::Ip(format!("neighbour del {address} dev eth{n}"))];
    Operation::for_a_while(rng, Step::Ip(add), undo)
}

fn link(rng: &mut Rng) -> Operation {
    let port = interface(rng) - 1;
    let n = port + 1;
    let with_base = |first: Step| [vec![first], base(port)].concat();
    match rng.within(1..=10) {
        kind @ 1..=6 => {
            let is_up = if kind <= 3 { Step::Port } else { Step::Cable };
            let (steps, undo) = (vec![is_up(port, false)], with_base(is_up(port, true)));
            Operation { steps, undo, after: rng.within(1..=2).into() }
        }
        7..=8 => {
            let mtu = rng.pick(&[1400, 1300, 1280, 1000, 576]);
            let back = Step::Ip(format!("link set eth{n} mtu 1500"));
            Operation::for_a_while(rng, Step::Ip(format!("link set eth{n} mtu {mtu}")), with_base(back))
        }
        _ => {
            let octet = rng.within(1..=9) as u8;
            Operation::for_a_while(rng, Step::Mac(port, octet), vec![Step::Mac(port, 0)])
        }
    }
}

/// A variable, what it is set to, and what it is otherwise.
const SYSCTLS: [(&str, &[&str], &str); 20] = [
    ("net/ipv4/conf/ETH/forwarding", &["0"], "1"),
    ("net/ipv4/conf/all/forwarding", &["0"], "1"),
    ("net/ipv4/conf/ETH/rp_filter", &["1", "2"], "0"),
    ("net/ipv4/conf/all/rp_filter", &["1", "2"], "0"),
    ("net/ipv4/conf/ETH/accept_source_route", &["1"], "0"),
    ("net/ipv4/conf/all/accept_source_route", &["1"], "0"),
    ("net/ipv4/conf/ETH/accept_local", &["1"], "0"),
    ("net/ipv4/conf/ETH/route_localnet", &["1"], "0"),
    ("net/ipv4/conf/ETH/ignore_routes_with_linkdown", &["1"], "0"),
    ("net/ipv4/conf/all/ignore_routes_with_linkdown", &["1"], "0"),
    ("net/ipv4/conf/ETH/bc_forwarding", &["1"], "0"),
    ("net/ipv4/conf/ETH/send_redirects", &["0"], "1"),
    ("net/ipv4/conf/ETH/proxy_arp", &["1"], "0"),
    ("net/ipv6/conf/all/forwarding", &["0"], "1"),
    ("net/ipv6/conf/ETH/forwarding", &["0"], "1"),
    ("net/ipv6/conf/ETH/force_forwarding", &["1"], "0"),
    ("net/ipv6/conf/ETH/disable_ipv6", &["1"], "0"),
    ("net/ipv6/conf/ETH/mtu", &["1300", "1280"], "1500"),
    ("net/ipv6/conf/ETH/ignore_routes_with_linkdown", &["1"], "0"),
    ("net/ipv6/conf/all/ignore_routes_with_linkdown", &["1"], "0"),
];

/// What these are before the first operation, for an interface or for all.
pub fn sysctl_defaults(name: &str) -> impl Iterator<Item = Step> {
    let of =
        |(variable, _, value): &(&str, &[&str], &str)| (variable.replace("ETH", name), (*value).to_owned());
    SYSCTLS
        .iter()
        .map(of)
        .map(|(variable, value)| Step::Sysctl(variable, value))
        .collect::<Vec<_>>()
        .into_iter()
}

fn sysctl(rng: &mut Rng) -> Operation {
    let port = interface(rng) - 1;
    let (name, values, default) = rng.pick(&SYSCTLS);
    let name = name.replace("ETH", &format!("eth{}", port + 1));
    let step = Step::Sysctl(name.clone(), rng.pick(values).to_owned());
    let mut undo = vec![Step::Sysctl(name.clone(), default.to_owned())];
    if name.contains("disable_ipv6") {
        undo.extend(base(port));
    }
    if name == "net/ipv4/conf/all/forwarding" || name == "net/ipv6/conf/all/forwarding" {
        // It has set that of all interfaces.
        undo.push(Step::Sysctl(name, default.to_owned()));
    }
    Operation::for_a_while(rng, step, undo)
}

#[test]
fn operations_are_of_all_sorts() {
    let all: Vec<String> =
        (0..5000).flat_map(|i| operation(1, i).steps).map(|step| step.to_string()).collect();
    for word in
        ["nexthop", "rule", "address", "neighbour", "down", "sysctl", "flush", "expires", "throw", "nhid"]
    {
        assert!(all.iter().any(|text| text.contains(word)), "{word}");
    }
    assert_eq!(operation(7, 99).steps, operation(7, 99).steps);
}
