//! Sets of IPv4 addresses, as arguments such as `BADSRC` give them.

use graph::{ArgError, FromArg, Text};
use lang::args::{Ipv4Prefix, Words};
use packet::lanes::Lanes;

/// Some addresses and prefixes, with a quick answer for addresses that are plainly none of them.
#[derive(Clone, Debug)]
pub(crate) struct AddressSet {
    /// True for each first octet that a member may have.
    first_octets: [bool; 256],
    /// True for each last octet that a member may have.
    last_octets: [bool; 256],
    /// Network and mask of each member.
    members: Vec<(u32, u32)>,
    /// The same as in memory, if they are few.
    few: Vec<Member>,
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
            few: Vec::new(),
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
        self.few = match self.members.len() {
            ..=FEW => self.members.iter().map(|&(n, m)| (n.to_be(), m.to_be())).collect(),
            _ => Vec::new(),
        };
    }

    /// False if the address (network order) is plainly not in the set. Else [`contains`](Self::contains) knows.
    #[inline(always)]
    pub fn may_contain(&self, address: &[u8; 4]) -> bool {
        self.first_octets[usize::from(address[0])] && self.last_octets[usize::from(address[3])]
    }

    /// The set for the look at several addresses at once, if it is small.
    pub fn few(&self) -> Option<Few<'_>> {
        (self.few.len() == self.members.len()).then_some(Few(&self.few))
    }

    /// True if the address is in the set.
    pub fn contains(&self, address: u32) -> bool {
        self.members.iter().any(|&(network, mask)| address & mask == network)
    }
}

/// A small [`AddressSet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few<'a>(&'a [Member]);

/// Network and mask as they lie in memory, in network order.
pub(crate) type Member = (u32, u32);

/// These members as a set.
pub(crate) fn few_of(members: &[Member]) -> Few<'_> {
    Few(members)
}

/// A set of two members: no loop, and all in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair([Member; 2]);

impl Few<'_> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The set if it has two members.
    pub fn pair(self) -> Option<Pair> {
        self.0.try_into().ok().map(Pair)
    }

    /// Not 0 in the lanes whose address (network order in memory) is in the set.
    #[inline(always)]
    pub fn contain<V: Lanes<N>, const N: usize>(self, addresses: V) -> V {
        self.0.iter().fold(V::splat(0), |found, &member| found | is_in(addresses, member))
    }
}

impl Pair {
    /// [`Few::contain`].
    #[inline(always)]
    pub fn contain<V: Lanes<N>, const N: usize>(self, addresses: V) -> V {
        is_in(addresses, self.0[0]) | is_in(addresses, self.0[1])
    }
}

#[inline(always)]
fn is_in<V: Lanes<N>, const N: usize>(addresses: V, (network, mask): Member) -> V {
    (addresses & V::splat(mask)).equal(V::splat(network))
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
    use packet::lanes::{Work, four, widest};

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

    /// Looks four addresses up, in lanes that hold them again and again.
    struct Found<'a> {
        few: Few<'a>,
        bits: [u32; 4],
    }

    impl Work for Found<'_> {
        type Output = [bool; 4];

        #[inline(always)]
        fn run<V: Lanes<N>, const N: usize>(self) -> [bool; 4] {
            let memory = V::from_array(std::array::from_fn(|i| self.bits[i % 4].to_be()));
            let found: [u32; N] = self.few.contain(memory).to_array();
            if let Some(pair) = self.few.pair() {
                assert_eq!(pair.contain(memory).to_array(), found);
            }
            assert_eq!(found[N - 4..], found[..4]);
            std::array::from_fn(|i| found[i] != 0)
        }
    }

    #[test]
    fn several_at_once_as_one_by_one() {
        let set = |text: &str| AddressSet::from_arg(&Text::verbatim(text, Span::default())).unwrap();
        let addresses = ["0.0.0.0", "10.1.2.3", "255.255.255.255", "224.9.9.9"];
        let bits = addresses.map(|a| a.parse::<std::net::Ipv4Addr>().unwrap().to_bits());
        for text in ["", "0.0.0.0 255.255.255.255", "224.0.0.0/4", "10.1.0.0/16 224.0.0.0/8 1.2.3.4"] {
            let set = set(text);
            let few = set.few().unwrap();
            let want = bits.map(|a| set.contains(a));
            assert_eq!(few.is_empty(), text.is_empty());
            assert_eq!(few.pair().is_some(), text.split(' ').count() == 2, "{text}");
            for found in [four(Found { few, bits }), widest(Found { few, bits })] {
                assert_eq!(found, want, "{text}");
            }
        }
        let many: Vec<String> = (0..=FEW).map(|i| format!("10.0.0.{i}")).collect();
        assert!(set(&many[1..].join(" ")).few().is_some() && set(&many.join(" ")).few().is_none());
    }

    #[test]
    fn broadcast_addresses() {
        let p = |text: &str| Ipv4Prefix::from_arg(&Text::verbatim(text, Span::default())).unwrap();
        assert_eq!(broadcast(p("10.1.2.3/24")), Some(0x0a01_02ff));
        assert_eq!((broadcast(p("10.1.2.3/31")), broadcast(p("10.1.2.3"))), (None, None));
    }
}
