//! IPv6 routes as the router under test and Linux get them.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use crate::rng::Rng;
use crate::topology::Link;

/// What becomes of packets to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a neighbour at a port.
    Via(Ipv6Addr, Link),
    /// The sender is told that there is no route.
    Unreachable,
    /// The sender is told that it may not.
    Prohibited,
    /// Nothing is said.
    BlackHole,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route6 {
    /// The first address of the prefix.
    pub first: Ipv6Addr,
    /// How many bits of it count.
    pub length: u8,
    /// Where to.
    pub way: Way,
}

impl Route6 {
    /// An address in the prefix, all equally likely.
    pub fn any(&self, rng: &mut Rng) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.first.to_bits() | random(rng) & !mask(self.length))
    }

    /// Its line in the route file of `conf/ip6-router.click`, where ports above those of the interfaces refuse.
    pub fn line(&self) -> String {
        let to = match self.way {
            Way::Via(gateway, link) => format!("{gateway} {}", link.port),
            Way::Unreachable => "4".to_owned(),
            Way::Prohibited => "5".to_owned(),
            Way::BlackHole => "6".to_owned(),
        };
        format!("{}/{} {to}\n", self.first, self.length)
    }

    /// The command for `ip` that adds it in the router's namespace.
    pub fn command(&self) -> String {
        let prefix = format!("{}/{}", self.first, self.length);
        match self.way {
            Way::Via(gateway, link) => {
                format!("route add {prefix} via {gateway} dev {}\n", link.router_interface())
            }
            Way::Unreachable => format!("route add unreachable {prefix}\n"),
            Way::Prohibited => format!("route add prohibit {prefix}\n"),
            Way::BlackHole => format!("route add blackhole {prefix}\n"),
        }
    }
}

/// The text of the route file, with the subnets of the links.
pub fn text(routes: &[Route6], links: &[Link]) -> String {
    let subnets = links.iter().map(|link| format!("{}/64 {}\n", link.subnet6(), link.port));
    subnets.chain(routes.iter().map(Route6::line)).collect()
}

/// `count` random routes below 2400::/8, of all sorts, many of them within others; and to the networks behind the hosts.
/// The rest of the address space is a hole.
pub fn synthetic(count: usize, seed: u64, links: &[Link]) -> Vec<Route6> {
    let mut rng = Rng::new(seed);
    let behind =
        |link: &Link| Route6 { first: link.behind6(), length: 48, way: Way::Via(link.host_local(), *link) };
    let mut routes: Vec<Route6> = links.iter().map(behind).collect();
    let (mut used, mut made) = (HashSet::new(), Vec::new());
    while made.len() < count {
        let (start, least) = if made.is_empty() || rng.chance(60) {
            (Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 0, 0).to_bits() | random(&mut rng) & !mask(8), 16)
        } else {
            let within: Route6 = made[rng.index(made.len())];
            (within.any(&mut rng).to_bits(), within.length + 1)
        };
        let usual = rng.pick(&[32, 36, 40, 44, 48, 48, 56, 64]);
        let length = if rng.chance(70) { usual } else { rng.within(16..=128) as u8 };
        if length < least || least > 127 {
            continue;
        }
        let first = Ipv6Addr::from_bits(start & mask(length));
        if used.insert((first, length)) {
            let link = rng.pick(links);
            let gateway = rng.pick(&[link.host6(), link.neighbour6(), link.host_local()]);
            let way = match rng.within(1..=100) {
                1..=4 => Way::Unreachable,
                5..=8 => Way::Prohibited,
                9..=12 => Way::BlackHole,
                _ => Way::Via(gateway, link),
            };
            made.push(Route6 { first, length, way });
        }
    }
    routes.extend(made);
    routes
}

/// An ordinary unicast address to which none of [`synthetic`] leads.
pub fn hole(rng: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from_bits(Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0, 0, 0).to_bits() | random(rng) & !mask(8))
}

fn random(rng: &mut Rng) -> u128 {
    u128::from(rng.bits()) << 64 | u128::from(rng.bits())
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_written_for_both_routers() {
        let link = Link { port: 1 };
        let routes = synthetic(500, 3, &[link]);
        assert_eq!(routes.len(), 501);
        assert_eq!(text(&routes[..1], &[link]), "2001:db8:2::/64 1\n2001:db8:102::/48 fe80::2:2 1\n");
        assert_eq!(routes[0].command(), "route add 2001:db8:102::/48 via fe80::2:2 dev eth2\n");
        let mut rng = Rng::new(1);
        for route in &routes {
            let inside = route.any(&mut rng).to_bits() & mask(route.length);
            assert_eq!(inside, route.first.to_bits(), "{route:?}");
        }
        for sort in [Way::Unreachable, Way::Prohibited, Way::BlackHole] {
            assert!(routes.iter().any(|route| route.way == sort), "{sort:?}");
        }
        assert_eq!(hole(&mut rng).octets()[0], 0x26);
    }
}
