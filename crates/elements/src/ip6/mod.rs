//! Elements of IP version 6.

mod addresses;
mod check_ip6_header;
mod check_ip6_reverse_path;
mod dec_ip6_hlim;
mod get_ip6_address;
mod icmp6_error;
mod icmp6_message;
pub(crate) mod icmp6_names;
mod icmp6_ping_responder;
mod ip6_encap;
mod ip6_fragmenter;
mod ip6_mirror;
mod ip6_route_counter;
mod lookup_ip6_route;
mod mark_ip6_header;
#[cfg(test)]
mod scapy;
mod set_ip6_address;
mod set_ip6_dscp;

use graph::{AnyClass, of};

pub(crate) use addresses::destination;
pub use check_ip6_header::CheckIP6Header;
pub use check_ip6_reverse_path::CheckIP6ReversePath;
pub use dec_ip6_hlim::DecIP6HLIM;
pub use get_ip6_address::GetIP6Address;
pub use icmp6_error::ICMP6Error;
pub use icmp6_ping_responder::ICMP6PingResponder;
pub use ip6_encap::IP6Encap;
pub use ip6_fragmenter::IP6Fragmenter;
pub use ip6_mirror::IP6Mirror;
pub use ip6_route_counter::IP6RouteCounter;
pub use lookup_ip6_route::LookupIP6Route;
pub(crate) use lookup_ip6_route::table_of;
pub use mark_ip6_header::MarkIP6Header;
pub use set_ip6_address::SetIP6Address;
pub use set_ip6_dscp::SetIP6DSCP;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<CheckIP6Header>(),
    &of::<CheckIP6ReversePath>(),
    &of::<DecIP6HLIM>(),
    &of::<GetIP6Address>(),
    &of::<ICMP6Error>(),
    &of::<ICMP6PingResponder>(),
    &of::<IP6Encap>(),
    &of::<IP6Fragmenter>(),
    &of::<IP6Mirror>(),
    &of::<IP6RouteCounter>(),
    &of::<LookupIP6Route>(),
    &of::<MarkIP6Header>(),
    &of::<SetIP6Address>(),
    &of::<SetIP6DSCP>(),
];
