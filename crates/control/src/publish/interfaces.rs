//! Interfaces of the kernel as interfaces of the router: twins of ports, VLANs on them, and the VRFs that they are in.
//!
//! A port and the tags of a VLAN have the same number for good, whatever interface of the kernel serves them, and whenever
//! it comes back: a number in an adjacency never means another VLAN.

use super::Near;
use super::policy::Policy;
use super::settings::{Above, settings};
use crate::kernel::Model;
use crate::netlink::Link;
use fib::{Interface, InterfaceMap, Interfaces, Prefix, Tags, Vrf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// How many VLANs may be on top of one another; a frame has two tags at most.
const DEPTH: u32 = 2;

/// The routes of a VRF that are still to be looked at.
pub struct VrfState {
    /// Its tables.
    pub vrf: Arc<Vrf>,
    /// Nothing was published yet.
    pub fresh: bool,
    pub dirty4: Vec<Prefix<u32>>,
    pub dirty6: Vec<Prefix<u128>>,
}

impl VrfState {
    /// For routes that have been published.
    fn of(vrf: Arc<Vrf>) -> VrfState {
        VrfState { vrf, fresh: false, dirty4: Vec::new(), dirty6: Vec::new() }
    }

    /// Every prefix that has a route is to be looked at.
    pub fn look_at_all(&mut self) {
        self.dirty4.extend(self.vrf.routes4.snapshot(|| ()).rib.iter().map(|(prefix, _)| prefix));
        self.dirty6.extend(self.vrf.routes6.snapshot(|| ()).rib.iter().map(|(prefix, _)| prefix));
    }
}

/// See the module.
pub struct Places {
    /// Interface numbers of the twins in the kernel, by port; 0 for ports without one.
    twins: Vec<u32>,
    /// What workers read; without it there are no VLANs and no VRFs.
    table: Option<Arc<Interfaces>>,
    numbers: HashMap<(u16, Tags), u16>,
    /// Numbers of interfaces by those of the kernel.
    pub ports: BTreeMap<u32, u32>,
    /// Numbers of the kernel, by number of the interface; 0 = none now.
    pub links: Vec<u32>,
    /// The port of each interface, by number.
    pub port_of: Vec<u16>,
    /// VRFs that interfaces are in, by the numbers of their tables.
    pub vrfs: BTreeMap<u32, VrfState>,
    /// What is to be shown to workers.
    news: Option<Vec<Option<Interface>>>,
    /// VLANs and VRFs of the kernel that have been seen, and those of them that nobody has asked for yet.
    seen: BTreeSet<u32>,
    fresh: Vec<u32>,
    warned: bool,
    /// VLANs that were in `table` at the start and that the kernel has not shown yet.
    held: BTreeMap<u16, Interface>,
    /// Neighbours that were in the tables then, and those of them that the kernel does not know: their VLANs have just come.
    near: Vec<Near>,
    strangers: Vec<(u32, IpAddr, [u8; 6])>,
}

impl Places {
    /// For these twins, and for numbers and VRFs that are in `table` already.
    pub fn new(twins: &[u32], table: Option<Arc<Interfaces>>) -> Places {
        let mut places = Places {
            twins: twins.to_vec(),
            table,
            numbers: HashMap::new(),
            ports: by_link(twins),
            links: twins.to_vec(),
            port_of: (0..).take(twins.len()).collect(),
            vrfs: BTreeMap::new(),
            news: None,
            seen: BTreeSet::new(),
            fresh: Vec::new(),
            warned: false,
            held: BTreeMap::new(),
            near: Vec::new(),
            strangers: Vec::new(),
        };
        let found = places.table.as_ref().map(|table| table.snapshot(|vrfs| vrfs));
        if let Some((interfaces, vrfs)) = found {
            for one in interfaces.iter().filter(|one| usize::from(one.number) >= twins.len()) {
                let number = usize::from(one.number);
                places.numbers.insert((one.port, one.tags), one.number);
                places.links.resize(places.links.len().max(number + 1), 0);
                places.port_of.resize(places.links.len(), one.port);
                places.port_of[number] = one.port;
            }
            places.vrfs = vrfs.into_iter().map(|vrf| (vrf.table, VrfState::of(vrf))).collect();
        }
        places
    }

    /// The number in the kernel of a port's twin.
    pub fn twin(&self, port: usize) -> Option<u32> {
        self.twins.get(port).copied().filter(|twin| *twin != 0)
    }

    /// Another interface is the twin of a port; 0: none. Returns the port's number, if it can have one: there are no more
    /// interfaces, and where there are VLANs their numbers follow those of the ports that there were from the beginning, with
    /// twins or without.
    pub fn set_twin(&mut self, port: usize, twin: u32) -> Option<u32> {
        let number = u16::try_from(port).ok().filter(|_| port < Interfaces::MOST)?;
        if port >= self.twins.len() {
            if self.table.is_some() {
                return None;
            }
            self.twins.resize(port + 1, 0);
            self.port_of = (0..=number).collect();
        }
        self.twins[port] = twin;
        if self.table.is_none() {
            (self.ports, self.links) = (by_link(&self.twins), self.twins.clone());
        }
        Some(number.into())
    }

    /// VLANs that are in the table, with the VRFs that they are in, stay until the kernel has shown them once, or until
    /// [`release`](Self::release). `near` are the neighbours in the tables, by the numbers of their interfaces.
    pub fn hold(&mut self, near: Vec<Near>) {
        let Some(table) = &self.table else { return };
        let vlans = |map: &InterfaceMap| {
            let vlans = map.iter().filter(|(_, one)| !one.tags.is_empty());
            vlans.filter_map(|(number, one)| Some((u16::try_from(number).ok()?, one.clone()))).collect()
        };
        self.held = table.with(vlans);
        self.near = near;
    }

    /// From now on there is what the kernel has. True if that may be a change.
    pub fn release(&mut self) -> bool {
        self.near.clear();
        !std::mem::take(&mut self.held).is_empty()
    }

    /// True of VLANs that are there though the kernel has not shown them yet.
    pub fn is_held(&self, number: u32) -> bool {
        u16::try_from(number).is_ok_and(|number| self.held.contains_key(&number))
    }

    /// The longest packet for the interface with this number, if it is known without the kernel.
    pub fn held_mtu(&self, number: u16) -> Option<u32> {
        self.held.get(&number).map(|one| one.mtu)
    }

    /// True of neighbours behind VLANs that were known when it began to hold.
    pub fn holds_near(&self, number: u32, ip: IpAddr) -> bool {
        self.near.iter().any(|(of, near, _)| (*of, *near) == (number, ip))
    }

    /// Neighbours that were known before their VLANs came: number of the kernel's interface, address, Ethernet address.
    pub fn take_strangers(&mut self) -> Vec<(u32, IpAddr, [u8; 6])> {
        std::mem::take(&mut self.strangers)
    }

    /// A VLAN has come that may have been held.
    fn met(&mut self, number: u16, index: u32) {
        if self.held.remove(&number).is_some() {
            let of_it = self.near.iter().filter(|(port, ..)| *port == u32::from(number));
            self.strangers.extend(of_it.map(|(_, ip, mac)| (index, *ip, *mac)));
        }
    }

    /// Looks at the kernel's interfaces anew. Returns VRFs that no interface is in any more. What has changed is shown to
    /// workers by [`show`](Self::show), when there are routes for it.
    pub fn update(&mut self, kernel: &Model, policy: &Policy) -> Vec<VrfState> {
        if self.table.is_none() {
            self.warn_of_vrfs(kernel);
            return Vec::new();
        }
        let vlans: Vec<(u32, u16, Tags)> = kernel
            .links
            .iter()
            .filter(|(_, link)| link.vlan.is_some())
            .filter_map(|(index, link)| {
                self.tags(kernel, link, DEPTH).map(|(port, tags)| (index, port, tags))
            })
            .collect();
        self.ports = by_link(&self.twins);
        let count = self.links.len();
        self.links = self.twins.clone();
        self.links.resize(count, 0);
        for (index, port, tags) in vlans {
            let Some(number) = self.number(port, tags) else { continue };
            self.ports.insert(index, number.into());
            self.links[usize::from(number)] = index;
            self.met(number, index);
        }
        let twins = &self.twins;
        self.held.retain(|_, one| twins.get(usize::from(one.port)).is_some_and(|twin| *twin != 0));
        let gone = self.update_vrfs(kernel);
        let above = (policy, Above::of(kernel));
        let all =
            (0..).zip(&self.links).map(|(number, index)| self.interface(kernel, &above, number, *index));
        self.news = Some(all.collect());
        self.note_fresh(kernel);
        gone
    }

    /// VLANs and macvlans on ports and VRFs of ports that are new: Linux is to forward what it gets there.
    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    fn note_fresh(&mut self, kernel: &Model) {
        let masters = self.ports.keys().filter_map(|index| kernel.links.get(*index)).map(|link| link.master);
        let vrfs =
            masters.filter(|master| kernel.links.get(*master).is_some_and(|link| link.table.is_some()));
        let vlans = self.ports.keys().copied().filter(|index| !self.twins.contains(index));
        let on_ours = |link: &Link| link.kind == "macvlan" && self.ports.contains_key(&link.below);
        let macvlans = kernel.links.iter().filter(|(_, link)| on_ours(link)).map(|(index, _)| index);
        let now: BTreeSet<u32> = vlans.chain(vrfs).chain(macvlans).collect();
        self.fresh.extend(now.difference(&self.seen));
        self.seen = now;
    }

    /// Shows workers what there is. Routes of new VRFs are to be there before.
    pub fn show(&mut self) {
        let Some(table) = &self.table else { return };
        match self.news.take() {
            Some(news) => drop(table.set(news)),
            // Routes of VRFs that are gone take room.
            None => table.collect(),
        }
    }

    /// The port and the tags of a VLAN that is on a twin, or on a VLAN on one.
    fn tags(&self, kernel: &Model, link: &Link, depth: u32) -> Option<(u16, Tags)> {
        let (port, below) = match self.twins.iter().position(|twin| *twin != 0 && *twin == link.below) {
            Some(port) => (u16::try_from(port).ok()?, Tags::NONE),
            None if depth > 1 => self.tags(kernel, kernel.links.get(link.below)?, depth - 1)?,
            None => return None,
        };
        Some((port, below.then(link.vlan_protocol, link.vlan?)?))
    }

    /// The number of a VLAN; `None` when there are too many.
    fn number(&mut self, port: u16, tags: Tags) -> Option<u16> {
        if let Some(number) = self.numbers.get(&(port, tags)) {
            return Some(*number);
        }
        let number = u16::try_from(self.links.len()).ok().filter(|n| usize::from(*n) < Interfaces::MOST)?;
        self.numbers.insert((port, tags), number);
        self.links.push(0);
        self.port_of.push(port);
        Some(number)
    }

    fn interface(
        &self,
        kernel: &Model,
        (policy, above): &(&Policy, Above<'_>),
        number: u16,
        index: u32,
    ) -> Option<Interface> {
        let table = self.table.as_ref()?;
        let Some(link) = kernel.links.get(index) else { return self.held.get(&number).cloned() };
        let port = *self.port_of.get(usize::from(number))?;
        let tags =
            self.numbers.iter().find(|(_, of)| **of == number).map_or(Tags::NONE, |((_, tags), _)| *tags);
        let vrf = vrf_of(kernel, link).and_then(|(_, table)| self.vrfs.get(&table));
        Some(Interface {
            name: link.name.clone(),
            port,
            tags,
            mac: link.mac?,
            mtu: link.mtu,
            up: link.up,
            settings: settings(kernel, policy, link, above),
            vrf: vrf.map(|state| state.vrf.clone()),
            counts: table.counts_of(number),
        })
    }

    /// VRFs that interfaces of ours have come to are there afterwards, others are not.
    fn update_vrfs(&mut self, kernel: &Model) -> Vec<VrfState> {
        let ours = self.ports.keys().filter_map(|index| vrf_of(kernel, kernel.links.get(*index)?));
        let held = self.held.values().filter_map(|one| one.vrf.as_ref());
        let held = held.map(|vrf| (vrf.table, vrf.name.clone()));
        let used: BTreeMap<u32, String> =
            held.chain(ours.map(|(name, table)| (table, name.to_owned()))).collect();
        let is_used =
            |state: &VrfState| used.get(&state.vrf.table).is_some_and(|name| *name == state.vrf.name);
        let (stay, gone) = std::mem::take(&mut self.vrfs).into_iter().partition(|(_, state)| is_used(state));
        self.vrfs = stay;
        for (table, name) in used {
            if let Some(interfaces) = self.table.as_ref().filter(|_| !self.vrfs.contains_key(&table)) {
                let state = VrfState { fresh: true, ..VrfState::of(interfaces.vrf(&name, table)) };
                self.vrfs.insert(table, state);
            }
        }
        let gone: BTreeMap<u32, VrfState> = gone;
        gone.into_values().collect()
    }

    /// Where packets of VRFs cannot be kept apart.
    fn warn_of_vrfs(&mut self, kernel: &Model) {
        let links = self.twins.iter().filter_map(|twin| kernel.links.get(*twin));
        let mut in_vrfs = links.filter_map(|link| Some((&link.name, vrf_of(kernel, link)?.0)));
        if let Some((name, vrf)) = in_vrfs.next().filter(|_| !self.warned) {
            ::io::say!(
                "warning: {name} is in VRF {vrf}: a router of another version than its control side has no VRFs; its packets are \
                 looked up in table main"
            );
            self.warned = true;
        }
    }
}

/// Port numbers by the twins' numbers in the kernel.
fn by_link(twins: &[u32]) -> BTreeMap<u32, u32> {
    twins.iter().copied().zip(0..).filter(|(twin, _)| *twin != 0).collect()
}

/// Name and table of the VRF that an interface is in.
fn vrf_of<'a>(kernel: &'a Model, link: &Link) -> Option<(&'a str, u32)> {
    let master = kernel.links.get(link.master)?;
    Some((&master.name, master.table?))
}
