//! The table, and the addresses that are looked up in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fib::{NextHop, Prefix4, Route, RouteFile, synth};

/// Routes of a made-up table.
const MADE_UP: usize = 1_000_000;
const SEED: u64 = 2009;

/// Routes, and where they come from.
pub struct Table {
    pub name: String,
    pub routes: Vec<Route<u32>>,
}

impl Table {
    /// The IPv4 prefixes of `source`, else of the full table beside the repository if it is there, else made-up ones.
    /// They lead to `next_hops` next hops at random.
    pub fn new(source: Option<PathBuf>, next_hops: u32) -> Result<Table, String> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bgp-full-table.txt.gz");
        let source = source.or_else(|| beside.exists().then_some(beside));
        let (name, prefixes) = match source {
            Some(source) => {
                let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, read(&source)?)
            }
            None => (format!("synth of {MADE_UP}"), made_up()?),
        };
        let mut random = Random::new();
        let routes = prefixes.into_iter().map(|prefix| {
            let next_hop = NextHop { gateway: None, port: random.below(next_hops as usize) as u32 };
            Route { prefix, next_hop }
        });
        Ok(Table { name, routes: routes.collect() })
    }
}

fn read(source: &Path) -> Result<Vec<Prefix4>, String> {
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
    let file = RouteFile::parse(&text, Some(0)).map_err(|e| problem(&e))?;
    Ok(file.v4.iter().map(|route| route.prefix).collect())
}

fn made_up() -> Result<Vec<Prefix4>, String> {
    let hops = [NextHop { gateway: None, port: 0 }];
    let table = synth::<u32>(MADE_UP, SEED, &hops).map_err(|e| e.to_string())?;
    Ok(table.routes.iter().map(|route| route.prefix).collect())
}

/// How addresses are drawn.
#[derive(Clone, Copy)]
pub enum Pattern {
    /// A prefix, each as likely as any other, and an address in it.
    Prefixes,
    /// A prefix, the k-th of a random order with a likelihood in proportion to 1/k, and an address in it.
    Zipf,
    /// Any address.
    Space,
}

impl Pattern {
    pub const ALL: [Pattern; 3] = [Pattern::Prefixes, Pattern::Zipf, Pattern::Space];

    pub fn name(self) -> &'static str {
        match self {
            Pattern::Prefixes => "uniform over prefixes",
            Pattern::Zipf => "Zipf over prefixes",
            Pattern::Space => "uniform over 2^32",
        }
    }

    /// `count` addresses, the same ones each time.
    pub fn addresses(self, routes: &[Route<u32>], count: usize) -> Vec<u32> {
        let mut random = Random::new();
        let within = |random: &mut Random, index: usize| {
            let prefix = routes[index].prefix;
            prefix.first() | random.next() as u32 & (prefix.last() - prefix.first())
        };
        match self {
            Pattern::Space => (0..count).map(|_| random.next() as u32).collect(),
            Pattern::Prefixes => (0..count)
                .map(|_| {
                    let index = random.below(routes.len());
                    within(&mut random, index)
                })
                .collect(),
            Pattern::Zipf => {
                let order = random.order(routes.len());
                let mut sum = 0.0;
                let sums: Vec<f64> = (1..=routes.len())
                    .map(|rank| {
                        sum += 1.0 / rank as f64;
                        sum
                    })
                    .collect();
                (0..count)
                    .map(|_| {
                        let at = random.unit() * sum;
                        let rank = sums.partition_point(|&below| below <= at).min(order.len() - 1);
                        within(&mut random, order[rank])
                    })
                    .collect()
            }
        }
    }
}

/// SplitMix64: the same seed gives the same traffic everywhere.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(SEED)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The numbers below `n` in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}
