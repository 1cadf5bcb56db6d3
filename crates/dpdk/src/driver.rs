//! The two drivers of Linux interfaces, and which one an interface gets that is named without either.

use io::linux::Interface;
use io::{Claim, Limits};

/// The driver by which a Linux interface is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Raw sockets with shared rings: every interface, many queues, any MTU. The driver asks Linux to put IP fragments
    /// together before it hands packets over, which a router must not do (RFC 1812 §4.2.2.7).
    AfPacket,
    /// An XDP socket: every packet as it came, and faster. It takes them all away from Linux.
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
/// The most queues that the AF_PACKET driver makes.
const AF_PACKET_QUEUES: u16 = 16;
/// Frames that each ring of the AF_PACKET driver holds unless the user asks for another number.
const AF_PACKET_FRAMES: u32 = 1024;
/// The smallest slot of such a ring, enough for an MTU of 1500.
const AF_PACKET_SLOT: u32 = 2048;
/// What the kernel puts in front of the frame in such a slot, generously.
const AF_PACKET_HEADER: u32 = 128;

impl Driver {
    /// How users write it, in front of a colon and the interface.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Driver::AfPacket => "af_packet",
            Driver::AfXdp => "af_xdp",
        }
    }

    /// What it can do.
    pub(crate) fn limits(self) -> Limits {
        match self {
            Driver::AfPacket => Limits { rx_queues: AF_PACKET_QUEUES, tx_queues: AF_PACKET_QUEUES },
            // An XDP socket serves one queue of the interface.
            Driver::AfXdp => Limits { rx_queues: 1, tx_queues: 1 },
        }
    }

    /// Bytes that a buffer must have for the largest frame.
    pub(crate) fn frame_room(self, mtu: u32) -> u32 {
        match self {
            // The driver insists on buffers for whole slots.
            Driver::AfPacket if slot(mtu) > AF_PACKET_SLOT => slot(mtu),
            Driver::AfPacket => mtu + FRAME_EXTRA,
            Driver::AfXdp => mtu + FRAME_EXTRA + XDP_HEADROOM,
        }
    }

    /// DPDK's name for such a port of an interface, and the arguments that make it.
    pub(crate) fn spec(self, interface: &str, claim: Claim, mtu: u32) -> (String, String) {
        let name = format!("net_{}_{interface}", self.name());
        let spec = match self {
            Driver::AfPacket => {
                let queues = claim.rx_queues.max(claim.tx_queues).max(1);
                let wish = u32::from(claim.rx_descriptors.max(claim.tx_descriptors));
                let frames = if wish == 0 { AF_PACKET_FRAMES } else { wish.next_power_of_two().max(8) };
                let (slot, block) = (slot(mtu), slot(mtu).max(4096));
                format!(
                    "{name},iface={interface},qpairs={queues},framesz={slot},blocksz={block},framecnt={frames},\
                     qdisc_bypass=1"
                )
            }
            Driver::AfXdp => format!("{name},iface={interface}"),
        };
        (name, spec)
    }
}

/// Bytes of one slot of the rings of the AF_PACKET driver.
fn slot(mtu: u32) -> u32 {
    (mtu + FRAME_EXTRA + AF_PACKET_HEADER).next_power_of_two().max(AF_PACKET_SLOT)
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
    fn slots_hold_whole_frames() {
        for (mtu, size) in [(0, 2048), (1500, 2048), (1898, 2048), (1899, 4096), (9000, 16_384)] {
            assert_eq!(slot(mtu), size, "{mtu}");
        }
        assert_eq!(Driver::AfPacket.frame_room(1500), 1522);
        assert_eq!(Driver::AfPacket.frame_room(3000), 4096);
        assert_eq!(Driver::AfXdp.frame_room(1500), 1778);
        assert_eq!(Driver::AfXdp.frame_room(UNASKED_XDP_MTU), 2048);
        assert!(Driver::AfPacket.frame_room(UNASKED_XDP_MTU) <= 2048);
    }

    #[test]
    fn devices_are_described_to_dpdk() {
        let claim = Claim { rx_queues: 1, tx_queues: 3, tx_descriptors: 100, ..Claim::default() };
        assert_eq!(Driver::AfXdp.spec("e0", claim, 1500).1, "net_af_xdp_e0,iface=e0");
        let (name, spec) = Driver::AfPacket.spec("e0", claim, 1500);
        assert_eq!(name, "net_af_packet_e0");
        let ring = "qpairs=3,framesz=2048,blocksz=4096,framecnt=128,qdisc_bypass=1";
        assert_eq!(spec, format!("net_af_packet_e0,iface=e0,{ring}"));
    }

    #[test]
    fn limits_of_xdp_sockets() {
        assert_eq!(too_large_mtu(1770), None);
        assert_eq!(too_large_mtu(9000).as_deref(), Some("its MTU is 9000, more than 1770"));
        assert_eq!(too_large_buffers(3584), None);
        assert!(too_large_buffers(3648).is_some());
    }
}
