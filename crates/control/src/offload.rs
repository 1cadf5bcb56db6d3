//! Offloads that put received segments together before a port sees them: packets longer than any link takes, which a router
//! would pass on as they are. Asked and switched by the kernel's generic netlink family `ethtool`
//! (Documentation/networking/ethtool-netlink.rst).

use crate::link::converse_on;
use crate::netlink::wire::{Attributes, Builder, Raw, u16_at};
use crate::netlink::{Message, decode};
use crate::socket::NetlinkSocket;
use std::io;

/// `GENL_ID_CTRL`, and its `CTRL_CMD_GETFAMILY`.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
/// `ETHTOOL_MSG_FEATURES_GET` and `_SET`.
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
/// Of the type of an attribute whose value is attributes.
const NESTED: u16 = 0x8000;
const REQUEST_ACK: u16 = 1 | 4;
/// Bytes of `struct genlmsghdr`.
const GENERIC_LEN: usize = 4;

/// One that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Offload {
    /// Generic receive offload, by the kernel.
    Gro,
    /// Large receive offload, by the driver or the device.
    Lro,
    /// Generic receive offload, by the device.
    GroHardware,
}

impl Offload {
    /// All.
    pub const ALL: [Offload; 3] = [Offload::Gro, Offload::Lro, Offload::GroHardware];

    /// As `ethtool -K` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Offload::Gro => "gro",
            Offload::Lro => "lro",
            Offload::GroHardware => "rx-gro-hw",
        }
    }

    /// As the kernel calls it.
    fn feature(self) -> &'static str {
        match self {
            Offload::Gro => "rx-gro",
            Offload::Lro => "rx-lro",
            Offload::GroHardware => "rx-gro-hw",
        }
    }
}

/// Those that are on at an interface of the current network namespace, or wanted to be.
///
/// # Errors
/// Those of the system; `NotFound` of a kernel that does not know the family.
pub fn offloads(index: u32) -> io::Result<Vec<Offload>> {
    let mut found = Vec::new();
    ask(FEATURES_GET, Builder::attributes().with(NESTED | 1, &header(index)), |raw| {
        let body = raw.body.get(GENERIC_LEN..).unwrap_or_default();
        // `ETHTOOL_A_FEATURES_WANTED`: the names of bits that are set.
        for (_, wanted) in Attributes::new(body).filter(|(kind, _)| *kind == 3) {
            found.extend(
                Offload::ALL.iter().filter(|offload| names(wanted).any(|name| name == offload.feature())),
            );
        }
    })?;
    Ok(found)
}

/// Switches offloads of an interface of the current network namespace.
///
/// # Errors
/// Those of the system.
pub fn set_offloads(index: u32, offloads: &[Offload], on: bool) -> io::Result<()> {
    if offloads.is_empty() {
        return Ok(());
    }
    // `ETHTOOL_A_BITSET_BITS`: in it a `…_BIT` for each, with its name, and if it is to be set an empty value.
    let mut bits = Builder::attributes();
    for offload in offloads {
        let mut bit = Builder::attributes().with(2, &[offload.feature().as_bytes(), &[0]].concat());
        if on {
            bit = bit.with(3, &[]);
        }
        bits = bits.with(NESTED | 1, &bit.contents());
    }
    let set = Builder::attributes().with(NESTED | 3, &bits.contents());
    let body = Builder::attributes().with(NESTED | 1, &header(index)).with(NESTED | 3, &set.contents());
    ask(FEATURES_SET, body, |_| {})
}

/// `ETHTOOL_A_HEADER_DEV_INDEX`.
fn header(index: u32) -> Vec<u8> {
    Builder::attributes().with(1, &index.to_ne_bytes()).contents()
}

/// The names of the bits in a bitset.
fn names(set: &[u8]) -> impl Iterator<Item = &str> {
    let nested = |of: u16| move |(kind, value)| (kind == of).then_some(Attributes::new(value));
    let bits = Attributes::new(set).filter_map(nested(3)).flatten().filter_map(nested(1));
    bits.filter_map(|mut bit| bit.find(|(kind, _)| *kind == 2))
        .filter_map(|(_, name)| std::str::from_utf8(name).ok().map(|name| name.trim_end_matches('\0')))
}

/// Sends a command to the family, and hands over what it answers.
fn ask(command: u8, attributes: Builder, mut take: impl FnMut(&Raw<'_>)) -> io::Result<()> {
    let socket = NetlinkSocket::generic()?;
    let family = family(&socket)?;
    exchange(&socket, family, command, 2, attributes, |raw| {
        if raw.kind == family {
            take(raw);
        }
    })
}

/// The number of the family.
///
/// # Errors
/// Those of the system; `NotFound` of a kernel that does not know it.
pub(crate) fn family(socket: &NetlinkSocket) -> io::Result<u16> {
    let mut family = None;
    let named = Builder::attributes().with(2, b"ethtool\0");
    exchange(socket, CONTROLLER, GET_FAMILY, 1, named, |raw| {
        let body = raw.body.get(GENERIC_LEN..).unwrap_or_default();
        family =
            Attributes::new(body).find(|(kind, _)| *kind == 1).and_then(|(_, id)| u16_at(id, 0)).or(family);
    })?;
    family.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn exchange(
    socket: &NetlinkSocket,
    family: u16,
    command: u8,
    sequence: u32,
    attributes: Builder,
    mut take: impl FnMut(&Raw<'_>),
) -> io::Result<()> {
    let body = [&[command, 1, 0, 0][..], &attributes.contents()].concat();
    let request = Builder::new(family, REQUEST_ACK, sequence, &body).bytes();
    converse_on(socket, &request, |raw| match decode(raw) {
        Message::Answer { errno: 0, .. } => Some(Ok(())),
        _ => {
            take(raw);
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bits_are_read() {
        let bit = |name: &str| Builder::attributes().with(1, &[0; 4]).with(2, name.as_bytes()).contents();
        let bits =
            Builder::attributes().with(NESTED | 1, &bit("rx-gro\0")).with(NESTED | 1, &bit("tx-lro\0"));
        let set =
            Builder::attributes().with(1, &[]).with(2, &[9, 0, 0, 0]).with(NESTED | 3, &bits.contents());
        assert_eq!(names(&set.contents()).collect::<Vec<_>>(), ["rx-gro", "tx-lro"]);
        assert_eq!(names(&[7; 9]).count(), 0);
    }
}
