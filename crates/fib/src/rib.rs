//! All routes, in a path-compressed binary trie from which the lookup structures are derived.

use std::fmt;
use std::sync::Arc;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};

/// The routes of one family: at most one next hop for each prefix.
///
/// Cloning takes constant time: clones share what neither has changed since, so a clone serves as a snapshot, as
/// the way back out of a failed transaction, and (see [`Radix`](crate::Radix)) as a table to look up in.
#[derive(Clone, Default)]
pub struct Rib<A> {
    root: Option<Arc<Node<A>>>,
    len: usize,
}

/// A prefix that has a route or at which two branches part. Children are longer and begin with `prefix`;
/// child 1 is the one whose next bit is set.
#[derive(Clone)]
pub(crate) struct Node<A> {
    pub prefix: Prefix<A>,
    pub hop: Option<NextHopId>,
    pub children: [Option<Arc<Node<A>>>; 2],
}

impl<A: Address> Node<A> {
    fn leaf(prefix: Prefix<A>, hop: NextHopId) -> Node<A> {
        Node { prefix, hop: Some(hop), children: [None, None] }
    }

    pub fn child(&self, upper: bool) -> Option<&Node<A>> {
        self.children[usize::from(upper)].as_deref()
    }

    pub fn has_children(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }
}

impl<A: Address> Rib<A> {
    /// No routes.
    pub fn new() -> Rib<A> {
        Rib { root: None, len: 0 }
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds or replaces the route of `prefix`; returns the next hop that it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: NextHopId) -> Option<NextHopId> {
        let mut slot = &mut self.root;
        // Down to the node of `prefix`, or to where it belongs.
        while let Some(at) = slot.as_ref().map(|node| node.prefix) {
            let common = at.common(prefix);
            if common.len() < at.len() {
                let old = slot.take();
                *slot = Some(Arc::new(join(common, old, prefix, hop)));
                self.len += 1;
                return None;
            }
            let Some(node) = slot else { break };
            let node = Arc::make_mut(node);
            if at == prefix {
                let old = node.hop.replace(hop);
                self.len += usize::from(old.is_none());
                return old;
            }
            slot = &mut node.children[usize::from(prefix.first().bit(at.len()))];
        }
        *slot = Some(Arc::new(Node::leaf(prefix, hop)));
        self.len += 1;
        None
    }

    /// Removes the route of `prefix`; returns the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHopId> {
        let old = self.get(prefix)?;
        remove_below(&mut self.root, prefix);
        self.len -= 1;
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHopId> {
        let mut node = self.root.as_deref()?;
        while node.prefix.len() < prefix.len() && node.prefix.covers(prefix) {
            node = node.child(prefix.first().bit(node.prefix.len()))?;
        }
        if node.prefix == prefix { node.hop } else { None }
    }

    /// The route with the longest prefix that contains `addr`.
    pub fn lookup(&self, addr: A) -> Option<(Prefix<A>, NextHopId)> {
        self.covering(Prefix::host(addr))
    }

    /// The next hop of the longest prefix that contains `addr`.
    #[inline]
    pub(crate) fn lookup_hop(&self, addr: A) -> Option<NextHopId> {
        let mut best = None;
        let mut next = self.root.as_deref();
        while let Some(node) = next
            && node.prefix.contains(addr)
        {
            best = node.hop.or(best);
            next = node.child(addr.bit(node.prefix.len()));
        }
        best
    }

    /// The route with the longest prefix that covers `prefix` (perhaps its own).
    pub fn covering(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHopId)> {
        let mut best = None;
        let mut next = self.root.as_deref();
        while let Some(node) = next
            && node.prefix.covers(prefix)
        {
            best = node.hop.map(|hop| (node.prefix, hop)).or(best);
            next = node.child(prefix.first().bit(node.prefix.len()));
        }
        best
    }

    /// All routes, in the order of their prefixes.
    pub fn iter(&self) -> Iter<'_, A> {
        Iter { stack: self.root.as_deref().into_iter().collect() }
    }

    /// The routes whose prefixes `prefix` covers, in order.
    pub fn iter_under(&self, prefix: Prefix<A>) -> Iter<'_, A> {
        Iter { stack: self.under(prefix).1.into_iter().collect() }
    }

    /// The topmost node covered by `prefix`, and the next hop that addresses in `prefix` inherit from routes with
    /// shorter prefixes.
    pub(crate) fn under(&self, prefix: Prefix<A>) -> (Option<NextHopId>, Option<&Node<A>>) {
        let mut inherited = None;
        let mut next = self.root.as_deref();
        while let Some(node) = next
            && node.prefix.len() < prefix.len()
        {
            if !node.prefix.covers(prefix) {
                return (inherited, None);
            }
            inherited = node.hop.or(inherited);
            next = node.child(prefix.first().bit(node.prefix.len()));
        }
        (inherited, next.filter(|node| prefix.covers(node.prefix)))
    }

    /// Cuts `prefix` into ranges of addresses that share a next hop, in order and without gaps: calls `each` with
    /// first address, last address and the next hop of every address between. Neighbours may share a next hop.
    pub fn ranges(&self, prefix: Prefix<A>, mut each: impl FnMut(A, A, Option<NextHopId>)) {
        let (inherited, node) = self.under(prefix);
        cut(prefix, node, inherited, &mut each);
    }

    /// Bytes held by the nodes.
    pub fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counters beside the node.
        let node = size_of::<Node<A>>() + 2 * size_of::<usize>();
        let mut count = 0;
        let mut stack: Vec<_> = self.root.as_deref().into_iter().collect();
        while let Some(node) = stack.pop() {
            count += 1;
            stack.extend(node.children.iter().flatten().map(Arc::as_ref));
        }
        count * node
    }
}

/// The node at `common` that takes the place of `old` and has the new route at or below it.
fn join<A: Address>(
    common: Prefix<A>,
    old: Option<Arc<Node<A>>>,
    prefix: Prefix<A>,
    hop: NextHopId,
) -> Node<A> {
    let side = old.as_ref().is_some_and(|old| old.prefix.first().bit(common.len()));
    let mut children = [None, None];
    children[usize::from(side)] = old;
    if common == prefix {
        return Node { prefix, hop: Some(hop), children };
    }
    children[usize::from(!side)] = Some(Arc::new(Node::leaf(prefix, hop)));
    Node { prefix: common, hop: None, children }
}

/// Removes the route of `prefix`, which is there, and the nodes that nothing needs any more.
fn remove_below<A: Address>(slot: &mut Option<Arc<Node<A>>>, prefix: Prefix<A>) {
    let Some(node) = slot else { return };
    let node = Arc::make_mut(node);
    if node.prefix == prefix {
        node.hop = None;
    } else {
        remove_below(&mut node.children[usize::from(prefix.first().bit(node.prefix.len()))], prefix);
    }
    if node.hop.is_none() {
        match &mut node.children {
            [Some(_), Some(_)] => {}
            [lower, upper] => *slot = lower.take().or(upper.take()),
        }
    }
}

fn cut<A: Address>(
    area: Prefix<A>,
    node: Option<&Node<A>>,
    inherited: Option<NextHopId>,
    each: &mut impl FnMut(A, A, Option<NextHopId>),
) {
    let Some(node) = node else {
        each(area.first(), area.last(), inherited);
        return;
    };
    let (first, last) = (node.prefix.first(), node.prefix.last());
    if area.first() < first {
        each(area.first(), first.previous(), inherited);
    }
    let hop = node.hop.or(inherited);
    if node.has_children() {
        for upper in [false, true] {
            cut(node.prefix.half(upper), node.child(upper), hop, each);
        }
    } else {
        each(first, last, hop);
    }
    if last < area.last() {
        each(last.next(), area.last(), inherited);
    }
}

/// Iterator over routes; see [`Rib::iter`].
pub struct Iter<'r, A> {
    stack: Vec<&'r Node<A>>,
}

impl<A: Address> Iterator for Iter<'_, A> {
    type Item = (Prefix<A>, NextHopId);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(node) = self.stack.pop() {
            self.stack.extend([true, false].into_iter().filter_map(|upper| node.child(upper)));
            if let Some(hop) = node.hop {
                return Some((node.prefix, hop));
            }
        }
        None
    }
}

impl<A: Address> fmt::Debug for Rib<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'r, A: Address> IntoIterator for &'r Rib<A> {
    type Item = (Prefix<A>, NextHopId);
    type IntoIter = Iter<'r, A>;

    fn into_iter(self) -> Iter<'r, A> {
        self.iter()
    }
}

impl<A: Address> Extend<(Prefix<A>, NextHopId)> for Rib<A> {
    fn extend<I: IntoIterator<Item = (Prefix<A>, NextHopId)>>(&mut self, routes: I) {
        for (prefix, hop) in routes {
            self.insert(prefix, hop);
        }
    }
}

impl<A: Address> FromIterator<(Prefix<A>, NextHopId)> for Rib<A> {
    fn from_iter<I: IntoIterator<Item = (Prefix<A>, NextHopId)>>(routes: I) -> Self {
        let mut rib = Rib::new();
        rib.extend(routes);
        rib
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn hop(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    fn p(text: &str) -> Prefix<u32> {
        text.parse().unwrap()
    }

    #[test]
    fn a_removed_route_falls_back_to_what_covers_it() {
        let mut rib: Rib<u32> = [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))].into_iter().collect();
        let addr = p("10.1.2.3").first();
        assert_eq!(rib.lookup(addr), Some((p("10.1/16"), hop(2))));
        assert_eq!(rib.remove(p("10.1/16")), Some(hop(2)));
        assert_eq!(rib.lookup(addr), Some((p("10/8"), hop(1))));
        assert_eq!((rib.remove(p("10.1/16")), rib.len()), (None, 1));
        assert_eq!(rib.insert(p("10/8"), hop(3)), Some(hop(1)));
        assert_eq!(rib.covering(p("10.9/16")), Some((p("10/8"), hop(3))));
        assert_eq!((rib.covering(p("0/0")), rib.get(p("10/8"))), (None, Some(hop(3))));
    }

    #[test]
    fn ranges_have_no_gaps_and_reach_both_ends() {
        let rib: Rib<u32> = [(p("0.0.0.1"), hop(1)), (p("255.255.255.254/31"), hop(2))].into_iter().collect();
        let mut ranges = Vec::new();
        rib.ranges(p("0/0"), |first, last, hop| ranges.push((first, last, hop)));
        ranges.dedup_by(|b, a| {
            let same = a.2 == b.2;
            assert_eq!(b.0, a.1 + 1);
            if same {
                a.1 = b.1;
            }
            same
        });
        let (m, none) = (u32::MAX, None);
        assert_eq!(ranges, [(0, 0, none), (1, 1, Some(hop(1))), (2, m - 2, none), (m - 1, m, Some(hop(2)))]);
    }

    #[test]
    fn a_clone_is_a_snapshot() {
        let mut rib: Rib<u32> = [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))].into_iter().collect();
        let before = rib.clone();
        rib.remove(p("10/8"));
        rib.insert(p("10.1/16"), hop(9));
        rib.insert(p("11/8"), hop(4));
        assert_eq!(before.iter().collect::<Vec<_>>(), [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))]);
        assert_eq!(rib.iter().collect::<Vec<_>>(), [(p("10.1/16"), hop(9)), (p("11/8"), hop(4))]);
        assert_eq!((before.len(), rib.len()), (2, 2));
    }

    /// Prefixes of few bits and of many, so that they nest, coincide and lie apart.
    fn prefixes() -> impl Strategy<Value = Prefix<u32>> {
        (any::<u32>(), 0..=32u8, 0..4u32).prop_map(|(addr, len, spread)| {
            Prefix::truncated(if spread == 0 { addr } else { addr & 0xC000_0303 }, len)
        })
    }

    fn sorted(map: &BTreeMap<Prefix<u32>, NextHopId>) -> Vec<(Prefix<u32>, NextHopId)> {
        map.iter().map(|(&prefix, &hop)| (prefix, hop)).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            steps in prop::collection::vec((prefixes(), prop::option::weighted(0.6, 0..5u32)), 1..80),
            probes in prop::collection::vec(prefixes(), 20),
        ) {
            let (mut rib, mut map) = (Rib::new(), BTreeMap::new());
            for (prefix, insert) in steps {
                match insert {
                    Some(index) => prop_assert_eq!(rib.insert(prefix, hop(index)), map.insert(prefix, hop(index))),
                    None => prop_assert_eq!(rib.remove(prefix), map.remove(&prefix)),
                }
                prop_assert_eq!(rib.len(), map.len());
            }
            prop_assert_eq!(rib.iter().collect::<Vec<_>>(), sorted(&map));
            let compact: Rib<u32> = rib.iter().collect();
            prop_assert_eq!(rib.memory_bytes(), compact.memory_bytes(), "nodes left over");
            for probe in probes {
                let best = |target: Prefix<u32>| {
                    map.iter().filter(|(p, _)| p.covers(target)).max_by_key(|(p, _)| p.len()).map(|(&p, &h)| (p, h))
                };
                prop_assert_eq!(rib.get(probe), map.get(&probe).copied());
                prop_assert_eq!(rib.covering(probe), best(probe));
                prop_assert_eq!(rib.lookup(probe.last()), best(Prefix::host(probe.last())));
                prop_assert_eq!(rib.lookup_hop(probe.last()), best(Prefix::host(probe.last())).map(|b| b.1));
                let under: Vec<_> = sorted(&map).into_iter().filter(|(p, _)| probe.covers(*p)).collect();
                prop_assert_eq!(rib.iter_under(probe).collect::<Vec<_>>(), under);
                let mut next = Some(probe.first());
                rib.ranges(probe, |first, last, hop| {
                    assert_eq!(Some(first), next);
                    assert!(first <= last && last <= probe.last());
                    for addr in [first, last, first + (last - first) / 2] {
                        assert_eq!(hop, rib.lookup_hop(addr));
                    }
                    next = last.checked_add(1);
                });
                prop_assert_eq!(next, probe.last().checked_add(1));
            }
        }
    }
}
