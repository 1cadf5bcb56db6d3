//! The two drivers of Linux interfaces, and which one an interface gets that is named without either.

use io::Limits;
use io::linux::{Interface, PacketPort};

/// The driver by which a Linux interface is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Raw sockets, without DPDK: every interface, many queues, any MTU.
    AfPacket,
    /// An XDP socket: faster. It takes all packets away from Linux, and one of DPDK's devices.
    AfXdp,
}

/// What a frame has besides the IP packet.
pub(crate) const FRAME_EXTRA: u32 = io::FRAME_EXTRA as u32;
/// What some devices put in front of each frame that they receive: virtio's header, with a buffer count.
pub(crate) const DEVICE_HEADER: u32 = 12;
/// What the kernel keeps free in front of each frame of an XDP socket.
pub(crate) const XDP_HEADROOM: u32 = 256;
/// The largest data room of buffers for XDP sockets: with all that stands in front of it, a page.
pub(crate) const MOST_XDP_ROOM: u16 = 3584;
/// The largest MTU for which an interface gets an XDP socket unasked: its frames fit into buffers of the usual size
/// by either driver, so it is of no consequence for the pool which one it will be.
const UNASKED_XDP_MTU: u32 = 2048 - XDP_HEADROOM - FRAME_EXTRA;
impl Driver {
    /// What it can do.
    pub(crate) fn limits(self) -> Limits {
        match self {
            Driver::AfPacket => PacketPort::LIMITS,
            // An XDP socket serves one queue of the interface.
            Driver::AfXdp => Limits { rx_queues: 1, tx_queues: 1 },
        }
    }

    /// Bytes that a buffer must have for the largest frame.
    pub(crate) fn frame_room(self, mtu: u32) -> u32 {
        match self {
            Driver::AfPacket => mtu + FRAME_EXTRA,
            Driver::AfXdp => mtu + FRAME_EXTRA + XDP_HEADROOM,
        }
    }
}

/// DPDK's name for the XDP socket of an interface, and the arguments that make it.
pub(crate) fn xdp(interface: &str) -> (String, String) {
    let name = format!("net_af_xdp_{interface}");
    let spec = format!("{name},iface={interface}");
    (name, spec)
}

/// Why an interface that was named without a driver gets no XDP socket, as far as it can be told in advance.
pub(crate) fn obstacle(interface: &Interface) -> Option<String> {
    // Nobody shall lose the way to a machine because a configuration looks at its interface.
    if let Some(user) = interface.used_by_linux() {
        return Some(format!("Linux uses it itself ({user}), and an XDP socket would take its packets away"));
    }
    too_many_queues(interface).or_else(|| too_large_mtu(interface.mtu().unwrap_or(0)))
}

/// What is lost if an XDP socket reads an interface with several receive queues.
pub(crate) fn too_many_queues(interface: &Interface) -> Option<String> {
    let queues = interface.rx_queues();
    (queues > 1).then(|| format!("it has {queues} receive queues, of which an XDP socket reads one"))
}

/// Why an interface of this MTU gets no XDP socket unasked.
pub(crate) fn too_large_mtu(mtu: u32) -> Option<String> {
    (mtu > UNASKED_XDP_MTU).then(|| format!("its MTU is {mtu}, more than {UNASKED_XDP_MTU}"))
}

/// Why no XDP socket can use buffers with this data room.
pub(crate) fn too_large_buffers(data_room: u16) -> Option<String> {
    let text =
        || format!("XDP sockets take buffers of up to {MOST_XDP_ROOM} bytes, and these have {data_room}");
    (data_room > MOST_XDP_ROOM).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_whole_frames() {
        assert_eq!([1500, 9000].map(|mtu| Driver::AfPacket.frame_room(mtu)), [1522, 9022]);
        assert_eq!([1500, UNASKED_XDP_MTU].map(|mtu| Driver::AfXdp.frame_room(mtu)), [1778, 2048]);
    }

    #[test]
    fn an_xdp_socket_is_described_to_dpdk() {
        assert_eq!(xdp("e0"), ("net_af_xdp_e0".to_owned(), "net_af_xdp_e0,iface=e0".to_owned()));
    }

    #[test]
    fn limits_of_xdp_sockets() {
        assert_eq!(too_large_mtu(1770), None);
        assert_eq!(too_large_mtu(9000).as_deref(), Some("its MTU is 9000, more than 1770"));
        assert_eq!(too_large_buffers(3584), None);
        assert!(too_large_buffers(3648).is_some());
    }
}
