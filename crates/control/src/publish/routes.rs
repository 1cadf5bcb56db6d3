//! Routes of the model as routes of a table.

use super::paths::{In, View};
use super::{CHUNK, Counts, Half, of_family};
use crate::netlink::{LOCAL_TABLE, MAIN_TABLE};
use epoch::Reader;
use fib::{NextHop, Prefix, Route, RouteChange};
use std::collections::HashSet;
use std::net::IpAddr;

impl<A: In> Half<'_, A> {
    /// Adds to the prefixes that need a look those that depend on what has changed: neighbours, and
    /// the prefixes behind the first `from`. `all`: any may.
    pub fn widen(&mut self, view: &View<'_>, all: bool, neighbours: &HashSet<(u32, IpAddr)>, from: usize) {
        let host = |ip: IpAddr| of_family::<A>(ip).map(Prefix::host);
        if all {
            let local = A::of(view.kernel).table(LOCAL_TABLE).map(|(prefix, _)| prefix);
            let main = A::of(view.routes).table(MAIN_TABLE).map(|(prefix, _)| prefix);
            self.dirty.extend(local.chain(main));
            self.dirty.extend(A::base().iter().filter_map(|(addr, len)| Prefix::new(*addr, *len)));
        }
        let fresh = if view.kernel.neighbours.is_empty() {
            &[][..]
        } else {
            self.dirty.get(from..).unwrap_or_default()
        };
        let wide: HashSet<Prefix<A>> =
            fresh.iter().copied().filter(|prefix| View::covers_neighbours(*prefix)).collect();
        if all || !wide.is_empty() {
            for ((_, ip), _) in view.kernel.neighbours.iter() {
                let Some(prefix) = host(ip) else { continue };
                let under = |len: u8| Prefix::new(prefix.first(), len).is_some_and(|p| wide.contains(&p));
                if all || (0..A::BITS as u8).any(under) {
                    self.dirty.push(prefix);
                }
            }
        }
        self.dirty.extend(neighbours.iter().filter_map(|(_, ip)| host(*ip)));
        // Tables change what lies together at once.
        if let Some(fresh) = self.dirty.get_mut(from..) {
            fresh.sort_unstable();
        }
    }

    /// Brings the routes of some prefixes that need it up to date.
    pub fn routes(&mut self, view: &View<'_>, reader: &mut Reader, counts: &mut Counts) {
        let rest = self.dirty.len().saturating_sub(CHUNK);
        let mut changes = Vec::new();
        // What each leads to instead of what.
        let mut moves: Vec<(Option<NextHop>, Option<NextHop>)> = Vec::new();
        let mut seen = HashSet::new();
        for prefix in self.dirty.split_off(rest) {
            if !seen.insert(prefix) {
                continue;
            }
            let old = self.routes.get(prefix).map(|route| route.next_hop);
            let new = view.next_hop(prefix);
            match new {
                new if new == old => continue,
                Some(next_hop) => changes.push(RouteChange::Set(Route { prefix, next_hop })),
                None => changes.push(RouteChange::Remove(prefix, None)),
            }
            moves.push((old, new));
        }
        if changes.is_empty() {
            return;
        }
        counts.route_changes += changes.len() as u64;
        let hops: Vec<NextHop> = moves.iter().filter_map(|(_, new)| *new).collect();
        let given = self.routes.numbers_given();
        // Numbers, and what frames to them begin with, before routes. Those that there are no numbers for fail below.
        let _ = self.routes.numbers(&hops);
        if self.routes.numbers_given() != given {
            self.adjacencies.renumber(&self.routes.next_hop_list());
        }
        self.take_sets(view, &hops);
        if self.routes.apply(&changes).is_err() {
            // Only for want of next hops; whatever fits is better than nothing.
            for (change, (old, new)) in changes.iter().zip(&mut moves) {
                if self.routes.apply(&[*change]).is_err() {
                    counts.refused += 1;
                    std::mem::swap(old, new);
                }
            }
        }
        reader.quiescent();
        self.give_back_sets(view, &moves.iter().filter_map(|(old, _)| *old).collect::<Vec<_>>());
    }
}
