//! Elements of the link layer: Ethernet and ARP.

mod arp_querier;
mod arp_responder;
mod ether_encap;
mod neighbour_map;
mod neighbours;

use graph::{AnyClass, of};

pub use arp_querier::ARPQuerier;
pub use arp_responder::ARPResponder;
pub use ether_encap::EtherEncap;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] =
    &[&of::<ARPQuerier>(), &of::<ARPResponder>(), &of::<EtherEncap>()];
