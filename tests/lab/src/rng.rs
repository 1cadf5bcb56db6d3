//! A small seeded random number generator (SplitMix64): the same seed gives the same packets everywhere.

use std::ops::RangeInclusive;

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose sequence is determined by `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `range`, all equally likely (up to a bias of 2⁻³² for the small ranges used here).
    pub fn within(&mut self, range: RangeInclusive<u32>) -> u32 {
        let span = u64::from(range.end().saturating_sub(*range.start())) + 1;
        let offset = ((self.bits() >> 32) * span) >> 32;
        range.start().wrapping_add(offset as u32)
    }

    /// An index below `length`, which must not be 0.
    pub fn index(&mut self, length: usize) -> usize {
        debug_assert!(length > 0);
        (((self.bits() >> 32) * length as u64) >> 32) as usize
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// One of `choices`, each as often as the number with it says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(T, u32)]) -> T {
        let mut left = self.within(1..=choices.iter().map(|(_, share)| share).sum());
        for &(choice, share) in choices {
            if left <= share {
                return choice;
            }
            left -= share;
        }
        choices[0].0
    }

    /// True `percent` times out of a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.within(1..=100) <= percent
    }

    /// A random octet.
    pub fn octet(&mut self) -> u8 {
        (self.bits() >> 56) as u8
    }

    /// 16 random bits.
    pub fn word(&mut self) -> u16 {
        (self.bits() >> 48) as u16
    }

    /// `length` random octets.
    pub fn octets(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.octet()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_sequence() {
        let mut rng = Rng::new(0);
        // The published first outputs of SplitMix64 for seed 0.
        assert_eq!(rng.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn ranges_are_covered_and_kept() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 4];
        for _ in 0..1000 {
            seen[rng.within(3..=6) as usize - 3] += 1;
        }
        assert!(seen.iter().all(|&n| n > 150), "{seen:?}");
        assert_eq!(rng.within(9..=9), 9);
    }
}
