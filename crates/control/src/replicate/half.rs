//! One family of a node's tables, as a control node changes it.

use super::change::Change;
use super::renumber;
use super::replica::Counts;
use super::scope::Scope;
use super::wire::ProtocolError;
use fib::{Adjacencies, AdjacencyChanges, HopGroup, InVrf, NextHop, NextHopId, Prefix, RouteTable};
use std::collections::HashSet;

/// Routes of a family that a snapshot may have, and as many in VRFs.
pub const MOST_ROUTES: usize = 1 << 25;
/// Neighbours and groups of a family that a snapshot may have.
const MOST_NEIGHBOURS: usize = 1 << 24;
/// Routes of a snapshot that are made at once: tables that take up so many make themselves anew.
const AT_ONCE: usize = 1 << 18;

/// Tables of one family.
pub struct Half<'a, A: InVrf> {
    pub table: &'a RouteTable<A>,
    pub adjacencies: &'a Adjacencies,
}

impl<A: InVrf> Half<'_, A> {
    pub fn set_routes(&self, routes: &[(Prefix<A>, Option<NextHopId>)]) -> Result<(), ProtocolError> {
        self.table.set_routes(routes).map_err(|_| ProtocolError::Malformed("the next hop of a route"))
    }

    fn set_next_hops(&self, hops: &[(NextHopId, NextHop)]) -> Result<(), ProtocolError> {
        self.table.set_next_hops(hops).map_err(|_| ProtocolError::TooMany("next hops"))?;
        self.adjacencies.renumber(&self.table.next_hop_list());
        Ok(())
    }

    /// Makes a change that is not one of routes, VRFs or interfaces.
    pub fn make(&self, change: Change) -> Result<(), ProtocolError> {
        let hops = self.table.next_hop_list();
        let known = |group: &HopGroup| group.members().iter().all(|member| member.hop.index() < hops.len());
        match change {
            Change::NextHops(hops) => return self.set_next_hops(&hops),
            Change::Adjacencies(all) => {
                self.adjacencies.change(AdjacencyChanges { adjacencies: all, groups: Vec::new() }, &hops);
            }
            Change::Groups(groups) => {
                if !groups.iter().filter_map(|(_, group)| group.as_ref()).all(known) {
                    return Err(ProtocolError::Malformed("a member of a group"));
                }
                self.adjacencies.change(AdjacencyChanges { adjacencies: Vec::new(), groups }, &hops);
            }
            Change::Links(mtus, seed) => self.adjacencies.set_links(&mtus, seed, &hops),
            _ => {}
        }
        Ok(())
    }
}

/// What the frames of a snapshot have named of one family.
#[derive(Debug)]
pub struct SeenHalf<A: InVrf> {
    /// Numbers that are not made yet: they come first, and are made together.
    hops: Vec<(NextHopId, NextHop)>,
    numbered: bool,
    prefixes: Vec<Prefix<A>>,
    adjacencies: HashSet<NextHop>,
    groups: HashSet<NextHop>,
    /// Routes that are not made yet.
    waiting: Vec<(Prefix<A>, Option<NextHopId>)>,
}

impl<A: InVrf> Default for SeenHalf<A> {
    fn default() -> SeenHalf<A> {
        SeenHalf {
            hops: Vec::new(),
            numbered: false,
            prefixes: Vec::new(),
            adjacencies: HashSet::new(),
            groups: HashSet::new(),
            waiting: Vec::new(),
        }
    }
}

impl<A: InVrf> SeenHalf<A> {
    /// The numbers have all come: makes them, and sees to it that nothing leads to the wrong next hop meanwhile.
    pub fn number(
        &mut self,
        to: &Half<'_, A>,
        scope: &Scope,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        if !self.numbered {
            self.numbered = true;
            let hops = std::mem::take(&mut self.hops);
            counts.renumbered += renumber::make_way(to, &scope.all_vrfs(), &hops);
            to.set_next_hops(&hops)?;
        }
        Ok(())
    }

    pub fn routes(
        &mut self,
        to: &Half<'_, A>,
        scope: &Scope,
        routes: Vec<(Prefix<A>, Option<NextHopId>)>,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        self.number(to, scope, counts)?;
        see(&mut self.prefixes, &routes);
        if self.prefixes.len() > MOST_ROUTES {
            return Err(ProtocolError::TooMany("routes"));
        }
        self.waiting.extend(routes);
        if self.waiting.len() >= AT_ONCE { self.make_waiting(to) } else { Ok(()) }
    }

    fn make_waiting(&mut self, to: &Half<'_, A>) -> Result<(), ProtocolError> {
        to.set_routes(&std::mem::take(&mut self.waiting))
    }

    pub fn other(
        &mut self,
        to: &Half<'_, A>,
        scope: &Scope,
        change: Change,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        match &change {
            Change::NextHops(hops) if !self.numbered => {
                self.hops.extend(hops);
                let many = self.hops.len() > fib::NextHops::LIMIT;
                return if many { Err(ProtocolError::TooMany("next hops")) } else { Ok(()) };
            }
            Change::Adjacencies(all) => self.adjacencies.extend(all.iter().map(|(hop, _)| *hop)),
            Change::Groups(all) => self.groups.extend(all.iter().map(|(hop, _)| *hop)),
            _ => {}
        }
        if self.adjacencies.len().max(self.groups.len()) > MOST_NEIGHBOURS {
            return Err(ProtocolError::TooMany("neighbours"));
        }
        self.number(to, scope, counts)?;
        // A number may get another meaning: first what was said of the old one.
        self.make_waiting(to)?;
        to.make(change)
    }

    /// Makes all that has come.
    pub fn make_all(
        &mut self,
        to: &Half<'_, A>,
        scope: &Scope,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        self.number(to, scope, counts)?;
        self.make_waiting(to)
    }

    /// The snapshot is whole: what it did not name goes, routes before what they lead to.
    pub fn end(mut self, to: &Half<'_, A>, counts: &mut Counts) -> Result<(), ProtocolError> {
        let stale = stale(to.table, &mut self.prefixes);
        to.set_routes(&stale)?;
        let known = to.adjacencies.snapshot(|| ());
        let gone =
            known.adjacencies.iter().map(|(hop, _)| *hop).filter(|hop| !self.adjacencies.contains(hop));
        let mut changes = AdjacencyChanges::default();
        changes.adjacencies.extend(gone.map(|hop| (hop, None)));
        let gone = known.groups.iter().map(|(hop, _)| *hop).filter(|hop| !self.groups.contains(hop));
        changes.groups.extend(gone.map(|hop| (hop, None)));
        counts.swept += (stale.len() + changes.len()) as u64;
        if !changes.is_empty() {
            to.adjacencies.change(changes, &to.table.next_hop_list());
        }
        Ok(())
    }
}

/// Notes which prefixes have routes in a snapshot.
pub fn see<A: InVrf>(prefixes: &mut Vec<Prefix<A>>, routes: &[(Prefix<A>, Option<NextHopId>)]) {
    prefixes.extend(routes.iter().filter(|(_, hop)| hop.is_some()).map(|(prefix, _)| *prefix));
}

/// The routes of a table that a snapshot did not name, to be removed.
pub fn stale<A: InVrf>(
    table: &RouteTable<A>,
    prefixes: &mut [Prefix<A>],
) -> Vec<(Prefix<A>, Option<NextHopId>)> {
    // They came in order, but for the last changes.
    prefixes.sort_unstable();
    let mut seen = prefixes.iter().peekable();
    let mut stale = Vec::new();
    for (prefix, _) in &table.snapshot(|| ()).rib {
        while seen.next_if(|seen| **seen < prefix).is_some() {}
        if seen.peek() != Some(&&prefix) {
            stale.push((prefix, None));
        }
    }
    stale
}
