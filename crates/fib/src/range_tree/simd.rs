//! Lookups with AVX2: a node is searched with one comparison.
#![allow(unsafe_code)]

use super::tree::Tree;
use crate::next_hop::NextHopId;
use crate::prefix::Address;

/// A processor with AVX2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Avx2 {
    /// This processor, if it is one.
    pub fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Avx2(()))
    }

    pub fn lookup_batch<A: Address>(self, tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        // SAFETY: `detect` alone makes an `Avx2`, and has found these features.
        unsafe { lookup_batch(tree, addrs, hops) }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        None
    }

    pub fn lookup_batch<A: Address>(self, tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
        tree.lookup_batch_scalar(addrs, hops);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn lookup_batch<A: Address>(tree: &Tree<A>, addrs: &[A], hops: &mut [Option<NextHopId>]) {
    use std::arch::x86_64::{
        _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_max_epu32, _mm256_movemask_ps,
        _mm256_set1_epi32,
    };
    tree.lookup_batch_with(addrs, hops, |node, value| {
        // SAFETY: the first eight words are readable, and keys. Nobody writes them meanwhile: keys are written only while no reader
        // can reach their node, before the release store of an entry that names it, which the caller has acquired,
        // and a node that readers can reach is not used again before their tickets have passed.
        let keys = unsafe { _mm256_loadu_si256(node.words().as_ptr().cast()) };
        let values = _mm256_set1_epi32(value.cast_signed());
        let reached = _mm256_cmpeq_epi32(_mm256_max_epu32(keys, values), keys);
        let mask = _mm256_movemask_ps(_mm256_castsi256_ps(reached));
        // The last key is not below any address that comes here.
        (mask | 1 << 7).trailing_zeros() as usize
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::build::Builder;
    use super::super::tree::Slots;
    use super::*;
    use crate::prefix::Prefix;
    use crate::rib::Rib;

    proptest! {
        #[test]
        fn vector_and_scalar_lookups_agree(
            routes in prop::collection::vec((any::<u128>(), 0..=128u8, 0..9u32), 0..400),
            random in prop::collection::vec(any::<u128>(), 130),
        ) {
            let Some(avx2) = Avx2::detect() else {
                println!("skipped: no AVX2");
                return Ok(());
            };
            // All within one slot of the direct array, where they nest and touch.
            let near = |addr: u128| addr & 0x0F0F_3333_0101_0000_F00F | addr >> 127;
            let route = |&(addr, len, hop)| (Prefix::truncated(near(addr), len), NextHopId::new(hop).unwrap());
            let rib: Rib<u128> = routes.iter().map(route).collect();
            let tree = Tree::new(Slots::new(Prefix::default(), 6, 0), 4096);
            let filled = Builder { tree: &tree, free: &mut tree.free_nodes() }.fill(&rib, Prefix::default());
            prop_assert!(filled.is_ok());
            let ends = rib.iter().flat_map(|(prefix, _)| [prefix.first(), prefix.last(), prefix.last().next()]);
            let addrs: Vec<_> = random.iter().map(|&addr| near(addr)).chain(ends).collect();
            let (mut vector, mut scalar) = (vec![None; addrs.len()], vec![None; addrs.len()]);
            avx2.lookup_batch(&tree, &addrs, &mut vector);
            tree.lookup_batch_scalar(&addrs, &mut scalar);
            prop_assert_eq!(&vector, &scalar);
            let expected: Vec<_> = addrs.iter().map(|&addr| rib.lookup_hop(addr)).collect();
            prop_assert_eq!(&vector, &expected);
        }
    }
}
