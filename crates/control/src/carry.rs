//! What is set for an interface besides its flags: kept as the kernel's own messages, so that attributes which nobody here knows
//! survive, and put to another interface, or to the same one in another network namespace.

use crate::link::{ask, converse_raw};
use crate::netlink::numbers::{
    AF_INET, AF_INET6, NLMSG_DONE, RTM_NEWADDR, RTM_NEWNEIGH, RTM_NEWNEXTHOP, RTM_NEWROUTE,
};
use crate::netlink::request::{Topic, dump};
use crate::netlink::wire::{Builder, u16_at, u32_at};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

const REQUEST_ACK_CREATE: u16 = 0x1 | 0x4 | 0x400;
const EXCLUSIVELY: u16 = 0x200;
const REPLACE: u16 = 0x100;
const NESTED: u16 = 0x8000;
/// Attributes of links that are carried: queue length, alias, group.
const LINK_ATTRIBUTES: [u16; 3] = [13, 20, 27];
/// `IFLA_PROP_LIST`, the alternative names.
const NAMES: u16 = 52;
/// `IFF_NOARP`, `IFF_ALLMULTI`, `IFF_MULTICAST`.
const LINK_FLAGS: u32 = 0x80 | 0x200 | 0x1000;
/// Who sets routes and leaves them to the kernel: nobody in particular, `ip`, administrators, router advertisements, DHCP. Routing
/// daemons set theirs again when an interface comes.
const PROTOCOLS: [u8; 5] = [0, 3, 4, 9, 16];
/// `RTNH_F_ONLINK`: other flags are states.
const ONLINK: u8 = 4;

/// The body of a message: its fixed part, and its attributes with the flags of their types.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    kind: u16,
    fixed: Vec<u8>,
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Kept {
    fn of(kind: u16, body: &[u8], fixed: usize) -> Option<Kept> {
        let (fixed, mut rest) = body.split_at_checked(fixed)?;
        let mut attributes = Vec::new();
        while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
            let len = usize::from(len);
            let Some(value) = rest.get(4..len) else { break };
            attributes.push((kind, value.to_vec()));
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(Kept { kind, fixed: fixed.to_vec(), attributes })
    }

    fn get(&self, kind: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(k, _)| k & !NESTED == kind).map(|(_, value)| &value[..])
    }

    fn number(&self, kind: u16) -> Option<u32> {
        u32_at(self.get(kind)?, 0)
    }

    fn without(mut self, kinds: &[u16]) -> Kept {
        self.attributes.retain(|(kind, _)| !kinds.contains(&(kind & !NESTED)));
        self
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.fixed.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn put(&self, flags: u16) -> io::Result<()> {
        let message = Builder::new(self.kind, REQUEST_ACK_CREATE | flags, 1, &self.fixed);
        let message = self.attributes.iter().fold(message, |m, (kind, value)| m.with(*kind, value));
        match ask(&message.bytes()) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }
}

/// What is set for an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Carried {
    /// The interface's number when it was looked at.
    pub index: u32,
    /// Addresses, in the order in which they are to be added.
    pub addresses: Vec<Kept>,
    /// Permanent neighbours, and proxy entries.
    pub neighbours: Vec<Kept>,
    flags: u32,
    link: Vec<(u16, Vec<u8>)>,
}

/// All messages of a dump.
fn dumped(request: &[u8], mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
    converse_raw(request, |raw| {
        if raw.kind == NLMSG_DONE {
            return Some(Ok(()));
        }
        take(raw.kind, raw.body);
        None
    })
}

impl Carried {
    /// What is set for an interface of the current network namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn of(index: u32) -> io::Result<Carried> {
        let mut carried = Carried { index, ..Carried::default() };
        dumped(&dump(Topic::Links, 1), |kind, body| {
            if u32_at(body, 4) == Some(index)
                && let Some(link) = Kept::of(kind, body, 16)
            {
                carried.flags = u32_at(body, 8).unwrap_or(0) & LINK_FLAGS;
                let is_kept = |kind: u16| LINK_ATTRIBUTES.contains(&kind) || kind & !NESTED == NAMES;
                carried.link = link.attributes.into_iter().filter(|(kind, _)| is_kept(*kind)).collect();
            }
        })?;
        let mut later = Vec::new();
        dumped(&dump(Topic::Addresses, 1), |kind, body| {
            if kind == RTM_NEWADDR
                && u32_at(body, 4) == Some(index)
                && let Some(address) = Kept::of(kind, body, 8).filter(is_set)
            {
                // The kernel puts IPv6 addresses before those that are there.
                if body.first() == Some(&AF_INET6) {
                    later.push(address);
                } else {
                    carried.addresses.push(address);
                }
            }
        })?;
        carried.addresses.extend(later.into_iter().rev());
        // A dump of proxy entries is one of neighbours with `NTF_PROXY`.
        let mut proxies = dump(Topic::Neighbours, 1);
        if let Some(flags) = proxies.get_mut(16 + 10) {
            *flags = 8;
        }
        for request in [dump(Topic::Neighbours, 1), proxies] {
            dumped(&request, |kind, body| {
                let ours = kind == RTM_NEWNEIGH && u32_at(body, 4) == Some(index);
                let is_ip = matches!(body.first(), Some(&AF_INET | &AF_INET6));
                let is_permanent = u16_at(body, 8).is_some_and(|state| state & 0x80 != 0);
                let is_proxy = body.get(10).is_some_and(|flags| flags & 8 != 0);
                if ours && is_ip && (is_permanent || is_proxy) {
                    // Without times and counts.
                    carried.neighbours.extend(Kept::of(kind, body, 12).map(|kept| kept.without(&[3, 4])));
                }
            })?;
        }
        Ok(carried)
    }

    /// Sets the link's attributes and names.
    ///
    /// # Errors
    /// Those of the system.
    pub fn put_link(&self, index: u32) -> io::Result<()> {
        /// `RTM_SETLINK` and `RTM_NEWLINKPROP`.
        const SET: u16 = 19;
        const NEW_NAMES: u16 = 108;
        if self.index == 0 {
            return Ok(());
        }
        let mut body = [0; 16];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let names = self.link.iter().filter(|(kind, _)| kind & !NESTED == NAMES);
        for (_, value) in names {
            let message = Builder::new(NEW_NAMES, REQUEST_ACK_CREATE | EXCLUSIVELY, 1, &body);
            match ask(&message.with(NESTED | NAMES, value).bytes()) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        body[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        body[12..16].copy_from_slice(&LINK_FLAGS.to_ne_bytes());
        let rest = self.link.iter().filter(|(kind, _)| kind & !NESTED != NAMES);
        let message =
            rest.fold(Builder::new(SET, 0x1 | 0x4, 1, &body), |m, (kind, value)| m.with(*kind, value));
        ask(&message.bytes())
    }

    /// Adds the addresses and neighbours to an interface that is called `name`, `age` after they were looked at; what was refused,
    /// and why.
    pub fn put(&self, index: u32, name: &str, age: Duration) -> Vec<String> {
        let mut refused = Vec::new();
        let mut note = |what: &str, done: io::Result<()>| {
            refused.extend(done.err().map(|e| format!("{what}: {e}")));
        };
        for address in &self.addresses {
            let Some(address) = renewed(address, index, name, age) else { continue };
            note(&ip_of(address.get(2).or(address.get(1))), address.put(0));
        }
        for neighbour in &self.neighbours {
            let mut neighbour = neighbour.clone();
            neighbour.set(4, &index.to_ne_bytes());
            note(&format!("neighbour {}", ip_of(neighbour.get(1))), neighbour.put(REPLACE));
        }
        refused
    }
}

fn ip_of(bytes: Option<&[u8]>) -> String {
    match bytes {
        Some([a, b, c, d]) => std::net::Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        Some(bytes) => <[u8; 16]>::try_from(bytes)
            .map_or_else(|_| "an address".to_owned(), |ip| std::net::Ipv6Addr::from(ip).to_string()),
        None => "an address".to_owned(),
    }
}

/// Whether an address was set, or learned: not one that the kernel makes again by itself, a link-local one of the Ethernet address or
/// a temporary one.
fn is_set(address: &Kept) -> bool {
    let [family, _, flags, ..] = address.fixed[..] else { return false };
    let Some(ip) = address.get(1).filter(|_| family == AF_INET6) else { return family == AF_INET };
    let is_temporary = flags & 1 != 0;
    let is_own = ip.starts_with(&[0xfe, 0x80]) && ip.get(11..13) == Some(&[0xff, 0xfe]);
    !is_temporary && !is_own
}

/// The address for another interface, with what is left of its lifetimes; `None` if nothing is.
fn renewed(address: &Kept, index: u32, name: &str, age: Duration) -> Option<Kept> {
    /// What the kernel finds out by itself: secondary, DAD failed, deprecated, tentative, permanent, stable privacy.
    const STATES: u32 = 0x1 | 0x8 | 0x20 | 0x40 | 0x80 | 0x800;
    let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    // Without the number of another namespace.
    let mut address = address.clone().without(&[10]);
    address.set(4, &index.to_ne_bytes());
    let flags = address.fixed.get(2)? & !(STATES as u8);
    address.set(2, &[flags]);
    for (kind, value) in &mut address.attributes {
        match kind {
            // Preferred and valid seconds.
            6 => {
                let left = |at| match u32_at(value, at)? {
                    u32::MAX => Some(u32::MAX),
                    seconds => Some(seconds.saturating_sub(age)),
                };
                let (preferred, valid) = (left(0)?, left(4)?);
                if valid == 0 {
                    return None;
                }
                *value = [preferred.to_ne_bytes(), valid.to_ne_bytes(), [0; 4], [0; 4]].concat();
            }
            8 => *value = (u32_at(value, 0)? & !STATES).to_ne_bytes().to_vec(),
            // A label begins with the interface's name.
            3 if !value.starts_with(name.as_bytes()) => *value = [name.as_bytes(), &[0]].concat(),
            _ => {}
        }
    }
    Some(address)
}

/// Next-hop objects and routes through these interfaces that no daemon sets again, next hops first.
///
/// # Errors
/// Those of the system.
pub fn routes(through: &BTreeSet<u32>) -> io::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    let mut ids = BTreeSet::new();
    let mut groups = Vec::new();
    let objects = dumped(&dump(Topic::NextHops, 1), |kind, body| {
        let ours = kind == RTM_NEWNEXTHOP && body.get(2).is_some_and(|by| PROTOCOLS.contains(by));
        let Some(mut hop) = Kept::of(kind, body, 8).filter(|_| ours) else { return };
        hop.set(4, &(u32_at(body, 4).unwrap_or(0) & u32::from(ONLINK)).to_ne_bytes());
        if hop.get(2).is_some() {
            groups.push(hop);
        } else if hop.number(5).is_some_and(|oif| through.contains(&oif)) {
            ids.extend(hop.number(1));
            kept.push(hop);
        }
    });
    // A kernel without next-hop objects has none.
    let _ = objects;
    for group in groups {
        let members = group.get(2).unwrap_or_default().chunks(8).filter_map(|entry| u32_at(entry, 0));
        if members.into_iter().any(|id| ids.contains(&id)) {
            ids.extend(group.number(1));
            kept.push(group);
        }
    }
    for topic in [Topic::Routes4, Topic::Routes6] {
        dumped(&dump(topic, 1), |kind, body| {
            let by_whom = body.get(5).is_some_and(|by| PROTOCOLS.contains(by));
            // Not what the kernel keeps of a route for one destination (`RTM_F_CLONED`).
            if kind != RTM_NEWROUTE || !by_whom || u32_at(body, 8).is_some_and(|flags| flags & 0x200 != 0) {
                return;
            }
            let Some(route) = Kept::of(kind, body, 12) else { return };
            let by_object = route.number(30).is_some_and(|id| ids.contains(&id));
            if by_object || out_of(&route).any(|oif| through.contains(&oif)) {
                kept.push(lasting(route));
            }
        })?;
    }
    Ok(kept)
}

/// The interfaces that a route leaves by.
fn out_of(route: &Kept) -> impl Iterator<Item = u32> {
    let mut hops = route.get(9).unwrap_or_default();
    let many = std::iter::from_fn(move || {
        let len = usize::from(u16_at(hops, 0)?).max(8);
        let oif = u32_at(hops, 4);
        hops = hops.get(len.next_multiple_of(4)..).unwrap_or_default();
        oif
    });
    route.number(4).into_iter().chain(many)
}

/// A route as it is set: without states, and with the time that it still has.
fn lasting(mut route: Kept) -> Kept {
    let flags = u32_at(&route.fixed, 8).unwrap_or(0) & u32::from(ONLINK);
    route.set(8, &flags.to_ne_bytes());
    // `rta_expires`, in hundredths of seconds, and `RTA_EXPIRES`.
    let expires = route.get(12).and_then(|info| u32_at(info, 8)).unwrap_or(0);
    let mut route = route.without(&[12]);
    if let Ok(1..) = i32::try_from(expires) {
        route.attributes.push((23, (expires / 100).to_ne_bytes().to_vec()));
    }
    // What an object says, a route must not say.
    if route.get(30).is_some() { route.without(&[4, 5, 9, 18, 21, 22]) } else { route }
}

/// Sets routes again, through the interfaces that took the place of others; how many were refused, and why the first.
pub fn put_routes(routes: &[Kept], instead: &BTreeMap<u32, u32>) -> Option<(usize, io::Error)> {
    let new = |old: u32| instead.get(&old).copied().unwrap_or(old).to_ne_bytes();
    let mut refused: Option<(usize, io::Error)> = None;
    for route in routes {
        let mut route = route.clone();
        let is_hop = route.kind == RTM_NEWNEXTHOP;
        let mut is_many = is_hop;
        for (kind, value) in &mut route.attributes {
            match (*kind & !NESTED, is_hop) {
                (4, false) | (5, true) => *value = new(u32_at(value, 0).unwrap_or(0)).to_vec(),
                (9, false) => {
                    is_many = true;
                    let mut at = 0;
                    while let (Some(len), Some(oif)) = (u16_at(value, at), u32_at(value, at + 4)) {
                        value[at + 2] &= ONLINK;
                        value[at + 4..at + 8].copy_from_slice(&new(oif));
                        at += usize::from(len).max(8).next_multiple_of(4);
                    }
                }
                _ => {}
            }
        }
        // What has other ways, too, may have stayed with those.
        if let Err(e) = route.put(if is_many { REPLACE } else { EXCLUSIVELY }) {
            refused.get_or_insert((0, e)).0 += 1;
        }
    }
    refused
}

/// The queueing disciplines of an interface that somebody has set.
///
/// # Errors
/// Those of the system.
pub fn disciplines(index: u32) -> io::Result<Vec<String>> {
    const GET: u16 = 38;
    let request = Builder::new(GET, 0x1 | 0x300, 1, &[0; 20]).bytes();
    let mut found = Vec::new();
    dumped(&request, |kind, body| {
        // Those that the kernel makes have no handle.
        let is_set = u32_at(body, 8).is_some_and(|handle| handle != 0);
        if u32_at(body, 4) == Some(index)
            && is_set
            && let Some(name) = Kept::of(kind, body, 20).as_ref().and_then(|kept| kept.get(1))
        {
            found.push(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned());
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(attributes: &[(u16, &[u8])]) -> Kept {
        let body = attributes
            .iter()
            .fold(
                Builder::new(RTM_NEWADDR, 0, 0, &[AF_INET, 24, 0x80 | 0x2, 0, 7, 0, 0, 0]),
                |m, (kind, value)| m.with(*kind, value),
            )
            .bytes();
        Kept::of(RTM_NEWADDR, &body[16..], 8).unwrap()
    }

    #[test]
    fn an_address_keeps_what_is_not_a_state() {
        let lifetimes: Vec<u8> = [100u32, 200, 5, 5].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let flags = (0x80u32 | 0x200 | 0x1).to_ne_bytes();
        let all = address(&[
            (1, &[10, 0, 0, 2]),
            (2, &[10, 0, 0, 1]),
            (3, b"eth1:x\0"),
            (6, &lifetimes),
            (8, &flags),
            (99, b"new"),
        ]);
        let new = renewed(&all, 9, "eth1", Duration::from_secs(150)).unwrap();
        assert_eq!(new.fixed, [AF_INET, 24, 0x2, 0, 9, 0, 0, 0]);
        assert_eq!((new.number(6), u32_at(new.get(6).unwrap(), 4)), (Some(0), Some(50)));
        assert_eq!(
            (new.number(8), new.get(99), new.get(3)),
            (Some(0x200), Some(&b"new"[..]), Some(&b"eth1:x\0"[..]))
        );
        assert_eq!(renewed(&all, 9, "lan", Duration::ZERO).unwrap().get(3), Some(&b"lan\0"[..]));
        assert_eq!(renewed(&all, 9, "eth1", Duration::from_secs(200)), None);
    }

    #[test]
    fn routes_of_several_ways_leave_by_all_of_them() {
        let hop = |oif: u32| [&[8, 0, 0x11, 0][..], &oif.to_ne_bytes()].concat();
        let body = Builder::new(RTM_NEWROUTE, 0, 0, &[0; 12]).with(9, &[hop(3), hop(5)].concat()).bytes();
        let route = Kept::of(RTM_NEWROUTE, &body[16..], 12).unwrap();
        assert!(out_of(&route).eq([3, 5]));
    }
}
