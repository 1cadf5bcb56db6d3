//! Routes, their next hops and the structure they are looked up in, kept in step.

mod choice;
mod numbered;

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use epoch::{Padded, Reader, Table};
use serde::Serialize;

use crate::lookup::{Beginnings, Fib, FirstLevel, MemoryPart};
use crate::next_hop::{NextHop, NextHopId, NextHops, TooManyNextHops};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::route_counts::RouteCounts;
use choice::Quickest;
pub use choice::{RebuildLimit, UnfitStructure};
pub use numbered::{RouteEvent, RouteSnapshot, RouteWatch, UnknownNumber};

/// A route: packets for these addresses go there. Printed as `prefix [gateway] port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(bound = "A: Address")]
pub struct Route<A: Address> {
    /// Which addresses.
    pub prefix: Prefix<A>,
    /// Where to.
    pub next_hop: NextHop,
}

impl<A: Address> fmt::Display for Route<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.prefix, self.next_hop)
    }
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange<A: Address> {
    /// A new route; fails when the prefix has one.
    Add(Route<A>),
    /// A new route in place of the one that the prefix may have.
    Set(Route<A>),
    /// The route of the prefix goes; fails when there is none, or one with another next hop than is given here.
    Remove(Prefix<A>, Option<NextHop>),
    /// All routes go.
    Flush,
}

impl<A: Address> RouteChange<A> {
    /// Whose route changes, if it is one route's.
    fn prefix(&self) -> Option<Prefix<A>> {
        match self {
            RouteChange::Add(route) | RouteChange::Set(route) => Some(route.prefix),
            RouteChange::Remove(prefix, _) => Some(*prefix),
            RouteChange::Flush => None,
        }
    }
}

/// Why a change cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError<A: Address> {
    /// The prefix to add a route for has one.
    #[error("there is a route already: {0}")]
    Exists(Route<A>),
    /// The prefix to remove the route of has none.
    #[error("there is no route for {0}")]
    Missing(Prefix<A>),
    /// The prefix to remove the route of has another next hop.
    #[error("the route is another one: {0}")]
    Different(Route<A>),
    /// See [`TooManyNextHops`].
    #[error(transparent)]
    NextHops(#[from] TooManyNextHops),
}

/// Which change of a transaction cannot be made, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ApplyError<A: Address> {
    /// The position of the change, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub error: ChangeError<A>,
}

/// After a transaction of more changes than this, the memory for its notes is given back.
const KEPT: usize = 1024;

/// A routing table: changed by transactions, read by workers without locks.
pub struct RouteTable<A: Address> {
    /// That in `State`, for readers.
    fib: Table<Arc<dyn Fib<A>>>,
    /// The list in `State`, for readers.
    next_hops: Table<Vec<NextHop>>,
    /// Readers must keep the line with the fields above.
    state: Padded<Mutex<State<A>>>,
    counts: OnceLock<Arc<RouteCounts<A>>>,
    owner: OnceLock<&'static str>,
    rebuild_limit: OnceLock<RebuildLimit>,
}

/// What only writers look at.
struct State<A: Address> {
    fib: Arc<dyn Fib<A>>,
    /// A structure that was left may still have readers.
    left: bool,
    quickest: Option<Quickest<A>>,
    rib: Rib<A>,
    next_hops: NextHops,
    /// Where the transaction that is being made has changed routes, and how to take that back. Kept from one to the
    /// next for their memory.
    changed: Vec<Prefix<A>>,
    undo: Vec<Undo<A>>,
    /// See [`RouteTable::numbers_given`].
    given: u64,
    /// Whoever is told of changes.
    watch: Option<RouteWatch<A>>,
}

/// What was there before a change.
enum Undo<A> {
    Route(Prefix<A>, Option<NextHopId>),
    All(Rib<A>),
}

impl<A: Address> RouteTable<A> {
    /// A table without routes that looks up in `fib`, which must be empty.
    pub fn new(fib: impl Fib<A> + 'static) -> RouteTable<A> {
        let fib: Arc<dyn Fib<A>> = Arc::new(fib);
        RouteTable {
            fib: Table::new(fib.clone()),
            next_hops: Table::default(),
            state: Padded(Mutex::new(State {
                fib,
                left: false,
                quickest: None,
                rib: Rib::new(),
                next_hops: NextHops::default(),
                changed: Vec::new(),
                undo: Vec::new(),
                given: 0,
                watch: None,
            })),
            counts: OnceLock::new(),
            owner: OnceLock::new(),
            rebuild_limit: OnceLock::new(),
        }
    }

    /// Somebody else fills the table, who would not notice if its routes were changed by hand; `instead` says where they are to be
    /// changed. The first call decides.
    pub fn set_owner(&self, instead: &'static str) {
        let _ = self.owner.set(instead);
    }

    /// Where the routes are to be changed, if not by hand.
    pub fn owner(&self) -> Option<&'static str> {
        self.owner.get().copied()
    }

    /// Counts for which routes the table is looked up from now on, by so many workers; see [`RouteCounts`]. Numbers of routes
    /// are looked up in what `fib` makes, which must be empty. The first call decides.
    pub fn count_routes<F: Fib<A> + 'static>(
        &self,
        workers: usize,
        fib: impl FnOnce() -> F,
    ) -> Arc<RouteCounts<A>> {
        let state = self.state();
        let new = || Arc::new(RouteCounts::new(workers, Box::new(fib()), &state.rib));
        self.counts.get_or_init(new).clone()
    }

    /// What was counted, if anything is.
    #[inline]
    pub fn counts(&self) -> Option<&RouteCounts<A>> {
        self.counts.get().map(|counts| &**counts)
    }

    /// Makes all `changes` in their order, or none of them.
    pub fn apply(&self, changes: &[RouteChange<A>]) -> Result<(), ApplyError<A>> {
        let state = &mut *self.state();
        let flushed = state.flushed_by(changes);
        state.changed.clear();
        if let Some(prefix) = changes.first().and_then(RouteChange::prefix) {
            state.rib.prefetch_slot(prefix);
            state.fib.prepare(prefix);
            state.rib.prefetch(prefix);
        }
        for (index, change) in changes.iter().enumerate() {
            state.rib.prefetch_ahead(|count| changes.get(index + count).and_then(RouteChange::prefix));
            if let Err(error) = state.change(change) {
                state.take_back();
                state.next_hops.take_back();
                return Err(ApplyError { index, error });
            }
        }
        // Next hops before the routes to them: see `next_hops`.
        self.publish_numbers(state);
        self.follow(state);
        if let Some(counts) = self.counts() {
            let flushes = changes.iter().any(|change| matches!(change, RouteChange::Flush));
            counts.follow(&state.rib, &state.changed, flushes);
        }
        state.tell_routes(flushed.as_ref());
        // Not the next time: an undone flush would be a whole table.
        state.undo.clear();
        if changes.len() > KEPT {
            (state.changed, state.undo) = (Vec::new(), Vec::new());
        }
        Ok(())
    }

    /// See [`Fib::first_level`].
    #[inline]
    pub fn first_level(&self, reader: &Reader) -> Option<FirstLevel> {
        self.fib.read(reader).first_level(reader)
    }

    /// Looks up each of `addrs`; see [`Fib::lookup_batch`].
    #[inline]
    pub fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        self.fib.read(reader).lookup_batch(reader, addrs, hops);
        fence(Ordering::Acquire);
    }

    /// Looks up each of `addrs`; see [`Fib::lookup_beginnings`].
    #[inline]
    pub fn lookup_beginnings(
        &self,
        reader: &Reader,
        addrs: &Beginnings<'_, A>,
        hops: &mut [Option<NextHopId>],
    ) {
        self.fib.read(reader).lookup_beginnings(reader, addrs, hops);
        fence(Ordering::Acquire);
    }

    /// The next hop for one address.
    pub fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHop> {
        let hop = self.fib.read(reader).lookup(reader, addr)?;
        fence(Ordering::Acquire);
        self.next_hops(reader).get(hop.index()).copied()
    }

    /// The numbers of these next hops, new ones for those that no route has led to yet: for members of groups, and to
    /// have adjacencies ready before routes. They may be numbers that stood for something else before
    /// ([`free_numbers`](Self::free_numbers)): then [`numbers_given`](Self::numbers_given) is another one, and adjacencies
    /// are to be [told](crate::Adjacencies::renumber) before a route leads there.
    ///
    /// # Errors
    /// See [`TooManyNextHops`]; those before the one that failed have their numbers.
    pub fn numbers(&self, hops: &[NextHop]) -> Result<Vec<NextHopId>, TooManyNextHops> {
        let state = &mut *self.state();
        let numbers = hops.iter().map(|hop| state.next_hops.intern_anew(*hop)).collect();
        self.publish_numbers(state);
        numbers
    }

    /// How many numbers next hops have got so far. When it is another one, the list is.
    pub fn numbers_given(&self) -> u64 {
        self.state().given
    }

    /// A copy of the next hops by number, for a thread without a [`Reader`].
    pub fn next_hop_list(&self) -> Vec<NextHop> {
        self.next_hops.with(Vec::clone)
    }

    /// How many numbers next hops have: all are below.
    pub fn next_hop_count(&self) -> usize {
        self.next_hops.with(Vec::len)
    }

    /// The next hops by number. Read it *after* a lookup: then it has every number that the lookup gave. The
    /// list only grows, and a number keeps its meaning unless its next hop is [retired](Self::retire_unused).
    #[inline]
    pub fn next_hops<'c>(&'c self, reader: &'c Reader) -> &'c [NextHop] {
        self.next_hops.read(reader)
    }

    /// The route with the longest prefix that contains `addr`, from the RIB: for handlers, without a reader.
    pub fn find(&self, addr: A) -> Option<Route<A>> {
        let state = self.state();
        state.rib.lookup(addr).and_then(|(prefix, hop)| state.route(prefix, hop))
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<Route<A>> {
        let state = self.state();
        state.rib.get(prefix).and_then(|hop| state.route(prefix, hop))
    }

    /// The next hops that the routes of exactly these prefixes have: faster than one by one.
    pub fn next_hops_of(&self, prefixes: &[Prefix<A>]) -> Vec<Option<NextHop>> {
        let State { rib, next_hops, .. } = &*self.state();
        let next_hop = |(index, prefix): (usize, &Prefix<A>)| {
            rib.prefetch_ahead(|count| prefixes.get(index + count).copied());
            rib.get(*prefix).and_then(|hop| next_hops.get(hop))
        };
        prefixes.iter().enumerate().map(next_hop).collect()
    }

    /// All routes as they are now, in the order of their prefixes.
    pub fn routes(&self) -> Vec<Route<A>> {
        let state = self.state();
        state.rib.iter().filter_map(|(prefix, hop)| state.route(prefix, hop)).collect()
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.state().rib.len()
    }

    /// True when there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the lookup structure holds, and the RIB.
    pub fn memory(&self) -> Vec<MemoryPart> {
        let mut parts = {
            let state = self.state();
            let rib = MemoryPart { part: "rib", bytes: state.rib.memory_bytes() };
            let mut parts = state.fib.memory();
            parts.push(rib);
            parts
        };
        parts.extend(self.counts().map(RouteCounts::memory).into_iter().flatten());
        parts
    }

    /// Shows readers, and whoever watches, the next hops that have got numbers.
    fn publish_numbers(&self, state: &mut State<A>) {
        let new = state.next_hops.take_new();
        if !new.is_empty() {
            state.given += new.len() as u64;
            self.next_hops.replace(state.next_hops.as_slice().to_vec());
            state.tell(RouteEvent::NextHops(&new));
        }
    }

    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Address> State<A> {
    fn route(&self, prefix: Prefix<A>, hop: NextHopId) -> Option<Route<A>> {
        self.next_hops.get(hop).map(|next_hop| Route { prefix, next_hop })
    }

    /// Makes the change in the RIB; notes where, and what was there.
    fn change(&mut self, change: &RouteChange<A>) -> Result<(), ChangeError<A>> {
        let current = |prefix| self.rib.get(prefix).and_then(|hop| self.route(prefix, hop));
        let (prefix, undo) = match *change {
            RouteChange::Add(route) => {
                if let Some(old) = current(route.prefix) {
                    return Err(ChangeError::Exists(old));
                }
                let old = self.rib.insert(route.prefix, self.next_hops.intern(route.next_hop)?);
                (route.prefix, Undo::Route(route.prefix, old))
            }
            RouteChange::Set(route) => {
                let old = self.rib.insert(route.prefix, self.next_hops.intern(route.next_hop)?);
                (route.prefix, Undo::Route(route.prefix, old))
            }
            RouteChange::Remove(prefix, next_hop) => {
                if let Some(next_hop) = next_hop {
                    let old = current(prefix).ok_or(ChangeError::Missing(prefix))?;
                    if next_hop != old.next_hop {
                        return Err(ChangeError::Different(old));
                    }
                }
                let old = self.rib.remove(prefix).ok_or(ChangeError::Missing(prefix))?;
                (prefix, Undo::Route(prefix, Some(old)))
            }
            RouteChange::Flush => (Prefix::default(), Undo::All(std::mem::take(&mut self.rib))),
        };
        self.changed.push(prefix);
        self.undo.push(undo);
        Ok(())
    }

    /// Takes all changes of the transaction back.
    fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Route(prefix, Some(hop)) => {
                    self.rib.insert(prefix, hop);
                }
                Undo::Route(prefix, None) => {
                    self.rib.remove(prefix);
                }
                Undo::All(rib) => self.rib = rib,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Dir24_8, LinearTable, Poptrie, Prefix4, Radix, RangeTree};

    fn route(prefix: &str, port: u32) -> Route<u32> {
        Route { prefix: prefix.parse().unwrap(), next_hop: NextHop { gateway: None, port } }
    }

    fn tables() -> Vec<RouteTable<u32>> {
        vec![
            RouteTable::new(LinearTable::new()),
            RouteTable::new(Radix::new()),
            RouteTable::new(Dir24_8::new()),
            RouteTable::new(Poptrie::new()),
            RouteTable::new(RangeTree::new()),
        ]
    }

    #[test]
    fn a_transaction_is_made_whole_or_not_at_all() {
        let reader = Reader::new();
        for table in tables() {
            let port = |addr: &str| {
                table.lookup(&reader, addr.parse::<Prefix4>().unwrap().first()).map(|hop| hop.port)
            };
            table
                .apply(&[RouteChange::Add(route("10/8", 1)), RouteChange::Set(route("10.1/16", 2))])
                .unwrap();
            assert_eq!([port("10.1.0.1"), port("10.2.0.1"), port("11.0.0.1")], [Some(2), Some(1), None]);
            let bad = [
                RouteChange::Set(route("11/8", 7)),
                RouteChange::Remove(route("10.1/16", 0).prefix, None),
                RouteChange::Add(route("10/8", 3)),
            ];
            let error = table.apply(&bad).unwrap_err();
            assert_eq!((error.index, error.error), (2, ChangeError::Exists(route("10/8", 1))));
            assert_eq!(error.to_string(), "there is a route already: 10.0.0.0/8 1");
            assert_eq!([port("10.1.0.1"), port("11.0.0.1")], [Some(2), None]);
            assert_eq!(table.routes(), [route("10/8", 1), route("10.1/16", 2)]);
            assert_eq!(table.next_hops(&reader).len(), 2);
            assert_eq!(table.find(0x0A01_0203), Some(route("10.1/16", 2)));
            table.apply(&[RouteChange::Flush, RouteChange::Add(route("10/8", 9))]).unwrap();
            assert_eq!([port("10.1.0.1"), port("10.2.0.1")], [Some(9), Some(9)]);
            assert_eq!((table.len(), table.is_empty()), (1, false));
        }
    }

    fn changes() -> impl Strategy<Value = Vec<RouteChange<u32>>> {
        let prefix = (0..4u32, prop::sample::select(vec![0, 8, 15, 16, 17, 24, 32]))
            .prop_map(|(bits, len)| Prefix4::new(bits << 16 | bits << 8 | bits, len).unwrap());
        let change = (prefix, 0..5u32, 0..8u8).prop_map(|(prefix, port, kind)| {
            let next_hop = NextHop { gateway: None, port };
            match kind {
                0 => RouteChange::Flush,
                1 => RouteChange::Add(Route { prefix, next_hop }),
                2 => RouteChange::Remove(prefix, None),
                3 => RouteChange::Remove(prefix, Some(next_hop)),
                _ => RouteChange::Set(Route { prefix, next_hop }),
            }
        });
        prop::collection::vec(change, 0..12)
    }

    proptest! {
        #[test]
        fn a_failed_transaction_leaves_everything_as_it_was(
            transactions in prop::collection::vec(changes(), 1..6)
        ) {
            let table = RouteTable::new(Radix::new());
            let reader = Reader::new();
            for changes in &transactions {
                let state = || (table.routes(), table.next_hops(&reader).to_vec(), table.state().next_hops.as_slice().to_vec());
                let before = state();
                // One by one on a table of the same routes: where does it fail?
                let twin = RouteTable::new(Radix::new());
                twin.apply(&before.0.iter().map(|&route| RouteChange::Set(route)).collect::<Vec<_>>()).unwrap();
                let fails = changes.iter().position(|&change| twin.apply(&[change]).is_err());
                prop_assert_eq!(table.apply(changes).map_err(|e| e.index), fails.map_or(Ok(()), Err));
                if fails.is_some() {
                    prop_assert_eq!(state(), before);
                } else {
                    prop_assert_eq!(table.routes(), twin.routes());
                }
                for route in table.routes() {
                    prop_assert!(table.lookup(&reader, route.prefix.first()).is_some());
                }
                let prefixes: Vec<_> = changes.iter().filter_map(RouteChange::prefix).collect();
                let one_by_one = |prefix: &Prefix<u32>| table.get(*prefix).map(|route| route.next_hop);
                prop_assert_eq!(table.next_hops_of(&prefixes), prefixes.iter().map(one_by_one).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn members_of_groups_have_numbers_without_routes() {
        let (table, reader) = (RouteTable::new(LinearTable::new()), Reader::new());
        let hop = |port| NextHop { gateway: None, port };
        table.apply(&[RouteChange::Add(route("10/8", 1))]).unwrap();
        let numbers = table.numbers(&[hop(5), hop(1), hop(5)]).unwrap();
        assert_eq!(numbers.iter().map(|number| number.index()).collect::<Vec<_>>(), [1, 0, 1]);
        assert_eq!(table.next_hops(&reader), [hop(1), hop(5)]);
        // A transaction that fails takes only its own back.
        let bad = [RouteChange::Add(route("11/8", 6)), RouteChange::Add(route("10/8", 1))];
        assert!(table.apply(&bad).is_err());
        table.apply(&[RouteChange::Add(route("11/8", 5))]).unwrap();
        assert_eq!(table.next_hops(&reader), [hop(1), hop(5)]);
    }

    #[test]
    fn removing_checks_what_is_there() {
        let table = RouteTable::new(LinearTable::new());
        let only = route("10/8", 1);
        let (other, missing) = (NextHop { gateway: None, port: 2 }, route("11/8", 0).prefix);
        table.apply(&[RouteChange::Add(only)]).unwrap();
        let error = |change| table.apply(&[change]).unwrap_err().error;
        assert_eq!(error(RouteChange::Remove(only.prefix, Some(other))), ChangeError::Different(only));
        assert_eq!(error(RouteChange::Remove(missing, None)), ChangeError::Missing(missing));
        assert_eq!(table.get(only.prefix), Some(only));
        table.apply(&[RouteChange::Remove(only.prefix, Some(only.next_hop))]).unwrap();
        assert!(table.is_empty());
    }
}
