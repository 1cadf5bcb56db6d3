//! Every target over its seeds, over seeds with bytes changed, cut and doubled, and over random bytes: always the same
//! ones. It finds what a fuzzer finds in its first second, on any compiler.

use std::path::Path;
use std::{fs, io};

const ROUNDS: usize = 3_000;
/// Longest input.
const MOST: usize = 2048;

#[test]
fn wire_holds() {
    hold("wire", fuzz::wire);
}

#[test]
fn pcap_holds() {
    hold("pcap", fuzz::pcap);
}

#[test]
fn language_holds() {
    hold("language", fuzz::language);
}

#[test]
fn arguments_holds() {
    hold("arguments", fuzz::arguments);
}

#[test]
fn routes_holds() {
    hold("routes", fuzz::routes);
}

#[test]
fn mrt_holds() {
    hold("mrt", fuzz::mrt);
}

#[test]
fn graph_holds() {
    hold("graph", fuzz::graph);
}

#[test]
fn fpm_holds() {
    hold("fpm", fuzz::fpm);
}

#[test]
fn replicate_holds() {
    hold("replicate", fuzz::replicate);
}

#[test]
fn cluster_holds() {
    hold("cluster", fuzz::cluster);
}

fn hold(name: &str, target: fn(&[u8])) {
    let seeds = seeds(name).unwrap_or_else(|e| panic!("seeds of {name}: {e}"));
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds.iter().for_each(|seed| target(seed));
    let mut random = Random(1);
    for round in 0..ROUNDS {
        let mut bytes = match round % 4 {
            0 => (0..random.below(200)).map(|_| random.byte()).collect(),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        for _ in 0..random.below(8) {
            change(&mut bytes, &mut random);
        }
        bytes.truncate(MOST);
        target(&bytes);
    }
}

fn seeds(name: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let files = fs::read_dir(folder)?.map(|file| Ok(file?.path()));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    files.sort();
    files.iter().map(fs::read).collect()
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.byte()),
        2 => bytes.extend_from_within(at..),
        3 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        _ if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff][random.below(4)],
        _ => {}
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.bits() as u8
    }
}
