//! Any number of lanes without special instructions.

use super::Lanes;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

/// `N` 32-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<const N: usize>(pub [u32; N]);

impl<const N: usize> Array<N> {
    #[inline(always)]
    fn with(self, other: Array<N>, f: impl Fn(u32, u32) -> u32) -> Array<N> {
        Array(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $call:expr),*) => {$(
        impl<const N: usize> $trait for Array<N> {
            type Output = Array<N>;

            #[inline(always)]
            fn $method(self, other: Array<N>) -> Array<N> {
                self.with(other, $call)
            }
        }
    )*};
}
operators!(
    Add add u32::wrapping_add,
    Sub sub u32::wrapping_sub,
    Mul mul u32::wrapping_mul,
    BitAnd bitand |a, b| a & b,
    BitOr bitor |a, b| a | b,
    BitXor bitxor |a, b| a ^ b
);

impl<const N: usize> super::sealed::Sealed for Array<N> {}

impl<const N: usize> Lanes<N> for Array<N> {
    #[inline(always)]
    fn splat(n: u32) -> Self {
        Array([n; N])
    }

    #[inline(always)]
    fn from_array(numbers: [u32; N]) -> Self {
        Array(numbers)
    }

    #[inline(always)]
    fn to_array(self) -> [u32; N] {
        self.0
    }

    #[inline(always)]
    fn store(self, to: &mut [u32; N]) {
        *to = self.0;
    }

    #[inline(always)]
    fn columns(rows: [&[u8; 16]; N]) -> [Self; 4] {
        std::array::from_fn(|i| Array(rows.map(|row| u32::from_le_bytes(row.as_chunks().0[i]))))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Self {
        self.with(other, |a, b| if a == b { u32::MAX } else { 0 })
    }

    #[inline(always)]
    fn above(self, other: Self) -> Self {
        self.with(other, |a, b| if a > b { u32::MAX } else { 0 })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0 == [0; N]
    }

    #[inline(always)]
    fn shifted(self, bits: u32) -> Self {
        Array(self.0.map(|n| n.checked_shr(bits).unwrap_or(0)))
    }

    #[inline(always)]
    fn high_halves(self) -> Self {
        Array(self.0.map(|n| n >> 16))
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        Array(self.0.map(u32::swap_bytes))
    }

    #[inline(always)]
    fn signed_sum(self) -> Self {
        let signed = |half: u32| i32::from(half as u16 as i16).cast_unsigned();
        Array(self.0.map(|n| signed(n).wrapping_add(signed(n >> 16))))
    }
}
