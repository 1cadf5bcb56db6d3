//! Routes as MRT dumps: TABLE_DUMP_V2, RFC 6396 §4.3.
//!
//! A dump knows gateways but no output ports, so a port is given when one is read, and ports are lost when one is
//! written.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv6Addr};

use bgpkit_parser::models::{
    MrtMessage, NetworkPrefix, RibAfiEntries, RibEntry, TableDumpV2Message, TableDumpV2Type,
};
use bgpkit_parser::{ParserError, chunk_mrt_record};

use crate::next_hop::NextHop;
use crate::prefix::{Address, Family, Prefix};
use crate::route_file::RouteFile;
use crate::route_table::Route;

/// MRT type TABLE_DUMP_V2 (RFC 6396 §4).
const TABLE_DUMP_V2: u16 = 13;
/// Subtypes of it (RFC 6396 §4.3).
const PEER_INDEX_TABLE: u16 = 1;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;
/// The private AS that stands for the peer of a written dump (RFC 6996).
const PEER_AS: u32 = 64_512;

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MrtError {
    /// The input begins as compressed files do.
    #[error("the dump is compressed ({0}): unpack it first")]
    Compressed(&'static str),
    /// The input ends early or cannot be read, or a record is not as RFC 6396 has it.
    #[error("MRT record {record}: {reason}")]
    Record {
        /// Its number, from 1.
        record: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to take routes from.
    #[error("the dump has no routes: expected TABLE_DUMP_V2 records of unicast routes (RFC 6396 §4.3)")]
    NoRoutes,
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a dump that is not compressed. Where it has several routes for one prefix, from several peers, the first
/// is taken; all lead out of `port`. Records that are not unicast routes of a table are passed over.
pub fn read_mrt(mut input: impl BufRead, port: u32) -> Result<RouteFile, MrtError> {
    match input.fill_buf()? {
        [0x1F, 0x8B, ..] => return Err(MrtError::Compressed("gzip")),
        [b'B', b'Z', b'h', ..] => return Err(MrtError::Compressed("bzip2")),
        _ => {}
    }
    let mut file = RouteFile::default();
    for record in 1.. {
        let error = |reason: String| MrtError::Record { record, reason };
        let message = match chunk_mrt_record(&mut input) {
            Ok(raw) if raw.common_header.entry_type as u16 != TABLE_DUMP_V2 => continue,
            Ok(raw) => raw.parse().map_err(|parser| error(parser.to_string()))?.message,
            Err(end) if matches!(end.error, ParserError::EofExpected) => break,
            Err(other) => return Err(error(other.to_string())),
        };
        if let MrtMessage::TableDumpV2Message(TableDumpV2Message::RibAfi(entries)) = message {
            take(&mut file, &entries, port).map_err(error)?;
        }
    }
    if file.v4.is_empty() && file.v6.is_empty() { Err(MrtError::NoRoutes) } else { Ok(file) }
}

fn take(file: &mut RouteFile, entries: &RibAfiEntries, port: u32) -> Result<(), String> {
    use TableDumpV2Type::{RibIpv4Unicast, RibIpv4UnicastAddPath, RibIpv6Unicast, RibIpv6UnicastAddPath};
    let prefix = entries.prefix;
    let next_hop = || match entries.rib_entries.first() {
        Some(entry) => Ok(NextHop { gateway: gateway(entry), port }),
        None => Err(format!("{} has no route that can be read", prefix.prefix)),
    };
    let wrong = || format!("{} is not of the family that the record is for", prefix.prefix);
    match entries.rib_type {
        RibIpv4Unicast | RibIpv4UnicastAddPath => {
            file.v4.push(Route { prefix: convert(prefix).ok_or_else(wrong)?, next_hop: next_hop()? });
        }
        RibIpv6Unicast | RibIpv6UnicastAddPath => {
            file.v6.push(Route { prefix: convert(prefix).ok_or_else(wrong)?, next_hop: next_hop()? });
        }
        _ => {}
    }
    Ok(())
}

fn convert<A: Address>(prefix: NetworkPrefix) -> Option<Prefix<A>> {
    Prefix::new(A::from_ip(prefix.prefix.addr())?, prefix.prefix.prefix_len())
}

/// The next hop of a route: NEXT_HOP, or that of MP_REACH_NLRI (RFC 6396 §4.3.4).
fn gateway(entry: &RibEntry) -> Option<IpAddr> {
    let reach = || entry.attributes.get_reachable_nlri()?.next_hop;
    let gateway = entry.attributes.next_hop().or_else(|| reach().map(|hop| hop.global_addr()))?;
    Some(gateway.to_canonical()).filter(|gateway| !gateway.is_unspecified())
}

/// Writes a dump in which one peer has all the routes. `time` is in seconds since 1970.
///
/// Next hops without a gateway are written as zeros; an IPv4 gateway of an IPv6 route as its mapped address.
pub fn write_mrt(mut out: impl Write, file: &RouteFile, time: u32) -> io::Result<()> {
    // Collector, name of the view (none), one peer with a 4-byte AS number and IPv4 addresses of zeros.
    let mut peers = vec![0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    peers.extend(PEER_AS.to_be_bytes());
    write_record(&mut out, time, PEER_INDEX_TABLE, &peers)?;
    write_routes(&mut out, &file.v4, time)?;
    write_routes(&mut out, &file.v6, time)?;
    out.flush()
}

fn write_routes<A: Address>(out: &mut impl Write, routes: &[Route<A>], time: u32) -> io::Result<()> {
    let subtype = match A::FAMILY {
        Family::Ipv4 => RIB_IPV4_UNICAST,
        Family::Ipv6 => RIB_IPV6_UNICAST,
    };
    for (route, sequence) in routes.iter().zip(0..) {
        write_record(out, time, subtype, &rib_record(sequence, time, route))?;
    }
    Ok(())
}

fn write_record(out: &mut impl Write, time: u32, subtype: u16, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    out.write_all(&time.to_be_bytes())?;
    out.write_all(&TABLE_DUMP_V2.to_be_bytes())?;
    out.write_all(&subtype.to_be_bytes())?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(body)
}

/// One prefix with one route (RFC 6396 §4.3.2 and §4.3.4).
fn rib_record<A: Address>(sequence: u32, time: u32, route: &Route<A>) -> Vec<u8> {
    // ORIGIN IGP and an empty AS_PATH, both well-known (RFC 4271 §5.1).
    let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 0];
    match (A::FAMILY, route.next_hop.gateway) {
        (Family::Ipv4, None) => attributes.extend([0x40, 3, 4, 0, 0, 0, 0]),
        (Family::Ipv4, Some(IpAddr::V4(gateway))) => {
            attributes.extend([0x40, 3, 4]);
            attributes.extend(gateway.octets());
        }
        (_, gateway) => {
            let gateway = match gateway {
                None => Ipv6Addr::UNSPECIFIED,
                Some(IpAddr::V4(gateway)) => gateway.to_ipv6_mapped(),
                Some(IpAddr::V6(gateway)) => gateway,
            };
            // MP_REACH_NLRI, optional, cut down to length and next hop.
            attributes.extend([0x80, 14, 17, 16]);
            attributes.extend(gateway.octets());
        }
    }
    let mut body = sequence.to_be_bytes().to_vec();
    let len = route.prefix.len();
    body.push(len);
    // As many bytes of the prefix as its length needs.
    let count = usize::from(len).div_ceil(8);
    match route.prefix.first().to_ip() {
        IpAddr::V4(ip) => body.extend(ip.octets().iter().take(count)),
        IpAddr::V6(ip) => body.extend(ip.octets().iter().take(count)),
    }
    // One entry, of peer 0.
    body.extend([0, 1, 0, 0]);
    body.extend(time.to_be_bytes());
    // At most 27 bytes.
    body.extend([0, attributes.len() as u8]);
    body.extend(attributes);
    body
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dump(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_mrt(&mut bytes, &RouteFile::parse(text.as_bytes(), None).unwrap(), 1_700_000_000).unwrap();
        bytes
    }

    const TEXT: &str = "0.0.0.0/0 192.0.2.1 7\n10.0.0.0/8 7\n10.1.2.3/32 2001:db8::1 7\n\
                        ::/0 fe80::1 7\n2001:db8::/33 7\n2001:db8::1/128 192.0.2.9 7\n";

    #[test]
    fn reading_undoes_writing() {
        let read = read_mrt(&dump(TEXT)[..], 7).unwrap();
        assert_eq!(read, RouteFile::parse(TEXT.as_bytes(), None).unwrap());
    }

    #[test]
    fn a_record_is_laid_out_as_in_rfc_6396() {
        let bytes = dump("10.128.0.0/9 192.0.2.1 1\n");
        let time = 1_700_000_000u32.to_be_bytes();
        let mut expected = [&time[..], &[0, 13, 0, 1, 0, 0, 0, 21]].concat();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFC, 0]);
        expected.extend(time);
        expected.extend([0, 13, 0, 2, 0, 0, 0, 31, 0, 0, 0, 0, 9, 10, 128, 0, 1, 0, 0]);
        expected.extend(time);
        expected.extend([0, 14, 0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4, 192, 0, 2, 1]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn says_why_a_dump_cannot_be_read() {
        let error = |bytes: &[u8]| read_mrt(bytes, 0).unwrap_err().to_string();
        assert_eq!(error(b"\x1F\x8B\x08"), "the dump is compressed (gzip): unpack it first");
        assert_eq!(error(b"BZh9"), "the dump is compressed (bzip2): unpack it first");
        let none = "the dump has no routes: expected TABLE_DUMP_V2 records of unicast routes (RFC 6396 §4.3)";
        assert_eq!((error(b""), error(&dump(""))), (none.into(), none.into()));
        let whole = dump(TEXT);
        assert!(error(&whole[..whole.len() - 1]).starts_with("MRT record 7: "));
        let mut cut = dump("10.0.0.0/8 1\n");
        // The attributes seem longer than the record is.
        let at = cut.len() - 15;
        cut[at] = 200;
        assert_eq!(error(&cut), "MRT record 2: 10.0.0.0/8 has no route that can be read");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            at in any::<prop::sample::Index>(), byte: u8, end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = dump(TEXT);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(end.index(bytes.len() + 1).max(at));
            let _ = read_mrt(&bytes[..], 0);
        }
    }
}
