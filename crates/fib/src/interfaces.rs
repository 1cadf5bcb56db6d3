//! The interfaces that packets come in by and leave by: ports, and VLANs of ports; and VRFs, which have routes of their own.
//!
//! ```text
//!  port, tags of a frame ─▶ number of an interface ─▶ VRF, or none: the table that all others share
//!                                   └──▶ tags of frames that leave by it
//! ```
//!
//! Numbers of ports are those of outputs; VLANs have numbers behind them. Next hops name interfaces by number, whatever VRF
//! the route is in: so all VRFs share one list of adjacencies, and routes may lead from one VRF to another.

mod settings;
mod watch;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use epoch::{PerWorker, Reader, Table, Tally};

use crate::lookup::Fib;
use crate::next_hop::{NextHop, NextHopId};
use crate::range_tree::RangeTree;
use crate::route_table::RouteTable;
use crate::structure::Structured;
use crate::unread::Unread;
pub use settings::{InterfaceSettings, SourceCheck};
pub use watch::{InterfaceChange, InterfaceWatch};

/// Bytes of one VLAN tag.
const TAG_LEN: usize = 4;
/// Tags that a frame may have.
const MOST_TAGS: usize = 2;
/// VLAN numbers (12 bits).
const IDS: usize = 4096;

/// The VLAN tags of an interface, the outer one first: none of a port itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tags {
    bytes: [u8; TAG_LEN * MOST_TAGS],
    count: u8,
}

impl Tags {
    /// No tag.
    pub const NONE: Tags = Tags { bytes: [0; TAG_LEN * MOST_TAGS], count: 0 };
    /// The EtherType of a tag of IEEE 802.1Q.
    pub const CUSTOMER: u16 = 0x8100;
    /// The EtherType of a tag of IEEE 802.1ad.
    pub const SERVICE: u16 = 0x88a8;
    /// The most bytes that tags take.
    pub const MOST_BYTES: usize = TAG_LEN * MOST_TAGS;

    /// These tags, and behind them one of this protocol with this number; `None` if there is no such protocol or number, or
    /// they would be too many.
    pub fn then(mut self, protocol: u16, id: u16) -> Option<Tags> {
        if ![Tags::CUSTOMER, Tags::SERVICE].contains(&protocol) || !(1..IDS as u16 - 1).contains(&id) {
            return None;
        }
        let len = self.len();
        let tag = self.bytes.get_mut(len..)?.first_chunk_mut::<TAG_LEN>()?;
        [tag[0], tag[1]] = protocol.to_be_bytes();
        [tag[2], tag[3]] = id.to_be_bytes();
        self.count += 1;
        Some(self)
    }

    /// Their length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        TAG_LEN * usize::from(self.count)
    }

    /// True of a port itself.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// As they stand in a frame, between the source address and the EtherType.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// Protocol and number of each.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let (tags, _) = self.bytes().as_chunks::<TAG_LEN>();
        tags.iter().map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// Those of the interface below, and the innermost one.
    fn split_last(&self) -> Option<(Tags, (u16, u16))> {
        let last = self.iter().last()?;
        let mut below = Tags::NONE;
        for (protocol, id) in self.iter().take(usize::from(self.count) - 1) {
            below = below.then(protocol, id)?;
        }
        Some((below, last))
    }
}

/// As `ip` writes them, from the outside inwards: `100`, `802.1ad 7.100`; `-` for none.
impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        for (i, (protocol, id)) in self.iter().enumerate() {
            let dot = if i > 0 { "." } else { "" };
            let kind = if protocol == Tags::SERVICE { "ad:" } else { "" };
            write!(f, "{dot}{kind}{id}")?;
        }
        Ok(())
    }
}

/// The routes of one VRF.
///
/// The port of a next hop of its tables is the number that the next hop has in the table that all share
/// ([`Vrf::shared`]).
pub struct Vrf {
    /// Its name.
    pub name: String,
    /// The number of its table in Linux.
    pub table: u32,
    /// IPv4 routes.
    pub routes4: RouteTable<u32>,
    /// IPv6 routes.
    pub routes6: RouteTable<u128>,
}

impl Vrf {
    /// One without routes.
    pub fn new(name: &str, table: u32) -> Vrf {
        Vrf::with(name, table, RangeTree::new(), RangeTree::new())
    }

    fn with(name: &str, table: u32, fib4: impl Fib<u32> + 'static, fib6: impl Fib<u128> + 'static) -> Vrf {
        let (routes4, routes6) = (RouteTable::new(fib4), RouteTable::new(fib6));
        Vrf { name: name.to_owned(), table, routes4, routes6 }
    }

    /// What stands in its tables for a next hop of the shared table.
    pub fn hop(shared: NextHopId) -> NextHop {
        NextHop { gateway: None, port: NextHopId::bits(Some(shared)) }
    }

    /// The number in the shared table that a next hop of its tables stands for.
    #[inline]
    pub fn shared(hop: &NextHop) -> Option<NextHopId> {
        NextHopId::from_bits(hop.port)
    }

    /// Its routes of one family.
    #[inline]
    pub fn routes<A: InVrf>(&self) -> &RouteTable<A> {
        A::routes_in(self)
    }

    /// The numbers of the shared table that its routes of one family lead to, each once.
    pub fn numbers_in_use<A: InVrf>(&self) -> Vec<NextHopId> {
        let now = self.routes::<A>().snapshot(|| ());
        let mut in_use = vec![false; now.next_hops.len()];
        for (_, hop) in &now.rib {
            if let Some(mark) = in_use.get_mut(hop.index()) {
                *mark = true;
            }
        }
        let used = now.next_hops.iter().zip(in_use).filter(|(_, in_use)| *in_use);
        used.filter_map(|(hop, _)| Vrf::shared(hop)).collect()
    }
}

impl fmt::Debug for Vrf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vrf").field("name", &self.name).field("table", &self.table).finish_non_exhaustive()
    }
}

/// A family of addresses that VRFs have routes for.
pub trait InVrf: Structured {
    /// The routes of this family.
    fn routes_in(vrf: &Vrf) -> &RouteTable<Self>;
}

impl InVrf for u32 {
    fn routes_in(vrf: &Vrf) -> &RouteTable<u32> {
        &vrf.routes4
    }
}

impl InVrf for u128 {
    fn routes_in(vrf: &Vrf) -> &RouteTable<u128> {
        &vrf.routes6
    }
}

/// What workers have seen of an interface.
#[derive(Debug)]
pub struct InterfaceCounts {
    /// Frames that came.
    pub received: PerWorker<Tally>,
    /// Frames that were forwarded out of it, tags included.
    pub sent: PerWorker<Tally>,
}

/// An interface.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The port that its frames come and go by.
    pub port: u16,
    /// Their tags.
    pub tags: Tags,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet in bytes.
    pub mtu: u32,
    /// It is set up.
    pub up: bool,
    /// How packets that come in by it are treated.
    pub settings: InterfaceSettings,
    /// The VRF that it is in.
    pub vrf: Option<Arc<Vrf>>,
    /// What it has seen.
    pub counts: Arc<InterfaceCounts>,
}

/// Equal if workers would do the same.
impl PartialEq for Interface {
    fn eq(&self, other: &Interface) -> bool {
        let vrf = |of: &Interface| of.vrf.as_ref().map(Arc::as_ptr);
        let rest = |of: &Interface| (of.port, of.tags, of.mac, of.mtu, of.up);
        self.name == other.name
            && rest(self) == rest(other)
            && self.settings == other.settings
            && vrf(self) == vrf(other)
    }
}

/// The VLANs on one interface: numbers of interfaces by protocol and VLAN number, 0 = none.
type Above = [Option<Box<[u16; IDS]>>; 2];

/// What workers read.
#[derive(Debug, Default)]
pub struct InterfaceMap {
    /// By number.
    all: Vec<Option<Interface>>,
    /// VLANs by the number of the interface below.
    above: Vec<Above>,
    has_vrfs: bool,
    checks_sources: bool,
}

impl InterfaceMap {
    fn new(all: Vec<Option<Interface>>) -> InterfaceMap {
        let mut above: Vec<Above> = Vec::new();
        above.resize_with(all.len(), Above::default);
        let number_of = |port: u16, tags: Tags| {
            let is_it = |one: &Option<Interface>| {
                one.as_ref().is_some_and(|one| (one.port, one.tags) == (port, tags))
            };
            all.iter().position(is_it)
        };
        for (number, one) in all.iter().enumerate() {
            let Some((one, (below, (protocol, id)))) =
                one.as_ref().and_then(|one| Some((one, one.tags.split_last()?)))
            else {
                continue;
            };
            let below = if below.is_empty() { Some(one.port.into()) } else { number_of(one.port, below) };
            if let (Some(above), Ok(number)) =
                (below.and_then(|below| above.get_mut(below)), u16::try_from(number))
            {
                let ids = above[usize::from(protocol == Tags::SERVICE)].get_or_insert_with(|| {
                    // Not by way of the stack.
                    vec![0; IDS].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; IDS]))
                });
                ids[usize::from(id) % IDS] = number;
            }
        }
        let has_vrfs = all.iter().flatten().any(|one| one.vrf.is_some());
        let checks_sources = all.iter().flatten().any(|one| one.settings.sources != SourceCheck::Off);
        InterfaceMap { all, above, has_vrfs, checks_sources }
    }

    /// The interface with this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Interface> {
        self.all.get(number as usize)?.as_ref()
    }

    /// The number of the VLAN on interface `below` of which frames have this tag.
    #[inline]
    pub fn above(&self, below: u32, protocol: u16, id: u16) -> Option<u32> {
        let ids = self.above.get(below as usize)?[usize::from(protocol == Tags::SERVICE)].as_ref()?;
        Some(ids[usize::from(id) % IDS].into()).filter(|number| *number != 0)
    }

    /// The VRF of the interface with this number; `None`: routes are those that all others share.
    #[inline]
    pub fn vrf(&self, number: u32) -> Option<&Vrf> {
        self.get(number)?.vrf.as_deref()
    }

    /// True if some interface is in a VRF.
    #[inline]
    pub fn has_vrfs(&self) -> bool {
        self.has_vrfs
    }

    /// True if Linux checks sources of packets on some interface.
    #[inline]
    pub fn checks_sources(&self) -> bool {
        self.checks_sources
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Interface)> {
        (0..).zip(&self.all).filter_map(|(number, one)| Some((number, one.as_ref()?)))
    }

    /// True as long as nobody has told of any interface.
    pub fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    /// The VRFs that interfaces are in, by the numbers of their tables.
    pub fn vrfs(&self) -> Vec<Arc<Vrf>> {
        let mut vrfs: Vec<Arc<Vrf>> = self.iter().filter_map(|(_, one)| one.vrf.clone()).collect();
        vrfs.sort_by_key(|vrf| vrf.table);
        vrfs.dedup_by_key(|vrf| vrf.table);
        vrfs
    }
}

/// The interfaces of a router: changed by whoever knows them, read by workers.
#[derive(Debug)]
pub struct Interfaces {
    map: Table<InterfaceMap>,
    known: Mutex<watch::Known>,
    workers: usize,
    /// Routes of VRFs are looked up in.
    is_read: bool,
    /// For which of them is counted.
    counts_routes: AtomicBool,
}

impl Interfaces {
    /// The most interfaces: numbers have 16 bits, of which a few mean something else.
    pub const MOST: usize = 0x7000;

    /// No interface is known; so many workers will count frames.
    pub fn new(workers: usize) -> Interfaces {
        Interfaces {
            map: Table::default(),
            known: Mutex::default(),
            workers,
            is_read: true,
            counts_routes: AtomicBool::new(false),
        }
    }

    /// The same where no worker is: nothing is counted, and routes of VRFs are only kept ([`Unread`]).
    pub fn unread() -> Interfaces {
        Interfaces { is_read: false, ..Interfaces::new(0) }
    }

    /// A VRF without routes, for interfaces of these.
    pub fn vrf(&self, name: &str, table: u32) -> Arc<Vrf> {
        let vrf = if self.is_read { Vrf::new(name, table) } else { Vrf::with(name, table, Unread, Unread) };
        if self.counts_routes.load(Ordering::Relaxed) {
            vrf.routes4.count_routes(self.workers, RangeTree::new);
            vrf.routes6.count_routes(self.workers, RangeTree::new);
        }
        Arc::new(vrf)
    }

    /// Of VRFs that come from now on [is counted](RouteTable::count_routes) for which routes they are looked up.
    pub fn count_routes(&self) {
        self.counts_routes.store(true, Ordering::Relaxed);
    }

    /// What is known now.
    #[inline]
    pub fn read<'c>(&'c self, reader: &'c Reader) -> &'c InterfaceMap {
        self.map.read(reader)
    }

    /// The same, for a thread without a [`Reader`].
    pub fn with<R>(&self, look: impl FnOnce(&InterfaceMap) -> R) -> R {
        self.map.with(look)
    }

    /// Counters of an interface that is new.
    pub fn counts(&self) -> Arc<InterfaceCounts> {
        let tallies = || PerWorker::new(self.workers);
        Arc::new(InterfaceCounts { received: tallies(), sent: tallies() })
    }

    /// Frees what no worker can see any more.
    pub fn collect(&self) {
        self.map.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(all: &Interfaces, port: u16, tags: Tags, vrf: Option<&Arc<Vrf>>) -> Option<Interface> {
        let (name, counts) = (format!("eth{port}.{tags}"), all.counts());
        Some(Interface {
            name,
            port,
            tags,
            mac: [2; 6],
            mtu: 1500,
            up: true,
            settings: InterfaceSettings::default(),
            vrf: vrf.cloned(),
            counts,
        })
    }

    #[test]
    fn tags_are_as_in_frames() {
        let one = Tags::NONE.then(Tags::CUSTOMER, 100).unwrap();
        let two = Tags::NONE.then(Tags::SERVICE, 7).unwrap().then(Tags::CUSTOMER, 4094).unwrap();
        assert_eq!(
            (one.bytes(), two.bytes()),
            (&[0x81, 0, 0, 100][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 15, 254][..])
        );
        assert_eq!(two.iter().collect::<Vec<_>>(), [(Tags::SERVICE, 7), (Tags::CUSTOMER, 4094)]);
        assert_eq!([Tags::NONE, one, two].map(|tags| tags.to_string()), ["-", "100", "ad:7.4094"]);
        assert_eq!(two.then(Tags::CUSTOMER, 1), None);
        assert_eq!([0, 4095, 5000].map(|id| Tags::NONE.then(Tags::CUSTOMER, id)), [None; 3]);
        assert_eq!(Tags::NONE.then(0x9100, 1), None);
    }

    #[test]
    fn interfaces_are_found_by_tag() {
        let (all, reader) = (Interfaces::new(2), Reader::new());
        let red = Arc::new(Vrf::new("red", 10));
        let tag = |id| Tags::NONE.then(Tags::CUSTOMER, id).unwrap();
        let outer = Tags::NONE.then(Tags::SERVICE, 100).unwrap();
        let inner = outer.then(Tags::CUSTOMER, 5).unwrap();
        let list = vec![
            interface(&all, 0, Tags::NONE, None),
            interface(&all, 1, Tags::NONE, Some(&red)),
            interface(&all, 1, inner, None),
            None,
            interface(&all, 1, tag(100), Some(&red)),
            interface(&all, 1, outer, None),
        ];
        assert!(all.set(list.clone()) && !all.set(list.clone()));
        let map = all.read(&reader);
        let ids = [
            (0, 0x8100, 100),
            (1, 0x8100, 100),
            (1, 0x88a8, 100),
            (5, 0x8100, 5),
            (1, 0x8100, 5),
            (9, 0x8100, 5),
        ];
        let found = ids.map(|(below, protocol, id)| map.above(below, protocol, id));
        assert_eq!(found, [None, Some(4), Some(5), Some(2), None, None]);
        assert_eq!(
            [0, 1, 3, 4, 77].map(|n| map.vrf(n).map(|vrf| vrf.table)),
            [None, Some(10), None, Some(10), None]
        );
        assert_eq!((map.iter().count(), map.vrfs().len()), (5, 1));
        // The VLAN goes; what is above an interface that is gone cannot be reached.
        let mut list = list;
        (list[4], list[5]) = (None, None);
        assert!(all.set(list));
        let map = all.read(&reader);
        assert_eq!((map.above(1, 0x8100, 100), map.above(5, 0x8100, 5)), (None, None));
    }

    #[test]
    fn routes_of_a_vrf_lead_to_shared_numbers() {
        let (vrf, reader) = (Vrf::new("red", 10), Reader::new());
        let number = NextHopId::new(41).unwrap();
        let route = crate::Route { prefix: "10.0.0.0/8".parse().unwrap(), next_hop: Vrf::hop(number) };
        vrf.routes4.apply(&[crate::RouteChange::Set(route)]).unwrap();
        let hop = vrf.routes::<u32>().lookup(&reader, 0x0a00_0001).unwrap();
        assert_eq!(Vrf::shared(&hop), Some(number));
        assert_eq!(vrf.routes::<u128>().lookup(&reader, 1), None);
    }
}
