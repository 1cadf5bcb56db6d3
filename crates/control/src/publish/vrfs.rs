//! Routes of VRFs: each has tables of its own, with the next hops, neighbours and groups that all share.

use super::groups::Wanted;
use super::interfaces::VrfState;
use super::paths::View;
use super::{Counts, Half, Tables};
use epoch::Reader;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// What one publication knows.
pub struct Round<'a> {
    pub tables: &'a Tables,
    pub view: &'a View<'a>,
    /// Every route may have changed.
    pub all: bool,
    /// So many prefixes of a VRF are looked at, unless it is new.
    pub most: usize,
    /// Neighbours that have.
    pub neighbours: &'a HashSet<(u32, IpAddr)>,
}

impl Round<'_> {
    /// Publishes the routes of all VRFs. True if there is more to do.
    pub fn publish(
        &self,
        vrfs: &mut BTreeMap<u32, VrfState>,
        wanted: &mut Wanted,
        reader: &mut Reader,
        counts: &mut Counts,
    ) -> bool {
        for (table, state) in &mut *vrfs {
            let (view, all) = (self.view.of_table(*table), self.all || state.fresh);
            // Nobody looks anything up there before everything is there.
            let most = if state.fresh { usize::MAX } else { self.most };
            state.fresh = false;
            let vrf = Some(&*state.vrf);
            let mut half = Half::of4(self.tables, vrf, &mut state.dirty4, wanted);
            half.widen(&view, all, self.neighbours, 0);
            half.routes(&view, most, reader, counts);
            let mut half = Half::of6(self.tables, vrf, &mut state.dirty6, wanted);
            half.widen(&view, all, self.neighbours, 0);
            half.routes(&view, most, reader, counts);
        }
        vrfs.values().any(|state| !state.dirty4.is_empty() || !state.dirty6.is_empty())
    }

    /// Gives back what routes of VRFs had that are gone.
    pub fn forget(&self, gone: &[VrfState]) {
        for VrfState { vrf, .. } in gone {
            let (mut none4, mut none6) = (Wanted::new(), Wanted::new());
            Half::of4(self.tables, Some(vrf), &mut Vec::new(), &mut none4).give_back_all(self.view);
            Half::of6(self.tables, Some(vrf), &mut Vec::new(), &mut none6).give_back_all(self.view);
        }
    }
}
