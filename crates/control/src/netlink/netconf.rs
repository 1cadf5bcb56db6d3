//! What is set for interfaces (`net.ipv4.conf`, `net.ipv6.conf`): as the kernel tells of some of it whenever it changes
//! (linux/netconf.h), and as it stands in messages about interfaces (`IFLA_AF_SPEC`).

use super::numbers::{AF_INET, AF_INET6};
use super::wire::{Attributes, Raw, u32_at};
use fib::Family;

/// The interface number that stands for `conf.all`.
pub const ALL: i32 = -1;

/// Settings of one family of an interface, of which every change is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Netconf {
    /// Of this family.
    pub family: Family,
    /// The interface, [`ALL`], or -2 for those that are to come.
    pub index: i32,
    /// Packets that come in by it are forwarded.
    pub forwarding: Option<bool>,
    /// IPv6 packets are forwarded though not those of all interfaces are.
    pub force_forwarding: Option<bool>,
    /// `rp_filter` (IPv4).
    pub rp_filter: Option<u32>,
}

impl Netconf {
    /// Nothing is known of it.
    pub fn unknown(family: Family, index: i32) -> Netconf {
        Netconf { family, index, forwarding: None, force_forwarding: None, rp_filter: None }
    }

    /// This, and what was known before where it says nothing: news name only what has changed.
    pub fn over(self, before: Netconf) -> Netconf {
        Netconf {
            forwarding: self.forwarding.or(before.forwarding),
            force_forwarding: self.force_forwarding.or(before.force_forwarding),
            rp_filter: self.rp_filter.or(before.rp_filter),
            ..self
        }
    }
}

/// `struct netconfmsg`: the family, then attributes.
pub(super) fn netconf(body: &[u8]) -> Option<Netconf> {
    let family = match *body.first()? {
        AF_INET => Family::Ipv4,
        AF_INET6 => Family::Ipv6,
        _ => return None,
    };
    let mut index = None;
    let mut found = Netconf::unknown(family, 0);
    for (kind, value) in Attributes::new(body.get(4..)?) {
        let value = u32_at(value, 0)?;
        match kind {
            1 => index = Some(value.cast_signed()),
            2 => found.forwarding = Some(value != 0),
            3 => found.rp_filter = Some(value),
            9 => found.force_forwarding = Some(value != 0),
            _ => {}
        }
    }
    Some(Netconf { index: index?, ..found })
}

/// Settings of an interface of which no change is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolledSettings {
    /// The interface.
    pub index: u32,
    /// It has no IPv6.
    pub disable_ipv6: bool,
    /// The longest IPv6 packet; 0 if it is not known.
    pub mtu6: u32,
    /// Packets with a source of the machine itself are taken.
    pub accept_local: bool,
}

/// What a message about an interface says of them.
pub fn polled(raw: &Raw<'_>) -> Option<PolledSettings> {
    /// `IFLA_AF_SPEC`, in it `IFLA_INET_CONF` of one family and `IFLA_INET6_CONF` of the other.
    const AF_SPEC: u16 = 26;
    const INET_CONF: u16 = 1;
    const INET6_CONF: u16 = 2;
    /// `IPV4_DEVCONF_ACCEPT_LOCAL`, which begin at 1; `DEVCONF_MTU6` and `DEVCONF_DISABLE_IPV6`.
    const ACCEPT_LOCAL: usize = 23 - 1;
    const MTU6: usize = 2;
    const DISABLE_IPV6: usize = 26;
    if raw.kind != super::numbers::RTM_NEWLINK {
        return None;
    }
    let mut found = PolledSettings { index: u32_at(raw.body, 4)?, ..PolledSettings::default() };
    let of =
        |value, wanted: u16| Attributes::new(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let families = of(raw.body.get(16..)?, AF_SPEC)?;
    if let Some(conf) = of(families, AF_INET.into()).and_then(|value| of(value, INET_CONF)) {
        found.accept_local = u32_at(conf, 4 * ACCEPT_LOCAL).is_some_and(|value| value != 0);
    }
    if let Some(conf) = of(families, AF_INET6.into()).and_then(|value| of(value, INET6_CONF)) {
        found.mtu6 = u32_at(conf, 4 * MTU6).unwrap_or(0);
        found.disable_ipv6 = u32_at(conf, 4 * DISABLE_IPV6).is_some_and(|value| value != 0);
    }
    Some(found)
}
