//! What we know of the kernel: links, addresses, neighbours, next hops and routes, as its messages tell of them.
//!
//! Everything carries the generation in which it was last heard of. A dump of a topic raises the generation
//! ([`Model::mark`]), names everything that is there, and what has then an older generation is gone ([`Model::sweep`]): so
//! news may come before, between and after the parts of a dump, and what has not changed is not touched.

mod expiry;
mod follow;
mod list;
mod prefixes;
mod table;

use crate::netlink::request::Topic;
use crate::netlink::{
    Action, Address, Link, Message, Neighbour, Netconf, ObjectTarget, PolledSettings, Rule,
};
use fib::Family;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;

pub use follow::{Counts, Follower};
pub use list::{Entry, List, ways};
pub use table::Routes;

/// When something was last heard of.
pub type Generation = u32;

/// Things by key, each with its generation, and which keys have changed.
#[derive(Clone, Debug)]
pub struct Known<K, V> {
    map: BTreeMap<K, (V, Generation)>,
    generation: Generation,
    changed: HashSet<K>,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Known<K, V> {
        Known { map: BTreeMap::new(), generation: 0, changed: HashSet::new() }
    }
}

impl<K: Copy + Eq + Hash + Ord, V: PartialEq> Known<K, V> {
    fn set(&mut self, key: K, value: V) {
        let news = self.map.get(&key).is_none_or(|(old, _)| *old != value);
        self.map.insert(key, (value, self.generation));
        if news {
            self.changed.insert(key);
        }
    }

    fn remove(&mut self, key: K) {
        if self.map.remove(&key).is_some() {
            self.changed.insert(key);
        }
    }

    fn apply(&mut self, action: Action, key: K, value: V) {
        match action {
            Action::Remove => self.remove(key),
            _ => self.set(key, value),
        }
    }

    fn mark(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn sweep(&mut self) -> usize {
        let Known { map, generation, changed } = self;
        let before = map.len();
        map.retain(|key, (_, heard)| {
            let stays = heard == generation;
            if !stays {
                changed.insert(*key);
            }
            stays
        });
        before - map.len()
    }

    /// What there is of this key.
    pub fn get(&self, key: K) -> Option<&V> {
        self.map.get(&key).map(|(value, _)| value)
    }

    /// All, in the order of their keys.
    pub fn sorted(&self) -> Vec<(K, &V)> {
        self.iter().collect()
    }

    /// All, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.map.iter().map(|(key, (value, _))| (*key, value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The keys that have changed since this was last called.
    pub fn take_changed(&mut self) -> HashSet<K> {
        std::mem::take(&mut self.changed)
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Known<K, V> {
    fn eq(&self, other: &Known<K, V>) -> bool {
        self.map.len() == other.map.len()
            && self.map.iter().all(|(key, (value, _))| other.map.get(key).is_some_and(|(o, _)| o == value))
    }
}

/// The kernel's state as we know it. Two are equal if they know the same, however they came to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Interfaces by number.
    pub links: Known<u32, Link>,
    /// What is set for interfaces, by family and number.
    pub netconf: Known<(Family, i32), Netconf>,
    /// The same of which no change is told.
    pub polled: Known<u32, PolledSettings>,
    /// Addresses of the machine.
    pub addresses: Known<Address, ()>,
    /// Neighbours by link and address.
    pub neighbours: Known<(u32, IpAddr), Neighbour>,
    /// Next-hop objects by number.
    pub next_hops: Known<u32, ObjectTarget>,
    /// Rules of policy routing.
    pub rules: Known<Rule, ()>,
    /// IPv4 routes.
    pub routes4: Routes<u32>,
    /// IPv6 routes.
    pub routes6: Routes<u128>,
}

impl Model {
    /// Takes what a message says. `dumped`: it is part of a dump, so that order among routes counts.
    pub fn apply(&mut self, message: Message, dumped: bool) {
        match message {
            Message::Link(action, link) => self.links.apply(action, link.index, link),
            Message::Netconf(action, one) => {
                let key = (one.family, one.index);
                let known = self.netconf.get(key).copied();
                self.netconf.apply(action, key, known.map_or(one, |known| one.over(known)));
            }
            Message::Address(action, address) => self.addresses.apply(action, address, ()),
            Message::Neighbour(action, one) => self.neighbours.apply(action, (one.link, one.ip), one),
            Message::Rule(action, rule) => self.rules.apply(action, rule, ()),
            Message::NextHop(action, object) => self.next_hops.apply(action, object.id, object.to),
            Message::Route4(action, route) => self.routes4.apply(action, route, dumped),
            Message::Route6(action, route) => self.routes6.apply(action, route, dumped),
            Message::Done { .. } | Message::Answer { .. } | Message::Other => {}
        }
    }

    /// A dump of a topic begins.
    pub fn mark(&mut self, topic: Topic) {
        match topic {
            Topic::Links => self.links.mark(),
            Topic::Netconf => self.netconf.mark(),
            Topic::Addresses => self.addresses.mark(),
            Topic::Neighbours => self.neighbours.mark(),
            Topic::Rules => self.rules.mark(),
            Topic::NextHops => self.next_hops.mark(),
            Topic::Routes4 => self.routes4.mark(),
            Topic::Routes6 => self.routes6.mark(),
        }
    }

    /// The dump has ended: what it did not name, and no news since it began did, is gone. Returns how many things that
    /// were.
    pub fn sweep(&mut self, topic: Topic) -> usize {
        match topic {
            Topic::Links => self.links.sweep(),
            Topic::Netconf => self.netconf.sweep(),
            Topic::Addresses => self.addresses.sweep(),
            Topic::Neighbours => self.neighbours.sweep(),
            Topic::Rules => self.rules.sweep(),
            Topic::NextHops => self.next_hops.sweep(),
            Topic::Routes4 => self.routes4.sweep(),
            Topic::Routes6 => self.routes6.sweep(),
        }
    }

    /// What is set for all interfaces is about to be told: see [`PolledSettings`].
    pub fn begin_polled(&mut self) {
        self.polled.mark();
    }

    /// What is set for an interface.
    pub fn set_polled(&mut self, one: PolledSettings) {
        self.polled.set(one.index, one);
    }

    /// Interfaces that were not told of since it began are gone.
    pub fn end_polled(&mut self) {
        self.polled.sweep();
    }

    /// The interface of this name.
    pub fn link_named(&self, name: &str) -> Option<&Link> {
        self.links.iter().map(|(_, link)| link).find(|link| link.name == name)
    }
}
