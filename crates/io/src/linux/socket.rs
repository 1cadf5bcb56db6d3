//! Raw packet sockets: what is asked of the kernel.
#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Most frames that one system call sends.
pub(super) const BURST: usize = 32;

/// What a ring is asked for: `struct tpacket_req`.
#[repr(C)]
pub(super) struct Ring {
    pub block: u32,
    pub blocks: u32,
    pub slot: u32,
    pub slots: u32,
}

/// A raw packet socket, which does not block.
#[derive(Debug)]
pub(super) struct RawSocket(OwnedFd);

impl RawSocket {
    /// A socket that receives nothing yet.
    ///
    /// # Errors
    /// If the right to it is missing, for instance.
    pub(super) fn new() -> Result<RawSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(RawSocket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn set<T>(&self, level: i32, option: i32, value: &T) -> Result<()> {
        let size = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
        // SAFETY: points to a value of that size, which the kernel copies.
        let code = unsafe {
            libc::setsockopt(self.0.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size)
        };
        if code < 0 { Err(Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads an option whose value is made of numbers.
    fn get<T: Copy + Default>(&self, option: i32) -> Result<T> {
        let mut value = T::default();
        let mut size = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
        // SAFETY: room for `size` bytes.
        let code = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw mut value).cast(),
                &raw mut size,
            )
        };
        if code < 0 { Err(Error::last_os_error()) } else { Ok(value) }
    }

    /// Frames are to come by a ring.
    pub(super) fn make_ring(&self, ring: &Ring) -> Result<()> {
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, ring)
    }

    /// What this machine sends is not received.
    pub(super) fn ignore_outgoing(&self) -> Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
    }

    /// What is sent goes to the driver, past the queueing discipline.
    pub(super) fn bypass_queueing(&self) -> Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
    }

    /// Sends on this interface, and receives from it if asked to.
    pub(super) fn bind(&self, interface: i32, receives: bool) -> Result<()> {
        // SAFETY: all-zero is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receives { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        address.sll_ifindex = interface;
        let size = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or(0);
        // SAFETY: points to an address of that size.
        let code = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), size) };
        if code < 0 { Err(Error::last_os_error()) } else { Ok(()) }
    }

    /// Shares frames with the other sockets of a group, by flow; without a group it begins one. Returns the group. Frames
    /// are left as they are: fragments are not put together for it.
    pub(super) fn join(&self, group: Option<u16>) -> Result<u16> {
        let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let kind = (libc::PACKET_FANOUT_HASH | unique) << 16;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(kind | u32::from(group.unwrap_or(0))))?;
        Ok((self.get::<u32>(libc::PACKET_FANOUT)? & 0xffff) as u16)
    }

    /// Receives nothing until [`RawSocket::open`].
    pub(super) fn shut(&self) -> Result<()> {
        let mut program =
            [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
        let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Receives everything.
    pub(super) fn open(&self) -> Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
    }

    /// The interface takes frames for any address as long as the socket lives.
    pub(super) fn promiscuous(&self, interface: i32) -> Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Frames that found no room in the ring since this was last asked.
    pub(super) fn missed(&self) -> u64 {
        let [_, drops] = self.get::<[u32; 2]>(libc::PACKET_STATISTICS).unwrap_or_default();
        drops.into()
    }

    /// Sends frames, up to [`BURST`], from the first on; returns how many the kernel took, at least one.
    pub(super) fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        // SAFETY: all-zero is a valid message and a valid (empty) piece of memory.
        let (mut messages, mut pieces): ([libc::mmsghdr; BURST], [libc::iovec; BURST]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut count = 0;
        for ((message, piece), frame) in messages.iter_mut().zip(&mut pieces).zip(frames) {
            piece.iov_base = frame.as_ptr().cast_mut().cast();
            piece.iov_len = frame.len();
            message.msg_hdr.msg_iov = std::ptr::from_mut(piece);
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        let fd = self.0.as_raw_fd();
        // SAFETY: `count` messages, each of one piece, which lies in a frame that the caller lends us; sending only reads.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        usize::try_from(sent).map_err(|_| Error::last_os_error())
    }
}
