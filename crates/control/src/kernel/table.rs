//! Routes by table and prefix.

use super::Generation;
use super::list::{Entry, List};
use super::prefixes::Prefixes;
use crate::netlink::{Action, Route};
use fib::{Address, Family, Prefix};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Entries are looked through for unused ones when there are so many, and twice as many as last time were used.
const FEW: usize = 1024;

/// The routes of one family, of all tables, and which prefixes have changed since somebody last asked.
///
/// The kernel dumps routes in the order of their prefixes, and so do these trees keep them: what a dump names next lies
/// beside what it named last, where a hash would miss the cache for each. Nor can anybody announce prefixes that make a
/// tree slow, as those are that meet in one place of a hash.
#[derive(Clone, Debug, Default)]
pub struct Routes<A: Address> {
    tables: BTreeMap<u32, Prefixes<A, List>>,
    generation: Generation,
    /// A prefix is in it as often as it has changed.
    changed: Vec<(u32, Prefix<A>)>,
    entries: Entries,
}

/// Each distinct entry once: a million routes have a few dozen.
#[derive(Clone, Debug, Default)]
struct Entries {
    all: HashSet<Arc<Entry>, RandomState>,
    last: Option<Arc<Entry>>,
    used: usize,
}

impl Entries {
    /// The shared one like this.
    fn share(&mut self, new: Entry) -> Arc<Entry> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == new) {
            return last.clone();
        }
        let shared = match self.all.get(&new) {
            Some(shared) => shared.clone(),
            None => self.add(new),
        };
        self.last = Some(shared.clone());
        shared
    }

    fn add(&mut self, new: Entry) -> Arc<Entry> {
        if self.all.len() >= FEW.max(2 * self.used) {
            self.last = None;
            self.all.retain(|entry| Arc::strong_count(entry) > 1);
            self.used = self.all.len();
        }
        let shared = Arc::new(new);
        self.all.insert(shared.clone());
        shared
    }
}

impl<A: Address> Routes<A> {
    /// Takes what a message says. `dumped`: the message is part of a dump.
    pub fn apply(&mut self, action: Action, route: Route<A>, dumped: bool) {
        let (id, prefix, now) = (route.table, route.prefix, self.generation);
        let new = Entry::of(route);
        let table = self.tables.entry(id).or_default();
        if action == Action::Remove {
            let remove = |list: &mut List| {
                list.remove(&new, A::FAMILY == Family::Ipv6);
                list.is_empty()
            };
            if !table.reduce(prefix, remove) {
                return;
            }
        } else {
            let list = table.get_or_default(prefix);
            if list.hears(&new, now) {
                return;
            }
            let new = self.entries.share(new);
            match dumped {
                true => list.confirm(new, now),
                false => list.apply(action, new, now, A::FAMILY == Family::Ipv6),
            }
        }
        self.changed.push((id, prefix));
    }

    /// Takes what FRR has chosen for a prefix: there is at most one route of each.
    pub fn set(&mut self, action: Action, route: Route<A>) {
        let (id, prefix) = (route.table, route.prefix);
        let table = self.tables.entry(id).or_default();
        if action == Action::Remove {
            let unset = |list: &mut List| {
                list.unset(route.extras.selector);
                list.is_empty()
            };
            if !table.reduce(prefix, unset) {
                return;
            }
        } else {
            let (list, new) = (table.get_or_default(prefix), Entry::of(route));
            if list.hears(&new, self.generation) {
                return;
            }
            list.set(self.entries.share(new), self.generation);
        }
        self.changed.push((id, prefix));
    }

    /// A dump begins: what is not named until [`sweep`](Self::sweep) will be gone.
    pub fn mark(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The dump has ended. Returns how many prefixes have lost routes.
    pub fn sweep(&mut self) -> usize {
        let Routes { tables, generation, changed, entries: _ } = self;
        let mut swept = 0;
        for (&id, table) in &mut *tables {
            table.retain(|prefix, list| {
                if list.sweep(*generation) {
                    swept += 1;
                    changed.push((id, *prefix));
                }
                !list.is_empty()
            });
        }
        tables.retain(|_, table| !table.is_empty());
        swept
    }

    /// The routes of a prefix in a table, the one that wins first.
    pub fn get(&self, table: u32, prefix: Prefix<A>) -> impl Iterator<Item = &Entry> {
        self.tables.get(&table).and_then(|t| t.get(prefix)).into_iter().flat_map(List::iter)
    }

    /// The longest prefix in a table that contains `addr`.
    pub fn lookup(&self, table: u32, addr: A) -> Option<(Prefix<A>, &Entry)> {
        let table = self.tables.get(&table)?;
        (0..=A::BITS as u8).rev().find_map(|len| {
            let prefix = Prefix::new(addr, len)?;
            Some((prefix, table.get(prefix)?.iter().next()?))
        })
    }

    /// All prefixes of a table with their routes, in the order of prefixes.
    pub fn table(&self, table: u32) -> impl Iterator<Item = (Prefix<A>, &List)> {
        self.tables.get(&table).into_iter().flat_map(Prefixes::iter)
    }

    /// Numbers of the tables that have routes, in order.
    pub fn tables(&self) -> Vec<u32> {
        self.tables.iter().filter(|(_, table)| !table.is_empty()).map(|(id, _)| *id).collect()
    }

    /// Which prefixes of which tables have changed since this was last called, each at least once.
    pub fn take_changed(&mut self) -> Vec<(u32, Prefix<A>)> {
        std::mem::take(&mut self.changed)
    }
}

/// What is there, whatever happened before.
impl<A: Address> PartialEq for Routes<A> {
    fn eq(&self, other: &Routes<A>) -> bool {
        let same = |id: &u32| {
            let of = |routes: &Routes<A>| -> HashMap<Prefix<A>, Vec<Entry>> {
                routes.table(*id).map(|(prefix, list)| (prefix, list.iter().cloned().collect())).collect()
            };
            of(self) == of(other)
        };
        self.tables() == other.tables() && self.tables().iter().all(same)
    }
}
