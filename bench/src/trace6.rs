//! Traffic of IPv6: a routing table, and captures of small packets to destinations that it has routes for.

use crate::trace::SEED;
use fib::{NextHop, Prefix6, Random, Route, RouteFile};
use io::pcap::{LinkType, Writer};
use packet::wire::ethernet;
use packet::wire::ipv6::{self, HEADER_LEN, Header};
use packet::wire::udp;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Bytes of each frame in memory, without check sequence.
const FRAME: usize = 64;
/// Routes of a made-up table.
const MADE_UP: usize = 200_000;
/// 2001:2::1, of the addresses for benchmarks (RFC 5180).
const SOURCE: u128 = 0x2001_0002 << 96 | 1;

/// Prefixes that routes are made of.
#[derive(Debug)]
pub struct Table6 {
    /// Never empty.
    prefixes: Vec<Prefix6>,
}

impl Table6 {
    /// The IPv6 prefixes of `source` (one a line, perhaps packed by gzip) if that is there and has some, else those of a
    /// made-up table.
    pub fn new(source: Option<&Path>) -> Result<Table6, String> {
        let listed = match source {
            Some(source) => {
                let file =
                    RouteFile::read(source, Some(0)).map_err(|e| format!("{}: {e}", source.display()))?;
                file.v6.iter().map(|route| route.prefix).collect()
            }
            None => Vec::new(),
        };
        if listed.is_empty() { Table6::made_up(MADE_UP) } else { Ok(Table6 { prefixes: listed }) }
    }

    /// A made-up table of so many prefixes.
    pub fn made_up(prefixes: usize) -> Result<Table6, String> {
        Ok(Table6 { prefixes: make_up(prefixes)? })
    }

    /// Writes a file of routes that all lead to port 0; gives its path and how many routes there are in it.
    pub fn routes(&self, folder: &Path) -> Result<(PathBuf, usize), String> {
        let file = folder.join("routes6.txt");
        if !file.exists() {
            let next_hop = NextHop { gateway: None, port: 0 };
            let v6 = self.prefixes.iter().map(|&prefix| Route { prefix, next_hop }).collect();
            let problem = |e: std::io::Error| format!("{}: {e}", file.display());
            let out = BufWriter::new(File::create(&file).map_err(problem)?);
            RouteFile { v4: Vec::new(), v6 }.write(out).map_err(problem)?;
        }
        Ok((file, self.prefixes.len()))
    }

    /// Writes a capture of one packet to each of `count` distinct destinations: the same ones for the same table. Gives
    /// its path and how many packets there are.
    pub fn trace(&self, count: usize, folder: &Path) -> Result<(PathBuf, usize), String> {
        let path = folder.join(format!("{count}-ip6.pcap"));
        let destinations = destinations(&self.prefixes, count);
        if !path.exists() {
            let problem = |e: io::pcap::PcapError| format!("{}: {e}", path.display());
            let mut writer = Writer::create(&path, LinkType::Ethernet, 65_535).map_err(problem)?;
            for destination in &destinations {
                writer.write(0, FRAME as u32, &frame(*destination)).map_err(problem)?;
            }
            writer.flush().map_err(problem)?;
        }
        Ok((path, destinations.len()))
    }
}

fn make_up(prefixes: usize) -> Result<Vec<Prefix6>, String> {
    let hops = [NextHop { gateway: None, port: 0 }];
    let table = fib::synth::<u128>(prefixes, SEED, &hops).map_err(|e| e.to_string())?;
    Ok(table.routes.iter().map(|route| route.prefix).collect())
}

/// Distinct addresses, each a random one of a random prefix. Fewer than `count` if so many cannot be found.
fn destinations(prefixes: &[Prefix6], count: usize) -> Vec<u128> {
    let mut random = Random::new(SEED);
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(16) {
        if found.len() == count || prefixes.is_empty() {
            break;
        }
        let prefix = prefixes[random.below(prefixes.len())];
        let bits =
            [(); 4].map(|()| random.below(1 << 32)).iter().fold(0, |bits, &word| bits << 32 | word as u128);
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
        let table = Table6::new(Some(&list)).unwrap();
        let (routes, count) = table.routes(folder.path()).unwrap();
        assert_eq!((fs::read_to_string(&routes).unwrap().as_str(), count), ("2001:db8::/32 0\n", 1));
        let (path, count) = table.trace(16, folder.path()).unwrap();
        assert_eq!(count, 16);
        let mut reader = Reader::open(&path).unwrap();
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
