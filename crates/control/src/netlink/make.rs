//! Requests for cables that are not there yet.

use super::numbers::*;
use super::wire::Builder;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
/// Make it, and fail if it is there.
const CREATE: u16 = 0x600;
/// Of the type of an attribute whose value is attributes.
const NESTED: u16 = 0x8000;
/// The fixed part of messages about interfaces (`ifinfomsg`).
const LINK_BODY: [u8; 16] = [0; 16];

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The interface's name.
    pub name: &'a str,
    /// The network namespace that it is in, as an open file of this process.
    pub namespace: i32,
}

/// Asks for a veth pair, both ends with this MTU. The answer is an acknowledgement.
pub fn new_veth([end, peer]: [&VethEnd<'_>; 2], mtu: u32, sequence: u32) -> Vec<u8> {
    // IFLA_LINKINFO: { IFLA_INFO_KIND, IFLA_INFO_DATA: { VETH_INFO_PEER: ifinfomsg and attributes } }.
    let peer = [&LINK_BODY[..], &end_attributes(peer, mtu)].concat();
    let info = [attribute(1, b"veth"), attribute(NESTED | 2, &attribute(NESTED | 1, &peer))].concat();
    let body = [&LINK_BODY[..], &end_attributes(end, mtu)].concat();
    Builder::new(RTM_NEWLINK, REQUEST | ACK | CREATE, sequence, &body).with(NESTED | 18, &info).bytes()
}

fn end_attributes(end: &VethEnd<'_>, mtu: u32) -> Vec<u8> {
    let name = [end.name.as_bytes(), &[0]].concat();
    [attribute(3, &name), attribute(4, &mtu.to_ne_bytes()), attribute(28, &end.namespace.to_ne_bytes())]
        .concat()
}

/// One attribute; the values here are far below the 64 KiB that it could have.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::wire::{Attributes, Messages};

    #[test]
    fn a_pair_is_two_ends_one_within_the_other() {
        let end = |name, namespace| VethEnd { name, namespace };
        let bytes = new_veth([&end("to-b", 7), &end("to-a", 8)], 1518, 1);
        let message = Messages::new(&bytes).next().unwrap().unwrap();
        let within = |body: &[u8], kind: u16| -> Vec<u8> {
            Attributes::new(body).find(|(found, _)| *found == kind).unwrap().1.to_vec()
        };
        let body = &message.body[16..];
        assert_eq!((within(body, 3), within(body, 28)), (b"to-b\0".to_vec(), 7i32.to_ne_bytes().to_vec()));
        let info = within(body, 18);
        assert_eq!(within(&info, 1), b"veth");
        let peer = within(&within(&info, 2), 1);
        assert_eq!(
            (within(&peer[16..], 3), within(&peer[16..], 4)),
            (b"to-a\0".to_vec(), 1518u32.to_ne_bytes().to_vec())
        );
    }
}
