//! Traffic: a routing table, and captures of small packets to destinations that it has routes for.

use fib::{NextHop, Prefix4, Route, RouteFile};
use io::pcap::{LinkType, Writer};
use packet::wire::checksum::checksum;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of each frame in memory, without check sequence.
pub const FRAME: usize = 64;
/// Routes of a made-up table.
const MADE_UP: usize = 1_000_000;
pub const SEED: u64 = 2009;

/// A table as a file that the router reads, and its prefixes.
#[derive(Debug)]
pub struct Table {
    /// Where it comes from.
    pub name: String,
    /// The route file; every route leads to port 0.
    pub file: PathBuf,
    prefixes: Vec<Prefix4>,
}

impl Table {
    /// The IPv4 routes of `source` if that is there (prefixes, one a line, perhaps packed by gzip), else a made-up
    /// table of a million.
    pub fn new(source: Option<&Path>, folder: &Path) -> Result<Table, String> {
        let (name, prefixes) = match source {
            Some(source) => {
                let name = source.file_name().unwrap_or(source.as_os_str());
                (name.to_string_lossy().into_owned(), read(source)?)
            }
            None => (format!("synth of {MADE_UP}"), make_up()?),
        };
        if prefixes.is_empty() {
            return Err(format!("{name}: there is no IPv4 prefix in it"));
        }
        let file = folder.join("routes.txt");
        let to_port_0 = NextHop { gateway: None, port: 0 };
        let v4 = prefixes.iter().map(|prefix| Route { prefix: *prefix, next_hop: to_port_0 }).collect();
        let out = File::create(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        RouteFile { v4, v6: Vec::new() }
            .write(BufWriter::new(out))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(Table { name, file, prefixes })
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Writes a capture of one packet to each of `count` distinct destinations: the same ones for the same table.
    pub fn trace(&self, count: usize, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join(format!("{count}.pcap"));
        let problem = |e: io::pcap::PcapError| e.to_string();
        let mut writer = Writer::create(&path, LinkType::Ethernet, 65_535).map_err(problem)?;
        for destination in destinations(&self.prefixes, count) {
            writer.write(0, FRAME as u32, &frame(destination)).map_err(problem)?;
        }
        writer.flush().map_err(problem)?;
        Ok(path)
    }
}

fn read(source: &Path) -> Result<Vec<Prefix4>, String> {
    Ok(prefixes_of(source)?.v4.iter().map(|route| route.prefix).collect())
}

/// The routes of a list of prefixes, one a line, perhaps packed by gzip.
pub fn prefixes_of(source: &Path) -> Result<RouteFile, String> {
    let problem = |e: &dyn std::fmt::Display| format!("{}: {e}", source.display());
    let text = if source.extension().is_some_and(|e| e == "gz") {
        let unpacked = Command::new("gzip").arg("-dc").arg(source).output().map_err(|e| problem(&e))?;
        if !unpacked.status.success() {
            return Err(problem(&String::from_utf8_lossy(&unpacked.stderr).trim()));
        }
        unpacked.stdout
    } else {
        fs::read(source).map_err(|e| problem(&e))?
    };
    RouteFile::parse(&text, Some(0)).map_err(|e| problem(&e))
}

fn make_up() -> Result<Vec<Prefix4>, String> {
    let hops = [NextHop { gateway: None, port: 0 }];
    let table = fib::synth::<u32>(MADE_UP, SEED, &hops).map_err(|e| e.to_string())?;
    Ok(table.routes.iter().map(|route| route.prefix).collect())
}

/// Distinct addresses, each a random one of a random prefix. `prefixes` must not be empty. Fewer than `count` if so
/// many cannot be found.
fn destinations(prefixes: &[Prefix4], count: usize) -> Vec<u32> {
    let mut random = Random(SEED);
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(16) {
        if found.len() == count {
            break;
        }
        let prefix = prefixes[random.below(prefixes.len())];
        let hosts = (prefix.last() - prefix.first()) as usize + 1;
        let address = prefix.first() + random.below(hosts) as u32;
        if seen.insert(address) {
            found.push(address);
        }
    }
    found
}

/// A UDP packet from 198.18.0.1 (RFC 2544) with TTL 64.
fn frame(destination: u32) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip_len = (FRAME - 14) as u16;
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

/// SplitMix64: the same seed gives the same trace everywhere.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::pcap::Reader;
    use packet::wire::ipv4::Ipv4;

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

    #[test]
    fn a_trace_holds_sound_packets() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        fs::write(&list, "192.0.2.0/24\r\n2001:db8::/32\r\n").unwrap();
        let table = Table::new(Some(&list), folder.path()).unwrap();
        assert_eq!(table.len(), 1);
        assert_eq!(fs::read_to_string(&table.file).unwrap(), "192.0.2.0/24 0\n");
        let mut reader = Reader::open(&table.trace(16, folder.path()).unwrap()).unwrap();
        let mut packets = 0;
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.data.len(), FRAME);
            let ip = Ipv4::check(&record.data[14..]).unwrap();
            assert!(ip.checksum_is_valid() && ip.ttl() == 64 && usize::from(ip.total_len()) == FRAME - 14);
            packets += 1;
        }
        assert_eq!(packets, 16);
    }
}
