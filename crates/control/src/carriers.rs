//! Which interfaces have a carrier, as their drivers say: the kernel tells of some changes up to a second later, if another
//! interface has changed meanwhile. Asked by the generic netlink family `ethtool`
//! (Documentation/networking/ethtool-netlink.rst).

use crate::netlink::wire::{Attributes, Builder, Messages, Raw, u32_at};
use crate::netlink::{Message, decode};
use crate::offload::family;
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use std::io;

/// `ETHTOOL_MSG_LINKSTATE_GET`.
const LINKSTATE_GET: u8 = 6;
/// `NLM_F_REQUEST` and `NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
/// Of the type of an attribute whose value is attributes.
const NESTED: u16 = 0x8000;
/// Bytes of `struct genlmsghdr`.
const GENERIC_LEN: usize = 4;

/// The interfaces of one network namespace.
#[derive(Debug)]
pub struct Carriers {
    socket: NetlinkSocket,
    family: u16,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Carriers {
    /// Of the current network namespace.
    ///
    /// # Errors
    /// Those of the system; `NotFound` of a kernel that does not know the family.
    pub fn open() -> io::Result<Carriers> {
        let socket = NetlinkSocket::generic()?;
        let family = family(&socket)?;
        Ok(Carriers { socket, family, buffer: vec![0; DATAGRAM], sequence: 0 })
    }

    /// The numbers of all interfaces that have a link: they are up, and have a carrier. `None` if that could not be told.
    pub fn read(&mut self) -> Option<Vec<u32>> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let header = Builder::attributes().with(NESTED | 1, &[]).contents();
        let body = [&[LINKSTATE_GET, 1, 0, 0][..], &header].concat();
        self.socket.send(&Builder::new(self.family, REQUEST_DUMP, self.sequence, &body).bytes()).ok()?;
        let mut all = Vec::new();
        // The kernel answers while it is asked.
        while let Ok(Read::Bytes(len)) = self.socket.read(&mut self.buffer) {
            for raw in Messages::new(self.buffer.get(..len)?).map_while(Result::ok) {
                match decode(&raw) {
                    // Of an earlier question.
                    _ if raw.sequence != self.sequence => {}
                    Message::Done { interrupted, .. } => return (!interrupted).then_some(all),
                    Message::Answer { .. } => return None,
                    _ => all.extend(linked(&raw)),
                }
            }
        }
        None
    }
}

/// The interface that a message is about, if it has a link.
fn linked(raw: &Raw<'_>) -> Option<u32> {
    /// `ETHTOOL_A_LINKSTATE_HEADER`, in it `ETHTOOL_A_HEADER_DEV_INDEX`; and `ETHTOOL_A_LINKSTATE_LINK`.
    const HEADER: u16 = 1;
    const INDEX: u16 = 1;
    const LINK: u16 = 2;
    let (mut index, mut link) = (None, false);
    for (kind, value) in Attributes::new(raw.body.get(GENERIC_LEN..)?) {
        match kind {
            HEADER => {
                let found = Attributes::new(value).find(|(kind, _)| *kind == INDEX);
                index = found.and_then(|(_, value)| u32_at(value, 0));
            }
            LINK => link = value.first().is_some_and(|link| *link != 0),
            _ => {}
        }
    }
    index.filter(|_| link)
}
