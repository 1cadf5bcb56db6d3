//! From the bytes of a message to what it says (linux/rtnetlink.h, if_link.h, if_addr.h, neighbour.h, nexthop.h).
//!
//! A message that lacks what it is about, or says something that cannot be, is [`Message::Other`]: the kernel may add
//! kinds of messages and attributes at any time.

use super::message::{
    Action, Address, Hop, Hops, Kind, Link, Message, Neighbour, NextHopObject, ObjectTarget, Route,
    RouteExtras,
};
use super::netconf::netconf;
use super::numbers::*;
use super::rule;
use super::wire::{Attributes, Raw, u16_at, u32_at};
use fib::{Family, Prefix};
use packet::wire::ethernet::{self, Mac};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTM_F_CLONED`: a cached exception, not a route.
const CLONED: u32 = 0x200;
/// Members that one route or group may have; more are cut off.
const MOST_HOPS: usize = 1024;

/// What a message says.
pub fn decode(raw: &Raw<'_>) -> Message {
    let action = match raw.kind {
        RTM_DELLINK | RTM_DELNETCONF | RTM_DELADDR | RTM_DELNEIGH | RTM_DELRULE | RTM_DELROUTE
        | RTM_DELNEXTHOP => Action::Remove,
        _ if raw.flags & NLM_F_REPLACE != 0 => Action::Replace,
        _ if raw.flags & NLM_F_APPEND != 0 => Action::Append,
        _ => Action::Add,
    };
    let message = match raw.kind {
        NLMSG_DONE => {
            Some(Message::Done { sequence: raw.sequence, interrupted: raw.flags & NLM_F_DUMP_INTR != 0 })
        }
        NLMSG_ERROR => u32_at(raw.body, 0)
            .map(|errno| Message::Answer { sequence: raw.sequence, errno: (errno as i32).wrapping_neg() }),
        RTM_NEWLINK | RTM_DELLINK => link(raw.body).map(|link| Message::Link(action, link)),
        RTM_NEWNETCONF | RTM_DELNETCONF => netconf(raw.body).map(|one| Message::Netconf(action, one)),
        RTM_NEWADDR | RTM_DELADDR => address(raw.body).map(|address| Message::Address(action, address)),
        RTM_NEWNEIGH | RTM_DELNEIGH => neighbour(raw.body).map(|one| Message::Neighbour(action, one)),
        RTM_NEWRULE | RTM_DELRULE => rule::rule(raw.body).map(|rule| Message::Rule(action, rule)),
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => next_hop(raw.body).map(|hop| Message::NextHop(action, hop)),
        RTM_NEWROUTE | RTM_DELROUTE => match raw.body.first() {
            Some(&AF_INET) => route::<u32>(raw.body).map(|route| Message::Route4(action, route)),
            Some(&AF_INET6) => route::<u128>(raw.body).map(|route| Message::Route6(action, route)),
            _ => None,
        },
        _ => None,
    };
    message.unwrap_or(Message::Other)
}

/// An IP address of 4 or 16 bytes.
pub(super) fn ip(value: &[u8]) -> Option<IpAddr> {
    match *value {
        [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).into()),
        _ => value.try_into().ok().map(|bytes: [u8; 16]| Ipv6Addr::from(bytes).into()),
    }
}

fn mac(value: &[u8]) -> Option<Mac> {
    value.try_into().ok()
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// `struct ifinfomsg`: family, pad, type, index, flags, change.
fn link(body: &[u8]) -> Option<Link> {
    const AF_BRIDGE: u8 = 7;
    // A bridge speaks of its ports in messages of its own; a "deleted" there is not.
    if *body.first()? == AF_BRIDGE {
        return None;
    }
    let flags = u32_at(body, 8)?;
    let mut link = Link {
        index: u32_at(body, 4)?,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        promiscuous: flags & IFF_PROMISC != 0,
        ..Link::default()
    };
    for (kind, value) in Attributes::new(body.get(16..)?) {
        match kind {
            1 => link.mac = mac(value),
            3 => link.name = text(value),
            4 => link.mtu = u32_at(value, 0)?,
            5 => link.below = u32_at(value, 0)?,
            10 => link.master = u32_at(value, 0)?,
            18 => link_kind(value, &mut link),
            27 => link.group = u32_at(value, 0)?,
            // `IFLA_XDP`, in it `IFLA_XDP_ATTACHED`.
            43 => link.xdp = Attributes::new(value).any(|(kind, value)| kind == 2 && value != [0]),
            _ => {}
        }
    }
    (link.index != 0).then_some(link)
}

/// `IFLA_LINKINFO`.
fn link_kind(value: &[u8], link: &mut Link) {
    let mut data: &[u8] = &[];
    for (kind, value) in Attributes::new(value) {
        match kind {
            1 => link.kind = text(value),
            2 => data = value,
            _ => {}
        }
    }
    let of = |wanted: u16| Attributes::new(data).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    match link.kind.as_str() {
        "vlan" => {
            link.vlan = of(1).and_then(|value| u16_at(value, 0));
            // `IFLA_VLAN_PROTOCOL`, in network byte order.
            link.vlan_protocol =
                of(5).and_then(|value| u16_at(value, 0)).map_or(ethernet::VLAN, u16::from_be);
        }
        "macvlan" => link.macvlan_mode = of(1).and_then(|value| u32_at(value, 0)).unwrap_or(0),
        "vrf" => link.table = of(1).and_then(|value| u32_at(value, 0)),
        _ => {}
    }
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
fn address(body: &[u8]) -> Option<Address> {
    let (len, link) = (*body.get(1)?, u32_at(body, 4)?);
    let (mut address, mut local) = (None, None);
    for (kind, value) in Attributes::new(body.get(8..)?) {
        match kind {
            1 => address = ip(value),
            2 => local = ip(value),
            _ => {}
        }
    }
    // On a point-to-point link the first is the peer's.
    Some(Address { link, local: local.or(address)?, len })
}

/// `struct ndmsg`: family, pad, pad, index, state, flags, type.
fn neighbour(body: &[u8]) -> Option<Neighbour> {
    const PROXY: u8 = 8;
    if ![AF_INET, AF_INET6].contains(body.first()?) || body.get(10)? & PROXY != 0 {
        return None;
    }
    let (link, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let (mut to, mut address) = (None, None);
    for (kind, value) in Attributes::new(body.get(12..)?) {
        match kind {
            1 => to = ip(value),
            2 => address = mac(value),
            _ => {}
        }
    }
    // The kernel makes entries for multicast as it needs them, and does not tell.
    let ip = to.filter(|ip| !ip.is_multicast())?;
    Some(Neighbour { link, ip, mac: address, state })
}

/// `struct nhmsg`: family, scope, protocol, reserved, flags.
fn next_hop(body: &[u8]) -> Option<NextHopObject> {
    let mut id = None;
    let mut hop = Hop { gateway: None, link: 0 };
    let mut group = None;
    let (mut blackhole, mut is_encapsulated) = (false, false);
    for (kind, value) in Attributes::new(body.get(8..)?) {
        match kind {
            1 => id = u32_at(value, 0),
            // `struct nexthop_grp`: id, weight − 1 (its low eight bits), high eight bits of that, reserved.
            2 => {
                let members = value.chunks_exact(8).take(MOST_HOPS).filter_map(|member| {
                    let weight = u32::from(*member.get(4)?) | u32::from(*member.get(5)?) << 8;
                    Some((u32_at(member, 0)?, weight + 1))
                });
                group = Some(members.collect());
            }
            4 => blackhole = true,
            5 => hop.link = u32_at(value, 0)?,
            6 => hop.gateway = ip(value),
            // `NHA_ENCAP_TYPE`: Linux alone knows how.
            7 => is_encapsulated = true,
            _ => {}
        }
    }
    if is_encapsulated {
        hop = Hop { gateway: None, link: 0 };
    }
    let to = match group {
        Some(members) => ObjectTarget::Group(members),
        None if blackhole => ObjectTarget::Blackhole,
        None => ObjectTarget::Hop(hop),
    };
    Some(NextHopObject { id: id?, to })
}

/// `struct rtmsg`: family, dst length, src length, tos, table, protocol, scope, type, flags.
fn route<A: fib::Address>(body: &[u8]) -> Option<Route<A>> {
    let &[_, len, from, tos, table, protocol, _, kind] = body.first_chunk()?;
    let kind = route_kind(kind)?;
    if u32_at(body, 8)? & CLONED != 0 {
        return None;
    }
    let mut route = Route {
        table: u32::from(table),
        prefix: Prefix::new(A::default(), len)?,
        metric: 0,
        tos,
        protocol,
        kind,
        hops: Hops::None,
        mtu: None,
        extras: RouteExtras::default(),
    };
    let mut is_encapsulated = false;
    let (mut hop, mut object) = (Hop { gateway: None, link: 0 }, None);
    // `RTA_PREFSRC` and `RTA_METRICS`.
    let (mut source, mut metrics) = (&[][..], &[][..]);
    for (kind, value) in Attributes::new(body.get(12..)?) {
        match kind {
            1 => route.prefix = Prefix::new(A::from_ip(ip(value)?)?, len)?,
            // `RTA_SRC`.
            2 if from != 0 => route.extras.selector = selector(value, from),
            4 => hop.link = u32_at(value, 0)?,
            5 => hop.gateway = Some(ip(value)?),
            6 => route.metric = u32_at(value, 0)?,
            7 => source = value,
            8 => (route.mtu, metrics) = (metric_mtu(value), value),
            9 => (route.hops, is_encapsulated) = many(value),
            // `RTA_CACHEINFO`: its third field; 0 if the route stays.
            12 if A::FAMILY == Family::Ipv6 => {
                let expires = u32_at(value, 8).map(u32::cast_signed);
                route.extras.expires = expires.filter(|hundredths| *hundredths != 0);
            }
            15 => route.table = u32_at(value, 0)?,
            18 => hop.gateway = Some(via(value)?),
            20 => route.extras.preference = preference(value),
            21 => is_encapsulated = true,
            30 => object = u32_at(value, 0),
            _ => {}
        }
    }
    if A::FAMILY == Family::Ipv4 {
        let scope = body.get(6)?;
        route.extras.variant = variant((route.protocol, scope, source, metrics));
    }
    // The kernel puts the ways of an object beside its number.
    if let Some(id) = object {
        route.hops = Hops::Object(id);
    } else if route.hops == Hops::None && (hop.link != 0 || hop.gateway.is_some()) {
        route.hops = Hops::One(hop);
    }
    if from != 0 && route.extras.selector == 0 {
        return None;
    }
    // Linux alone encapsulates packets. IPv6 names the loopback interface in routes that refuse packets.
    if is_encapsulated || is_refusal(route.kind) && !matches!(route.hops, Hops::Object(_)) {
        route.hops = Hops::None;
    }
    Some(route)
}

fn is_refusal(kind: Kind) -> bool {
    matches!(kind, Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw)
}

/// `RTN_…`.
fn route_kind(number: u8) -> Option<Kind> {
    Some(match number {
        // FRR names no type in a removal.
        0 | 1 => Kind::Unicast,
        2..=5 => Kind::Local,
        6 => Kind::Blackhole,
        7 => Kind::Unreachable,
        8 => Kind::Prohibit,
        9 => Kind::Throw,
        _ => return None,
    })
}

/// A number for the sources that a route is for; never 0.
fn selector(source: &[u8], len: u8) -> u64 {
    let mut hasher = DefaultHasher::new();
    (source, len).hash(&mut hasher);
    hasher.finish().max(1)
}

/// See [`RouteExtras::variant`].
fn variant(what: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish() as u32
}

/// `RTA_PREF`: `ICMPV6_ROUTER_PREF_HIGH` or `_LOW`; what else there is counts as medium (RFC 4191 §2.1).
fn preference(value: &[u8]) -> i8 {
    match value {
        [1] => 1,
        [3] => -1,
        _ => 0,
    }
}

/// `RTAX_MTU` of `RTA_METRICS`.
fn metric_mtu(value: &[u8]) -> Option<u32> {
    Attributes::new(value).find(|(kind, _)| *kind == 2).and_then(|(_, value)| u32_at(value, 0))
}

/// `struct rtvia`: family, address.
fn via(value: &[u8]) -> Option<IpAddr> {
    ip(value.get(2..)?)
}

/// `RTA_MULTIPATH`: `struct rtnexthop` (length, flags, weight − 1, interface) and attributes, one behind the other; whether one of
/// them puts packets into others.
fn many(mut value: &[u8]) -> (Hops, bool) {
    let (mut hops, mut is_encapsulated) = (Vec::new(), false);
    while let Some(len) = u16_at(value, 0).map(usize::from)
        && let Some(one) = value.get(..len)
        && let (Some(weight), Some(link), Some(attributes)) = (one.get(3), u32_at(one, 4), one.get(8..))
        && hops.len() < MOST_HOPS
    {
        let mut hop = Hop { gateway: None, link };
        for (kind, value) in Attributes::new(attributes) {
            match kind {
                5 => hop.gateway = ip(value),
                18 => hop.gateway = via(value),
                21 => is_encapsulated = true,
                _ => {}
            }
        }
        hops.push((hop, u32::from(*weight) + 1));
        value = value.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    let hops = match *hops {
        [] => Hops::None,
        // IPv6 writes even a single way like this, after its others went.
        [(hop, _)] => Hops::One(hop),
        _ => Hops::Many(hops.into()),
    };
    (hops, is_encapsulated)
}
