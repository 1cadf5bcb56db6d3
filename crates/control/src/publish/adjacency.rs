//! Neighbours and next-hop objects as adjacencies.

use super::paths::{In, View};
use super::{BLACKHOLE, Half, OBJECTS, object_number};
use epoch::Reader;
use fib::{Adjacency, Family, NextHop};
use packet::wire::ethernet::{self, Header};
use std::collections::HashSet;
use std::net::IpAddr;

/// What may have changed.
pub struct Changes<'a> {
    /// Neighbours, by link and address.
    pub neighbours: &'a HashSet<(u32, IpAddr)>,
    /// Every neighbour may have.
    pub every: bool,
    /// The objects that have an adjacency of their own.
    pub objects: &'a HashSet<u32>,
    /// The output for packets that are lost on purpose.
    pub lost: u16,
}

impl<A: In> Half<'_, A> {
    /// Brings the adjacencies up to date; returns how many changed.
    pub fn adjacencies(&mut self, view: &View<'_>, changes: &Changes<'_>, reader: &mut Reader) -> u64 {
        let mut list: Vec<(NextHop, Option<Adjacency>)> = Vec::new();
        let mut note = |hop: NextHop, new: Option<Adjacency>| {
            if self.adjacencies.get(hop) != new {
                list.push((hop, new));
            }
        };
        let lost = Adjacency { header: [0; Adjacency::HEADER_LEN], output: changes.lost };
        note(NextHop { gateway: None, port: BLACKHOLE }, Some(lost));
        let all = changes.every.then(|| view.kernel.neighbours.iter().map(|(key, _)| key));
        for (link, ip) in all.into_iter().flatten().chain(changes.neighbours.iter().copied()) {
            if let Some(port) = view.ports.get(&link) {
                let hop = NextHop { gateway: Some(ip), port: *port };
                note(hop, view.adjacency::<A>(link, ip));
            }
        }
        for id in changes.objects {
            let target = view.direct(*id).and_then(|hop| view.adjacency_of::<A>(hop));
            note(NextHop { gateway: None, port: OBJECTS + id }, target);
        }
        // Objects that went.
        for (hop, _) in self.adjacencies.known() {
            if object_number(hop.port).is_some_and(|id| !changes.objects.contains(&id)) {
                list.push((hop, None));
            }
        }
        if !list.is_empty() {
            self.adjacencies.change(&list, self.routes.next_hops(reader));
        }
        list.len() as u64
    }
}

impl View<'_> {
    /// The adjacency of a neighbour on a link that is a port.
    fn adjacency<A: In>(&self, link: u32, ip: IpAddr) -> Option<Adjacency> {
        let port = u16::try_from(*self.ports.get(&link)?).ok()?;
        let destination = self.kernel.neighbours.get((link, ip))?.usable()?;
        let device = self.kernel.links.get(link).filter(|link| link.up)?;
        let ethertype = match A::FAMILY {
            Family::Ipv4 => ethernet::IPV4,
            Family::Ipv6 => ethernet::IPV6,
        };
        let header = Header { destination, source: device.mac?, ethertype }.bytes();
        Some(Adjacency { header, output: port })
    }

    fn adjacency_of<A: In>(&self, hop: NextHop) -> Option<Adjacency> {
        let link = self.ports.iter().find(|(_, port)| **port == hop.port).map(|(link, _)| *link)?;
        self.adjacency::<A>(link, hop.gateway?)
    }
}
