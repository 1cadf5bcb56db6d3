//! What the kernel or FRR says, as plain data.

use super::netconf::Netconf;
use fib::Prefix;
use packet::wire::ethernet::Mac;
use std::net::IpAddr;

/// The routing table that `ip route` shows unless told otherwise.
pub const MAIN_TABLE: u32 = 254;
/// The table of the machine's own addresses.
pub const LOCAL_TABLE: u32 = 255;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// About an interface.
    Link(Action, Link),
    /// About what is set for an interface.
    Netconf(Action, Netconf),
    /// About an address of the machine.
    Address(Action, Address),
    /// About a neighbour.
    Neighbour(Action, Neighbour),
    /// About a next-hop object.
    NextHop(Action, NextHopObject),
    /// About an IPv4 route.
    Route4(Action, Route<u32>),
    /// About an IPv6 route.
    Route6(Action, Route<u128>),
    /// About a rule of policy routing.
    Rule(Action, Rule),
    /// The end of the dump that was asked for with this sequence number. `interrupted`: it may not be consistent.
    Done {
        /// Of the request.
        sequence: u32,
        /// Something changed while it was being made.
        interrupted: bool,
    },
    /// A request was refused (an `errno`), or acknowledged (0).
    Answer {
        /// Of the request.
        sequence: u32,
        /// Positive.
        errno: i32,
    },
    /// Nothing that concerns us.
    Other,
}

/// What a message does to the thing it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is there now: news, or a part of a dump. Of routes of the same prefix and metric it is the first.
    Add,
    /// It is there now, behind others of the same prefix and metric.
    Append,
    /// It is there now in place of the first of the same prefix and metric.
    Replace,
    /// It is gone.
    Remove,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// Longest packet in bytes.
    pub mtu: u32,
    /// Set up by the operator (`IFF_UP`).
    pub up: bool,
    /// There is a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// It takes frames to any address (`IFF_PROMISC`).
    pub promiscuous: bool,
    /// It runs an XDP program.
    pub xdp: bool,
    /// The VRF, bridge or bond that it belongs to; 0 = none.
    pub master: u32,
    /// The interface below it (a VLAN's); 0 = none.
    pub below: u32,
    /// The group of interfaces that it is in (`ip link set … group`).
    pub group: u32,
    /// `vlan`, `vrf`, `bridge`, …; empty for devices.
    pub kind: String,
    /// VLAN number, for a VLAN.
    pub vlan: Option<u16>,
    /// EtherType of the VLAN's tag, for a VLAN; else 0.
    pub vlan_protocol: u16,
    /// How a macvlan shares the interface below: `MACVLAN_MODE_…` of linux/if_link.h; 0 of others.
    pub macvlan_mode: u32,
    /// Routing table, for a VRF.
    pub table: Option<u32>,
}

/// An address of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The interface.
    pub link: u32,
    /// The machine's own address.
    pub local: IpAddr,
    /// Bits of the network's prefix.
    pub len: u8,
}

/// A neighbour on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface.
    pub link: u32,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its Ethernet address, if it is known.
    pub mac: Option<Mac>,
    /// How sure the kernel is of that: `NUD_…` of linux/neighbour.h.
    pub state: u16,
}

impl Neighbour {
    /// `NUD_REACHABLE`, `STALE`, `DELAY`, `PROBE`, `NOARP` and `PERMANENT`: packets may be sent to it.
    const VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
    /// `NUD_STALE`: nobody has asked lately.
    pub const STALE: u16 = 0x04;

    /// `NUD_FAILED`: it was asked for in vain.
    const FAILED: u16 = 0x20;

    /// True if Linux has asked for it lately, and it has not answered.
    pub fn is_failed(&self) -> bool {
        self.state & Self::FAILED != 0
    }

    /// The Ethernet address that packets may be sent to.
    pub fn usable(&self) -> Option<Mac> {
        self.mac.filter(|_| self.state & Self::VALID != 0)
    }
}

/// A next-hop object (`ip nexthop`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// Its number.
    pub id: u32,
    /// Where to.
    pub to: ObjectTarget,
}

/// Where a next-hop object leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectTarget {
    /// One way.
    Hop(Hop),
    /// Nowhere.
    Blackhole,
    /// Other objects, with weights from 1.
    Group(Vec<(u32, u32)>),
}

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The router to send to; `None` when the destination itself is on the link. Its family may differ from the
    /// route's (RFC 8950).
    pub gateway: Option<IpAddr>,
    /// The interface; 0 when the message names none.
    pub link: u32,
}

/// The ways of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hops {
    /// None: blackhole and the like.
    None,
    /// One.
    One(Hop),
    /// Several, with weights from 1.
    Many(Box<[(Hop, u32)]>),
    /// Those of a next-hop object.
    Object(u32),
}

/// What becomes of packets on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// They are forwarded.
    Unicast,
    /// They are for this machine: its addresses, broadcast, anycast, multicast.
    Local,
    /// They are lost without a word.
    Blackhole,
    /// They are lost, and the sender is told (host unreachable).
    Unreachable,
    /// They are lost, and the sender is told (administratively prohibited).
    Prohibit,
    /// The next table is asked.
    Throw,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route<A: fib::Address> {
    /// Routing table.
    pub table: u32,
    /// Which destinations.
    pub prefix: Prefix<A>,
    /// The lowest of a prefix wins.
    pub metric: u32,
    /// Type of service that it is for (IPv4); 0 = any.
    pub tos: u8,
    /// Who made it: `RTPROT_…`.
    pub protocol: u8,
    /// What becomes of packets.
    pub kind: Kind,
    /// Where they go.
    pub hops: Hops,
    /// Longest packet on this route, if the route says (`mtu`).
    pub mtu: Option<u32>,
    /// What else is said of it.
    pub extras: RouteExtras,
}

/// What else is said of a route: what tells it apart from others, how it ranks among them, and when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteExtras {
    /// Different for routes that hold for different sources (IPv6, `from`); 0 = any source.
    pub selector: u64,
    /// Different for IPv4 routes that differ in what nothing else here tells: protocol, scope, preferred source, metrics. The
    /// kernel keeps them side by side. 0 in IPv6, where it does not.
    pub variant: u32,
    /// Of several IPv6 routes with the same metric the highest wins (RFC 4191 §2.1): 1 high, 0 medium, -1 low.
    pub preference: i8,
    /// The kernel stops using the route after so many hundredths of a second; from 0 on it has.
    pub expires: Option<i32>,
}

/// A rule of policy routing (`ip rule`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// Of this family.
    pub family: fib::Family,
    /// The lowest is asked first.
    pub priority: u32,
    /// Whose packets it is for.
    pub for_packets: Selection,
    /// The table that it has them looked up in, if it does no more than that.
    pub table: Option<u32>,
    /// Tells rules apart that are alike in all this.
    pub digest: u64,
}

/// Which forwarded packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selection {
    /// All.
    All,
    /// None: those that programs send out of an interface, or those that belong to VRFs.
    None,
    /// Those to these addresses: the first, and bits of the prefix.
    To(IpAddr, u8),
    /// Those that come in by the interface of this name, NUL-padded.
    From([u8; 16]),
    /// Some, by what only Linux looks at.
    Some,
}
