//! DIR-24-8: one array entry for each /24, one group of 256 entries for each /24 that is cut further.
//!
//! P. Gupta, S. Lin, N. McKeown, "Routing lookups in hardware at memory access speeds", INFOCOM 1998.
//!
//! ```text
//!  address  a.b.c.d ── first[a.b.c] ── hop                     one memory access
//!                            └─ cut ── numbers{a.b.c} ── groups[number][d] ── hop   for prefixes longer than /24
//! ```

mod blocks;
mod entries;
mod paint;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};
use std::sync::{Mutex, PoisonError};

use epoch::{Padded, Reader, Table};

use crate::lookup::{Fib, FirstLevel, MemoryPart};
use crate::next_hop::NextHopId;
use crate::prefix::Prefix4;
use crate::rib::Rib;
use crate::structure::Structure;

use blocks::Blocks;
use entries::{Entries, Nibbles, Whole};
use paint::{Groups, Misfit, Painter};

/// With more changes than this at once, going over the whole array is quicker than going to each.
const MANY_CHANGES: usize = 4096;

/// So many changes ahead, memory is asked for.
const AHEAD: usize = 4;

/// DIR-24-8 for IPv4, changed in place.
///
/// Entries are as narrow as the next hops allow:
///
/// | bytes | distinct next hops | first level | group |
/// |---|---|---|---|
/// | ½ | up to 14 | 8 MiB | 256 bytes |
/// | 1 | up to 254 | 16 MiB | 256 bytes |
/// | 2 | up to 65,534 | 32 MiB | 512 bytes |
/// | 4 | any number | 64 MiB | 1 KiB |
///
/// For the next hop that does not fit, the table is rebuilt once, beside the old one, and stays as wide. An update
/// costs time in proportion to the number of /24s that the changed prefix decides.
///
/// Figures for the full table of 901,899 prefixes and 64 next hops (1 byte), batches of 64, beside the best of `rte_fib`
/// (2 bytes, AVX-512) and `rte_lpm` in the same process: medians, `cargo bench -p dpdk --bench lookups`, EPYC of Zen 4,
/// one core of two, both used by other programs as well:
///
/// | | M lookups/s | ratio to the best rival |
/// |---|---|---|
/// | uniform over prefixes | 536 | 1.51 |
/// | Zipf over prefixes | 755 | 1.09 |
/// | uniform over 2³² | 280 | 1.81 |
///
/// It takes 17.8 MB and is built in 0.03 to 0.06 s. A change of a random route's next hop, as a transaction of a
/// [`RouteTable`](crate::RouteTable) beside a reader: 1.4 to 2.4 million a second, in transactions of 64 3 to 4.4 million.
pub struct Dir24_8 {
    width: Table<Width>,
}

enum Width {
    Half(Levels<Nibbles>),
    One(Levels<Whole<AtomicU8>>),
    Two(Levels<Whole<AtomicU16>>),
    Four(Levels<Whole<AtomicU32>>),
}

/// Calls the same method whatever the width.
macro_rules! each_width {
    ($width:expr, $levels:ident => $call:expr) => {
        match $width {
            Width::Half($levels) => $call,
            Width::One($levels) => $call,
            Width::Two($levels) => $call,
            Width::Four($levels) => $call,
        }
    };
}

impl Default for Dir24_8 {
    fn default() -> Self {
        Dir24_8::new()
    }
}

impl Dir24_8 {
    /// A table without routes; allocates 8 MiB.
    pub fn new() -> Dir24_8 {
        Dir24_8 { width: Table::new(Width::Half(Levels::new())) }
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
        NextHopId::from_bits(
            each_width!(self.width.read(reader), levels => levels.blocks.lookup(reader, addr)),
        )
    }

    fn lookup_batch(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        each_width!(self.width.read(reader), levels => levels.blocks.lookup_batch(reader, addrs, hops));
    }

    fn first_level(&self, reader: &Reader) -> Option<FirstLevel> {
        each_width!(self.width.read(reader), levels => levels.blocks.first_level())
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) {
        let all = [Prefix4::default()];
        let changed = if changed.len() > MANY_CHANGES { &all } else { changed };
        let misfit = self.width.with(|width| {
            each_width!(width, levels => levels.update(rib, changed)).err().map(|misfit| {
                match (misfit, width) {
                    (Misfit::Groups, Width::Half(_)) => 4,
                    (Misfit::NextHop, Width::Half(_)) | (Misfit::Groups, Width::One(_)) => 8,
                    (Misfit::NextHop, Width::One(_)) | (Misfit::Groups, Width::Two(_)) => 16,
                    _ => 32,
                }
            })
        });
        if let Some(bits) = misfit {
            self.width.replace(Width::build(rib, bits));
        }
    }

    fn prepare(&self, prefix: Prefix4) {
        self.width.with(|width| each_width!(width, levels => levels.blocks.prefetch(prefix.first())));
    }

    fn structure(&self) -> Option<Structure> {
        Some(Structure::Dir24_8)
    }

    fn memory(&self) -> Vec<MemoryPart> {
        self.width.with(|width| each_width!(width, levels => levels.blocks.memory()))
    }
}

impl Width {
    /// The table of these routes, with entries of at least so many bits.
    fn build(rib: &Rib<u32>, bits: usize) -> Width {
        if let Some(levels) = (bits <= 4).then(|| Levels::build(rib)).flatten() {
            return Width::Half(levels);
        }
        if let Some(levels) = (bits <= 8).then(|| Levels::build(rib)).flatten() {
            return Width::One(levels);
        }
        if let Some(levels) = (bits <= 16).then(|| Levels::build(rib)).flatten() {
            return Width::Two(levels);
        }
        // These hold every number of a next hop, and there are more groups than /24s.
        Width::Four(Levels::build(rib).unwrap_or_else(Levels::new))
    }
}

/// The two levels, and what the writer knows beside them.
struct Levels<E: Entries> {
    blocks: Blocks<E>,
    /// Only the one writer locks this; readers must keep the line with `blocks`.
    groups: Padded<Mutex<Groups>>,
}

impl<E: Entries> Levels<E> {
    fn new() -> Levels<E> {
        Levels { blocks: Blocks::new(), groups: Padded::default() }
    }

    fn build(rib: &Rib<u32>) -> Option<Levels<E>> {
        let levels = Levels::new();
        levels.update(rib, &[Prefix4::default()]).ok().map(|()| levels)
    }

    fn update(&self, rib: &Rib<u32>, changed: &[Prefix4]) -> Result<(), Misfit> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let mut painter = Painter { blocks: &self.blocks, groups: &mut groups };
        for (i, &prefix) in changed.iter().enumerate() {
            if let Some(ahead) = changed.get(i + AHEAD) {
                rib.prefetch(*ahead);
                self.blocks.prefetch(ahead.first());
            }
            let mut result = Ok(());
            let paint = |first, last, hop| {
                if result.is_ok() {
                    result = painter.paint(first, last, NextHopId::bits(hop));
                }
            };
            match prefix.len() {
                0 => rib.ranges(prefix, paint),
                _ => rib.own_ranges(prefix, 24, paint),
            }
            result?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use epoch::ticket;

    use crate::prefix::Prefix;

    use super::*;

    fn hop(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    fn addr(text: &str) -> u32 {
        text.parse::<Prefix4>().unwrap().first()
    }

    /// Groups ever used, and groups out of use.
    fn groups(dir: &Dir24_8) -> (u32, usize) {
        dir.width.with(|width| each_width!(width, levels => levels.groups.lock().unwrap().count()))
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

    fn bits(dir: &Dir24_8) -> usize {
        dir.width.with(|width| match width {
            Width::Half(_) => 4,
            Width::One(_) => 8,
            Width::Two(_) => 16,
            Width::Four(_) => 32,
        })
    }

    #[test]
    fn it_widens_for_the_next_hop_that_does_not_fit() {
        let dir = Dir24_8::new();
        let reader = Reader::new();
        let mut rib = Rib::new();
        let steps = [
            (1, 13, 4),
            (2, 14, 8),
            (3, 253, 8),
            (4, 254, 16),
            (5, 65_533, 16),
            (6, 65_534, 32),
            (7, 1 << 24, 32),
            (8, 0, 32),
        ];
        for (step, &(last_octet, index, expected)) in steps.iter().enumerate() {
            let (host, block) = (Prefix::host(last_octet), Prefix::truncated(last_octet << 24, 8));
            rib.extend([(host, hop(index)), (block, hop(index))]);
            dir.update(&rib, &[host, block]);
            assert_eq!(bits(&dir), expected, "{index}");
            for &(last_octet, index, _) in &steps[..=step] {
                assert_eq!(dir.lookup(&reader, last_octet), Some(hop(index)));
                assert_eq!(dir.lookup(&reader, last_octet << 24 | 0xABCDEF), Some(hop(index)));
            }
            assert_eq!(dir.lookup(&reader, 99), None);
        }
        let mebibytes = dir.memory().iter().map(|part| part.bytes).sum::<usize>() >> 20;
        assert!((64..68).contains(&mebibytes), "{mebibytes}");
    }

    #[test]
    fn there_is_room_for_65_536_next_hops_and_as_many_groups() {
        let dir = Dir24_8::new();
        let reader = Reader::new();
        let count = 1 << 16;
        let rib: Rib<u32> = (0..count).map(|i| (Prefix::host(i << 8 | i & 255), hop(i))).collect();
        dir.update(&rib, &[Prefix::default()]);
        assert_eq!((bits(&dir), groups(&dir)), (32, (count, 0)));
        let addrs: Vec<u32> = (0..count).flat_map(|i| [i << 8 | i & 255, i << 8 | !i & 255]).collect();
        let mut hops = vec![None; addrs.len()];
        dir.lookup_batch(&reader, &addrs, &mut hops);
        for (i, found) in hops.chunks(2).enumerate() {
            assert_eq!(found, [Some(hop(i as u32)), None]);
        }
    }

    #[test]
    fn batches_of_any_length_and_the_shorter_slice_counts() {
        let dir = Dir24_8::new();
        let reader = Reader::new();
        for limit in [14, 250, 60_000, 70_000] {
            let rib: Rib<u32> = (0..=255)
                .flat_map(|i| {
                    [
                        (Prefix::truncated(i << 24, 8), hop(i * limit / 256)),
                        (Prefix::host(i << 24), hop(i % limit.min(250))),
                    ]
                })
                .collect();
            dir.update(&rib, &[Prefix::default()]);
            let addr =
                |i: u32| i.wrapping_mul(0x9E37_79B9) & if i.is_multiple_of(3) { 0xFF00_0000 } else { !0 };
            let addrs: Vec<u32> = (0..100).map(addr).collect();
            let expected: Vec<_> = addrs.iter().map(|&addr| dir.lookup(&reader, addr)).collect();
            for count in (0..40).chain([63, 64, 65, 100]) {
                let mut hops = [Some(NextHopId::MIN); 100];
                dir.lookup_batch(&reader, &addrs[..count], &mut hops);
                assert_eq!(hops[..count], expected[..count]);
                assert!(hops[count..].iter().all(|&hop| hop == Some(NextHopId::MIN)));
                let mut hops = vec![None; count];
                dir.lookup_batch(&reader, &addrs, &mut hops);
                assert_eq!(hops, expected[..count]);
            }
        }
    }
}
