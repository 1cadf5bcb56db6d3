//! Addresses that have been asked for and not been answered.

use super::neighbour_map::Key;
use graph::{Nanos, SECOND};
use std::collections::{HashMap, VecDeque};

/// Time between two queries for one address (RFC 1122 §2.3.2.1).
pub const QUERY_INTERVAL: Nanos = SECOND;

/// Addresses and when they were asked for last.
#[derive(Debug)]
pub struct Asked<K> {
    last: HashMap<K, Nanos>,
    /// Queries, oldest first. Those whose address was answered, given up or asked for again are stale.
    order: VecDeque<(Nanos, K)>,
}

impl<K> Default for Asked<K> {
    fn default() -> Asked<K> {
        Asked { last: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Key> Asked<K> {
    /// Addresses.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// True if it has been asked for.
    pub fn contains(&self, ip: K) -> bool {
        self.last.contains_key(&ip)
    }

    /// True if it has been asked for so long ago that it may be asked for again.
    pub fn is_due(&self, ip: K, now: Nanos) -> bool {
        self.last.get(&ip).is_some_and(|&last| is_over(last, now))
    }

    /// It is asked for now.
    pub fn push(&mut self, ip: K, now: Nanos) {
        self.last.insert(ip, now);
        self.order.push_back((now, ip));
    }

    /// The address of the oldest query. A stale one counts, too.
    pub fn pop_query(&mut self) -> Option<K> {
        self.order.pop_front().map(|(_, ip)| ip)
    }

    /// Forgets an address; false if it has not been asked for.
    pub fn remove(&mut self, ip: K) -> bool {
        self.last.remove(&ip).is_some()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Asked::default();
    }

    /// Forgets addresses that may be asked for again, unless somebody still wants them.
    pub fn expire(&mut self, now: Nanos, is_wanted: impl Fn(K) -> bool) {
        while let Some((asked, ip)) = self.order.pop_front_if(|(asked, _)| is_over(*asked, now)) {
            if self.last.get(&ip) == Some(&asked) && !is_wanted(ip) {
                self.last.remove(&ip);
            }
        }
    }

    /// All addresses, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, Nanos)> {
        self.last.iter().map(|(ip, last)| (*ip, *last))
    }
}

fn is_over(asked: Nanos, now: Nanos) -> bool {
    now >= asked.saturating_add(QUERY_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_due_a_second_after_its_last_query() {
        let mut asked = Asked::<u32>::default();
        assert_eq!((asked.contains(1), asked.is_due(1, Nanos::MAX)), (false, false));
        asked.push(1, 5);
        assert_eq!([SECOND + 4, SECOND + 5].map(|now| asked.is_due(1, now)), [false, true]);
        asked.push(1, SECOND + 5);
        assert_eq!([SECOND + 5, 2 * SECOND + 5].map(|now| asked.is_due(1, now)), [false, true]);
        assert_eq!((asked.len(), asked.iter().collect::<Vec<_>>()), (1, vec![(1, SECOND + 5)]));
        assert_eq!([asked.remove(1), asked.remove(1), asked.contains(1)], [true, false, false]);
    }

    #[test]
    fn only_what_nobody_wants_expires() {
        let mut asked = Asked::<u32>::default();
        for (ip, at) in [(1, 0), (2, 0), (3, 1), (1, SECOND - 1)] {
            asked.push(ip, at);
        }
        asked.expire(SECOND - 1, |_| false);
        assert_eq!(asked.len(), 3);
        // The first was asked for again, the second is wanted, the third was asked for later.
        asked.expire(SECOND, |ip| ip == 2);
        assert_eq!([1, 2, 3].map(|ip| asked.contains(ip)), [true; 3]);
        asked.expire(SECOND + 1, |_| false);
        assert_eq!([1, 2, 3].map(|ip| asked.contains(ip)), [true, true, false]);
        assert_eq!([asked.pop_query(), asked.pop_query()], [Some(1), None]);
        asked.clear();
        assert_eq!(asked.len(), 0);
    }
}
