//! Offsets of the named annotations in Click's 48 annotation bytes. Fields overlap, visibly to users, as in Click.

/// How many annotation bytes a packet has.
pub const SIZE: usize = 48;
/// Destination IPv4 address, 4 bytes (kept in the buffer header, so reading it is cheap).
pub const DST_IP: usize = 0;
/// Destination IPv6 address, 16 bytes; overlaps [`DST_IP`].
pub const DST_IP6: usize = 0;
/// Paint, 1 byte.
pub const PAINT: usize = 16;
/// ICMP parameter-problem pointer, 1 byte.
pub const ICMP_PARAM_PROB: usize = 17;
/// Fix-source flag, 1 byte: `FixIPSrc` fills in the source address.
pub const FIX_IP_SRC: usize = 19;
/// VLAN tag control information, 2 bytes, network order.
pub const VLAN_TCI: usize = 20;
/// Aggregate number, 4 bytes, host order; overlaps [`VLAN_TCI`].
pub const AGGREGATE: usize = 20;
/// Number of further packets that this one stands for, 4 bytes, host order.
pub const EXTRA_PACKETS: usize = 24;
/// Bytes cut off by capture or truncation, 4 bytes, host order.
pub const EXTRA_LENGTH: usize = 28;
/// Timestamp of the first packet, 8 bytes.
pub const FIRST_TIMESTAMP: usize = 32;
/// Packet number, 4 bytes, host order; overlaps [`FIRST_TIMESTAMP`].
pub const PACKET_NUMBER: usize = 32;

/// How the link layer addressed a packet (Click's packet type annotation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// To everybody on the link.
    Broadcast = 1,
    /// To a group.
    Multicast = 2,
    /// To another host.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
}

impl PacketType {
    /// The type that the number stands for; unknown numbers are [`PacketType::Host`].
    pub fn from_u8(n: u8) -> PacketType {
        match n {
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            4 => PacketType::Outgoing,
            _ => PacketType::Host,
        }
    }
}
