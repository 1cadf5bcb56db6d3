//! What the ports themselves say: they are in a network namespace of their own, where their carriers come and go.

use crate::carriers::Carriers;
use crate::netlink::request::{Topic, dump};
use crate::netlink::wire::Messages;
use crate::netlink::{Action, Message, decode};
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The group of messages about interfaces.
const LINKS: u32 = 1;
/// Bytes of messages that may wait in the kernel.
const BUFFER: usize = 1 << 20;

/// How often the ports themselves are asked: the kernel may tell of a lost carrier up to a second late.
const PERIOD: Duration = Duration::from_millis(5);

/// A socket in the namespace of the ports.
#[derive(Debug)]
pub struct Cables {
    socket: NetlinkSocket,
    /// Port numbers by interface number there.
    ports: HashMap<u32, usize>,
    /// What was told of each port.
    carriers: Vec<Option<bool>>,
    /// Where the ports are asked; what the kernel tells is only a reason to ask then.
    asked: Option<Carriers>,
    /// When it is time to.
    due: Instant,
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

    /// The same, which asks no ports: for whoever hears of late changes otherwise.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(links: &[u32]) -> io::Result<Cables> {
        Ok(Cables { asked: None, ..Cables::open(links)? })
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
        // A kernel that cannot be asked tells in its own time.
        let asked = Carriers::open().ok();
        Ok(Cables { socket, ports, carriers: vec![None; count], asked, due: Instant::now() })
    }

    /// How long there is nothing to do if the kernel tells nothing; `None` = for ever.
    pub fn wait(&self) -> Option<Duration> {
        self.asked.as_ref().map(|_| self.due.saturating_duration_since(Instant::now()))
    }

    /// What has changed since the last call: port and carrier.
    pub fn read(&mut self) -> Vec<(usize, bool)> {
        let mut news = Vec::new();
        self.read_told(&mut news);
        self.ask(&mut news);
        news
    }

    fn read_told(&mut self, news: &mut Vec<(usize, bool)>) {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(Read::Bytes(len)) => {
                    for raw in Messages::new(buffer.get(..len).unwrap_or_default()).map_while(Result::ok) {
                        if let Message::Link(action, link) = decode(&raw) {
                            let carrier = link.carrier && action != Action::Remove;
                            match self.asked {
                                Some(_) => self.due = Instant::now(),
                                None => self.note(link.index, carrier, news),
                            }
                        }
                    }
                }
                // Something was lost: everything is told again.
                Ok(Read::Overrun) => drop(self.socket.send(&dump(Topic::Links, 1))),
                Ok(Read::Nothing) | Err(_) => return,
            }
        }
    }

    /// Asks the ports, if it is time to.
    fn ask(&mut self, news: &mut Vec<(usize, bool)>) {
        let Some(asked) = self.asked.as_mut().filter(|_| Instant::now() >= self.due) else { return };
        self.due = Instant::now() + PERIOD;
        // What cannot be told now can be in the next round.
        let Some(linked) = asked.read() else { return };
        let links: Vec<u32> = self.ports.keys().copied().collect();
        for link in links {
            self.note(link, linked.contains(&link), news);
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
