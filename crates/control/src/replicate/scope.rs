//! Interfaces and VRFs at the node's side.
//!
//! A VRF has its routes before an interface is in it, so those that no interface is in yet are kept here.

use super::change::{Described, Named};
use super::half::{MOST_ROUTES, see, stale};
use super::wire::ProtocolError;
use fib::{
    InVrf, Interface, InterfaceChange, InterfaceMap, Interfaces, NextHop, NextHopId, Prefix, RouteTable,
    Tags, Vrf,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Interfaces of a node, and VRFs by the numbers of their tables.
pub struct Scope {
    /// A node without any leaves alone what it is told of them.
    interfaces: Option<Arc<Interfaces>>,
    vrfs: BTreeMap<u32, Arc<Vrf>>,
}

/// Prefixes that have routes, by the table of the VRF.
type Prefixes<A> = BTreeMap<u32, Vec<Prefix<A>>>;

/// What a snapshot has named.
#[derive(Debug, Default)]
pub struct SeenScope {
    interfaces: BTreeMap<u16, Named>,
    vrfs: BTreeSet<u32>,
    pub prefixes4: Prefixes<u32>,
    pub prefixes6: Prefixes<u128>,
}

impl SeenScope {
    pub fn interfaces(&mut self, all: Vec<Named>) {
        // There are as many as numbers at most.
        self.interfaces.extend(all.into_iter().map(|one| (one.number, one)));
    }
}

impl Scope {
    pub fn new(interfaces: Option<Arc<Interfaces>>) -> Scope {
        let mut scope = Scope { interfaces, vrfs: BTreeMap::new() };
        scope.reset();
        scope
    }

    /// The VRFs are those that interfaces are in.
    pub fn reset(&mut self) {
        let vrfs = self.interfaces.as_ref().map(|interfaces| interfaces.with(InterfaceMap::vrfs));
        self.vrfs = vrfs.into_iter().flatten().map(|vrf| (vrf.table, vrf)).collect();
    }

    /// There are none any more.
    pub fn clear(&mut self) {
        self.vrfs.clear();
        if let Some(interfaces) = &self.interfaces {
            interfaces.set(Vec::new());
        }
    }

    /// The VRFs whose routes may be looked up in.
    pub fn all_vrfs(&self) -> Vec<Arc<Vrf>> {
        self.vrfs.values().cloned().collect()
    }

    /// VRFs come, without routes, or go.
    pub fn vrfs(&mut self, vrfs: Vec<(u32, Option<String>)>) -> Result<(), ProtocolError> {
        let Some(interfaces) = &self.interfaces else { return Ok(()) };
        for (table, name) in vrfs {
            match name {
                Some(name) => drop(self.vrfs.insert(table, interfaces.vrf(&name, table))),
                None => drop(self.vrfs.remove(&table)),
            }
        }
        self.check()
    }

    /// The same in a snapshot: those that are there stay with their routes.
    pub fn see_vrfs(
        &mut self,
        seen: &mut SeenScope,
        vrfs: Vec<(u32, Option<String>)>,
    ) -> Result<(), ProtocolError> {
        let Some(interfaces) = &self.interfaces else { return Ok(()) };
        for (table, name) in vrfs {
            // What was said of routes was said of another one.
            seen.prefixes4.remove(&table);
            seen.prefixes6.remove(&table);
            match name {
                Some(name) => {
                    let is_new = seen.vrfs.insert(table);
                    if !is_new || self.vrfs.get(&table).is_none_or(|vrf| vrf.name != name) {
                        self.vrfs.insert(table, interfaces.vrf(&name, table));
                    }
                }
                None => {
                    seen.vrfs.remove(&table);
                    self.vrfs.remove(&table);
                }
            }
        }
        self.check()
    }

    /// There are no more VRFs than interfaces could be in.
    fn check(&self) -> Result<(), ProtocolError> {
        let many = self.vrfs.len() > Interfaces::MOST;
        if many { Err(ProtocolError::TooMany("VRFs")) } else { Ok(()) }
    }

    /// Changes routes of a VRF; `shared` is the table that the numbers are of.
    pub fn routes<A: InVrf>(
        &self,
        table: u32,
        shared: &RouteTable<A>,
        routes: &[(Prefix<A>, Option<NextHopId>)],
    ) -> Result<(), ProtocolError> {
        if self.interfaces.is_none() {
            return Ok(());
        }
        let vrf = self.vrfs.get(&table).ok_or(ProtocolError::Malformed("the VRF of a route"))?;
        let known = shared.next_hop_count();
        let numbers = || routes.iter().filter_map(|(_, number)| *number);
        if numbers().any(|number| number.index() >= known) {
            return Err(ProtocolError::Malformed("the next hop of a route"));
        }
        let to = vrf.routes::<A>();
        let hops: Vec<NextHop> = numbers().map(Vrf::hop).collect();
        let mut own = to.numbers(&hops).map_err(|_| ProtocolError::TooMany("next hops"))?.into_iter();
        let own: Vec<_> =
            routes.iter().map(|(prefix, number)| (*prefix, number.and_then(|_| own.next()))).collect();
        to.set_routes(&own).map_err(|_| ProtocolError::Malformed("the next hop of a route"))?;
        if to.len() > MOST_ROUTES { Err(ProtocolError::TooMany("routes")) } else { Ok(()) }
    }

    /// The same in a snapshot.
    pub fn see_routes<A: InVrf>(
        &self,
        seen: &mut Prefixes<A>,
        table: u32,
        shared: &RouteTable<A>,
        routes: &[(Prefix<A>, Option<NextHopId>)],
    ) -> Result<(), ProtocolError> {
        self.routes(table, shared, routes)?;
        see(seen.entry(table).or_default(), routes);
        let many = seen.values().map(Vec::len).sum::<usize>() > MOST_ROUTES;
        if many { Err(ProtocolError::TooMany("routes")) } else { Ok(()) }
    }

    /// Changes interfaces.
    pub fn interfaces(&self, all: Vec<Named>) -> Result<(), ProtocolError> {
        let Some(interfaces) = &self.interfaces else { return Ok(()) };
        let changes = all.into_iter().map(|one| self.change(interfaces, one)).collect::<Result<_, _>>()?;
        interfaces.change(changes);
        Ok(())
    }

    /// A snapshot is about to lead to these. Numbers that stood for another port or other tags stand for nobody until its end, so
    /// that no frame gets tags that are not meant.
    pub fn make_way(&self, all: &[Named]) {
        let Some(interfaces) = &self.interfaces else { return };
        let (before, ()) = interfaces.snapshot(drop);
        let places: BTreeMap<u16, (u16, Tags)> =
            before.iter().map(|one| (one.number, (one.port, one.tags))).collect();
        let is_other = |one: &&Named| places.get(&one.number).is_some_and(|of| *of != (one.port, one.tags));
        let none =
            |one: &Named| InterfaceChange { number: one.number, port: one.port, tags: one.tags, now: None };
        let changes: Vec<_> = all.iter().filter(is_other).map(none).collect();
        if !changes.is_empty() {
            interfaces.change(changes);
        }
    }

    fn change(&self, interfaces: &Interfaces, named: Named) -> Result<InterfaceChange, ProtocolError> {
        let Named { number, port, tags, now } = named;
        let of = |Described { name, mac, mtu, up, vrf, settings }| {
            let find =
                |table| self.vrfs.get(&table).ok_or(ProtocolError::Malformed("the VRF of an interface"));
            let (vrf, counts) = (vrf.map(find).transpose()?.cloned(), interfaces.counts_of(number));
            Ok(Interface { name, port, tags, mac, mtu, up, settings, vrf, counts })
        };
        Ok(InterfaceChange { number, port, tags, now: now.map(of).transpose()? })
    }

    /// The snapshot is whole: makes its interfaces those that there are, and removes VRFs and routes that it did not name.
    /// Returns how many of all these went.
    pub fn end(&mut self, seen: SeenScope) -> Result<u64, ProtocolError> {
        let Some(interfaces) = &self.interfaces else { return Ok(0) };
        let SeenScope { interfaces: named, vrfs, mut prefixes4, mut prefixes6 } = seen;
        self.vrfs.retain(|table, _| vrfs.contains(table));
        let (before, ()) = interfaces.snapshot(drop);
        let gone = |old: &&InterfaceChange| old.now.is_some() && !named.contains_key(&old.number);
        let mut changes: Vec<_> =
            before.iter().filter(gone).map(|old| InterfaceChange { now: None, ..old.clone() }).collect();
        let mut swept = changes.len() as u64;
        for named in named.into_values() {
            let change = self.change(interfaces, named)?;
            if !before.contains(&change) {
                changes.push(change);
            }
        }
        if !changes.is_empty() {
            interfaces.change(changes);
        }
        for (table, vrf) in &self.vrfs {
            swept += sweep(&vrf.routes4, prefixes4.remove(table).unwrap_or_default());
            swept += sweep(&vrf.routes6, prefixes6.remove(table).unwrap_or_default());
        }
        Ok(swept)
    }
}

/// Removes the routes that are not among these.
fn sweep<A: InVrf>(table: &RouteTable<A>, mut prefixes: Vec<Prefix<A>>) -> u64 {
    let stale = stale(table, &mut prefixes);
    // Removing needs no next hop.
    let _ = table.set_routes(&stale);
    stale.len() as u64
}
