//! The two levels as readers see them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering, fence};

use epoch::on_large_pages;

use crate::gather;
use crate::lookup::MemoryPart;
use crate::next_hop::NextHopId;

/// Entries of the first level: one for each /24.
pub(super) const BLOCKS: usize = 1 << 24;
/// Numbers of groups are below this: as many may wait to be used again as are in use.
pub(super) const GROUPS: u32 = 2 << 24;
/// Groups are allocated in chunks, which never move: readers need no notice of growth.
const CHUNK: u32 = 1 << 10;

/// An entry: the bits of an `Option<NextHopId>`, or [`CUT`](Entry::CUT).
pub(super) trait Entry: Default + Send + Sync {
    /// Stands for a /24 that is cut further. The bits of next hops must be below.
    const CUT: u32;
    fn load(&self) -> u32;
    /// A release store: a reader that sees the entry and then fences sees what was written before.
    fn store(&self, bits: u32);
    /// Puts the bits of each address's entry into `hops`; true when one is [`CUT`](Entry::CUT). The lengths are equal.
    fn load_batch(first: &[Self; BLOCKS], addrs: &[u32], hops: &mut [Option<NextHopId>]) -> bool;
}

/// An entry of this type, and how a batch of them is loaded: gathered, as far as that goes, and the rest one by one.
macro_rules! entry {
    ($atomic:ty, $number:ty, $gather:expr) => {
        impl Entry for $atomic {
            const CUT: u32 = <$number>::MAX as u32;

            #[inline]
            fn load(&self) -> u32 {
                u32::from(self.load(Ordering::Relaxed))
            }

            #[inline]
            fn store(&self, bits: u32) {
                debug_assert!(bits <= Self::CUT);
                self.store(bits as $number, Ordering::Release);
            }

            #[inline]
            fn load_batch(first: &[Self; BLOCKS], addrs: &[u32], hops: &mut [Option<NextHopId>]) -> bool {
                let gather: Option<
                    fn(&[Self; BLOCKS], &[u32], &mut [Option<NextHopId>]) -> gather::Gathered,
                > = $gather;
                match gather.map(|gather| gather(first, addrs, hops)) {
                    Some(gather::Gathered { count, cut }) => {
                        load_each(first, &addrs[count..], &mut hops[count..]) || cut
                    }
                    None => load_each(first, addrs, hops),
                }
            }
        }
    };
}

entry!(AtomicU8, u8, Some(gather::bytes));
entry!(AtomicU16, u16, Some(gather::halves));
entry!(AtomicU32, u32, None);

/// Without branches, so that the processor has many loads under way at once.
fn load_each<E: Entry>(first: &[E; BLOCKS], addrs: &[u32], hops: &mut [Option<NextHopId>]) -> bool {
    let mut cut = false;
    let mut load = |hop: &mut Option<NextHopId>, addr: u32| {
        let bits = first[(addr >> 8) as usize].load();
        cut |= bits == E::CUT;
        *hop = NextHopId::from_bits(bits);
    };
    // Eight at a time: with one a turn, the loop itself would fill the processor's window.
    let ((eights, addrs), (hop_eights, hops)) = (addrs.as_chunks::<8>(), hops.as_chunks_mut::<8>());
    for (hops, addrs) in hop_eights.iter_mut().zip(eights) {
        for i in 0..8 {
            load(&mut hops[i], addrs[i]);
        }
    }
    for (hop, &addr) in hops.iter_mut().zip(addrs) {
        load(hop, addr);
    }
    cut
}

/// The next hops of one /24.
pub(super) type Group<E> = [E; 256];
/// Groups that are allocated together.
type Chunk<E> = Box<[Group<E>]>;
/// The numbers of the groups of a /16's /24s, as far as they are cut.
type Numbers = Box<[AtomicU32; 256]>;

/// Entries and groups. There is one writer at a time.
pub(super) struct Blocks<E> {
    first: Box<[E; BLOCKS]>,
    numbers: Box<[OnceLock<Numbers>]>,
    chunks: Box<[OnceLock<Chunk<E>>]>,
}

impl<E: Entry> Blocks<E> {
    /// No routes.
    pub fn new() -> Blocks<E> {
        #[expect(clippy::expect_used, reason = "the slice was made with this length")]
        let first = on_large_pages(BLOCKS).try_into().ok().expect("one entry for each /24");
        Blocks {
            first,
            numbers: (0..1 << 16).map(|_| OnceLock::new()).collect(),
            chunks: (0..GROUPS / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    pub fn lookup(&self, addr: u32) -> u32 {
        let bits = self.first[(addr >> 8) as usize].load();
        if bits == E::CUT { self.lookup_cut(addr) } else { bits }
    }

    pub fn lookup_batch(&self, addrs: &[u32], hops: &mut [Option<NextHopId>]) {
        let count = addrs.len().min(hops.len());
        let (addrs, hops) = (&addrs[..count], &mut hops[..count]);
        if !E::load_batch(&self.first, addrs, hops) {
            return;
        }
        for (hop, &addr) in hops.iter_mut().zip(addrs) {
            if NextHopId::bits(*hop) == E::CUT {
                *hop = NextHopId::from_bits(self.lookup_cut(addr));
            }
        }
    }

    /// The bits for an address in a /24 that is cut.
    #[inline(never)]
    fn lookup_cut(&self, addr: u32) -> u32 {
        // The entry was stored after the group's number.
        fence(Ordering::Acquire);
        let number = self.number(addr >> 8);
        number.and_then(|number| self.group(number)).map_or(0, |group| group[(addr & 255) as usize].load())
    }

    /// The group of a /24 that is cut.
    pub fn number(&self, block: u32) -> Option<u32> {
        // The number was stored after the group was filled.
        Some(self.numbers[(block >> 8) as usize].get()?[(block & 255) as usize].load(Ordering::Acquire))
    }

    #[inline]
    fn group(&self, number: u32) -> Option<&Group<E>> {
        self.chunks.get((number / CHUNK) as usize)?.get()?.get((number % CHUNK) as usize)
    }

    /// For the writer: the entries from that of block `first` to that of block `last`.
    #[inline]
    pub fn entries(&self, first: u32, last: u32) -> &[E] {
        &self.first[first as usize..=last as usize]
    }

    /// For the writer: gives the group these next hops. Before first use it has none.
    pub fn fill(&self, number: u32, values: &[u32; 256]) {
        let chunk = self.chunks[(number / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| std::array::from_fn(|_| E::default())).collect());
        for (cell, &bits) in chunk[(number % CHUNK) as usize].iter().zip(values) {
            if cell.load() != bits {
                cell.store(bits);
            }
        }
    }

    /// For the writer: cuts a /24; the group must have been filled.
    pub fn cut(&self, block: u32, number: u32) {
        let numbers = self.numbers[(block >> 8) as usize]
            .get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU32::new(0))));
        numbers[(block & 255) as usize].store(number, Ordering::Release);
        Entry::store(&self.first[block as usize], E::CUT);
    }

    pub fn memory(&self) -> Vec<MemoryPart> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&chunk[..]));
        let numbers = self.numbers.iter().filter_map(OnceLock::get).map(|numbers| size_of_val(&numbers[..]));
        let bytes = chunks.sum::<usize>()
            + numbers.sum::<usize>()
            + size_of_val(&self.chunks[..])
            + size_of_val(&self.numbers[..]);
        vec![MemoryPart::of("entries", &self.first[..]), MemoryPart { part: "groups", bytes }]
    }
}
