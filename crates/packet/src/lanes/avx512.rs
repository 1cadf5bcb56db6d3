//! Sixteen lanes, on processors that turn out to have AVX-512 with its extensions for bytes and words (BW) and for double and
//! quad words (DQ).
#![allow(unsafe_code)]

use super::{Lanes, Work, operators};
use std::arch::x86_64::*;

/// The proof that the processor has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    /// None if the processor does not have it.
    #[inline(always)]
    pub fn detect() -> Option<Avx512> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        all.then_some(Avx512(()))
    }

    /// Does `work` with sixteen lanes.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: the processor has all of them.
        unsafe { run(work) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn run<W: Work>(work: W) -> W::Output {
    work.run::<U32x16, 16>()
}

/// Sixteen 32-bit numbers. Nobody but [`run`] can name the type.
#[derive(Clone, Copy, Debug)]
struct U32x16(__m512i);

operators!(U32x16:
    Add add _mm512_add_epi32,
    Sub sub _mm512_sub_epi32,
    Mul mul _mm512_mullo_epi32,
    BitAnd bitand _mm512_and_si512,
    BitOr bitor _mm512_or_si512,
    BitXor bitxor _mm512_xor_si512
);

/// Calls intrinsics that take and give values only.
macro_rules! value {
    ($call:expr) => {
        // SAFETY: it touches no memory, and only work that was given to `Avx512::run` gets here.
        unsafe { $call }
    };
}

/// Four quarters, the lowest first.
#[inline(always)]
fn together([a, b, c, d]: [__m128i; 4]) -> __m512i {
    value!({
        let half = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
        _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(half, c), d)
    })
}

impl super::sealed::Sealed for U32x16 {}

impl Lanes<16> for U32x16 {
    #[inline(always)]
    fn splat(n: u32) -> U32x16 {
        U32x16(value!(_mm512_set1_epi32(n.cast_signed())))
    }

    #[inline(always)]
    fn from_array(numbers: [u32; 16]) -> U32x16 {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = numbers.map(u32::cast_signed);
        U32x16(value!(_mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)))
    }

    #[inline(always)]
    fn to_array(self) -> [u32; 16] {
        let mut numbers = [0; 16];
        self.store(&mut numbers);
        numbers
    }

    #[inline(always)]
    fn store(self, to: &mut [u32; 16]) {
        // SAFETY: there is room for 64 bytes, of which all make such numbers; the store needs no alignment, and the processor
        // has AVX-512.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) };
    }

    #[inline(always)]
    fn columns(rows: [&[u8; 16]; 16]) -> [U32x16; 4] {
        let [a, b, c, d] = std::array::from_fn(|i| {
            // SAFETY: each reference is to 16 readable bytes, the load needs no alignment, and the processor has AVX-512.
            together([0, 4, 8, 12].map(|at| unsafe { _mm_loadu_si128(rows[i + at].as_ptr().cast()) }))
        });
        // The instructions work in each 128 bits alone: there stand a row of each, and those of the lowest ones come first.
        value!({
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab2, cd2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                U32x16(_mm512_unpacklo_epi64(ab, cd)),
                U32x16(_mm512_unpackhi_epi64(ab, cd)),
                U32x16(_mm512_unpacklo_epi64(ab2, cd2)),
                U32x16(_mm512_unpackhi_epi64(ab2, cd2)),
            ]
        })
    }

    #[inline(always)]
    fn equal(self, other: U32x16) -> U32x16 {
        U32x16(value!(_mm512_movm_epi32(_mm512_cmpeq_epi32_mask(self.0, other.0))))
    }

    #[inline(always)]
    fn above(self, other: U32x16) -> U32x16 {
        U32x16(value!(_mm512_movm_epi32(_mm512_cmpgt_epi32_mask(self.0, other.0))))
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        value!(_mm512_test_epi32_mask(self.0, self.0)) == 0
    }

    #[inline(always)]
    fn high_halves(self) -> U32x16 {
        U32x16(value!(_mm512_srli_epi32::<16>(self.0)))
    }

    #[inline(always)]
    fn swap_bytes(self) -> U32x16 {
        value!({
            let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            U32x16(_mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(order)))
        })
    }

    #[inline(always)]
    fn signed_sum(self) -> U32x16 {
        U32x16(value!(_mm512_madd_epi16(self.0, _mm512_set1_epi16(1))))
    }
}
