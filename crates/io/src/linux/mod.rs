//! Ports that are Linux's own: taps and raw packet sockets, without DPDK.
//!
//! Packets are read from the kernel straight into buffers of the process's pool, and written straight out of them.

mod counts;
mod errors;
mod interface;
mod packet_port;
mod ring;
mod socket;
mod tap;
mod tap_device;

pub use interface::{Interface, all as interfaces, is_valid_name};
pub use packet_port::PacketPort;
pub use tap::TapPort;
