//! Which structure a table is looked up in: the one it was made with, one that somebody names, or the quickest.

use std::sync::Arc;

use super::{RouteTable, State};
use crate::RangeTree;
use crate::lookup::Fib;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::structure::{Cost, Measure, Structure, Structured, quickest};

/// A structure that is not for addresses of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is for IPv4 only")]
pub struct UnfitStructure(pub Structure);

/// For a table whose routes change all the time: how large it may be in a structure that is built anew for each change.
#[derive(Debug, Clone, Copy)]
pub struct RebuildLimit {
    /// With more routes than this it moves to a [`RangeTree`] with the next change.
    pub routes: usize,
    /// Is told which structure it has left.
    pub tell: fn(Structure),
}

/// Keeps a table in the structure that is the quickest for it.
pub(super) struct Quickest<A: Address> {
    measure: Measure<A>,
    clock: fn() -> u64,
    /// Routes at the last measurement.
    routes: usize,
    costs: Vec<Cost>,
    /// Routes have changed since somebody asked for the quickest: those that are built anew for that are out.
    changes: bool,
}

impl<A: Address> Quickest<A> {
    /// Tables of fewer routes are not measured again as they grow.
    const FEW: usize = 256;
    /// A table is measured again when it has so many times the routes, or so small a part of them.
    const OUTGROWN: usize = 4;

    fn measure(&mut self, rib: &Rib<A>) -> Option<Arc<dyn Fib<A>>> {
        let (fib, costs) = (self.measure)(rib, self.changes, self.clock)?;
        (self.routes, self.costs) = (rib.len(), costs);
        Some(fib)
    }

    /// Notes that routes have changed; true if that may make another structure the quickest.
    fn is_due(&mut self, now: Option<Structure>, routes: usize) -> bool {
        let first = !std::mem::replace(&mut self.changes, true);
        let (then, now_in_place) = (self.routes.max(Self::FEW), now.is_none_or(Structure::changes_in_place));
        (first && !now_in_place)
            || routes >= then.saturating_mul(Self::OUTGROWN)
            || routes.max(Self::FEW) <= then / Self::OUTGROWN
    }
}

impl<A: Address> RouteTable<A> {
    /// What it is looked up in; `None` if in nothing.
    pub fn structure(&self) -> Option<Structure> {
        self.state().fib.structure()
    }

    /// What the structures cost that were measured last, if the quickest is what is [wanted](Self::use_quickest).
    pub fn costs(&self) -> Option<Vec<Cost>> {
        self.state().quickest.as_ref().map(|quickest| quickest.costs.clone())
    }

    /// Has lookups find what the RIB has now, after changes that are noted.
    pub(super) fn follow(&self, state: &mut State<A>) {
        if state.left {
            state.left = self.fib.collect() > 0;
        }
        let State { fib, rib, changed, quickest, .. } = &mut *state;
        let mut due = quickest.as_mut().filter(|_| !changed.is_empty());
        let due = due.take_if(|quickest| quickest.is_due(fib.structure(), rib.len()));
        let other = due.and_then(|quickest| quickest.measure(rib));
        let structure = fib.structure().filter(|_| !changed.is_empty());
        let other = other.or_else(|| self.leave_rebuilt(structure?, rib));
        match other {
            Some(other) => self.publish(state, other),
            None => fib.update(rib, changed),
        }
    }

    /// Keeps the table from falling behind the changes of its routes. The first call decides.
    pub fn limit_rebuilds(&self, limit: RebuildLimit) {
        let _ = self.rebuild_limit.set(limit);
    }

    /// What the table moves to if it has too many routes for a structure that is built anew for each change.
    fn leave_rebuilt(&self, structure: Structure, rib: &Rib<A>) -> Option<Arc<dyn Fib<A>>> {
        let limit = self.rebuild_limit.get()?;
        if structure.changes_in_place() || rib.len() <= limit.routes {
            return None;
        }
        let fib = Arc::new(RangeTree::new());
        fib.update(rib, &[Prefix::default()]);
        (limit.tell)(structure);
        Some(fib)
    }

    /// From now on lookups use this structure, which has what the RIB has.
    fn publish(&self, state: &mut State<A>, fib: Arc<dyn Fib<A>>) {
        state.fib = fib.clone();
        self.fib.replace(fib);
        state.left = self.fib.collect() > 0;
    }
}

impl<A: Structured> RouteTable<A> {
    /// Looks up in this structure from now on. It is built beside the old one, which readers use until it is there.
    ///
    /// # Errors
    /// If it is for another family.
    pub fn use_structure(&self, structure: Structure) -> Result<(), UnfitStructure> {
        let state = &mut *self.state();
        let fib = A::fib(structure).ok_or(UnfitStructure(structure))?;
        fib.update(&state.rib, &[Prefix::default()]);
        state.quickest = None;
        self.publish(state, fib);
        Ok(())
    }

    /// Looks up in the structure that is the quickest for its routes on this machine, by a clock of any unit: builds
    /// all, looks up the same addresses in each, and takes the first whose lookups cost least. That takes some tenths
    /// of a second for a full table, in which no other change is made; readers go on.
    ///
    /// A table that has four times or a quarter of the routes later is measured again. One that changes at all leaves a
    /// structure that is built anew for each change.
    pub fn use_quickest(&self, clock: fn() -> u64) {
        let state = &mut *self.state();
        let mut new =
            Quickest { measure: quickest::<A>, clock, routes: 0, costs: Vec::new(), changes: false };
        let fib = new.measure(&state.rib);
        state.quickest = Some(new);
        if let Some(fib) = fib {
            self.publish(state, fib);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use epoch::Reader;

    use super::*;
    use crate::{Dir24_8, NextHop, Prefix4, RangeTree, Route, RouteChange, RouteTable};

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
        static READINGS: Cell<u64> = const { Cell::new(0) };
        static COSTS: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
    }

    /// What is built and then looked up in takes its turn's ticks: of three structures, or of two where `COSTS` ends with 0.
    fn clock() -> u64 {
        let costs = COSTS.get();
        let contestants = if costs[2] == 0 { 2 } else { 3 };
        let reading = READINGS.replace(READINGS.get() + 1);
        if reading % 2 == 1 {
            NOW.set(NOW.get() + costs[(reading as usize / 2) % contestants]);
        }
        NOW.get()
    }

    fn costs(costs: [u64; 3]) {
        COSTS.set(costs);
        READINGS.set(0);
    }

    fn set(prefix: &str, port: u32) -> RouteChange<u32> {
        RouteChange::Set(Route { prefix: prefix.parse().unwrap(), next_hop: NextHop { gateway: None, port } })
    }

    fn port(table: &RouteTable<u32>, addr: &str) -> Option<u32> {
        let addr = addr.parse::<Prefix4>().unwrap().first();
        table.lookup(&Reader::new(), addr).map(|hop| hop.port)
    }

    #[test]
    fn the_quickest_is_used_until_a_change_would_build_it_anew() {
        let table = RouteTable::new(Dir24_8::new());
        table.apply(&[set("10.0.0.0/8", 1), set("10.1.0.0/16", 2)]).unwrap();
        assert_eq!((table.structure(), table.costs()), (Some(Structure::Dir24_8), None));
        costs([500, 400, 300]);
        table.use_quickest(clock);
        assert_eq!(table.structure(), Some(Structure::Poptrie));
        let found: Vec<_> = table.costs().unwrap().iter().map(|cost| cost.structure).collect();
        assert_eq!(found, [Structure::Dir24_8, Structure::RangeTree, Structure::Poptrie]);
        assert_eq!([port(&table, "10.1.0.1"), port(&table, "10.2.0.1")], [Some(2), Some(1)]);
        // A transaction without changes is none.
        table.apply(&[]).unwrap();
        assert_eq!(table.structure(), Some(Structure::Poptrie));
        costs([500, 400, 0]);
        table.apply(&[set("11.0.0.0/8", 3)]).unwrap();
        assert_eq!((table.structure(), port(&table, "11.0.0.1")), (Some(Structure::RangeTree), Some(3)));
        // No further measurement at this size.
        costs([1, 400, 0]);
        table.apply(&[set("12.0.0.0/8", 4)]).unwrap();
        assert_eq!((table.structure(), port(&table, "12.0.0.1")), (Some(Structure::RangeTree), Some(4)));
    }

    #[test]
    fn a_table_that_has_outgrown_its_measurement_is_measured_again() {
        let table = RouteTable::new(RangeTree::new());
        let routes = |from: u32, to: u32| -> Vec<RouteChange<u32>> {
            (from..to)
                .map(|n| set(&format!("{}.{}.{}.0/24", n >> 16, n >> 8 & 255, n & 255), n % 7))
                .collect()
        };
        table.apply(&routes(0, 10)).unwrap();
        costs([500, 400, 600]);
        table.use_quickest(clock);
        costs([300, 400, 0]);
        table.apply(&routes(10, 1000)).unwrap();
        assert_eq!(table.structure(), Some(Structure::RangeTree));
        table.apply(&routes(1000, 1024)).unwrap();
        assert_eq!(table.structure(), Some(Structure::Dir24_8));
        assert_eq!((port(&table, "0.3.232.9"), port(&table, "0.4.0.9")), (Some(1000 % 7), None));
        costs([500, 400, 0]);
        table.apply(&[RouteChange::Flush]).unwrap();
        assert_eq!((table.structure(), port(&table, "0.3.232.9")), (Some(Structure::RangeTree), None));
    }

    #[test]
    fn a_large_table_leaves_what_is_built_anew_for_each_change() {
        thread_local! {
            static LEFT: Cell<Option<Structure>> = const { Cell::new(None) };
        }
        let reader = Reader::new();
        for structure in [Structure::Poptrie, Structure::Linear, Structure::Radix] {
            let table = RouteTable::<u32>::new(Dir24_8::new());
            table.limit_rebuilds(RebuildLimit { routes: 2, tell: |left| LEFT.set(Some(left)) });
            table.use_structure(structure).unwrap();
            table.apply(&[set("10.0.0.0/8", 1), set("11.0.0.0/8", 2)]).unwrap();
            assert_eq!((table.structure(), LEFT.take()), (Some(structure), None));
            table.apply(&[set("11.1.0.0/16", 3)]).unwrap();
            let stays = structure.changes_in_place();
            let want = if stays { structure } else { Structure::RangeTree };
            assert_eq!((table.structure(), LEFT.take()), (Some(want), (!stays).then_some(structure)));
            let port = |addr: [u8; 4]| table.lookup(&reader, u32::from_be_bytes(addr)).map(|hop| hop.port);
            assert_eq!(
                [port([10, 0, 0, 1]), port([11, 1, 0, 1]), port([12, 0, 0, 1])],
                [Some(1), Some(3), None]
            );
        }
    }

    #[test]
    fn a_structure_by_name_stays() {
        let table = RouteTable::new(Dir24_8::new());
        table.apply(&[set("10.0.0.0/8", 1)]).unwrap();
        costs([500, 400, 600]);
        table.use_quickest(clock);
        for structure in [Structure::Poptrie, Structure::Linear, Structure::Radix, Structure::Dir24_8] {
            table.use_structure(structure).unwrap();
            table.apply(&[set("10.1.0.0/16", 2), set("10.2.0.0/16", 3)]).unwrap();
            assert_eq!((table.structure(), table.costs()), (Some(structure), None));
            let ports = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "11.0.0.1"].map(|addr| port(&table, addr));
            assert_eq!(ports, [Some(2), Some(3), Some(1), None], "{structure}");
            table.apply(&[RouteChange::Remove("10.2.0.0/16".parse().unwrap(), None)]).unwrap();
            assert_eq!(port(&table, "10.2.0.1"), Some(1), "{structure}");
        }
        let v6 = RouteTable::<u128>::new(RangeTree::new());
        let unfit = v6.use_structure(Structure::Dir24_8).unwrap_err();
        assert_eq!(unfit.to_string(), "dir24_8 is for IPv4 only");
        assert_eq!(v6.structure(), Some(Structure::RangeTree));
    }
}
