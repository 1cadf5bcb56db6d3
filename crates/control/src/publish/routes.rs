//! Routes of the model as routes of a table.

use super::groups::is_set;
use super::paths::{In, View};
use super::{Counts, Half, of_family};
use crate::netlink::LOCAL_TABLE;
use epoch::Reader;
use fib::{NextHop, NextHopId, Prefix, Route, RouteChange, Vrf};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

impl<A: In> Half<'_, A> {
    /// Adds to the prefixes that need a look those that depend on what has changed: neighbours, and
    /// the prefixes behind the first `from`. `all`: any may.
    pub fn widen(&mut self, view: &View<'_>, all: bool, neighbours: &HashSet<(u32, IpAddr)>, from: usize) {
        let host = |ip: IpAddr| of_family::<A>(ip).map(Prefix::host);
        if all {
            // At the start that is all there is: nothing of it need be looked at twice.
            if self.target().is_empty() {
                self.dirty.clear();
            }
            let local = A::of(view.kernel).table(LOCAL_TABLE).map(|(prefix, _)| prefix);
            let main = A::of(view.routes).table(view.table).map(|(prefix, _)| prefix);
            self.dirty.extend(local.chain(main));
            if !std::ptr::eq(view.routes, view.kernel) {
                let own = A::of(view.kernel).table(view.table);
                self.dirty.extend(own.filter(|_| self.vrf.is_some()).map(|(prefix, _)| prefix));
            }
            self.dirty.extend(A::base().iter().filter_map(|(addr, len)| Prefix::new(*addr, *len)));
        }
        // Tables change what lies together at once.
        if let Some(fresh) = self.dirty.get_mut(from..) {
            fresh.sort_unstable();
        }
        let fresh = self.dirty.get(from..).unwrap_or_default();
        let mut lengths = [false; 129];
        for prefix in fresh.iter().filter(|prefix| View::covers_neighbours(**prefix)) {
            lengths[usize::from(prefix.len())] = true;
        }
        let lengths: Vec<u8> = (0..A::BITS as u8).filter(|len| lengths[usize::from(*len)]).collect();
        let is_under = |prefix: Prefix<A>| {
            let mut above = lengths.iter().filter_map(|len| Prefix::new(prefix.first(), *len));
            above.any(|above| fresh.binary_search(&above).is_ok())
        };
        let hosts = view.kernel.neighbours.iter().filter_map(|((_, ip), _)| host(ip));
        let mut more: Vec<Prefix<A>> = if lengths.is_empty() && !all {
            Vec::new()
        } else {
            hosts.filter(|host| all || is_under(*host)).collect()
        };
        more.extend(neighbours.iter().filter_map(|(_, ip)| host(*ip)));
        self.dirty.append(&mut more);
    }

    /// The table that routes are published in.
    fn target(&self) -> &'_ fib::RouteTable<A> {
        self.vrf.unwrap_or(self.routes)
    }

    /// The next hops that these prefixes have in the table.
    fn old(&self, prefixes: &[Prefix<A>]) -> Vec<Option<NextHop>> {
        if self.target().is_empty() {
            return vec![None; prefixes.len()];
        }
        let mut hops = self.target().next_hops_of(prefixes);
        if self.vrf.is_some() {
            let shared = self.routes.next_hop_list();
            let of = |hop: NextHop| shared.get(Vrf::shared(&hop)?.index()).copied();
            hops.iter_mut().for_each(|hop| *hop = hop.and_then(of));
        }
        hops
    }

    /// Gives back the sets that the routes of a VRF lead over, which is gone.
    pub fn give_back_all(&mut self, view: &View<'_>) {
        let shared = self.routes.next_hop_list();
        let of = |route: Route<A>| shared.get(Vrf::shared(&route.next_hop)?.index()).copied();
        let hops: Vec<NextHop> = self.target().routes().into_iter().filter_map(of).collect();
        self.give_back_sets(view, &hops);
    }

    /// Brings the routes of some prefixes that need it up to date, at `most` so many.
    pub fn routes(&mut self, view: &View<'_>, most: usize, reader: &mut Reader, counts: &mut Counts) {
        // The first that came: who comes after many waits for them alone.
        let mut some: Vec<Prefix<A>> = self.dirty.drain(..most.min(self.dirty.len())).collect();
        // Of one publication they are in order: the rest is as good as nothing.
        some.sort_unstable();
        some.dedup();
        let olds = self.old(&some);
        let mut changes = Vec::new();
        // Which of them lead to or from sets: to what instead of what.
        let mut moves: Vec<(usize, Option<NextHop>, Option<NextHop>)> = Vec::new();
        for (prefix, old) in some.into_iter().zip(olds) {
            let new = view.next_hop(prefix);
            match new {
                new if new == old => continue,
                _ if view.holds(prefix) => continue,
                Some(next_hop) => changes.push(RouteChange::Set(Route { prefix, next_hop })),
                None => changes.push(RouteChange::Remove(prefix, None)),
            }
            if old.iter().chain(&new).any(is_set) {
                moves.push((changes.len() - 1, old, new));
            }
        }
        if changes.is_empty() {
            // Sets that were found in the tables may have been recognized.
            return self.take_sets(view, &[]);
        }
        counts.route_changes += changes.len() as u64;
        let set = |change: &RouteChange<A>| match change {
            RouteChange::Set(route) => Some(route.next_hop),
            _ => None,
        };
        let mut hops: Vec<NextHop> = changes.iter().filter_map(set).collect();
        // Many prefixes lead to few next hops.
        hops.sort_unstable();
        hops.dedup();
        let given = self.routes.numbers_given();
        // Numbers, and what frames to them begin with, before routes. Those that there are no numbers for fail below.
        let numbers = self.routes.numbers(&hops).unwrap_or_default();
        if self.routes.numbers_given() != given {
            self.adjacencies.renumber(&self.routes.next_hop_list());
        }
        self.take_sets(view, &moves.iter().filter_map(|(_, _, new)| *new).collect::<Vec<_>>());
        if self.vrf.is_some() {
            changes = in_vrf(changes, &hops.into_iter().zip(numbers).collect());
        }
        if self.target().apply(&changes).is_err() {
            // Only for want of next hops; whatever fits is better than nothing.
            let mut moves = moves.iter_mut().peekable();
            for (index, change) in changes.iter().enumerate() {
                let moved = moves.next_if(|(of, ..)| *of == index);
                if self.target().apply(&[*change]).is_err() {
                    counts.refused += 1;
                    if let Some((_, old, new)) = moved {
                        std::mem::swap(old, new);
                    }
                }
            }
        }
        reader.quiescent();
        self.give_back_sets(view, &moves.iter().filter_map(|(_, old, _)| *old).collect::<Vec<_>>());
    }
}

/// The same changes in the form in which they stand in the tables of a VRF: with numbers in place of next hops. One that
/// has no number, for want of any, leads nowhere.
fn in_vrf<A: In>(changes: Vec<RouteChange<A>>, numbers: &HashMap<NextHop, NextHopId>) -> Vec<RouteChange<A>> {
    let convert = |change| match change {
        RouteChange::Set(Route { prefix, next_hop }) => {
            let next_hop =
                numbers.get(&next_hop).map_or(NextHop { gateway: None, port: 0 }, |id| Vrf::hop(*id));
            RouteChange::Set(Route { prefix, next_hop })
        }
        other => other,
    };
    changes.into_iter().map(convert).collect()
}
