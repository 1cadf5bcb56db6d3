//! The file of a tap, and its interface, wherever that is now.
#![allow(unsafe_code)]

use super::interface::mac_of;
use packet::wire::ethernet::Mac;
use std::fs::{File, OpenOptions};
use std::io::{Error, IoSlice, IoSliceMut, Read, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};

/// One queue of a tap.
#[derive(Debug)]
pub(super) struct TapFile(File);

impl TapFile {
    /// Makes the tap of this name, or a further queue of it if `several`.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(name: &str, several: bool) -> Result<TapFile> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
        let mut request = request(name);
        let multi = if several { libc::IFF_MULTI_QUEUE } else { 0 };
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | multi) as libc::c_short;
        ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request)?;
        Ok(TapFile(file))
    }

    /// Another handle of the same queue.
    ///
    /// # Errors
    /// If there are too many open files.
    pub(super) fn again(&self) -> Result<TapFile> {
        self.0.try_clone().map(TapFile)
    }

    /// Reads a frame; what does not fit goes to `beyond`, and then to nowhere. Returns its length, as far as it is in
    /// either.
    #[inline]
    pub(super) fn read(&self, frame: &mut [u8], beyond: &mut [u8]) -> Result<usize> {
        (&self.0).read_vectored(&mut [IoSliceMut::new(frame), IoSliceMut::new(beyond)])
    }

    /// Gives Linux a frame.
    #[inline]
    pub(super) fn write(&self, frame: &[u8]) -> Result<()> {
        (&self.0).write_vectored(&[IoSlice::new(frame)]).map(|_| ())
    }

    /// The Ethernet address of the interface.
    pub(super) fn mac(&self) -> Result<Mac> {
        let mut request = request("");
        ioctl(self.0.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request)?;
        Ok(mac_of(&request))
    }

    /// The interface's name, which Linux may change.
    fn interface(&self) -> Result<libc::ifreq> {
        let mut request = request("");
        ioctl(self.0.as_raw_fd(), libc::TUNGETIFF, &mut request)?;
        Ok(request)
    }

    /// The network namespace in which the interface is.
    fn namespace(&self) -> Result<File> {
        // SAFETY: takes no argument and returns a descriptor of its own, which is checked.
        let fd = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNGETDEVNETNS) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor for us.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// Asks for what only the interface's own network namespace tells.
#[derive(Debug, Default)]
pub(super) struct Facts(Mutex<Option<(u64, OwnedFd)>>);

impl Facts {
    /// Largest IP packet in bytes.
    pub(super) fn mtu(&self, tap: &TapFile) -> Result<u32> {
        let request = self.ask(tap, libc::SIOCGIFMTU)?;
        // SAFETY: the kernel filled in the MTU, and any bits are a number.
        Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// True if the interface is up and has a carrier.
    pub(super) fn running(&self, tap: &TapFile) -> Result<bool> {
        let request = self.ask(tap, libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel filled in the flags, and any bits are a number.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(flags & both == both)
    }

    fn ask(&self, tap: &TapFile, what: libc::Ioctl) -> Result<libc::ifreq> {
        let namespace = tap.namespace()?;
        let number = namespace.metadata()?.ino();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(of, _)| *of != number) {
            *kept = Some((number, socket_in(namespace)?));
        }
        let socket = kept.as_ref().map_or(-1, |(_, socket)| socket.as_raw_fd());
        let mut request = tap.interface()?;
        ioctl(socket, what, &mut request)?;
        Ok(request)
    }
}

/// A socket that stays in this network namespace. A thread of its own makes it: it alone goes there.
fn socket_in(namespace: File) -> Result<OwnedFd> {
    let make = move || {
        nix::sched::setns(&namespace, nix::sched::CloneFlags::CLONE_NEWNET)?;
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let thread = std::thread::Builder::new().name("netns".to_owned()).spawn(make)?;
    thread.join().unwrap_or_else(|_| Err(Error::from_raw_os_error(libc::EIO)))
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

fn ioctl(fd: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> Result<()> {
    // SAFETY: the requests used here read and write one ifreq and nothing behind it.
    if unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
