//! Loads of table entries for several addresses at once, where the processor has an instruction for it (AVX2).
//!
//! The only module of this crate with `unsafe` code. Whoever calls it finishes what it leaves, one by one: elsewhere
//! that is everything.

use std::sync::atomic::{AtomicU8, AtomicU16};

use crate::next_hop::NextHopId;

/// What has been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// So many addresses from the first one on are done.
    pub count: usize,
    /// One of the entries had all bits set.
    pub cut: bool,
}

/// For each address, the entry at its first 24 bits, as the bits of its next hop.
#[inline]
pub(crate) fn bytes(first: &[AtomicU8; 1 << 24], addrs: &[u32], hops: &mut [Option<NextHopId>]) -> Gathered {
    gather::<_, 0>(first, addrs, hops)
}

/// As [`bytes`], for entries of two bytes.
#[inline]
pub(crate) fn halves(
    first: &[AtomicU16; 1 << 24],
    addrs: &[u32],
    hops: &mut [Option<NextHopId>],
) -> Gathered {
    gather::<_, 1>(first, addrs, hops)
}

#[cfg(target_arch = "x86_64")]
use x86::gather;

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn gather<E, const SHIFT: u32>(_: &[E; 1 << 24], _: &[u32], _: &mut [Option<NextHopId>]) -> Gathered {
    Gathered { count: 0, cut: false }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_or_si256,
        _mm256_set1_epi32, _mm256_setzero_si256, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_srlv_epi32,
        _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
    };

    use super::Gathered;
    use crate::next_hop::NextHopId;

    /// Entries have `1 << SHIFT` bytes: 1 or 2.
    #[inline]
    pub fn gather<E, const SHIFT: u32>(
        first: &[E; 1 << 24],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
    ) -> Gathered {
        const { assert!(SHIFT < 2 && size_of::<E>() == 1 << SHIFT && align_of::<E>() == 1 << SHIFT) };
        if !is_x86_feature_detected!("avx2") {
            return Gathered { count: 0, cut: false };
        }
        // SAFETY: the processor has AVX2.
        unsafe { eights::<E, SHIFT>(first, addrs, hops) }
    }

    #[target_feature(enable = "avx2")]
    fn eights<E, const SHIFT: u32>(
        first: &[E; 1 << 24],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
    ) -> Gathered {
        let all = _mm256_set1_epi32(if SHIFT == 0 { 0xFF } else { 0xFFFF });
        let within = _mm256_set1_epi32(if SHIFT == 0 { 3 } else { 1 });
        let mut cut = _mm256_setzero_si256();
        let ((addrs, _), (hops, _)) = (addrs.as_chunks::<8>(), hops.as_chunks_mut::<8>());
        for (hops, addrs) in hops.iter_mut().zip(addrs) {
            // SAFETY: eight numbers of 4 bytes are 32 bytes; no alignment is needed.
            let index = _mm256_srli_epi32::<8>(unsafe { _mm256_loadu_si256(addrs.as_ptr().cast()) });
            // Entries come in words of 4 bytes: none lies in two cache lines, and none ends beyond the array.
            let place = _mm256_and_si256(index, within);
            let word = match SHIFT {
                0 => _mm256_srli_epi32::<2>(index),
                _ => _mm256_srli_epi32::<1>(index),
            };
            // SAFETY: an index has 24 bits, so that a word's number is below the number of whole words of the array.
            let words = unsafe { words(first.as_ptr().cast(), word) };
            let shift = match SHIFT {
                0 => _mm256_slli_epi32::<3>(place),
                _ => _mm256_slli_epi32::<4>(place),
            };
            let bits = _mm256_and_si256(_mm256_srlv_epi32(words, shift), all);
            cut = _mm256_or_si256(cut, _mm256_cmpeq_epi32(bits, all));
            // SAFETY: room for eight values of 4 bytes, of which every pattern is valid (`NextHopId` is transparent,
            // and zero is `None`); no alignment is needed.
            unsafe { _mm256_storeu_si256(hops.as_mut_ptr().cast(), bits) };
        }
        Gathered { count: addrs.len().min(hops.len()) * 8, cut: _mm256_testz_si256(cut, cut) == 0 }
    }

    /// The words of 4 bytes with these numbers.
    ///
    /// In assembly because other threads store to entries meanwhile, and only that makes eight loads, each of which
    /// sees every entry as it was before or after a store; to the compiler's own gather they would be a data race.
    ///
    /// # Safety
    /// AVX2, and a word at `first` for each of the numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn words(first: *const u32, numbers: __m256i) -> __m256i {
        let mut words = _mm256_setzero_si256();
        let mask = _mm256_xor_si256(words, _mm256_set1_epi32(-1));
        // SAFETY: reads the words that the caller vouches for.
        unsafe {
            asm!(
                "vpgatherdd {words}, dword ptr [{first} + {numbers} * 4], {mask}",
                words = inout(ymm_reg) words,
                mask = inout(ymm_reg) mask => _,
                first = in(reg) first,
                numbers = in(ymm_reg) numbers,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }
}
