//! Numbers of next hops that are in use and are to stand for something else.
//!
//! That happens when the control node was started anew and could not ask the nodes for their numbers, or when a node was
//! away for so long that its numbers were given to others. Routes that lead to such a number are led to another one with
//! the same next hop, beyond all others, until the snapshot has said where they lead.

use super::half::Half;
use epoch::ticket;
use fib::{AdjacencyChanges, HopGroup, InVrf, NextHop, NextHopId, Route, RouteChange, Vrf};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// So long workers may take to forget the old numbers: one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sees to it that no route, in a VRF or not, and no group uses a number that is to stand for something else. Returns how
/// many there were.
pub fn make_way<A: InVrf>(to: &Half<'_, A>, vrfs: &[Arc<Vrf>], hops: &[(NextHopId, NextHop)]) -> u64 {
    let Half { table, adjacencies } = to;
    let known = table.next_hop_list();
    let changes = |(id, hop): &(NextHopId, NextHop)| {
        known.get(id.index()).filter(|old| *old != hop).map(|old| (*id, *old))
    };
    let changed: Vec<(NextHopId, NextHop)> = hops.iter().filter_map(changes).collect();
    if changed.is_empty() {
        return 0;
    }
    let snapshot = table.snapshot(|| ());
    let near = adjacencies.snapshot(|| ());
    let beyond = known.len().max(hops.len());
    let aside: HashMap<NextHopId, NextHopId> = changed
        .iter()
        .zip(beyond..)
        .filter_map(|((id, _), index)| Some((*id, NextHopId::new(u32::try_from(index).ok()?)?)))
        .collect();
    let routes: Vec<_> =
        snapshot.rib.iter().filter_map(|(prefix, hop)| Some((prefix, Some(*aside.get(&hop)?)))).collect();
    let groups: Vec<_> = near
        .groups
        .iter()
        .filter(|(_, group)| group.members().iter().any(|member| aside.contains_key(&member.hop)))
        .filter_map(|(hop, group)| Some((*hop, Some(with(group, &aside)?))))
        .collect();
    let in_vrfs: Vec<_> = vrfs.iter().map(|vrf| (vrf.routes::<A>(), moved_in::<A>(vrf, &aside))).collect();
    if routes.is_empty() && groups.is_empty() && in_vrfs.iter().all(|(_, moved)| moved.is_empty()) {
        // They may have been used until a moment ago.
        wait_for_workers();
        return 0;
    }
    // Up to the new ones' end first: numbers have no gaps.
    let fill = hops.iter().filter(|(id, _)| id.index() >= known.len()).copied();
    let moved = changed.iter().filter_map(|(id, old)| Some((*aside.get(id)?, *old)));
    let numbers: Vec<_> = fill.chain(moved).collect();
    if table.set_next_hops(&numbers).is_err() {
        // There is no room: the routes are wrong until they are told anew.
        return changed.len() as u64;
    }
    let list = table.next_hop_list();
    adjacencies.change(AdjacencyChanges { groups, ..AdjacencyChanges::default() }, &list);
    // The numbers were just given.
    let _ = table.set_routes(&routes);
    for (table, moved) in in_vrfs {
        // There is one next hop more for each that was moved at most.
        let _ = table.apply(&moved);
    }
    wait_for_workers();
    changed.len() as u64
}

/// The routes of a VRF that lead to numbers that are to be moved, with what they are moved to.
fn moved_in<A: InVrf>(vrf: &Vrf, aside: &HashMap<NextHopId, NextHopId>) -> Vec<RouteChange<A>> {
    let routes = vrf.routes::<A>().routes().into_iter();
    let moved = routes.filter_map(|Route { prefix, next_hop }| {
        let to = aside.get(&Vrf::shared(&next_hop)?)?;
        Some(RouteChange::Set(Route { prefix, next_hop: Vrf::hop(*to) }))
    });
    moved.collect()
}

/// Waits until no worker remembers what it has looked up so far.
fn wait_for_workers() {
    let (passed, begun) = (ticket(), Instant::now());
    while !passed.passed() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The group with other numbers for its members.
fn with(group: &HopGroup, numbers: &HashMap<NextHopId, NextHopId>) -> Option<HopGroup> {
    let (mut members, buckets) = group.parts();
    for (hop, _) in &mut members {
        *hop = numbers.get(hop).copied().unwrap_or(*hop);
    }
    HopGroup::from_parts(&members, &buckets).ok()
}
