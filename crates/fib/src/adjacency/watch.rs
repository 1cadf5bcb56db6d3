//! Adjacencies as another table has them: what changed, and all that there is at one moment.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{Adjacencies, Adjacency, AdjacencyChanges};
use crate::group::HopGroup;
use crate::next_hop::NextHop;

/// What is to change.
#[derive(Debug)]
pub enum AdjacencyEvent<'a> {
    /// See [`Adjacencies::change`].
    Changed(&'a AdjacencyChanges),
    /// The MTUs and the seed; see [`Adjacencies::set_links`].
    Links(&'a [u16], u32),
}

/// Is told of all changes, in their order, while no other can be made: it must not ask the adjacencies.
pub type AdjacencyWatch = Box<dyn Fn(AdjacencyEvent<'_>) + Send + Sync>;

/// All that is known at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdjacencySnapshot<N> {
    /// Of neighbours, in the order of [`Adjacencies::known`].
    pub adjacencies: Vec<(NextHop, Adjacency)>,
    /// Groups, in the same order.
    pub groups: Vec<(NextHop, HopGroup)>,
    /// Longest packet by output.
    pub mtus: Vec<u16>,
    /// The seed of choices in groups.
    pub seed: u32,
    /// What was asked for about this moment.
    pub note: N,
}

/// Whoever is told of changes.
#[derive(Default)]
pub(super) struct Watch(Mutex<Option<AdjacencyWatch>>);

impl Watch {
    /// To be called with the lock of what is known.
    pub(super) fn tell(&self, event: AdjacencyEvent<'_>) {
        if let Some(watch) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            watch(event);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Adjacencies {
    /// Has `watch` told of all changes from now on, in place of whoever was told before.
    pub fn watch(&self, watch: Option<AdjacencyWatch>) {
        let _known = self.lock();
        *self.watch.0.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// All that is known now. `note` is called at this moment, between two changes.
    pub fn snapshot<N>(&self, note: impl FnOnce() -> N) -> AdjacencySnapshot<N> {
        let known = self.lock();
        let mut adjacencies: Vec<_> =
            known.adjacencies.iter().map(|(hop, adjacency)| (*hop, *adjacency)).collect();
        let mut groups: Vec<_> =
            known.groups.iter().map(|(hop, group)| (*hop, HopGroup::clone(group))).collect();
        adjacencies.sort_unstable_by_key(|(hop, _)| (hop.port, hop.gateway));
        groups.sort_unstable_by_key(|(hop, _)| (hop.port, hop.gateway));
        AdjacencySnapshot { adjacencies, groups, mtus: known.mtus.clone(), seed: known.seed, note: note() }
    }

    /// Numbers of next hops have got another meaning, or there are more. `hops` are the table's next hops by number.
    pub fn renumber(&self, hops: &[NextHop]) {
        let known = self.lock();
        self.publish(&known, hops);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use epoch::Reader;

    use super::*;
    use crate::next_hop::NextHopId;

    #[test]
    fn what_is_told_makes_the_same() {
        let (all, twin) = (Adjacencies::default(), Arc::new(Adjacencies::default()));
        let follower = twin.clone();
        all.watch(Some(Box::new(move |event| match event {
            AdjacencyEvent::Changed(changes) => follower.change(changes.clone(), &[]),
            AdjacencyEvent::Links(mtus, seed) => follower.set_links(mtus, seed, &[]),
        })));
        let hop = |port| NextHop { gateway: None, port };
        let adjacency = Adjacency { header: [7; 14], output: 3 };
        let group = HopGroup::new(4, &[(NextHopId::MIN, 1)]).unwrap();
        all.change(
            AdjacencyChanges {
                adjacencies: vec![(hop(1), Some(adjacency)), (hop(2), Some(adjacency)), (hop(1), None)],
                groups: vec![(hop(9), Some(group.clone()))],
            },
            &[],
        );
        all.set_links(&[1500], 77, &[]);
        let expected = AdjacencySnapshot {
            adjacencies: vec![(hop(2), adjacency)],
            groups: vec![(hop(9), group)],
            mtus: vec![1500],
            seed: 77,
            note: 'x',
        };
        assert_eq!(all.snapshot(|| 'x'), expected);
        assert_eq!(twin.snapshot(|| 'x'), expected);
        let reader = Reader::new();
        twin.renumber(&[hop(1), hop(2)]);
        assert_eq!(twin.read(&reader).list()[2], adjacency);
        // A number is given to another.
        twin.renumber(&[hop(2), hop(1)]);
        assert_eq!(twin.read(&reader).list()[1..], [adjacency, Adjacency::UNRESOLVED]);
        all.watch(None);
        all.set_links(&[], 0, &[]);
        assert_eq!(twin.snapshot(|| 'x'), expected);
    }
}
