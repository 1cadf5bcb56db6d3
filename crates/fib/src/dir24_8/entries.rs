//! The first level: what an entry for each /24 is kept in.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use epoch::{LargeArray, prefetch};

use crate::lookup::{FirstLevel, MemoryPart};
use crate::next_hop::NextHopId;
use crate::simd::gather::{ENTRIES, Gather, Gathered, PAIRS};

/// Holds the bits of an `Option<NextHopId>`.
pub(super) trait Cell: Default + Send + Sync {
    fn load(&self) -> u32;
    /// A release store: a reader that sees it and then fences sees what was written before.
    fn store(&self, bits: u32);
}

macro_rules! cell {
    ($atomic:ty, $number:ty) => {
        impl Cell for $atomic {
            #[inline]
            fn load(&self) -> u32 {
                u32::from(self.load(Ordering::Relaxed))
            }

            #[inline]
            fn store(&self, bits: u32) {
                debug_assert!(bits <= u32::from(<$number>::MAX));
                self.store(bits as $number, Ordering::Release);
            }
        }
    };
}

cell!(AtomicU8, u8);
cell!(AtomicU16, u16);
cell!(AtomicU32, u32);

/// The first level: an entry for each /24, the bits of an `Option<NextHopId>` or [`CUT`](Entries::CUT).
pub(super) trait Entries: Default + Send + Sync {
    /// Stands for a /24 that is cut further. The bits of next hops must be below.
    const CUT: u32;
    /// What holds a next hop in groups.
    type Cell: Cell;

    /// The entry of a /24.
    fn load(&self, block: u32) -> u32;
    /// As [`Cell::store`]. One thread at a time may call this.
    fn store(&self, block: u32, bits: u32);
    /// For that thread: asks for the entry.
    fn prefetch(&self, block: u32);
    /// Gathers the bits of the entries of some first ones of at most [`LANES`](crate::simd::gather::LANES) addresses.
    /// `further` is called, and it last, if that was not all, or one is [`CUT`](Entries::CUT).
    fn gather(
        &self,
        how: Gather,
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
    );
    /// Where it is.
    fn first_level(&self) -> Option<FirstLevel>;
    /// Its memory.
    fn memory(&self) -> MemoryPart;
}

/// Entries that are cells.
pub(super) struct Whole<C>(LargeArray<C, ENTRIES>);

impl<C: Cell> Default for Whole<C> {
    fn default() -> Self {
        Whole(LargeArray::default())
    }
}

macro_rules! whole {
    ($atomic:ty, $number:ty, $gather:expr) => {
        impl Entries for Whole<$atomic> {
            const CUT: u32 = <$number>::MAX as u32;
            type Cell = $atomic;

            #[inline]
            fn load(&self, block: u32) -> u32 {
                Cell::load(&self.0[block as usize])
            }

            #[inline]
            fn store(&self, block: u32, bits: u32) {
                Cell::store(&self.0[block as usize], bits);
            }

            #[inline]
            fn prefetch(&self, block: u32) {
                prefetch(&self.0[..], block as usize);
            }

            #[inline(always)]
            fn gather(
                &self,
                how: Gather,
                addrs: &[u32],
                hops: &mut [Option<NextHopId>],
                further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
            ) {
                $gather(how, &self.0, addrs, hops, further);
            }

            fn first_level(&self) -> Option<FirstLevel> {
                FirstLevel::of(&self.0[..], 24)
            }

            fn memory(&self) -> MemoryPart {
                MemoryPart::of("entries", &self.0[..])
            }
        }
    };
}

whole!(AtomicU8, u8, Gather::entries::<_, ENTRIES, 8>);
whole!(AtomicU16, u16, Gather::entries::<_, ENTRIES, 16>);
whole!(AtomicU32, u32, not_at_all);

/// Leaves all addresses to `further`.
fn not_at_all<T>(
    _: Gather,
    _: &LargeArray<T, ENTRIES>,
    addrs: &[u32],
    hops: &mut [Option<NextHopId>],
    further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
) {
    further(Gathered::default(), addrs, hops);
}

/// Entries of half a byte: that of an even /24 is the low half. Both change in one store, so a reader sees each as it was before or after.
#[derive(Default)]
pub(super) struct Nibbles(LargeArray<AtomicU8, PAIRS>);

impl Nibbles {
    /// The byte of a /24, and by how many bits its entry is shifted there.
    #[inline]
    fn place(&self, block: u32) -> (&AtomicU8, u32) {
        (&self.0[(block >> 1) as usize], (block & 1) * 4)
    }
}

impl Entries for Nibbles {
    const CUT: u32 = 15;
    type Cell = AtomicU8;

    #[inline]
    fn load(&self, block: u32) -> u32 {
        let (pair, shift) = self.place(block);
        Cell::load(pair) >> shift & 15
    }

    #[inline]
    fn store(&self, block: u32, bits: u32) {
        debug_assert!(bits <= Self::CUT);
        let (pair, shift) = self.place(block);
        // Nobody else stores to it.
        Cell::store(pair, Cell::load(pair) & !(15 << shift) | bits << shift);
    }

    #[inline]
    fn prefetch(&self, block: u32) {
        prefetch(&self.0[..], (block >> 1) as usize);
    }

    #[inline(always)]
    fn gather(
        &self,
        how: Gather,
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
    ) {
        how.entries::<_, PAIRS, 4>(&self.0, addrs, hops, further);
    }

    fn first_level(&self) -> Option<FirstLevel> {
        FirstLevel::of(&self.0[..], 23)
    }

    fn memory(&self) -> MemoryPart {
        MemoryPart::of("entries", &self.0[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores and loads all values, and asks for the lines of these entries, which begin at `address`.
    fn check<E: Entries>(address: impl Fn(&E, u32) -> usize) {
        let entries = E::default();
        let last = (1 << 24) - 1;
        let blocks = [0, 1, 2, 127, 128, 129, 0x12_3456, 0x12_3457, 0xff_0080, last - 1, last];
        let value = |i: usize| (i as u32 * 7 + 1) % E::CUT.min(1000);
        for (i, &block) in blocks.iter().enumerate() {
            assert_eq!(entries.load(block), 0);
            entries.store(block, E::CUT);
            entries.store(block, value(i));
        }
        for (i, &block) in blocks.iter().enumerate() {
            assert_eq!(entries.load(block), value(i), "{block:#x}");
            let asked = entries.first_level().unwrap().address(block << 8 | 77);
            assert_eq!(asked / 64, address(&entries, block) / 64, "{block:#x}");
        }
    }

    #[test]
    fn entries_of_any_width_are_where_they_are_asked_for() {
        check(|nibbles: &Nibbles, block| (&raw const *nibbles.place(block).0).addr());
        check(|whole: &Whole<AtomicU8>, block| (&raw const whole.0[block as usize]).addr());
        check(|whole: &Whole<AtomicU16>, block| (&raw const whole.0[block as usize]).addr());
        check(|whole: &Whole<AtomicU32>, block| (&raw const whole.0[block as usize]).addr());
    }
}
