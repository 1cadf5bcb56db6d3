//! The routes of one prefix in one table, in the order in which they win.

use super::Generation;
use crate::netlink::{Action, Hop, Hops, Kind, Route, RouteExtras};
use fib::Address;
use std::sync::Arc;

/// A route without its table and prefix, which whoever holds the list knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The lowest wins.
    pub metric: u32,
    /// Type of service that it is for; 0 = any.
    pub tos: u8,
    /// Who made it.
    pub protocol: u8,
    /// What becomes of packets.
    pub kind: Kind,
    /// Where they go.
    pub hops: Hops,
    /// Longest packet, if the route says.
    pub mtu: Option<u32>,
    /// Not 0: it is for some sources only.
    pub selector: u64,
    /// See [`RouteExtras::variant`].
    pub variant: u32,
    /// Of those with the same metric the highest wins (RFC 4191).
    pub preference: i8,
}

impl Entry {
    /// What the route is beside them.
    pub fn of<A: Address>(route: Route<A>) -> Entry {
        let Route { table: _, prefix: _, metric, tos, protocol, kind, hops, mtu, extras } = route;
        let RouteExtras { selector, variant, preference, expires: _ } = extras;
        Entry { metric, tos, protocol, kind, hops, mtu, selector, variant, preference }
    }

    /// It is for some packets to its prefix only.
    pub fn is_selective(&self) -> bool {
        self.tos != 0 || self.selector != 0
    }

    /// The same way for the same packets: what the kernel does not let be twice.
    fn is_same(&self, other: &Entry) -> bool {
        let key = |entry: &Entry| (entry.metric, entry.tos, entry.selector, entry.variant, entry.kind);
        key(self) == key(other) && self.hops == other.hops
    }

    /// IPv6 makes one route of all that have a gateway and the same metric.
    fn joins(&self) -> bool {
        self.kind == Kind::Unicast && ways(&self.hops).next().is_some_and(|(hop, _)| hop.gateway.is_some())
    }
}

/// The ways that are in the route itself, with weights.
pub fn ways(hops: &Hops) -> impl Iterator<Item = (Hop, u32)> + '_ {
    let (one, many) = match hops {
        Hops::One(hop) => (Some((*hop, 1)), &[][..]),
        Hops::Many(hops) => (None, &hops[..]),
        Hops::None | Hops::Object(_) => (None, &[][..]),
    };
    one.into_iter().chain(many.iter().copied())
}

/// A route, and when it was last heard of. Nearly all routes are like many others and share an [`Entry`] with them.
type Item = (Arc<Entry>, Generation);

/// Of nearly all prefixes there is one route: no vector for these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// None; such a list is not kept.
    #[default]
    Empty,
    /// One.
    One(Item),
    /// Several, first wins.
    Many(Vec<Item>),
}

impl List {
    /// The routes, the one that wins first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slice().iter().map(|(entry, _)| &**entry)
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.slice().is_empty()
    }

    fn slice(&self) -> &[Item] {
        match self {
            List::Empty => &[],
            List::One(one) => std::slice::from_ref(one),
            List::Many(many) => many,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<Item>)) {
        let mut many = match std::mem::take(self) {
            List::Empty => Vec::new(),
            List::One(one) => vec![one],
            List::Many(many) => many,
        };
        change(&mut many);
        *self = match many.len() {
            0 => List::Empty,
            1 => many.pop().map_or(List::Empty, List::One),
            _ => List::Many(many),
        };
    }

    /// If this is the only route of the prefix: takes note that it was heard of.
    pub fn hears(&mut self, same: &Entry, now: Generation) -> bool {
        match self {
            List::One((entry, heard)) if **entry == *same => {
                *heard = now;
                true
            }
            _ => false,
        }
    }

    /// The kernel has removed this route of the prefix.
    pub fn remove(&mut self, gone: &Entry, ipv6: bool) {
        // Nearly always; no vector for it.
        if let List::One((only, _)) = self
            && only.is_same(gone)
        {
            *self = List::Empty;
            return;
        }
        self.change(|list| remove(list, gone, ipv6));
    }

    /// The kernel has this new route of the prefix.
    pub fn apply(&mut self, action: Action, new: Arc<Entry>, now: Generation, ipv6: bool) {
        if self.is_empty() {
            *self = List::One((new, now));
            return;
        }
        self.change(|list| match action {
            Action::Replace => match replaced(list, &new, ipv6) {
                Some(at) => {
                    list[at] = (new, now);
                    drop_joined(list, at, ipv6);
                }
                None => insert(list, new, now, ipv6),
            },
            Action::Append => insert(list, new, now, true),
            Action::Add | Action::Remove => insert(list, new, now, ipv6),
        });
    }

    /// Part of a dump: the kernel names the routes of a prefix in their order, so this one comes behind those that the
    /// same dump has named, and before what is left from before.
    pub fn confirm(&mut self, new: Arc<Entry>, now: Generation) {
        if self.is_empty() {
            *self = List::One((new, now));
            return;
        }
        self.change(|list| {
            list.retain(|(old, _)| !old.is_same(&new));
            let order = rank(&new);
            let at = list
                .iter()
                .position(|(old, generation)| rank(old) > order || (rank(old) == order && *generation != now))
                .unwrap_or(list.len());
            list.insert(at, (new, now));
        });
    }

    /// Makes this the only route of the prefix for the same sources: FRR sends what it has chosen.
    pub fn set(&mut self, new: Arc<Entry>, now: Generation) {
        if !self.iter().any(|old| old.selector != new.selector) {
            *self = List::One((new, now));
            return;
        }
        self.change(|list| {
            list.retain(|(old, _)| old.selector != new.selector);
            insert(list, new, now, true);
        });
    }

    /// The route of the prefix for these sources is gone.
    pub fn unset(&mut self, selector: u64) {
        self.change(|list| list.retain(|(old, _)| old.selector != selector));
    }

    /// Removes what is of another generation. True if something was.
    pub fn sweep(&mut self, now: Generation) -> bool {
        if self.slice().iter().all(|(_, generation)| *generation == now) {
            return false;
        }
        self.change(|list| list.retain(|(_, generation)| *generation == now));
        true
    }
}

/// What decides who wins: the route for one type of service, or some sources, before that for any, then the metric.
fn rank(entry: &Entry) -> (std::cmp::Reverse<(u8, u64)>, u32) {
    (std::cmp::Reverse((entry.tos, entry.selector)), entry.metric)
}

/// Puts a new route in its place: `last` of those that rank the same, or first.
fn insert(list: &mut Vec<Item>, new: Arc<Entry>, now: Generation, last: bool) {
    // It may be told twice: by the event, and by a dump that began before it.
    if let Some(same) = list.iter_mut().find(|(old, _)| old.is_same(&new)) {
        *same = (new, now);
        return;
    }
    // The kernel names all ways of an IPv6 route whenever one is added.
    let joined = last && new.joins();
    if joined && let Some(at) = list.iter().position(|(old, _)| is_joined(old, &new)) {
        list[at] = (new, now);
        return;
    }
    let order = rank(&new);
    let before = |old: &Entry| if last { rank(old) > order } else { rank(old) >= order };
    let at = list.iter().position(|(old, _)| before(old)).unwrap_or(list.len());
    list.insert(at, (new, now));
}

/// True if both are ways of one IPv6 route, of which the new message names more.
fn is_joined(old: &Entry, new: &Entry) -> bool {
    rank(old) == rank(new)
        && old.joins()
        && ways(&old.hops).all(|(hop, _)| ways(&new.hops).any(|(other, _)| hop == other))
}

/// The route whose place a new one takes: the first that ranks the same; in IPv6 one of the same kind if there is one.
fn replaced(list: &[Item], new: &Entry, ipv6: bool) -> Option<usize> {
    let first = |kind: bool| {
        list.iter().position(|(old, _)| rank(old) == rank(new) && (!kind || old.joins() == new.joins()))
    };
    first(ipv6).or_else(|| first(false))
}

/// After a replacement in IPv6: other routes that would have been ways of the same are gone.
fn drop_joined(list: &mut Vec<Item>, at: usize, ipv6: bool) {
    let (order, joins) = (rank(&list[at].0), list[at].0.joins());
    if ipv6 && joins {
        let mut index = 0;
        list.retain(|(old, _)| {
            index += 1;
            index - 1 == at || !(rank(old) == order && old.joins())
        });
    }
}

fn remove(list: &mut Vec<Item>, gone: &Entry, ipv6: bool) {
    let same = |old: &Entry| old.is_same(gone);
    if let Some(at) = list.iter().position(|(old, _)| same(old)) {
        list.remove(at);
        return;
    }
    // One way of several has gone.
    let part = |old: &Entry| {
        ipv6 && rank(old) == rank(gone)
            && ways(&gone.hops).all(|(hop, _)| ways(&old.hops).any(|(o, _)| o == hop))
    };
    if ways(&gone.hops).next().is_some()
        && let Some(at) = list.iter().position(|(old, _)| part(old))
    {
        let left: Vec<_> =
            ways(&list[at].0.hops).filter(|(hop, _)| ways(&gone.hops).all(|(g, _)| g != *hop)).collect();
        match *left {
            [] => {
                list.remove(at);
            }
            [(hop, _)] => Arc::make_mut(&mut list[at].0).hops = Hops::One(hop),
            _ => Arc::make_mut(&mut list[at].0).hops = Hops::Many(left.into()),
        }
        return;
    }
    // The kernel may leave out of a removal what the route was like.
    if gone.hops == Hops::None
        && let Some(at) = list.iter().position(|(old, _)| rank(old) == rank(gone))
    {
        list.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mtu: Option<u32>, variant: u32) -> Arc<Entry> {
        let hops = Hops::One(Hop { gateway: None, link: 1 });
        let (metric, tos, protocol, kind, selector, preference) = (0, 0, 2, Kind::Unicast, 0, 0);
        Arc::new(Entry { metric, tos, protocol, kind, hops, mtu, selector, variant, preference })
    }

    fn mtus(list: &List) -> Vec<Option<u32>> {
        list.iter().map(|entry| entry.mtu).collect()
    }

    #[test]
    fn routes_of_different_variants_are_kept_side_by_side() {
        let (now, later): (Generation, Generation) = (0, 1);
        let (narrow, connected) = (entry(Some(1300), 1), entry(None, 2));
        let mut list = List::Empty;
        list.apply(Action::Add, narrow.clone(), now, false);
        list.apply(Action::Append, connected.clone(), now, false);
        assert_eq!(mtus(&list), [Some(1300), None], "the first wins");
        // Told again.
        list.apply(Action::Append, connected.clone(), now, false);
        list.confirm(narrow.clone(), later);
        assert_eq!(mtus(&list), [Some(1300), None]);
        assert!(list.sweep(later));
        assert_eq!(mtus(&list), [Some(1300)], "the dump did not name the other one");
        list.apply(Action::Append, connected.clone(), later, false);
        list.remove(&narrow, false);
        assert_eq!(mtus(&list), [None]);
        list.remove(&connected, false);
        assert!(list.is_empty());
    }
}
