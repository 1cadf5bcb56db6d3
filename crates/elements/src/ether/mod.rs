//! Elements of the link layer: Ethernet and ARP.

mod arp_responder;
mod ether_encap;

use graph::{AnyClass, of};

pub use arp_responder::ARPResponder;
pub use ether_encap::EtherEncap;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<ARPResponder>(), &of::<EtherEncap>()];
