//! Numbers of next hops that nothing uses any more, for others to use.
//!
//! The numbers stand in the headers of packets between nodes, in 20 bits. One that is out of use here is *retired*: nobody
//! gets it any more. When all nodes have come so far in the log that it is out of use there too, and some time has passed
//! for packets that are under way, it is *free*.

use super::log::Log;
use fib::{Adjacencies, InVrf, InterfaceMap, NextHopId, RouteTable, Vrf};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// So many numbers are given before it is looked for some that are out of use, which means to look at all routes.
const MANY: u64 = 4096;
/// The longest that a packet may be under way with a number.
const ON_THE_WAY: Duration = Duration::from_secs(3);

/// The numbers of both families. To be driven by the thread that changes the tables.
pub struct Reclaim {
    log: Arc<Log>,
    halves: [Half; 2],
    many: u64,
}

/// Of one family.
#[derive(Default)]
struct Half {
    /// Numbers that had been given at the last look.
    given: u64,
    waiting: VecDeque<Retired>,
}

/// Numbers that were retired together.
struct Retired {
    numbers: Vec<NextHopId>,
    /// Nodes that have come so far do not use them.
    position: u64,
    /// When all had.
    settled: Option<Duration>,
}

impl Reclaim {
    /// For the tables of this log.
    pub fn new(log: &Arc<Log>) -> Reclaim {
        Reclaim::after(log, MANY)
    }

    /// As [`new`](Self::new), but looks as soon as so many numbers were given.
    pub fn after(log: &Arc<Log>, many: u64) -> Reclaim {
        Reclaim { log: log.clone(), halves: Default::default(), many }
    }

    /// The log that it goes by.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Retires and frees what can be.
    pub fn step(&mut self, now: Duration) {
        let log = &self.log;
        let tables = log.tables();
        let [four, six] = &mut self.halves;
        four.step(&tables.routes4, &tables.adjacencies4, log, self.many, now);
        six.step(&tables.routes6, &tables.adjacencies6, log, self.many, now);
    }
}

impl Half {
    fn step<A: InVrf>(
        &mut self,
        table: &RouteTable<A>,
        adjacencies: &Adjacencies,
        log: &Log,
        many: u64,
        now: Duration,
    ) {
        let given = table.numbers_given();
        if given.saturating_sub(self.given) >= many {
            self.given = given;
            let groups = adjacencies.known_groups();
            let members = groups.iter().flat_map(|(_, group)| group.members());
            let mut used: Vec<NextHopId> = members.map(|member| member.hop).collect();
            let vrfs = log.tables().interfaces.as_ref().map(|all| all.with(InterfaceMap::vrfs));
            used.extend(vrfs.iter().flatten().flat_map(|vrf| Vrf::numbers_in_use::<A>(vrf)));
            let waiting: Vec<NextHopId> = self.waiting.iter().flat_map(|one| &one.numbers).copied().collect();
            let numbers = table.retire_unused(&used, &waiting, many as usize / 4);
            if !numbers.is_empty() {
                self.waiting.push_back(Retired { numbers, position: log.ring().position(), settled: None });
            }
        }
        if self.waiting.is_empty() {
            return;
        }
        let settled = log.settled();
        for one in &mut self.waiting {
            if one.settled.is_none() && settled >= one.position {
                one.settled = Some(now);
            }
        }
        let is_over =
            |one: &mut Retired| one.settled.is_some_and(|since| now.saturating_sub(since) >= ON_THE_WAY);
        while let Some(one) = self.waiting.pop_front_if(is_over) {
            table.free_numbers(&one.numbers);
        }
    }
}
