//! From changes of tables to frames of a log.

use super::change::{self, Named, Topic};
use super::log::Ring;
use super::snapshot::in_shared;
use crate::publish::Tables;
use fib::{
    Address, Adjacencies, AdjacencyEvent, Family, InVrf, InterfaceChange, NextHop, NextHopId, Prefix,
    RouteEvent, RouteTable, Vrf,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Records what changes in `tables` from now on.
pub fn begin(tables: &Tables, ring: &Arc<Ring>) {
    watch_routes(&tables.routes4, ring);
    watch_routes(&tables.routes6, ring);
    watch_adjacencies(&tables.adjacencies4, Family::Ipv4, ring);
    watch_adjacencies(&tables.adjacencies6, Family::Ipv6, ring);
    if let Some(interfaces) = &tables.interfaces {
        let (its, known) = (ring.clone(), Arc::new(Mutex::new(Vec::new())));
        let vrfs = known.clone();
        let found = interfaces.watch(Some(Box::new(move |changes, now| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            tell_interfaces(changes, &mut known, now, &its);
        })));
        for vrf in &found {
            watch_vrf::<u32>(vrf, ring);
            watch_vrf::<u128>(vrf, ring);
        }
        *vrfs.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

/// Ends the record.
pub fn end(tables: &Tables) {
    tables.routes4.watch(None);
    tables.routes6.watch(None);
    tables.adjacencies4.watch(None);
    tables.adjacencies6.watch(None);
    if let Some(interfaces) = &tables.interfaces {
        interfaces.watch(None).iter().for_each(|vrf| forget_vrf(vrf));
    }
}

fn watch_routes<A: Address>(table: &RouteTable<A>, ring: &Arc<Ring>) {
    let ring = ring.clone();
    table.watch(Some(Box::new(move |event| {
        let mut frames = Vec::new();
        let emit = &mut |frame| frames.push(frame);
        match event {
            RouteEvent::NextHops(hops) => change::next_hops(A::FAMILY, hops.iter().copied(), emit),
            RouteEvent::Routes(routes) => change::routes(routes.iter().copied(), emit),
        }
        ring.append(Topic::Routes(A::FAMILY), frames);
    })));
}

fn watch_adjacencies(adjacencies: &Adjacencies, family: Family, ring: &Arc<Ring>) {
    let ring = ring.clone();
    adjacencies.watch(Some(Box::new(move |event| {
        let mut frames = Vec::new();
        let emit = &mut |frame| frames.push(frame);
        match event {
            AdjacencyEvent::Changed(changes) => {
                change::adjacencies(family, changes.adjacencies.iter().copied(), emit);
                let groups = changes.groups.iter().map(|(hop, group)| (*hop, group.as_ref()));
                change::groups(family, groups, emit);
            }
            AdjacencyEvent::Links(mtus, seed) => change::links(family, mtus, seed, emit),
        }
        ring.append(Topic::Adjacencies(family), frames);
    })));
}

/// VRFs that are new with all their routes, then interfaces, then VRFs that are gone: what an interface is in is always there.
fn tell_interfaces(
    changes: &[InterfaceChange],
    known: &mut Vec<Arc<Vrf>>,
    now: &[Arc<Vrf>],
    ring: &Arc<Ring>,
) {
    let is_in = |all: &[Arc<Vrf>], vrf: &Arc<Vrf>| all.iter().any(|one| Arc::ptr_eq(one, vrf));
    let mut frames = Vec::new();
    let emit = &mut |frame| frames.push(frame);
    for vrf in now.iter().filter(|vrf| !is_in(known, vrf)) {
        change::vrfs([(vrf.table, Some(&vrf.name[..]))], emit);
        let (hops, routes) = watch_vrf::<u32>(vrf, ring);
        change::vrf_routes(vrf.table, in_shared(routes.into_iter(), &hops), emit);
        let (hops, routes) = watch_vrf::<u128>(vrf, ring);
        change::vrf_routes(vrf.table, in_shared(routes.into_iter(), &hops), emit);
    }
    change::interfaces(changes.iter().map(Named::from), emit);
    for vrf in known.iter().filter(|vrf| !is_in(now, vrf)) {
        forget_vrf(vrf);
        // Another one may have its table now.
        if now.iter().all(|one| one.table != vrf.table) {
            change::vrfs([(vrf.table, None)], emit);
        }
    }
    ring.append(Topic::Interfaces, frames);
    *known = now.to_vec();
}

/// The next hops of a VRF's routes by number, and its routes.
type Routes<A> = (Vec<NextHop>, Vec<(Prefix<A>, NextHopId)>);

/// Records what changes in the routes of a VRF from now on; returns what they were when that began. Nobody but whoever
/// changes interfaces changes them.
fn watch_vrf<A: InVrf>(vrf: &Vrf, ring: &Arc<Ring>) -> Routes<A> {
    let (table, routes, ring) = (vrf.table, vrf.routes::<A>(), ring.clone());
    // The VRF's own numbers are told before the routes that they are in.
    let hops = Mutex::new(routes.next_hop_list());
    routes.watch(Some(Box::new(move |event| {
        let mut hops = hops.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RouteEvent::NextHops(news) => {
                for (number, hop) in news {
                    let count = hops.len().max(number.index() + 1);
                    hops.resize(count, *hop);
                    hops[number.index()] = *hop;
                }
            }
            RouteEvent::Routes(routes) => {
                let shared = |hop: NextHopId| hops.get(hop.index()).and_then(Vrf::shared);
                let routes = routes.iter().map(|(prefix, hop)| (*prefix, hop.and_then(shared)));
                let mut frames = Vec::new();
                change::vrf_routes(table, routes, &mut |frame| frames.push(frame));
                ring.append(Topic::Vrf(table, A::FAMILY), frames);
            }
        }
    })));
    let now = routes.snapshot(|| ());
    (now.next_hops, now.rib.iter().collect())
}

fn forget_vrf(vrf: &Vrf) {
    vrf.routes4.watch(None);
    vrf.routes6.watch(None);
}
