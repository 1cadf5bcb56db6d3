//! What the ports themselves say: they are in a network namespace of their own, where their carriers come and go.

use crate::netlink::request::{Topic, dump};
use crate::netlink::wire::Messages;
use crate::netlink::{Action, Message, decode};
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The group of messages about interfaces.
const LINKS: u32 = 1;
/// Bytes of messages that may wait in the kernel.
const BUFFER: usize = 1 << 20;

/// A socket in the namespace of the ports.
#[derive(Debug)]
pub struct Cables {
    socket: NetlinkSocket,
    /// Port numbers by interface number there.
    ports: HashMap<u32, usize>,
    /// What was told of each port.
    carriers: Vec<Option<bool>>,
}

impl Cables {
    /// Listens in the current network namespace; `links` are the numbers of the ports' interfaces there, by port. How
    /// they are at first is news.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(links: &[u32]) -> io::Result<Cables> {
        Cables::open_some(links.iter().copied().zip(0..))
    }

    /// The same for some of the ports: numbers of their interfaces and of themselves.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_some(links: impl IntoIterator<Item = (u32, usize)>) -> io::Result<Cables> {
        let socket = NetlinkSocket::open(LINKS, BUFFER)?;
        socket.send(&dump(Topic::Links, 1))?;
        let ports: HashMap<u32, usize> = links.into_iter().collect();
        let count = ports.values().max().map_or(0, |last| last + 1);
        Ok(Cables { socket, ports, carriers: vec![None; count] })
    }

    /// What has changed since the last call: port and carrier.
    pub fn read(&mut self) -> Vec<(usize, bool)> {
        let mut news = Vec::new();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(Read::Bytes(len)) => {
                    for raw in Messages::new(buffer.get(..len).unwrap_or_default()).map_while(Result::ok) {
                        if let Message::Link(action, link) = decode(&raw) {
                            let carrier = link.carrier && action != Action::Remove;
                            self.note(link.index, carrier, &mut news);
                        }
                    }
                }
                // Something was lost: everything is told again.
                Ok(Read::Overrun) => drop(self.socket.send(&dump(Topic::Links, 1))),
                Ok(Read::Nothing) | Err(_) => return news,
            }
        }
    }

    fn note(&mut self, link: u32, carrier: bool, news: &mut Vec<(usize, bool)>) {
        let Some(port) = self.ports.get(&link).copied() else { return };
        if let Some(old) = self.carriers.get_mut(port).filter(|old| **old != Some(carrier)) {
            *old = Some(carrier);
            news.push((port, carrier));
        }
    }
}

impl AsFd for Cables {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
