//! Neighbours and next-hop objects as adjacencies.

use super::groups::{Tier, is_set, standing_for};
use super::paths::{In, View};
use super::{BLACKHOLE, Half, OBJECTS, is_special, object_number};
use epoch::Reader;
use fib::{Adjacency, AdjacencyChanges, Family, NextHop};
use packet::wire::ethernet::{self, Header};
use std::collections::HashSet;
use std::net::IpAddr;

/// What may have changed.
pub struct Changes<'a> {
    /// Neighbours, by link and address.
    pub neighbours: &'a HashSet<(u32, IpAddr)>,
    /// Every neighbour may have.
    pub every: bool,
    /// The objects that have an adjacency or a group of their own.
    pub objects: &'a HashSet<u32>,
    /// Objects that are not among these are gone.
    pub are_all: bool,
}

impl<A: In> Half<'_, A> {
    /// Brings the adjacencies and groups up to date; returns how many changed.
    pub fn adjacencies(&mut self, view: &View<'_>, changes: &Changes<'_>, reader: &mut Reader) -> u64 {
        let mut news = AdjacencyChanges::default();
        let mut note = |hop: NextHop, new: Option<Adjacency>| {
            if self.adjacencies.get(hop) != new {
                news.adjacencies.push((hop, new));
            }
        };
        note(standing_for(BLACKHOLE), Some(Adjacency::BLACKHOLE));
        if changes.every {
            // Also those of interfaces that are gone.
            for (hop, _) in self.adjacencies.known() {
                let Some(gateway) = hop.gateway.filter(|_| !is_special(&hop)) else { continue };
                if view.holds_neighbour(hop.port, gateway) {
                    continue;
                }
                note(hop, view.link(hop.port).and_then(|link| view.adjacency::<A>(link, gateway)));
            }
        }
        let all = changes.every.then(|| view.kernel.neighbours.iter().map(|(key, _)| key));
        for (link, ip) in all.into_iter().flatten().chain(changes.neighbours.iter().copied()) {
            if let Some(port) = view.ports.get(&link) {
                let hop = NextHop { gateway: Some(ip), port: *port };
                note(hop, view.adjacency::<A>(link, ip));
            }
        }
        for id in changes.objects {
            let single = view.single_way(*id).and_then(|hop| view.adjacency::<A>(hop.link, hop.gateway?));
            note(standing_for(OBJECTS + id), single);
        }
        // Objects that went, and neighbours of interfaces that did.
        let is_no_port =
            |port: u32| port <= u16::MAX.into() && view.ports.values().all(|other| *other != port);
        let is_gone = |hop: &NextHop| {
            changes.are_all
                && (object_number(hop.port).is_some_and(|id| !changes.objects.contains(&id))
                    || (changes.every && is_no_port(hop.port)))
        };
        let gone = self.adjacencies.known().into_iter().map(|(hop, _)| hop).filter(is_gone);
        news.adjacencies.extend(gone.map(|hop| (hop, None)));
        let gone = self.adjacencies.known_groups().into_iter().map(|(hop, _)| hop).filter(is_gone);
        news.groups.extend(gone.map(|hop| (hop, None)));
        for id in changes.objects {
            match view.single_way(*id) {
                Some(_) if self.adjacencies.group(standing_for(OBJECTS + id)).is_some() => {
                    news.groups.push((standing_for(OBJECTS + id), None));
                }
                Some(_) => {}
                None => news.groups.extend(self.group(view, &[Tier::of_object(*id)], OBJECTS + id)),
            }
        }
        let used = view.sets::<A>().used();
        for (port, tiers) in used {
            news.groups.extend(self.group(view, &tiers, port));
        }
        let count = news.len() as u64;
        if count > 0 {
            reader.quiescent();
            self.adjacencies.change(news, self.routes.next_hops(reader));
        }
        count
    }
}

impl<A: In> Half<'_, A> {
    /// Removes the adjacencies and groups that were in the tables at the start and that nothing is known of, when no
    /// route leads to them any more; returns how many.
    pub fn sweep(&mut self, view: &View<'_>, objects: &HashSet<u32>, reader: &mut Reader) -> u64 {
        let link = |port: u32| view.ports.iter().find(|(_, other)| **other == port).map(|(link, _)| *link);
        let is_gone = |hop: &NextHop| match (object_number(hop.port), hop.gateway) {
            (Some(id), _) => !objects.contains(&id),
            (None, Some(ip)) => link(hop.port).and_then(|link| view.adjacency::<A>(link, ip)).is_none(),
            (None, None) => is_set(hop) && !view.sets::<A>().is_used(hop.port),
        };
        let adjacencies = self.adjacencies.known().into_iter().map(|(hop, _)| hop).filter(is_gone);
        let adjacencies: Vec<_> = adjacencies.map(|hop| (hop, None)).collect();
        let groups = self.adjacencies.known_groups().into_iter().map(|(hop, _)| hop).filter(is_gone);
        let news = AdjacencyChanges { adjacencies, groups: groups.map(|hop| (hop, None)).collect() };
        let count = news.len() as u64;
        if count > 0 {
            reader.quiescent();
            self.adjacencies.change(news, self.routes.next_hops(reader));
        }
        count
    }
}

impl View<'_> {
    /// True if a neighbour stays as it is, behind a VLAN that the kernel has not shown, or has just shown without the neighbour.
    fn holds_neighbour(&self, interface: u32, ip: IpAddr) -> bool {
        let is_unknown = |link| self.kernel.neighbours.get((link, ip)).is_none();
        self.places.holds_near(interface, ip)
            && (self.places.is_held(interface) || self.link(interface).is_some_and(is_unknown))
    }

    /// The adjacency of a neighbour on a link that is a port.
    pub fn adjacency<A: In>(&self, link: u32, ip: IpAddr) -> Option<Adjacency> {
        let number = u16::try_from(*self.ports.get(&link)?).ok()?;
        let port = self.port_of(number.into())?;
        let destination = self.kernel.neighbours.get((link, ip))?.usable()?;
        let device = self.kernel.links.get(link).filter(|link| link.up)?;
        let ethertype = match A::FAMILY {
            Family::Ipv4 => ethernet::IPV4,
            Family::Ipv6 => ethernet::IPV6,
        };
        let source = device.mac?;
        if device.vlan.is_some() {
            return Some(Adjacency::tagged(destination, source, number, port));
        }
        let header = Header { destination, source, ethertype }.bytes();
        Some(Adjacency { header, output: port })
    }
}
