//! What we ask the kernel.

use super::numbers::*;
use super::wire::Builder;
use super::{Address, Neighbour};
use std::net::IpAddr;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;
/// Of the type of an attribute whose value is attributes.
const NESTED: u16 = 0x8000;

/// What can be dumped, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Interfaces.
    Links,
    /// What is set for them, by family.
    Netconf,
    /// Addresses of the machine.
    Addresses,
    /// Neighbours.
    Neighbours,
    /// Rules of policy routing, of both families.
    Rules,
    /// Next-hop objects.
    NextHops,
    /// IPv4 routes.
    Routes4,
    /// IPv6 routes.
    Routes6,
}

impl Topic {
    /// All, in order: what others refer to comes first.
    pub const ALL: [Topic; 8] = [
        Topic::Links,
        Topic::Netconf,
        Topic::Addresses,
        Topic::Neighbours,
        Topic::Rules,
        Topic::NextHops,
        Topic::Routes4,
        Topic::Routes6,
    ];
}

/// Asks for everything that there is of a topic.
pub fn dump(topic: Topic, sequence: u32) -> Vec<u8> {
    // The fixed part of each: only the family, in its first byte, says anything.
    let (kind, family, len) = match topic {
        Topic::Links => (RTM_GETLINK, 0, 16),
        Topic::Netconf => (RTM_GETNETCONF, 0, 4),
        Topic::Addresses => (RTM_GETADDR, 0, 8),
        Topic::Neighbours => (RTM_GETNEIGH, 0, 12),
        Topic::Rules => (RTM_GETRULE, 0, 12),
        Topic::NextHops => (RTM_GETNEXTHOP, 0, 8),
        Topic::Routes4 => (RTM_GETROUTE, AF_INET, 12),
        Topic::Routes6 => (RTM_GETROUTE, AF_INET6, 12),
    };
    let mut body = vec![0; len];
    body[0] = family;
    Builder::new(kind, REQUEST | DUMP, sequence, &body).bytes()
}

/// Asks for all interfaces without their counters, which take the kernel the longest.
pub fn dump_links_briefly(sequence: u32) -> Vec<u8> {
    /// `IFLA_EXT_MASK` and `RTEXT_FILTER_SKIP_STATS`.
    const EXT_MASK: u16 = 29;
    const SKIP_STATS: u32 = 1 << 3;
    let message = Builder::new(RTM_GETLINK, REQUEST | DUMP, sequence, &[0; 16]);
    message.with(EXT_MASK, &SKIP_STATS.to_ne_bytes()).bytes()
}

/// Asks the kernel to find out, or to confirm, the Ethernet address of a neighbour, as if it had a packet for it.
pub fn resolve(link: u32, ip: IpAddr) -> Vec<u8> {
    const CREATE: u16 = 0x400;
    const USE: u8 = 1;
    let family = if ip.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut body = [0; 12];
    body[0] = family;
    body[4..8].copy_from_slice(&link.to_ne_bytes());
    body[10] = USE;
    let message = Builder::new(RTM_NEWNEIGH, REQUEST | CREATE, 0, &body);
    match ip {
        IpAddr::V4(ip) => message.with(1, &ip.octets()),
        IpAddr::V6(ip) => message.with(1, &ip.octets()),
    }
    .bytes()
}

/// Asks for a neighbour with its Ethernet address, as one that was heard a while ago: the kernel uses it, and finds out whether it
/// is still there. One that is known already stays as it is. The answer is an acknowledgement.
pub fn add_neighbour(link: u32, ip: IpAddr, mac: [u8; 6], sequence: u32) -> Vec<u8> {
    const CREATE: u16 = 0x400;
    const EXCLUSIVELY: u16 = 0x200;
    let mut body = [0; 12];
    body[0] = if ip.is_ipv4() { AF_INET } else { AF_INET6 };
    body[4..8].copy_from_slice(&link.to_ne_bytes());
    body[8..10].copy_from_slice(&Neighbour::STALE.to_ne_bytes());
    let message = Builder::new(RTM_NEWNEIGH, REQUEST | ACK | CREATE | EXCLUSIVELY, sequence, &body);
    match ip {
        IpAddr::V4(ip) => message.with(1, &ip.octets()),
        IpAddr::V6(ip) => message.with(1, &ip.octets()),
    }
    .with(2, &mac)
    .bytes()
}

/// Asks for an address of an interface, which nobody else has: it can be used at once. The answer is an acknowledgement.
pub fn add_address(address: &Address, sequence: u32) -> Vec<u8> {
    const CREATE: u16 = 0x400;
    const NO_DUPLICATE_DETECTION: u8 = 2;
    let family = if address.local.is_ipv4() { AF_INET } else { AF_INET6 };
    let [a, b, c, d] = address.link.to_ne_bytes();
    let body = [family, address.len, NO_DUPLICATE_DETECTION, 0, a, b, c, d];
    let message = Builder::new(RTM_NEWADDR, REQUEST | ACK | CREATE, sequence, &body);
    match address.local {
        IpAddr::V4(ip) => message.with(1, &ip.octets()).with(2, &ip.octets()),
        IpAddr::V6(ip) => message.with(1, &ip.octets()).with(2, &ip.octets()),
    }
    .bytes()
}

/// Asks for IPv4 packets that come in by an interface to be forwarded.
pub fn forward(index: u32) -> Vec<u8> {
    /// `IFLA_AF_SPEC`, in it the family, `IFLA_INET_CONF`, `IPV4_DEVCONF_FORWARDING`.
    const AF_SPEC: u16 = 26;
    let setting = Builder::attributes().with(1, &1u32.to_ne_bytes()).contents();
    let settings = Builder::attributes().with(NESTED | 1, &setting).contents();
    let family = Builder::attributes().with(NESTED | u16::from(AF_INET), &settings).contents();
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    Builder::new(RTM_SETLINK, REQUEST, 0, &body).with(NESTED | AF_SPEC, &family).bytes()
}

/// Asks what is set for an interface of IPv4: the kernel does not tell of changes that were made by [`forward`].
pub fn ask_netconf(index: u32) -> Vec<u8> {
    /// `NETCONFA_IFINDEX`.
    const IFINDEX: u16 = 1;
    let body = [AF_INET, 0, 0, 0];
    Builder::new(RTM_GETNETCONF, REQUEST, 0, &body).with(IFINDEX, &index.to_ne_bytes()).bytes()
}

/// What may be changed about an interface.
#[derive(Clone, Debug, Default)]
pub struct LinkChange<'a> {
    /// A new name.
    pub name: Option<&'a str>,
    /// A new Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// A new MTU in bytes.
    pub mtu: Option<u32>,
    /// Up or down.
    pub up: Option<bool>,
    /// Take frames to any address, or only those to its own.
    pub promiscuous: Option<bool>,
    /// Take away its XDP program.
    pub no_xdp: bool,
    /// Whether there is a carrier: of interfaces that have none of their own, such as taps.
    pub carrier: Option<bool>,
    /// The group of interfaces that it is in. The kernel tells of a change that names it at once, even if it is the same.
    pub group: Option<u32>,
    /// The network namespace to move to, as an open file of this process.
    pub namespace: Option<i32>,
}

/// Asks for a change of an interface. The answer is an acknowledgement.
pub fn set_link(index: u32, change: &LinkChange<'_>, sequence: u32) -> Vec<u8> {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let flags = [(IFF_UP, change.up), (IFF_PROMISC, change.promiscuous)];
    let (mut set, mut mask) = (0, 0);
    for (flag, on) in flags.into_iter().filter_map(|(flag, on)| Some((flag, on?))) {
        mask |= flag;
        set |= if on { flag } else { 0 };
    }
    body[8..12].copy_from_slice(&u32::to_ne_bytes(set));
    body[12..16].copy_from_slice(&u32::to_ne_bytes(mask));
    let mut message = Builder::new(RTM_SETLINK, REQUEST | ACK, sequence, &body);
    if let Some(mac) = change.mac {
        message = message.with(1, &mac);
    }
    if let Some(name) = change.name {
        message = message.with(3, &[name.as_bytes(), &[0]].concat());
    }
    if let Some(mtu) = change.mtu {
        message = message.with(4, &mtu.to_ne_bytes());
    }
    if let Some(carrier) = change.carrier {
        message = message.with(33, &[u8::from(carrier)]);
    }
    if let Some(group) = change.group {
        message = message.with(27, &group.to_ne_bytes());
    }
    if change.no_xdp {
        // `IFLA_XDP`, in it `IFLA_XDP_FD` with the number of no file.
        let [a, b] = 8u16.to_ne_bytes();
        let [c, d] = 1u16.to_ne_bytes();
        message = message.with(NESTED | 43, &[a, b, c, d, 0xff, 0xff, 0xff, 0xff]);
    }
    if let Some(namespace) = change.namespace {
        message = message.with(28, &namespace.to_ne_bytes());
    }
    message.bytes()
}
