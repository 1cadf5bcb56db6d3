//! VRFs and interfaces in frames. All frames of VRFs and interfaces have the family 4; those with routes have their own.
//!
//! | what | record |
//! |---|---|
//! | 6 VRFs | its table in Linux (4 bytes), then 0 if it is gone, or 1 and its name (text): it is a new one |
//! | 7 routes of a VRF | before the first the VRF's table (4 bytes); then as those of 2, with the same numbers |
//! | 8 interfaces | number (short), port (2 bytes), tags (1 byte, for each protocol and VLAN number, 2 bytes each), then 0 if it is gone, or 1, with 2 more if it is up and 4 more if it is in a VRF, Ethernet address (6 bytes), MTU (4 bytes), table of the VRF if it is in one (4 bytes), name (text), settings (1 byte: 1 if IPv4 packets are Linux's, 2 if IPv6 packets are, 4 times the check of sources), how many virtual Ethernet addresses (short), these (6 bytes each) |

use super::{What, begin, write_all, write_route};
use crate::replicate::wire::{Cursor, Writer};
use fib::{
    Address, Family, Interface, InterfaceChange, InterfaceSettings, Interfaces, NextHopId, Prefix,
    SourceCheck, Tags,
};

const IS_THERE: u8 = 1;
const IS_UP: u8 = 2;
const IS_IN_VRF: u8 = 4;
const LINUX4: u8 = 1;
const LINUX6: u8 = 2;
/// Of the check of sources in the settings.
const SOURCES_SHIFT: u32 = 2;

/// An interface by its number, which stands for a port and tags for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Below [`Interfaces::MOST`].
    pub number: u16,
    /// Below [`Interfaces::MOST`].
    pub port: u16,
    /// Its tags.
    pub tags: Tags,
    /// What it is like; `None` if it is gone.
    pub now: Option<Described>,
}

/// What an interface is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet in bytes.
    pub mtu: u32,
    /// It is set up.
    pub up: bool,
    /// The table of the VRF that it is in.
    pub vrf: Option<u32>,
    /// How packets that come in by it are treated.
    pub settings: InterfaceSettings,
}

impl From<&Interface> for Described {
    fn from(one: &Interface) -> Described {
        let vrf = one.vrf.as_ref().map(|vrf| vrf.table);
        let settings = one.settings.clone();
        Described { name: one.name.clone(), mac: one.mac, mtu: one.mtu, up: one.up, vrf, settings }
    }
}

impl From<&InterfaceChange> for Named {
    fn from(change: &InterfaceChange) -> Named {
        let InterfaceChange { number, port, tags, ref now } = *change;
        Named { number, port, tags, now: now.as_ref().map(Described::from) }
    }
}

/// Frames with VRFs: what they are called, or that they are gone.
pub fn vrfs<'a>(all: impl IntoIterator<Item = (u32, Option<&'a str>)>, emit: &mut impl FnMut(Vec<u8>)) {
    let write = |writer: &mut Writer, (table, name): (u32, Option<&str>)| {
        writer.u32(table);
        match name {
            None => writer.u8(0),
            Some(name) => writer.u8(1).text(name),
        };
    };
    write_all(|| begin(Family::Ipv4, What::Vrfs), usize::MAX, all, write, emit);
}

/// Frames with routes of a VRF.
pub fn vrf_routes<A: Address>(
    table: u32,
    routes: impl IntoIterator<Item = (Prefix<A>, Option<NextHopId>)>,
    emit: &mut impl FnMut(Vec<u8>),
) {
    let begin = || {
        let mut writer = begin(A::FAMILY, What::VrfRoutes);
        writer.u32(table);
        writer
    };
    write_all(begin, usize::MAX, routes, write_route, emit);
}

/// Frames with interfaces.
pub fn interfaces(all: impl IntoIterator<Item = Named>, emit: &mut impl FnMut(Vec<u8>)) {
    write_all(|| begin(Family::Ipv4, What::Interfaces), usize::MAX, all, write_interface, emit);
}

fn write_interface(writer: &mut Writer, one: Named) {
    writer.short(one.number.into()).u16(one.port).u8(one.tags.iter().count() as u8);
    for (protocol, id) in one.tags.iter() {
        writer.u16(protocol).u16(id);
    }
    let Some(now) = one.now else {
        writer.u8(0);
        return;
    };
    let (up, vrf) = (if now.up { IS_UP } else { 0 }, if now.vrf.is_some() { IS_IN_VRF } else { 0 });
    writer.u8(IS_THERE | up | vrf).bytes(&now.mac).u32(now.mtu);
    if let Some(table) = now.vrf {
        writer.u32(table);
    }
    writer.text(&now.name);
    write_settings(writer, &now.settings);
}

fn write_settings(writer: &mut Writer, settings: &InterfaceSettings) {
    let sources = match settings.sources {
        SourceCheck::Off => 0,
        SourceCheck::Strict => 1,
        SourceCheck::Loose => 2,
    };
    let flags = [(LINUX4, settings.linux4), (LINUX6, settings.linux6)];
    let flags =
        flags.iter().filter(|(_, set)| *set).fold(sources << SOURCES_SHIFT, |all, (flag, _)| all | flag);
    let macs = settings.virtual_macs.iter().take(InterfaceSettings::MOST_MACS);
    writer.u8(flags).short(macs.len() as u32);
    for mac in macs {
        writer.bytes(mac);
    }
}

/// The table of a VRF: 0 is none.
pub fn read_table(cursor: &mut Cursor<'_>) -> Option<u32> {
    cursor.u32().filter(|table| *table != 0)
}

pub fn read_vrf(cursor: &mut Cursor<'_>) -> Option<(u32, Option<String>)> {
    let table = read_table(cursor)?;
    match cursor.u8()? {
        0 => Some((table, None)),
        1 => Some((table, Some(cursor.text()?.to_owned()))),
        _ => None,
    }
}

pub fn read_interface(cursor: &mut Cursor<'_>) -> Option<Named> {
    let below = |number: &u16| usize::from(*number) < Interfaces::MOST;
    let number = u16::try_from(cursor.short()?).ok().filter(below)?;
    let port = cursor.u16().filter(below)?;
    let count = cursor.u8()?;
    let tags = (0..count).try_fold(Tags::NONE, |tags, _| tags.then(cursor.u16()?, cursor.u16()?))?;
    let state = cursor.u8()?;
    let now = if state == 0 { None } else { Some(read_described(cursor, state)?) };
    Some(Named { number, port, tags, now })
}

fn read_described(cursor: &mut Cursor<'_>, state: u8) -> Option<Described> {
    if state & IS_THERE == 0 || state > IS_THERE | IS_UP | IS_IN_VRF {
        return None;
    }
    let (mac, mtu) = (cursor.array()?, cursor.u32()?);
    let vrf = if state & IS_IN_VRF == 0 { None } else { Some(read_table(cursor)?) };
    let name = cursor.text()?.to_owned();
    let settings = read_settings(cursor)?;
    Some(Described { name, mac, mtu, up: state & IS_UP != 0, vrf, settings })
}

fn read_settings(cursor: &mut Cursor<'_>) -> Option<InterfaceSettings> {
    let flags = cursor.u8()?;
    let sources = match flags >> SOURCES_SHIFT {
        0 => SourceCheck::Off,
        1 => SourceCheck::Strict,
        2 => SourceCheck::Loose,
        _ => return None,
    };
    let count =
        usize::try_from(cursor.short()?).ok().filter(|count| *count <= InterfaceSettings::MOST_MACS)?;
    let macs = (0..count).map(|_| cursor.array()).collect::<Option<Vec<[u8; 6]>>>()?;
    // They are looked for by halves.
    if !macs.is_sorted() {
        return None;
    }
    let (linux4, linux6) = (flags & LINUX4 != 0, flags & LINUX6 != 0);
    Some(InterfaceSettings { linux4, linux6, sources, virtual_macs: macs.into() })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Change, decode};
    use super::*;
    use proptest::prelude::*;

    fn tags() -> impl Strategy<Value = Tags> {
        let tag = (prop::sample::select(vec![Tags::CUSTOMER, Tags::SERVICE]), 1..4095u16);
        prop::collection::vec(tag, 0..3).prop_map(|all| {
            all.iter().fold(Tags::NONE, |tags, (protocol, id)| tags.then(*protocol, *id).unwrap())
        })
    }

    fn settings() -> impl Strategy<Value = InterfaceSettings> {
        let sources = prop::sample::select(vec![SourceCheck::Off, SourceCheck::Strict, SourceCheck::Loose]);
        let macs = prop::collection::btree_set(any::<[u8; 6]>(), 0..5);
        (any::<bool>(), any::<bool>(), sources, macs).prop_map(|(linux4, linux6, sources, macs)| {
            let virtual_macs = macs.into_iter().collect();
            InterfaceSettings { linux4, linux6, sources, virtual_macs }
        })
    }

    fn described() -> impl Strategy<Value = Described> {
        let vrf = prop::option::of(1..=u32::MAX);
        (".{0,20}", any::<[u8; 6]>(), any::<u32>(), any::<bool>(), vrf, settings())
            .prop_map(|(name, mac, mtu, up, vrf, settings)| Described { name, mac, mtu, up, vrf, settings })
    }

    /// Interfaces as a change.
    pub fn interfaces() -> impl Strategy<Value = Change> {
        let number = || 0..Interfaces::MOST as u16;
        let one = (number(), number(), tags(), prop::option::of(described()))
            .prop_map(|(number, port, tags, now)| Named { number, port, tags, now });
        prop::collection::vec(one, 1..20).prop_map(Change::Interfaces)
    }

    /// VRFs as a change.
    pub fn vrfs() -> impl Strategy<Value = Change> {
        prop::collection::vec((1..=u32::MAX, prop::option::of(".{0,20}")), 1..20).prop_map(Change::Vrfs)
    }

    #[test]
    fn what_cannot_be_is_malformed() {
        let good = [
            5, 0, 1, 1, 0x81, 0, 0, 100, 7, 2, 0, 0, 0, 0, 1, 0, 0, 5, 220, 0, 0, 0, 10, 1, b'v', 9, 1, 2, 0,
            0, 0, 0, 9,
        ];
        let head = |what: What| [&[0, 0, 0, 0, 0, 0, 0, 9, 4, what as u8][..]].concat();
        let is_good = |record: &[u8]| decode(&[&head(What::Interfaces)[..], record].concat()).is_ok();
        assert!(is_good(&good) && (1..good.len()).all(|end| !is_good(&good[..end])));
        let with = |at: usize, byte: u8| {
            let mut bad = good;
            bad[at] = byte;
            bad
        };
        // The port, how many tags, their protocol and number, the state, the table, the settings, how many addresses.
        for (at, byte) in [(1, 0x70), (3, 3), (4, 0x82), (7, 0), (8, 6), (8, 9), (22, 0), (25, 12), (26, 2)] {
            assert!(!is_good(&with(at, byte)), "{at}");
        }
        assert!(!is_good(&[&[0x80, 0xe0, 1][..], &good[1..]].concat()));
        let vrf = |bytes: &[u8]| decode(&[&head(What::Vrfs)[..], bytes].concat()).is_ok();
        assert!(vrf(&[0, 0, 0, 1, 1, 1, b'r']) && vrf(&[0, 0, 0, 1, 0]));
        assert!(!vrf(&[0, 0, 0, 0, 0]) && !vrf(&[0, 0, 0, 1, 2]) && !vrf(&[0, 0, 0, 1, 1, 2, b'r']));
        assert!(decode(&[&head(What::VrfRoutes)[..], &[0, 0, 0, 0, 0, 1]].concat()).is_err());
    }
}
