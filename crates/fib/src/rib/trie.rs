//! A path-compressed binary trie, shared between its clones as far as they agree.

use std::sync::Arc;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};

use super::Wanted;

/// The topmost node, if there is a route.
pub(super) type Root<A> = Option<Arc<Node<A>>>;

/// A prefix that has a route or at which two branches part. Children are longer and begin with `prefix`;
/// child 1 is the one whose next bit is set.
#[derive(Clone)]
pub(super) struct Node<A> {
    prefix: Prefix<A>,
    hop: Option<NextHopId>,
    children: [Root<A>; 2],
}

impl<A: Address> Node<A> {
    fn leaf(prefix: Prefix<A>, hop: NextHopId) -> Node<A> {
        Node { prefix, hop: Some(hop), children: [None, None] }
    }

    fn child(&self, upper: bool) -> Option<&Node<A>> {
        self.children[usize::from(upper)].as_deref()
    }

    fn has_children(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }
}

/// Adds or replaces the route of `prefix`; returns the next hop that it had.
pub(super) fn insert<A: Address>(
    mut slot: &mut Root<A>,
    prefix: Prefix<A>,
    hop: NextHopId,
) -> Option<NextHopId> {
    // Down to the node of `prefix`, or to where it belongs.
    while let Some(at) = slot.as_ref().map(|node| node.prefix) {
        let common = at.common(prefix);
        if common.len() < at.len() {
            let old = slot.take();
            *slot = Some(Arc::new(join(common, old, prefix, hop)));
            return None;
        }
        let Some(node) = slot else { break };
        let node = Arc::make_mut(node);
        if at == prefix {
            return node.hop.replace(hop);
        }
        slot = &mut node.children[usize::from(prefix.first().bit(at.len()))];
    }
    *slot = Some(Arc::new(Node::leaf(prefix, hop)));
    None
}

/// The node at `common` that takes the place of `old` and has the new route at or below it.
fn join<A: Address>(common: Prefix<A>, old: Root<A>, prefix: Prefix<A>, hop: NextHopId) -> Node<A> {
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
pub(super) fn remove<A: Address>(slot: &mut Root<A>, prefix: Prefix<A>) {
    let Some(node) = slot else { return };
    let node = Arc::make_mut(node);
    if node.prefix == prefix {
        node.hop = None;
    } else {
        remove(&mut node.children[usize::from(prefix.first().bit(node.prefix.len()))], prefix);
    }
    if node.hop.is_none() {
        match &mut node.children {
            [Some(_), Some(_)] => {}
            [lower, upper] => *slot = lower.take().or(upper.take()),
        }
    }
}

/// The next hop of exactly this prefix.
pub(super) fn get<A: Address>(root: Option<&Node<A>>, prefix: Prefix<A>) -> Option<NextHopId> {
    let mut node = root?;
    while node.prefix.len() < prefix.len() && node.prefix.covers(prefix) {
        node = node.child(prefix.first().bit(node.prefix.len()))?;
    }
    if node.prefix == prefix { node.hop } else { None }
}

/// The next hop of the longest prefix that contains `addr`.
#[inline]
pub(super) fn lookup_hop<A: Address>(root: Option<&Node<A>>, addr: A) -> Option<NextHopId> {
    let mut best = None;
    let mut next = root;
    while let Some(node) = next
        && node.prefix.contains(addr)
    {
        best = node.hop.or(best);
        next = node.child(addr.bit(node.prefix.len()));
    }
    best
}

/// The route with the longest prefix that covers `prefix` (perhaps its own).
pub(super) fn covering<A: Address>(
    root: Option<&Node<A>>,
    prefix: Prefix<A>,
) -> Option<(Prefix<A>, NextHopId)> {
    let mut best = None;
    let mut next = root;
    while let Some(node) = next
        && node.prefix.covers(prefix)
    {
        best = node.hop.map(|hop| (node.prefix, hop)).or(best);
        next = node.child(prefix.first().bit(node.prefix.len()));
    }
    best
}

/// The topmost node covered by `prefix`, and the next hop that addresses in `prefix` inherit from routes with
/// shorter prefixes.
pub(super) fn under<A: Address>(
    root: Option<&Node<A>>,
    prefix: Prefix<A>,
) -> (Option<NextHopId>, Option<&Node<A>>) {
    let mut inherited = None;
    let mut next = root;
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

/// Cuts `area` into ranges of addresses that share a next hop, in order and without gaps but for those that are not
/// `wanted`; `node` is the topmost one that `area` covers.
pub(super) fn cut<A: Address>(
    area: Prefix<A>,
    node: Option<&Node<A>>,
    inherited: Option<NextHopId>,
    wanted: Wanted<A>,
    each: &mut impl FnMut(A, A, Option<NextHopId>),
) {
    if wanted.is_beside(area) {
        return;
    }
    let Some(node) = node else {
        each(area.first(), area.last(), inherited);
        return;
    };
    let (part, whole) = wanted.part(area, node.prefix);
    let (first, last) = (part.first(), part.last());
    if area.first() < first {
        each(area.first(), first.previous(), inherited);
    }
    let hop = node.hop.or(inherited);
    if whole {
        cut(part, Some(node), inherited, wanted.all(), each);
    } else if node.hop.is_some() && !wanted.decided_by(node.prefix) {
        // Another route decides here.
    } else if node.has_children() {
        for upper in [false, true] {
            cut(node.prefix.half(upper), node.child(upper), hop, wanted, each);
        }
    } else {
        each(first, last, hop);
    }
    if last < area.last() {
        each(last.next(), area.last(), inherited);
    }
}

/// The number of nodes.
pub(super) fn count<A: Address>(root: Option<&Node<A>>) -> usize {
    let mut count = 0;
    let mut stack: Vec<_> = root.into_iter().collect();
    while let Some(node) = stack.pop() {
        count += 1;
        stack.extend(node.children.iter().flatten().map(Arc::as_ref));
    }
    count
}

/// The routes below a node, in order.
pub(super) struct Routes<'r, A> {
    stack: Vec<&'r Node<A>>,
}

impl<'r, A> Routes<'r, A> {
    pub fn new(root: Option<&'r Node<A>>) -> Routes<'r, A> {
        Routes { stack: root.into_iter().collect() }
    }
}

impl<A: Address> Iterator for Routes<'_, A> {
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
