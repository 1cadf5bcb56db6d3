//! Elements that make and answer ICMP messages.

mod error;
mod icmp_error;
mod icmp_ping_responder;
pub(crate) mod names;
pub(crate) mod rate;
#[cfg(test)]
mod scapy;

use graph::{AnyClass, of};

pub use icmp_error::ICMPError;
pub use icmp_ping_responder::ICMPPingResponder;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<ICMPError>(), &of::<ICMPPingResponder>()];
