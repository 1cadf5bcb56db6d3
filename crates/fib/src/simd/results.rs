//! Results of lookups in the memory of their bits.
#![allow(unsafe_code)]

use crate::next_hop::NextHopId;

/// The same memory, as what a batch of lookups writes.
#[inline]
pub(crate) fn results_in(bits: &mut [u32]) -> &mut [Option<NextHopId>] {
    // SAFETY: a NextHopId is a transparent NonZeroU32, of which `Option` has the layout of u32, and all values of each are
    // values of the other.
    unsafe { std::slice::from_raw_parts_mut(bits.as_mut_ptr().cast(), bits.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_their_bits() {
        let mut bits = [0, 1, 7, u32::MAX];
        let results = results_in(&mut bits);
        assert_eq!(results, [None, NextHopId::new(0), NextHopId::new(6), NextHopId::new(u32::MAX - 1)]);
        (results[0], results[2]) = (NextHopId::new(4), None);
        assert_eq!(bits, [5, 1, 0, u32::MAX]);
    }
}
