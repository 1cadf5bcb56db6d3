//! How Linux wants packets treated that come in by an interface.

use std::sync::Arc;

/// Which IPv4 sources packets may have that come in by an interface (`rp_filter`, RFC 3704).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceCheck {
    /// Any.
    #[default]
    Off,
    /// Those whose best route leads out of the interface that they came in by.
    Strict,
    /// Those that some route leads to.
    Loose,
}

/// See the module. The default is what an interface has of which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// IPv4 packets go to Linux, which does with them what the data plane does not: drops them, bridges them, …
    pub linux4: bool,
    /// The same for IPv6.
    pub linux6: bool,
    /// Which IPv4 sources they may have.
    pub sources: SourceCheck,
    /// Further Ethernet addresses to which frames are forwarded as those to its own (virtual routers), in order.
    pub virtual_macs: Arc<[[u8; 6]]>,
}

impl InterfaceSettings {
    /// The most virtual addresses: virtual routers have numbers of 8 bits, for each family.
    pub const MOST_MACS: usize = 512;

    /// True if frames to this address are for a virtual router.
    #[inline]
    pub fn has_virtual_mac(&self, mac: &[u8; 6]) -> bool {
        self.virtual_macs.binary_search(mac).is_ok()
    }
}
