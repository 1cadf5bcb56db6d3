//! Adjacencies: what a frame to each next hop begins with, and where it leaves; and groups of next hops that share the
//! traffic of a route.
//!
//! ```text
//!  number of a next hop ─▶ list ─▶ header and output
//!                            └──▶ group ── hash of the flow ─▶ number of a member ─▶ list
//! ```

mod framing;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use epoch::{Reader, Table};

use crate::group::{HopGroup, Member};
use crate::next_hop::{NextHop, NextHopId};
pub use framing::FramingId;
use framing::{Framing, Version};
pub use watch::{AdjacencyEvent, AdjacencySnapshot, AdjacencyWatch};

/// What a packet to a next hop needs: the Ethernet header of its link, and the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Adjacency {
    /// Destination, source, EtherType, as they stand in a frame. Of a tagged one the number of the interface stands in
    /// place of the EtherType: it says which tags there are ([`Interfaces`](crate::Interfaces)).
    pub header: [u8; Adjacency::HEADER_LEN],
    /// The output; [`Adjacency::NO_OUTPUT`] while the neighbour's address is not known, [`Adjacency::GROUP`] if this is a
    /// group, [`Adjacency::LOST`] if packets are lost on purpose. With the bit [`Adjacency::TAGGED`] if frames have tags.
    pub output: u16,
}

impl Adjacency {
    /// Bytes of an Ethernet header.
    pub const HEADER_LEN: usize = 14;
    /// In place of an output: packets to this next hop cannot be sent now.
    pub const NO_OUTPUT: u16 = u16::MAX;
    /// In place of an output: the next hop stands for a group ([`Forwarding::choose`]).
    pub const GROUP: u16 = u16::MAX - 1;
    /// In place of an output: packets to this next hop are lost on purpose.
    pub const LOST: u16 = u16::MAX - 2;
    /// The bit of outputs whose frames have VLAN tags.
    pub const TAGGED: u16 = 1 << 15;
    /// Of a next hop whose packets are lost on purpose.
    pub const BLACKHOLE: Adjacency = Adjacency { header: [0; Self::HEADER_LEN], output: Self::LOST };
    /// Of a next hop whose neighbour is not known.
    pub const UNRESOLVED: Adjacency = Adjacency { header: [0; Self::HEADER_LEN], output: Self::NO_OUTPUT };

    /// True if frames can be made with it: the neighbour is known, and it is neither group nor black hole.
    #[inline(always)]
    pub const fn is_usable(&self) -> bool {
        self.output < Self::LOST
    }

    /// True if frames can be made with it, and begin with the header as it stands.
    #[inline(always)]
    pub const fn is_plain(&self) -> bool {
        self.output < Self::TAGGED
    }

    /// True if frames can be made with it, and have tags.
    #[inline]
    pub const fn is_tagged(&self) -> bool {
        self.is_usable() && !self.is_plain()
    }

    /// That of a neighbour behind the tags of an interface.
    pub fn tagged(destination: [u8; 6], source: [u8; 6], interface: u16, port: u16) -> Adjacency {
        let mut header = [0; Self::HEADER_LEN];
        header[..6].copy_from_slice(&destination);
        header[6..12].copy_from_slice(&source);
        header[12..].copy_from_slice(&interface.to_be_bytes());
        Adjacency { header, output: port | Self::TAGGED }
    }

    /// The output of one that is [usable](Self::is_usable).
    #[inline(always)]
    pub const fn port(&self) -> u16 {
        self.output & !Self::TAGGED
    }

    /// The number of the interface that frames leave by, of one that is [usable](Self::is_usable).
    #[inline]
    pub const fn interface(&self) -> u16 {
        let [.., a, b] = self.header;
        if self.is_plain() { self.output } else { u16::from_be_bytes([a, b]) }
    }

    /// What stands in the list for the group at `index`.
    fn of_group(index: u32) -> Adjacency {
        let mut header = [0; Self::HEADER_LEN];
        header[..4].copy_from_slice(&index.to_ne_bytes());
        Adjacency { header, output: Self::GROUP }
    }

    /// The group that it stands for.
    fn group(&self) -> Option<usize> {
        let index = self.header.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        (self.output == Self::GROUP).then_some(index as usize)
    }
}

/// What workers read.
#[derive(Debug, Clone, Default)]
pub struct Forwarding {
    /// By the bits of a next hop's number ([`NextHopId::bits`]); the first is that of no route.
    list: Vec<Adjacency>,
    /// Those that have members.
    groups: Vec<Arc<HopGroup>>,
    /// Longest packet by interface, in bytes from the network header on; what is not here has no limit.
    mtus: Vec<u16>,
    /// Longest packet by number, of next hops that are narrower than their interface; 0 of others. Empty if there are none.
    narrow: Vec<u16>,
    /// The least of `mtus` and `narrow`; [`u16::MAX`] if there is none.
    least_mtu: u16,
    /// See [`Adjacencies::set_links`].
    seed: u32,
    more: bool,
    /// Which list this is, and what made its headers.
    version: Version,
}

impl Forwarding {
    /// The adjacencies by number. There may be fewer than next hops: see [`Adjacencies::cover`].
    #[inline]
    pub fn list(&self) -> &[Adjacency] {
        &self.list
    }

    /// True if there are groups or MTUs, so that the list alone does not say what to do.
    #[inline]
    pub fn is_more_than_a_list(&self) -> bool {
        self.more
    }

    /// True if some numbers are those of groups, so that [`choose`](Self::choose) is to be asked.
    #[inline]
    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The next hop of a packet whose lookup gave `number`: that, or if it names a group the number of the member for
    /// packets of this flow.
    #[inline]
    pub fn choose(&self, number: u32, flow_hash: impl FnOnce() -> u32) -> u32 {
        match self.list.get(number as usize) {
            Some(adjacency) if adjacency.output == Adjacency::GROUP => {
                let group = adjacency.group().and_then(|index| self.groups.get(index));
                NextHopId::bits(group.and_then(|group| group.pick(flow_hash() ^ self.seed)))
            }
            _ => number,
        }
    }

    /// The members of the group that a number names; `None` if it names none.
    pub fn members(&self, number: u32) -> Option<&[Member]> {
        let adjacency =
            self.list.get(number as usize).filter(|adjacency| adjacency.output == Adjacency::GROUP)?;
        adjacency.group().and_then(|index| self.groups.get(index)).map(|group| group.members())
    }

    /// The longest packet for the next hop with this number, in bytes from the network header on, if frames can be made
    /// to it: that of its interface, or a lesser one [of its own](NextHop::mtu).
    pub fn longest(&self, number: u32) -> Option<u16> {
        let adjacency = self.list.get(number as usize).filter(|adjacency| adjacency.is_usable())?;
        let own = self.narrow.get(number as usize).copied().filter(|mtu| *mtu > 0);
        Some(self.mtu(adjacency.interface()).min(own.unwrap_or(u16::MAX)))
    }

    /// The length in bytes, from the network header on, up to which no packet is too long for any output.
    #[inline]
    pub fn least_mtu(&self) -> u16 {
        self.least_mtu
    }

    /// The longest packet for an interface, in bytes from the network header on.
    #[inline]
    pub fn mtu(&self, interface: u16) -> u16 {
        self.mtus.get(usize::from(interface)).copied().unwrap_or(u16::MAX)
    }
}

/// The adjacencies of the next hops of one [`RouteTable`](crate::RouteTable): changed by whoever knows neighbours, read by
/// workers at the number that a lookup gave.
#[derive(Debug)]
pub struct Adjacencies {
    known: Mutex<Known>,
    forwarding: Table<Forwarding>,
    watch: watch::Watch,
    owner: OnceLock<&'static str>,
}

/// What is known, also of next hops that no route has led to yet.
#[derive(Debug, Default)]
struct Known {
    adjacencies: HashMap<NextHop, Adjacency>,
    groups: HashMap<NextHop, Arc<HopGroup>>,
    mtus: Vec<u16>,
    seed: u32,
    framing: Option<Framing>,
}

/// Changes that are made at once; `None` forgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdjacencyChanges {
    /// Of neighbours.
    pub adjacencies: Vec<(NextHop, Option<Adjacency>)>,
    /// Of groups, by the next hop that stands for each.
    pub groups: Vec<(NextHop, Option<HopGroup>)>,
}

impl AdjacencyChanges {
    /// True if nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.adjacencies.is_empty() && self.groups.is_empty()
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.adjacencies.len() + self.groups.len()
    }
}

impl Default for Adjacencies {
    fn default() -> Adjacencies {
        let known = Known::default();
        let forwarding = Table::new(known.forwarding(&[], 0));
        Adjacencies {
            known: Mutex::new(known),
            forwarding,
            watch: watch::Watch::default(),
            owner: OnceLock::new(),
        }
    }
}

impl Adjacencies {
    /// Somebody else fills the table, who would not notice if it were changed by hand; `instead` says where it is to be changed.
    /// The first call decides.
    pub fn set_owner(&self, instead: &'static str) {
        let _ = self.owner.set(instead);
    }

    /// Where it is to be changed, if not by hand.
    pub fn owner(&self) -> Option<&'static str> {
        self.owner.get().copied()
    }

    /// The adjacencies now.
    #[inline]
    pub fn read<'c>(&'c self, reader: &'c Reader) -> &'c Forwarding {
        self.forwarding.read(reader)
    }

    /// Makes all changes at once. `hops` are the table's next hops by number.
    pub fn change(&self, changes: AdjacencyChanges, hops: &[NextHop]) {
        let mut known = self.lock();
        self.watch.tell(AdjacencyEvent::Changed(&changes));
        let Known { adjacencies, groups, .. } = &mut *known;
        for (hop, adjacency) in changes.adjacencies {
            match adjacency {
                Some(adjacency) => adjacencies.insert(hop, adjacency),
                None => adjacencies.remove(&hop),
            };
        }
        for (hop, group) in changes.groups {
            match group {
                Some(group) => groups.insert(hop, Arc::new(group)),
                None => groups.remove(&hop),
            };
        }
        self.publish(&known, hops);
    }

    /// Sees to it that each of these next hops, the table's by number, can be [`read`](Self::read). Takes a lock; to be
    /// called when a number is beyond the end of the list.
    pub fn cover(&self, hops: &[NextHop]) {
        let known = self.lock();
        if self.forwarding.with(|forwarding| forwarding.list.len() <= hops.len()) {
            self.publish(&known, hops);
        }
    }

    /// Sets the longest packet of each interface, in bytes from the network header on (those without one have no limit),
    /// and the seed of choices in groups. Where all routers choose alike, the second one on a path gets only flows of one
    /// choice of the first.
    pub fn set_links(&self, mtus: &[u16], seed: u32, hops: &[NextHop]) {
        let mut known = self.lock();
        if known.mtus != mtus || known.seed != seed {
            self.watch.tell(AdjacencyEvent::Links(mtus, seed));
            known.mtus = mtus.to_vec();
            known.seed = seed;
            self.publish(&known, hops);
        }
    }

    /// The adjacency of a next hop, if its neighbour is known.
    pub fn get(&self, hop: NextHop) -> Option<Adjacency> {
        self.lock().adjacencies.get(&hop).copied()
    }

    /// The group that a next hop stands for, if it does.
    pub fn group(&self, hop: NextHop) -> Option<HopGroup> {
        self.lock().groups.get(&hop).map(|group| HopGroup::clone(group))
    }

    /// All next hops whose neighbours are known, by port and gateway.
    pub fn known(&self) -> Vec<(NextHop, Adjacency)> {
        let known = self.lock();
        let mut all: Vec<_> = known.adjacencies.iter().map(|(hop, adjacency)| (*hop, *adjacency)).collect();
        all.sort_unstable_by_key(|(hop, _)| (hop.port, hop.gateway));
        all
    }

    /// All groups by the next hops that stand for them, by port and gateway.
    pub fn known_groups(&self) -> Vec<(NextHop, HopGroup)> {
        let known = self.lock();
        let mut all: Vec<_> =
            known.groups.iter().map(|(hop, group)| (*hop, HopGroup::clone(group))).collect();
        all.sort_unstable_by_key(|(hop, _)| (hop.port, hop.gateway));
        all
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, known: &Known, hops: &[NextHop]) {
        self.forwarding.edit(|old| known.forwarding(hops, old.list.len()));
    }
}

impl Known {
    /// What workers are to read. The list is at least as long as before, because who changes it may not have seen the
    /// newest next hops.
    fn forwarding(&self, hops: &[NextHop], least: usize) -> Forwarding {
        let mut groups = Vec::new();
        let mut of = |hop: &NextHop| {
            if let Some(group) = self.groups.get(hop).filter(|group| !group.members().is_empty()) {
                groups.push(group.clone());
                // There are fewer groups than next hops, which are fewer than 2^24.
                return Adjacency::of_group(groups.len() as u32 - 1);
            }
            let known = self.adjacencies.get(hop).or_else(|| self.adjacencies.get(&hop.widened()));
            known.copied().unwrap_or(Adjacency::UNRESOLVED)
        };
        let mut list = vec![Adjacency::UNRESOLVED];
        list.extend(hops.iter().map(&mut of));
        list.resize(list.len().max(least), Adjacency::UNRESOLVED);
        let version = Version::of(self.framing.as_ref(), &mut list);
        let narrow = narrow(hops);
        let least_mtu = self.mtus.iter().chain(narrow.iter().filter(|mtu| **mtu > 0)).copied().min();
        let least_mtu = least_mtu.unwrap_or(u16::MAX);
        let more = !groups.is_empty() || least_mtu < u16::MAX;
        Forwarding {
            list,
            groups,
            mtus: self.mtus.clone(),
            narrow,
            least_mtu,
            seed: self.seed,
            more,
            version,
        }
    }
}

/// See [`Forwarding::narrow`].
fn narrow(hops: &[NextHop]) -> Vec<u16> {
    match hops.iter().any(|hop| hop.mtu().is_some()) {
        true => std::iter::once(0).chain(hops.iter().map(|hop| hop.mtu().unwrap_or(0))).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: Some([10, 0, 0, 1].into()), port }
    }

    fn adjacency(output: u16) -> Adjacency {
        Adjacency { header: [7; 14], output }
    }

    fn set(adjacencies: &[(NextHop, Option<Adjacency>)]) -> AdjacencyChanges {
        AdjacencyChanges { adjacencies: adjacencies.to_vec(), ..AdjacencyChanges::default() }
    }

    #[test]
    fn numbers_and_neighbours_may_come_in_any_order() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        assert_eq!(all.read(&reader).list(), [Adjacency::UNRESOLVED]);
        all.change(set(&[(hop(2), Some(adjacency(2)))]), &[hop(1)]);
        assert_eq!(all.read(&reader).list(), [Adjacency::UNRESOLVED; 2]);
        all.cover(&[hop(1), hop(2)]);
        assert_eq!(all.read(&reader).list(), [Adjacency::UNRESOLVED, Adjacency::UNRESOLVED, adjacency(2)]);
        all.change(set(&[(hop(1), Some(adjacency(1))), (hop(2), None)]), &[hop(1), hop(2)]);
        assert_eq!(all.read(&reader).list(), [Adjacency::UNRESOLVED, adjacency(1), Adjacency::UNRESOLVED]);
        assert_eq!((all.get(hop(1)), all.get(hop(2))), (Some(adjacency(1)), None));
        assert_eq!(all.known(), [(hop(1), adjacency(1))]);
        // A writer that has not heard of the second next hop does not take its place away.
        all.change(set(&[]), &[hop(1)]);
        assert_eq!(all.read(&reader).list().len(), 3);
    }

    #[test]
    fn a_group_leads_each_flow_to_a_member() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        let (hops, id) = ([hop(9), hop(1), hop(2)], |index| NextHopId::new(index).unwrap());
        let group = HopGroup::new(16, &[(id(1), 1), (id(2), 3)]).unwrap();
        assert!(!all.read(&reader).has_groups());
        let groups = |group: &HopGroup| AdjacencyChanges {
            adjacencies: vec![(hop(1), Some(adjacency(1)))],
            groups: vec![(hop(9), Some(group.clone()))],
        };
        all.change(groups(&group), &hops);
        let now = all.read(&reader);
        assert!(now.has_groups() && !now.list()[1].is_usable() && now.list()[2].is_usable());
        for hash in 0..1000u32 {
            assert_eq!(now.choose(1, || hash), NextHopId::bits(group.pick(hash)));
        }
        // Members themselves, no route, and numbers that are not there yet stay what they are.
        assert_eq!([0, 2, 3, 99].map(|n| now.choose(n, || unreachable!())), [0, 2, 3, 99]);
        all.set_links(&[], 0x5bd1_e995, &hops);
        let moved = (0..1000).filter(|hash| all.read(&reader).choose(1, || *hash) != now.choose(1, || *hash));
        assert!((250..500).contains(&moved.count()));
        // Without members it is a next hop whose neighbour is not known.
        all.change(groups(&HopGroup::new(16, &[]).unwrap()), &hops);
        assert!(!all.read(&reader).has_groups());
        assert_eq!(all.read(&reader).list()[1], Adjacency::UNRESOLVED);
        all.change(AdjacencyChanges { groups: vec![(hop(9), None)], ..Default::default() }, &hops);
        assert_eq!((all.group(hop(9)), all.known_groups().len()), (None, 0));
    }

    #[test]
    fn outputs_have_mtus() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        assert_eq!((all.read(&reader).least_mtu(), all.read(&reader).mtu(0)), (u16::MAX, u16::MAX));
        all.set_links(&[9000, 1500], 0, &[]);
        let now = all.read(&reader);
        assert_eq!((now.least_mtu(), [0, 1, 2].map(|i| now.mtu(i))), (1500, [9000, 1500, u16::MAX]));
    }

    #[test]
    fn narrow_next_hops_share_their_neighbour_with_wide_ones() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        let hops = [hop(1), hop(1).narrowed(1300), hop(1).narrowed(9000), hop(2).narrowed(1300)];
        all.set_links(&[9000, 1500], 0, &hops);
        assert_eq!((all.read(&reader).least_mtu(), all.read(&reader).longest(2)), (1300, None));
        all.change(set(&[(hop(1), Some(adjacency(1)))]), &hops);
        let now = all.read(&reader);
        assert_eq!(now.list()[1..], [adjacency(1), adjacency(1), adjacency(1), Adjacency::UNRESOLVED]);
        let longest = [0, 1, 2, 3, 4, 99].map(|number| now.longest(number));
        assert_eq!(longest, [None, Some(1500), Some(1300), Some(1500), None, None]);
        all.change(set(&[(hop(1), None)]), &hops);
        assert_eq!(all.read(&reader).longest(2), None);
    }

    #[test]
    fn tagged_ones_name_their_interface() {
        let plain = adjacency(3);
        let tagged = Adjacency::tagged([1; 6], [2; 6], 0x1234, 3);
        let facts = |a: Adjacency| (a.is_usable(), a.is_plain(), a.port(), a.interface());
        assert_eq!((facts(plain), facts(tagged)), ((true, true, 3, 3), (true, false, 3, 0x1234)));
        for special in [Adjacency::BLACKHOLE, Adjacency::UNRESOLVED, Adjacency::of_group(0)] {
            assert!(!special.is_usable() && !special.is_plain());
        }
    }

    #[test]
    fn an_adjacency_is_one_load_away() {
        assert_eq!((size_of::<Adjacency>(), align_of::<Adjacency>()), (16, 16));
    }
}
