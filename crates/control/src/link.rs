//! Interfaces looked at and changed at once: names, addresses, moves between network namespaces, and cables between these.

use crate::netlink::make::{VethEnd, new_veth};
use crate::netlink::request::{self, LinkChange, Topic, dump, set_link};
use crate::netlink::wire::{Messages, Raw};
use crate::netlink::{Action, Address, Link, Message, decode};
use crate::socket::{DATAGRAM, NetlinkSocket, Read};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

/// The interfaces of the current network namespace.
///
/// # Errors
/// Those of the system.
pub fn links() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    converse(&dump(Topic::Links, 1), |message| match message {
        Message::Link(action, link) if action != Action::Remove => {
            links.push(link);
            None
        }
        Message::Done { .. } => Some(Ok(())),
        _ => None,
    })?;
    Ok(links)
}

/// The interface of this name in the current network namespace.
///
/// # Errors
/// Those of the system; `NotFound` if there is none.
pub fn link(name: &str) -> io::Result<Link> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name}"));
    links()?.into_iter().find(|link| link.name == name).ok_or_else(missing)
}

/// Changes an interface of the current network namespace.
///
/// # Errors
/// Those of the system.
pub fn change(index: u32, change: &LinkChange<'_>) -> io::Result<()> {
    ask(&set_link(index, change, 1))
}

/// Sends a request that the kernel answers with yes or no.
///
/// # Errors
/// Those of the system.
pub(crate) fn ask(request: &[u8]) -> io::Result<()> {
    converse(request, |message| match message {
        Message::Answer { errno: 0, .. } => Some(Ok(())),
        _ => None,
    })
}

/// Lays a cable between two network namespaces: a veth pair.
///
/// # Errors
/// Those of the system.
pub fn connect(ends: [&VethEnd<'_>; 2], mtu: u32) -> io::Result<()> {
    ask(&new_veth(ends, mtu, 1))
}

/// The addresses of an interface that somebody has set and that mean something beyond their link.
///
/// # Errors
/// Those of the system.
pub fn addresses(index: u32) -> io::Result<Vec<Address>> {
    /// Not for a time, as those that DHCP or a router has told.
    const PERMANENT: u8 = 0x80;
    let mut addresses = Vec::new();
    converse_raw(&dump(Topic::Addresses, 1), |raw| match decode(raw) {
        Message::Address(action, address) if action != Action::Remove => {
            let is_permanent = raw.body.get(2).is_some_and(|flags| flags & PERMANENT != 0);
            let is_local = matches!(address.local, IpAddr::V6(ip) if ip.is_unicast_link_local());
            if address.link == index && is_permanent && !is_local {
                addresses.push(address);
            }
            None
        }
        Message::Done { .. } => Some(Ok(())),
        _ => None,
    })?;
    Ok(addresses)
}

/// The IPv4 addresses of all interfaces of this namespace.
///
/// # Errors
/// Those of the system.
pub fn own_addresses() -> io::Result<Vec<Ipv4Addr>> {
    let mut addresses = Vec::new();
    converse(&dump(Topic::Addresses, 1), |message| match message {
        Message::Address(Action::Add, Address { local: IpAddr::V4(address), .. }) => {
            addresses.push(address);
            None
        }
        Message::Done { .. } => Some(Ok(())),
        _ => None,
    })?;
    Ok(addresses)
}

/// Gives an interface an address, unless it has it.
///
/// # Errors
/// Those of the system.
pub fn add_address(address: &Address) -> io::Result<()> {
    let done = ask(&request::add_address(address, 1));
    done.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })
}

/// Has the kernel know a neighbour, unless it does.
///
/// # Errors
/// Those of the system.
pub fn add_neighbour(link: u32, ip: IpAddr, mac: [u8; 6]) -> io::Result<()> {
    let done = ask(&request::add_neighbour(link, ip, mac, 1));
    done.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })
}

/// Sends a request and hands over what comes back until `take` has enough.
fn converse(request: &[u8], mut take: impl FnMut(Message) -> Option<io::Result<()>>) -> io::Result<()> {
    converse_raw(request, |raw| take(decode(raw)))
}

/// The same with messages as they come; none of them is an error.
pub(crate) fn converse_raw(
    request: &[u8],
    take: impl FnMut(&Raw<'_>) -> Option<io::Result<()>>,
) -> io::Result<()> {
    converse_on(&NetlinkSocket::open(0, 1 << 20)?, request, take)
}

/// The same on an open socket of any family.
pub(crate) fn converse_on(
    socket: &NetlinkSocket,
    request: &[u8],
    mut take: impl FnMut(&Raw<'_>) -> Option<io::Result<()>>,
) -> io::Result<()> {
    /// Milliseconds that the kernel may think about it.
    const PATIENCE: u16 = 5_000;
    socket.send(request)?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        match socket.read(&mut buffer)? {
            Read::Bytes(len) => {
                for raw in Messages::new(&buffer[..len]) {
                    let raw = raw.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                    match decode(&raw) {
                        Message::Answer { errno, .. } if errno != 0 => {
                            return Err(io::Error::from_raw_os_error(errno));
                        }
                        _ => {
                            if let Some(done) = take(&raw) {
                                return done;
                            }
                        }
                    }
                }
            }
            Read::Nothing => {
                let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                if poll(&mut ready, PollTimeout::from(PATIENCE))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Read::Overrun => return Err(io::Error::other("messages of the kernel were lost")),
        }
    }
}
