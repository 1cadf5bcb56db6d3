//! Next hops whose routes allow only shorter packets than their interface does.
//!
//! The longest packet stands in the port number, above the number of the interface. So such a next hop has a number of its
//! own, and all else with the one that it narrows in common: its neighbour is known when that of the other is.

use crate::next_hop::NextHop;

/// Numbers of interfaces are shorter ([`Interfaces::MOST`](crate::Interfaces::MOST)).
const INTERFACE_BITS: u32 = 15;
/// Bits of a longest packet.
const MTU_BITS: u32 = 15;

impl NextHop {
    /// The least of longest packets (RFC 791 §3.2), in bytes from the network header on.
    pub const LEAST_MTU: u16 = 68;
    /// The greatest of them.
    pub const GREATEST_MTU: u16 = (1 << MTU_BITS) - 1;

    /// The same next hop for packets of at most so many bytes, or the nearest number that there can be. One that names no
    /// interface stays what it is.
    #[must_use]
    pub fn narrowed(self, mtu: u16) -> NextHop {
        if self.port >> INTERFACE_BITS != 0 {
            return self;
        }
        let mtu = mtu.clamp(NextHop::LEAST_MTU, NextHop::GREATEST_MTU);
        NextHop { port: self.port | u32::from(mtu) << INTERFACE_BITS, ..self }
    }

    /// The longest packet of one that was [narrowed](Self::narrowed).
    #[inline]
    pub fn mtu(&self) -> Option<u16> {
        let mtu = u16::try_from(self.port >> INTERFACE_BITS).ok()?;
        (NextHop::LEAST_MTU..=NextHop::GREATEST_MTU).contains(&mtu).then_some(mtu)
    }

    /// What was [narrowed](Self::narrowed); of others the same.
    #[inline]
    #[must_use]
    pub fn widened(self) -> NextHop {
        match self.mtu() {
            Some(_) => NextHop { port: self.port & ((1 << INTERFACE_BITS) - 1), ..self },
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interfaces;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_mtu_and_what_it_narrows_can_be_told_apart(port in 0..Interfaces::MOST as u32, mtu: u16, gateway: Option<u32>) {
            let hop = NextHop { gateway: gateway.map(|ip| std::net::Ipv4Addr::from(ip).into()), port };
            let narrow = hop.narrowed(mtu);
            prop_assert_eq!((hop.mtu(), hop.widened()), (None, hop));
            prop_assert_eq!((narrow.mtu(), narrow.widened()), (Some(mtu.clamp(68, 32767)), hop));
            prop_assert_eq!(narrow.narrowed(100), narrow);
            // Ports of other tables, and what stands for groups, are none.
            prop_assert!(narrow.port > u32::from(u16::MAX) && narrow.port < 1 << 30);
        }

        #[test]
        fn what_names_no_interface_has_none(port in prop_oneof![0..=u32::from(u16::MAX), 1 << 30..=u32::MAX]) {
            let hop = NextHop { gateway: None, port };
            prop_assert_eq!((hop.mtu(), hop.widened()), (None, hop));
        }
    }
}
