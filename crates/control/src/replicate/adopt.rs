//! Numbers of next hops and VLANs that nodes still have from a control node that is no more: the new one takes them over, so that
//! packets between nodes mean the same before and after.

use super::change::{self, Change};
use super::wire::ProtocolError;
use crate::publish::Tables;
use fib::{Address, Adjacencies, Family, InterfaceChange, NextHop, NextHopId, NextHops, RouteTable, Tags};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a node has told.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of its hello.
    pub life: u64,
    /// Of its hello.
    pub position: u64,
    hops: [Vec<NextHop>; 2],
    /// What numbers of interfaces stand for: ports and tags.
    places: Places,
}

/// Ports and tags by number. There are no more than [`Interfaces::MOST`](fib::Interfaces::MOST).
type Places = BTreeMap<u16, (u16, Tags)>;

impl Told {
    /// A node whose hello said this.
    pub fn new(life: u64, position: u64) -> Told {
        Told { life, position, ..Told::default() }
    }

    /// Takes a frame of changes.
    ///
    /// # Errors
    /// If it is anything but interfaces, or next hops in the order of their numbers.
    pub fn take(&mut self, body: &[u8]) -> Result<(), ProtocolError> {
        let (_, family, change) = change::decode(body)?;
        let hops = match change {
            Change::NextHops(hops) => hops,
            Change::Interfaces(all) => {
                self.places.extend(all.into_iter().map(|one| (one.number, (one.port, one.tags))));
                return Ok(());
            }
            _ => return Err(ProtocolError::Turn("a change")),
        };
        let list = &mut self.hops[usize::from(family == Family::Ipv6)];
        for (number, hop) in hops {
            if number.index() != list.len() {
                return Err(ProtocolError::Malformed("a list of next hops"));
            }
            if list.len() == NextHops::LIMIT {
                return Err(ProtocolError::TooMany("next hops"));
            }
            list.push(hop);
        }
        Ok(())
    }
}

/// What counts of what nodes have told: that of the life of most of those that `has` something, the latest last.
fn elected(told: &[Told], has: impl Fn(&Told) -> bool) -> Vec<&Told> {
    let mut votes: HashMap<u64, usize> = HashMap::new();
    for one in told.iter().filter(|one| has(one)) {
        *votes.entry(one.life).or_default() += 1;
    }
    // 0: in the middle of a snapshot, which is better than nothing.
    let elected = votes.into_iter().max_by_key(|(life, votes)| (*life != 0, *votes, *life));
    let Some((life, _)) = elected else { return Vec::new() };
    let mut of_life: Vec<&Told> = told.iter().filter(|one| one.life == life).collect();
    of_life.sort_by_key(|one| one.position);
    of_life
}

/// What numbers of interfaces stand for.
fn merge_places(told: &[Told]) -> Places {
    let of_life = elected(told, |one| !one.places.is_empty());
    of_life.into_iter().flat_map(|one| one.places.iter().map(|(number, place)| (*number, *place))).collect()
}

/// Next hops by number.
fn merge(told: &[Told], family: usize) -> Vec<NextHop> {
    let mut list: Vec<NextHop> = Vec::new();
    for one in elected(told, |one| !one.hops[family].is_empty()) {
        let new = &one.hops[family];
        let same = list.len().min(new.len());
        list[..same].copy_from_slice(&new[..same]);
        list.extend_from_slice(&new[same..]);
    }
    list
}

/// Collects what nodes tell, until it is over.
#[derive(Debug, Default)]
pub struct Adoption {
    told: Mutex<Option<HashMap<String, Told>>>,
    news: Condvar,
}

impl Adoption {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<String, Told>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nodes are asked.
    pub fn open(&self) {
        *self.lock() = Some(HashMap::new());
    }

    /// True if nodes are to be asked.
    pub fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// A node has told.
    pub fn add(&self, name: &str, told: Told) {
        if let Some(all) = &mut *self.lock() {
            all.insert(name.to_owned(), told);
        }
        self.news.notify_all();
    }

    /// Waits until so many nodes have told, but no longer than `limit`; then gives tables that have no numbers yet
    /// theirs, and is over. Returns how many nodes have told.
    pub fn close(&self, nodes: usize, limit: Duration, tables: &Tables) -> usize {
        let waiting = |told: &mut Option<HashMap<String, Told>>| {
            told.as_ref().is_some_and(|told| nodes == 0 || told.len() < nodes)
        };
        let mut told = match self.news.wait_timeout_while(self.lock(), limit, waiting) {
            Ok((told, _)) => told,
            Err(poisoned) => poisoned.into_inner().0,
        };
        let all: Vec<Told> = told.iter().flat_map(HashMap::values).cloned().collect();
        give_places(tables, merge_places(&all));
        give(&tables.routes4, &tables.adjacencies4, merge(&all, 0));
        give(&tables.routes6, &tables.adjacencies6, merge(&all, 1));
        *told = None;
        all.len()
    }
}

/// There are none of these interfaces yet, but if they come they have these numbers.
fn give_places(tables: &Tables, places: Places) {
    let Some(interfaces) = &tables.interfaces else { return };
    let known = interfaces.snapshot(drop).0;
    if known.is_empty() && !places.is_empty() {
        let none = |(number, (port, tags))| InterfaceChange { number, port, tags, now: None };
        interfaces.change(places.into_iter().map(none).collect());
    }
}

fn give<A: Address>(table: &RouteTable<A>, adjacencies: &Adjacencies, hops: Vec<NextHop>) {
    if hops.is_empty() || !table.next_hop_list().is_empty() {
        return;
    }
    let numbered: Vec<_> =
        (0..).zip(hops).filter_map(|(index, hop)| Some((NextHopId::new(index)?, hop))).collect();
    // There are no more than a table can have, and none is left out.
    let _ = table.set_next_hops(&numbered);
    adjacencies.renumber(&table.next_hop_list());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(life: u64, position: u64, ports: &[u32]) -> Told {
        let hops = ports.iter().map(|port| NextHop { gateway: None, port: *port }).collect();
        Told { life, position, hops: [hops, Vec::new()], places: Places::new() }
    }

    fn merged(told: &[Told]) -> Vec<u32> {
        merge(told, 0).iter().map(|hop| hop.port).collect()
    }

    #[test]
    fn the_latest_of_most_nodes_counts() {
        assert_eq!(merged(&[]), [0; 0]);
        assert_eq!(merged(&[told(0, 0, &[]), told(0, 0, &[5])]), [5]);
        let (early, late) = (told(7, 3, &[1, 2, 3, 4]), told(7, 9, &[1, 9, 3]));
        assert_eq!(merged(&[late.clone(), early.clone()]), [1, 9, 3, 4]);
        assert_eq!(merged(&[told(8, 99, &[6]), late, early, told(0, 0, &[5])]), [1, 9, 3, 4]);
        assert_eq!(merge(&[told(1, 1, &[1])], 1), []);
    }
}
