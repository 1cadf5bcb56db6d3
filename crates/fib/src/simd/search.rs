//! Lookups with AVX-512 or AVX2: a node is searched with one or two comparisons.
#![allow(unsafe_code)]

use crate::next_hop::NextHopId;
use crate::prefix::Address;
use crate::range_tree::node::Node;
use crate::range_tree::tree::Tree;

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
        let has = Simd::avx2().is_some() && is_x86_feature_detected!("avx512f");
        has.then_some(Simd(Features::Avx512))
    }

    pub fn lookup_batch<A: Address>(self, tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
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

    pub fn lookup_batch<A: Address>(self, tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        tree.lookup_batch_scalar(addrs, hops);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn lookup_batch_avx2<A: Address>(tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
    use std::arch::x86_64::{
        _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_max_epu32, _mm256_movemask_ps,
        _mm256_set1_epi32,
    };
    tree.lookup_batch_with(addrs, hops, |node: &Node, value| {
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
    });
}

#[target_feature(enable = "avx2,bmi1,bmi2,avx512f")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn lookup_batch_avx512<A: Address>(tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
    use std::arch::x86_64::{_mm512_cmpge_epu32_mask, _mm512_loadu_si512, _mm512_set1_epi32};
    tree.lookup_batch_with(addrs, hops, |node: &Node, value| {
        // SAFETY: as above.
        let keys = unsafe { _mm512_loadu_si512(node.keys().as_ptr().cast()) };
        let reached = _mm512_cmpge_epu32_mask(keys, _mm512_set1_epi32(value.cast_signed()));
        (u32::from(reached) | 1 << 15).trailing_zeros() as usize
    });
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prefix::Prefix;
    use crate::range_tree::build::Builder;
    use crate::range_tree::tree::Slots;
    use crate::rib::Rib;

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
            let tree = Tree::new(Slots::new(Prefix::default(), 6, 0), 4096);
            let filled = Builder { tree: &tree, free: &mut tree.free_nodes() }.fill(&rib, Prefix::default());
            prop_assert!(filled.is_ok());
            let ends = rib.iter().flat_map(|(prefix, _)| [prefix.first(), prefix.last(), prefix.last().next()]);
            let addrs: Vec<_> = random.iter().map(|&addr| near(addr)).chain(ends).collect();
            let expected: Vec<_> = addrs.iter().map(|&addr| rib.lookup_hop(addr)).collect();
            let mut found = vec![None; addrs.len()];
            tree.lookup_batch_scalar(&addrs, &mut found);
            prop_assert_eq!(&found, &expected);
            for (name, simd) in [("AVX2", Simd::avx2()), ("AVX-512", Simd::avx512())] {
                let Some(simd) = simd else {
                    println!("skipped: no {name}");
                    continue;
                };
                found.fill(None);
                simd.lookup_batch(&tree, &addrs, &mut found);
                prop_assert_eq!(&found, &expected, "{}", name);
            }
        }
    }
}
