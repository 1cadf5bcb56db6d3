//! All that there is in tables, as frames.

use super::change::{self, Named, Topic};
use super::log::Frame;
use crate::publish::Tables;
use fib::{Address, AdjacencySnapshot, Family, InVrf, InterfaceChange, NextHop, NextHopId, Prefix, Rib, Vrf};
use std::ops::Range;
use std::sync::Arc;

/// All that there was at one moment for each table.
#[derive(Debug)]
pub struct Snapshot {
    /// In the order in which they can be followed: what numbers of VLANs stand for, numbers, neighbours, groups, routes, VRFs,
    /// interfaces.
    frames: Vec<Frame>,
    /// These are for followers of version 1 as well.
    first: Range<usize>,
    /// The position of each topic. VRFs that are not among them were not there at that of interfaces.
    positions: Vec<(Topic, u64)>,
}

/// Routes of a VRF with numbers of the shared table.
struct VrfRoutes<A: Address> {
    table: u32,
    rib: Rib<A>,
    hops: Vec<NextHop>,
}

/// All that is known of interfaces and VRFs.
#[derive(Default)]
struct Scope {
    interfaces: Vec<InterfaceChange>,
    vrfs: Vec<Arc<Vrf>>,
    routes4: Vec<VrfRoutes<u32>>,
    routes6: Vec<VrfRoutes<u128>>,
}

impl Snapshot {
    /// All that is in these tables; `note` says the position at a moment.
    pub fn of(tables: &Tables, note: impl Fn() -> u64) -> Snapshot {
        let Tables { routes4, adjacencies4, routes6, adjacencies6, .. } = tables;
        let mut positions = Vec::new();
        let scope = Scope::of(tables, &note, &mut positions);
        // Routes last: numbers of members of groups, and of next hops in VRFs, are then among those of their moment.
        let (near4, near6) = (adjacencies4.snapshot(&note), adjacencies6.snapshot(&note));
        let (far4, far6) = (routes4.snapshot(&note), routes6.snapshot(&note));
        let mut frames: Vec<Frame> = Vec::new();
        scope.write_places(&mut |frame: Vec<u8>| frames.push(frame.into()));
        let places = frames.len();
        let emit = &mut |frame: Vec<u8>| frames.push(frame.into());
        for (family, hops) in [(Family::Ipv4, &far4.next_hops), (Family::Ipv6, &far6.next_hops)] {
            let numbered = (0..).zip(hops).filter_map(|(index, hop)| Some((NextHopId::new(index)?, *hop)));
            change::next_hops(family, numbered, emit);
        }
        write_near(Family::Ipv4, &near4, emit);
        write_near(Family::Ipv6, &near6, emit);
        change::routes(far4.rib.iter().map(|(prefix, hop)| (prefix, Some(hop))), emit);
        change::routes(far6.rib.iter().map(|(prefix, hop)| (prefix, Some(hop))), emit);
        positions.extend([
            (Topic::Routes(Family::Ipv4), far4.note),
            (Topic::Routes(Family::Ipv6), far6.note),
            (Topic::Adjacencies(Family::Ipv4), near4.note),
            (Topic::Adjacencies(Family::Ipv6), near6.note),
        ]);
        let first = places..frames.len();
        scope.write(&mut |frame: Vec<u8>| frames.push(frame.into()));
        Snapshot { frames, first, positions }
    }

    /// The frames for followers of a version.
    pub fn frames(&self, version: u8) -> &[Frame] {
        let is_all = version >= Topic::Interfaces.since();
        let which = if is_all { 0..self.frames.len() } else { self.first.clone() };
        self.frames.get(which).unwrap_or_default()
    }

    /// The changes of a topic up to here are in it.
    pub fn position(&self, topic: Topic) -> u64 {
        let of = |topic| self.positions.iter().find(|(of, _)| *of == topic).map(|(_, position)| *position);
        of(topic).or_else(|| of(Topic::Interfaces)).unwrap_or(0)
    }

    /// With the changes up to here, it is how all tables were at this position.
    pub fn end(&self) -> u64 {
        self.positions.iter().map(|(_, position)| *position).max().unwrap_or(0)
    }

    /// With the changes from here on.
    pub fn begin(&self) -> u64 {
        self.positions.iter().map(|(_, position)| *position).min().unwrap_or(0)
    }
}

fn write_near(family: Family, near: &AdjacencySnapshot<u64>, emit: &mut impl FnMut(Vec<u8>)) {
    change::links(family, &near.mtus, near.seed, emit);
    change::adjacencies(family, near.adjacencies.iter().map(|(hop, one)| (*hop, Some(*one))), emit);
    change::groups(family, near.groups.iter().map(|(hop, group)| (*hop, Some(group))), emit);
}

impl Scope {
    fn of(tables: &Tables, note: &impl Fn() -> u64, positions: &mut Vec<(Topic, u64)>) -> Scope {
        let Some(interfaces) = &tables.interfaces else { return Scope::default() };
        // No VRF comes or goes meanwhile.
        let (interfaces, mut scope) = interfaces.snapshot(|vrfs| {
            positions.push((Topic::Interfaces, note()));
            let routes4 = vrfs.iter().map(|vrf| VrfRoutes::of(vrf, note, positions)).collect();
            let routes6 = vrfs.iter().map(|vrf| VrfRoutes::of(vrf, note, positions)).collect();
            Scope { vrfs, routes4, routes6, ..Scope::default() }
        });
        scope.interfaces = interfaces;
        scope
    }

    /// What numbers stand for, without saying what is there: before anything that leads there.
    fn write_places(&self, emit: &mut impl FnMut(Vec<u8>)) {
        let tagged = self.interfaces.iter().filter(|one| !one.tags.is_empty());
        change::interfaces(tagged.map(|one| Named { now: None, ..Named::from(one) }), emit);
    }

    fn write(&self, emit: &mut impl FnMut(Vec<u8>)) {
        change::vrfs(self.vrfs.iter().map(|vrf| (vrf.table, Some(&vrf.name[..]))), emit);
        for VrfRoutes { table, rib, hops } in &self.routes4 {
            change::vrf_routes(*table, in_shared(rib.iter(), hops), emit);
        }
        for VrfRoutes { table, rib, hops } in &self.routes6 {
            change::vrf_routes(*table, in_shared(rib.iter(), hops), emit);
        }
        change::interfaces(self.interfaces.iter().map(Named::from), emit);
    }
}

impl<A: InVrf> VrfRoutes<A> {
    fn of(vrf: &Vrf, note: &impl Fn() -> u64, positions: &mut Vec<(Topic, u64)>) -> VrfRoutes<A> {
        let now = vrf.routes::<A>().snapshot(note);
        positions.push((Topic::Vrf(vrf.table, A::FAMILY), now.note));
        VrfRoutes { table: vrf.table, rib: now.rib, hops: now.next_hops }
    }
}

/// Routes of a VRF with numbers of the shared table in place of its own, whose next hops are `hops`.
pub fn in_shared<A: Address>(
    routes: impl Iterator<Item = (Prefix<A>, NextHopId)>,
    hops: &[NextHop],
) -> impl Iterator<Item = (Prefix<A>, Option<NextHopId>)> {
    routes.map(|(prefix, hop)| (prefix, hops.get(hop.index()).and_then(Vrf::shared)))
}
