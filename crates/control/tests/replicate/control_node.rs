//! A control node's tables, and whoever changes them.

use crate::steps::Step;
use crate::{hop, interfaces, tables};
use control::Tables;
use fib::{
    Adjacency, AdjacencyChanges, HopGroup, InVrf, Interface, InterfaceMap, NextHopId, Prefix, Route,
    RouteChange, RouteTable, Tags, Vrf,
};
use std::sync::Arc;

/// Interfaces and VRFs that there may be.
pub const MOST_INTERFACES: u16 = 5;
pub const VRFS: u8 = 2;

/// See the module.
pub struct Control {
    pub tables: Tables,
    retired: Vec<NextHopId>,
    /// How often a VRF was renamed.
    names: u32,
}

impl Control {
    pub fn new() -> Control {
        Control { tables: tables(), retired: Vec::new(), names: 0 }
    }

    fn list(&self) -> Vec<Option<Interface>> {
        let map = |map: &InterfaceMap| (0..MOST_INTERFACES.into()).map(|n| map.get(n).cloned()).collect();
        interfaces(&self.tables).with(map)
    }

    fn vrf(&self, table: u32) -> Option<Arc<Vrf>> {
        interfaces(&self.tables).with(InterfaceMap::vrfs).into_iter().find(|vrf| vrf.table == table)
    }

    /// Changes a route of a VRF as the publisher does.
    fn set_in_vrf<A: InVrf>(&self, vrf: &Vrf, shared: &RouteTable<A>, prefix: Prefix<A>, port: u32) {
        let number = shared.numbers(&[hop(port)]).unwrap()[0];
        let change = match port {
            0 => RouteChange::Remove(prefix, None),
            _ => RouteChange::Set(Route { prefix, next_hop: Vrf::hop(number) }),
        };
        let _ = vrf.routes::<A>().apply(&[change]);
    }

    fn publish_scope(&mut self, step: &Step) {
        let Tables { routes4, adjacencies4, routes6, .. } = &self.tables;
        match step {
            Step::Interface(number, now) => {
                let interface = now.map(|(mtu, vrf)| {
                    let tags = Tags::NONE.then(Tags::CUSTOMER, *number).filter(|_| *number > 1);
                    let table = vrf.map(|vrf| 10 + u32::from(vrf));
                    let new = |table| interfaces(&self.tables).vrf(&format!("v{}", self.names), table);
                    let vrf = table.map(|table| self.vrf(table).unwrap_or_else(|| new(table)));
                    let (name, port) = (format!("i{number}"), number % 2);
                    let (tags, counts) = (tags.unwrap_or_default(), interfaces(&self.tables).counts());
                    Interface {
                        name,
                        port,
                        tags,
                        mac: [2; 6],
                        mtu,
                        up: mtu > 1280,
                        settings: fib::InterfaceSettings::default(),
                        vrf,
                        counts,
                    }
                });
                let mut list = self.list();
                list[usize::from(*number)] = interface;
                interfaces(&self.tables).set(list);
            }
            Step::VrfRoutes(vrf, routes) => {
                let Some(vrf) = self.vrf(10 + u32::from(*vrf)) else { return };
                for (addr, len, port) in routes {
                    let prefix4 = Prefix::new(u32::from(*addr) << 28, *len).unwrap();
                    let prefix6 = Prefix::new(u128::from(*addr) << 124, len * 9).unwrap();
                    self.set_in_vrf(&vrf, routes4, prefix4, *port);
                    self.set_in_vrf(&vrf, routes6, prefix6, *port);
                }
                adjacencies4.renumber(&routes4.next_hop_list());
            }
            Step::Rename(vrf) => {
                let Some(old) = self.vrf(10 + u32::from(*vrf)) else { return };
                self.names += 1;
                let new = interfaces(&self.tables).vrf(&format!("v{}", self.names), old.table);
                let routes: Vec<_> = old.routes4.routes().into_iter().map(RouteChange::Set).collect();
                new.routes4.apply(&routes).unwrap();
                let mut list = self.list();
                let is_old =
                    |one: &&mut Interface| one.vrf.as_ref().is_some_and(|vrf| Arc::ptr_eq(vrf, &old));
                list.iter_mut().flatten().filter(is_old).for_each(|one| one.vrf = Some(new.clone()));
                interfaces(&self.tables).set(list);
            }
            _ => {}
        }
    }

    pub fn publish(&mut self, step: &Step) {
        let Tables { routes4, adjacencies4, routes6, .. } = &self.tables;
        match step {
            Step::Routes(routes) => {
                for (addr, len, port) in routes {
                    // As the publisher does: numbers and their adjacencies before routes.
                    routes4.numbers(&[hop(*port)]).unwrap();
                    adjacencies4.renumber(&routes4.next_hop_list());
                    let prefix4 = Prefix::new(u32::from(*addr) << 28, *len).unwrap();
                    let prefix6 = Prefix::new(u128::from(*addr) << 124, len * 9).unwrap();
                    // Those that remove what is not there change nothing.
                    if *port == 0 {
                        let _ = routes4.apply(&[RouteChange::Remove(prefix4, None)]);
                        let _ = routes6.apply(&[RouteChange::Remove(prefix6, None)]);
                    } else {
                        let next_hop = hop(*port);
                        routes4.apply(&[RouteChange::Set(Route { prefix: prefix4, next_hop })]).unwrap();
                        routes6.apply(&[RouteChange::Set(Route { prefix: prefix6, next_hop })]).unwrap();
                    }
                }
            }
            Step::Neighbour(port, mac) => {
                let adjacency = mac.map(|mac| Adjacency { header: [mac; 14], output: *port as u16 });
                let changes = AdjacencyChanges { adjacencies: vec![(hop(*port), adjacency)], groups: vec![] };
                adjacencies4.change(changes, &routes4.next_hop_list());
            }
            Step::Group(port, members) => {
                let mut members = members.clone();
                members.sort_unstable();
                members.dedup_by_key(|(port, _)| *port);
                let numbers = routes4.numbers(&members.iter().map(|m| hop(m.0)).collect::<Vec<_>>()).unwrap();
                let members: Vec<_> = numbers.into_iter().zip(members).map(|(n, (_, w))| (n, w)).collect();
                let group = HopGroup::new(64, &members).unwrap();
                let changes =
                    AdjacencyChanges { adjacencies: vec![], groups: vec![(hop(*port), Some(group))] };
                adjacencies4.change(changes, &routes4.next_hop_list());
            }
            Step::Links(mtus) => adjacencies4.set_links(mtus, 7, &routes4.next_hop_list()),
            step => self.publish_scope(step),
        }
    }

    /// All numbers out of use are given again the next time, whether the node has followed or not.
    pub fn retire(&mut self) {
        let Tables { routes4, adjacencies4, .. } = &self.tables;
        routes4.free_numbers(&std::mem::take(&mut self.retired));
        let groups = adjacencies4.known_groups();
        let mut used: Vec<_> =
            groups.iter().flat_map(|(_, group)| group.members()).map(|member| member.hop).collect();
        let vrfs = interfaces(&self.tables).with(InterfaceMap::vrfs);
        used.extend(vrfs.iter().flat_map(|vrf| vrf.numbers_in_use::<u32>()));
        self.retired = routes4.retire_unused(&used, &[], 1);
    }

    /// From now on another control node, which numbers anew; all that there is but groups is as before.
    pub fn start_anew(&mut self) {
        let old = std::mem::replace(&mut self.tables, tables());
        self.retired.clear();
        let Tables { routes4, adjacencies4, .. } = &self.tables;
        for route in old.routes4.routes().iter().rev() {
            routes4.apply(&[RouteChange::Set(*route)]).unwrap();
        }
        let near = old.adjacencies4.snapshot(|| ());
        let changes = AdjacencyChanges {
            adjacencies: near.adjacencies.iter().map(|(hop, adjacency)| (*hop, Some(*adjacency))).collect(),
            groups: vec![],
        };
        adjacencies4.change(changes, &routes4.next_hop_list());
        restart_scope(&old, &self.tables);
    }
}

/// The same interfaces and VRFs in other tables, whose next hops have other numbers.
fn restart_scope(old: &Tables, new: &Tables) {
    fn copy<A: InVrf>(vrf: &Vrf, old: &RouteTable<A>, copy: &Vrf, new: &RouteTable<A>) {
        let list = old.next_hop_list();
        for route in vrf.routes::<A>().routes().iter().rev() {
            let hop = list[Vrf::shared(&route.next_hop).unwrap().index()];
            let next_hop = Vrf::hop(new.numbers(&[hop]).unwrap()[0]);
            copy.routes::<A>().apply(&[RouteChange::Set(Route { next_hop, ..*route })]).unwrap();
        }
    }
    let mut list: Vec<Option<Interface>> = interfaces(old)
        .with(|map| (0..MOST_INTERFACES.into()).map(|number| map.get(number).cloned()).collect());
    for vrf in interfaces(old).with(InterfaceMap::vrfs) {
        let its = interfaces(new).vrf(&vrf.name, vrf.table);
        copy(&vrf, &old.routes4, &its, &new.routes4);
        copy(&vrf, &old.routes6, &its, &new.routes6);
        let is_in = |one: &&mut Interface| one.vrf.as_ref().is_some_and(|of| of.table == vrf.table);
        list.iter_mut().flatten().filter(is_in).for_each(|one| one.vrf = Some(its.clone()));
    }
    new.adjacencies4.renumber(&new.routes4.next_hop_list());
    // Numbers that are out of use go on meaning what they meant.
    interfaces(new).change(
        interfaces(old)
            .snapshot(drop)
            .0
            .into_iter()
            .map(|one| fib::InterfaceChange { now: None, ..one })
            .collect(),
    );
    interfaces(new).set(list);
}
