//! Addresses and prefixes.

use super::names::Names;
use super::value::{ArgError, FromArg};
use crate::text::Text;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Prefix {
    /// The address as written, host bits included.
    pub address: Ipv4Addr,
    /// 0 to 32.
    pub length: u8,
}

impl Ipv4Prefix {
    /// The mask with `length` leading ones.
    pub fn mask(self) -> Ipv4Addr {
        let bits = u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0);
        Ipv4Addr::from_bits(bits)
    }

    /// The address with its host bits cleared.
    pub fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask().to_bits())
    }

    /// Whether an address belongs to it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        Ipv4Prefix { address, ..self }.network() == self.network()
    }
}

/// An IPv6 address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Prefix {
    /// The address as written, host bits included.
    pub address: Ipv6Addr,
    /// 0 to 128.
    pub length: u8,
}

impl Ipv6Prefix {
    /// The mask with `length` leading ones.
    pub fn mask(self) -> Ipv6Addr {
        let bits = u128::MAX.checked_shl(128 - u32::from(self.length.min(128))).unwrap_or(0);
        Ipv6Addr::from_bits(bits)
    }

    /// The address with its host bits cleared.
    pub fn network(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.address.to_bits() & self.mask().to_bits())
    }

    /// Whether an address belongs to it.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        Ipv6Prefix { address, ..self }.network() == self.network()
    }
}

/// Prefix length of a decimal number or, through `mask`, of a mask whose ones lead.
fn length(text: &str, bits: u8, mask: impl Fn(&str) -> Option<u128>) -> Result<u8, ArgError> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let n = text.parse().ok().filter(|n: &u8| *n <= bits);
        return n.ok_or_else(|| ArgError::new(format!("prefix length out of range, bound {bits}")));
    }
    // The mask is aligned to the left of the 128 bits.
    let mask = mask(text).ok_or_else(ArgError::parse)?;
    let ones = mask.leading_ones();
    if mask.checked_shl(ones).unwrap_or(0) != 0 {
        return Err(ArgError::new("mask is not a prefix").help("its ones must all be at the left"));
    }
    Ok(ones as u8)
}

/// An address that is read by `parse`, or has a name.
fn address<T: std::str::FromStr>(
    text: &str,
    names: Option<&Names>,
    find: impl Fn(&Names, &str) -> Option<T>,
) -> Result<T, ArgError> {
    let named = || names.and_then(|names| find(names, text));
    text.parse().ok().or_else(named).ok_or_else(|| {
        let nearest = names.and_then(|names| names.nearest(text));
        nearest.map_or_else(ArgError::parse, |name| ArgError::parse().help(format!("did you mean `{name}`?")))
    })
}

/// One to three parts of an IPv4 address, the rest being zero. Files of routes are read by the crate `fib`, where such a
/// prefix means the same.
fn abbreviated(text: &str) -> Option<Ipv4Addr> {
    let missing = 3usize.checked_sub(text.matches('.').count()).filter(|missing| *missing > 0)?;
    (text.to_owned() + &".0".repeat(missing)).parse().ok()
}

/// With advice, unless there is some.
fn or_help(mut error: ArgError, text: &str) -> ArgError {
    error.help.get_or_insert_with(|| text.to_owned());
    error
}

impl FromArg for Ipv4Prefix {
    /// `a/len`, `a/mask`, or a bare address, which is a /32. Before a slash, trailing parts of the address may be left
    /// out: `10/8`.
    fn from_arg(arg: &Text) -> Result<Ipv4Prefix, ArgError> {
        if let Some(prefix) = arg.names().and_then(|names| names.ip_prefix(&arg.text)) {
            return Ok(prefix);
        }
        let (address, tail) = arg.text.split_once('/').map_or((&*arg.text, None), |(a, t)| (a, Some(t)));
        let short = tail.and_then(|_| abbreviated(address));
        let address = self::address(address, arg.names(), Names::ip).or_else(|e| short.ok_or(e))?;
        let mask = |t: &str| t.parse().ok().map(|m: Ipv4Addr| u128::from(m.to_bits()) << 96);
        let length = tail.map_or(Ok(32), |t| length(t, 32, mask))?;
        Ok(Ipv4Prefix { address, length })
    }
    fn placeholder() -> Ipv4Prefix {
        Ipv4Prefix { address: Ipv4Addr::UNSPECIFIED, length: 0 }
    }
}

impl FromArg for Ipv6Prefix {
    /// `a/len`, `a/mask`, or a bare address, which is a /128.
    fn from_arg(arg: &Text) -> Result<Ipv6Prefix, ArgError> {
        if let Some(prefix) = arg.names().and_then(|names| names.ip6_prefix(&arg.text)) {
            return Ok(prefix);
        }
        let (address, tail) = arg.text.split_once('/').map_or((&*arg.text, None), |(a, t)| (a, Some(t)));
        let address = self::address(address, arg.names(), Names::ip6)?;
        let mask = |t: &str| t.parse().ok().map(Ipv6Addr::to_bits);
        let length = tail.map_or(Ok(128), |t| length(t, 128, mask))?;
        Ok(Ipv6Prefix { address, length })
    }
    fn placeholder() -> Ipv6Prefix {
        Ipv6Prefix { address: Ipv6Addr::UNSPECIFIED, length: 0 }
    }
}

impl FromArg for Ipv4Addr {
    fn from_arg(arg: &Text) -> Result<Ipv4Addr, ArgError> {
        let help = "IPv4 addresses are written `192.0.2.1`";
        address(&arg.text, arg.names(), Names::ip).map_err(|e| or_help(e, help))
    }
    fn placeholder() -> Ipv4Addr {
        Ipv4Addr::UNSPECIFIED
    }
}

impl FromArg for Ipv6Addr {
    fn from_arg(arg: &Text) -> Result<Ipv6Addr, ArgError> {
        let help = "IPv6 addresses are written `2001:db8::1`";
        address(&arg.text, arg.names(), Names::ip6).map_err(|e| or_help(e, help))
    }
    fn placeholder() -> Ipv6Addr {
        Ipv6Addr::UNSPECIFIED
    }
}

impl FromArg for IpAddr {
    fn from_arg(arg: &Text) -> Result<IpAddr, ArgError> {
        let either = |names: &Names, text: &str| {
            names.ip(text).map(IpAddr::V4).or_else(|| names.ip6(text).map(IpAddr::V6))
        };
        address(&arg.text, arg.names(), either)
    }
    fn placeholder() -> IpAddr {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }
}

/// Reads an Ethernet address: six groups of one or two hexadecimal digits joined by `:` or by `-`.
///
/// # Errors
/// `parse error` for anything else.
pub fn ethernet_address(text: &str) -> Result<[u8; 6], ArgError> {
    let bad = || ArgError::parse().help("Ethernet addresses are written `00:1b:21:3c:4d:5e`");
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut address = [0; 6];
    let mut groups = text.split(separator);
    for byte in &mut address {
        let group = groups.next().filter(|g| matches!(g.len(), 1 | 2)).ok_or_else(bad)?;
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        *byte = u8::from_str_radix(group, 16).map_err(|_| bad())?;
    }
    if groups.next().is_some() { Err(bad()) } else { Ok(address) }
}

/// An Ethernet address.
impl FromArg for [u8; 6] {
    fn from_arg(arg: &Text) -> Result<[u8; 6], ArgError> {
        let named = |e| arg.names().and_then(|names| names.ether(&arg.text)).ok_or(e);
        ethernet_address(&arg.text).or_else(named)
    }
    fn placeholder() -> [u8; 6] {
        [0; 6]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    fn read<T: FromArg>(text: &str) -> Result<T, String> {
        T::from_arg(&Text::verbatim(text, Span::new(0, 0..text.len()))).map_err(|e| e.message)
    }

    #[test]
    fn ipv4_prefixes() {
        let p = |a: [u8; 4], length| Ok(Ipv4Prefix { address: a.into(), length });
        assert_eq!(read("10.1.2.3/8"), p([10, 1, 2, 3], 8));
        assert_eq!(read("10.0.0.0/255.128.0.0"), p([10, 0, 0, 0], 9));
        assert_eq!(read("10.0.0.1"), p([10, 0, 0, 1], 32));
        assert_eq!(read("0.0.0.0/0"), p([0, 0, 0, 0], 0));
        assert_eq!(read("0.0.0.0/0.0.0.0"), p([0, 0, 0, 0], 0));
        assert_eq!(
            read::<Ipv4Prefix>("10.0.0.0/33"),
            Err("prefix length out of range, bound 32".to_string())
        );
        assert_eq!(read::<Ipv4Prefix>("10.0.0.0/255.0.255.0"), Err("mask is not a prefix".to_string()));
        assert_eq!(read("10/8"), p([10, 0, 0, 0], 8));
        assert_eq!(read("172.16/12"), p([172, 16, 0, 0], 12));
        assert_eq!(read("192.168.4/255.255.255.0"), p([192, 168, 4, 0], 24));
        assert_eq!(read("0/0"), p([0, 0, 0, 0], 0));
        assert_eq!(read::<Ipv4Prefix>("10/33"), Err("prefix length out of range, bound 32".to_string()));
        let bad = " x x/8 10 10.1 10.0.0 10.0.0.0/ 10.0.0.0/x 10/ /8 10./8 .10/8 10..1/8 10.0.0./24 256/8 010/8 +1/8 \
                   1.2.3.4.5/8";
        for bad in bad.split(' ') {
            assert_eq!(read::<Ipv4Prefix>(bad), Err("parse error".to_string()), "{bad}");
        }
        let p = read::<Ipv4Prefix>("10.1.2.3/8").unwrap();
        assert_eq!((p.network(), p.mask()), (Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(255, 0, 0, 0)));
        assert!(p.contains(Ipv4Addr::new(10, 9, 9, 9)) && !p.contains(Ipv4Addr::new(11, 0, 0, 0)));
    }

    #[test]
    fn ipv6_prefixes() {
        let p = read::<Ipv6Prefix>("2001:db8::1/32").unwrap();
        assert_eq!((p.length, p.network()), (32, "2001:db8::".parse().unwrap()));
        assert_eq!(read::<Ipv6Prefix>("::1").unwrap().length, 128);
        assert_eq!(read::<Ipv6Prefix>("::/0").unwrap().mask(), Ipv6Addr::UNSPECIFIED);
        assert_eq!(read::<Ipv6Prefix>("1::/ffff:fffe::").unwrap().length, 31);
        assert_eq!(read::<Ipv6Prefix>("1::/129"), Err("prefix length out of range, bound 128".to_string()));
    }

    #[test]
    fn ethernet_addresses() {
        assert_eq!(ethernet_address("1:1:1:1:1:1"), Ok([1; 6]));
        assert_eq!(ethernet_address("2-2-2-2-2-2"), Ok([2; 6]));
        assert_eq!(ethernet_address("00:1b:21:3C:4d:5e"), Ok([0, 0x1b, 0x21, 0x3c, 0x4d, 0x5e]));
        for bad in
            ["", "1:1:1:1:1", "1:1:1:1:1:1:1", "1:1:1:1:1:001", "1:1:1:1:1:g", "1:1:1-1:1:1", "+1:1:1:1:1:1"]
        {
            assert_eq!(ethernet_address(bad).map_err(|e| e.message), Err("parse error".to_string()), "{bad}");
        }
    }
}
