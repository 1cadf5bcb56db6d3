//! What is in tables, to be compared.

use crate::control_node::MOST_INTERFACES;
use crate::interfaces;
use control::Tables;
use epoch::Reader;
use fib::{Adjacency, InVrf, NextHop, NextHopId, Vrf};
use std::sync::Arc;

/// All that there is in tables.
pub fn all(tables: &Tables) -> impl PartialEq + std::fmt::Debug + use<> {
    let near = |adjacencies: &fib::Adjacencies| adjacencies.snapshot(|| ());
    (
        tables.routes4.routes(),
        tables.routes6.routes(),
        // Numbers are the same as well.
        tables.routes4.snapshot(|| ()).rib.iter().collect::<Vec<_>>(),
        tables.routes6.snapshot(|| ()).rib.iter().collect::<Vec<_>>(),
        near(&tables.adjacencies4),
        near(&tables.adjacencies6),
        scope(tables),
    )
}

/// Interfaces with their VRFs, what numbers stand for that are out of use, and the routes of VRFs with shared numbers.
fn scope(tables: &Tables) -> Vec<String> {
    fn routes<A: InVrf>(vrf: &Vrf) -> String {
        let all = vrf.routes::<A>().routes();
        all.iter().map(|route| format!(" {}={:?}", route.prefix, Vrf::shared(&route.next_hop))).collect()
    }
    let (all, vrfs) = interfaces(tables).snapshot(|vrfs| vrfs);
    let line = |one: &fib::InterfaceChange| {
        let now = one.now.as_ref().map(|now| {
            (&now.name, now.mac, now.mtu, now.up, now.vrf.as_ref().map(|vrf| (&vrf.name, vrf.table)))
        });
        format!("{} {} {} {now:?}", one.number, one.port, one.tags)
    };
    let vrf = |vrf: &Arc<Vrf>| format!("{vrf:?}{}{}", routes::<u32>(vrf), routes::<u128>(vrf));
    all.iter().map(line).chain(vrfs.iter().map(vrf)).collect()
}

/// What workers read for these addresses of packets of each interface: next hop and adjacency.
pub fn lookups(tables: &Tables) -> Vec<(Option<NextHop>, Adjacency)> {
    let vrf = |number| interfaces(tables).with(|map| map.get(number)?.vrf.clone());
    let vrfs: Vec<Option<Arc<Vrf>>> = (0..MOST_INTERFACES.into()).map(vrf).collect();
    vrfs.iter().flat_map(|vrf| lookups_in(tables, vrf.as_deref())).collect()
}

fn lookups_in(tables: &Tables, vrf: Option<&Vrf>) -> Vec<(Option<NextHop>, Adjacency)> {
    let reader = Reader::new();
    (0..64u32)
        .map(|top| {
            let mut hops = [None];
            match vrf {
                None => tables.routes4.lookup_batch(&reader, &[top << 26 | 1], &mut hops),
                Some(vrf) => {
                    let hop = vrf.routes4.lookup(&reader, top << 26 | 1);
                    hops[0] = hop.and_then(|hop| Vrf::shared(&hop));
                }
            }
            let number = NextHopId::bits(hops[0]);
            let forwarding = tables.adjacencies4.read(&reader);
            let number = forwarding.choose(number, || top.wrapping_mul(0x9e37_79b9));
            let adjacency = forwarding.list().get(number as usize).copied().unwrap_or(Adjacency::UNRESOLVED);
            let hop = hops[0].map(|hop| tables.routes4.next_hops(&reader)[hop.index()]);
            (hop, adjacency)
        })
        .collect()
}
