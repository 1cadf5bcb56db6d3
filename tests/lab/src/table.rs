//! Routing tables as text, and the plainest right longest-prefix match.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use crate::rng::Rng;
use crate::{Context, Error, Result};

/// An IPv4 prefix. Bits behind its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    bits: u32,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` (at most 32) that covers `address`.
    pub fn covering(address: Ipv4Addr, length: u8) -> Prefix {
        let length = length.min(32);
        Prefix { bits: u32::from(address) & mask(length), length }
    }

    /// Its first address.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.bits)
    }

    /// How many bits count.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it covers `address`.
    pub fn covers(self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.length) == self.bits
    }

    /// An address in it, all equally likely.
    pub fn any(self, rng: &mut Rng) -> Ipv4Addr {
        Ipv4Addr::from(self.bits | (rng.bits() as u32 & !mask(self.length)))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.length)
    }
}

impl FromStr for Prefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Prefix> {
        let (address, length) =
            text.split_once('/').ok_or_else(|| Error::new(format!("{text:?} has no prefix length")))?;
        let address: Ipv4Addr = address.parse().cannot(|| format!("read {text:?} as a prefix"))?;
        let length: u8 = length.parse().cannot(|| format!("read {text:?} as a prefix"))?;
        if length > 32 {
            return Err(Error::new(format!("{text:?}: a prefix length is at most 32")));
        }
        Ok(Prefix::covering(address, length))
    }
}

/// Where a prefix leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which addresses.
    pub prefix: Prefix,
    /// To whom; `None` for a subnet of the router's own.
    pub gateway: Option<Ipv4Addr>,
    /// By which port, counted from 0.
    pub port: usize,
}

/// A routing table with lookup by trying all lengths: slow, small, right.
#[derive(Debug, Default)]
pub struct RouteTable {
    routes: Vec<Route>,
    by_length: Vec<HashMap<u32, usize>>,
}

impl RouteTable {
    /// A table of `routes`; of two for the same prefix the later one counts.
    pub fn new(routes: Vec<Route>) -> RouteTable {
        let mut by_length = vec![HashMap::new(); 33];
        for (index, route) in routes.iter().enumerate() {
            by_length[usize::from(route.prefix.length)].insert(route.prefix.bits, index);
        }
        RouteTable { routes, by_length }
    }

    /// Reads a route file: `prefix [gateway] port` a line, `#` starts a comment.
    pub fn read(path: &Path) -> Result<RouteTable> {
        let text = fs::read_to_string(path).cannot(|| format!("read {}", path.display()))?;
        RouteTable::parse(&text).cannot(|| format!("read {}", path.display()))
    }

    /// Reads the text of a route file.
    pub fn parse(text: &str) -> Result<RouteTable> {
        let mut routes = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                routes.push(route(line).cannot(|| format!("read line {number}"))?);
            }
        }
        Ok(RouteTable::new(routes))
    }

    /// All routes, as they were given.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The route with the longest prefix that covers `address`.
    pub fn lookup(&self, address: Ipv4Addr) -> Option<&Route> {
        let lengths = self.by_length.iter().enumerate().rev();
        let mut found =
            lengths.filter_map(|(length, map)| map.get(&(u32::from(address) & mask(length as u8))));
        found.next().and_then(|&index| self.routes.get(index))
    }

    /// An ordinary unicast address to which no route leads.
    pub fn hole(&self, rng: &mut Rng) -> Result<Ipv4Addr> {
        for _ in 0..1_000_000 {
            let address = Ipv4Addr::from(rng.bits() as u32);
            if ordinary(address) && self.lookup(address).is_none() {
                return Ok(address);
            }
        }
        Err(Error::new("the routing table has no hole"))
    }

    /// The text of a route file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Route { prefix, gateway, port } in &self.routes {
            match gateway {
                Some(gateway) => text.push_str(&format!("{prefix} {gateway} {port}\n")),
                None => text.push_str(&format!("{prefix} {port}\n")),
            }
        }
        text
    }
}

fn route(line: &str) -> Result<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (prefix, gateway, port) = match fields[..] {
        [prefix, port] | [prefix, "-", port] => (prefix, None, port),
        [prefix, gateway, port] => (prefix, Some(gateway), port),
        _ => return Err(Error::new(format!("{line:?} is not `prefix [gateway] port`"))),
    };
    let gateway = match gateway {
        Some(text) => Some(text.parse().cannot(|| format!("read {text:?} as an address"))?),
        None => None,
    };
    let port = port.parse().cannot(|| format!("read {port:?} as a port"))?;
    Ok(Route { prefix: prefix.parse()?, gateway, port })
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// Whether `address` is one that a host anywhere in the Internet could have (RFC 6890).
pub fn ordinary(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    !matches!((a, b), (0 | 10 | 127 | 224.., _) | (100, 64..=127) | (169, 254) | (172, 16..=31) | (192, 168))
}

/// `count` random routes to ordinary addresses by way of `next_hops`; 198.18.0.0/15 stays a hole.
pub fn synthetic(count: usize, seed: u64, next_hops: &[(Ipv4Addr, usize)]) -> Vec<Route> {
    let hole = Prefix::covering(Ipv4Addr::new(198, 18, 0, 0), 15);
    let mut rng = Rng::new(seed);
    let mut routes = Vec::with_capacity(count);
    let mut used = HashMap::new();
    while routes.len() < count {
        // Three of five are /24, as in the real table.
        let length = if rng.chance(60) { 24 } else { rng.within(9..=30) as u8 };
        let prefix = Prefix::covering(Ipv4Addr::from(rng.bits() as u32), length);
        let clear = ordinary(prefix.first()) && !hole.covers(prefix.first()) && !prefix.covers(hole.first());
        if clear && used.insert(prefix, ()).is_none() {
            let (gateway, port) = rng.pick(next_hops);
            routes.push(Route { prefix, gateway: Some(gateway), port });
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let table =
            RouteTable::parse("10.0.0.0/8 1\n# x\n10.1.0.0/16 10.9.9.9 2 # y\r\n10.1.2.3/32 0\n").unwrap();
        let port = |text: &str| table.lookup(text.parse().unwrap()).map(|route| route.port);
        assert_eq!(port("10.2.0.1"), Some(1));
        assert_eq!(port("10.1.2.4"), Some(2));
        assert_eq!(port("10.1.2.3"), Some(0));
        assert_eq!(port("11.0.0.1"), None);
        assert_eq!(RouteTable::parse("0.0.0.0/0 1").unwrap().lookup(Ipv4Addr::LOCALHOST).unwrap().port, 1);
        assert_eq!(RouteTable::parse(&table.text()).unwrap().routes(), table.routes());
    }

    #[test]
    fn lookup_agrees_with_a_scan_over_all_routes() {
        let mut rng = Rng::new(3);
        let hops = [(Ipv4Addr::new(10, 0, 2, 2), 1), (Ipv4Addr::new(10, 0, 3, 2), 2)];
        let table = RouteTable::new(synthetic(2000, 5, &hops));
        for _ in 0..2000 {
            let address = if rng.chance(50) {
                table.routes()[rng.index(2000)].prefix.any(&mut rng)
            } else {
                Ipv4Addr::from(rng.bits() as u32)
            };
            let covering = table.routes().iter().filter(|route| route.prefix.covers(address));
            assert_eq!(table.lookup(address), covering.max_by_key(|route| route.prefix.length()));
        }
    }

    #[test]
    fn bad_lines_are_named() {
        for text in ["10.0.0.0 1", "10.0.0.0/33 1", "10.0.0.0/8", "10.0.0.0/8 1.2.3 4", "a/8 1"] {
            let error = RouteTable::parse(&format!("\n{text}\n")).unwrap_err();
            assert!(error.to_string().starts_with("cannot read line 2: "), "{error}");
        }
    }
}
