//! What each route of a table was looked up for: packets and bytes.
//!
//! ```text
//!  address ── lookup of its own ─▶ number of the route ─▶ the worker's tally
//! ```
//!
//! Next hops are shared by many routes, so a lookup does not tell which route it found. Here every route has a number of its
//! own, as long as it is there, whatever next hops it leads to meanwhile. A number is given to another route when no worker
//! can count for the old one any more.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use epoch::{Reader, Tally, Ticket, prefetch, ticket};

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// Tallies of a worker that come at once.
const PAGE: usize = 1 << 14;
/// Pages that there may be: routes beyond are not counted.
const PAGES: usize = 1 << 10;

/// The tallies of the routes of one table; see the module.
pub struct RouteCounts<A: Address> {
    /// The numbers of routes, in the place of next hops.
    numbers: Box<dyn Fib<A>>,
    workers: Box<[Tallies]>,
    state: Mutex<State<A>>,
}

/// What one worker has counted, by number. Who gives numbers makes the pages for them.
type Tallies = Box<[OnceLock<Box<[Tally]>>]>;

struct State<A: Address> {
    rib: Rib<A>,
    /// Packets and bytes of all workers when a number was given.
    base: Vec<[u64; 2]>,
    /// Numbers of routes that are gone, the one that has waited longest first.
    left: VecDeque<(Ticket, NextHopId)>,
}

/// What was counted for a route since it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteCount<A: Address> {
    /// The route's.
    pub prefix: Prefix<A>,
    /// Packets.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl<A: Address> RouteCounts<A> {
    /// Tallies for so many workers, for these routes, whose numbers are looked up in `numbers`, which must be empty.
    pub(crate) fn new(workers: usize, numbers: Box<dyn Fib<A>>, rib: &Rib<A>) -> RouteCounts<A> {
        let tallies = || (0..PAGES).map(|_| OnceLock::new()).collect();
        let counts = RouteCounts {
            numbers,
            workers: (0..workers).map(|_| tallies()).collect(),
            state: Mutex::new(State { rib: Rib::new(), base: Vec::new(), left: VecDeque::new() }),
        };
        counts.follow(rib, &[], true);
        counts
    }

    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The routes at these prefixes have changed, or, if `all`, any may have.
    pub(crate) fn follow(&self, rib: &Rib<A>, changed: &[Prefix<A>], all: bool) {
        let state = &mut *self.state();
        let every: Vec<Prefix<A>>;
        let changed = if all {
            every = state.rib.iter().chain(rib.iter()).map(|(prefix, _)| prefix).collect();
            &every
        } else {
            changed
        };
        let (mut news, mut gone) = (Vec::new(), Vec::new());
        for &prefix in changed {
            match (rib.get(prefix).is_some(), state.rib.get(prefix)) {
                (true, None) => {
                    let Some(number) = self.number(state) else { continue };
                    state.rib.insert(prefix, number);
                }
                (false, Some(number)) => {
                    state.rib.remove(prefix);
                    gone.push(number);
                }
                _ => continue,
            }
            news.push(prefix);
        }
        if news.is_empty() {
            return;
        }
        self.numbers.update(&state.rib, &news);
        if !gone.is_empty() {
            let ticket = ticket();
            state.left.extend(gone.into_iter().map(|number| (ticket, number)));
        }
    }

    /// A number that no route has, counted from here; `None` if there are too many.
    fn number(&self, state: &mut State<A>) -> Option<NextHopId> {
        if let Some((_, number)) = state.left.pop_front_if(|(left, _)| left.passed()) {
            *state.base.get_mut(number.index())? = self.sum(number);
            return Some(number);
        }
        let index = state.base.len();
        let number = u32::try_from(index).ok().and_then(NextHopId::new)?;
        for tallies in &self.workers {
            tallies.get(index / PAGE)?.get_or_init(|| (0..PAGE).map(|_| Tally::default()).collect());
        }
        state.base.push([0; 2]);
        Some(number)
    }

    /// Packets and bytes of all workers.
    fn sum(&self, number: NextHopId) -> [u64; 2] {
        let tallies = self.workers.iter().filter_map(|tallies| tally(tallies, number));
        tallies.fold([0u64; 2], |[packets, bytes], tally| {
            [packets.wrapping_add(tally.packets()), bytes.wrapping_add(tally.bytes())]
        })
    }

    /// The routes of exactly these addresses, as [`Fib::lookup_batch`] gives next hops, for [`count`](Self::count).
    pub fn lookup_batch(&self, reader: &Reader, addrs: &[A], routes: &mut [Option<NextHopId>]) {
        self.numbers.lookup_batch(reader, addrs, routes);
    }

    /// Counts for this worker, which is the only one that does, a packet for each of the routes that were found since the
    /// reader last passed a quiescent point; `bytes` gives the length of the packet at this place.
    pub fn count(&self, worker: usize, routes: &[Option<NextHopId>], mut bytes: impl FnMut(usize) -> u64) {
        let Some(tallies) = self.workers.get(worker) else { return };
        // Those of a full table are in no cache.
        for route in routes.iter().flatten() {
            if let Some(page) = tallies.get(route.index() / PAGE).and_then(OnceLock::get) {
                prefetch(page, route.index() % PAGE);
            }
        }
        for (place, route) in routes.iter().enumerate() {
            if let Some(tally) = route.and_then(|route| tally(tallies, route)) {
                tally.add(1, bytes(place));
            }
        }
    }

    /// What was counted for each route, in the order of prefixes.
    pub fn counts(&self) -> Vec<RouteCount<A>> {
        let state = self.state();
        let since = |(prefix, number): (Prefix<A>, NextHopId)| {
            let ([packets, bytes], base) = (self.sum(number), state.base.get(number.index())?);
            Some(RouteCount {
                prefix,
                packets: packets.wrapping_sub(base[0]),
                bytes: bytes.wrapping_sub(base[1]),
            })
        };
        state.rib.iter().filter_map(since).collect()
    }

    /// The memory that it holds.
    pub(crate) fn memory(&self) -> Vec<MemoryPart> {
        let state = self.state();
        let pages: usize = self.workers.iter().flatten().filter(|page| page.get().is_some()).count();
        let tallies = pages * PAGE * size_of::<Tally>() + size_of_val(&state.base[..]);
        let numbers = self.numbers.memory().iter().map(|part| part.bytes).sum::<usize>();
        vec![
            MemoryPart { part: "counts", bytes: tallies },
            MemoryPart { part: "numbers", bytes: numbers + state.rib.memory_bytes() },
        ]
    }
}

#[inline]
fn tally(tallies: &Tallies, number: NextHopId) -> Option<&Tally> {
    tallies.get(number.index() / PAGE)?.get()?.get(number.index() % PAGE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{NextHop, Prefix4, Radix, Route, RouteChange, RouteTable};

    /// What a step does in a small world.
    #[derive(Clone, Debug)]
    enum Step {
        Set(Prefix4, u32),
        Remove(Prefix4),
        Flush,
        Packets(usize, Vec<u32>),
        Rest,
    }

    fn step() -> impl Strategy<Value = Step> {
        let prefix = (0..6u32, prop::sample::select(vec![0u8, 3, 9, 24, 30])).prop_map(|(bits, len)| {
            Prefix4::new((bits << 29 | bits << 6) & (u64::MAX << (32 - len)) as u32, len).unwrap()
        });
        prop_oneof![
            4 => (prefix.clone(), 0..3u32).prop_map(|(prefix, port)| Step::Set(prefix, port)),
            3 => prefix.prop_map(Step::Remove),
            1 => Just(Step::Flush),
            6 => (0..2usize, prop::collection::vec((0..6u32, 0..4u32), 1..20)).prop_map(|(worker, all)| {
                Step::Packets(worker, all.into_iter().map(|(bits, low)| bits << 29 | bits << 6 | low).collect())
            }),
            2 => Just(Step::Rest),
        ]
    }

    proptest! {
        #[test]
        fn each_route_counts_what_it_was_looked_up_for(
            before in prop::collection::vec(step(), 0..10), steps in prop::collection::vec(step(), 0..80)
        ) {
            let (table, mut reader) = (RouteTable::new(Radix::new()), Reader::new());
            let mut expected: BTreeMap<Prefix4, (u64, u64)> = BTreeMap::new();
            let late = before.len();
            let mut counts = None;
            for (n, step) in before.into_iter().chain(steps).enumerate() {
                if n == late {
                    counts = Some(table.count_routes(2, Radix::new));
                }
                match step {
                    Step::Set(prefix, port) => {
                        let next_hop = NextHop { gateway: None, port };
                        table.apply(&[RouteChange::Set(Route { prefix, next_hop })]).unwrap();
                        expected.entry(prefix).or_default();
                    }
                    Step::Remove(prefix) => {
                        let is_there = table.apply(&[RouteChange::Remove(prefix, None)]).is_ok();
                        prop_assert_eq!(is_there, expected.remove(&prefix).is_some());
                    }
                    Step::Flush => {
                        table.apply(&[RouteChange::Flush]).unwrap();
                        expected.clear();
                    }
                    Step::Packets(worker, addresses) => {
                        let Some(counts) = &counts else { continue };
                        let mut routes = vec![None; addresses.len()];
                        counts.lookup_batch(&reader, &addresses, &mut routes);
                        counts.count(worker, &routes, |place| 60 + place as u64);
                        for (place, address) in addresses.iter().enumerate() {
                            let best = expected.iter_mut().filter(|(prefix, _)| prefix.contains(*address));
                            if let Some((_, (packets, bytes))) = best.max_by_key(|(prefix, _)| prefix.len()) {
                                (*packets, *bytes) = (*packets + 1, *bytes + 60 + place as u64);
                            }
                        }
                    }
                    Step::Rest => reader.quiescent(),
                }
                if let Some(counts) = &counts {
                    let counted: Vec<_> =
                        counts.counts().into_iter().map(|one| (one.prefix, (one.packets, one.bytes))).collect();
                    prop_assert_eq!(counted, expected.clone().into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}
