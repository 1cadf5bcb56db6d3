//! Ports and their queues.

use crate::refusal::Refusals;
use crate::rss::{Rss, RssState};
use packet::Batch;
use packet::wire::ethernet::Mac;

/// What a frame has besides the IP packet, in bytes: Ethernet header, two VLAN tags.
pub const FRAME_EXTRA: usize = 22;

/// What a configuration wants of a port. Claims on the same port add up: the larger of each number holds,
/// and what one of them says of RSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors per receive queue; 0 = the device's default.
    pub rx_descriptors: u16,
    /// Descriptors per transmit queue; 0 = the device's default.
    pub tx_descriptors: u16,
    /// Receive frames for any destination address.
    pub promiscuous: bool,
    /// Largest IP packet in bytes; 0 = leave as it is.
    pub mtu: u16,
    /// How the device spreads packets over its receive queues.
    pub rss: Rss,
}

impl Claim {
    /// Both claims together.
    pub fn and(self, other: Claim) -> Claim {
        Claim {
            rx_queues: self.rx_queues.max(other.rx_queues),
            tx_queues: self.tx_queues.max(other.tx_queues),
            rx_descriptors: self.rx_descriptors.max(other.rx_descriptors),
            tx_descriptors: self.tx_descriptors.max(other.tx_descriptors),
            promiscuous: self.promiscuous || other.promiscuous,
            mtu: self.mtu.max(other.mtu),
            rss: self.rss.and(other.rss),
        }
    }
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most receive queues.
    pub rx_queues: u16,
    /// Most transmit queues.
    pub tx_queues: u16,
}

/// Link state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// True if frames can be sent.
    pub up: bool,
    /// Speed in Mbit/s; `None` if the device does not know.
    pub speed_mbps: Option<u32>,
    /// True if both directions at once.
    pub full_duplex: bool,
}

/// Counters of a port since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received and handed to us.
    pub rx_packets: u64,
    /// Their bytes, without check sequence; 0 if the device counts none.
    pub rx_bytes: u64,
    /// Packets that the device dropped because we were too slow.
    pub rx_missed: u64,
    /// Packets that the device found to be faulty.
    pub rx_errors: u64,
    /// Packets that found no buffer.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes, without check sequence; 0 if the device counts none.
    pub tx_bytes: u64,
    /// Packets that the device failed to send.
    pub tx_errors: u64,
}

/// A device with queues.
pub trait Port: Send + Sync {
    /// The name that the user gave.
    fn name(&self) -> &str;
    /// MAC address, if the device has one.
    fn mac(&self) -> Option<Mac>;
    /// Largest IP packet in bytes.
    fn mtu(&self) -> u16;
    /// The largest MTU with which the port still receives every frame: longer frames do not fit into its buffers and are
    /// dropped by name.
    fn max_mtu(&self) -> u16 {
        self.mtu()
    }
    /// Link state now.
    fn link(&self) -> Link;
    /// Counters.
    fn stats(&self) -> PortStats;
    /// Further counters by the device's own names.
    fn extended_stats(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
    /// Name of the driver.
    fn driver(&self) -> String;
    /// NUMA node of the device; `None` if it has none.
    fn numa_node(&self) -> Option<u32> {
        None
    }
    /// Receive and transmit queues that the started port has.
    fn queues(&self) -> Limits;
    /// What the device hashes to choose a receive queue, and how; `None` if it has no RSS.
    fn rss(&self) -> Option<RssState> {
        None
    }
    /// The receive queue of this number, once; `None` if it was taken already or is out of range.
    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>>;
    /// The transmit queue of this number, once; `None` if it was taken already or is out of range.
    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>>;
}

/// What a receive queue brought. Bytes are counted by the device ([`PortStats`]): here it would take a look at every header.
#[derive(Debug, Default)]
pub struct Received {
    /// The packets.
    pub batch: Batch,
    /// Packets that had to be given up during the call, which are not in `batch`; [`RxQueue::losses`] says why.
    pub lost: usize,
}

impl From<Batch> for Received {
    fn from(batch: Batch) -> Received {
        Received { batch, lost: 0 }
    }
}

/// What became of packets that were to be sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// Packets that are gone: sent or refused.
    pub packets: usize,
    /// Those of them that were refused for good and dropped; [`TxQueue::refusals`] says why.
    pub refused: usize,
    /// Those for which the device is too full now, in order.
    pub rest: Batch,
}

/// One receive queue, owned by one worker.
pub trait RxQueue: Send {
    /// Receives up to `max` packets. Never blocks. The MAC header is marked at the start of each, other marks are clear,
    /// annotations in the private area are not.
    fn rx(&mut self, max: usize) -> Received;

    /// Packets that had to be given up on receive since the queue was opened, by reason.
    fn losses(&self) -> &[(&'static str, u64)] {
        &[]
    }

    /// True if nothing will ever come any more (a file at its end).
    fn finished(&self) -> bool {
        false
    }
}

/// One transmit queue, owned by one worker.
///
/// # No packet blocks those behind it
/// A packet comes back in [`Sent::rest`] for one reason only: the device is full, and will take this packet when it is no
/// longer. Whatever the device would refuse again (a frame that is too long, a link that is down, a device that has gone,
/// any error that does not mean "full") the queue drops, counts under a [`Refusal`](crate::Refusal), and goes on with the
/// packet behind it.
pub trait TxQueue: Send {
    /// Sends packets from the front of `batch` as long as the device takes them. Never blocks.
    fn tx(&mut self, batch: Batch) -> Sent;

    /// Packets that were refused for good since the queue was opened.
    fn refusals(&self) -> Refusals {
        Refusals::default()
    }
}
