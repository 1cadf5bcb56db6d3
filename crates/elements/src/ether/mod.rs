//! Elements of the link layer: Ethernet, ARP and neighbour discovery.

mod adjacency_arg;
mod adjacency_rewrite;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod asked;
mod divert_returning;
mod drop_broadcasts;
mod effects;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod fence;
mod find_interface;
mod host_ether_filter;
mod ip6_adjacency_rewrite;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod leave;
mod mark_mac_header;
mod neighbour_map;
mod neighbour_table;
mod neighbours;
mod port_input;
mod resolver;
mod rewrite;
mod waiting;

use graph::{AnyClass, of};

pub use adjacency_rewrite::AdjacencyRewrite;
pub use arp_querier::ARPQuerier;
pub use arp_responder::ARPResponder;
pub use arp_table::ARPTable;
pub use divert_returning::DivertReturning;
pub use drop_broadcasts::DropBroadcasts;
pub use ether_encap::EtherEncap;
pub use ether_mirror::EtherMirror;
pub use ether_rewrite::EtherRewrite;
pub use find_interface::FindInterface;
pub use host_ether_filter::HostEtherFilter;
pub use ip6_adjacency_rewrite::IP6AdjacencyRewrite;
pub use ip6_nd_advertiser::IP6NDAdvertiser;
pub use ip6_nd_solicitor::IP6NDSolicitor;
pub use mark_mac_header::MarkMACHeader;
pub use port_input::PortInput;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<ARPQuerier>(),
    &of::<ARPResponder>(),
    &of::<ARPTable>(),
    &of::<AdjacencyRewrite>(),
    &of::<DivertReturning>(),
    &of::<DropBroadcasts>(),
    &of::<EtherEncap>(),
    &of::<EtherMirror>(),
    &of::<EtherRewrite>(),
    &of::<FindInterface>(),
    &of::<HostEtherFilter>(),
    &of::<IP6AdjacencyRewrite>(),
    &of::<IP6NDAdvertiser>(),
    &of::<IP6NDSolicitor>(),
    &of::<MarkMACHeader>(),
    &of::<PortInput>(),
];
