//! Three hosts, or four, on as many subnets around one router.
//!
//! ```text
//!   h1 10.0.1.2 ─ eth0 ──── eth1 ┐
//!   h2 10.0.2.2 ─ eth0 ──── eth2 ├ router
//!   h3 10.0.3.2 ─ eth0 ──── eth3 ┘        the link of h3 has MTU 1400
//! ```
//!
//! The network 10.N.0.0/16 is behind hN.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Result;
use crate::capture::RawPort;
use crate::netns::Namespace;
use crate::packets::Mac;
use crate::table::{Prefix, Route};
use crate::veth::{self, End};

/// How many hosts, links and router ports there usually are.
pub const HOSTS: usize = 3;
/// MTU of the links of h1 and h2.
pub const MTU: u16 = 1500;
/// MTU of the link of h3.
pub const SMALL_MTU: u16 = 1400;
/// What a host calls its interface.
pub const HOST_INTERFACE: &str = "eth0";
/// What the router calls its interfaces, port 0 first.
pub const ROUTER_INTERFACES: [&str; 4] = ["eth1", "eth2", "eth3", "eth4"];

/// One of the links: host h`N+1` and port `N` of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The port of the router, from 0.
    pub port: usize,
}

impl Link {
    /// The three usual links in order.
    pub fn all() -> [Link; HOSTS] {
        [0, 1, 2].map(|port| Link { port })
    }

    fn number(self) -> u8 {
        self.port as u8 + 1
    }

    /// The host's address.
    pub fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number(), 2)
    }

    /// A second neighbour on the link, with the host's hardware address. Only a silent host answers for it.
    pub fn neighbour(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number(), 3)
    }

    /// A network behind the host: routed to it, though nobody there answers.
    pub fn behind(self) -> Prefix {
        Prefix::covering(Ipv4Addr::new(10, self.number(), 0, 0), 16)
    }

    /// The routes to the link and to the network behind its host.
    pub fn routes(self) -> [Route; 2] {
        let subnet = Route { prefix: Prefix::covering(self.router(), 24), gateway: None, port: self.port };
        let behind = Route { prefix: self.behind(), gateway: Some(self.host()), port: self.port };
        [subnet, behind]
    }

    /// The router's address on the link.
    pub fn router(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number(), 1)
    }

    /// The host's hardware address.
    pub fn host_mac(self) -> Mac {
        Mac([2, 0, 0, 0, self.number(), 2])
    }

    /// The router's hardware address on the link.
    pub fn router_mac(self) -> Mac {
        Mac([2, 0, 0, 0, self.number(), 1])
    }

    /// The host's IPv6 address.
    pub fn host6(self) -> Ipv6Addr {
        self.address6(2)
    }

    /// The IPv6 address of the second neighbour.
    pub fn neighbour6(self) -> Ipv6Addr {
        self.address6(3)
    }

    /// The router's IPv6 address on the link.
    pub fn router6(self) -> Ipv6Addr {
        self.address6(1)
    }

    /// The first address of the link's IPv6 /64.
    pub fn subnet6(self) -> Ipv6Addr {
        self.address6(0)
    }

    /// The host's link-local address.
    pub fn host_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, self.number().into(), 2)
    }

    /// The router's link-local address.
    pub fn router_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, self.number().into(), 1)
    }

    /// Whether the router has this address on the link.
    pub fn is_router6(self, address: Ipv6Addr) -> bool {
        [self.router6(), self.router_local()].contains(&address)
    }

    fn address6(self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, self.number().into(), 0, 0, 0, 0, host)
    }

    /// An IPv6 /48 behind the host: routed to its link-local address, though nobody there answers. Its first address.
    pub fn behind6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0x100 + u16::from(self.number()), 0, 0, 0, 0, 0)
    }

    /// The link's MTU in octets.
    pub fn mtu(self) -> u16 {
        if self.port == 2 { SMALL_MTU } else { MTU }
    }

    /// What the router calls its end.
    pub fn router_interface(self) -> &'static str {
        ROUTER_INTERFACES[self.port]
    }
}

/// How the hosts behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Linux hosts with addresses and default routes.
    Live,
    /// Cables with nobody at the end: whoever captures there is the host.
    Silent,
}

/// The hosts and the room for a router, which has the cables but neither addresses nor routes yet.
#[derive(Debug)]
pub struct Topology {
    hosts: Vec<Namespace>,
    router: Namespace,
}

impl Topology {
    /// Builds it. The namespaces are called `PREFIX-h1`, ..., `PREFIX-router`.
    pub fn build(prefix: &str, hosts: Hosts) -> Result<Topology> {
        Topology::of(HOSTS, prefix, hosts)
    }

    /// The same with `count` hosts, at most as many as there are [`ROUTER_INTERFACES`].
    pub fn of(count: usize, prefix: &str, hosts: Hosts) -> Result<Topology> {
        let router = Namespace::named(&format!("{prefix}-router"))?;
        let names = (1..=count.min(ROUTER_INTERFACES.len()))
            .map(|number| Namespace::named(&format!("{prefix}-h{number}")));
        let topology = Topology { hosts: names.collect::<Result<_>>()?, router };
        let cables: Vec<(End, End)> = topology.links().map(|link| topology.cable(link)).collect();
        veth::connect(&cables)?;
        for link in topology.links() {
            let host = topology.host(link);
            veth::finish_frames(host, HOST_INTERFACE)?;
            if hosts == Hosts::Live {
                host.ip(&format!(
                    "address add {}/24 dev {HOST_INTERFACE}\nroute add default via {}\n",
                    link.host(),
                    link.router()
                ))?;
            }
        }
        Ok(topology)
    }

    /// Its links in order.
    pub fn links(&self) -> impl Iterator<Item = Link> + use<> {
        (0..self.hosts.len()).map(|port| Link { port })
    }

    /// The namespace of a link's host.
    pub fn host(&self, link: Link) -> &Namespace {
        &self.hosts[link.port]
    }

    /// The namespace of the router.
    pub fn router(&self) -> &Namespace {
        &self.router
    }

    /// The namespaces, addresses and cables, for a person.
    pub fn picture(&self) -> String {
        let lines = Link::all().map(|link| {
            let host = self.host(link).name();
            let (address, port, mtu) = (link.host(), link.router_interface(), link.mtu());
            let middle =
                if link.port == 1 { format!("├ {}", self.router.name()) } else { "│".to_owned() };
            format!("{host} {address} ─ {HOST_INTERFACE} ─ MTU {mtu} ─ {port} {middle}")
        });
        lines.join("\n")
    }

    /// A raw socket at the host's end of a link.
    pub fn raw_port(&self, link: Link) -> Result<RawPort> {
        RawPort::open(self.host(link), HOST_INTERFACE)
    }

    fn cable(&self, link: Link) -> (End<'_>, End<'_>) {
        let host = End {
            namespace: self.host(link),
            interface: HOST_INTERFACE,
            mac: link.host_mac(),
            mtu: link.mtu(),
        };
        let router = End {
            namespace: &self.router,
            interface: link.router_interface(),
            mac: link.router_mac(),
            mtu: link.mtu(),
        };
        (host, router)
    }
}
