//! The tables that workers read.

use fib::{Adjacencies, Adjacency, Dir24_8, Fib, Interfaces, NextHop, RangeTree, RouteTable};
use std::net::IpAddr;
use std::sync::Arc;

/// The tables of a router, shared with its elements.
#[derive(Clone)]
pub struct Tables {
    /// IPv4 routes.
    pub routes4: Arc<RouteTable<u32>>,
    /// What IPv4 packets to the next hops of `routes4` begin with.
    pub adjacencies4: Arc<Adjacencies>,
    /// IPv6 routes.
    pub routes6: Arc<RouteTable<u128>>,
    /// What IPv6 packets to the next hops of `routes6` begin with.
    pub adjacencies6: Arc<Adjacencies>,
    /// Interfaces, and the routes of VRFs; `None` where there are no VLANs and no VRFs.
    pub interfaces: Option<Arc<Interfaces>>,
}

impl Default for Tables {
    /// Empty tables, of the structures that a router has.
    fn default() -> Tables {
        Tables::new(Dir24_8::new(), RangeTree::new())
    }
}

impl Tables {
    /// Empty tables in which lookups are made by these structures, without VLANs and VRFs.
    pub fn new(fib4: impl Fib<u32> + 'static, fib6: impl Fib<u128> + 'static) -> Tables {
        Tables {
            routes4: Arc::new(RouteTable::new(fib4)),
            adjacencies4: Arc::default(),
            routes6: Arc::new(RouteTable::new(fib6)),
            adjacencies6: Arc::default(),
            interfaces: None,
        }
    }

    /// With these interfaces, which other elements than those of the tables read.
    pub fn with_interfaces(self, interfaces: Arc<Interfaces>) -> Tables {
        Tables { interfaces: Some(interfaces), ..self }
    }
}

/// A neighbour: the port that it is behind, its address, its Ethernet address.
pub type Near = (u32, IpAddr, [u8; 6]);

impl Tables {
    /// The neighbours that there are adjacencies for, behind ports themselves, not VLANs on them.
    pub fn neighbours(&self) -> Vec<Near> {
        self.near(Adjacency::is_plain)
    }

    /// Those behind VLANs, by the numbers of these.
    pub(super) fn neighbours_behind_vlans(&self) -> Vec<Near> {
        self.near(Adjacency::is_tagged)
    }

    /// Those behind interfaces whose adjacencies are such.
    fn near(&self, is_such: impl Fn(&Adjacency) -> bool) -> Vec<Near> {
        let known = [&self.adjacencies4, &self.adjacencies6].map(|adjacencies| adjacencies.known());
        let near = |(hop, adjacency): (NextHop, Adjacency)| {
            let is_its = is_such(&adjacency) && u32::from(adjacency.interface()) == hop.port;
            let mac = adjacency.header.first_chunk::<6>().filter(|_| is_its)?;
            Some((hop.port, hop.gateway?, *mac))
        };
        let mut all: Vec<Near> = known.into_iter().flatten().filter_map(near).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
