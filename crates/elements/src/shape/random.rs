//! A small generator of random numbers for elements that choose at random (SplitMix64). Not for secrets.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, uniform over all 64-bit numbers.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with probability `threshold / 2^32`.
    #[inline]
    pub fn chance(&mut self, threshold: u64) -> bool {
        self.number() >> 32 < threshold
    }
}

/// A probability as a threshold for [`Random::chance`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^32")]
pub fn threshold(probability: f64) -> u64 {
    (probability.clamp(0.0, 1.0) * 4_294_967_296.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_true() {
        let mut random = Random::new(7);
        let hits = |random: &mut Random, p: f64| (0..100_000).filter(|_| random.chance(threshold(p))).count();
        assert_eq!((hits(&mut random, 0.0), hits(&mut random, 1.0)), (0, 100_000));
        let quarter = hits(&mut random, 0.25);
        assert!((24_500..25_500).contains(&quarter), "{quarter}");
    }
}
