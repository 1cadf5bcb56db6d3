//! Routes by table and prefix.

use super::Generation;
use super::list::{Entry, List};
use crate::netlink::{Action, Route};
use fib::{Address, Prefix};
use std::collections::{HashMap, HashSet};

/// The routes of one family, of all tables, and which prefixes have changed since somebody last asked.
#[derive(Clone, Debug, Default)]
pub struct Routes<A: Address> {
    tables: HashMap<u32, HashMap<Prefix<A>, List>>,
    generation: Generation,
    changed: HashSet<(u32, Prefix<A>)>,
}

impl<A: Address> Routes<A> {
    /// Takes what a message says. `dumped`: the message is part of a dump.
    pub fn apply(&mut self, action: Action, route: Route<A>, dumped: bool) {
        let (id, prefix) = (route.table, route.prefix);
        let table = self.tables.entry(id).or_default();
        let list = table.entry(prefix).or_default();
        let news = if dumped && action != Action::Remove {
            list.confirm(route, self.generation)
        } else {
            list.apply(action, route, self.generation)
        };
        if news {
            self.changed.insert((id, prefix));
        }
        if list.is_empty() {
            table.remove(&prefix);
        }
    }

    /// Takes what FRR has chosen for a prefix: there is at most one route of each.
    pub fn set(&mut self, action: Action, route: Route<A>) {
        let (id, prefix) = (route.table, route.prefix);
        let table = self.tables.entry(id).or_default();
        let news = match action {
            Action::Remove => table.remove(&prefix).is_some(),
            _ => table.entry(prefix).or_default().set(route, self.generation),
        };
        if news {
            self.changed.insert((id, prefix));
        }
    }

    /// A dump begins: what is not named until [`sweep`](Self::sweep) will be gone.
    pub fn mark(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The dump has ended. Returns how many prefixes have lost routes.
    pub fn sweep(&mut self) -> usize {
        let Routes { tables, generation, changed } = self;
        let mut swept = 0;
        for (&id, table) in &mut *tables {
            table.retain(|&prefix, list| {
                if list.sweep(*generation) {
                    swept += 1;
                    changed.insert((id, prefix));
                }
                !list.is_empty()
            });
        }
        tables.retain(|_, table| !table.is_empty());
        swept
    }

    /// The routes of a prefix in a table, the one that wins first.
    pub fn get(&self, table: u32, prefix: Prefix<A>) -> impl Iterator<Item = &Entry> {
        self.tables.get(&table).and_then(|t| t.get(&prefix)).into_iter().flat_map(List::iter)
    }

    /// The longest prefix in a table that contains `addr`.
    pub fn lookup(&self, table: u32, addr: A) -> Option<(Prefix<A>, &Entry)> {
        let table = self.tables.get(&table)?;
        (0..=A::BITS as u8).rev().find_map(|len| {
            let prefix = Prefix::new(addr, len)?;
            Some((prefix, table.get(&prefix)?.iter().next()?))
        })
    }

    /// All prefixes of a table with their routes, in no order.
    pub fn table(&self, table: u32) -> impl Iterator<Item = (Prefix<A>, &List)> {
        self.tables.get(&table).into_iter().flatten().map(|(prefix, list)| (*prefix, list))
    }

    /// Numbers of the tables that have routes, in order.
    pub fn tables(&self) -> Vec<u32> {
        let mut ids: Vec<u32> =
            self.tables.iter().filter(|(_, table)| !table.is_empty()).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Which prefixes of which tables have changed since this was last called.
    pub fn take_changed(&mut self) -> HashSet<(u32, Prefix<A>)> {
        std::mem::take(&mut self.changed)
    }

    /// Counts every prefix of a table as changed.
    pub fn touch(&mut self, table: u32) {
        if let Some(prefixes) = self.tables.get(&table) {
            self.changed.extend(prefixes.keys().map(|prefix| (table, *prefix)));
        }
    }

    /// The number of prefixes with changes that nobody has asked for.
    pub fn pending(&self) -> usize {
        self.changed.len()
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
