//! What a route comes to: a next hop of a table.

use super::groups::{AllSets, Tier, Tiers, To, narrowed, standing_for};
use super::interfaces::Places;
use super::policy::{Part, Policy};
use super::{BLACKHOLE, OBJECTS, PUNT, by_policy, elsewhere, punt};
use crate::kernel::{Entry, Model, Routes, ways};
use crate::netlink::{Hop, Hops, Kind, LOCAL_TABLE, ObjectTarget};
use fib::{Family, InVrf, NextHop, Prefix};
use std::collections::{BTreeMap, HashSet};

/// How deep groups of groups are followed. The kernel has one level.
const DEPTH: u32 = 4;
/// Routes of one prefix that are looked at, that wins and its backups.
const MOST_TIERS: usize = 4;
/// Ways that one group may have.
const MOST_WAYS: usize = 1024;

/// All that decides where packets go.
pub struct View<'a> {
    /// Links, neighbours, local addresses.
    pub kernel: &'a Model,
    /// Routes and next-hop objects: the kernel's, or FRR's.
    pub routes: &'a Model,
    /// Numbers of interfaces by those of the kernel.
    pub ports: &'a BTreeMap<u32, u32>,
    /// More of these.
    pub places: &'a Places,
    /// What is Linux's by rules of policy routing.
    pub policy: &'a Policy,
    /// The routing table of the kernel that is published: `main`, or a VRF's.
    pub table: u32,
    /// Sets of ways that routes name.
    pub sets: &'a AllSets,
    /// Ports without a carrier.
    pub cut: &'a HashSet<u32>,
    /// Not all routes have been told: those that are not known stay in the tables.
    pub is_partial: bool,
}

/// The routes of one family in a model.
pub trait In: InVrf + Part {
    /// The routes of this family.
    fn of(model: &Model) -> &Routes<Self>;
    /// Prefixes that are always Linux's unless there is a route.
    fn base() -> &'static [(Self, u8)];
    /// Addresses that are Linux's whatever routes there are.
    fn is_private_to_links(prefix: Prefix<Self>) -> bool;
}

impl In for u32 {
    fn of(model: &Model) -> &Routes<u32> {
        &model.routes4
    }

    fn base() -> &'static [(u32, u8)] {
        // Where nothing leads Linux answers "unreachable"; multicast; broadcast.
        &[(0, 0), (0xe000_0000, 4), (u32::MAX, 32)]
    }

    fn is_private_to_links(prefix: Prefix<u32>) -> bool {
        prefix.len() >= 4 && prefix.first() >> 28 == 0xe
    }
}

impl In for u128 {
    fn of(model: &Model) -> &Routes<u128> {
        &model.routes6
    }

    fn base() -> &'static [(u128, u8)] {
        &[(0, 0), (0xff << 120, 8), (0xfe80 << 112, 10)]
    }

    fn is_private_to_links(prefix: Prefix<u128>) -> bool {
        let first = prefix.first();
        (prefix.len() >= 8 && first >> 120 == 0xff) || (prefix.len() >= 10 && first >> 118 == 0xfe80 >> 6)
    }
}

impl View<'_> {
    /// The next hop of packets to `prefix`; `None` if it is to have no route of its own.
    pub fn next_hop<A: In>(&self, prefix: Prefix<A>) -> Option<NextHop> {
        if A::is_private_to_links(prefix) {
            let is_there = A::base().iter().any(|(addr, len)| Prefix::new(*addr, *len) == Some(prefix));
            return (is_there || self.entries(prefix).next().is_some()).then(punt);
        }
        if self.policy.takes(prefix) {
            return Some(by_policy());
        }
        self.of_entries(prefix).or_else(|| self.neighbour(prefix)).or_else(|| {
            A::base().iter().any(|(addr, len)| Prefix::new(*addr, *len) == Some(prefix)).then(punt)
        })
    }

    /// True if the tables are to stay as they are at `prefix`, of which nothing is known yet. Neither is then what network
    /// a neighbour is in.
    pub fn holds<A: In>(&self, prefix: Prefix<A>) -> bool {
        self.is_partial && self.entries(prefix).next().is_none()
    }

    /// The routes of a prefix for all packets, the one that wins first.
    fn entries<A: In>(&self, prefix: Prefix<A>) -> impl Iterator<Item = &Entry> {
        self.all_entries(prefix).filter(|entry| !entry.is_selective())
    }

    /// The same with those that are for one type of service, or for some sources.
    fn all_entries<A: In>(&self, prefix: Prefix<A>) -> impl Iterator<Item = &Entry> {
        let local = A::of(self.kernel).get(LOCAL_TABLE, prefix);
        // Addresses of interfaces in a VRF are in its table, of which FRR has the routes only.
        let own = (!std::ptr::eq(self.kernel, self.routes))
            .then(|| A::of(self.kernel).get(self.table, prefix).filter(|entry| entry.kind == Kind::Local));
        local.chain(own.into_iter().flatten()).chain(A::of(self.routes).get(self.table, prefix))
    }

    /// True if there is a route of the prefix for some packets only.
    fn is_selective<A: In>(&self, prefix: Prefix<A>) -> bool {
        self.all_entries(prefix).any(Entry::is_selective)
    }

    /// The number in the kernel of the interface with this number, if there is one now.
    pub fn link(&self, number: u32) -> Option<u32> {
        self.places.links.get(number as usize).copied().filter(|link| *link != 0)
    }

    /// The port that frames of the interface with this number leave by.
    pub fn port_of(&self, number: u32) -> Option<u16> {
        self.places.port_of.get(number as usize).copied()
    }

    /// The same, seen from another table.
    pub fn of_table(&self, table: u32) -> View<'_> {
        View { table, ..*self }
    }

    /// The next hop of the routes of a prefix: that of the first that can be used, or, if the next ones are such as may
    /// take its place, one that stands for all.
    fn of_entries<A: In>(&self, prefix: Prefix<A>) -> Option<NextHop> {
        let mut entries = self.all_entries(prefix);
        let first = entries.next()?;
        let rest: Vec<&Entry> = entries.collect();
        if first.is_selective() || rest.iter().any(|entry| entry.is_selective()) {
            // Tables know destinations only: Linux routes all packets to the prefix.
            return Some(by_policy());
        }
        if rest.is_empty() {
            return self.of_entry::<A>(first);
        }
        let mut entries: Vec<&Entry> = [first].into_iter().chain(rest).collect();
        // Of equal metrics, the route of the router that prefers itself (RFC 4191).
        for alike in entries.chunk_by_mut(|a, b| a.metric == b.metric) {
            alike.sort_by_key(|entry| std::cmp::Reverse(entry.preference));
        }
        let mut tiers: Vec<Tier> = Vec::new();
        for tier in entries.iter().map_while(|entry| self.tier(entry)) {
            if tiers.len() < MOST_TIERS && !tiers.contains(&tier) {
                tiers.push(tier);
            }
        }
        let set = |tiers: Tiers| self.sets::<A>().port(tiers, self.ports).map(standing_for);
        let all = (tiers.len() > 1).then(|| set(tiers.into())).flatten();
        all.or_else(|| entries.iter().find_map(|entry| self.of_entry::<A>(entry)))
    }

    /// The ways of a route that can be the backup of another, or have one: all lead to gateways out of ports.
    fn tier(&self, entry: &Entry) -> Option<Tier> {
        if entry.kind != Kind::Unicast {
            return None;
        }
        let to = match &entry.hops {
            Hops::None => None,
            Hops::One(hop) => self.is_ours(hop).then(|| To::Ways([(*hop, 1)].into())),
            Hops::Many(hops) => hops.iter().all(|(hop, _)| self.is_ours(hop)).then(|| To::Ways(hops.clone())),
            Hops::Object(id) => self.is_indirect(*id).then_some(To::Object(*id)),
        };
        Some(Tier { to: to?, mtu: self.own_mtu(entry) })
    }

    /// The next hop of a route; `None` if it cannot be used, so that the next one of its prefix is.
    fn of_entry<A: In>(&self, entry: &Entry) -> Option<NextHop> {
        match entry.kind {
            Kind::Blackhole => Some(NextHop { gateway: None, port: BLACKHOLE }),
            // Linux has the same route, and answers as it says.
            Kind::Local | Kind::Unreachable | Kind::Prohibit | Kind::Throw => Some(punt()),
            Kind::Unicast => {
                let mtu = self.own_mtu(entry);
                let hop = match &entry.hops {
                    Hops::None => punt(),
                    Hops::One(hop) => self.of_hop(hop)?,
                    Hops::Many(hops) => self.of_many::<A>(hops, mtu)?,
                    Hops::Object(id) => self.of_object::<A>(*id, mtu)?,
                };
                Some(narrowed(hop, mtu))
            }
        }
    }

    /// The route's MTU, if it allows only packets that are shorter than those of a link that it leads to.
    fn own_mtu(&self, entry: &Entry) -> Option<u16> {
        let mtu = entry.mtu.filter(|mtu| *mtu > 0)?;
        let is_wide = |hop: &Hop| self.kernel.links.get(hop.link).is_some_and(|link| link.mtu > mtu);
        let is_narrow = match &entry.hops {
            Hops::Object(id) => self.members(*id).iter().any(|(hop, _)| is_wide(hop)),
            hops => ways(hops).any(|(hop, _)| is_wide(&hop)),
        };
        is_narrow.then(|| u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// The next hop that stands for the ways of one route, all of which lead to gateways out of ports.
    fn set<A: In>(&self, to: To, mtu: Option<u16>) -> Option<NextHop> {
        self.sets::<A>().port([Tier { to, mtu }].into(), self.ports).map(standing_for)
    }

    /// Ways that share the traffic, if all lead to gateways out of ports; else the first that can be used.
    fn of_many<A: In>(&self, hops: &[(Hop, u32)], mtu: Option<u16>) -> Option<NextHop> {
        let first = || self.first(hops.iter().map(|(hop, _)| *hop));
        if !hops.iter().all(|(hop, _)| self.is_ours(hop)) {
            return first();
        }
        self.set::<A>(To::Ways(hops.into()), mtu).or_else(first)
    }

    fn of_hop(&self, hop: &Hop) -> Option<NextHop> {
        if hop.link == 0 || !self.is_up(hop) {
            return (hop.link == 0).then(punt);
        }
        Some(match self.ports.get(&hop.link) {
            Some(port) => NextHop { gateway: hop.gateway, port: *port },
            // Linux forwards to interfaces that are not ours.
            None => elsewhere(),
        })
    }

    /// The first of several ways that can be used, if possible one with a carrier.
    fn first(&self, hops: impl Iterator<Item = Hop> + Clone) -> Option<NextHop> {
        let carrier = |hop: &Hop| self.kernel.links.get(hop.link).is_some_and(|link| link.carrier);
        hops.clone().filter(carrier).chain(hops).find_map(|hop| self.of_hop(&hop))
    }

    fn is_up(&self, hop: &Hop) -> bool {
        self.kernel.links.get(hop.link).is_some_and(|link| link.up)
    }

    fn of_object<A: In>(&self, id: u32, mtu: Option<u16>) -> Option<NextHop> {
        let first = || self.first(self.members(id).iter().map(|(hop, _)| *hop));
        if self.is_indirect(id) {
            // The object's own adjacency or group is that of routes of full width.
            return match mtu {
                None => Some(standing_for(OBJECTS + id)),
                Some(_) => self.set::<A>(To::Object(id), mtu).or_else(first),
            };
        }
        match self.routes.next_hops.get(id)? {
            ObjectTarget::Blackhole => Some(standing_for(BLACKHOLE)),
            _ => first(),
        }
    }

    /// The only way of an object that is no group.
    pub fn single_way(&self, id: u32) -> Option<Hop> {
        match self.routes.next_hops.get(id)? {
            ObjectTarget::Hop(hop) => Some(*hop),
            _ => None,
        }
    }

    /// True if routes over this object name the object and not what it leads to: if it leads to gateways only, and only
    /// out of ports. (A destination on a link itself needs a route of its own for each neighbour.)
    pub fn is_indirect(&self, id: u32) -> bool {
        let members = self.members(id);
        id < PUNT - OBJECTS - 1 && !members.is_empty() && members.iter().all(|(hop, _)| self.is_ours(hop))
    }

    /// The objects that routes name.
    pub fn indirect(&self) -> HashSet<u32> {
        self.routes.next_hops.iter().map(|(id, _)| id).filter(|id| self.is_indirect(*id)).collect()
    }

    /// All ways of an object.
    pub fn members(&self, id: u32) -> Vec<(Hop, u32)> {
        let mut ways = Vec::new();
        self.add_members(id, 1, DEPTH, &mut ways);
        ways
    }

    fn add_members(&self, id: u32, weight: u32, depth: u32, ways: &mut Vec<(Hop, u32)>) {
        match self.routes.next_hops.get(id) {
            Some(ObjectTarget::Hop(hop)) => ways.push((*hop, weight)),
            Some(ObjectTarget::Group(members)) if depth > 0 => {
                for (member, part) in members.iter().take(MOST_WAYS.saturating_sub(ways.len())) {
                    self.add_members(*member, weight.saturating_mul(*part), depth - 1, ways);
                }
            }
            _ => {}
        }
    }

    /// The next hop of a single address that is a known neighbour on a connected network.
    fn neighbour<A: In>(&self, prefix: Prefix<A>) -> Option<NextHop> {
        if u32::from(prefix.len()) != A::BITS {
            return None;
        }
        let addr = prefix.first();
        let longest = [(self.kernel, LOCAL_TABLE), (self.routes, self.table)]
            .into_iter()
            .filter_map(|(model, table)| A::of(model).lookup(table, addr))
            .max_by_key(|(prefix, _)| prefix.len());
        let longest = longest.filter(|(prefix, _)| !self.is_selective(*prefix));
        let network = longest.and_then(|(_, entry)| self.of_entry::<A>(entry))?;
        let link = self.link(network.widened().port).filter(|_| network.gateway.is_none())?;
        let ip = addr.to_ip();
        self.kernel.neighbours.get((link, ip))?.usable()?;
        Some(NextHop { gateway: Some(ip), ..network })
    }

    /// True if neighbours of this family may be in the way of a change of `prefix`.
    pub fn covers_neighbours<A: In>(prefix: Prefix<A>) -> bool {
        u32::from(prefix.len()) < A::BITS && (A::FAMILY == Family::Ipv4 || !A::is_private_to_links(prefix))
    }
}
