//! The nodes that there are, and the rates of their links, which may change while the others run.

use super::rates::Rates;
use super::switch::Switch;
use cluster::liveness::{Event, Liveness};
use graph::{Nanos, Out};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What handlers and the worker share.
#[derive(Debug)]
pub struct Members {
    now: Mutex<(Vec<u16>, Rates)>,
    /// Counts changes.
    version: AtomicU64,
}

impl Members {
    /// Those that there are at first, and the links that have other rates than the usual one.
    pub fn new(nodes: &[u16], rates: &Rates) -> Members {
        Members { now: Mutex::new((nodes.to_vec(), rates.clone())), version: AtomicU64::new(0) }
    }

    /// From now on there are these.
    pub fn set(&self, nodes: Vec<u16>) {
        self.change(|(there, _)| *there = nodes);
    }

    /// From now on these links have other rates than the usual one.
    pub fn set_rates(&self, rates: Rates) {
        self.change(|(_, there)| *there = rates);
    }

    fn change(&self, change: impl FnOnce(&mut (Vec<u16>, Rates))) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Their numbers, and the links of other rates.
    pub fn get(&self) -> (Vec<u16>, Rates) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Their numbers, as a text.
    pub fn text(&self) -> String {
        self.get().0.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl Switch {
    /// Takes in which nodes there are, if that has changed.
    pub(super) fn look_after_members(&mut self, now: Nanos, out: &mut Out<'_>) {
        let version = self.shared.members.version.load(Ordering::Acquire);
        if version == self.members_version {
            return;
        }
        self.members_version = version;
        let shared = self.shared.clone();
        (self.members, self.rates) = shared.members.get();
        self.set_members(now, out);
    }

    /// Links to other nodes carry nothing any more, as if they were down; those that are left have the rates that so many
    /// nodes need.
    fn set_members(&mut self, now: Nanos, out: &mut Out<'_>) {
        self.set_rates(self.members.len());
        for place in 0..self.neighbours.len() {
            let neighbour = &mut self.neighbours[place];
            neighbour.is_member = self.members.contains(&neighbour.node);
            if neighbour.is_member {
                continue;
            }
            let was_up = neighbour.is_up();
            neighbour.liveness = Liveness::new(self.settings.hello);
            if was_up {
                self.happened(place, Event::Down, now, out);
            }
            let neighbour = &mut self.neighbours[place];
            (neighbour.hellos, neighbour.downs, neighbour.drains) = (0, 0, false);
        }
        self.learn(now, out);
    }
}
