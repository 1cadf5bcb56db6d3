//! Elements of the IP layer.

mod addresses;
mod check_ip_header;
mod check_ip_header2;
mod check_reverse_path;
mod counted;
mod dec_ip_ttl;
mod direct_ip_lookup;
mod fix_ip_src;
pub(crate) mod fragments;
mod get_ip_address;
pub(crate) mod hops;
mod ip_fragmenter;
mod ip_gw_options;
mod linear_ip_lookup;
mod lookup;
mod mark_ip_header;
pub(crate) mod options;
mod own_addresses;
mod radix_ip_lookup;
mod reverse_path;
pub(crate) mod route_arg;
mod route_counter;
pub(crate) mod routes;
pub(crate) mod scope;
mod static_ip_lookup;

use graph::{AnyClass, of};

pub(crate) use addresses::AddressSet;
pub use check_ip_header::CheckIPHeader;
pub use check_ip_header2::CheckIPHeader2;
pub use check_reverse_path::CheckReversePath;
pub use counted::{Counted, Destination};
pub use dec_ip_ttl::DecIPTTL;
pub use direct_ip_lookup::DirectIPLookup;
pub use fix_ip_src::FixIPSrc;
pub use get_ip_address::GetIPAddress;
pub use ip_fragmenter::IPFragmenter;
pub use ip_gw_options::IPGWOptions;
pub use linear_ip_lookup::LinearIPLookup;
pub use lookup::{IPLookup, Structure};
pub(crate) use lookup::{send_all, table_of};
pub use mark_ip_header::MarkIPHeader;
pub use own_addresses::OwnAddresses;
pub use radix_ip_lookup::RadixIPLookup;
pub use reverse_path::{ReversePath, Source};
pub(crate) use route_arg::Gateway;
pub use route_counter::RouteCounter;
pub(crate) use scope::interfaces;
pub use static_ip_lookup::StaticIPLookup;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<CheckIPHeader<true>>(),
    &of::<CheckIPHeader2>(),
    &of::<CheckReversePath>(),
    &of::<DecIPTTL>(),
    &of::<DirectIPLookup>(),
    &of::<FixIPSrc>(),
    &of::<GetIPAddress>(),
    &of::<IPFragmenter>(),
    &of::<IPGWOptions>(),
    &of::<LinearIPLookup>(),
    &of::<MarkIPHeader>(),
    &of::<RadixIPLookup>(),
    &of::<RouteCounter>(),
    &of::<StaticIPLookup>(),
];
