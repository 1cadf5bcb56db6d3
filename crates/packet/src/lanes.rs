//! Four 32-bit numbers side by side: the same field of four packets, worked on at once.
//!
//! One set of operations in two forms that do the same: SSE4.1 where the build may use it, arrays elsewhere.

pub use form::U32x4;

/// Lane by lane, as the operators of `u32` do it; `+` and `-` wrap.
macro_rules! operators {
    ($($op:ident $method:ident $call:ident),*) => {$(
        impl std::ops::$op for U32x4 {
            type Output = U32x4;

            #[inline(always)]
            fn $method(self, other: U32x4) -> U32x4 {
                self.$call(other)
            }
        }
    )*};
}
operators!(Add add wrapping_add, Sub sub wrapping_sub, BitAnd bitand and, BitOr bitor or, BitXor bitxor xor);

impl std::fmt::Debug for U32x4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_array().fmt(f)
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse4.1"))]
#[allow(unsafe_code)]
mod form {
    use std::arch::x86_64::*;

    /// Four 32-bit numbers.
    #[derive(Clone, Copy)]
    pub struct U32x4(__m128i);

    /// Calls an intrinsic that takes and gives values only.
    macro_rules! value {
        ($call:expr) => {
            // SAFETY: it touches no memory, and this module exists only in builds for processors that have SSE4.1.
            unsafe { $call }
        };
    }

    impl U32x4 {
        /// The same number in all lanes.
        #[inline(always)]
        pub fn splat(n: u32) -> U32x4 {
            U32x4(value!(_mm_set1_epi32(n.cast_signed())))
        }

        /// These numbers, from lane 0 on.
        #[inline(always)]
        pub fn from_array(n: [u32; 4]) -> U32x4 {
            let [a, b, c, d] = n.map(u32::cast_signed);
            U32x4(value!(_mm_setr_epi32(a, b, c, d)))
        }

        /// The numbers, from lane 0 on.
        #[inline(always)]
        pub fn to_array(self) -> [u32; 4] {
            let v = self.0;
            value!([
                _mm_extract_epi32::<0>(v),
                _mm_extract_epi32::<1>(v),
                _mm_extract_epi32::<2>(v),
                _mm_extract_epi32::<3>(v)
            ])
            .map(i32::cast_unsigned)
        }

        /// The first, second, third and fourth little-endian word of each row; lane i comes from row i.
        #[inline(always)]
        pub fn columns(rows: [&[u8; 16]; 4]) -> [U32x4; 4] {
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
        pub(super) fn wrapping_add(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_add_epi32(self.0, other.0)))
        }

        #[inline(always)]
        pub(super) fn wrapping_sub(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_sub_epi32(self.0, other.0)))
        }

        #[inline(always)]
        pub(super) fn and(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_and_si128(self.0, other.0)))
        }

        #[inline(always)]
        pub(super) fn or(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_or_si128(self.0, other.0)))
        }

        #[inline(always)]
        pub(super) fn xor(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_xor_si128(self.0, other.0)))
        }

        /// All ones in the lanes where both are the same, else 0.
        #[inline(always)]
        pub fn equal(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_cmpeq_epi32(self.0, other.0)))
        }

        /// All ones in the lanes where this is larger, else 0. Both must be below 2³¹.
        #[inline(always)]
        pub fn above(self, other: U32x4) -> U32x4 {
            U32x4(value!(_mm_cmpgt_epi32(self.0, other.0)))
        }

        /// True if all lanes are 0.
        #[inline(always)]
        pub fn is_zero(self) -> bool {
            value!(_mm_testz_si128(self.0, self.0)) == 1
        }

        /// The upper halves.
        #[inline(always)]
        pub fn high_halves(self) -> U32x4 {
            U32x4(value!(_mm_srli_epi32::<16>(self.0)))
        }

        /// With the bytes in the opposite order.
        #[inline(always)]
        pub fn swap_bytes(self) -> U32x4 {
            value!({
                let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
                U32x4(_mm_shuffle_epi8(self.0, order))
            })
        }

        /// The sum over all `numbers` of their lower and upper halves. At most 2¹⁵ numbers.
        #[inline(always)]
        pub fn sum_of_halves<const N: usize>(numbers: [U32x4; N]) -> U32x4 {
            const { assert!(N <= 1 << 15) };
            // The instruction multiplies signed halves: with the upper bit flipped they are too small by 2^15 each.
            let flip = U32x4::splat(0x8000_8000);
            let mut sum = U32x4::splat((N as u32) << 16);
            for number in numbers {
                sum = sum + U32x4(value!(_mm_madd_epi16((number ^ flip).0, _mm_set1_epi16(1))));
            }
            sum
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse4.1")))]
use arrays as form;

/// Beside SSE4.1 only to be compared with it.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse4.1"))))]
mod arrays {
    /// Four 32-bit numbers.
    #[derive(Clone, Copy)]
    pub struct U32x4([u32; 4]);

    impl U32x4 {
        /// The same number in all lanes.
        #[inline(always)]
        pub fn splat(n: u32) -> U32x4 {
            U32x4([n; 4])
        }

        /// These numbers, from lane 0 on.
        #[inline(always)]
        pub fn from_array(n: [u32; 4]) -> U32x4 {
            U32x4(n)
        }

        /// The numbers, from lane 0 on.
        #[inline(always)]
        pub fn to_array(self) -> [u32; 4] {
            self.0
        }

        /// The first, second, third and fourth little-endian word of each row; lane i comes from row i.
        #[inline(always)]
        pub fn columns(rows: [&[u8; 16]; 4]) -> [U32x4; 4] {
            std::array::from_fn(|i| U32x4(rows.map(|row| u32::from_le_bytes(row.as_chunks().0[i]))))
        }

        #[inline(always)]
        fn with(self, other: U32x4, f: impl Fn(u32, u32) -> u32) -> U32x4 {
            U32x4(std::array::from_fn(|i| f(self.0[i], other.0[i])))
        }

        #[inline(always)]
        pub(super) fn wrapping_add(self, other: U32x4) -> U32x4 {
            self.with(other, u32::wrapping_add)
        }

        #[inline(always)]
        pub(super) fn wrapping_sub(self, other: U32x4) -> U32x4 {
            self.with(other, u32::wrapping_sub)
        }

        #[inline(always)]
        pub(super) fn and(self, other: U32x4) -> U32x4 {
            self.with(other, |a, b| a & b)
        }

        #[inline(always)]
        pub(super) fn or(self, other: U32x4) -> U32x4 {
            self.with(other, |a, b| a | b)
        }

        #[inline(always)]
        pub(super) fn xor(self, other: U32x4) -> U32x4 {
            self.with(other, |a, b| a ^ b)
        }

        /// All ones in the lanes where both are the same, else 0.
        #[inline(always)]
        pub fn equal(self, other: U32x4) -> U32x4 {
            self.with(other, |a, b| if a == b { u32::MAX } else { 0 })
        }

        /// All ones in the lanes where this is larger, else 0. Both must be below 2³¹.
        #[inline(always)]
        pub fn above(self, other: U32x4) -> U32x4 {
            self.with(other, |a, b| if a > b { u32::MAX } else { 0 })
        }

        /// True if all lanes are 0.
        #[inline(always)]
        pub fn is_zero(self) -> bool {
            self.0 == [0; 4]
        }

        /// The upper halves.
        #[inline(always)]
        pub fn high_halves(self) -> U32x4 {
            U32x4(self.0.map(|n| n >> 16))
        }

        /// With the bytes in the opposite order.
        #[inline(always)]
        pub fn swap_bytes(self) -> U32x4 {
            U32x4(self.0.map(u32::swap_bytes))
        }

        /// The sum over all `numbers` of their lower and upper halves. At most 2¹⁵ numbers.
        #[inline(always)]
        pub fn sum_of_halves<const N: usize>(numbers: [U32x4; N]) -> U32x4 {
            const { assert!(N <= 1 << 15) };
            U32x4(std::array::from_fn(|i| numbers.iter().map(|n| (n.0[i] & 0xffff) + (n.0[i] >> 16)).sum()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{U32x4 as Used, arrays::U32x4 as Plain};

    /// Numbers with all their bits in play, the corners among them.
    fn numbers() -> Vec<[u32; 4]> {
        let mut state = 1u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let corners = [[0; 4], [u32::MAX; 4], [0x8000_8000; 4], [0x7fff_ffff, 0x8000_0000, 0xffff, 0x1_0000]];
        corners.into_iter().chain((0..500).map(|_| std::array::from_fn(|_| next()))).collect()
    }

    #[test]
    fn both_forms_do_the_same() {
        for pair in numbers().windows(2) {
            let (a, b) = (Used::from_array(pair[0]), Used::from_array(pair[1]));
            let (c, d) = (Plain::from_array(pair[0]), Plain::from_array(pair[1]));
            assert_eq!(a.to_array(), pair[0]);
            assert_eq!((a + b).to_array(), c.wrapping_add(d).to_array());
            assert_eq!((a - b).to_array(), c.wrapping_sub(d).to_array());
            assert_eq!((a & b).to_array(), c.and(d).to_array());
            assert_eq!((a | b).to_array(), c.or(d).to_array());
            assert_eq!((a ^ b).to_array(), c.xor(d).to_array());
            assert_eq!(a.equal(b).to_array(), c.equal(d).to_array());
            assert_eq!(a.equal(a).to_array(), [u32::MAX; 4]);
            assert_eq!(a.is_zero(), c.is_zero());
            assert_eq!(a.high_halves().to_array(), c.high_halves().to_array());
            assert_eq!(a.swap_bytes().to_array(), c.swap_bytes().to_array());
            assert_eq!(Used::sum_of_halves([a, b, a]).to_array(), Plain::sum_of_halves([c, d, c]).to_array());
            let low = [0x7fff_ffff; 4];
            let (a, b) = (a & Used::from_array(low), b & Used::from_array(low));
            let (c, d) = (c.and(Plain::from_array(low)), d.and(Plain::from_array(low)));
            assert_eq!(a.above(b).to_array(), c.above(d).to_array());
            assert_eq!(Used::splat(pair[0][0]).to_array(), Plain::splat(pair[0][0]).to_array());
        }
        for four in numbers().windows(4) {
            let rows: Vec<[u8; 16]> =
                four.iter().map(|row| std::array::from_fn(|i| row[i / 4].to_le_bytes()[i % 4])).collect();
            let rows: [&[u8; 16]; 4] = std::array::from_fn(|i| &rows[i]);
            let columns = Used::columns(rows).map(Used::to_array);
            assert_eq!(columns, Plain::columns(rows).map(Plain::to_array));
            assert_eq!(columns[1], [four[0][1], four[1][1], four[2][1], four[3][1]]);
        }
    }
}
