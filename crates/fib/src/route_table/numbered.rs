//! A table as another one has it: what changed there, and the same change here, with the same numbers of next hops.

use super::{RouteChange, RouteTable, State};
use crate::next_hop::{NextHop, NextHopId, TooManyNextHops};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// What has changed in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteEvent<'a, A: Address> {
    /// Numbers were given to next hops: before routes lead to them.
    NextHops(&'a [(NextHopId, NextHop)]),
    /// Prefixes have routes to these next hops now, or none.
    Routes(&'a [(Prefix<A>, Option<NextHopId>)]),
}

/// Is told of all changes, in their order, while no other can be made: it must not ask the table.
pub type RouteWatch<A> = Box<dyn Fn(RouteEvent<'_, A>) + Send + Sync>;

/// A table at one moment.
pub struct RouteSnapshot<A: Address, N> {
    /// The routes. It shares what has not changed since with the table.
    pub rib: Rib<A>,
    /// The next hops by number.
    pub next_hops: Vec<NextHop>,
    /// What was asked for about this moment.
    pub note: N,
}

/// A route leads to a number that no next hop has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no next hop {0:?}")]
pub struct UnknownNumber(pub NextHopId);

impl<A: Address> RouteTable<A> {
    /// Has `watch` told of all changes from now on, in place of whoever was told before.
    pub fn watch(&self, watch: Option<RouteWatch<A>>) {
        self.state().watch = watch;
    }

    /// The table as it is now, in constant time but for the next hops. `note` is called at this moment, between two
    /// changes.
    pub fn snapshot<N>(&self, note: impl FnOnce() -> N) -> RouteSnapshot<A, N> {
        let state = self.state();
        RouteSnapshot { rib: state.rib.clone(), next_hops: state.next_hops.as_slice().to_vec(), note: note() }
    }

    /// Gives numbers to next hops as another table has given them. A number may have stood for something else: then no
    /// route may lead to it, and adjacencies are to be told
    /// ([`Adjacencies::renumber`](crate::Adjacencies::renumber)) before one does.
    ///
    /// # Errors
    /// If a number was left out, or there are too many; those before it are made.
    pub fn set_next_hops(&self, hops: &[(NextHopId, NextHop)]) -> Result<(), TooManyNextHops> {
        let state = &mut *self.state();
        let result = hops.iter().try_for_each(|(id, hop)| state.next_hops.set(*id, *hop));
        self.publish_numbers(state);
        result
    }

    /// Makes prefixes have routes to these next hops, or none, whatever they have now.
    ///
    /// # Errors
    /// If there is no next hop of a number; nothing is changed then.
    pub fn set_routes(&self, routes: &[(Prefix<A>, Option<NextHopId>)]) -> Result<(), UnknownNumber> {
        let state = &mut *self.state();
        let known = state.next_hops.as_slice().len();
        if let Some(hop) = routes.iter().filter_map(|(_, hop)| *hop).find(|hop| hop.index() >= known) {
            return Err(UnknownNumber(hop));
        }
        state.changed.clear();
        for (prefix, hop) in routes {
            let old = match hop {
                Some(hop) => state.rib.insert(*prefix, *hop),
                None => state.rib.remove(*prefix),
            };
            if old != *hop {
                state.changed.push(*prefix);
            }
        }
        if !state.changed.is_empty() {
            self.follow(state);
            if let Some(counts) = self.counts() {
                counts.follow(&state.rib, &state.changed, false);
            }
            state.tell_routes(None);
        }
        Ok(())
    }

    /// Retires the next hops that no route leads to and that are not among `used`, if they are at least `least`: they
    /// get other numbers when they come again. Returns the numbers. They stand for what they did until they are
    /// [freed](Self::free_numbers) and given again. Looks at all routes.
    pub fn retire_unused(&self, used: &[NextHopId], retired: &[NextHopId], least: usize) -> Vec<NextHopId> {
        let state = &mut *self.state();
        let mut in_use = vec![false; state.next_hops.as_slice().len()];
        let routes = state.rib.iter().map(|(_, hop)| hop);
        for hop in routes.chain(used.iter().copied()).chain(retired.iter().copied()) {
            if let Some(mark) = in_use.get_mut(hop.index()) {
                *mark = true;
            }
        }
        for hop in state.next_hops.free_numbers() {
            if let Some(mark) = in_use.get_mut(hop.index()) {
                *mark = true;
            }
        }
        let unused: Vec<_> = (0..)
            .zip(&in_use)
            .filter(|(_, in_use)| !**in_use)
            .filter_map(|(index, _)| NextHopId::new(index))
            .collect();
        if unused.len() < least {
            return Vec::new();
        }
        state.next_hops.retire(&unused);
        unused
    }

    /// Lets numbers of retired next hops be given to others, by [`numbers`](Self::numbers) only. No reader, and nothing that a reader has left behind, may
    /// hold one of them.
    pub fn free_numbers(&self, retired: &[NextHopId]) {
        self.state().next_hops.free(retired);
    }
}

impl<A: Address> State<A> {
    /// The routes as they are, if someone wants to know what a flush among `changes` removes.
    pub(super) fn flushed_by(&self, changes: &[RouteChange<A>]) -> Option<Rib<A>> {
        let flushes = || changes.iter().any(|change| matches!(change, RouteChange::Flush));
        (self.watch.is_some() && flushes()).then(|| self.rib.clone())
    }

    pub(super) fn tell(&self, event: RouteEvent<'_, A>) {
        if let Some(watch) = &self.watch {
            watch(event);
        }
    }

    /// Tells of the routes that the transaction has changed; `before` is what there was if all were flushed.
    pub(super) fn tell_routes(&self, before: Option<&Rib<A>>) {
        if self.watch.is_none() {
            return;
        }
        let routes: Vec<_> = match before {
            None => self.changed.iter().map(|prefix| (*prefix, self.rib.get(*prefix))).collect(),
            Some(before) => {
                let gone = before.iter().filter(|(prefix, _)| self.rib.get(*prefix).is_none());
                let new = self.rib.iter().filter(|(prefix, hop)| before.get(*prefix) != Some(*hop));
                gone.map(|(prefix, _)| (prefix, None)).chain(new.map(|(p, hop)| (p, Some(hop)))).collect()
            }
        };
        self.tell(RouteEvent::Routes(&routes));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use epoch::Reader;
    use proptest::prelude::*;

    use super::*;
    use crate::{Dir24_8, Prefix4, Radix, Route};

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: None, port }
    }

    fn id(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    /// A change that its index in a small world decides.
    fn change(index: u32) -> RouteChange<u32> {
        let prefix = Prefix4::new((index % 7) << 28, [2, 4, 9][(index / 7 % 3) as usize]).unwrap();
        match index / 21 % 9 {
            0 if index.is_multiple_of(5) => RouteChange::Flush,
            0..3 => RouteChange::Remove(prefix, None),
            kind => RouteChange::Set(Route { prefix, next_hop: hop(kind) }),
        }
    }

    proptest! {
        #[test]
        fn a_table_that_is_told_of_changes_becomes_the_same(
            transactions in prop::collection::vec(prop::collection::vec(0..9 * 21 * 5u32, 0..6), 1..12)
        ) {
            let (table, twin) = (RouteTable::new(Dir24_8::new()), Arc::new(RouteTable::new(Radix::new())));
            let follower = twin.clone();
            table.watch(Some(Box::new(move |event| match event {
                RouteEvent::NextHops(hops) => follower.set_next_hops(hops).unwrap(),
                RouteEvent::Routes(routes) => follower.set_routes(routes).unwrap(),
            })));
            let mut retired = Vec::new();
            for (index, transaction) in transactions.iter().enumerate() {
                table.numbers(&[hop(10 + index as u32)]).unwrap();
                // Those that fail change nothing, and nothing is told of them.
                let _ = table.apply(&transaction.iter().map(|index| change(*index)).collect::<Vec<_>>());
                prop_assert_eq!(table.routes(), twin.routes());
                prop_assert_eq!(table.next_hop_list(), twin.next_hop_list());
                if index % 2 == 0 {
                    table.free_numbers(&std::mem::take(&mut retired));
                    retired = table.retire_unused(&[], &[], 1);
                }
            }
            // A snapshot says the same.
            let snapshot = table.snapshot(|| 7);
            prop_assert_eq!((snapshot.note, snapshot.rib.len()), (7, table.len()));
            prop_assert_eq!(snapshot.next_hops, twin.next_hop_list());
        }
    }

    #[test]
    fn a_flush_tells_only_what_it_changes() {
        let table = RouteTable::new(Radix::new());
        let route =
            |text: &str, port| Route { prefix: text.parse::<Prefix4>().unwrap(), next_hop: hop(port) };
        let set = |text, port| RouteChange::Set(route(text, port));
        table.apply(&[set("10/8", 1), set("11/8", 1), set("12/8", 1)]).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let note = told.clone();
        table.watch(Some(Box::new(move |event| {
            if let RouteEvent::Routes(routes) = event {
                note.lock().unwrap().extend_from_slice(routes);
            }
        })));
        table.apply(&[RouteChange::Flush, set("10/8", 1), set("11/8", 2)]).unwrap();
        let expected = [("12/8", None), ("11/8", Some(id(1)))].map(|(p, hop)| (p.parse().unwrap(), hop));
        assert_eq!(*told.lock().unwrap(), expected);
        table.watch(None);
        table.apply(&[RouteChange::Flush]).unwrap();
        assert_eq!(told.lock().unwrap().len(), 2);
    }

    #[test]
    fn only_known_numbers_are_led_to() {
        let (table, reader) = (RouteTable::new(Radix::new()), Reader::new());
        assert_eq!(table.set_next_hops(&[(id(0), hop(5)), (id(2), hop(6))]), Err(TooManyNextHops));
        let prefix: Prefix4 = "10/8".parse().unwrap();
        assert_eq!(
            table.set_routes(&[(prefix, Some(id(0))), (prefix, Some(id(1)))]),
            Err(UnknownNumber(id(1)))
        );
        assert!(table.is_empty());
        table.set_routes(&[(prefix, Some(id(0)))]).unwrap();
        assert_eq!(table.lookup(&reader, prefix.first()), Some(hop(5)));
        table.set_routes(&[(prefix, None), (prefix, None)]).unwrap();
        assert!(table.is_empty());
    }

    #[test]
    fn what_is_in_use_is_not_retired() {
        let table = RouteTable::new(Radix::new());
        let numbers = table.numbers(&[hop(0), hop(1), hop(2), hop(3)]).unwrap();
        table.set_routes(&[("10/8".parse::<Prefix4>().unwrap(), Some(numbers[1]))]).unwrap();
        assert_eq!(table.retire_unused(&[numbers[2]], &[], 3), []);
        assert_eq!(table.retire_unused(&[numbers[2]], &[numbers[0]], 1), [numbers[3]]);
        table.free_numbers(&[numbers[3]]);
        // Neither are those that are free already.
        assert_eq!(table.retire_unused(&[numbers[2]], &[], 1), [numbers[0]]);
        assert_eq!(table.numbers(&[hop(9), hop(1), hop(0)]).unwrap(), [numbers[3], numbers[1], id(4)]);
    }
}
