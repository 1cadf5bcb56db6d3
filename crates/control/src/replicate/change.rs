//! Changes of tables in frames.
//!
//! Body: position (8 bytes; 0 in a snapshot), family (4 or 6), what it is about, then records to the end:
//!
//! | what | record |
//! |---|---|
//! | 1 next hops | number (short), next hop |
//! | 2 routes | prefix length, as many bytes of the prefix as have bits in it, number of the next hop + 1 or 0 for none (short) |
//! | 3 adjacencies | next hop, then 0, or 1, the 14 bytes of an Ethernet header and the output (2 bytes) |
//! | 4 groups | next hop, then 0, or 1, members (short), their numbers and weights (short), buckets (1 byte: of 2ⁿ the n), for each the index of its member (1 byte up to 256 members, else 2; none without members) |
//! | 5 links | one only: the seed (4 bytes), then the MTU of each output (2 bytes) |
//! | 6 to 8 | VRFs, their routes, interfaces: see [`scope`] |
//!
//! A next hop is 0, 4 or 6, as many bytes of gateway, and the port (short).

mod scope;

use super::message::CHANGES;
use super::wire::{Cursor, MAX_FRAME, ProtocolError, Writer};
use fib::{Address, Adjacency, Family, HopGroup, NextHop, NextHopId, Prefix};
pub use scope::{Described, Named, interfaces, vrf_routes, vrfs};
use std::net::IpAddr;

/// A frame is closed when it is longer than this.
const ENOUGH: usize = 32 * 1024;
/// So many groups are in a frame at most: they may be far larger in memory than in the frame.
const MOST_GROUPS: usize = 16;

/// What a frame changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Numbers of next hops.
    NextHops(Vec<(NextHopId, NextHop)>),
    /// IPv4 routes.
    Routes4(Vec<(Prefix<u32>, Option<NextHopId>)>),
    /// IPv6 routes.
    Routes6(Vec<(Prefix<u128>, Option<NextHopId>)>),
    /// Neighbours.
    Adjacencies(Vec<(NextHop, Option<Adjacency>)>),
    /// Groups of next hops.
    Groups(Vec<(NextHop, Option<HopGroup>)>),
    /// Longest packets by output, and the seed.
    Links(Vec<u16>, u32),
    /// VRFs by the numbers of their tables, and what they are called: they come without routes, or go.
    Vrfs(Vec<(u32, Option<String>)>),
    /// IPv4 routes of a VRF, with numbers of the shared table.
    VrfRoutes4(u32, Vec<(Prefix<u32>, Option<NextHopId>)>),
    /// IPv6 routes of a VRF.
    VrfRoutes6(u32, Vec<(Prefix<u128>, Option<NextHopId>)>),
    /// Interfaces.
    Interfaces(Vec<Named>),
}

/// What has a lock of its own: positions of snapshots differ between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Next hops and routes.
    Routes(Family),
    /// Adjacencies, groups and links.
    Adjacencies(Family),
    /// Interfaces, and which VRFs there are.
    Interfaces,
    /// Routes of the VRF that has a table.
    Vrf(u32, Family),
}

impl Topic {
    /// The first version of the protocol that tells of it.
    pub fn since(self) -> u8 {
        match self {
            Topic::Routes(_) | Topic::Adjacencies(_) => 1,
            // Those of version 2 had no settings: halves that speak it do without.
            Topic::Interfaces | Topic::Vrf(..) => 3,
        }
    }
}

/// What a frame is about.
#[derive(Clone, Copy)]
enum What {
    NextHops = 1,
    Routes = 2,
    Adjacencies = 3,
    Groups = 4,
    Links = 5,
    Vrfs = 6,
    VrfRoutes = 7,
    Interfaces = 8,
}

/// Writes the position into a frame of changes.
pub fn stamp(frame: &mut [u8], position: u64) {
    if let Some(place) = frame.get_mut(5..13) {
        place.copy_from_slice(&position.to_be_bytes());
    }
}

fn begin(family: Family, what: What) -> Writer {
    let mut writer = Writer::new(CHANGES);
    writer.u64(0).u8(if family == Family::Ipv4 { 4 } else { 6 }).u8(what as u8);
    writer
}

/// Writes all of these, in as many frames as they need.
fn write_all<T>(
    begin: impl Fn() -> Writer,
    most: usize,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Writer, T),
    emit: &mut impl FnMut(Vec<u8>),
) {
    let mut writer = begin();
    let mut count = 0;
    for item in items {
        write(&mut writer, item);
        count += 1;
        if writer.len() > ENOUGH || count == most {
            emit(std::mem::replace(&mut writer, begin()).finish());
            count = 0;
        }
    }
    if count > 0 {
        emit(writer.finish());
    }
}

/// Frames with numbers of next hops.
pub fn next_hops(
    family: Family,
    hops: impl IntoIterator<Item = (NextHopId, NextHop)>,
    emit: &mut impl FnMut(Vec<u8>),
) {
    let write = |writer: &mut Writer, (number, hop): (NextHopId, NextHop)| {
        writer.short(number.index() as u32);
        write_hop(writer, hop);
    };
    write_all(|| begin(family, What::NextHops), usize::MAX, hops, write, emit);
}

/// Frames with routes.
pub fn routes<A: Address>(
    routes: impl IntoIterator<Item = (Prefix<A>, Option<NextHopId>)>,
    emit: &mut impl FnMut(Vec<u8>),
) {
    write_all(|| begin(A::FAMILY, What::Routes), usize::MAX, routes, write_route, emit);
}

/// A frame that changes nothing: for followers that know nothing of what has changed at this position.
pub fn nothing(position: u64) -> Vec<u8> {
    let mut frame = begin(Family::Ipv4, What::NextHops).finish();
    stamp(&mut frame, position);
    frame
}

/// Frames with adjacencies.
pub fn adjacencies(
    family: Family,
    all: impl IntoIterator<Item = (NextHop, Option<Adjacency>)>,
    emit: &mut impl FnMut(Vec<u8>),
) {
    let write = |writer: &mut Writer, (hop, adjacency): (NextHop, Option<Adjacency>)| {
        write_hop(writer, hop);
        match adjacency {
            None => writer.u8(0),
            Some(Adjacency { header, output }) => writer.u8(1).bytes(&header).u16(output),
        };
    };
    write_all(|| begin(family, What::Adjacencies), usize::MAX, all, write, emit);
}

/// Frames with groups.
pub fn groups<'a>(
    family: Family,
    all: impl IntoIterator<Item = (NextHop, Option<&'a HopGroup>)>,
    emit: &mut impl FnMut(Vec<u8>),
) {
    let write = |writer: &mut Writer, (hop, group): (NextHop, Option<&HopGroup>)| {
        write_hop(writer, hop);
        match group {
            None => {
                writer.u8(0);
            }
            Some(group) => write_group(writer.u8(1), group),
        }
    };
    write_all(|| begin(family, What::Groups), MOST_GROUPS, all, write, emit);
}

/// The frame with MTUs and seed.
pub fn links(family: Family, mtus: &[u16], seed: u32, emit: &mut impl FnMut(Vec<u8>)) {
    let mut writer = begin(family, What::Links);
    writer.u32(seed);
    // Outputs have numbers below 2^16.
    for mtu in mtus.iter().take(1 << 16) {
        writer.u16(*mtu);
    }
    emit(writer.finish());
}

fn write_route<A: Address>(writer: &mut Writer, (prefix, hop): (Prefix<A>, Option<NextHopId>)) {
    let bytes = usize::from(prefix.len()).div_ceil(8);
    writer.u8(prefix.len());
    match prefix.first().to_ip() {
        IpAddr::V4(ip) => writer.bytes(&ip.octets()[..bytes]),
        IpAddr::V6(ip) => writer.bytes(&ip.octets()[..bytes]),
    };
    writer.short(NextHopId::bits(hop));
}

fn write_hop(writer: &mut Writer, hop: NextHop) {
    match hop.gateway {
        None => writer.u8(0),
        Some(IpAddr::V4(ip)) => writer.u8(4).bytes(&ip.octets()),
        Some(IpAddr::V6(ip)) => writer.u8(6).bytes(&ip.octets()),
    };
    writer.short(hop.port);
}

fn write_group(writer: &mut Writer, group: &HopGroup) {
    let (members, buckets) = group.parts();
    writer.short(members.len() as u32);
    for (hop, weight) in &members {
        writer.short(hop.index() as u32).short(*weight);
    }
    writer.u8(buckets.len().trailing_zeros() as u8);
    for index in buckets.iter().filter(|_| !members.is_empty()) {
        if members.len() <= 256 {
            writer.u8(*index as u8)
        } else {
            writer.u16(*index)
        };
    }
}

/// The position of the frame, the family, and what it changes.
///
/// # Errors
/// If it is malformed.
pub fn decode(body: &[u8]) -> Result<(u64, Family, Change), ProtocolError> {
    let cursor = &mut Cursor::new(body);
    head(cursor)
        .and_then(|(position, family, what)| Some((position, family, records(cursor, family, what)?)))
        .ok_or(ProtocolError::Malformed("a change"))
}

fn head(cursor: &mut Cursor<'_>) -> Option<(u64, Family, u8)> {
    let position = cursor.u64()?;
    let family = match cursor.u8()? {
        4 => Family::Ipv4,
        6 => Family::Ipv6,
        _ => return None,
    };
    Some((position, family, cursor.u8()?))
}

fn records(cursor: &mut Cursor<'_>, family: Family, what: u8) -> Option<Change> {
    const NEXT_HOPS: u8 = What::NextHops as u8;
    const ROUTES: u8 = What::Routes as u8;
    const ADJACENCIES: u8 = What::Adjacencies as u8;
    const GROUPS: u8 = What::Groups as u8;
    const LINKS: u8 = What::Links as u8;
    const VRFS: u8 = What::Vrfs as u8;
    const VRF_ROUTES: u8 = What::VrfRoutes as u8;
    const INTERFACES: u8 = What::Interfaces as u8;
    Some(match (what, family) {
        (NEXT_HOPS, _) => Change::NextHops(read_all(cursor, |c| Some((number(c)?, read_hop(c)?)))?),
        (ROUTES, Family::Ipv4) => Change::Routes4(read_all(cursor, read_route)?),
        (ROUTES, Family::Ipv6) => Change::Routes6(read_all(cursor, read_route)?),
        (ADJACENCIES, _) => Change::Adjacencies(read_all(cursor, read_adjacency)?),
        (GROUPS, _) => {
            let mut room = MAX_FRAME;
            Change::Groups(read_all(cursor, |c| read_group(c, &mut room))?)
        }
        (LINKS, _) => {
            let seed = cursor.u32()?;
            Change::Links(read_all(cursor, |c| c.u16())?, seed)
        }
        (VRFS, Family::Ipv4) => Change::Vrfs(read_all(cursor, scope::read_vrf)?),
        (VRF_ROUTES, Family::Ipv4) => {
            Change::VrfRoutes4(scope::read_table(cursor)?, read_all(cursor, read_route)?)
        }
        (VRF_ROUTES, Family::Ipv6) => {
            Change::VrfRoutes6(scope::read_table(cursor)?, read_all(cursor, read_route)?)
        }
        (INTERFACES, Family::Ipv4) => Change::Interfaces(read_all(cursor, scope::read_interface)?),
        _ => return None,
    })
}

fn read_all<T>(
    cursor: &mut Cursor<'_>,
    mut read: impl FnMut(&mut Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    while !cursor.is_empty() {
        all.push(read(cursor)?);
    }
    Some(all)
}

fn number(cursor: &mut Cursor<'_>) -> Option<NextHopId> {
    NextHopId::new(cursor.short()?)
}

fn read_hop(cursor: &mut Cursor<'_>) -> Option<NextHop> {
    let gateway = match cursor.u8()? {
        0 => None,
        4 => Some(cursor.array::<4>()?.into()),
        6 => Some(cursor.array::<16>()?.into()),
        _ => return None,
    };
    Some(NextHop { gateway, port: cursor.short()? })
}

fn read_route<A: Address>(cursor: &mut Cursor<'_>) -> Option<(Prefix<A>, Option<NextHopId>)> {
    let length = cursor.u8()?;
    if u32::from(length) > A::BITS {
        return None;
    }
    let bytes = cursor.bytes(usize::from(length).div_ceil(8))?;
    let ip = match A::FAMILY {
        Family::Ipv4 => {
            let mut octets = [0; 4];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            IpAddr::from(octets)
        }
        Family::Ipv6 => {
            let mut octets = [0; 16];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            IpAddr::from(octets)
        }
    };
    let addr = A::from_ip(ip)?;
    // Bits behind the prefix are 0: a route is written in one way only.
    let prefix = Prefix::new(addr, length).filter(|prefix| prefix.first() == addr)?;
    Some((prefix, NextHopId::from_bits(cursor.short()?)))
}

fn read_adjacency(cursor: &mut Cursor<'_>) -> Option<(NextHop, Option<Adjacency>)> {
    let hop = read_hop(cursor)?;
    let adjacency = match cursor.u8()? {
        0 => None,
        1 => Some(Adjacency { header: cursor.array()?, output: cursor.u16()? }),
        _ => return None,
    };
    // Groups stand elsewhere; this one would name one that is not there.
    let is_group = adjacency.is_some_and(|adjacency| adjacency.output == Adjacency::GROUP);
    (!is_group).then_some((hop, adjacency))
}

/// `room`: how many buckets may still come in this frame.
fn read_group(cursor: &mut Cursor<'_>, room: &mut usize) -> Option<(NextHop, Option<HopGroup>)> {
    let hop = read_hop(cursor)?;
    match cursor.u8()? {
        0 => return Some((hop, None)),
        1 => {}
        _ => return None,
    }
    let count = cursor.short()? as usize;
    if count > HopGroup::MAX_BUCKETS {
        return None;
    }
    let mut members = Vec::new();
    for _ in 0..count {
        members.push((number(cursor)?, cursor.short()?));
    }
    let buckets = 1usize.checked_shl(u32::from(cursor.u8()?)).filter(|b| *b <= HopGroup::MAX_BUCKETS)?;
    *room = room.checked_sub(buckets)?;
    let indices: Vec<u16> = match count {
        0 => vec![0; buckets],
        1..=256 => cursor.bytes(buckets)?.iter().map(|index| u16::from(*index)).collect(),
        _ => {
            cursor.bytes(2 * buckets)?.as_chunks().0.iter().map(|index| u16::from_be_bytes(*index)).collect()
        }
    };
    Some((hop, Some(HopGroup::from_parts(&members, &indices).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hop() -> impl Strategy<Value = NextHop> {
        (any::<Option<IpAddr>>(), prop_oneof![0..9u32, any::<u32>()])
            .prop_map(|(gateway, port)| NextHop { gateway, port })
    }

    fn number() -> impl Strategy<Value = NextHopId> {
        prop_oneof![0..300u32, 0..u32::MAX].prop_map(|index| NextHopId::new(index).unwrap())
    }

    fn group() -> impl Strategy<Value = HopGroup> {
        (prop::collection::btree_set(number(), 0..400), 9..12u32, any::<u16>()).prop_map(
            |(members, bits, by)| {
                let members: Vec<_> = members.into_iter().map(|number| (number, u32::from(by) + 1)).collect();
                HopGroup::new(1 << bits, &members).unwrap()
            },
        )
    }

    fn route<A: Address>() -> impl Strategy<Value = (Prefix<A>, Option<NextHopId>)> {
        (any::<u128>(), 0..=A::BITS as u8, prop::option::of(number()))
            .prop_map(|(addr, len, hop)| (Prefix::new(A::from_low_bits(addr), len).unwrap(), hop))
    }

    fn adjacency() -> impl Strategy<Value = (NextHop, Option<Adjacency>)> {
        let some = (any::<[u8; 14]>(), (0..u16::MAX).prop_filter("", |o| *o != Adjacency::GROUP))
            .prop_map(|(header, output)| Adjacency { header, output });
        (hop(), prop::option::of(some))
    }

    fn change() -> impl Strategy<Value = (Family, Change)> {
        let any4or6 = prop::sample::select(vec![Family::Ipv4, Family::Ipv6]);
        let vec = |range| 1..range;
        prop_oneof![
            (any4or6.clone(), prop::collection::vec((number(), hop()), vec(40)).prop_map(Change::NextHops)),
            (Just(Family::Ipv4), prop::collection::vec(route(), vec(40)).prop_map(Change::Routes4)),
            (Just(Family::Ipv6), prop::collection::vec(route(), vec(40)).prop_map(Change::Routes6)),
            (any4or6.clone(), prop::collection::vec(adjacency(), vec(40)).prop_map(Change::Adjacencies)),
            (
                any4or6.clone(),
                prop::collection::vec((hop(), prop::option::of(group())), vec(4)).prop_map(Change::Groups)
            ),
            (any4or6, (any::<Vec<u16>>(), any::<u32>()).prop_map(|(mtus, seed)| Change::Links(mtus, seed))),
            (Just(Family::Ipv4), scope::tests::vrfs()),
            (Just(Family::Ipv4), scope::tests::interfaces()),
            (
                Just(Family::Ipv4),
                (1..u32::MAX, prop::collection::vec(route(), vec(40)))
                    .prop_map(|(table, all)| Change::VrfRoutes4(table, all))
            ),
            (
                Just(Family::Ipv6),
                (1..u32::MAX, prop::collection::vec(route(), vec(40)))
                    .prop_map(|(table, all)| Change::VrfRoutes6(table, all))
            ),
        ]
    }

    /// The frames of a change.
    fn frames(family: Family, change: &Change) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let emit = &mut |frame| frames.push(frame);
        match change {
            Change::NextHops(hops) => next_hops(family, hops.iter().copied(), emit),
            Change::Routes4(all) => routes(all.iter().copied(), emit),
            Change::Routes6(all) => routes(all.iter().copied(), emit),
            Change::Adjacencies(all) => adjacencies(family, all.iter().copied(), emit),
            Change::Groups(all) => {
                groups(family, all.iter().map(|(hop, group)| (*hop, group.as_ref())), emit);
            }
            Change::Links(mtus, seed) => links(family, mtus, *seed, emit),
            Change::Vrfs(all) => {
                vrfs(all.iter().map(|(table, name)| (*table, name.as_deref())), emit);
            }
            Change::VrfRoutes4(table, all) => vrf_routes(*table, all.iter().copied(), emit),
            Change::VrfRoutes6(table, all) => vrf_routes(*table, all.iter().copied(), emit),
            Change::Interfaces(all) => interfaces(all.iter().cloned(), emit),
        }
        frames
    }

    proptest! {
        #[test]
        fn changes_come_as_they_went((family, change) in change(), position: u64) {
            let mut frames = frames(family, &change);
            prop_assert_eq!(frames.len(), 1);
            stamp(&mut frames[0], position);
            prop_assert_eq!(decode(&frames[0][5..]), Ok((position, family, change)));
        }

        #[test]
        fn any_bytes_are_a_change_or_none(family in 0..2usize, what in 0..10u8, rest: Vec<u8>) {
            let body = [&[0, 0, 0, 0, 0, 0, 0, 3, [4, 6][family], what][..], &rest].concat();
            if let Ok((position, family, change)) = decode(&body) {
                let mut again = frames(family, &change).concat();
                stamp(&mut again, position);
                // What is written is written in one way only; nothing at all needs no frame.
                let is_nothing = rest.is_empty() || what == What::VrfRoutes as u8 && rest.len() == 4;
                prop_assert!(again.is_empty() && is_nothing || again[5..] == body[..]);
            }
        }
    }

    #[test]
    fn long_changes_are_several_frames() {
        let all: Vec<_> =
            (0..20_000u32).map(|i| (Prefix::new(i << 12, 20).unwrap(), NextHopId::new(i))).collect();
        let frames = frames(Family::Ipv4, &Change::Routes4(all.clone()));
        assert!(frames.len() > 3 && frames.iter().all(|frame| frame.len() < ENOUGH + 16));
        let mut back = Vec::new();
        for frame in &frames {
            match decode(&frame[5..]) {
                Ok((0, Family::Ipv4, Change::Routes4(part))) => back.extend(part),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(back, all);
    }

    #[test]
    fn small_frames_do_not_grow_large() {
        // Groups without members, each with the most buckets.
        let mut body = vec![0, 0, 0, 0, 0, 0, 0, 0, 4, What::Groups as u8];
        (0..17).for_each(|_| body.extend([0, 1, 1, 0, 16]));
        assert_eq!(decode(&body), Err(ProtocolError::Malformed("a change")));
        body.truncate(body.len() - 5);
        assert!(decode(&body).is_ok());
    }

    #[test]
    fn the_largest_group_fits_a_frame() {
        let members: Vec<_> =
            (0..1 << 16).map(|i| (NextHopId::new(u32::MAX - 1 - i).unwrap(), u32::MAX)).collect();
        let buckets: Vec<u16> = (0..=u16::MAX).collect();
        let group = HopGroup::from_parts(&members, &buckets).unwrap();
        let change = Change::Groups(vec![(NextHop { gateway: None, port: 1 }, Some(group))]);
        let frames = frames(Family::Ipv4, &change);
        assert!(frames[0].len() <= MAX_FRAME);
        assert_eq!(decode(&frames[0][5..]), Ok((0, Family::Ipv4, change)));
    }
}
