//! Traffic of IPv6: a routing table, and captures of small packets to destinations that it has routes for.

use crate::trace::{FRAME, Random, SEED, prefixes_of};
use fib::{NextHop, Prefix6, Route, RouteFile};
use io::pcap::{LinkType, Writer};
use packet::wire::ethernet;
use packet::wire::ipv6::{self, HEADER_LEN, Header};
use packet::wire::udp;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Routes of a made-up table.
const MADE_UP: usize = 200_000;
/// 2001:2::1, of the addresses for benchmarks (RFC 5180).
const SOURCE: u128 = 0x2001_0002 << 96 | 1;

/// A table as a file that the router reads, and its prefixes.
#[derive(Debug)]
pub struct Table6 {
    /// Where it comes from.
    pub name: String,
    /// The route file; every route leads to port 0.
    pub file: PathBuf,
    prefixes: Vec<Prefix6>,
}

impl Table6 {
    /// The IPv6 routes of `source` if that is there and has some, else a made-up table.
    pub fn new(source: Option<&Path>, folder: &Path) -> Result<Table6, String> {
        let listed = match source {
            Some(source) => prefixes_of(source)?.v6.iter().map(|route| route.prefix).collect(),
            None => Vec::new(),
        };
        let (name, prefixes) = match source.filter(|_| !listed.is_empty()) {
            Some(source) => (source.file_name().unwrap_or_default().to_string_lossy().into_owned(), listed),
            None => (format!("synth of {MADE_UP}"), make_up()?),
        };
        let file = folder.join("routes6.txt");
        let to_port_0 = NextHop { gateway: None, port: 0 };
        let v6 = prefixes.iter().map(|prefix| Route { prefix: *prefix, next_hop: to_port_0 }).collect();
        let out = File::create(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        RouteFile { v4: Vec::new(), v6 }
            .write(BufWriter::new(out))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(Table6 { name, file, prefixes })
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Writes a capture of one packet to each of `count` distinct destinations: the same ones for the same table.
    pub fn trace(&self, count: usize, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join(format!("{count}-ip6.pcap"));
        let problem = |e: io::pcap::PcapError| e.to_string();
        let mut writer = Writer::create(&path, LinkType::Ethernet, 65_535).map_err(problem)?;
        for destination in destinations(&self.prefixes, count) {
            writer.write(0, FRAME as u32, &frame(destination)).map_err(problem)?;
        }
        writer.flush().map_err(problem)?;
        Ok(path)
    }
}

fn make_up() -> Result<Vec<Prefix6>, String> {
    let hops = [NextHop { gateway: None, port: 0 }];
    let table = fib::synth::<u128>(MADE_UP, SEED, &hops).map_err(|e| e.to_string())?;
    Ok(table.routes.iter().map(|route| route.prefix).collect())
}

/// Distinct addresses, each a random one of a random prefix. Fewer than `count` if so many cannot be found.
fn destinations(prefixes: &[Prefix6], count: usize) -> Vec<u128> {
    let mut random = Random(SEED);
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(16) {
        if found.len() == count || prefixes.is_empty() {
            break;
        }
        let prefix = prefixes[random.below(prefixes.len())];
        let words = [(); 4].map(|()| random.below(1 << 32) as u128);
        let bits = words.iter().fold(0, |bits, word| bits << 32 | word);
        let address = prefix.first() | bits & (prefix.first() ^ prefix.last());
        if seen.insert(address) {
            found.push(address);
        }
    }
    found
}

/// A UDP packet from 2001:2::1 (RFC 5180) with hop limit 64. Its checksum is not looked at on the way.
fn frame(destination: u128) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let (link, packet) = frame.split_at_mut(ethernet::HEADER_LEN);
    let macs = ethernet::Header {
        destination: [2, 0, 0, 0, 0, 2],
        source: [2, 0, 0, 0, 0, 1],
        ethertype: ethernet::IPV6,
    };
    link.copy_from_slice(&macs.bytes());
    let (head, payload) = packet.split_at_mut(HEADER_LEN);
    let length = payload.len() as u16;
    let header = Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: length,
        next_header: ipv6::UDP,
        hop_limit: 64,
        source: SOURCE,
        destination,
    };
    head.copy_from_slice(&header.bytes());
    let datagram = udp::Header { source: 0xc020, destination: 9, length, checksum: 0xffff };
    payload[..udp::HEADER_LEN].copy_from_slice(&datagram.bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::pcap::Reader;
    use packet::wire::ipv6::Ipv6;
    use std::fs;

    #[test]
    fn destinations_are_distinct_covered_and_always_the_same() {
        let prefixes: Vec<Prefix6> = ["2001:db8::/32", "3fff::4/126"].map(|p| p.parse().unwrap()).to_vec();
        let found = destinations(&prefixes, 100);
        assert_eq!(found.len(), 100);
        assert!(found.iter().all(|a| prefixes.iter().any(|p| p.contains(*a))));
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), 100);
        assert_eq!(found, destinations(&prefixes, 100));
        assert_eq!(destinations(&prefixes[1..], 100).len(), 4);
        assert_eq!(destinations(&[], 100), []);
    }

    #[test]
    fn a_trace_holds_sound_packets() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        fs::write(&list, "192.0.2.0/24\n2001:db8::/32\n").unwrap();
        let table = Table6::new(Some(&list), folder.path()).unwrap();
        assert_eq!((table.len(), table.name.as_str()), (1, "list"));
        assert_eq!(fs::read_to_string(&table.file).unwrap(), "2001:db8::/32 0\n");
        let mut reader = Reader::open(&table.trace(16, folder.path()).unwrap()).unwrap();
        let mut packets = 0;
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.data.len(), FRAME);
            let ip = Ipv6::check(&record.data[14..]).unwrap();
            assert_eq!(
                (ip.hop_limit(), ip.total_len(), ip.destination() >> 96),
                (64, FRAME - 14, 0x2001_0db8)
            );
            packets += 1;
        }
        assert_eq!(packets, 16);
    }
}
