//! IPv6 routes that end by themselves: the kernel stops using one at its time, and says so up to half a minute later. That a
//! router advertisement has given it more time it does not say at all.

use crate::netlink::{Action, Message, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So long before a route's time the kernel is asked whether it has got more.
const BEFORE: Duration = Duration::from_secs(1);

/// When which route ends. Times are since any fixed moment.
#[derive(Debug, Default)]
pub struct Expiry {
    /// The time of each, and whether the kernel was asked about it.
    routes: BTreeMap<Route<u128>, (Duration, bool)>,
    /// The same in the order of what is to be done: ask, or remove.
    due: BTreeSet<(Duration, Route<u128>)>,
}

/// What is to be done now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Routes that have ended.
    pub ended: Vec<Route<u128>>,
    /// All IPv6 routes are to be asked for.
    pub ask: bool,
}

impl Expiry {
    /// Takes note of what a message says of a route's time. One that has ended becomes its removal.
    pub fn note(&mut self, message: &mut Message, now: Duration) {
        let Message::Route6(action, route) = message else { return };
        let mut key = route.clone();
        let left = key.extras.expires.take();
        if !self.routes.is_empty() {
            self.forget(&key);
        }
        match left {
            Some(hundredths) if *action != Action::Remove => match u64::try_from(hundredths) {
                Ok(hundredths) => self.insert(key, now + Duration::from_millis(10 * hundredths), now),
                Err(_) => *action = Action::Remove,
            },
            _ => {}
        }
    }

    fn forget(&mut self, route: &Route<u128>) {
        if let Some((at, asked)) = self.routes.remove(route) {
            self.due.remove(&(if asked { at } else { at.saturating_sub(BEFORE) }, route.clone()));
        }
    }

    fn insert(&mut self, route: Route<u128>, at: Duration, now: Duration) {
        let asked = at.saturating_sub(BEFORE) <= now;
        self.due.insert((if asked { at } else { at - BEFORE }, route.clone()));
        self.routes.insert(route, (at, asked));
    }

    /// How long there is nothing to do; `None` = for ever.
    pub fn wait(&self, now: Duration) -> Option<Duration> {
        self.due.first().map(|(at, _)| at.saturating_sub(now))
    }

    /// What is due.
    pub fn step(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        while self.due.first().is_some_and(|(at, _)| *at <= now)
            && let Some((at, route)) = self.due.pop_first()
        {
            due.ask = true;
            match self.routes.get_mut(&route) {
                Some((end, asked)) if *end > at => {
                    *asked = true;
                    self.due.insert((*end, route));
                }
                _ => {
                    self.routes.remove(&route);
                    due.ended.push(route);
                }
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Hops, Kind, MAIN_TABLE, RouteExtras};

    fn message(expires: Option<i32>) -> Message {
        let extras = RouteExtras { expires, ..RouteExtras::default() };
        let prefix = "2001:db8::/32".parse().unwrap();
        let (metric, tos, protocol, kind) = (1024, 0, 9, Kind::Unicast);
        let (table, hops, mtu) = (MAIN_TABLE, Hops::None, None);
        let route = Route { table, prefix, metric, tos, protocol, kind, hops, mtu, extras };
        Message::Route6(Action::Add, route)
    }

    fn seconds(expiry: &mut Expiry, at: u64) -> (usize, bool) {
        let due = expiry.step(Duration::from_secs(at));
        (due.ended.len(), due.ask)
    }

    #[test]
    fn a_route_ends_at_its_time_and_the_kernel_is_asked_before() {
        let mut expiry = Expiry::default();
        expiry.note(&mut message(Some(1000)), Duration::from_secs(5));
        assert_eq!(expiry.wait(Duration::from_secs(5)), Some(Duration::from_secs(9)));
        assert_eq!(seconds(&mut expiry, 13), (0, false));
        assert_eq!(seconds(&mut expiry, 14), (0, true));
        assert_eq!(seconds(&mut expiry, 14), (0, false));
        assert_eq!(seconds(&mut expiry, 15), (1, true));
        assert_eq!((seconds(&mut expiry, 99), expiry.wait(Duration::ZERO)), ((0, false), None));
    }

    #[test]
    fn more_time_and_no_end_are_taken_note_of() {
        let mut expiry = Expiry::default();
        expiry.note(&mut message(Some(1000)), Duration::ZERO);
        assert_eq!(seconds(&mut expiry, 9), (0, true));
        expiry.note(&mut message(Some(6000)), Duration::from_secs(9));
        assert_eq!(seconds(&mut expiry, 11), (0, false));
        assert_eq!(seconds(&mut expiry, 68), (0, true));
        expiry.note(&mut message(None), Duration::from_secs(68));
        assert_eq!((seconds(&mut expiry, 99), expiry.wait(Duration::ZERO)), ((0, false), None));
    }

    #[test]
    fn one_that_has_ended_is_no_route() {
        let mut expiry = Expiry::default();
        let mut ended = message(Some(-1));
        expiry.note(&mut ended, Duration::from_secs(1));
        assert!(matches!(ended, Message::Route6(Action::Remove, _)));
        assert_eq!(expiry.wait(Duration::ZERO), None);
    }
}
