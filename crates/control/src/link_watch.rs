//! The interfaces of one network namespace, watched and changed from a thread that may be in another.

use crate::link::converse_on;
use crate::netlink::request::{LinkChange, Topic, dump, set_link};
use crate::netlink::wire::Messages;
use crate::netlink::{Action, Link, Message, decode};
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The group of messages about interfaces.
const LINKS: u32 = 1;
/// Bytes of messages that may wait in the kernel.
const BUFFER: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct LinkWatch {
    news: NetlinkSocket,
    requests: NetlinkSocket,
    buffer: Vec<u8>,
}

impl LinkWatch {
    /// Of the current network namespace. What there is at first is news.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open() -> io::Result<LinkWatch> {
        let (news, requests) = (NetlinkSocket::open(LINKS, BUFFER)?, NetlinkSocket::open(0, BUFFER)?);
        news.send(&dump(Topic::Links, 1))?;
        Ok(LinkWatch { news, requests, buffer: vec![0; DATAGRAM] })
    }

    /// What has been told since the last call, in order.
    pub fn read(&mut self) -> Vec<(Action, Link)> {
        let mut all = Vec::new();
        loop {
            match self.news.read(&mut self.buffer) {
                Ok(Read::Bytes(len)) => {
                    let bytes = self.buffer.get(..len).unwrap_or_default();
                    for raw in Messages::new(bytes).map_while(Result::ok) {
                        if let Message::Link(action, link) = decode(&raw) {
                            all.push((action, link));
                        }
                    }
                }
                // Something was lost: everything is told again.
                Ok(Read::Overrun) => drop(self.news.send(&dump(Topic::Links, 1))),
                Ok(Read::Nothing) | Err(_) => return all,
            }
        }
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// Those of the system.
    pub fn change(&self, index: u32, change: &LinkChange<'_>) -> io::Result<()> {
        converse_on(&self.requests, &set_link(index, change, 1), |raw| match decode(raw) {
            Message::Answer { errno: 0, .. } => Some(Ok(())),
            _ => None,
        })
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
