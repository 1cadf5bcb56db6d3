//! Routes as MRT dumps: TABLE_DUMP_V2, RFC 6396 §4.3, and its form with path identifiers, RFC 8050 §4.
//!
//! A dump knows gateways but no output ports, so a port is given when one is read, and ports are lost when one is
//! written.

mod rib;

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr};

use crate::next_hop::NextHop;
use crate::prefix::{Address, Family};
use crate::route_file::RouteFile;
use crate::route_table::Route;

/// MRT type TABLE_DUMP_V2 (RFC 6396 §4).
const TABLE_DUMP_V2: u16 = 13;
/// Subtypes of it (RFC 6396 §4.3).
const PEER_INDEX_TABLE: u16 = 1;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;
/// Those of routes that have path identifiers (RFC 8050 §4).
const RIB_IPV4_UNICAST_ADDPATH: u16 = 8;
const RIB_IPV6_UNICAST_ADDPATH: u16 = 10;
/// The private AS that stands for the peer of a written dump (RFC 6996).
const PEER_AS: u32 = 64_512;

/// What is in a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MrtDump {
    /// Its routes.
    pub routes: RouteFile,
    /// Records that were passed over, being neither unicast routes nor the list of peers.
    pub other_records: usize,
    /// Prefixes that were passed over, having no route with a next hop.
    pub without_next_hop: usize,
}

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MrtError {
    /// The input begins as compressed files do.
    #[error("the dump is compressed ({0}): unpack it first")]
    Compressed(&'static str),
    /// The input ends early, or a record is not as RFC 6396 has it.
    #[error("MRT record {record}: {reason}")]
    Record {
        /// Its number, from 1.
        record: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is no table, not even one without routes.
    #[error("the dump has no table of routes: expected TABLE_DUMP_V2 records (RFC 6396 §4.3)")]
    NoTable,
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a dump that is not compressed. Where it has several routes for one prefix, from several peers, the first
/// that has a next hop is taken; all lead out of `port`. What is no unicast route is passed over.
///
/// # Errors
/// If the input cannot be read, lengths in it do not fit, or it has no table.
pub fn read_mrt(mut input: impl BufRead, port: u32) -> Result<MrtDump, MrtError> {
    match input.fill_buf()? {
        [0x1F, 0x8B, ..] => return Err(MrtError::Compressed("gzip")),
        [b'B', b'Z', b'h', ..] => return Err(MrtError::Compressed("bzip2")),
        _ => {}
    }
    let mut dump = MrtDump::default();
    let (mut is_table, mut body) = (false, Vec::new());
    for record in 1.. {
        let error = |reason| MrtError::Record { record, reason };
        let (kind, subtype) = match next_record(&mut input, &mut body) {
            Ok(Some(kinds)) => kinds,
            Ok(None) => break,
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                return Err(error("the dump ends within it".to_owned()));
            }
            Err(e) => return Err(e.into()),
        };
        is_table |= kind == TABLE_DUMP_V2;
        let routes = &mut dump.routes;
        let taken = match (kind, subtype) {
            (TABLE_DUMP_V2, PEER_INDEX_TABLE) => continue,
            (TABLE_DUMP_V2, RIB_IPV4_UNICAST) => take(&mut routes.v4, &body, false, port),
            (TABLE_DUMP_V2, RIB_IPV6_UNICAST) => take(&mut routes.v6, &body, false, port),
            (TABLE_DUMP_V2, RIB_IPV4_UNICAST_ADDPATH) => take(&mut routes.v4, &body, true, port),
            (TABLE_DUMP_V2, RIB_IPV6_UNICAST_ADDPATH) => take(&mut routes.v6, &body, true, port),
            _ => {
                dump.other_records += 1;
                continue;
            }
        };
        dump.without_next_hop += usize::from(!taken.map_err(error)?);
    }
    if is_table { Ok(dump) } else { Err(MrtError::NoTable) }
}

/// Reads a record, that is its body, type and subtype; `None` at the end of the input.
fn next_record(input: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<Option<(u16, u16)>> {
    if input.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut header = [0; 12];
    input.read_exact(&mut header)?;
    // It begins with a time (RFC 6396 §2).
    let [_, _, _, _, t0, t1, s0, s1, length @ ..] = header;
    let length = u64::from(u32::from_be_bytes(length));
    body.clear();
    // Room comes with the bytes: a wrong length may be of gigabytes.
    if (input.take(length).read_to_end(body)? as u64) < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((u16::from_be_bytes([t0, t1]), u16::from_be_bytes([s0, s1]))))
}

/// Takes the route that is in a record; false if none in it has a next hop. A BGP speaker does without such routes
/// (RFC 7606 §3): nothing says where they lead.
fn take<A: Address>(
    routes: &mut Vec<Route<A>>,
    body: &[u8],
    with_path_id: bool,
    port: u32,
) -> Result<bool, String> {
    let (prefix, next_hop) = rib::read(body, with_path_id)?;
    let Some(next_hop) = next_hop else { return Ok(false) };
    // Zeros are the next hop of what is on the link.
    let gateway = Some(next_hop).filter(|address| !address.is_unspecified());
    routes.push(Route { prefix, next_hop: NextHop { gateway, port } });
    Ok(true)
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
    use crate::prefix::Prefix;

    fn dump(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_mrt(&mut bytes, &RouteFile::parse(text.as_bytes(), None).unwrap(), 1_700_000_000).unwrap();
        bytes
    }

    const TEXT: &str = "0.0.0.0/0 192.0.2.1 7\n10.0.0.0/8 7\n10.1.2.3/32 2001:db8::1 7\n\
                        ::/0 fe80::1 7\n2001:db8::/33 7\n2001:db8::1/128 192.0.2.9 7\n";

    #[test]
    fn reading_undoes_writing() {
        for text in [TEXT, ""] {
            let read = read_mrt(&dump(text)[..], 7).unwrap();
            let routes = RouteFile::parse(text.as_bytes(), None).unwrap();
            assert_eq!(read, MrtDump { routes, ..MrtDump::default() });
        }
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
        let none = "the dump has no table of routes: expected TABLE_DUMP_V2 records (RFC 6396 §4.3)";
        let mut messages = Vec::new();
        record(&mut messages, 16, 4, b"BGP");
        assert_eq!((error(b""), error(&messages)), (none.into(), none.into()));
        let whole = dump(TEXT);
        // Within the last body, and within its header.
        let last = whole.len() - 12 - 4 - 1 - 16 - 2 - 8 - 27;
        for end in [whole.len() - 1, last + 11, last + 1] {
            assert_eq!(error(&whole[..end]), "MRT record 7: the dump ends within it");
        }
        assert!(read_mrt(&whole[..last], 0).is_ok());
        let mut cut = dump("10.0.0.0/8 1\n");
        // The attributes seem longer than the record is.
        let at = cut.len() - 15;
        cut[at] = 200;
        assert_eq!(error(&cut), "MRT record 2: 10.0.0.0/8: route 1 of 1 is longer than the record");
    }

    fn record(out: &mut Vec<u8>, kind: u16, subtype: u16, body: &[u8]) {
        out.extend([0; 4]);
        out.extend([kind, subtype].map(u16::to_be_bytes).as_flattened());
        out.extend((body.len() as u32).to_be_bytes());
        out.extend(body);
    }

    /// The prefix `10.net/16` with routes of these attributes.
    fn rib(net: u8, path_id: &[u8], routes: &[&[u8]]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 1, 16, 10, net, 0, routes.len() as u8];
        for attributes in routes {
            body.extend([0; 6]);
            body.extend(path_id);
            body.extend([0, attributes.len() as u8]);
            body.extend(*attributes);
        }
        body
    }

    #[test]
    fn what_is_no_unicast_route_is_passed_over_and_counted() {
        let (near, far): (&[u8], &[u8]) = (&[0x40, 3, 4, 192, 0, 2, 1], &[0x40, 3, 4, 192, 0, 2, 2]);
        let mut bytes = dump("10.0.0.0/16 192.0.2.9 1\n");
        // RIB_GENERIC, GEO_PEER_TABLE, multicast with and without path identifiers, RIB_GENERIC_ADDPATH, what may come.
        for subtype in [6, 7, 3, 5, 9, 11, 12, 99] {
            record(&mut bytes, TABLE_DUMP_V2, subtype, b"any");
        }
        // TABLE_DUMP, BGP4MP, BGP4MP_ET, what may come.
        for kind in [12, 16, 17, 777] {
            record(&mut bytes, kind, 1, b"");
        }
        record(&mut bytes, TABLE_DUMP_V2, RIB_IPV4_UNICAST, &rib(1, &[], &[]));
        record(&mut bytes, TABLE_DUMP_V2, RIB_IPV4_UNICAST, &rib(2, &[], &[&[0x40, 1, 1, 0]]));
        record(&mut bytes, TABLE_DUMP_V2, RIB_IPV4_UNICAST, &rib(3, &[], &[&[0x40, 1, 1, 0], near, far]));
        record(&mut bytes, TABLE_DUMP_V2, RIB_IPV4_UNICAST_ADDPATH, &rib(4, &[0, 0, 0, 7], &[far, near]));
        let text = "10.0.0.0/16 192.0.2.9 1\n10.3.0.0/16 192.0.2.1 1\n10.4.0.0/16 192.0.2.2 1\n";
        let routes = RouteFile::parse(text.as_bytes(), None).unwrap();
        let expected = MrtDump { routes, other_records: 12, without_next_hop: 2 };
        assert_eq!(read_mrt(&bytes[..], 1).unwrap(), expected);
    }

    #[test]
    fn routes_of_ipv6_may_have_path_identifiers() {
        let mut bytes = Vec::new();
        let mut body =
            vec![0, 0, 0, 1, 16, 0x20, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 20, 0x80, 14, 17, 16];
        body.extend([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        record(&mut bytes, TABLE_DUMP_V2, RIB_IPV6_UNICAST_ADDPATH, &body);
        let routes = RouteFile::parse(b"2001::/16 fe80::1 3", None).unwrap();
        assert_eq!(read_mrt(&bytes[..], 3).unwrap().routes, routes);
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

        #[test]
        fn every_table_is_read_as_it_was_written(
            routes in prop::collection::vec((any::<u32>(), 0..=32u8, any::<u128>(), 0..=128u8, any::<u32>()), 0..9),
        ) {
            let mut file = RouteFile::default();
            for (addr, len, addr6, len6, gateway) in routes {
                let next_hop = NextHop { gateway: (gateway > 9).then_some(gateway.to_ip()), port: 3 };
                file.v4.push(Route { prefix: Prefix::new(addr, len).unwrap(), next_hop });
                file.v6.push(Route { prefix: Prefix::new(addr6, len6).unwrap(), next_hop });
            }
            let mut bytes = Vec::new();
            write_mrt(&mut bytes, &file, 0).unwrap();
            prop_assert_eq!(read_mrt(&bytes[..], 3).unwrap().routes, file);
        }
    }
}
