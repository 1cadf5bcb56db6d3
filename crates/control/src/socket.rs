//! A netlink socket of the current network namespace.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, MultiHeaders, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv,
    recvmmsg, send, setsockopt, socket, sockopt,
};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Groups to listen to: interfaces, neighbours, addresses and routes of both families, settings of interfaces of both, rules of
/// both, next-hop objects (group n is bit n − 1).
pub const GROUPS: u32 =
    1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 31;

/// Room for one datagram: the kernel uses at most 32 KiB.
pub const DATAGRAM: usize = 64 * 1024;
/// From one datagram in the buffer to the next: they do not begin in the same places of a cache.
const STRIDE: usize = DATAGRAM + 256;

/// Room for datagrams that are read together.
#[derive(Debug)]
pub struct Inbox {
    headers: MultiHeaders<()>,
    buffer: Vec<u8>,
    lengths: Vec<usize>,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            headers: MultiHeaders::preallocate(Inbox::MOST, None),
            buffer: vec![0; Inbox::MOST * STRIDE],
            lengths: Vec::with_capacity(Inbox::MOST),
        }
    }
}

impl Inbox {
    /// So many it has room for.
    pub const MOST: usize = 32;

    /// What was read last.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.buffer.chunks(STRIDE).zip(&self.lengths).filter_map(|(datagram, len)| datagram.get(..*len))
    }
}

/// A socket to the kernel's routing subsystem, unless it says otherwise. Reads do not block.
#[derive(Debug)]
pub struct NetlinkSocket(OwnedFd);

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A datagram of so many bytes.
    Bytes(usize),
    /// Nothing more for now.
    Nothing,
    /// The kernel had to drop messages.
    Overrun,
}

impl NetlinkSocket {
    /// Opens a socket that listens to `groups`, with room for `buffer` bytes of messages that were not read yet; less if
    /// this process may not have as much.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(groups: u32, buffer: usize) -> io::Result<NetlinkSocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        // The kernel doubles it.
        if setsockopt(&fd, sockopt::RcvBufForce, &(buffer / 2)).is_err() {
            setsockopt(&fd, sockopt::RcvBuf, &(buffer / 2))?;
        }
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(NetlinkSocket(fd))
    }

    /// Opens a socket to the kernel's generic families, of which it hears nothing that it has not asked for.
    ///
    /// # Errors
    /// Those of the system.
    pub fn generic() -> io::Result<NetlinkSocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(NetlinkSocket(fd))
    }

    /// Sends one request.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send(&self, request: &[u8]) -> io::Result<()> {
        send(self.0.as_raw_fd(), request, MsgFlags::empty())?;
        Ok(())
    }

    /// Reads `most` datagrams, or as many as are there and have room, in one call; tells how many bytes they have.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_some(&self, inbox: &mut Inbox, most: usize) -> io::Result<Read> {
        let Inbox { headers, buffer, lengths } = inbox;
        lengths.clear();
        let parts = buffer.chunks_mut(STRIDE).take(most);
        let mut room: Vec<_> = parts.map(|part| [IoSliceMut::new(part)]).collect();
        match recvmmsg(self.0.as_raw_fd(), headers, &mut room, MsgFlags::empty(), None) {
            Ok(results) => lengths.extend(results.map(|result| result.bytes)),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Read::Nothing),
            Err(Errno::ENOBUFS) => return Ok(Read::Overrun),
            Err(errno) => return Err(errno.into()),
        }
        Ok(Read::Bytes(lengths.iter().sum()))
    }

    /// Reads one datagram.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(len) => Ok(Read::Bytes(len)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Read::Nothing),
            Err(Errno::ENOBUFS) => Ok(Read::Overrun),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
