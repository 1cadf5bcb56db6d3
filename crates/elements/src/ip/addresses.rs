//! Sets of IPv4 addresses, as arguments such as `BADSRC` give them.

use graph::{ArgError, FromArg, Text};
use lang::args::{Ipv4Prefix, Words};
use packet::lanes::U32x4;

/// Some addresses and prefixes, with a quick answer for addresses that are plainly none of them.
#[derive(Clone, Debug)]
pub(crate) struct AddressSet {
    /// True for each first octet that a member may have.
    first_octets: [bool; 256],
    /// True for each last octet that a member may have.
    last_octets: [bool; 256],
    /// Network and mask of each member.
    members: Vec<(u32, u32)>,
    /// The same, if they are few.
    lanes: Vec<Member>,
}

/// Up to as many members, comparing with each is quicker than looking an address up.
const FEW: usize = 16;

impl AddressSet {
    /// No addresses.
    pub fn new() -> AddressSet {
        AddressSet {
            first_octets: [false; 256],
            last_octets: [false; 256],
            members: Vec::new(),
            lanes: Vec::new(),
        }
    }

    /// Adds one address.
    pub fn add_host(&mut self, address: u32) {
        self.add(address, u32::MAX);
    }

    /// Adds all addresses that are `address` in the bits of `mask`.
    pub fn add(&mut self, address: u32, mask: u32) {
        let network = address & mask;
        for (octets, shift) in [(&mut self.first_octets, 24), (&mut self.last_octets, 0)] {
            for (value, place) in (0u32..).zip(octets) {
                *place |= value & (mask >> shift) & 0xff == (network >> shift) & 0xff;
            }
        }
        self.members.push((network, mask));
        self.lanes = match self.members.len() {
            ..=FEW => self.members.iter().map(|&(n, m)| (splat(n), splat(m))).collect(),
            _ => Vec::new(),
        };
    }

    /// False if the address (network order) is plainly not in the set. Else [`contains`](Self::contains) knows.
    #[inline(always)]
    pub fn may_contain(&self, address: &[u8; 4]) -> bool {
        self.first_octets[usize::from(address[0])] && self.last_octets[usize::from(address[3])]
    }

    /// The set for the look at four addresses at once, if it is small.
    pub fn lanes(&self) -> Option<Lanes<'_>> {
        (self.lanes.len() == self.members.len()).then_some(Lanes(&self.lanes))
    }

    /// True if the address is in the set.
    pub fn contains(&self, address: u32) -> bool {
        self.members.iter().any(|&(network, mask)| address & mask == network)
    }
}

/// A small [`AddressSet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a>(&'a [Member]);

/// Network and mask in all lanes, network order in memory.
type Member = (U32x4, U32x4);

/// A set of two members: no loop, and all in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair([Member; 2]);

impl Lanes<'_> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The set if it has two members.
    pub fn pair(self) -> Option<Pair> {
        self.0.try_into().ok().map(Pair)
    }

    /// Not 0 in the lanes whose address (network order in memory) is in the set.
    #[inline(always)]
    pub fn contain(self, addresses: U32x4) -> U32x4 {
        self.0.iter().fold(U32x4::splat(0), |found, &member| found | is_in(addresses, member))
    }
}

impl Pair {
    /// [`Lanes::contain`].
    #[inline(always)]
    pub fn contains(self, addresses: U32x4) -> U32x4 {
        is_in(addresses, self.0[0]) | is_in(addresses, self.0[1])
    }
}

#[inline(always)]
fn is_in(addresses: U32x4, (network, mask): Member) -> U32x4 {
    (addresses & mask).equal(network)
}

/// An address in all lanes, network order in memory.
fn splat(address: u32) -> U32x4 {
    U32x4::splat(u32::from_le_bytes(address.to_be_bytes()))
}

/// Addresses and prefixes with spaces between; none at all is fine.
impl FromArg for AddressSet {
    fn from_arg(arg: &Text) -> Result<AddressSet, ArgError> {
        let mut set = AddressSet::new();
        let mut words = Words::new(arg);
        while !words.is_empty() {
            let prefix: Ipv4Prefix = words.take("address")?;
            set.add(prefix.address.to_bits(), prefix.mask().to_bits());
        }
        Ok(set)
    }

    fn placeholder() -> AddressSet {
        AddressSet::new()
    }
}

/// Interface addresses with their networks, with spaces between (`INTERFACES`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interfaces(pub Vec<Ipv4Prefix>);

impl FromArg for Interfaces {
    fn from_arg(arg: &Text) -> Result<Interfaces, ArgError> {
        let mut list = Vec::new();
        let mut words = Words::new(arg);
        while !words.is_empty() {
            list.push(words.take("address")?);
        }
        Ok(Interfaces(list))
    }

    fn placeholder() -> Interfaces {
        Interfaces::default()
    }
}

/// The broadcast address of a prefix; `None` for /31 and /32, which have none (RFC 3021).
pub(crate) fn broadcast(prefix: Ipv4Prefix) -> Option<u32> {
    (prefix.length < 31).then(|| prefix.address.to_bits() | !prefix.mask().to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::Span;

    #[test]
    fn membership() {
        let text = Text::verbatim("0.0.0.0 255.255.255.255 224.0.0.0/4 10.1.2.3/24", Span::default());
        let set = AddressSet::from_arg(&text).unwrap();
        let has = |a: [u8; 4]| {
            let has = set.contains(u32::from_be_bytes(a));
            assert!(set.may_contain(&a) || !has, "{a:?}");
            has
        };
        assert!(!set.may_contain(&[11, 1, 2, 3]) && !set.may_contain(&[192, 168, 0, 0]));
        assert!(has([0, 0, 0, 0]) && has([255; 4]) && has([224, 0, 0, 1]) && has([239, 255, 0, 1]));
        assert!(has([10, 1, 2, 0]) && has([10, 1, 2, 255]));
        assert!(
            !has([0, 0, 0, 1]) && !has([255, 255, 255, 254]) && !has([223, 0, 0, 1]) && !has([240, 0, 0, 0])
        );
        assert!(!has([10, 1, 3, 0]) && !has([192, 168, 0, 1]));
        assert!(AddressSet::from_arg(&Text::verbatim("10.0.0.0/33", Span::default())).is_err());
    }

    #[test]
    fn four_at_once_as_one_by_one() {
        let set = |text: &str| AddressSet::from_arg(&Text::verbatim(text, Span::default())).unwrap();
        let addresses = ["0.0.0.0", "10.1.2.3", "255.255.255.255", "224.9.9.9"];
        let bits = addresses.map(|a| a.parse::<std::net::Ipv4Addr>().unwrap().to_bits());
        let memory = U32x4::from_array(bits.map(u32::swap_bytes));
        for text in ["", "0.0.0.0 255.255.255.255", "224.0.0.0/4", "10.1.0.0/16 224.0.0.0/8 1.2.3.4"] {
            let set = set(text);
            let lanes = set.lanes().unwrap();
            let want = bits.map(|a| set.contains(a));
            assert_eq!(lanes.contain(memory).to_array().map(|lane| lane != 0), want, "{text}");
            assert_eq!(lanes.is_empty(), text.is_empty());
            let pair = lanes.pair().map(|pair| pair.contains(memory).to_array().map(|lane| lane != 0));
            assert_eq!(pair, (text.split(' ').count() == 2).then_some(want), "{text}");
        }
        let many: Vec<String> = (0..=FEW).map(|i| format!("10.0.0.{i}")).collect();
        assert!(set(&many[1..].join(" ")).lanes().is_some() && set(&many.join(" ")).lanes().is_none());
    }

    #[test]
    fn broadcast_addresses() {
        let p = |text: &str| Ipv4Prefix::from_arg(&Text::verbatim(text, Span::default())).unwrap();
        assert_eq!(broadcast(p("10.1.2.3/24")), Some(0x0a01_02ff));
        assert_eq!((broadcast(p("10.1.2.3/31")), broadcast(p("10.1.2.3"))), (None, None));
    }
}
