//! Interfaces as another process has them: what changed, and the same change here, with the same numbers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Interface, InterfaceCounts, InterfaceMap, Interfaces, Tags, Vrf};

/// What has become of an interface.
#[derive(Debug, Clone, PartialEq)]
pub struct InterfaceChange {
    /// Its number.
    pub number: u16,
    /// The port of the interface that has the number, or had it last.
    pub port: u16,
    /// Its tags.
    pub tags: Tags,
    /// The interface; `None` if it is not there any more.
    pub now: Option<Interface>,
}

/// Is told of changes before workers see them, and of the VRFs that there are then, by the numbers of their tables. No
/// other change can be made meanwhile: it must not ask the interfaces.
pub type InterfaceWatch = Box<dyn Fn(&[InterfaceChange], &[Arc<Vrf>]) + Send + Sync>;

/// What lasts longer than an interface.
#[derive(Default)]
pub(super) struct Known {
    /// Port and tags by number, also of interfaces that are gone.
    places: BTreeMap<u16, (u16, Tags)>,
    counts: HashMap<u16, Arc<InterfaceCounts>>,
    watch: Option<InterfaceWatch>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Known {
    fn change(&self, number: u16, now: Option<&Interface>) -> InterfaceChange {
        let place = now.map(|one| (one.port, one.tags)).or_else(|| self.places.get(&number).copied());
        let (port, tags) = place.unwrap_or_default();
        InterfaceChange { number, port, tags, now: now.cloned() }
    }
}

impl Interfaces {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `watch` told of all changes from now on, in place of whoever was told before. Returns the VRFs that there are.
    pub fn watch(&self, watch: Option<InterfaceWatch>) -> Vec<Arc<Vrf>> {
        let mut known = self.known();
        known.watch = watch;
        self.with(InterfaceMap::vrfs)
    }

    /// What every number stands for that an interface has, or has had; and the VRFs that there are, with what `note` says
    /// of each between two changes of interfaces.
    pub fn snapshot<N>(&self, note: impl FnOnce(Vec<Arc<Vrf>>) -> N) -> (Vec<InterfaceChange>, N) {
        let known = self.known();
        let all = self.with(|map| {
            let now = |number: &u16| known.change(*number, map.get((*number).into()));
            known.places.keys().map(now).collect()
        });
        (all, note(self.with(InterfaceMap::vrfs)))
    }

    /// The counters of a number: an interface that comes back goes on counting.
    pub fn counts_of(&self, number: u16) -> Arc<InterfaceCounts> {
        self.known().counts.entry(number).or_insert_with(|| self.counts()).clone()
    }

    /// Makes these, by number, all that there are; true if it is news to workers. There are [`MOST`](Self::MOST), further
    /// ones are left out.
    pub fn set(&self, mut all: Vec<Option<Interface>>) -> bool {
        all.truncate(Interfaces::MOST);
        let mut known = self.known();
        let changes: Vec<InterfaceChange> = self.with(|map| {
            let count = map.all.len().max(all.len());
            let pair = |number: usize| (map.all.get(number), all.get(number).and_then(Option::as_ref));
            let differs = (0..).take(count).filter(|number| {
                let (old, new) = pair(usize::from(*number));
                old.and_then(Option::as_ref) != new
            });
            differs.map(|number| known.change(number, pair(number.into()).1)).collect()
        });
        !changes.is_empty() && self.make(&mut known, all, &changes)
    }

    /// Makes these changes. What they say of interfaces that are not there is what their numbers stand for.
    pub fn change(&self, mut changes: Vec<InterfaceChange>) {
        changes.retain(|change| usize::from(change.number) < Interfaces::MOST);
        let mut known = self.known();
        let mut all = self.with(|map| map.all.clone());
        for change in &changes {
            let number = usize::from(change.number);
            all.resize_with(all.len().max(number + 1), || None);
            all[number].clone_from(&change.now);
        }
        self.make(&mut known, all, &changes);
    }

    fn make(&self, known: &mut Known, all: Vec<Option<Interface>>, changes: &[InterfaceChange]) -> bool {
        known.places.extend(changes.iter().map(|one| (one.number, (one.port, one.tags))));
        let new = InterfaceMap::new(all);
        if let Some(watch) = &known.watch {
            watch(changes, &new.vrfs());
        }
        self.map.replace(new);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::InterfaceSettings;
    use super::*;
    use std::sync::Mutex;

    fn interface(all: &Interfaces, port: u16, id: u16, vrf: Option<&Arc<Vrf>>) -> Option<Interface> {
        let tags = Tags::NONE.then(Tags::CUSTOMER, id).unwrap_or_default();
        let (name, counts) = (format!("{port}.{id}"), all.counts_of(id));
        Some(Interface {
            name,
            port,
            tags,
            mac: [2; 6],
            mtu: 1500,
            up: true,
            settings: InterfaceSettings::default(),
            vrf: vrf.cloned(),
            counts,
        })
    }

    #[test]
    fn interfaces_that_are_told_of_changes_become_the_same() {
        let (all, twin) = (Interfaces::new(1), Arc::new(Interfaces::new(1)));
        let vrfs_told = Arc::new(Mutex::new(Vec::new()));
        let (follower, note) = (twin.clone(), vrfs_told.clone());
        all.watch(Some(Box::new(move |changes, vrfs| {
            follower.change(changes.to_vec());
            note.lock().unwrap().push((changes.len(), vrfs.len()));
        })));
        let red = all.vrf("red", 10);
        let ports = [interface(&all, 0, 0, None), interface(&all, 1, 0, Some(&red))];
        let vlan = interface(&all, 1, 7, Some(&red));
        let lists = [
            vec![ports[0].clone(), ports[1].clone()],
            vec![ports[0].clone(), ports[1].clone(), vlan.clone()],
            vec![ports[0].clone(), None, vlan.clone()],
            // The same again, and nothing any more.
            vec![ports[0].clone(), None, vlan, None],
            vec![],
        ];
        for list in lists {
            all.set(list);
            let look = |of: &Interfaces| of.snapshot(|vrfs| vrfs.len());
            assert_eq!(look(&all), look(&twin));
            assert_eq!(
                all.with(|map| map.above(1, Tags::CUSTOMER, 7)),
                twin.with(|map| map.above(1, Tags::CUSTOMER, 7))
            );
        }
        assert_eq!(*vrfs_told.lock().unwrap(), [(2, 1), (1, 1), (1, 1), (2, 0)]);
        // Numbers keep their meaning, and their counters.
        let (places, vrfs) = all.snapshot(|vrfs| vrfs.len());
        let places: Vec<_> =
            places.iter().map(|one| format!("{} {} {}", one.number, one.port, one.tags)).collect();
        assert_eq!((places.join(", "), vrfs), ("0 0 -, 1 1 -, 2 1 7".to_owned(), 0));
        assert!(all.with(InterfaceMap::is_empty) && Arc::ptr_eq(&all.counts_of(2), &all.counts_of(2)));
    }

    #[test]
    fn numbers_beyond_the_most_are_left_out() {
        let all = Interfaces::unread();
        let change =
            |number| InterfaceChange { number, port: 0, tags: Tags::NONE, now: interface(&all, 0, 0, None) };
        all.change([Interfaces::MOST as u16, u16::MAX, 3].map(change).to_vec());
        assert_eq!(all.with(|map| map.iter().map(|(number, _)| number).collect::<Vec<_>>()), [3]);
    }
}
