//! Four lanes, with the SSE4.1 that the build asks for.
#![allow(unsafe_code)]

use super::{Lanes, operators};
use std::arch::x86_64::*;

/// Four 32-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct U32x4(__m128i);

operators!(U32x4:
    Add add _mm_add_epi32,
    Sub sub _mm_sub_epi32,
    Mul mul _mm_mullo_epi32,
    BitAnd bitand _mm_and_si128,
    BitOr bitor _mm_or_si128,
    BitXor bitxor _mm_xor_si128
);

/// Calls intrinsics that take and give values only.
macro_rules! value {
    ($call:expr) => {
        // SAFETY: it touches no memory, and this module exists only in builds for processors that have SSE4.1.
        unsafe { $call }
    };
}

impl super::sealed::Sealed for U32x4 {}

impl Lanes<4> for U32x4 {
    #[inline(always)]
    fn splat(n: u32) -> U32x4 {
        U32x4(value!(_mm_set1_epi32(n.cast_signed())))
    }

    #[inline(always)]
    fn from_array(numbers: [u32; 4]) -> U32x4 {
        let [a, b, c, d] = numbers.map(u32::cast_signed);
        U32x4(value!(_mm_setr_epi32(a, b, c, d)))
    }

    #[inline(always)]
    fn to_array(self) -> [u32; 4] {
        let v = self.0;
        value!([
            _mm_extract_epi32::<0>(v),
            _mm_extract_epi32::<1>(v),
            _mm_extract_epi32::<2>(v),
            _mm_extract_epi32::<3>(v)
        ])
        .map(i32::cast_unsigned)
    }

    #[inline(always)]
    fn store(self, to: &mut [u32; 4]) {
        // SAFETY: there is room for 16 bytes, of which all make such numbers, and the store needs no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), self.0) };
    }

    #[inline(always)]
    fn columns(rows: [&[u8; 16]; 4]) -> [U32x4; 4] {
        // SAFETY: each reference is to 16 readable bytes, and the load needs no alignment.
        let [a, b, c, d] = rows.map(|row| unsafe { _mm_loadu_si128(row.as_ptr().cast()) });
        value!({
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab2, cd2) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                U32x4(_mm_unpacklo_epi64(ab, cd)),
                U32x4(_mm_unpackhi_epi64(ab, cd)),
                U32x4(_mm_unpacklo_epi64(ab2, cd2)),
                U32x4(_mm_unpackhi_epi64(ab2, cd2)),
            ]
        })
    }

    #[inline(always)]
    fn equal(self, other: U32x4) -> U32x4 {
        U32x4(value!(_mm_cmpeq_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn above(self, other: U32x4) -> U32x4 {
        U32x4(value!(_mm_cmpgt_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        value!(_mm_testz_si128(self.0, self.0)) == 1
    }

    #[inline(always)]
    fn shifted(self, bits: u32) -> U32x4 {
        U32x4(value!(_mm_srl_epi32(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn high_halves(self) -> U32x4 {
        U32x4(value!(_mm_srli_epi32::<16>(self.0)))
    }

    #[inline(always)]
    fn swap_bytes(self) -> U32x4 {
        value!({
            let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            U32x4(_mm_shuffle_epi8(self.0, order))
        })
    }

    #[inline(always)]
    fn signed_sum(self) -> U32x4 {
        U32x4(value!(_mm_madd_epi16(self.0, _mm_set1_epi16(1))))
    }
}
