//! The lookup structures by name, and which of them is the quickest for a table on this machine.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use epoch::Reader;
use serde::Serialize;

use crate::lookup::Fib;
use crate::prefix::{Address, Prefix};
use crate::random::Random;
use crate::rib::Rib;
use crate::{Dir24_8, LinearTable, Poptrie, Radix, RangeTree};

/// A lookup structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Structure {
    /// [`Dir24_8`].
    Dir24_8,
    /// [`RangeTree`].
    RangeTree,
    /// [`Poptrie`].
    Poptrie,
    /// [`Radix`].
    Radix,
    /// [`LinearTable`].
    Linear,
}

impl Structure {
    /// All of them, those that suit large tables first.
    pub const ALL: [Structure; 5] =
        [Structure::Dir24_8, Structure::RangeTree, Structure::Poptrie, Structure::Radix, Structure::Linear];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Structure::Dir24_8 => "dir24_8",
            Structure::RangeTree => "range_tree",
            Structure::Poptrie => "poptrie",
            Structure::Radix => "radix",
            Structure::Linear => "linear",
        }
    }

    /// Whether a change of one route takes a small part of the time that the whole takes.
    pub const fn changes_in_place(self) -> bool {
        matches!(self, Structure::Dir24_8 | Structure::RangeTree | Structure::Radix)
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No structure is called so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the structures are dir24_8, range_tree, poptrie, radix and linear")]
pub struct UnknownStructure;

impl FromStr for Structure {
    type Err = UnknownStructure;

    fn from_str(name: &str) -> Result<Structure, UnknownStructure> {
        Structure::ALL.into_iter().find(|structure| structure.name() == name).ok_or(UnknownStructure)
    }
}

/// Addresses, and the structures that they can be looked up in.
pub trait Structured: Address {
    /// A structure without routes; `None` if it is not for this family.
    fn fib(structure: Structure) -> Option<Arc<dyn Fib<Self>>>;
}

impl Structured for u32 {
    fn fib(structure: Structure) -> Option<Arc<dyn Fib<u32>>> {
        Some(match structure {
            Structure::Dir24_8 => Arc::new(Dir24_8::new()),
            other => return any_family(other),
        })
    }
}

impl Structured for u128 {
    fn fib(structure: Structure) -> Option<Arc<dyn Fib<u128>>> {
        any_family(structure)
    }
}

fn any_family<A: Address>(structure: Structure) -> Option<Arc<dyn Fib<A>>> {
    Some(match structure {
        Structure::Dir24_8 => return None,
        Structure::RangeTree => Arc::new(RangeTree::new()),
        Structure::Poptrie => Arc::new(Poptrie::new()),
        Structure::Radix => Arc::new(Radix::new()),
        Structure::Linear => Arc::new(LinearTable::new()),
    })
}

/// What a structure costs for a table on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Which one.
    pub structure: Structure,
    /// Of one lookup in a batch of 64, in ticks of the clock: the quickest of some rounds.
    pub ticks_per_lookup: f64,
    /// Of building it, in ticks of the clock.
    pub build_ticks: u64,
    /// The memory that it holds.
    pub bytes: usize,
}

/// Structures that are measured against each other, the first one being taken if there is little to choose.
pub(crate) const CONTESTANTS: [Structure; 3] = [Structure::Dir24_8, Structure::RangeTree, Structure::Poptrie];
/// Addresses that are looked up in each round.
const SAMPLE: usize = 16_384;
const ROUNDS: usize = 7;
const BATCH: usize = 64;
/// What has to be gained by one that comes later.
const WORTHWHILE: f64 = 0.95;

/// A structure, and what those cost that it was chosen from.
pub(crate) type Chosen<A> = (Arc<dyn Fib<A>>, Vec<Cost>);

/// What finds the [`quickest`], by a clock.
pub(crate) type Measure<A> = fn(rib: &Rib<A>, in_place: bool, clock: fn() -> u64) -> Option<Chosen<A>>;

/// The quickest structure for these routes, filled with them, and what each costs. `in_place`: only of those that
/// change in place. Each round goes through all of them, so that none has the caches for itself.
pub(crate) fn quickest<A: Structured>(rib: &Rib<A>, in_place: bool, clock: fn() -> u64) -> Option<Chosen<A>> {
    let fit = CONTESTANTS.into_iter().filter(|structure| !in_place || structure.changes_in_place());
    let mut built: Vec<(Arc<dyn Fib<A>>, Cost)> =
        fit.filter_map(|structure| build(rib, structure, clock)).collect();
    let sample = sample(rib);
    for _ in 0..ROUNDS {
        for (fib, cost) in &mut built {
            let ticks = time(&**fib, &sample, clock) as f64 / sample.len() as f64;
            cost.ticks_per_lookup = cost.ticks_per_lookup.min(ticks);
        }
    }
    let costs: Vec<Cost> = built.iter().map(|(_, cost)| *cost).collect();
    let best = best(&costs)?;
    Some((built.swap_remove(best).0, costs))
}

/// The place of the one to take.
fn best(costs: &[Cost]) -> Option<usize> {
    let ticks = |place: usize| costs.get(place).map_or(f64::INFINITY, |cost| cost.ticks_per_lookup);
    (0..costs.len()).reduce(|best, other| if ticks(other) < WORTHWHILE * ticks(best) { other } else { best })
}

fn build<A: Structured>(
    rib: &Rib<A>,
    structure: Structure,
    clock: fn() -> u64,
) -> Option<(Arc<dyn Fib<A>>, Cost)> {
    let fib = A::fib(structure)?;
    let start = clock();
    fib.update(rib, &[Prefix::default()]);
    let build_ticks = clock().saturating_sub(start);
    let bytes = fib.memory().iter().map(|part| part.bytes).sum();
    Some((fib, Cost { structure, ticks_per_lookup: f64::INFINITY, build_ticks, bytes }))
}

/// Addresses in random routes' prefixes, each route as likely; any addresses if there is no route.
fn sample<A: Address>(rib: &Rib<A>) -> Vec<A> {
    let mut random = Random::new(0);
    let step = rib.len().div_ceil(SAMPLE).max(1);
    let mut prefixes: Vec<Prefix<A>> = rib.iter().step_by(step).map(|(prefix, _)| prefix).collect();
    if prefixes.is_empty() {
        prefixes.push(Prefix::default());
    }
    let address = |_| {
        let prefix = prefixes[random.below(prefixes.len())];
        let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
        prefix.first() | (A::from_low_bits(bits) & (prefix.first() ^ prefix.last()))
    };
    (0..SAMPLE).map(address).collect()
}

fn time<A: Address>(fib: &dyn Fib<A>, sample: &[A], clock: fn() -> u64) -> u64 {
    let reader = Reader::new();
    let mut hops = [None; BATCH];
    let start = clock();
    for batch in sample.chunks(BATCH) {
        fib.lookup_batch(&reader, batch, &mut hops);
        std::hint::black_box(&hops);
    }
    clock().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::{NextHop, NextHops};

    fn cost(structure: Structure, ticks_per_lookup: f64) -> Cost {
        Cost { structure, ticks_per_lookup, build_ticks: 0, bytes: 0 }
    }

    #[test]
    fn the_first_is_taken_unless_another_is_worth_it() {
        let of = |ticks: [f64; 3]| {
            let costs: Vec<Cost> = CONTESTANTS.iter().zip(ticks).map(|(s, t)| cost(*s, t)).collect();
            best(&costs).map(|place| CONTESTANTS[place])
        };
        assert_eq!(of([10.0, 9.6, 9.6]), Some(Structure::Dir24_8));
        assert_eq!(of([10.0, 9.4, 9.3]), Some(Structure::RangeTree));
        assert_eq!(of([10.0, 9.4, 8.0]), Some(Structure::Poptrie));
        assert_eq!(of([10.0, 30.0, 10.0]), Some(Structure::Dir24_8));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for structure in Structure::ALL {
            assert_eq!(structure.to_string().parse(), Ok(structure));
            let json = serde_json::to_string(&structure).unwrap();
            assert_eq!(json, format!("\"{structure}\""));
        }
        assert_eq!("Poptrie".parse::<Structure>(), Err(UnknownStructure));
    }

    fn rib<A: Structured>(routes: &[&str]) -> Rib<A> {
        let (mut rib, mut hops) = (Rib::new(), NextHops::default());
        for (port, route) in routes.iter().enumerate() {
            let hop = hops.intern(NextHop { gateway: None, port: port as u32 }).unwrap();
            rib.insert(route.parse().unwrap(), hop);
        }
        rib
    }

    #[test]
    fn samples_lie_in_the_routes() {
        let rib = rib::<u32>(&["10.0.0.0/8", "192.0.2.1/32"]);
        let found = sample(&rib);
        assert_eq!(found.len(), SAMPLE);
        assert!(found.iter().all(|addr| rib.lookup(*addr).is_some()));
        let at_the_host = found.iter().filter(|addr| **addr == 0xC000_0201).count();
        assert!((SAMPLE * 2 / 5..SAMPLE * 3 / 5).contains(&at_the_host), "{at_the_host}");
        assert_eq!(sample(&Rib::<u128>::new()).len(), SAMPLE);
    }

    #[test]
    fn all_that_fit_are_filled_and_measured() {
        let v6 = rib::<u128>(&["2001:db8::/32", "::/0"]);
        let (fib, costs) = quickest(&v6, false, epoch::tsc).unwrap();
        let names: Vec<_> = costs.iter().map(|cost| cost.structure).collect();
        assert_eq!(names, [Structure::RangeTree, Structure::Poptrie]);
        assert!(costs.iter().all(|cost| cost.ticks_per_lookup.is_finite() && cost.bytes > 0));
        let addr = "2001:db8::/32".parse::<crate::Prefix6>().unwrap().first();
        assert_eq!(fib.lookup(&Reader::new(), addr), v6.lookup(addr).map(|(_, hop)| hop));
        let v4 = rib::<u32>(&["10.0.0.0/8"]);
        let (_, costs) = quickest(&v4, true, epoch::tsc).unwrap();
        let names: Vec<_> = costs.iter().map(|cost| cost.structure).collect();
        assert_eq!(names, [Structure::Dir24_8, Structure::RangeTree]);
    }
}
