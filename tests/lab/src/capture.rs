//! Raw frames at an interface: what comes in, and what to send (AF_PACKET).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt,
    socket, sockopt,
};

use crate::netns::Namespace;
use crate::{Context, Error, Result};

/// Room for frames that nobody has read yet: enough for some ten thousand of them.
const BUFFER: usize = 32 << 20;
/// Longer than any frame on the cables of the lab, whose MTUs are at most 1500.
const LONGEST: usize = 4096;

/// A raw socket at one interface of one namespace. It sees only what comes in, not what is sent there.
#[derive(Debug)]
pub struct RawPort {
    socket: OwnedFd,
    name: String,
}

impl RawPort {
    /// Opens `interface` of `namespace`.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<RawPort> {
        let name = format!("{interface} of {}", namespace.name());
        let socket =
            namespace.inside(|| open(interface).cannot(|| format!("open a raw socket at {name}")))?;
        let port = RawPort { socket, name };
        // Frames of other interfaces may have come between opening and binding.
        while port.receive()?.is_some() {}
        Ok(port)
    }

    /// Sends a frame, waiting while the interface's queue is full.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) if Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                Err(error) => {
                    return Err(Error::new(format!(
                        "cannot send {} octets at {}: {error}",
                        frame.len(),
                        self.name
                    )));
                }
            }
        }
    }

    /// Sends a frame unless the interface is down or takes none. True if it was taken.
    pub fn offer(&self, frame: &[u8]) -> Result<bool> {
        let deadline = Instant::now() + Duration::from_millis(20);
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) => return Ok(true),
                Err(Errno::ENETDOWN | Errno::EMSGSIZE) => return Ok(false),
                Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) if Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) => return Ok(false),
                Err(error) => return Err(Error::new(format!("cannot send at {}: {error}", self.name))),
            }
        }
    }

    /// The next frame that has come in, if there is one.
    pub fn receive(&self) -> Result<Option<Vec<u8>>> {
        let mut frame = [0; LONGEST];
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut frame) {
                Ok((_, Some(from))) if from.pkttype() == libc::PACKET_OUTGOING => {}
                Ok((length, _)) => return Ok(Some(frame[..length].to_vec())),
                Err(Errno::EAGAIN) => return Ok(None),
                // The interface has been set down; the socket is told once and goes on when it is up again.
                Err(Errno::EINTR | Errno::ENETDOWN) => {}
                Err(error) => return Err(Error::new(format!("cannot receive at {}: {error}", self.name))),
            }
        }
    }
}

/// Waits until a frame has come in at one of `ports`, or `limit` is over.
pub fn wait_for_frames(ports: &[&RawPort], limit: Duration) -> Result<()> {
    let mut fds: Vec<PollFd> =
        ports.iter().map(|port| PollFd::new(port.socket.as_fd(), PollFlags::POLLIN)).collect();
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, limit) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(Error::new(format!("cannot wait for frames: {error}"))),
    }
}

/// A raw socket bound to an interface of the calling thread's namespace.
fn open(interface: &str) -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
        .cannot(|| "open a packet socket".to_owned())?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).cannot(|| "enlarge the buffer".to_owned())?;
    let address = nix::ifaddrs::getifaddrs()
        .cannot(|| "list interfaces".to_owned())?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address.filter(|address| address.as_link_addr().is_some()))
        .ok_or_else(|| Error::new("no such interface"))?;
    bind(socket.as_raw_fd(), &address).cannot(|| "bind".to_owned())?;
    Ok(socket)
}
