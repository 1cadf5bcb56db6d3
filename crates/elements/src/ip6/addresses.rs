//! IPv6 addresses: the destination annotation, and sets of addresses as arguments such as `BADADDRS` give them.

use graph::{ArgError, FromArg, Text};
use lang::args::{Ipv6Prefix, Words};
use packet::lanes::Lanes;
use packet::wire::ipv6::{HEADER_LEN, Ipv6};
use packet::{Batch, Packet, anno};

/// Where the packet goes: its destination annotation or, where none is set, the destination address in its header; 0 if
/// there is neither.
///
/// An annotation whose first four bytes are 0 is none. These four lie in the buffer header, the others in a colder line
/// that the usual packet need not touch.
#[inline(always)]
pub(crate) fn destination(packet: &mut Packet) -> u128 {
    if packet.dst_ip() != 0 {
        return annotation(packet);
    }
    packet.network_head_mut::<HEADER_LEN>().map_or(0, |head| Ipv6::of(head).destination())
}

/// The [`destination`]s of all packets of a batch.
#[inline(always)]
pub(crate) fn destinations(batch: &mut Batch, addresses: &mut [u128]) {
    if !batch.network_heads(|i, head| addresses[i] = Ipv6::of(head).destination()) {
        let packets = batch.iter_mut().zip(addresses);
        packets.for_each(|(packet, address)| *address = destination(packet));
    }
}

/// The first 64 bits of each packet's [`destination`], if those all stand in headers that one element has found, for which
/// [`Batch::network_head_at`] gives the whole. False, perhaps after some, if it is not so.
#[inline(always)]
pub(crate) fn beginnings(batch: &Batch, tops: &mut [u64]) -> bool {
    batch.network_heads(|i, head| tops[i] = (Ipv6::of(head).destination() >> 64) as u64)
}

/// The destination of the packet at a place of a batch that has [`beginnings`].
#[cold]
pub(crate) fn whole(batch: &Batch, place: usize) -> u128 {
    batch.network_head_at::<HEADER_LEN>(place).map_or(0, |head| Ipv6::of(head).destination())
}

#[cold]
fn annotation(packet: &Packet) -> u128 {
    let mut bytes = [0; 16];
    packet.read_anno(anno::DST_IP6, &mut bytes);
    u128::from_be_bytes(bytes)
}

/// Sets the destination annotation.
pub(crate) fn set_destination(packet: &mut Packet, address: u128) {
    packet.write_anno(anno::DST_IP6, &address.to_be_bytes());
}

/// Makes the destination address in the header the one that counts.
#[inline(always)]
pub(crate) fn clear_destination(packet: &mut Packet) {
    packet.set_dst_ip(0);
}

/// Some addresses and prefixes, with a quick answer for addresses that are plainly none of them.
#[derive(Clone, Debug)]
pub(crate) struct AddressSet6 {
    /// True for each first octet that a member may have.
    first_octets: [bool; 256],
    /// The same octets, if they are few.
    few: Option<FewOctets>,
    /// Network and mask of each member.
    members: Vec<(u128, u128)>,
}

impl AddressSet6 {
    /// No addresses.
    pub fn new() -> AddressSet6 {
        AddressSet6 { first_octets: [false; 256], few: Some(FewOctets::NONE), members: Vec::new() }
    }

    /// Adds all addresses that are `address` in the bits of `mask`.
    pub fn add(&mut self, address: u128, mask: u128) {
        let network = address & mask;
        for (value, place) in (0u128..).zip(&mut self.first_octets) {
            *place |= value << 120 & mask & (0xff << 120) == network & (0xff << 120);
        }
        self.few = FewOctets::of(&self.first_octets);
        self.members.push((network, mask));
    }

    /// False if an address that begins with this octet is plainly not in the set. Else [`contains`](Self::contains) knows.
    #[inline(always)]
    pub fn may_contain(&self, first_octet: u8) -> bool {
        self.first_octets[usize::from(first_octet)]
    }

    /// The first octets that members may have, for several packets at a time; `None` if they are too many for that.
    #[inline]
    pub fn few_octets(&self) -> Option<FewOctets> {
        self.few
    }

    /// True if the address is in the set.
    pub fn contains(&self, address: u128) -> bool {
        self.members.iter().any(|&(network, mask)| address & mask == network)
    }
}

/// More first octets of members would take longer together than one by one.
const MOST_OCTETS: usize = 4;
/// In place of an octet.
const NO_OCTET: u32 = 0x100;

/// First octets of addresses, for several packets at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewOctets([u32; MOST_OCTETS]);

impl FewOctets {
    const NONE: FewOctets = FewOctets([NO_OCTET; MOST_OCTETS]);

    fn of(all: &[bool; 256]) -> Option<FewOctets> {
        let mut few = FewOctets::NONE;
        let mut places = few.0.iter_mut();
        for (octet, _) in (0..).zip(all).filter(|(_, may)| **may) {
            *places.next()? = octet;
        }
        Some(few)
    }

    /// Not 0 in the lanes where one of them is.
    #[inline(always)]
    pub fn among<V: Lanes<N>, const N: usize>(self, octets: V) -> V {
        self.0.into_iter().fold(V::splat(0), |any, octet| any | octets.equal(V::splat(octet)))
    }
}

/// Addresses and prefixes with spaces between; none at all is fine.
impl FromArg for AddressSet6 {
    fn from_arg(arg: &Text) -> Result<AddressSet6, ArgError> {
        let mut set = AddressSet6::new();
        let mut words = Words::new(arg);
        while !words.is_empty() {
            let prefix: Ipv6Prefix = words.take("address")?;
            set.add(prefix.address.to_bits(), prefix.mask().to_bits());
        }
        Ok(set)
    }

    fn placeholder() -> AddressSet6 {
        AddressSet6::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::Span;
    use packet::Pool;
    use std::net::Ipv6Addr;

    #[test]
    fn membership() {
        let text = Text::verbatim(":: ff00::/8 2001:db8::/32 fe80::/10", Span::default());
        let set = AddressSet6::from_arg(&text).unwrap();
        let has = |text: &str| {
            let bits = text.parse::<Ipv6Addr>().unwrap().to_bits();
            let has = set.contains(bits);
            assert!(set.may_contain(bits.to_be_bytes()[0]) || !has, "{text}");
            has
        };
        assert!(has("::") && has("ff02::1") && has("2001:db8:ffff::") && has("febf::1"));
        assert!(!has("::1") && !has("2001:db9::") && !has("fec0::1") && !has("2a00::"));
        assert!(!set.may_contain(0x2a) && set.may_contain(0xfe) && !set.may_contain(0xfd));
        assert!(AddressSet6::from_arg(&Text::verbatim("1::/129", Span::default())).is_err());
        assert!(!AddressSet6::new().contains(0));
    }

    #[test]
    fn the_annotation_counts_where_there_is_one() {
        let mut bytes = [0; 40];
        bytes[24..].copy_from_slice(&7u128.to_be_bytes());
        let mut packet = Pool::heap(1, 256).packet(&bytes).unwrap();
        assert_eq!(destination(&mut packet), 0);
        packet.set_network_offset(0);
        assert_eq!(destination(&mut packet), 7);
        set_destination(&mut packet, 0xfe80 << 112 | 9);
        assert_eq!(destination(&mut packet), 0xfe80 << 112 | 9);
        clear_destination(&mut packet);
        assert_eq!(destination(&mut packet), 7);
        packet.free();
    }
}
