//! Eight lanes, on processors that turn out to have AVX2.
#![allow(unsafe_code)]

use super::{Lanes, Work, operators};
use std::arch::x86_64::*;

/// The proof that the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    /// None if the processor does not have it.
    #[inline(always)]
    pub fn detect() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    /// Does `work` with eight lanes.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: the processor has AVX2.
        unsafe { run(work) }
    }
}

#[target_feature(enable = "avx2")]
fn run<W: Work>(work: W) -> W::Output {
    work.run::<U32x8, 8>()
}

/// Eight 32-bit numbers. Nobody but [`run`] can name the type.
#[derive(Clone, Copy, Debug)]
struct U32x8(__m256i);

operators!(U32x8:
    Add add _mm256_add_epi32,
    Sub sub _mm256_sub_epi32,
    Mul mul _mm256_mullo_epi32,
    BitAnd bitand _mm256_and_si256,
    BitOr bitor _mm256_or_si256,
    BitXor bitxor _mm256_xor_si256
);

/// Calls intrinsics that take and give values only.
macro_rules! value {
    ($call:expr) => {
        // SAFETY: it touches no memory, and only work that was given to `Avx2::run` gets here.
        unsafe { $call }
    };
}

impl super::sealed::Sealed for U32x8 {}

impl Lanes<8> for U32x8 {
    #[inline(always)]
    fn splat(n: u32) -> U32x8 {
        U32x8(value!(_mm256_set1_epi32(n.cast_signed())))
    }

    #[inline(always)]
    fn from_array(numbers: [u32; 8]) -> U32x8 {
        let [a, b, c, d, e, f, g, h] = numbers.map(u32::cast_signed);
        U32x8(value!(_mm256_setr_epi32(a, b, c, d, e, f, g, h)))
    }

    #[inline(always)]
    fn to_array(self) -> [u32; 8] {
        value!({
            let (low, high) = (_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0));
            [
                _mm_extract_epi32::<0>(low),
                _mm_extract_epi32::<1>(low),
                _mm_extract_epi32::<2>(low),
                _mm_extract_epi32::<3>(low),
                _mm_extract_epi32::<0>(high),
                _mm_extract_epi32::<1>(high),
                _mm_extract_epi32::<2>(high),
                _mm_extract_epi32::<3>(high),
            ]
        })
        .map(i32::cast_unsigned)
    }

    #[inline(always)]
    fn store(self, to: &mut [u32; 8]) {
        // SAFETY: there is room for 32 bytes, of which all make such numbers; the store needs no alignment, and the processor
        // has AVX2.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), self.0) };
    }

    #[inline(always)]
    fn columns(rows: [&[u8; 16]; 8]) -> [U32x8; 4] {
        let [a, b, c, d] = std::array::from_fn(|i| {
            // SAFETY: each reference is to 16 readable bytes, the load needs no alignment, and the processor has AVX2.
            unsafe {
                let low = _mm_loadu_si128(rows[i].as_ptr().cast());
                let high = _mm_loadu_si128(rows[i + 4].as_ptr().cast());
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
            }
        });
        // The instructions work in each 128 bits alone: there stand a row of each, and those of the lowest ones come first.
        value!({
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ab2, cd2) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                U32x8(_mm256_unpacklo_epi64(ab, cd)),
                U32x8(_mm256_unpackhi_epi64(ab, cd)),
                U32x8(_mm256_unpacklo_epi64(ab2, cd2)),
                U32x8(_mm256_unpackhi_epi64(ab2, cd2)),
            ]
        })
    }

    #[inline(always)]
    fn equal(self, other: U32x8) -> U32x8 {
        U32x8(value!(_mm256_cmpeq_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn above(self, other: U32x8) -> U32x8 {
        U32x8(value!(_mm256_cmpgt_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        value!(_mm256_testz_si256(self.0, self.0)) == 1
    }

    #[inline(always)]
    fn shifted(self, bits: u32) -> U32x8 {
        U32x8(value!(_mm256_srl_epi32(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn high_halves(self) -> U32x8 {
        U32x8(value!(_mm256_srli_epi32::<16>(self.0)))
    }

    #[inline(always)]
    fn swap_bytes(self) -> U32x8 {
        value!({
            let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            U32x8(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order)))
        })
    }

    #[inline(always)]
    fn signed_sum(self) -> U32x8 {
        U32x8(value!(_mm256_madd_epi16(self.0, _mm256_set1_epi16(1))))
    }
}
