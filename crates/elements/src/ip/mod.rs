//! Elements of the IP layer.

mod addresses;
mod anno_arg;
mod check_ip_header;
mod check_ip_header2;
mod dec_ip_ttl;
mod direct_ip_lookup;
mod get_ip_address;
mod linear_ip_lookup;
mod lookup;
mod mark_ip_header;
mod radix_ip_lookup;
mod route_arg;
mod static_ip_lookup;

use graph::{AnyClass, of};

pub use check_ip_header::CheckIPHeader;
pub use check_ip_header2::CheckIPHeader2;
pub use dec_ip_ttl::DecIPTTL;
pub use direct_ip_lookup::DirectIPLookup;
pub use get_ip_address::GetIPAddress;
pub use linear_ip_lookup::LinearIPLookup;
pub use lookup::{IPLookup, Structure};
pub use mark_ip_header::MarkIPHeader;
pub use radix_ip_lookup::RadixIPLookup;
pub use static_ip_lookup::StaticIPLookup;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<CheckIPHeader<true>>(),
    &of::<CheckIPHeader2>(),
    &of::<DecIPTTL>(),
    &of::<DirectIPLookup>(),
    &of::<GetIPAddress>(),
    &of::<LinearIPLookup>(),
    &of::<MarkIPHeader>(),
    &of::<RadixIPLookup>(),
    &of::<StaticIPLookup>(),
];
