//! One record of a table: a prefix and the routes that peers have for it (RFC 6396 §4.3.2 and §4.3.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::prefix::{Address, Family, Prefix};

/// The flag of an attribute whose length has two bytes (RFC 4271 §4.3).
const EXTENDED_LENGTH: u8 = 0x10;
/// Attributes that name next hops (RFC 4271 §5.1.3, RFC 4760 §3).
const NEXT_HOP: u8 = 3;
const MP_REACH_NLRI: u8 = 14;

/// Reads a record: its prefix, and the next hop of the first route that has one.
///
/// # Errors
/// If lengths do not fit. Attributes are looked at until one is a next hop.
pub(super) fn read<A: Address>(
    body: &[u8],
    with_path_id: bool,
) -> Result<(Prefix<A>, Option<IpAddr>), String> {
    let mut rest = Rest(body);
    let short = "the record is shorter than a prefix and the number of its routes";
    // A sequence number is first.
    let [_, _, _, _, len] = rest.array().ok_or(short)?;
    if u32::from(len) > A::BITS {
        return Err(format!("a prefix of {len} bits is none of {}", A::FAMILY));
    }
    let prefix = prefix(&mut rest, len).ok_or(short)?;
    let count = u16::from_be_bytes(rest.array().ok_or(short)?);
    let mut found = None;
    for route in 1..=count {
        let attributes = attributes(&mut rest, with_path_id)
            .ok_or_else(|| format!("{prefix}: route {route} of {count} is longer than the record"))?;
        if found.is_none() {
            found = next_hop(A::FAMILY, attributes).ok_or_else(|| {
                format!("{prefix}: an attribute of route {route} is longer than what is left")
            })?;
        }
    }
    match rest.0.len() {
        0 => Ok((prefix, found)),
        more => Err(format!("{prefix}: {more} bytes more than its {count} routes")),
    }
}

/// As many bytes as its length needs.
fn prefix<A: Address>(rest: &mut Rest<'_>, len: u8) -> Option<Prefix<A>> {
    let bytes = rest.take(usize::from(len).div_ceil(8))?;
    let mut octets = [0; 16];
    octets.iter_mut().zip(bytes).for_each(|(octet, byte)| *octet = *byte);
    Prefix::new(A::from_low_bits(u128::from_be_bytes(octets) >> (u128::BITS - A::BITS)), len)
}

/// The attributes of the next route.
fn attributes<'a>(rest: &mut Rest<'a>, with_path_id: bool) -> Option<&'a [u8]> {
    // Number of the peer and time; the path identifier is behind them.
    rest.take(if with_path_id { 10 } else { 6 })?;
    let length = u16::from_be_bytes(rest.array()?);
    rest.take(length.into())
}

/// The next hop that attributes name, if they do; `None` if one is longer than what is left.
fn next_hop(family: Family, attributes: &[u8]) -> Option<Option<IpAddr>> {
    let mut rest = Rest(attributes);
    let (mut plain, mut reach) = (None, None);
    while !rest.0.is_empty() {
        let [flags, kind] = rest.array()?;
        let length = match flags & EXTENDED_LENGTH {
            0 => {
                let [length] = rest.array()?;
                length.into()
            }
            _ => u16::from_be_bytes(rest.array()?),
        };
        let value = rest.take(length.into())?;
        match kind {
            NEXT_HOP => plain = address(value),
            MP_REACH_NLRI => reach = reached_by(value),
            _ => {}
        }
    }
    Some(match family {
        Family::Ipv4 => plain.or(reach),
        Family::Ipv6 => reach.or(plain),
    })
}

/// The next hop of MP_REACH_NLRI. Dumps have its length and itself only, but some have the whole attribute: family,
/// of which the first byte is zero, its sub-family, then length and next hop.
fn reached_by(value: &[u8]) -> Option<IpAddr> {
    let mut rest = Rest(value);
    if value.first() == Some(&0) {
        rest.take(3)?;
    }
    let [length] = rest.array()?;
    address(rest.take(length.into())?)
}

/// An address, or a global one with a link-local one behind it (RFC 2545 §3).
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(*bytes.first_chunk()?).into(),
        16 | 32 => Ipv6Addr::from(*bytes.first_chunk()?).into(),
        _ => return None,
    };
    Some(address.to_canonical())
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: [u8; 4] = [0x40, 1, 1, 0];
    const LINK_LOCAL: [u8; 16] = [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const GLOBAL: [u8; 16] = [0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    /// The next hop that attributes name, or what is wrong.
    fn hop<A: Address>(attributes: &[&[u8]]) -> Result<String, &'static str> {
        let found = next_hop(A::FAMILY, &attributes.concat()).ok_or("too long")?;
        Ok(found.map_or("none".to_owned(), |address| address.to_string()))
    }

    #[test]
    fn next_hops_are_found_in_either_attribute() {
        let plain: &[u8] = &[0x40, 3, 4, 192, 0, 2, 1];
        let reach = [&[0x80, 14, 17, 16][..], &GLOBAL].concat();
        assert_eq!(hop::<u32>(&[&ORIGIN, plain]), Ok("192.0.2.1".into()));
        assert_eq!(hop::<u32>(&[&reach]), Ok("2001:db8::2".into()));
        // Of both, the one that is of the family.
        assert_eq!(hop::<u32>(&[&reach, plain]), Ok("192.0.2.1".into()));
        assert_eq!(hop::<u128>(&[plain, &reach]), Ok("2001:db8::2".into()));
        // A length of two bytes, and a link-local address behind the global one.
        let pair = [&[0x90, 14, 0, 33, 32][..], &GLOBAL, &LINK_LOCAL].concat();
        assert_eq!(hop::<u128>(&[&ORIGIN, &pair]), Ok("2001:db8::2".into()));
        // The whole attribute: IPv6 unicast, the next hop, a reserved byte, 2001:db8::/32.
        let whole = [&[0x80, 14, 26, 0, 2, 1, 16][..], &LINK_LOCAL, &[0, 32, 0x20, 1, 0xD, 0xB8]].concat();
        assert_eq!(hop::<u128>(&[&whole, &ORIGIN]), Ok("fe80::1".into()));
    }

    #[test]
    fn what_names_no_next_hop_is_not_taken_for_one() {
        let none: [&[u8]; 7] = [
            &[],
            &ORIGIN,
            &[0x40, 3, 0],
            &[0x40, 3, 3, 192, 0, 2],
            &[0x80, 14, 0],
            &[0x80, 14, 3, 0, 2, 1],
            &[0x80, 14, 5, 16, 192, 0, 2, 1],
        ];
        for attributes in none {
            assert_eq!(hop::<u32>(&[attributes]), Ok("none".into()), "{attributes:?}");
        }
        for attributes in [&[0x40][..], &[0x40, 3], &[0x50, 3, 0], &[0x40, 3, 4, 192, 0, 2], &[0x40, 1, 0, 0]]
        {
            assert_eq!(hop::<u32>(&[attributes]), Err("too long"), "{attributes:?}");
        }
    }

    #[test]
    fn says_what_does_not_fit() {
        let v4 = |bytes: &[u8]| read::<u32>(bytes, false).unwrap_err();
        let short = "the record is shorter than a prefix and the number of its routes";
        for bytes in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 9, 10], &[0, 0, 0, 0, 8, 10, 0]] {
            assert_eq!(v4(bytes), short);
        }
        assert_eq!(v4(&[0, 0, 0, 0, 33, 10, 0, 0, 0, 0, 0, 0]), "a prefix of 33 bits is none of IPv4");
        assert_eq!(
            read::<u128>(&[0, 0, 0, 0, 129], false).unwrap_err(),
            "a prefix of 129 bits is none of IPv6"
        );
        let one = [0, 0, 0, 0, 8, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0x40, 1, 1, 0];
        assert_eq!(read(&one, false), Ok(("10/8".parse::<Prefix<u32>>().unwrap(), None)));
        assert_eq!(v4(&one[..19]), "10.0.0.0/8: route 1 of 1 is longer than the record");
        assert_eq!(v4(&[&one[..], &[0]].concat()), "10.0.0.0/8: 1 bytes more than its 1 routes");
        let mut wrong = one;
        wrong[7] = 2;
        assert_eq!(v4(&wrong), "10.0.0.0/8: route 2 of 2 is longer than the record");
        wrong = one;
        wrong[18] = 2;
        assert_eq!(v4(&wrong), "10.0.0.0/8: an attribute of route 1 is longer than what is left");
    }
}
