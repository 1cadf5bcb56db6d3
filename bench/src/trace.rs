//! Traffic: a routing table, and captures of packets to destinations that it has routes for.

use crate::plan::{Frames, Hops};
use fib::{NextHop, Prefix4, Random, Route, RouteFile};
use io::pcap::{LinkType, Writer};
use packet::wire::checksum::checksum;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Routes of a made-up table.
const MADE_UP: usize = 1_000_000;
pub const SEED: u64 = 2009;

/// Prefixes that routes are made of.
#[derive(Debug)]
pub struct Table {
    /// Where they come from.
    pub name: String,
    /// In random order, so that the first ones are a sample of all.
    prefixes: Vec<Prefix4>,
}

impl Table {
    /// The IPv4 prefixes of `source` if that is there (one a line, perhaps packed by gzip), else those of a made-up
    /// table of a million.
    pub fn new(source: Option<&Path>) -> Result<Table, String> {
        let (name, prefixes) = match source {
            Some(source) => {
                let name = source.file_name().unwrap_or(source.as_os_str());
                (name.to_string_lossy().into_owned(), read(source)?)
            }
            None => return Table::made_up(MADE_UP),
        };
        Table::of(name, prefixes)
    }

    /// A made-up table of so many prefixes.
    pub fn made_up(prefixes: usize) -> Result<Table, String> {
        Table::of(format!("synth of {prefixes}"), make_up(prefixes)?)
    }

    fn of(name: String, mut prefixes: Vec<Prefix4>) -> Result<Table, String> {
        if prefixes.is_empty() {
            return Err(format!("{name}: there is no IPv4 prefix in it"));
        }
        let mut random = Random::new(SEED);
        for i in (1..prefixes.len()).rev() {
            prefixes.swap(i, random.below(i + 1));
        }
        Ok(Table { name, prefixes })
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// A sample of `routes` prefixes, or all if there are not so many.
    fn sample(&self, routes: usize) -> &[Prefix4] {
        self.prefixes.get(..routes).unwrap_or(&self.prefixes)
    }

    /// The prefixes of a sample.
    pub fn prefixes(&self, routes: usize) -> impl Iterator<Item = Prefix4> {
        self.sample(routes).iter().copied()
    }

    /// Distinct destinations that a sample has routes for: the same ones for the same table.
    pub fn destinations(&self, routes: usize, count: usize) -> Vec<u32> {
        destinations(self.sample(routes), count)
    }

    /// Writes a file of routes for a sample; gives its path and how many routes there are in it.
    pub fn routes(&self, routes: usize, hops: Hops, folder: &Path) -> Result<(PathBuf, usize), String> {
        let sample = self.sample(routes);
        let file = folder.join(format!("{}-routes-{}-hops.txt", sample.len(), hops.count()));
        if !file.exists() {
            let route =
                |(k, prefix): (usize, &Prefix4)| Route { prefix: *prefix, next_hop: hops.next_hop(k) };
            let v4 = sample.iter().enumerate().map(route).collect();
            let problem = |e: std::io::Error| format!("{}: {e}", file.display());
            let out = BufWriter::new(File::create(&file).map_err(problem)?);
            RouteFile { v4, v6: Vec::new() }.write(out).map_err(problem)?;
        }
        Ok((file, sample.len()))
    }

    /// Writes a capture of one packet to each of `count` distinct destinations of a sample: the same ones for the same
    /// table. Gives its path and how many packets there are.
    pub fn trace(
        &self,
        routes: usize,
        count: usize,
        frames: Frames,
        folder: &Path,
    ) -> Result<(PathBuf, usize), String> {
        let sample = self.sample(routes);
        let path = folder.join(format!("{count}-of-{}-{frames}.pcap", sample.len()));
        let destinations = destinations(sample, count);
        if !path.exists() {
            let problem = |e: io::pcap::PcapError| format!("{}: {e}", path.display());
            let mut writer = Writer::create(&path, LinkType::Ethernet, 65_535).map_err(problem)?;
            for (k, destination) in destinations.iter().enumerate() {
                let bytes = frame(*destination, frames.length(k).into());
                writer.write(0, bytes.len() as u32, &bytes).map_err(problem)?;
            }
            writer.flush().map_err(problem)?;
        }
        Ok((path, destinations.len()))
    }
}

fn read(source: &Path) -> Result<Vec<Prefix4>, String> {
    let file = RouteFile::read(source, Some(0)).map_err(|e| format!("{}: {e}", source.display()))?;
    Ok(file.v4.iter().map(|route| route.prefix).collect())
}

fn make_up(prefixes: usize) -> Result<Vec<Prefix4>, String> {
    let hops = [NextHop { gateway: None, port: 0 }];
    let table = fib::synth::<u32>(prefixes, SEED, &hops).map_err(|e| e.to_string())?;
    Ok(table.routes.iter().map(|route| route.prefix).collect())
}

/// Distinct addresses, each a random one of a random prefix. `prefixes` must not be empty. Fewer than `count` if so
/// many cannot be found.
fn destinations(prefixes: &[Prefix4], count: usize) -> Vec<u32> {
    let mut random = Random::new(SEED);
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(16) {
        if found.len() == count {
            break;
        }
        let prefix = prefixes[random.below(prefixes.len())];
        let address = prefix.first() | (random.bits() as u32 & (prefix.last() - prefix.first()));
        if seen.insert(address) {
            found.push(address);
        }
    }
    found
}

/// A UDP packet of `length` bytes (at least 64), headers included, from 198.18.0.1 (RFC 2544) with TTL 64.
pub fn frame(destination: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length.max(64)];
    let ip_len = (frame.len() - 14) as u16;
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&[198, 18, 0, 1]);
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..38].copy_from_slice(&[0xc0, 0x20, 0, 9]);
    frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::pcap::Reader;
    use packet::wire::ipv4::Ipv4;
    use std::fs;

    #[test]
    fn destinations_are_distinct_covered_and_always_the_same() {
        let prefixes: Vec<Prefix4> = ["10.0.0.0/8", "192.0.2.4/30"].map(|p| p.parse().unwrap()).to_vec();
        let found = destinations(&prefixes, 100);
        assert_eq!(found.len(), 100);
        assert!(found.iter().all(|a| prefixes.iter().any(|p| p.contains(*a))));
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), 100);
        assert_eq!(found, destinations(&prefixes, 100));
        // No more than there are.
        assert_eq!(destinations(&prefixes[1..], 100).len(), 4);
        assert_eq!(destinations(&["0.0.0.0/0".parse().unwrap()], 50).len(), 50);
    }

    fn table_of(folder: &Path, text: &str) -> Table {
        let list = folder.join("list");
        fs::write(&list, text).unwrap();
        Table::new(Some(&list)).unwrap()
    }

    #[test]
    fn routes_go_round_the_next_hops() {
        let folder = tempfile::tempdir().unwrap();
        let table = table_of(folder.path(), "192.0.2.0/24\r\n2001:db8::/32\r\n");
        assert_eq!(table.len(), 1);
        let (file, routes) = table.routes(usize::MAX, Hops::OnePort, folder.path()).unwrap();
        assert_eq!((fs::read_to_string(file).unwrap().as_str(), routes), ("192.0.2.0/24 0\n", 1));
        let many: String = (0..40).map(|n| format!("10.{n}.0.0/16\n")).collect();
        let table = table_of(folder.path(), &many);
        let (file, routes) = table.routes(32, Hops::SixteenOnTwoPorts, folder.path()).unwrap();
        let text = fs::read_to_string(file).unwrap();
        let to = |hop: &str| text.lines().filter(|line| line.ends_with(hop)).count();
        let hops = [" 192.0.2.1 0", " 192.0.2.16 1", " 192.0.2.17 0", " 1"];
        assert_eq!((routes, hops.map(to)), (32, [2, 2, 0, 16]));
    }

    #[test]
    fn a_trace_holds_sound_packets() {
        let folder = tempfile::tempdir().unwrap();
        let table = table_of(folder.path(), "192.0.2.0/24\n");
        for (frames, lengths) in [(Frames::Bytes(64), [64, 64, 64]), (Frames::Imix, [64, 594, 1518])] {
            let (path, count) = table.trace(9, 16, frames, folder.path()).unwrap();
            assert_eq!(count, 16);
            let mut reader = Reader::open(&path).unwrap();
            let (mut packets, mut seen) = (0, HashSet::new());
            while let Some(record) = reader.next_record().unwrap() {
                let ip = Ipv4::check(&record.data[14..]).unwrap();
                assert!(ip.checksum_is_valid() && ip.ttl() == 64);
                assert_eq!(usize::from(ip.total_len()), record.data.len() - 14);
                seen.insert(record.data.len());
                packets += 1;
            }
            assert_eq!((packets, seen), (16, HashSet::from(lengths)));
        }
    }
}
