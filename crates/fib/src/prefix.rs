//! Addresses as numbers, and prefixes of them.

use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The two address families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IP version 4: addresses of 32 bits.
    Ipv4,
    /// IP version 6: addresses of 128 bits.
    Ipv6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        })
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

/// An address as a number in host order: `u32` for IPv4, `u128` for IPv6.
pub trait Address:
    sealed::Sealed
    + Copy
    + Ord
    + Hash
    + Default
    + fmt::Debug
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// Its family.
    const FAMILY: Family;
    /// Its width in bits.
    const BITS: u32;
    /// The number one.
    const ONE: Self;

    /// Zero bits before the first one bit.
    fn leading_zeros(self) -> u32;
    /// The next number, modulo 2^BITS.
    fn next(self) -> Self;
    /// The number before, modulo 2^BITS.
    fn previous(self) -> Self;
    /// The low bits that fit.
    fn low_bits(self) -> usize;
    /// The first 64 bits; zeros stand in for bits beyond the last.
    fn top_bits(self) -> u64;
    /// A number of this width out of 128 random bits.
    fn from_low_bits(bits: u128) -> Self;
    /// The number as a floating-point one (rounded).
    fn to_f64(self) -> f64;
    /// As an address of the standard library.
    fn to_ip(self) -> IpAddr;
    /// From an address of the standard library, if it is of this family.
    fn from_ip(ip: IpAddr) -> Option<Self>;

    /// Bit number `index` counted from the most significant (0); false beyond the last.
    #[inline]
    fn bit(self, index: u8) -> bool {
        u32::from(index) < Self::BITS && (self << u32::from(index)).leading_zeros() == 0
    }

    /// `count` (1 to BITS) bits starting at bit `offset` (below BITS); zeros stand in for bits beyond the last.
    #[inline]
    fn bits(self, offset: u32, count: u32) -> usize {
        ((self << offset) >> (Self::BITS - count)).low_bits()
    }

    /// A number whose first `len` bits are ones.
    #[inline]
    fn mask(len: u8) -> Self {
        !Self::host_mask(len)
    }

    /// A number whose bits after the first `len` are ones.
    #[inline]
    fn host_mask(len: u8) -> Self {
        if u32::from(len) >= Self::BITS { Self::default() } else { !Self::default() >> u32::from(len) }
    }
}

macro_rules! address {
    ($number:ty, $ip:ty, $family:ident) => {
        impl Address for $number {
            const FAMILY: Family = Family::$family;
            const BITS: u32 = <$number>::BITS;
            const ONE: Self = 1;

            #[inline]
            fn leading_zeros(self) -> u32 {
                <$number>::leading_zeros(self)
            }
            #[inline]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }
            #[inline]
            fn previous(self) -> Self {
                self.wrapping_sub(1)
            }
            #[inline]
            fn low_bits(self) -> usize {
                self as usize
            }
            #[inline]
            fn top_bits(self) -> u64 {
                ((u128::from(self) << (u128::BITS - Self::BITS)) >> u64::BITS) as u64
            }
            fn from_low_bits(bits: u128) -> Self {
                bits as $number
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_ip(self) -> IpAddr {
                <$ip>::from(self).into()
            }
            fn from_ip(ip: IpAddr) -> Option<Self> {
                match ip {
                    IpAddr::V4(ip) if Self::FAMILY == Family::Ipv4 => Some(ip.to_bits().into()),
                    IpAddr::V6(ip) if Self::FAMILY == Family::Ipv6 => Some(ip.to_bits() as $number),
                    _ => None,
                }
            }
        }
    };
}

address!(u32, Ipv4Addr, Ipv4);
address!(u128, Ipv6Addr, Ipv6);

/// The addresses that begin with the same `len` bits. Canonical: the bits after them are zero.
///
/// Ordered by first address, then shorter before longer, so that a prefix comes right before what it covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Prefix<A> {
    addr: A,
    len: u8,
}

/// A prefix of IPv4 addresses.
pub type Prefix4 = Prefix<u32>;
/// A prefix of IPv6 addresses.
pub type Prefix6 = Prefix<u128>;

impl<A: Address> Prefix<A> {
    /// The prefix of length `len` that contains `addr`; `None` when `len` is longer than an address.
    #[inline]
    pub fn new(addr: A, len: u8) -> Option<Prefix<A>> {
        (u32::from(len) <= A::BITS).then(|| Prefix::truncated(addr, len))
    }

    /// As [`Prefix::new`], for a length that is known to fit.
    #[inline]
    pub(crate) fn truncated(addr: A, len: u8) -> Prefix<A> {
        debug_assert!(u32::from(len) <= A::BITS);
        Prefix { addr: addr & A::mask(len), len }
    }

    /// The prefix of one address.
    pub fn host(addr: A) -> Prefix<A> {
        Prefix { addr, len: A::BITS as u8 }
    }

    /// Its first address.
    #[inline]
    pub fn first(self) -> A {
        self.addr
    }

    /// Its last address.
    #[inline]
    pub fn last(self) -> A {
        self.addr | A::host_mask(self.len)
    }

    /// Its length in bits.
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix is not a number of items")]
    #[inline]
    pub fn len(self) -> u8 {
        self.len
    }

    /// True when `addr` begins with this prefix.
    #[inline]
    pub fn contains(self, addr: A) -> bool {
        addr & A::mask(self.len) == self.addr
    }

    /// True when every address of `other` is in this prefix.
    #[inline]
    pub fn covers(self, other: Prefix<A>) -> bool {
        self.len <= other.len && self.contains(other.addr)
    }

    /// True when some address is in both.
    pub fn overlaps(self, other: Prefix<A>) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The longest prefix that covers both.
    #[inline]
    pub(crate) fn common(self, other: Prefix<A>) -> Prefix<A> {
        let same = (self.addr ^ other.addr).leading_zeros().min(A::BITS) as u8;
        Prefix::truncated(self.addr, same.min(self.len).min(other.len))
    }

    /// The lower or upper half. Only for a prefix shorter than an address.
    #[inline]
    pub(crate) fn half(self, upper: bool) -> Prefix<A> {
        debug_assert!(u32::from(self.len) < A::BITS);
        let len = self.len + 1;
        let bit = if upper { A::ONE << (A::BITS - u32::from(len)) } else { A::default() };
        Prefix { addr: self.addr | bit, len }
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr.to_ip(), self.len)
    }
}

impl<A: Address> fmt::Debug for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<A: Address> Serialize for Prefix<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is wrong with the text of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// The part before the slash is no address of the family.
    #[error("`{text}` is not an {family} address")]
    Address {
        /// The family that was asked for.
        family: Family,
        /// The part before the slash.
        text: String,
    },
    /// The part after the slash is neither a length nor a mask.
    #[error("`{text}` is not a prefix length: expected a number from 0 to {max}{or_mask}",
        or_mask = if *max == 32 { " or a mask such as 255.255.255.0" } else { "" })]
    Length {
        /// The longest length.
        max: u32,
        /// The part after the slash.
        text: String,
    },
}

/// Reads `ADDRESS/LENGTH`, `ADDRESS/MASK` (IPv4) or `ADDRESS` alone (a host). Bits after the prefix are cleared.
/// With a length, trailing parts of an IPv4 address may be left out: `10/8`, `0/0`.
impl<A: Address> FromStr for Prefix<A> {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let addr = address
            .parse()
            .ok()
            .or_else(|| length.and_then(|_| abbreviated(address)).map(IpAddr::V4))
            .and_then(A::from_ip)
            .ok_or_else(|| PrefixError::Address { family: A::FAMILY, text: address.to_owned() })?;
        let Some(length) = length else {
            return Ok(Prefix::host(addr));
        };
        parse_length::<A>(length)
            .map(|len| Prefix::truncated(addr, len))
            .ok_or_else(|| PrefixError::Length { max: A::BITS, text: length.to_owned() })
    }
}

/// One to three parts of an IPv4 address, the rest being zero.
fn abbreviated(text: &str) -> Option<Ipv4Addr> {
    let missing = 3usize.checked_sub(text.matches('.').count()).filter(|missing| *missing > 0)?;
    (text.to_owned() + &".0".repeat(missing)).parse().ok()
}

fn parse_length<A: Address>(text: &str) -> Option<u8> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|&len: &u8| u32::from(len) <= A::BITS);
    }
    if A::FAMILY == Family::Ipv6 {
        return None;
    }
    let mask = text.parse::<Ipv4Addr>().ok()?.to_bits();
    (mask.leading_ones() + mask.trailing_zeros() >= u32::BITS).then(|| mask.leading_ones() as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn p4(text: &str) -> Prefix4 {
        text.parse().unwrap()
    }

    #[test]
    fn parses_and_prints_canonically() {
        let all = [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.3/255.255.0.0", "10.1.0.0/16"),
            ("1.2.3.4/0.0.0.0", "0.0.0.0/0"),
            ("1.2.3.4/255.255.255.255", "1.2.3.4/32"),
            ("0/0", "0.0.0.0/0"),
            ("18.26/16", "18.26.0.0/16"),
        ];
        for (text, printed) in all {
            assert_eq!(p4(text).to_string(), printed, "{text}");
        }
        let six: Prefix6 = "2001:db8::1/32".parse().unwrap();
        assert_eq!(six.to_string(), "2001:db8::/32");
        assert_eq!("::1".parse::<Prefix6>().unwrap().to_string(), "::1/128");
        assert_eq!("::/0".parse::<Prefix6>().unwrap(), Prefix::default());
    }

    #[test]
    fn says_what_was_expected() {
        let message = |text: &str| text.parse::<Prefix4>().unwrap_err().to_string();
        for text in ["", "/8", "10.0.0", "1.2.3.4.5/8", "+1/8", "10..0/8", "256/8", "010/8", "::/0", "x/8"] {
            let address = text.split('/').next().unwrap();
            assert_eq!(message(text), format!("`{address}` is not an IPv4 address"), "{text}");
        }
        let lengths = ["33", "-1", "+1", "", "8/8", "255.0.255.0", "300", "99999999999"];
        for length in lengths {
            assert_eq!(
                message(&format!("10.0.0.0/{length}")),
                format!(
                    "`{length}` is not a prefix length: expected a number from 0 to 32 or a mask such as 255.255.255.0"
                )
            );
        }
        assert_eq!(
            "::/129".parse::<Prefix6>().unwrap_err().to_string(),
            "`129` is not a prefix length: expected a number from 0 to 128"
        );
        assert_eq!("0/0".parse::<Prefix6>().unwrap_err().to_string(), "`0` is not an IPv6 address");
    }

    #[test]
    fn covers_contains_and_halves() {
        let (net, sub) = (p4("10.0.0.0/8"), p4("10.128.0.0/9"));
        assert!(net.covers(sub) && !sub.covers(net) && net.overlaps(sub) && sub.overlaps(net));
        assert!(net.covers(net) && !p4("11.0.0.0/8").overlaps(net));
        assert_eq!((net.half(true), net.half(false)), (sub, p4("10.0.0.0/9")));
        assert_eq!(
            (net.first().to_ip(), net.last().to_ip()),
            ([10, 0, 0, 0].into(), [10, 255, 255, 255].into())
        );
        assert_eq!(p4("0/0").last(), u32::MAX);
        assert_eq!(p4("10.0.0.0/24").common(p4("10.0.3.0/24")), p4("10.0.0.0/22"));
        assert!(net < sub && p4("9.255.255.255") < net);
        assert_eq!(Prefix4::new(0, 33), None);
    }

    proptest! {
        #[test]
        fn printing_is_undone_by_parsing(addr: u32, len in 0..=32u8, addr6: u128, len6 in 0..=128u8) {
            let (p, p6) = (Prefix::new(addr, len).unwrap(), Prefix::new(addr6, len6).unwrap());
            prop_assert_eq!(p.to_string().parse::<Prefix4>().unwrap(), p);
            prop_assert_eq!(p6.to_string().parse::<Prefix6>().unwrap(), p6);
        }

        #[test]
        fn bits_are_those_of_the_number(addr: u128, offset in 0..128u32, count in 1..=32u32) {
            let expected = (0..count).fold(0, |bits, i| {
                bits << 1 | (offset + i < 128 && addr >> (127 - offset - i) & 1 == 1) as usize
            });
            prop_assert_eq!(addr.bits(offset, count), expected);
            prop_assert_eq!(addr.bit(offset as u8), addr >> (127 - offset) & 1 == 1);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-f.:/+ -]{0,20}") {
            let _ = (text.parse::<Prefix4>(), text.parse::<Prefix6>());
        }
    }
}
