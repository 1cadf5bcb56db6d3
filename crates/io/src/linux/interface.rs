//! Linux interfaces: those facts and settings that the drivers on top of them do not pass on.
#![allow(unsafe_code)]

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use packet::wire::ethernet::Mac;
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{Error, Result};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// A Linux interface of the network namespace in which it was found.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    // Stays in its namespace even if the thread that asks later is in another.
    socket: Arc<OwnedFd>,
}

impl PartialEq for Interface {
    fn eq(&self, other: &Interface) -> bool {
        self.name == other.name
    }
}

impl Eq for Interface {}

impl Interface {
    /// The interface of this name in the current network namespace.
    pub fn find(name: &str) -> Option<Interface> {
        let c_name = CString::new(name).ok()?;
        // SAFETY: the name is NUL-terminated.
        if unsafe { libc::if_nametoindex(c_name.as_ptr()) } == 0 {
            return None;
        }
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and nobody else owns it.
        let socket = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        Some(Interface { name: name.to_owned(), socket })
    }

    /// Largest IP packet in bytes.
    ///
    /// # Errors
    /// If it has gone.
    pub fn mtu(&self) -> Result<u32> {
        let request = self.ioctl(libc::SIOCGIFMTU, self.request())?;
        // SAFETY: the kernel filled in the MTU, and any bits are a number.
        Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Sets the MTU. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
        self.ioctl(libc::SIOCSIFMTU, request).map(|_| ())
    }

    /// True if the interface is up and has a carrier.
    ///
    /// # Errors
    /// If it has gone.
    pub fn running(&self) -> Result<bool> {
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(self.flags()? & both == both)
    }

    /// True if the interface takes frames for any address because somebody asked for it.
    ///
    /// # Errors
    /// If it has gone.
    pub fn promiscuous(&self) -> Result<bool> {
        Ok(self.flags()? & libc::IFF_PROMISC != 0)
    }

    /// Receive queues that frames are spread over.
    pub fn rx_queues(&self) -> u32 {
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // Drivers that do not know the question have one queue.
        match self.ioctl(libc::SIOCETHTOOL, request) {
            Ok(_) => channels.receive.saturating_add(channels.combined).max(1),
            Err(_) => 1,
        }
    }

    /// What in Linux needs the packets of the interface: an address, or an interface on top of it.
    pub fn used_by_linux(&self) -> Option<String> {
        let address = addresses(&self.name).into_iter().find(|a| !is_automatic(*a));
        address.map(|a| a.to_string()).or_else(|| self.upper())
    }

    /// A bridge, bond, VLAN or the like on top of the interface.
    fn upper(&self) -> Option<String> {
        let dir = Path::new("/sys/class/net").join(&self.name);
        // The file system may show another namespace, which then knows nothing of this interface.
        let index: i32 = fs::read_to_string(dir.join("ifindex")).ok()?.trim().parse().ok()?;
        if self.index().ok()? != index {
            return None;
        }
        let names = fs::read_dir(dir).ok()?.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter_map(|n| n.strip_prefix("upper_").map(str::to_owned)).min()
    }

    /// Its number.
    ///
    /// # Errors
    /// If it has gone.
    pub fn index(&self) -> Result<i32> {
        let request = self.ioctl(libc::SIOCGIFINDEX, self.request())?;
        // SAFETY: the kernel filled in the index, and any bits are a number.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    /// Its Ethernet address.
    ///
    /// # Errors
    /// If it has gone.
    pub fn mac(&self) -> Result<Mac> {
        Ok(mac_of(&self.ioctl(libc::SIOCGIFHWADDR, self.request())?))
    }

    /// Sets the interface up. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_up(&self) -> Result<()> {
        let mut request = self.request();
        let flags = self.flags()? | libc::IFF_UP;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        self.ioctl(libc::SIOCSIFFLAGS, request).map(|_| ())
    }

    fn flags(&self) -> Result<i32> {
        let request = self.ioctl(libc::SIOCGIFFLAGS, self.request())?;
        // SAFETY: the kernel filled in the flags, and any bits are a number.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The name is shorter than the field, or the kernel would not know it; the last byte stays 0 in any case.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        request
    }

    fn ioctl(&self, what: libc::Ioctl, mut request: libc::ifreq) -> Result<libc::ifreq> {
        // SAFETY: the requests used here read and write one ifreq, and what it points to where it does.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &raw mut request) } < 0 {
            return Err(Error::last_os_error());
        }
        Ok(request)
    }
}

/// The Ethernet address that the kernel has filled in.
pub(super) fn mac_of(request: &libc::ifreq) -> Mac {
    // SAFETY: the kernel filled in a hardware address, and any bits are bytes.
    let data = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
    let mut mac = Mac::default();
    mac.iter_mut().zip(data).for_each(|(to, from)| *to = from.cast_unsigned());
    mac
}

/// The IP addresses of the interface of this name in the current network namespace.
fn addresses(name: &str) -> Vec<IpAddr> {
    let all = getifaddrs().into_iter().flatten().filter(|one| one.interface_name == name);
    let ip = |address: SockaddrStorage| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(IpAddr::from(v4.ip())),
        (_, Some(v6)) => Some(IpAddr::from(v6.ip())),
        _ => None,
    };
    all.filter_map(|one| one.address).filter_map(ip).collect()
}

/// True for the address that every interface has by itself.
fn is_automatic(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The names of all interfaces of the current network namespace.
pub fn all() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: returns NULL or an array that ends with an entry of index 0 and is ours to free.
    let list = unsafe { libc::if_nameindex() };
    let mut entry = list;
    // SAFETY: `entry` walks from the start of the array to its end mark, not beyond.
    while let Some(one) = unsafe { entry.as_ref() }
        && one.if_index != 0
        && !one.if_name.is_null()
    {
        // SAFETY: the name is NUL-terminated.
        names.push(unsafe { CStr::from_ptr(one.if_name) }.to_string_lossy().into_owned());
        // SAFETY: this entry was not the last.
        entry = unsafe { entry.add(1) };
    }
    if !list.is_null() {
        // SAFETY: the list came from if_nameindex and is not used any more.
        unsafe { libc::if_freenameindex(list) };
    }
    names
}

/// True if Linux would take this as an interface name, and the arguments of devices can carry it.
pub fn is_valid_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=15).contains(&name.len()) && name.bytes().all(good) && name != "." && name != ".."
}
