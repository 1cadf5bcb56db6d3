//! Values that are words in the file.

use super::check::MOST_NODES;
use cluster::topology::Topology;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What order packets are kept in ([`cluster::path::Order`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// None.
    Spray,
    /// Mostly.
    Flowlet,
    /// Always.
    #[default]
    Strict,
    /// Always, with one path for each flow.
    SinglePath,
}

/// Which rule chooses paths ([`cluster::path::Policy`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Ours.
    #[default]
    Adaptive,
    /// The paper's.
    DirectVlb,
    /// Valiant's.
    Vlb,
    /// By the flow's hash.
    FlowHash,
}

/// What the links between nodes of one machine are that the file names no interfaces for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkType {
    /// Pairs of interfaces of Linux.
    #[default]
    Veth,
    /// Shared memory ([`io::ring`]).
    Ring,
    /// Pairs of interfaces of Linux, used by raw sockets, as are interfaces that the file names: `tcpdump` sees what comes in.
    AfPacket,
}

/// A type whose values have names.
pub trait Named: Copy + PartialEq + 'static {
    /// All values with their names.
    const ALL: &'static [(&'static str, Self)];

    /// The name of this one.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

impl Named for Order {
    const ALL: &'static [(&'static str, Order)] = &[
        ("spray", Order::Spray),
        ("flowlet", Order::Flowlet),
        ("strict", Order::Strict),
        ("single-path", Order::SinglePath),
    ];
}

impl Named for Policy {
    const ALL: &'static [(&'static str, Policy)] = &[
        ("adaptive", Policy::Adaptive),
        ("direct-vlb", Policy::DirectVlb),
        ("vlb", Policy::Vlb),
        ("flow-hash", Policy::FlowHash),
    ];
}

impl Named for LinkType {
    const ALL: &'static [(&'static str, LinkType)] =
        &[("veth", LinkType::Veth), ("ring", LinkType::Ring), ("af_packet", LinkType::AfPacket)];
}

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the prefix.
    pub bits: u8,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || "an address with the length of its prefix, such as 192.0.2.1/24".to_owned();
        let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        if bits > most { Err(wrong()) } else { Ok(Address { ip, bits }) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

/// `10G`, `2.5G`, `100M`, `64k`, `8000`: bits per second. `ClusterSwitch` takes no less than a kilobyte per second.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || "a rate in bits per second, from 8k to 100T, such as 10G or 2.5M".to_owned();
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000), ('T', 1_000_000_000_000u64)];
    let unit = units.iter().find_map(|(unit, value)| Some((text.strip_suffix(*unit)?, *value)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() < 16 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(wrong());
    }
    let scale = 10u128.pow(part.len() as u32);
    let figure = |text: &str| text.parse::<u128>().unwrap_or(u128::MAX >> 64);
    let bits = (figure(whole) * scale + figure(part)) * u128::from(unit) / scale;
    u64::try_from(bits).ok().filter(|rate| (8_000..=100_000_000_000_000).contains(rate)).ok_or_else(wrong)
}

/// `mesh`, or `fly 2 2`: k and n.
pub fn topology(text: &str) -> Result<Option<[u16; 2]>, String> {
    let wrong = || "mesh, or such as fly 4 2: links out of each node, from 2, and columns, from 2".to_owned();
    let words: Vec<&str> = text.split(' ').collect();
    let figure = |text: &str| text.parse().ok().filter(|number| *number >= 2);
    match words[..] {
        ["mesh"] => Ok(None),
        ["fly", radix, columns] => {
            let fly = [figure(radix).ok_or_else(wrong)?, figure(columns).ok_or_else(wrong)?];
            let nodes = Topology::fly(fly[0], fly[1]).map_or(usize::MAX, |fly| fly.nodes().into());
            if nodes > MOST_NODES {
                return Err(format!("of at most {MOST_NODES} nodes: a k-ary n-fly has n · kⁿ"));
            }
            Ok(Some(fly))
        }
        _ => Err(wrong()),
    }
}

/// `3ms`, `50us`, `1s`; nanoseconds.
pub fn duration(text: &str) -> Option<u64> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000u64)];
    let (number, unit) = units.iter().find_map(|(unit, value)| Some((text.strip_suffix(unit)?, value)))?;
    number.parse::<u32>().ok().map(|number| u64::from(number) * unit)
}

/// `02:00:00:00:00:01`.
pub fn mac(text: &str) -> Result<[u8; 6], String> {
    let wrong = || "an Ethernet address of one interface, such as 02:00:00:00:00:01".to_owned();
    let octet = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
    let octets: Option<[u8; 6]> = octets.and_then(|octets| octets.try_into().ok());
    octets.filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6]).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let all = [
            ("10G", 10_000_000_000),
            ("2.5M", 2_500_000),
            ("64k", 64_000),
            ("8000", 8000),
            ("0.1T", 100_000_000_000),
        ];
        for (text, bits) in all {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
        for text in ["", "G", "10g", "1.G", ".5G", "-1M", "7999", "101T", "1e9", "9999999999999999999G", "0"]
        {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn topologies() {
        assert_eq!(
            ["mesh", "fly 2 2", "fly 8 2"].map(topology),
            [Ok(None), Ok(Some([2, 2])), Ok(Some([8, 2]))]
        );
        for text in [
            "",
            "fly",
            "fly 2",
            "fly 1 2",
            "fly 4 1",
            "fly 2 2 2",
            "fly  2 2",
            "fly 12 2",
            "fly 2 99",
            "Mesh",
        ] {
            assert!(topology(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(["3ms", "50us", "1s"].map(duration), [Some(3_000_000), Some(50_000), Some(1_000_000_000)]);
        assert_eq!(["3", "ms", "-1s", "1 s", "99999999999s"].map(duration), [None; 5]);
    }

    #[test]
    fn addresses() {
        for text in ["192.0.2.1/24", "2001:db8::1/64", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["192.0.2.1", "192.0.2.1/33", "2001:db8::1/129", "x/24", "192.0.2.1/-1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert_eq!(mac("02:00:00:00:0a:01"), Ok([2, 0, 0, 0, 10, 1]));
        for text in [
            "",
            "02:00:00:00:00",
            "01:00:00:00:00:01",
            "00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "02:00:00:00:00:01:02",
        ] {
            assert!(mac(text).is_err(), "{text}");
        }
    }
}
