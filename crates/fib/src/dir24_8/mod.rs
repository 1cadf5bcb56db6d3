//! DIR-24-8: one leaf for each /24, one group of 256 for each /24 that is cut further; runs of equal leaves share one.
//!
//! P. Gupta, S. Lin, N. McKeown, "Routing lookups in hardware at memory access speeds", INFOCOM 1998.
//!
//! ```text
//!  address  a.b.c.d ── node of the /19 (32 bits: where runs begin; 32 bits: where its leaves are)
//!                         └─ leaves[first + ones up to the /24's bit] ── hop
//!                               └─ group ── groups[group][d] ── hop         for prefixes longer than /24
//! ```

mod paint;
mod runs;
mod store;

use std::sync::atomic::{AtomicU16, AtomicU32};
use std::sync::{Mutex, PoisonError};

use epoch::{Reader, Table};

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Prefix, Prefix4};
use crate::rib::Rib;

use paint::Painter;
use runs::{Leaf, Levels};
use store::{Misfit, Store};

/// With more changes than this at once, going over everything is quicker than going to each.
const MANY_CHANGES: usize = 4096;
/// Leaves of an empty table.
const FEWEST_LEAVES: usize = 1 << 16;

/// DIR-24-8 for IPv4, changed in place.
pub struct Dir24_8 {
    width: Table<Width>,
}

enum Width {
    Narrow(Blocks<AtomicU16>),
    Wide(Blocks<AtomicU32>),
}

impl Default for Dir24_8 {
    fn default() -> Self {
        Dir24_8::new()
    }
}

impl Dir24_8 {
    /// A table without routes; allocates 4 MiB.
    pub fn new() -> Dir24_8 {
        Dir24_8 { width: Table::new(Width::Narrow(Blocks::new(FEWEST_LEAVES))) }
    }

    /// The table of these routes.
    pub fn build(rib: &Rib<u32>) -> Dir24_8 {
        Dir24_8 { width: Table::new(Width::build(rib, false)) }
    }
}

impl Fib<u32> for Dir24_8 {
    #[inline]
    fn lookup(&self, reader: &Reader, addr: u32) -> Option<NextHopId> {
        NextHopId::from_bits(match self.width.read(reader) {
            Width::Narrow(blocks) => blocks.levels.lookup(addr),
            Width::Wide(blocks) => blocks.levels.lookup(addr),
        })
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        match self.width.read(reader) {
            Width::Narrow(blocks) => blocks.levels.lookup_batch(addrs, hops),
            Width::Wide(blocks) => blocks.levels.lookup_batch(addrs, hops),
        }
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) {
        let all = [Prefix4::default()];
        let changed = if changed.len() > MANY_CHANGES { &all } else { changed };
        let (fits, wide) = self.width.with(|width| match width {
            Width::Narrow(blocks) => (blocks.update(rib, changed), false),
            Width::Wide(blocks) => (blocks.update(rib, changed), true),
        });
        if let Err(misfit) = fits {
            self.width.replace(Width::build(rib, wide || misfit == Misfit::Narrow));
        }
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.width.with(|width| match width {
            Width::Narrow(blocks) => blocks.levels.memory(),
            Width::Wide(blocks) => blocks.levels.memory(),
        })
    }
}

impl Width {
    /// The table of these routes, in narrow leaves if they suffice and `wide` is false.
    fn build(rib: &Rib<u32>, mut wide: bool) -> Width {
        // A route adds at most three leaves, so this leaves room for changes.
        let mut leaves = FEWEST_LEAVES.max(4 * rib.len());
        loop {
            let misfit = if wide {
                match Blocks::build(rib, leaves) {
                    Ok(blocks) => return Width::Wide(blocks),
                    Err(misfit) => misfit,
                }
            } else {
                match Blocks::build(rib, leaves) {
                    Ok(blocks) => return Width::Narrow(blocks),
                    Err(misfit) => misfit,
                }
            };
            match misfit {
                Misfit::Narrow => wide = true,
                Misfit::Full => leaves *= 2,
            }
        }
    }
}

/// The levels, and what the writer knows beside them.
struct Blocks<L> {
    levels: Levels<L>,
    /// Only the one writer locks this.
    store: Mutex<Store>,
}

impl<L: Leaf> Blocks<L> {
    fn new(leaves: usize) -> Blocks<L> {
        Blocks { levels: Levels::new(leaves), store: Mutex::new(Store::new()) }
    }

    fn build(rib: &Rib<u32>, leaves: usize) -> Result<Blocks<L>, Misfit> {
        let blocks = Blocks::new(leaves);
        blocks.update(rib, &[Prefix4::default()])?;
        Ok(blocks)
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) -> Result<(), Misfit> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        for prefix in changed {
            let area = Prefix::truncated(prefix.first(), prefix.len().min(24));
            let mut painter = Painter::new(&self.levels, &mut store);
            let mut result = Ok(());
            rib.ranges(area, |first, last, hop| {
                if result.is_ok() {
                    result = painter.paint(first, last, NextHopId::bits(hop));
                }
            });
            result.and_then(|()| painter.finish())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use epoch::ticket;

    use super::*;

    fn hop(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    fn addr(text: &str) -> u32 {
        text.parse::<Prefix4>().unwrap().first()
    }

    /// Groups ever used, and groups out of use.
    fn groups(dir: &Dir24_8) -> (u32, usize) {
        let count = |store: &Mutex<Store>| {
            let store = store.lock().unwrap();
            (store.fresh_group, store.idle_groups())
        };
        dir.width.with(|width| match width {
            Width::Narrow(blocks) => count(&blocks.store),
            Width::Wide(blocks) => count(&blocks.store),
        })
    }

    #[test]
    fn a_group_comes_goes_and_is_used_again_only_after_the_readers() {
        let dir = Dir24_8::new();
        let mut rib = Rib::new();
        let mut reader = Reader::new();
        let set = |rib: &mut Rib<u32>, text: &str, to: Option<u32>| {
            let prefix = text.parse().unwrap();
            match to {
                Some(index) => rib.insert(prefix, hop(index)),
                None => rib.remove(prefix),
            };
            dir.update(rib, &[prefix]);
        };
        set(&mut rib, "10.0.0.0/8", Some(0));
        set(&mut rib, "10.0.0.128/25", Some(1));
        assert_eq!(groups(&dir), (1, 0));
        assert_eq!(dir.lookup(&reader, addr("10.0.0.127")), Some(hop(0)));
        assert_eq!(dir.lookup(&reader, addr("10.0.0.128")), Some(hop(1)));
        set(&mut rib, "10.0.0.128/25", None);
        assert_eq!((groups(&dir), dir.lookup(&reader, addr("10.0.0.128"))), ((1, 1), Some(hop(0))));
        // Whatever comes and goes, the group stays out of use as long as the reader may look at it.
        for _ in 0..1000 {
            set(&mut rib, "10.0.1.1/32", Some(2));
            set(&mut rib, "10.0.1.1/32", None);
        }
        assert_eq!(groups(&dir), (1001, 1001));
        reader.quiescent();
        // Other tests of this process have readers too, which come and go.
        let now = ticket();
        while !now.passed() {
            reader.quiescent();
        }
        for _ in 0..1000 {
            set(&mut rib, "10.0.1.1/32", Some(2));
            set(&mut rib, "10.0.1.1/32", None);
        }
        let (ever, idle) = groups(&dir);
        assert!(ever < 1200 && idle == ever as usize, "{ever} {idle}");
        set(&mut rib, "10.0.1.1/32", Some(2));
        set(&mut rib, "10.0.2.1/32", Some(3));
        let all = ["10.0.0.255", "10.0.1.0", "10.0.1.1", "10.0.2.1", "11.0.0.0"].map(addr);
        let mut hops = [None; 5];
        dir.lookup_batch(&reader, &all, &mut hops);
        assert_eq!(hops, [Some(hop(0)), Some(hop(0)), Some(hop(2)), Some(hop(3)), None]);
    }

    #[test]
    fn it_widens_for_the_next_hop_that_does_not_fit() {
        let dir = Dir24_8::new();
        let reader = Reader::new();
        let mut rib = Rib::new();
        for (last_octet, index, wide) in [(1, 32_766, false), (2, 32_767, true), (3, 1 << 24, true)] {
            let prefix = Prefix::host(last_octet);
            rib.insert(prefix, hop(index));
            dir.update(&rib, &[prefix]);
            assert_eq!(dir.lookup(&reader, last_octet), Some(hop(index)));
            assert_eq!(dir.width.with(|width| matches!(width, Width::Wide(_))), wide);
        }
        assert_eq!(dir.lookup(&reader, 1), Some(hop(32_766)));
    }

    #[test]
    fn it_widens_when_groups_run_out() {
        let dir = Dir24_8::new();
        let reader = Reader::new();
        let mut rib = Rib::new();
        let hosts = (1 << 15) + 1;
        for block in 0..hosts {
            rib.insert(Prefix::host(block << 8 | 7), hop(block & 3));
        }
        dir.update(&rib, &[Prefix::default()]);
        assert!(dir.width.with(|width| matches!(width, Width::Wide(_))));
        assert_eq!(groups(&dir), (hosts, 0));
        for block in 0..hosts {
            assert_eq!(dir.lookup(&reader, block << 8 | 7), Some(hop(block & 3)));
            assert_eq!(dir.lookup(&reader, block << 8), None);
        }
    }
}
