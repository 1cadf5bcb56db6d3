//! From the model to the tables that workers read.
//!
//! Next hops are (gateway, port). Beside those of real ports there are some that stand for something else:
//! - [`PUNT`]: the packet is for Linux, as it came. It never has an adjacency. Without a gateway there is no route that
//!   leads anywhere (none, one to ourselves, one that refuses). With the gateway 0.0.0.0, which is nobody's, Linux has a
//!   route out of an interface that is no port.
//! - [`BLACKHOLE`]: the packet is lost.
//! - [`object_number`]: a next-hop object. Routes over an object name only the object, so that a change of it is a change
//!   of one adjacency, or of one group, however many routes there are.
//!   Object 0, which there is not, stands for what Linux routes by more than the destination (rules, `tos`, `from`).
//! - [`set_number`]: the ways of a route with several, likewise.
//!
//! Routes with an MTU of their own have next hops with it ([`NextHop::mtu`]), and sets with such members.
//!
//! A neighbour of a connected network becomes a route of its own; the rest of the network has a next hop without an
//! adjacency, so that packets to neighbours that are not known go to Linux, which finds them out.

mod adjacency;
mod groups;
mod interfaces;
mod paths;
mod policy;
mod routes;
mod settings;
mod tables;
mod vrfs;

use crate::kernel::Model;
use crate::netlink::{LOCAL_TABLE, Link, MAIN_TABLE};
use epoch::Reader;
use fib::{Address, Adjacencies, Family, NextHop, Prefix, RouteTable, Vrf};
use groups::{AllSets, Wanted, standing_for};
use interfaces::{Places, VrfState};
use paths::View;
use policy::Policy;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
pub use tables::{Near, Tables};
use vrfs::Round;

/// The port of the next hop of packets for Linux.
pub const PUNT: u32 = u32::MAX;
/// The port of the next hop of packets that are lost on purpose.
pub const BLACKHOLE: u32 = u32::MAX - 1;
/// Ports from here on stand for next-hop objects.
const OBJECTS: u32 = 1 << 31;

/// The port of the next hop of what Linux routes by more than the destination.
pub const BY_POLICY: u32 = OBJECTS;

/// The next-hop object that a port number of a next hop stands for.
pub fn object_number(port: u32) -> Option<u32> {
    (OBJECTS..BLACKHOLE).contains(&port).then(|| port - OBJECTS)
}

/// Ports from here on stand for sets of ways.
const SETS: u32 = 1 << 30;
/// So many sets are numbered; routes with further ones lead over their first way.
const SETS_END: u32 = SETS + (1 << 20);

/// The set of ways that a port number of a next hop stands for.
pub fn set_number(port: u32) -> Option<u32> {
    (SETS..SETS_END).contains(&port).then(|| port - SETS)
}

/// Prefixes that are looked at in one go, so that news are read in between; only what is there at the start is published
/// whole, which makes the tables in one pass. Of more changes at once than this tables are made anew.
const CHUNK: usize = 4096;

/// What has been published so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Changes of routes in the tables.
    pub route_changes: u64,
    /// Changes of adjacencies.
    pub adjacency_changes: u64,
    /// Routes that a table refused.
    pub refused: u64,
}

/// See the module.
pub struct Publisher {
    tables: Tables,
    places: Places,
    ports_changed: bool,
    started: bool,
    /// Interfaces as they were last looked at.
    links: HashMap<u32, LinkState>,
    dirty4: Vec<Prefix<u32>>,
    dirty6: Vec<Prefix<u128>>,
    /// What is Linux's by rules of policy routing.
    policy: Policy,
    /// Objects that have an adjacency or a group of their own.
    indirect: HashSet<u32>,
    sets: AllSets,
    wanted: Wanted,
    /// Ports without a carrier, whatever their twins say.
    cut: HashSet<u32>,
    cables_changed: bool,
    found: Found,
    /// What has been published so far.
    pub counts: Counts,
}

/// What becomes of what was in the tables at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// There is nothing of it left that is not known.
    Known,
    /// It stays: not everything has been told yet.
    Held,
    /// What is not known goes.
    Swept,
}

/// One family of tables.
struct Half<'a, A: Address> {
    /// Routes that all share; next hops of VRFs have their numbers here, too.
    routes: &'a RouteTable<A>,
    /// The routes of the VRF that this is about.
    vrf: Option<&'a RouteTable<A>>,
    adjacencies: &'a Adjacencies,
    dirty: &'a mut Vec<Prefix<A>>,
    wanted: &'a mut Wanted,
}

impl Publisher {
    /// A publisher for tables that are still empty, or as an earlier one left them: then what is in them and has not been
    /// told yet stays until [`sweep`](Self::sweep). `ports` are the interface numbers of the twins, by
    /// port; 0 for none. VLANs have numbers behind those of all these.
    pub fn new(tables: Tables, ports: &[u32]) -> Publisher {
        let is_empty = tables.routes4.is_empty() && tables.routes6.is_empty();
        let mut sets = AllSets::default();
        sets.find(&tables);
        Publisher {
            places: Places::new(ports, tables.interfaces.clone()),
            tables,
            ports_changed: false,
            started: false,
            links: HashMap::new(),
            dirty4: Vec::new(),
            dirty6: Vec::new(),
            policy: Policy::default(),
            indirect: HashSet::new(),
            sets,
            wanted: Wanted::new(),
            cut: HashSet::new(),
            cables_changed: false,
            found: if is_empty { Found::Known } else { Found::Held },
            counts: Counts::default(),
        }
    }

    /// Publishes what has changed in `kernel`, and in `frr` if routes come from there. True if there is more to do,
    /// because there was very much.
    pub fn publish(&mut self, kernel: &mut Model, mut frr: Option<&mut Model>, reader: &mut Reader) -> bool {
        let News { links, neighbours, objects, gone, near, from4, from6 } =
            self.news(kernel, frr.as_deref_mut());
        let mut vrfs = std::mem::take(&mut self.places.vrfs);
        let view = View {
            kernel,
            routes: frr.as_deref().unwrap_or(kernel),
            ports: &self.places.ports,
            places: &self.places,
            policy: &self.policy,
            table: MAIN_TABLE,
            sets: &self.sets,
            cut: &self.cut,
            is_partial: self.found == Found::Held,
        };
        let mut all = links == LinkNews::Usable;
        let links_changed = links >= LinkNews::Properties;
        if !objects.is_empty() || all {
            let indirect = view.indirect();
            // Only then do routes over objects name something else than before.
            all |= indirect != self.indirect || objects.iter().any(|id| !indirect.contains(id));
            self.indirect = indirect;
        }
        let (tables, every) = (&self.tables, links_changed || !self.started);
        let (mut wanted4, mut wanted6) = (Wanted::new(), Wanted::new());
        let mut half4 = Half::of4(tables, None, &mut self.dirty4, &mut wanted4);
        let mut half6 = Half::of6(tables, None, &mut self.dirty6, &mut wanted6);
        if every {
            half4.links(&view);
            half6.links(&view);
        }
        if near {
            let are_all = self.found == Found::Known;
            let changes =
                adjacency::Changes { neighbours: &neighbours, every, objects: &self.indirect, are_all };
            self.counts.adjacency_changes += half4.adjacencies(&view, &changes, reader);
            self.counts.adjacency_changes += half6.adjacencies(&view, &changes, reader);
        }
        half4.widen(&view, all || !self.started, &neighbours, from4);
        half6.widen(&view, all || !self.started, &neighbours, from6);
        let most = if self.started { CHUNK } else { usize::MAX };
        half4.routes(&view, most, reader, &mut self.counts);
        half6.routes(&view, most, reader, &mut self.counts);
        let round = Round { tables, view: &view, all: all || !self.started, most, neighbours: &neighbours };
        round.forget(&gone);
        let mut wanted = Wanted::new();
        let more = round.publish(&mut vrfs, &mut wanted, reader, &mut self.counts);
        let more = more || !half4.dirty.is_empty() || !half6.dirty.is_empty();
        if self.found == Found::Swept && !more {
            self.found = Found::Known;
            self.counts.adjacency_changes += half4.sweep(&view, &self.indirect, reader);
            self.counts.adjacency_changes += half6.sweep(&view, &self.indirect, reader);
        }
        self.started = true;
        if near {
            // All groups have been looked at.
            self.wanted.clear();
        }
        self.wanted.extend(wanted4.into_iter().chain(wanted6).chain(wanted));
        reader.quiescent();
        self.places.vrfs = vrfs;
        self.places.show();
        more
    }

    /// Everything has been told: what was in the tables at the start and is not known goes with the next publications,
    /// routes before what they lead to.
    pub fn sweep(&mut self) {
        if self.is_holding() {
            self.found = Found::Swept;
            self.ports_changed |= self.places.release();
            self.dirty4.extend(self.tables.routes4.snapshot(|| ()).rib.iter().map(|(prefix, _)| prefix));
            self.dirty6.extend(self.tables.routes6.snapshot(|| ()).rib.iter().map(|(prefix, _)| prefix));
            for state in self.places.vrfs.values_mut() {
                state.look_at_all();
            }
        }
    }

    /// VLANs and VRFs of the tables stay as well until [`sweep`](Self::sweep), those that the kernel does not show before.
    pub fn hold_interfaces(&mut self) {
        if self.is_holding() {
            self.places.hold(self.tables.neighbours_behind_vlans());
        }
    }

    /// True as long as something stays in the tables that has not been told.
    pub fn is_holding(&self) -> bool {
        self.found == Found::Held
    }

    /// Takes what has changed out of the models; the prefixes among it are noted to be looked at.
    fn news(&mut self, kernel: &mut Model, frr: Option<&mut Model>) -> News {
        let (mut changed4, mut changed6) = (kernel.routes4.take_changed(), kernel.routes6.take_changed());
        self.look_at_rules(kernel, &changed4, &changed6);
        let links = self.changed_links(kernel);
        let gone =
            if links == LinkNews::None { Vec::new() } else { self.places.update(kernel, &self.policy) };
        let neighbours = kernel.neighbours.take_changed();
        let mut objects = kernel.next_hops.take_changed();
        kernel.addresses.take_changed();
        if let Some(frr) = frr {
            objects = frr.next_hops.take_changed();
            let is_ours = |table: u32| table == LOCAL_TABLE || self.places.vrfs.contains_key(&table);
            changed4.retain(|(table, _)| is_ours(*table));
            changed6.retain(|(table, _)| is_ours(*table));
            changed4.extend(frr.routes4.take_changed());
            changed6.extend(frr.routes6.take_changed());
        }
        let (from4, from6) = (self.dirty4.len(), self.dirty6.len());
        let ours = |table: u32| table == LOCAL_TABLE || table == MAIN_TABLE;
        for (table, state) in &mut self.places.vrfs {
            let ours = |of: u32| of == LOCAL_TABLE || of == *table;
            state.dirty4.extend(changed4.iter().filter(|(table, _)| ours(*table)).map(|(_, prefix)| prefix));
            state.dirty6.extend(changed6.iter().filter(|(table, _)| ours(*table)).map(|(_, prefix)| prefix));
        }
        self.dirty4.extend(changed4.into_iter().filter(|(table, _)| ours(*table)).map(|(_, prefix)| prefix));
        self.dirty6.extend(changed6.into_iter().filter(|(table, _)| ours(*table)).map(|(_, prefix)| prefix));
        let near = !neighbours.is_empty()
            || !objects.is_empty()
            || links >= LinkNews::Properties
            || !self.started
            || std::mem::take(&mut self.cables_changed);
        News { links, neighbours, objects, gone, near, from4, from6 }
    }

    /// Takes note of what is Linux's by rules now. Where that has changed everything is looked at again.
    fn look_at_rules(
        &mut self,
        kernel: &mut Model,
        changed4: &[(u32, Prefix<u32>)],
        changed6: &[(u32, Prefix<u128>)],
    ) {
        let depends = !kernel.rules.take_changed().is_empty()
            || changed4.iter().any(|(table, _)| self.policy.depends_on::<u32>(*table))
            || changed6.iter().any(|(table, _)| self.policy.depends_on::<u128>(*table));
        if !depends {
            return;
        }
        let new = Policy::of(kernel);
        if new == self.policy {
            return;
        }
        let old = std::mem::replace(&mut self.policy, new);
        let both4: Vec<_> = old.prefixes::<u32>().chain(self.policy.prefixes()).collect();
        let both6: Vec<_> = old.prefixes::<u128>().chain(self.policy.prefixes()).collect();
        for state in self.places.vrfs.values_mut() {
            state.dirty4.extend(&both4);
            state.dirty6.extend(&both6);
        }
        self.dirty4.extend(both4);
        self.dirty6.extend(both6);
        self.ports_changed = true;
    }

    /// A port has got or lost its carrier: groups do without its neighbours from the next publication on.
    pub fn set_cable(&mut self, port: usize, carrier: bool) {
        let Ok(port) = u32::try_from(port) else { return };
        self.cables_changed |= if carrier { self.cut.remove(&port) } else { self.cut.insert(port) };
    }

    /// Another interface is the twin of a port from the next publication on; 0: none. Where there are VLANs the port must be one
    /// of those that [`new`](Self::new) was given.
    pub fn set_port(&mut self, port: usize, twin: u32) {
        let Some(number) = self.places.set_twin(port, twin) else { return };
        self.cut.remove(&number);
        self.ports_changed = true;
    }

    /// Neighbours that groups would like to use and Linux does not know: it is to find them out.
    pub fn wanted(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.wanted.iter().copied()
    }

    /// VLANs on ports and VRFs of ports that are new since the last call: Linux is to forward what it gets there.
    pub fn take_fresh_links(&mut self) -> Vec<u32> {
        self.places.take_fresh()
    }

    /// Neighbours that were known before their VLANs came, which is since the last call: Linux need not find them out.
    pub fn take_strangers(&mut self) -> Vec<(u32, IpAddr, [u8; 6])> {
        self.places.take_strangers()
    }

    /// True once something was published.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// The interface number of a port's twin.
    pub fn twin(&self, port: usize) -> Option<u32> {
        self.places.twin(port)
    }

    /// True if this interface is a port's twin, or a VLAN on one.
    pub fn is_port(&self, link: u32) -> bool {
        self.places.ports.contains_key(&link)
    }

    /// What interfaces have changed in that decides where packets go: nothing, their address, or how they can be used.
    fn changed_links(&mut self, kernel: &mut Model) -> LinkNews {
        if std::mem::take(&mut self.ports_changed) {
            return self.all_links(kernel);
        }
        let mut news = LinkNews::None;
        let mut changed = kernel.links.take_changed();
        changed.extend(kernel.polled.take_changed());
        if !kernel.netconf.take_changed().is_empty() {
            news = LinkNews::Names;
        }
        for index in changed {
            let new = kernel.links.get(index).map(|link| LinkState::of(kernel, link));
            let old = match new {
                Some(new) => self.links.insert(index, new),
                None => self.links.remove(&index),
            };
            // Which routes are narrower than their link depends on its MTUs.
            let usable = |state: Option<LinkState>| {
                state.map(|state| (state.up, state.carrier, state.mtus, state.place))
            };
            if usable(old) != usable(new) {
                return self.all_links(kernel);
            }
            news = news.max(if old == new { LinkNews::Names } else { LinkNews::Properties });
        }
        news
    }

    /// Takes note of all interfaces as they are.
    fn all_links(&mut self, kernel: &mut Model) -> LinkNews {
        kernel.links.take_changed();
        kernel.polled.take_changed();
        kernel.netconf.take_changed();
        self.links = kernel.links.iter().map(|(index, link)| (index, LinkState::of(kernel, link))).collect();
        LinkNews::Usable
    }
}

impl<'a> Half<'a, u32> {
    fn of4(
        tables: &'a Tables,
        vrf: Option<&'a Vrf>,
        dirty: &'a mut Vec<Prefix<u32>>,
        wanted: &'a mut Wanted,
    ) -> Self {
        let vrf = vrf.map(|vrf| &vrf.routes4);
        Half { routes: &tables.routes4, vrf, adjacencies: &tables.adjacencies4, dirty, wanted }
    }
}

impl<'a> Half<'a, u128> {
    fn of6(
        tables: &'a Tables,
        vrf: Option<&'a Vrf>,
        dirty: &'a mut Vec<Prefix<u128>>,
        wanted: &'a mut Wanted,
    ) -> Self {
        let vrf = vrf.map(|vrf| &vrf.routes6);
        Half { routes: &tables.routes6, vrf, adjacencies: &tables.adjacencies6, dirty, wanted }
    }
}

impl<A: paths::In> Half<'_, A> {
    /// Publishes what depends on the ports' links alone: MTUs, and the seed of choices in groups.
    fn links(&self, view: &View<'_>) {
        let ports = &view.places.links;
        let mtu = |(number, link): (u16, &u32)| {
            let of = |link: &Link| match A::FAMILY {
                Family::Ipv4 => link.mtu,
                Family::Ipv6 => settings::mtu6(view.kernel, link),
            };
            let mtu = view.kernel.links.get(*link).map(of).or(view.places.held_mtu(number));
            mtu.map_or(u16::MAX, |mtu| mtu.min(0xffff) as u16)
        };
        // There are fewer than 2^16.
        let mtus: Vec<u16> = (0..).zip(ports).map(mtu).collect();
        let mac = ports.first().and_then(|link| view.kernel.links.get(*link)?.mac).unwrap_or_default();
        // Two routers differ in their addresses, and one keeps its choices when it is started again.
        let seed = mac.iter().fold(0u32, |seed, byte| (seed ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        self.adjacencies.set_links(&mtus, seed, &self.routes.next_hop_list());
    }
}

/// What has changed since the last publication.
struct News {
    links: LinkNews,
    neighbours: HashSet<(u32, IpAddr)>,
    objects: HashSet<u32>,
    /// Adjacencies and groups are to be looked at.
    near: bool,
    /// VRFs that no interface is in any more.
    gone: Vec<VrfState>,
    /// Where the prefixes begin that have changed, among those that are still to be looked at.
    from4: usize,
    from6: usize,
}

/// What matters of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkState {
    up: bool,
    carrier: bool,
    mac: Option<[u8; 6]>,
    /// Of IPv4 and IPv6.
    mtus: [u32; 2],
    /// What it is in or on, its VLAN number and protocol, and its table if it is a VRF.
    place: (u32, u32, Option<u16>, u16, Option<u32>),
}

impl LinkState {
    fn of(kernel: &Model, link: &Link) -> LinkState {
        let place = (link.master, link.below, link.vlan, link.vlan_protocol, link.table);
        let mtus = [link.mtu, settings::mtu6(kernel, link)];
        LinkState { up: link.up, carrier: link.carrier, mac: link.mac, mtus, place }
    }
}

/// What interfaces have changed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LinkNews {
    None,
    /// What they are called.
    Names,
    Properties,
    Usable,
}

/// True of next hops that do not name an interface.
fn is_special(hop: &NextHop) -> bool {
    hop.port >= SETS
}

/// The next hop of packets that Linux routes by more than their destination. It never has an adjacency; the kernel gives no object
/// this number. Of sources with it Linux decides, with `--rpf` they are right.
const fn by_policy() -> NextHop {
    standing_for(BY_POLICY)
}

/// The next hop that stands for Linux.
const fn punt() -> NextHop {
    NextHop { gateway: None, port: PUNT }
}

/// The next hop of routes that Linux has out of interfaces of its own.
const fn elsewhere() -> NextHop {
    NextHop { gateway: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port: PUNT }
}

/// The address as one of this family.
fn of_family<A: Address>(ip: IpAddr) -> Option<A> {
    A::from_ip(ip)
}
