//! What all lookup structures have in common.

use epoch::{Ahead, Reader};
use serde::Serialize;

use crate::next_hop::NextHopId;
use crate::prefix::{Address, Prefix};
use crate::rib::Rib;
use crate::structure::Structure;

/// A structure for longest-prefix match, derived from a [`Rib`], read by many threads while one keeps it up to
/// date. A lookup that runs during an update gives the next hop from before or from after it, nothing else.
pub trait Fib<A: Address>: Send + Sync {
    /// The next hop of the longest prefix that contains `addr`.
    fn lookup(&self, reader: &Reader, addr: A) -> Option<NextHopId>;

    /// Looks up each of `addrs` and puts its next hop at the same place in `hops`. The shorter slice sets the
    /// number of lookups.
    fn lookup_batch(&self, reader: &Reader, addrs: &[A], hops: &mut [Option<NextHopId>]);

    /// As [`lookup_batch`](Fib::lookup_batch), for addresses whose first bits are at hand.
    fn lookup_beginnings(&self, reader: &Reader, addrs: &Beginnings<'_, A>, hops: &mut [Option<NextHopId>]) {
        const ROUND: usize = 64;
        for (round, hops) in hops.chunks_mut(ROUND).enumerate() {
            let from = round * ROUND;
            let mut whole = [A::default(); ROUND];
            let count = addrs.tops.len().saturating_sub(from).min(ROUND);
            let whole = &mut whole[..count];
            whole.iter_mut().zip(from..).for_each(|(addr, i)| *addr = (addrs.whole)(i));
            self.lookup_batch(reader, whole, hops);
        }
    }

    /// Where lookups begin, if it is known from an address without a look at memory.
    fn first_level(&self, _reader: &Reader) -> Option<FirstLevel> {
        None
    }

    /// Follows `rib`, in which routes have come, gone or changed since the last call at the `changed` prefixes
    /// only; the prefix of all addresses stands for any changes. One thread at a time may call this.
    fn update(&self, rib: &Rib<A>, changed: &[Prefix<A>]);

    /// A hint: [`update`](Fib::update) is going to be called for this prefix.
    fn prepare(&self, _prefix: Prefix<A>) {}

    /// Which structure it is; `None` if it is none.
    fn structure(&self) -> Option<Structure>;

    /// The memory it holds, part by part.
    fn memory(&self) -> Vec<MemoryPart>;
}

/// The array in which lookups begin, for whoever sees addresses some time before they are looked up: meanwhile the memory can be on
/// its way. Only a hint: it may be that of an array that is no longer there.
#[derive(Debug, Clone, Copy)]
pub struct FirstLevel {
    array: Ahead,
    shift: u32,
}

impl FirstLevel {
    /// Smaller arrays, in bytes, are nearly always at hand.
    const LEAST: usize = 1 << 20;

    /// An array with an entry for each value of so many first bits of an address; `None` if it is small.
    pub(crate) fn of<T>(entries: &[T], bits: u32) -> Option<FirstLevel> {
        const { assert!(size_of::<T>().is_power_of_two()) };
        let bytes = size_of::<T>() << bits;
        let shift = u32::BITS.checked_sub(bytes.trailing_zeros())?;
        (bytes >= Self::LEAST).then(|| FirstLevel { array: Ahead::of(entries), shift })
    }

    /// By how many bits the first 32 bits of an address are shifted to the right to give the place at which its lookup begins, in bytes.
    #[inline(always)]
    pub fn shift(self) -> u32 {
        self.shift
    }

    /// Asks for the line of this place.
    #[inline(always)]
    pub fn ask(self, place: u32) {
        self.array.ask(place as usize);
    }

    /// Where the line lies that is asked for.
    #[cfg(test)]
    pub(crate) fn address(self, first: u32) -> usize {
        self.array.address((first >> self.shift) as usize)
    }
}

/// Addresses of which lookups hardly ever need more than the first 64 bits.
pub struct Beginnings<'a, A> {
    /// The first 64 bits of each, as [`Address::top_bits`] gives them.
    pub tops: &'a [u64],
    /// The whole address at a place.
    pub whole: &'a dyn Fn(usize) -> A,
}

/// The memory held by one part of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryPart {
    /// Which part.
    pub part: &'static str,
    /// How much it holds.
    pub bytes: usize,
}

impl MemoryPart {
    pub(crate) fn of<T>(part: &'static str, items: &[T]) -> MemoryPart {
        MemoryPart { part, bytes: size_of_val(items) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_is_asked_for_has_the_entry() {
        let entries = vec![0u32; 1 << 18];
        let first = FirstLevel::of(&entries, 18).unwrap();
        for addr in [0, 1, 0x3fff, 0x4000, 0x0a01_0203, 0x8000_0000, u32::MAX] {
            let entry = (&raw const entries[(addr >> 14) as usize]).addr();
            assert_eq!(first.address(addr) / 64, entry / 64, "{addr:#x}");
        }
        assert!(FirstLevel::of(&entries[..1 << 16], 16).is_none());
    }
}
