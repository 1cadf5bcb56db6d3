//! Ways that share the traffic of a route, as groups of next hops.
//!
//! A group stands in the table of routes as one next hop: that of a next-hop object, or of a *set*, the ways that stand in
//! routes themselves (`RTA_MULTIPATH`). Its members are those ways whose link has a carrier and whose neighbour is known:
//! when that changes one group does, however many routes there are.
//!
//! A set may have several tiers: the ways of the route of a prefix that wins, and those of the routes that would win next.
//! The group has the ways of the first tier of which one can be used (`choose`).

use super::paths::{In, View};
use super::{Half, SETS, SETS_END, Tables};
use crate::netlink::{Hop, Neighbour};
use fib::{
    Address, Adjacencies, AdjacencyChanges, Family, HopGroup, InVrf, InterfaceMap, Member, NextHop,
    NextHopId, RouteTable, Vrf,
};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Ways with weights from 1.
pub type Ways = Box<[(Hop, u32)]>;

/// The ways of one route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tier {
    /// Where they stand.
    pub to: To,
    /// The route's MTU, if it is below that of an interface of theirs.
    pub mtu: Option<u16>,
}

impl Tier {
    /// The ways of a next-hop object in full width.
    pub fn of_object(id: u32) -> Tier {
        Tier { to: To::Object(id), mtu: None }
    }
}

/// Where the ways of a route stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// In itself.
    Ways(Ways),
    /// In a next-hop object.
    Object(u32),
}

/// The ways of the routes of a prefix, the one that wins first.
pub type Tiers = Box<[Tier]>;

/// The next hop that stands for an object or a set.
pub const fn standing_for(port: u32) -> NextHop {
    NextHop { gateway: None, port }
}

/// True for the next hop of a set.
pub fn is_set(hop: &NextHop) -> bool {
    hop.gateway.is_none() && (SETS..SETS_END).contains(&hop.port)
}

/// The sets of one family, numbered in the order in which they came. A set keeps its number for good, because workers
/// may hold it; without routes it has no group.
#[derive(Debug, Default)]
pub struct Sets {
    ports: HashMap<Tiers, u32>,
    sets: HashMap<u32, Set>,
    used: BTreeSet<u32>,
    /// Groups of sets that were in the tables at the start, by their members.
    found: HashMap<Members, u32>,
    /// Of those, which were recognized just now.
    recognized: Vec<NextHop>,
    /// Numbers up to here are taken.
    next: u32,
}

/// Next hops with weights, in order.
type Members = Box<[(NextHop, u32)]>;

#[derive(Debug, Default)]
struct Set {
    /// Unknown of one that was in the tables at the start until it is recognized.
    tiers: Option<Tiers>,
    /// Routes that lead over it.
    users: usize,
}

impl Sets {
    /// Takes note of the sets that are in tables. What their ways are is not known there, but those of a group whose
    /// members can all be used are its members.
    pub fn find<A: InVrf>(&mut self, routes: &RouteTable<A>, adjacencies: &Adjacencies, vrfs: &[Arc<Vrf>]) {
        let far = routes.snapshot(|| ());
        if !far.next_hops.iter().any(is_set) {
            return;
        }
        // Whoever follows these tables may hold any of them.
        for hop in far.next_hops.iter().filter(|hop| is_set(hop)) {
            self.sets.entry(hop.port).or_default();
        }
        let mut users = vec![0; far.next_hops.len()];
        let mut take = |hop: NextHopId| {
            if let Some(count) = users.get_mut(hop.index()) {
                *count += 1;
            }
        };
        far.rib.iter().for_each(|(_, hop)| take(hop));
        let in_vrfs = vrfs.iter().flat_map(|vrf| vrf.routes::<A>().routes());
        in_vrfs.filter_map(|route| Vrf::shared(&route.next_hop)).for_each(take);
        for (hop, count) in far.next_hops.iter().zip(users).filter(|(hop, count)| is_set(hop) && *count > 0) {
            self.sets.entry(hop.port).or_default().users += count;
        }
        for (hop, group) in adjacencies.known_groups().iter().filter(|(hop, _)| is_set(hop)) {
            let of = |member: &Member| Some((*far.next_hops.get(member.hop.index())?, member.weight));
            let members: Option<Vec<_>> = group.members().iter().map(of).collect();
            if let Some(mut members) = members.filter(|members| !members.is_empty()) {
                members.sort_unstable();
                self.found.entry(members.into()).or_insert(hop.port);
            }
        }
    }

    /// The port number that stands for these ways, which lead out of `ports`; `None` when there are no numbers left.
    pub fn port(&mut self, mut tiers: Tiers, ports: &BTreeMap<u32, u32>) -> Option<u32> {
        for tier in &mut tiers {
            if let To::Ways(ways) = &mut tier.to {
                ways.sort_unstable();
            }
        }
        if let Some(port) = self.ports.get(&tiers) {
            return Some(*port);
        }
        // Those that win are in use unless something is down.
        let known = match tiers.first() {
            Some(Tier { to: To::Ways(ways), mtu }) => self.recognize(ways, *mtu, ports),
            _ => None,
        };
        let port = match known {
            Some(port) => port,
            None => self.unused()?,
        };
        self.ports.insert(tiers.clone(), port);
        let set = self.sets.entry(port).or_default();
        set.tiers = Some(tiers);
        if set.users > 0 {
            self.used.insert(port);
        }
        Some(port)
    }

    fn recognize(&mut self, ways: &Ways, mtu: Option<u16>, ports: &BTreeMap<u32, u32>) -> Option<u32> {
        if self.found.is_empty() {
            return None;
        }
        let mut members: Vec<(NextHop, u32)> = Vec::new();
        for (hop, weight) in ways {
            let hop = NextHop { gateway: hop.gateway, port: *ports.get(&hop.link)? };
            add(&mut members, narrowed(hop, mtu), *weight);
        }
        members.sort_unstable();
        let port = self.found.remove(&members[..])?;
        self.recognized.push(standing_for(port));
        Some(port)
    }

    /// A number that no set has.
    fn unused(&mut self) -> Option<u32> {
        let port = (SETS + self.next..SETS_END).find(|port| !self.sets.contains_key(port))?;
        self.next = port - SETS + 1;
        Some(port)
    }

    /// Another route leads over the set: true if it is the first.
    fn take(&mut self, port: u32) -> bool {
        let Some(set) = self.sets.get_mut(&port) else { return false };
        set.users += 1;
        set.users == 1 && self.used.insert(port)
    }

    /// A route does so no longer: true if it was the last.
    fn give_back(&mut self, port: u32) -> bool {
        let Some(set) = self.sets.get_mut(&port).filter(|set| set.users > 0) else { return false };
        set.users -= 1;
        if set.users == 0 {
            self.used.remove(&port);
        }
        set.users == 0
    }

    /// Those that routes lead over, by port number.
    pub fn used(&self) -> Vec<(u32, Tiers)> {
        self.used.iter().filter_map(|port| Some((*port, self.tiers(*port)?))).collect()
    }

    /// True if routes lead over it.
    pub fn is_used(&self, port: u32) -> bool {
        self.sets.get(&port).is_some_and(|set| set.users > 0)
    }

    fn tiers(&self, port: u32) -> Option<Tiers> {
        self.sets.get(&port)?.tiers.clone()
    }
}

/// The next hop for packets of routes with this MTU.
pub fn narrowed(hop: NextHop, mtu: Option<u16>) -> NextHop {
    mtu.map_or(hop, |mtu| hop.narrowed(mtu))
}

/// Adds a way to others, with the weight of both if it is one of them.
fn add(hops: &mut Vec<(NextHop, u32)>, hop: NextHop, weight: u32) {
    match hops.iter_mut().find(|(other, _)| *other == hop) {
        Some((_, sum)) => *sum = sum.saturating_add(weight),
        None => hops.push((hop, weight)),
    }
}

/// The sets of both families.
#[derive(Debug, Default)]
pub struct AllSets([RefCell<Sets>; 2]);

impl AllSets {
    /// Takes note of the sets that are in tables.
    pub fn find(&mut self, tables: &Tables) {
        let AllSets([four, six]) = self;
        let vrfs = tables.interfaces.as_ref().map(|all| all.with(InterfaceMap::vrfs)).unwrap_or_default();
        four.get_mut().find(&tables.routes4, &tables.adjacencies4, &vrfs);
        six.get_mut().find(&tables.routes6, &tables.adjacencies6, &vrfs);
    }
}

impl View<'_> {
    /// The sets of a family.
    pub fn sets<A: Address>(&self) -> RefMut<'_, Sets> {
        let AllSets([four, six]) = self.sets;
        match A::FAMILY {
            Family::Ipv4 => four.borrow_mut(),
            Family::Ipv6 => six.borrow_mut(),
        }
    }

    /// The ways of a tier.
    fn ways(&self, tier: &Tier) -> Vec<(Hop, u32)> {
        match &tier.to {
            To::Ways(ways) => ways.to_vec(),
            To::Object(id) => self.members(*id),
        }
    }

    /// True if the way leads to a gateway, out of a port.
    pub fn is_ours(&self, hop: &Hop) -> bool {
        hop.gateway.is_some() && self.ports.contains_key(&hop.link)
    }
}

impl<A: In> Half<'_, A> {
    /// The group of these ways, if it is to change.
    pub fn group(
        &mut self,
        view: &View<'_>,
        tiers: &[Tier],
        port: u32,
    ) -> Option<(NextHop, Option<HopGroup>)> {
        let hop = standing_for(port);
        let old = self.adjacencies.group(hop);
        let (mut found, mut most) = (Vec::new(), 0);
        for tier in tiers {
            let ways = view.ways(tier);
            most = most.max(ways.len());
            found.push(self.usable(view, &ways, tier.mtu));
        }
        let members = choose(&found, old.as_ref());
        let new = changed(old.as_ref(), members, most);
        (old != new).then_some((hop, new))
    }

    /// Those of these ways that can be used.
    fn usable(&mut self, view: &View<'_>, ways: &[(Hop, u32)], mtu: Option<u16>) -> Usable {
        let mut hops: Vec<(NextHop, u32)> = Vec::new();
        let mut is_dead = true;
        for (hop, weight) in ways {
            let (Some(gateway), Some(out)) = (hop.gateway, view.ports.get(&hop.link)) else { continue };
            let is_plugged = view.kernel.links.get(hop.link).is_some_and(|link| link.up && link.carrier);
            let is_cut = view.port_of(*out).is_none_or(|port| view.cut.contains(&port.into()));
            if !is_plugged || is_cut {
                continue;
            }
            if view.adjacency::<A>(hop.link, gateway).is_none() {
                self.wanted.insert((hop.link, gateway));
                is_dead &= view.kernel.neighbours.get((hop.link, gateway)).is_some_and(Neighbour::is_failed);
                continue;
            }
            is_dead = false;
            add(&mut hops, narrowed(NextHop { gateway: Some(gateway), port: *out }, mtu), *weight);
        }
        let names: Vec<NextHop> = hops.iter().map(|(hop, _)| *hop).collect();
        // Without numbers for them there is no group: packets are Linux's.
        let numbers = self.routes.numbers(&names).unwrap_or_default();
        let members = numbers.into_iter().zip(hops).map(|(number, (_, weight))| (number, weight)).collect();
        Usable { members, is_dead }
    }

    /// Takes note of the sets that routes lead over now, and publishes the groups of new ones, so that they are there
    /// before the routes.
    pub fn take_sets(&mut self, view: &View<'_>, hops: &[NextHop]) {
        let mut news = AdjacencyChanges::default();
        let recognized = std::mem::take(&mut view.sets::<A>().recognized);
        for hop in hops.iter().filter(|hop| is_set(hop)) {
            let first = view.sets::<A>().take(hop.port);
            let tiers = view.sets::<A>().tiers(hop.port);
            if let Some(tiers) = tiers.filter(|_| first) {
                news.groups.extend(self.group(view, &tiers, hop.port));
            }
        }
        // Their members may be others by now.
        for hop in recognized {
            let tiers = view.sets::<A>().tiers(hop.port);
            news.groups.extend(tiers.and_then(|tiers| self.group(view, &tiers, hop.port)));
        }
        if !news.is_empty() {
            self.adjacencies.change(news, &self.routes.next_hop_list());
        }
    }

    /// Takes note of the sets that routes no longer lead over.
    pub fn give_back_sets(&mut self, view: &View<'_>, hops: &[NextHop]) {
        let unused = hops.iter().filter(|hop| is_set(hop) && view.sets::<A>().give_back(hop.port));
        let groups: Vec<_> = unused.map(|hop| (*hop, None)).collect();
        if !groups.is_empty() {
            let news = AdjacencyChanges { groups, ..AdjacencyChanges::default() };
            self.adjacencies.change(news, &self.routes.next_hop_list());
        }
    }
}

/// What of a tier can be used now.
#[derive(Debug, Default)]
struct Usable {
    members: Vec<(NextHopId, u32)>,
    /// None can: each has no carrier, or Linux has asked for its neighbour in vain. Else, without members, nobody has asked
    /// yet, and the next packet to Linux makes it ask.
    is_dead: bool,
}

/// The members of a group: those of the first tier that has any, if all before it are dead. Where that is not known yet of
/// one before it, packets are Linux's, as those of a route without a backup are; but who has left a tier comes back to it
/// only when it can be used, because Linux forgets in time that it has asked in vain.
fn choose<'a>(tiers: &'a [Usable], now: Option<&HopGroup>) -> &'a [(NextHopId, u32)] {
    let Some(first) = tiers.iter().position(|tier| !tier.members.is_empty()) else { return &[] };
    let members = &tiers[first].members;
    let is_in_use =
        |group: &HopGroup| members.iter().any(|(hop, _)| group.members().iter().any(|m| m.hop == *hop));
    let may = tiers[..first].iter().all(|tier| tier.is_dead) || now.is_some_and(is_in_use);
    if may { members } else { &[] }
}

/// The group with these members; made of the old one if there is one, so that flows stay where they can.
fn changed(old: Option<&HopGroup>, members: &[(NextHopId, u32)], ways: usize) -> Option<HopGroup> {
    // As for all ways: a member that comes back would need them.
    let weights = members.iter().map(|(_, weight)| *weight);
    let buckets = HopGroup::buckets_for(weights).max(HopGroup::buckets_for(std::iter::repeat_n(1, ways)));
    if let Some(mut group) = old.cloned() {
        group.grow(buckets);
        if group.set_members(members).is_ok() {
            return Some(group);
        }
    }
    HopGroup::new(buckets, members).ok()
}

/// Neighbours that groups would like to use and Linux does not know.
pub type Wanted = HashSet<(u32, IpAddr)>;
