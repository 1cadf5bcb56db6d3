//! Lookups with AVX-512 or AVX2: a node is searched with one or two comparisons.
#![allow(unsafe_code)]

use crate::next_hop::NextHopId;
use crate::prefix::Address;
use crate::range_tree::node::{Cell, Entry, Node};
use crate::range_tree::tree::{Addresses, LANES, Steps, Tree, load};

/// Vector instructions that this processor has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Simd(Features);

#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), expect(dead_code, reason = "x86 only"))]
enum Features {
    Avx2,
    Avx512,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Simd {
    /// The widest, if there are any that help.
    pub fn detect() -> Option<Simd> {
        Simd::avx512().or(Simd::avx2())
    }

    fn avx2() -> Option<Simd> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Simd(Features::Avx2))
    }

    fn avx512() -> Option<Simd> {
        let has = Simd::avx2().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then_some(Simd(Features::Avx512))
    }

    pub fn lookup_batch<A: Address>(
        self,
        tree: &Tree<A>,
        addrs: &impl Addresses<A>,
        hops: &mut [Option<NextHopId>],
    ) {
        match self.0 {
            // SAFETY: only `avx2` and `avx512` make a `Simd`, each after it has found the features.
            Features::Avx2 => unsafe { lookup_batch_avx2(tree, addrs, hops) },
            // SAFETY: as above.
            Features::Avx512 => unsafe { lookup_batch_avx512(tree, addrs, hops) },
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Simd {
    pub fn detect() -> Option<Simd> {
        None
    }

    pub fn lookup_batch<A: Address>(
        self,
        tree: &Tree<A>,
        addrs: &impl Addresses<A>,
        hops: &mut [Option<NextHopId>],
    ) {
        tree.lookup_batch_scalar(addrs, hops);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn lookup_batch_avx2<A: Address>(tree: &Tree<A>, addrs: &impl Addresses<A>, hops: &mut [Option<NextHopId>]) {
    use std::arch::x86_64::{
        _mm256_castsi256_ps, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_loadu_si256,
        _mm256_max_epu16, _mm256_max_epu32, _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_or_si256,
        _mm256_packs_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi16, _mm256_set1_epi32,
    };
    let rank = |node: &Node, value: u32| {
        let keys = node.keys().as_ptr();
        // SAFETY: 16 readable keys of 4 bytes. Nobody writes them meanwhile: keys are written only while no reader
        // can reach their node, before the release store of an entry that names it, which the caller has acquired,
        // and a node that was taken out of use is not used again before the tickets of its readers have passed.
        let (low, high) =
            unsafe { (_mm256_loadu_si256(keys.cast()), _mm256_loadu_si256(keys.add(8).cast())) };
        let values = _mm256_set1_epi32(value.cast_signed());
        let low = _mm256_cmpeq_epi32(_mm256_max_epu32(low, values), low);
        let high = _mm256_cmpeq_epi32(_mm256_max_epu32(high, values), high);
        let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
        let reached = _mm256_movemask_ps(low) | _mm256_movemask_ps(high) << 8;
        // The last key is not below any value that comes here.
        (reached | 1 << 15).trailing_zeros() as usize
    };
    let packed_hop = |node: &Node, value: u16| {
        let keys = node.keys().as_ptr();
        // SAFETY: 32 readable keys of 2 bytes, otherwise as above.
        let (low, high) =
            unsafe { (_mm256_loadu_si256(keys.cast()), _mm256_loadu_si256(keys.add(8).cast())) };
        let values = _mm256_set1_epi16(value.cast_signed());
        let low = _mm256_cmpeq_epi16(_mm256_max_epu16(low, values), low);
        let high = _mm256_cmpeq_epi16(_mm256_max_epu16(high, values), high);
        // Both by eights in turn, thus the order has to be restored.
        let reached = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
        half(node, _mm256_movemask_epi8(reached).cast_unsigned())
    };
    let below = |entries: &[Entry; LANES], limit: Entry| {
        let last = _mm256_set1_epi32(limit.bits().wrapping_sub(1).cast_signed());
        entries.as_chunks::<8>().0.iter().rev().fold(0, |bits, entries| {
            // SAFETY: eight entries of 4 bytes, of this thread alone.
            let entries = unsafe { _mm256_loadu_si256(entries.as_ptr().cast()) };
            // Those with the first bit set are not below any limit.
            let not = _mm256_or_si256(_mm256_cmpgt_epi32(entries, last), entries);
            bits << 8 | u64::from(!_mm256_movemask_ps(_mm256_castsi256_ps(not)) as u8)
        })
    };
    tree.lookup_batch_with(addrs, hops, &Steps { load, rank, packed_hop, below });
}

#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn lookup_batch_avx512<A: Address>(
    tree: &Tree<A>,
    addrs: &impl Addresses<A>,
    hops: &mut [Option<NextHopId>],
) {
    use std::arch::x86_64::{
        _mm512_cmpge_epu16_mask, _mm512_cmpge_epu32_mask, _mm512_cmplt_epu32_mask, _mm512_loadu_si512,
        _mm512_set1_epi16, _mm512_set1_epi32,
    };
    let rank = |node: &Node, value: u32| {
        // SAFETY: as above.
        let keys = unsafe { _mm512_loadu_si512(node.keys().as_ptr().cast()) };
        let reached = _mm512_cmpge_epu32_mask(keys, _mm512_set1_epi32(value.cast_signed()));
        (u32::from(reached) | 1 << 15).trailing_zeros() as usize
    };
    let packed_hop = |node: &Node, value: u16| {
        // SAFETY: as above.
        let keys = unsafe { _mm512_loadu_si512(node.keys().as_ptr().cast()) };
        half(node, _mm512_cmpge_epu16_mask(keys, _mm512_set1_epi16(value.cast_signed())))
    };
    let below = |entries: &[Entry; LANES], limit: Entry| {
        let limit = _mm512_set1_epi32(limit.bits().cast_signed());
        entries.as_chunks::<16>().0.iter().rev().fold(0, |bits, entries| {
            // SAFETY: sixteen entries of 4 bytes, of this thread alone.
            let entries = unsafe { _mm512_loadu_si512(entries.as_ptr().cast()) };
            bits << 16 | u64::from(_mm512_cmplt_epu32_mask(entries, limit))
        })
    };
    let load = |direct: &[Cell], slots: &[u32; LANES], count: usize, entries: &mut [Entry; LANES]| {
        gather(direct, slots, count, entries);
    };
    tree.lookup_batch_with(addrs, hops, &Steps { load, rank, packed_hop, below });
}

/// The bits of the next hop of the first range of a packed node whose key reaches a value; there is a bit for each.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn half(node: &Node, reached: u32) -> u32 {
    // The last key is not below any value that comes here.
    let rank = (reached | 1 << 31).trailing_zeros() as usize;
    // SAFETY: 32 readable next hops of 2 bytes, which nobody writes meanwhile, as keys.
    u32::from(unsafe { node.cells().as_ptr().cast::<u16>().add(rank).read() })
}

/// As [`load`], sixteen at a time. They are loaded in assembly because another thread stores to entries meanwhile, and
/// only that makes a load of each, which acquires as every load of this architecture does.
#[target_feature(enable = "avx512f")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn gather(direct: &[Cell], slots: &[u32; LANES], count: usize, entries: &mut [Entry; LANES]) {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm512_cmplt_epu32_mask, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
    };
    let len = _mm512_set1_epi32(i32::try_from(direct.len()).unwrap_or(i32::MAX));
    let (entries, slots) = (entries.as_chunks_mut::<16>().0, slots.as_chunks::<16>().0);
    for (entries, slots) in entries.iter_mut().zip(slots).take(count.div_ceil(16)) {
        // SAFETY: sixteen numbers of 4 bytes each, of this thread alone.
        let (slots, mut found) = unsafe {
            (_mm512_loadu_si512(slots.as_ptr().cast()), _mm512_loadu_si512(entries.as_ptr().cast()))
        };
        let within = _mm512_cmplt_epu32_mask(slots, len);
        // SAFETY: loads the entries of the array that are within it; the mask is used up.
        unsafe {
            asm!(
                "kmovw {mask}, {within:e}",
                "vpgatherdd {found} {{{mask}}}, dword ptr [{direct} + {slots} * 4]",
                found = inout(zmm_reg) found,
                within = in(reg) u32::from(within),
                mask = out(kreg) _,
                direct = in(reg) direct.as_ptr(),
                slots = in(zmm_reg) slots,
                options(readonly, nostack, preserves_flags),
            );
            _mm512_storeu_si512(entries.as_mut_ptr().cast(), found);
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lookup::Beginnings;
    use crate::prefix::Prefix;
    use crate::range_tree::build::Builder;
    use crate::range_tree::tree::Slots;
    use crate::rib::Rib;

    /// Looks up what is around the ends of all prefixes, and more, in each way that this processor has.
    fn all_agree(rib: &Rib<u128>, bits: u32, more: impl Iterator<Item = u128>) -> Result<(), TestCaseError> {
        let tree = Tree::new(Slots::new(Prefix::default(), bits, 0), 4096);
        let filled = Builder { tree: &tree, free: &mut tree.free_nodes() }.fill(rib, Prefix::default());
        prop_assert!(filled.is_ok());
        let ends = rib.iter().flat_map(|(p, _)| [p.first(), p.last(), p.last().wrapping_add(1)]);
        let addrs: Vec<_> = more.chain(ends).collect();
        let expected: Vec<_> = addrs.iter().map(|&addr| rib.lookup_hop(addr)).collect();
        let one_by_one = addrs.iter().map(|&addr| NextHopId::from_bits(tree.lookup(addr)));
        prop_assert!(one_by_one.eq(expected.iter().copied()));
        let mut found = vec![None; addrs.len()];
        tree.lookup_batch_scalar(&&addrs[..], &mut found);
        prop_assert_eq!(&found, &expected);
        for (name, simd) in [("AVX2", Simd::avx2()), ("AVX-512", Simd::avx512())] {
            let Some(simd) = simd else {
                println!("skipped: no {name}");
                continue;
            };
            found.fill(None);
            simd.lookup_batch(&tree, &&addrs[..], &mut found);
            prop_assert_eq!(&found, &expected, "{}", name);
            let tops: Vec<_> = addrs.iter().map(|addr| addr.top_bits()).collect();
            found.fill(None);
            simd.lookup_batch(&tree, &Beginnings { tops: &tops, whole: &|i| addrs[i] }, &mut found);
            prop_assert_eq!(&found, &expected, "{} by first bits", name);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn vector_and_scalar_lookups_agree(
            routes in prop::collection::vec((any::<u128>(), 0..=128u8, 0..9u32), 0..400),
            random in prop::collection::vec(any::<u128>(), 130),
        ) {
            // All within one slot of the direct array, where they nest and touch.
            let near = |addr: u128| addr & 0x0F0F_3333_0101_0000_F00F | addr >> 127;
            let route = |&(addr, len, hop)| (Prefix::truncated(near(addr), len), NextHopId::new(hop).unwrap());
            let rib: Rib<u128> = routes.iter().map(route).collect();
            all_agree(&rib, 6, random.iter().map(|&addr| near(addr)))?;
        }

        /// Crowds of prefixes of like lengths, as packed nodes hold them: some of which have next hops of more than
        /// 16 bits, or are longer than keys reach.
        #[test]
        fn vector_and_scalar_lookups_agree_in_crowds(
            routes in prop::collection::vec((0..1024u128, 40..=50u8, 0..9u32), 0..600),
            rare in prop::collection::vec((0..1024u128, 40..=70u8, 65_530..65_540u32), 0..6),
            random in prop::collection::vec(0..1024u128, 130),
        ) {
            let near = |bits: u128| 0x2001_0DB8_u128 << 96 | bits << 80;
            let route = |&(bits, len, hop)| (Prefix::truncated(near(bits), len), NextHopId::new(hop).unwrap());
            let rib: Rib<u128> = routes.iter().chain(&rare).map(route).collect();
            all_agree(&rib, 22, random.iter().map(|&bits| near(bits)))?;
        }
    }
}
