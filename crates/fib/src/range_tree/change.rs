//! Following one changed prefix: which part of the tree is made anew.

use super::build::{Builder, Place, host_mask};
use super::node::{FAN, STAGE};
use super::tree::{Full, key};
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;

/// A part with up to this many ranges is made anew as a whole: small enough to take microseconds, large enough to
/// keep nodes full.
const PART: usize = 48;

impl<'t, A: Address> Builder<'t, A> {
    /// Follows a change of the routes of `prefix`.
    pub fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        let (_, bits) = self.tree.slots.of(prefix.first());
        if u32::from(prefix.len()) <= bits {
            return self.fill(rib, prefix);
        }
        let path = self.path(prefix);
        let small = path.iter().rposition(|place| self.tree.count(place.cell.load(), PART) > PART);
        let mut at = path.len().min(small.map_or(0, |large| large + 1));
        // A wide prefix may have no small place.
        at = at.min(path.len() - 1);
        let before = self.tree.depth(path[at].cell.load());
        let entry = self.derive(rib, path[at].first, path[at].last, path[at].offset)?;
        let depth = self.tree.depth(entry);
        self.tree.replace(path[at].cell, entry, self.free);
        if depth > before {
            self.balance(rib, &path[..at], depth)?;
        }
        Ok(())
    }

    /// Places from a direct entry down to the last one through which all addresses of `prefix` go.
    fn path(&self, prefix: Prefix<A>) -> Vec<Place<'t, A>> {
        let (slot, bits) = self.tree.slots.of(prefix.first());
        let inner = host_mask::<A>(bits);
        let (first, last) = (prefix.first(), prefix.last());
        let mut place =
            Place { cell: &self.tree.direct[slot], first: first & !inner, last: first | inner, offset: bits };
        let mut path = vec![place];
        loop {
            let entry = place.cell.load();
            if entry.is_leaf() {
                return path;
            }
            let offset = place.offset + if entry.is_deeper() { STAGE } else { 0 };
            let node = &self.tree.nodes[entry.number() as usize];
            let rank = node.rank(key(first, offset));
            if rank != node.rank(key(last, offset)) {
                return path;
            }
            let inner = host_mask::<A>(offset + STAGE);
            // The addresses whose keys have this value, of which the place has the last.
            let value = |key: u32| {
                let shift = A::BITS.saturating_sub(offset + STAGE);
                let cut = (offset + STAGE).saturating_sub(A::BITS);
                let own = A::from_low_bits(u128::from(key >> cut)) << shift;
                (place.first & !host_mask::<A>(offset)) | own | inner
            };
            let last = if node.key(rank) == node.key(FAN - 1) { place.last } else { value(node.key(rank)) };
            let first = if rank == 0 { place.first } else { value(node.key(rank - 1)).next() };
            place = Place { cell: node.entry(rank), first, last, offset };
            path.push(place);
        }
    }

    /// After a place below the last of `path` has grown to `depth` levels: makes the lowest place anew that is much
    /// deeper than it need be.
    fn balance(&mut self, rib: &Rib<A>, path: &[Place<'t, A>], depth: u32) -> Result<(), Full> {
        let mut depth = depth;
        for place in path.iter().rev() {
            depth += 1;
            let entry = place.cell.load();
            let count = self.tree.count(entry, usize::MAX);
            let needed = count.ilog(FAN) + 1;
            if depth > needed + 1 {
                let entry = self.derive(rib, place.first, place.last, place.offset)?;
                self.tree.replace(place.cell, entry, self.free);
                return Ok(());
            }
        }
        Ok(())
    }
}
