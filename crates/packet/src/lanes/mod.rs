//! Some 32-bit numbers side by side: the same field of as many packets, worked on at once.
//!
//! [`Lanes`] is one set of operations in forms that do the same: SSE4.1 and AVX2 where there is such a
//! processor, arrays elsewhere. What is written for any of them is [`Work`], which [`widest`] gives to the widest one.

/// Beside SSE4.1 only for the others to be compared with.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse4.1"))))]
mod arrays;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse4.1"))]
mod sse;

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

mod sealed {
    /// Unsafe code relies on what the implementations do, so there are none elsewhere.
    pub trait Sealed {}
}

/// `N` 32-bit numbers. The operators work lane by lane as those of `u32` do; `+`, `-` and `*` wrap.
pub trait Lanes<const N: usize>:
    sealed::Sealed
    + Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The same number in all lanes.
    fn splat(n: u32) -> Self;

    /// These numbers, from lane 0 on.
    fn from_array(numbers: [u32; N]) -> Self;

    /// The numbers, from lane 0 on.
    fn to_array(self) -> [u32; N];

    /// Writes the numbers there, from lane 0 on.
    fn store(self, to: &mut [u32; N]);

    /// The first, second, third and fourth little-endian word of each row; lane i comes from row i.
    fn columns(rows: [&[u8; 16]; N]) -> [Self; 4];

    /// All ones in the lanes where both are the same, else 0.
    fn equal(self, other: Self) -> Self;

    /// All ones in the lanes where this is larger, else 0. Both must be below 2³¹.
    fn above(self, other: Self) -> Self;

    /// True if all lanes are 0.
    fn is_zero(self) -> bool;

    /// Shifted to the right; 0 by 32 bits and more.
    fn shifted(self, bits: u32) -> Self;

    /// The upper halves.
    fn high_halves(self) -> Self;

    /// With the bytes in the opposite order.
    fn swap_bytes(self) -> Self;

    /// The sum of the lower and the upper half of each, both taken as signed.
    fn signed_sum(self) -> Self;

    /// The sum over all `numbers` of their lower and upper halves. At most 2¹⁵ numbers.
    #[inline(always)]
    fn sum_of_halves<const M: usize>(numbers: [Self; M]) -> Self {
        const { assert!(M <= 1 << 15) };
        // Processors take halves as signed: with the upper bit flipped they are too small by 2^15 each.
        let flip = Self::splat(0x8000_8000);
        let correction = Self::splat((M as u32) << 16);
        numbers.into_iter().fold(correction, |sum, number| sum + (number ^ flip).signed_sum())
    }
}

/// Something to be done with any number of lanes.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Does it. To be `#[inline(always)]`, as all that it calls for each packet: only what ends up in one function with
    /// its caller is compiled for the processor in question.
    fn run<V: Lanes<N>, const N: usize>(self) -> Self::Output;
}

/// Does `work` with as many lanes as the processor has: eight with AVX2, else four.
#[inline]
pub fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = avx2::Avx2::detect() {
        return avx2.run(work);
    }
    four(work)
}

/// Does `work` with four lanes.
#[inline]
pub fn four<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse4.1"))]
    return work.run::<sse::U32x4, 4>();
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse4.1")))]
    work.run::<arrays::Array<4>, 4>()
}

/// The operators of a type, by functions of two values of what is in it.
macro_rules! operators {
    ($lanes:ident: $($trait:ident $method:ident $call:expr),*) => {$(
        impl std::ops::$trait for $lanes {
            type Output = $lanes;

            #[inline(always)]
            fn $method(self, other: $lanes) -> $lanes {
                // SAFETY: see the module: the processor has these instructions, and they touch no memory.
                $lanes(unsafe { $call(self.0, other.0) })
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
use operators;

#[cfg(test)]
mod tests {
    use super::arrays::Array;
    use super::*;

    /// Numbers with all their bits in play, the corners among them.
    fn numbers<const N: usize>() -> Vec<[u32; N]> {
        let mut state = 1u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let corners = [0, u32::MAX, 0x8000_8000, 0x7fff_ffff, 0x8000_0000, 0xffff, 0x1_0000];
        let same = corners.map(|n| [n; N]).into_iter();
        let mixed = std::iter::once(std::array::from_fn(|i| corners[i % corners.len()]));
        same.chain(mixed).chain((0..500).map(|_| std::array::from_fn(|_| next()))).collect()
    }

    /// Compares with arrays, and returns the number of lanes.
    struct Compare;

    impl Work for Compare {
        type Output = usize;

        #[inline(always)]
        fn run<V: Lanes<N>, const N: usize>(self) -> usize {
            for pair in numbers::<N>().windows(2) {
                let (a, b) = (V::from_array(pair[0]), V::from_array(pair[1]));
                let (c, d) = (Array(pair[0]), Array(pair[1]));
                assert_eq!(a.to_array(), pair[0]);
                let mut stored = [7; N];
                b.store(&mut stored);
                assert_eq!(stored, pair[1]);
                assert_eq!((a + b).to_array(), (c + d).0);
                assert_eq!((a - b).to_array(), (c - d).0);
                assert_eq!((a * b).to_array(), (c * d).0);
                assert_eq!((a & b).to_array(), (c & d).0);
                assert_eq!((a | b).to_array(), (c | d).0);
                assert_eq!((a ^ b).to_array(), (c ^ d).0);
                assert_eq!(a.equal(b).to_array(), c.equal(d).0);
                assert_eq!(a.equal(a).to_array(), [u32::MAX; N]);
                assert_eq!(a.is_zero(), c.is_zero());
                for bits in [0, 1, 9, 31, 32, 40] {
                    assert_eq!(a.shifted(bits).to_array(), c.shifted(bits).0);
                }
                assert_eq!(a.shifted(9).to_array(), pair[0].map(|n| n >> 9));
                assert_eq!(a.high_halves().to_array(), c.high_halves().0);
                assert_eq!(a.swap_bytes().to_array(), c.swap_bytes().0);
                assert_eq!(a.signed_sum().to_array(), c.signed_sum().0);
                let halves = |i: usize| 2 * ((pair[0][i] & 0xffff) + (pair[0][i] >> 16));
                let sum = std::array::from_fn(|i| halves(i) + (pair[1][i] & 0xffff) + (pair[1][i] >> 16));
                assert_eq!(V::sum_of_halves([a, b, a]).to_array(), sum);
                let (low, low_array) = (V::splat(0x7fff_ffff), Array::splat(0x7fff_ffff));
                assert_eq!(low.to_array(), [0x7fff_ffff; N]);
                let above = (a & low).above(b & low);
                assert_eq!(above.to_array(), (c & low_array).above(d & low_array).0);
            }
            for window in numbers::<4>().windows(N) {
                let bytes: Vec<[u8; 16]> = window
                    .iter()
                    .map(|row| std::array::from_fn(|i| row[i / 4].to_le_bytes()[i % 4]))
                    .collect();
                let rows: [&[u8; 16]; N] = std::array::from_fn(|i| &bytes[i]);
                let columns = V::columns(rows).map(V::to_array);
                assert_eq!(columns, Array::columns(rows).map(|column| column.0));
                assert_eq!(columns[1], std::array::from_fn(|i| window[i][1]));
            }
            N
        }
    }

    #[test]
    fn all_forms_do_the_same() {
        assert_eq!(four(Compare), 4);
        assert!([4, 8].contains(&widest(Compare)));
        assert_eq!(Compare.run::<Array<8>, 8>(), 8);
    }
}
