//! DIR-24-8: one array entry for each /24, one group of 256 entries for each /24 that is cut further.
//!
//! P. Gupta, S. Lin, N. McKeown, "Routing lookups in hardware at memory access speeds", INFOCOM 1998.
//!
//! ```text
//!  address  a.b.c.d ── first[a.b.c] ── hop                     one memory access
//!                            └─ group ── groups[group][d] ── hop   for prefixes longer than /24
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use epoch::{Reader, Table, Ticket, on_large_pages, ticket};

use crate::lookup::{Fib, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::{Prefix, Prefix4};
use crate::rib::Rib;

/// Entries of the first level: one for each /24.
const BLOCKS: usize = 1 << 24;
/// Groups are allocated in chunks, which never move: readers need no notice of growth.
const CHUNK: u32 = 1 << 10;
/// With more changes than this at once, going over the whole array is quicker than going to each.
const MANY_CHANGES: usize = 4096;

/// DIR-24-8 for IPv4, changed in place.
///
/// Entries take 2 bytes (32 MiB, groups of 512 bytes) as long as there are fewer than 32,767 next hops and 32,768
/// groups, else 4 bytes (64 MiB, groups of 1 KiB): the table is then rebuilt once, beside the old one, and stays
/// wide. An update costs time in proportion to the number of /24s under the changed prefix.
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
    /// A table without routes; allocates 32 MiB.
    pub fn new() -> Dir24_8 {
        Dir24_8 { width: Table::new(Width::Narrow(Blocks::new())) }
    }

    /// The table of these routes.
    pub fn build(rib: &Rib<u32>) -> Dir24_8 {
        let dir = Dir24_8::new();
        dir.update(rib, &[Prefix4::default()]);
        dir
    }
}

impl Fib<u32> for Dir24_8 {
    #[inline]
    fn lookup(&self, reader: &Reader, addr: u32) -> Option<NextHopId> {
        NextHopId::from_bits(match self.width.read(reader) {
            Width::Narrow(blocks) => blocks.lookup(addr),
            Width::Wide(blocks) => blocks.lookup(addr),
        })
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        match self.width.read(reader) {
            Width::Narrow(blocks) => blocks.lookup_batch(addrs, hops),
            Width::Wide(blocks) => blocks.lookup_batch(addrs, hops),
        }
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) {
        let all = [Prefix4::default()];
        let changed = if changed.len() > MANY_CHANGES { &all } else { changed };
        let fits = self.width.with(|width| match width {
            Width::Narrow(blocks) => blocks.update(rib, changed),
            Width::Wide(blocks) => blocks.update(rib, changed),
        });
        if fits.is_err() {
            let wide = Blocks::new();
            // Wide entries hold every number of a next hop, and more groups than there are /24s.
            let fits = wide.update(rib, &all);
            debug_assert!(fits.is_ok());
            self.width.replace(Width::Wide(wide));
        }
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.width.with(|width| match width {
            Width::Narrow(blocks) => blocks.memory(),
            Width::Wide(blocks) => blocks.memory(),
        })
    }
}

/// An entry: the bits of an `Option<NextHopId>`, or [`GROUP`](Entry::GROUP) and the number of a group.
trait Entry: Default + Send + Sync {
    const GROUP: u32;
    /// Numbers of groups are below this.
    const GROUPS: u32;
    fn load(&self) -> u32;
    /// A release store: a reader that sees the entry and then fences sees what was written before.
    fn store(&self, bits: u32);
}

impl Entry for AtomicU16 {
    const GROUP: u32 = 1 << 15;
    const GROUPS: u32 = 1 << 15;

    #[inline]
    fn load(&self) -> u32 {
        u32::from(self.load(Ordering::Relaxed))
    }

    fn store(&self, bits: u32) {
        debug_assert!(bits <= u32::from(u16::MAX));
        self.store(bits as u16, Ordering::Release);
    }
}

impl Entry for AtomicU32 {
    const GROUP: u32 = 1 << 31;
    /// Twice the number of /24s: as many may wait to be used again as are in use.
    const GROUPS: u32 = 1 << 25;

    #[inline]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    fn store(&self, bits: u32) {
        self.store(bits, Ordering::Release);
    }
}

/// The next hops of one /24.
type Group<E> = [E; 256];
/// Groups that are allocated together.
type Chunk<E> = Box<[Group<E>]>;

/// The two levels.
struct Blocks<E> {
    first: Box<[E; BLOCKS]>,
    chunks: Box<[OnceLock<Chunk<E>>]>,
    /// Only the one writer locks this.
    groups: Mutex<Groups>,
}

/// Which groups are in use.
#[derive(Default)]
struct Groups {
    /// Groups from this one on have never been used.
    fresh: u32,
    /// Groups out of use; one can be used again when no reader looks at it any more.
    free: VecDeque<(Ticket, u32)>,
}

/// Entries of this width do not suffice.
#[derive(Debug)]
struct TooNarrow;

impl Groups {
    fn allocate(&mut self, limit: u32) -> Result<u32, TooNarrow> {
        if let Some(&(ticket, group)) = self.free.front()
            && ticket.passed()
        {
            self.free.pop_front();
            return Ok(group);
        }
        if self.fresh == limit {
            return Err(TooNarrow);
        }
        self.fresh += 1;
        Ok(self.fresh - 1)
    }
}

impl<E: Entry> Blocks<E> {
    fn new() -> Blocks<E> {
        #[expect(clippy::expect_used, reason = "the slice was made with this length")]
        let first = on_large_pages(BLOCKS).try_into().ok().expect("one entry for each /24");
        Blocks {
            first,
            chunks: (0..E::GROUPS / CHUNK).map(|_| OnceLock::new()).collect(),
            groups: Mutex::default(),
        }
    }

    #[inline]
    fn lookup(&self, addr: u32) -> u32 {
        let bits = self.first[(addr >> 8) as usize].load();
        if bits & E::GROUP == 0 { bits } else { self.lookup_group(bits, addr) }
    }

    fn lookup_batch(&self, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        // A first pass without branches, so that the processor has many loads under way at once.
        let mut seen = 0;
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            let bits = self.first[(addr >> 8) as usize].load();
            seen |= bits;
            *hop = NextHopId::from_bits(bits);
        }
        if seen & E::GROUP == 0 {
            return;
        }
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            let bits = NextHopId::bits(*hop);
            if bits & E::GROUP != 0 {
                *hop = NextHopId::from_bits(self.lookup_group(bits, addr));
            }
        }
    }

    /// The bits that the group named by `entry` has for `addr`.
    #[inline(never)]
    fn lookup_group(&self, entry: u32, addr: u32) -> u32 {
        // The entry was stored after the group was filled.
        fence(Ordering::Acquire);
        self.group(entry & !E::GROUP).map_or(0, |group| group[(addr & 255) as usize].load())
    }

    #[inline]
    fn group(&self, number: u32) -> Option<&Group<E>> {
        self.chunks.get((number / CHUNK) as usize)?.get()?.get((number % CHUNK) as usize)
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) -> Result<(), TooNarrow> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        for prefix in changed {
            let area = Prefix::truncated(prefix.first(), prefix.len().min(24));
            let mut painter = Painter { blocks: self, groups: &mut groups, values: [0; 256] };
            let mut result = Ok(());
            rib.ranges(area, |first, last, hop| {
                if result.is_ok() {
                    result = painter.paint(first, last, NextHopId::bits(hop));
                }
            });
            result?;
        }
        Ok(())
    }

    fn memory(&self) -> Vec<MemoryPart> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&chunk[..]));
        let bytes = chunks.sum::<usize>() + size_of_val(&self.chunks[..]);
        vec![MemoryPart::of("entries", &self.first[..]), MemoryPart { part: "groups", bytes }]
    }
}

/// Takes ranges of addresses with their next hops, in order and without gaps, and writes each entry once, with
/// its final value, if it has changed.
struct Painter<'b, E> {
    blocks: &'b Blocks<E>,
    groups: &'b mut Groups,
    /// The next hops of the /24 that is being cut.
    values: [u32; 256],
}

impl<E: Entry> Painter<'_, E> {
    fn paint(&mut self, first: u32, last: u32, bits: u32) -> Result<(), TooNarrow> {
        if bits >= E::GROUP {
            return Err(TooNarrow);
        }
        let mut at = first;
        loop {
            let end = last.min(at | 255);
            let (from, to) = ((at & 255) as usize, (end & 255) as usize);
            if (from, to) == (0, 255) {
                self.set_block(at >> 8, bits);
            } else {
                self.values[from..=to].fill(bits);
                if to == 255 {
                    self.set_cut_block(at >> 8)?;
                }
            }
            if end == last {
                return Ok(());
            }
            at = end + 1;
        }
    }

    fn set_block(&mut self, block: u32, bits: u32) {
        let entry = &self.blocks.first[block as usize];
        let old = entry.load();
        if old == bits {
            return;
        }
        entry.store(bits);
        if old & E::GROUP != 0 {
            self.groups.free.push_back((ticket(), old & !E::GROUP));
        }
    }

    /// Sets the next hops of a /24 to `values`.
    fn set_cut_block(&mut self, block: u32) -> Result<(), TooNarrow> {
        if self.values.iter().all(|&bits| bits == self.values[0]) {
            self.set_block(block, self.values[0]);
            return Ok(());
        }
        let entry = &self.blocks.first[block as usize];
        let old = entry.load();
        if old & E::GROUP != 0 {
            self.fill(old & !E::GROUP);
            return Ok(());
        }
        let group = self.groups.allocate(E::GROUPS)?;
        self.fill(group);
        entry.store(E::GROUP | group);
        Ok(())
    }

    fn fill(&self, number: u32) {
        let chunk = self.blocks.chunks[(number / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| std::array::from_fn(|_| E::default())).collect());
        for (cell, &bits) in chunk[(number % CHUNK) as usize].iter().zip(&self.values) {
            if cell.load() != bits {
                cell.store(bits);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    fn addr(text: &str) -> u32 {
        text.parse::<Prefix4>().unwrap().first()
    }

    /// Groups ever used, and groups out of use.
    fn groups(dir: &Dir24_8) -> (u32, usize) {
        let count = |groups: &Mutex<Groups>| {
            let groups = groups.lock().unwrap();
            (groups.fresh, groups.free.len())
        };
        dir.width.with(|width| match width {
            Width::Narrow(blocks) => count(&blocks.groups),
            Width::Wide(blocks) => count(&blocks.groups),
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
        set(&mut rib, "10.0.1.1/32", Some(2));
        assert_eq!(groups(&dir), (2, 1));
        reader.quiescent();
        // Other tests of this process have readers too, which come and go.
        let now = ticket();
        while !now.passed() {
            reader.quiescent();
        }
        set(&mut rib, "10.0.2.1/32", Some(3));
        assert_eq!(groups(&dir), (2, 0));
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
        let total = |dir: &Dir24_8| dir.memory().iter().map(|part| part.bytes).sum::<usize>();
        for (last_octet, index, mebibytes) in [(1, 32_766, 32), (2, 32_767, 64), (3, 1 << 24, 64)] {
            let prefix = Prefix::host(last_octet);
            rib.insert(prefix, hop(index));
            dir.update(&rib, &[prefix]);
            assert_eq!(dir.lookup(&reader, last_octet), Some(hop(index)));
            assert_eq!(total(&dir) >> 20, mebibytes + usize::from(mebibytes == 64));
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
