//! The table, and the addresses that are looked up in it.

use std::path::{Path, PathBuf};

use fib::{NextHop, Prefix4, Random, Route, synth};

use crate::common::{Zipf, read_routes};

/// Routes of a made-up table.
const MADE_UP: usize = 1_000_000;
pub const SEED: u64 = 2009;

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
                (name, read_routes(&source)?.v4.iter().map(|route| route.prefix).collect())
            }
            None => (format!("synth of {MADE_UP}"), made_up()?),
        };
        let mut random = Random::new(SEED);
        let routes = prefixes.into_iter().map(|prefix| {
            let next_hop = NextHop { gateway: None, port: random.below(next_hops as usize) as u32 };
            Route { prefix, next_hop }
        });
        Ok(Table { name, routes: routes.collect() })
    }
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
        let mut random = Random::new(SEED);
        let within = |random: &mut Random, index: usize| {
            let prefix = routes[index].prefix;
            prefix.first() | random.bits() as u32 & (prefix.last() - prefix.first())
        };
        match self {
            Pattern::Space => (0..count).map(|_| random.bits() as u32).collect(),
            Pattern::Prefixes => (0..count)
                .map(|_| {
                    let index = random.below(routes.len());
                    within(&mut random, index)
                })
                .collect(),
            Pattern::Zipf => {
                let zipf = Zipf::new(routes.len(), &mut random);
                (0..count)
                    .map(|_| {
                        let index = zipf.draw(&mut random);
                        within(&mut random, index)
                    })
                    .collect()
            }
        }
    }
}
