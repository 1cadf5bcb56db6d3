//! The two levels as readers see them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use epoch::{Reader, Table};

use super::entries::{Cell, Entries};
use crate::lookup::{FirstLevel, MemoryPart};
use crate::next_hop::NextHopId;
use crate::simd::gather::{Gather, Gathered, LANES};

/// Numbers of groups are below this: as many may wait to be used again as are in use.
pub(super) const GROUPS: u32 = 2 << 24;
/// Groups are allocated in chunks, which never move: readers need no notice of growth.
const CHUNK: u32 = 1 << 10;
/// The smallest table of numbers of groups, as a power of two.
const FEWEST_NUMBERS: u32 = 10;

/// Puts the bits of each address's entry into `hops`, after some have been gathered. Bit `i` of the result is set when that of
/// address `i` is [`CUT`](Entries::CUT). As many addresses as places for hops, at most [`LANES`].
fn load_rest<E: Entries>(
    first: &E,
    addrs: &[u32],
    hops: &mut [Option<NextHopId>],
    gathered: Gathered,
) -> u64 {
    let Gathered { count, mut ones } = gathered;
    let mut load = |lane: usize, hop: &mut Option<NextHopId>, addr: u32| {
        let bits = first.load(addr >> 8);
        ones |= u64::from(bits == E::CUT) << lane;
        *hop = NextHopId::from_bits(bits);
    };
    let ((eights, addrs), (hop_eights, hops)) =
        (addrs[count..].as_chunks::<8>(), hops[count..].as_chunks_mut::<8>());
    let mut lane = count;
    // Eight at a time: with one a turn, the loop itself would fill the processor's window.
    for (hops, addrs) in hop_eights.iter_mut().zip(eights) {
        for i in 0..8 {
            load(lane + i, &mut hops[i], addrs[i]);
        }
        lane += 8;
    }
    for (i, (hop, &addr)) in hops.iter_mut().zip(addrs).enumerate() {
        load(lane + i, hop, addr);
    }
    ones
}

/// The next hops of one /24.
pub(super) type Group<C> = [C; 256];
/// Groups that are allocated together.
type Chunk<C> = Box<[Group<C>]>;

/// Which group each /24 that is cut has: open addressing, at most half full. What a block that is no longer cut has
/// stays until the table grows.
struct Numbers {
    /// The block in the high half, one more than the number of its group in the low half; 0 when free.
    slots: Box<[AtomicU64]>,
}

impl Numbers {
    /// Room for half of 2^`bits`.
    fn new(bits: u32) -> Numbers {
        Numbers { slots: (0..1 << bits).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The slot of the block, or the free one where it would be, and what is in it.
    #[inline]
    fn find(&self, block: u32) -> (&AtomicU64, u64) {
        // Fibonacci hashing.
        let mut at = (block.wrapping_mul(0x9E37_79B9) >> 8) as usize;
        loop {
            let slot = &self.slots[at & (self.slots.len() - 1)];
            // The number was stored after the group was filled.
            let found = slot.load(Ordering::Acquire);
            if found == 0 || (found >> 32) as u32 == block {
                return (slot, found);
            }
            at += 1;
        }
    }

    #[inline]
    fn get(&self, block: u32) -> Option<u32> {
        (self.find(block).1 as u32).checked_sub(1)
    }
}

/// Entries and groups. There is one writer at a time.
pub(super) struct Blocks<E: Entries> {
    first: E,
    /// How its entries are loaded.
    how: Gather,
    /// Readers look at this after an entry has sent them here.
    numbers: Table<Numbers>,
    chunks: Box<[OnceLock<Chunk<E::Cell>>]>,
}

impl<E: Entries> Blocks<E> {
    /// No routes.
    pub fn new() -> Blocks<E> {
        Blocks {
            first: E::default(),
            how: Gather::detect(),
            numbers: Table::new(Numbers::new(FEWEST_NUMBERS)),
            chunks: (0..GROUPS / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    pub fn lookup(&self, reader: &Reader, addr: u32) -> u32 {
        let bits = self.first.load(addr >> 8);
        if bits == E::CUT { self.lookup_cut(reader, addr) } else { bits }
    }

    #[inline(always)]
    pub fn lookup_batch(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        let count = addrs.len().min(hops.len());
        let (addrs, hops) = (&addrs[..count], &mut hops[..count]);
        if count <= LANES {
            self.lookup_some(reader, addrs, hops);
        } else {
            self.lookup_many(reader, addrs, hops);
        }
    }

    /// As many addresses as places for hops, at most [`LANES`].
    #[inline(always)]
    fn lookup_some(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        let further = |gathered, addrs: &_, hops: &mut _| self.finish(reader, addrs, hops, gathered);
        self.first.gather(self.how, addrs, hops, further);
    }

    /// As many addresses as places for hops.
    #[inline(never)]
    fn lookup_many(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        for (addrs, hops) in addrs.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            self.lookup_some(reader, addrs, hops);
        }
    }

    /// Looks up what has not been gathered, and what is cut.
    #[inline(never)]
    fn finish(&self, reader: &Reader, addrs: &[u32], hops: &mut [Option<NextHopId>], gathered: Gathered) {
        let is_done = gathered.count == addrs.len();
        let mut cut = if is_done { gathered.ones } else { load_rest(&self.first, addrs, hops, gathered) };
        while cut != 0 {
            let lane = cut.trailing_zeros() as usize;
            hops[lane] = NextHopId::from_bits(self.lookup_cut(reader, addrs[lane]));
            cut &= cut - 1;
        }
    }

    #[inline]
    pub fn first_level(&self) -> Option<FirstLevel> {
        self.first.first_level()
    }

    /// The bits for an address in a /24 that is cut.
    #[inline(never)]
    fn lookup_cut(&self, reader: &Reader, addr: u32) -> u32 {
        // The entry was stored after the number of the group.
        fence(Ordering::Acquire);
        let number = self.numbers.read(reader).get(addr >> 8);
        number.and_then(|number| self.group(number)).map_or(0, |group| group[(addr & 255) as usize].load())
    }

    /// For the writer: the group of a /24 that is cut.
    pub fn number(&self, block: u32) -> Option<u32> {
        self.numbers.with(|numbers| numbers.get(block))
    }

    #[inline]
    fn group(&self, number: u32) -> Option<&Group<E::Cell>> {
        self.chunks.get((number / CHUNK) as usize)?.get()?.get((number % CHUNK) as usize)
    }

    /// For the writer: asks for the entry of an address.
    #[inline]
    pub fn prefetch(&self, addr: u32) {
        self.first.prefetch(addr >> 8);
    }

    /// For the writer: the entries.
    #[inline]
    pub fn entries(&self) -> &E {
        &self.first
    }

    /// For the writer: gives the group these next hops. Before first use it has none.
    pub fn fill(&self, number: u32, values: &[u32; 256]) {
        let chunk = self.chunks[(number / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| std::array::from_fn(|_| E::Cell::default())).collect());
        for (cell, &bits) in chunk[(number % CHUNK) as usize].iter().zip(values) {
            if cell.load() != bits {
                cell.store(bits);
            }
        }
    }

    /// For the writer: cuts a /24; the group must have been filled. `used` is how many have been cut since the numbers
    /// were last made anew.
    pub fn cut(&self, block: u32, number: u32, used: &mut usize) {
        let value = u64::from(block) << 32 | u64::from(number + 1);
        let put = |numbers: &Numbers| {
            let (slot, found) = numbers.find(block);
            *used += usize::from(found == 0);
            // A free slot only as long as more than half of them are.
            if *used * 2 > numbers.slots.len() {
                return false;
            }
            slot.store(value, Ordering::Release);
            true
        };
        if !self.numbers.with(put) {
            let (new, count) = self.grown_numbers();
            *used = count + 1;
            new.find(block).0.store(value, Ordering::Release);
            self.numbers.replace(new);
        }
        self.first.store(block, E::CUT);
    }

    /// Only what is still cut, in a table that has room for twice as much and one; and how much that is.
    fn grown_numbers(&self) -> (Numbers, usize) {
        let slots: Vec<u64> = self.numbers.with(|numbers| {
            let all = numbers.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
            all.filter(|&slot| slot != 0 && self.first.load((slot >> 32) as u32) == E::CUT).collect()
        });
        let bits = (slots.len() * 4).next_power_of_two().ilog2().max(FEWEST_NUMBERS);
        let numbers = Numbers::new(bits);
        for &slot in &slots {
            numbers.find((slot >> 32) as u32).0.store(slot, Ordering::Relaxed);
        }
        (numbers, slots.len())
    }

    pub fn memory(&self) -> Vec<MemoryPart> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&chunk[..]));
        let numbers = self.numbers.with(|numbers| size_of_val(&numbers.slots[..]));
        let bytes = chunks.sum::<usize>() + numbers + size_of_val(&self.chunks[..]);
        vec![self.first.memory(), MemoryPart { part: "groups", bytes }]
    }
}
