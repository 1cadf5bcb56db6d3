//! Loads of table entries for several addresses at once, where the processor has an instruction for it (AVX-512, AVX2).
//!
//! Whoever calls it finishes what it leaves, one by one: elsewhere that is everything.

use crate::next_hop::NextHopId;

/// The most addresses that one call takes.
pub(crate) const LANES: usize = 64;
/// One entry for each value of 24 bits.
pub(crate) const ENTRIES: usize = 1 << 24;
/// The same for two entries in a byte.
pub(crate) const PAIRS: usize = 1 << 23;

/// What has been done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// So many addresses from the first one on are done.
    pub count: usize,
    /// Bit `i` is set when all bits of the entry of address `i` are.
    pub ones: u64,
}

/// The widest instructions that the processor has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gather(Width);

#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "x86 only"))]
enum Width {
    Sixteen,
    Eight,
    One,
}

impl Gather {
    /// Those of this processor.
    pub fn detect() -> Gather {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            return Gather(Width::Sixteen);
        } else if is_x86_feature_detected!("avx2") {
            return Gather(Width::Eight);
        }
        Gather(Width::One)
    }

    /// For each address, the entry at its first 24 bits, as the bits of its next hop. An entry has `BITS` bits: 4, then two lie in a
    /// byte, the first one in its low half, or 8 or 16. There are as many `hops` as addresses, at most [`LANES`]. `further` is called,
    /// and it last, unless all is done and no entry has all its bits set.
    #[inline(always)]
    #[allow(unsafe_code)]
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "x86 only"))]
    pub fn entries<E, const N: usize, const BITS: u32>(
        self,
        first: &[E; N],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
    ) {
        match self.0 {
            // SAFETY: only `detect` makes a `Gather`, and it has found AVX-512.
            #[cfg(target_arch = "x86_64")]
            Width::Sixteen => unsafe { x86::sixteens::<E, N, BITS>(first, addrs, hops, further) },
            // SAFETY: as above, AVX2.
            #[cfg(target_arch = "x86_64")]
            Width::Eight => unsafe { x86::eights::<E, N, BITS>(first, addrs, hops, further) },
            _ => further(Gathered::default(), addrs, hops),
        }
    }
}

/// Words of 4 bytes are loaded in assembly because other threads store to entries meanwhile, and only that makes a load
/// of each, which sees an entry as it was before or after a store; to the compiler's own gather they would be a data
/// race. They are those that entries fill, side by side, not those that begin with an entry: one in twenty of these would lie in
/// two cache lines.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_lddqu_si256,
        _mm256_movemask_ps, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srlv_epi32, _mm256_storeu_si256,
        _mm512_and_si512, _mm512_mask_cmpeq_epi32_mask, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32,
        _mm512_set1_epi32, _mm512_setzero_si512, _mm512_srlv_epi32,
    };

    use super::Gathered;
    use crate::next_hop::NextHopId;

    /// All bits of an entry.
    const fn all(bits: u32) -> i32 {
        (1 << bits) - 1
    }

    /// By how many bits an address is shifted to give the number of its entry's word.
    const fn to_word(bits: u32) -> i32 {
        8 + (u32::BITS / bits).trailing_zeros() as i32
    }

    /// By how many bits an address is shifted to give, where [`within`] has ones, the place of its entry in the word.
    const fn to_place(bits: u32) -> i32 {
        8 - bits.trailing_zeros() as i32
    }

    /// The bits of the places of entries in a word.
    const fn within(bits: u32) -> i32 {
        (u32::BITS - bits) as i32
    }

    /// True if there is a word for every address.
    const fn fits<E, const N: usize>(bits: u32) -> bool {
        let bytes = ((1 << 24) * bits as usize) / 8;
        matches!(bits, 4 | 8 | 16) && align_of::<E>() * 8 >= bits as usize && bytes <= N * size_of::<E>()
    }

    #[target_feature(enable = "avx512f")]
    pub fn sixteens<E, const N: usize, const BITS: u32>(
        first: &[E; N],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
    ) {
        let mut gathered = Gathered::default();
        let ((many, rest), (many_hops, rest_hops)) = (addrs.as_chunks::<16>(), hops.as_chunks_mut::<16>());
        for (hops, addrs) in many_hops.iter_mut().zip(many) {
            let ones = up_to_sixteen::<E, N, BITS>(first, addrs, hops, u16::MAX);
            gathered.ones |= u64::from(ones) << gathered.count;
            gathered.count += 16;
        }
        let left = rest.len().min(rest_hops.len());
        if left > 0 {
            let ones = up_to_sixteen::<E, N, BITS>(first, rest, rest_hops, u16::MAX >> (16 - left));
            gathered.ones |= u64::from(ones) << gathered.count;
            gathered.count += left;
        }
        if gathered.count < addrs.len() || gathered.ones != 0 {
            further(gathered, addrs, hops);
        }
    }

    /// Those that have a bit in `lanes`; returns which of them have entries with all bits set.
    ///
    /// # Panics
    /// If there are more lanes than addresses or hops.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn up_to_sixteen<E, const N: usize, const BITS: u32>(
        first: &[E; N],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        lanes: u16,
    ) -> u16 {
        const { assert!(fits::<E, N>(BITS)) };
        assert!(u32::from(lanes) < 1 << addrs.len().min(hops.len()).min(16));
        let all = _mm512_set1_epi32(all(BITS));
        // SAFETY: there is a number of 4 bytes for each lane; no alignment is needed.
        let addrs = unsafe { _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast()) };
        let numbers = _mm512_srlv_epi32(addrs, _mm512_set1_epi32(to_word(BITS)));
        // SAFETY: numbers of entries have 24 bits, and `fits` sees to it that the words of all are there.
        let words = unsafe { words16(first.as_ptr().cast(), numbers) };
        let places = _mm512_srlv_epi32(addrs, _mm512_set1_epi32(to_place(BITS)));
        let words = _mm512_srlv_epi32(words, _mm512_and_si512(places, _mm512_set1_epi32(within(BITS))));
        let bits = _mm512_and_si512(words, all);
        // SAFETY: there is room for a value of 4 bytes for each lane, of which every pattern is valid (`NextHopId` is
        // transparent, and zero is `None`); no alignment is needed.
        unsafe { _mm512_mask_storeu_epi32(hops.as_mut_ptr().cast(), lanes, bits) };
        _mm512_mask_cmpeq_epi32_mask(lanes, bits, all)
    }

    #[target_feature(enable = "avx2")]
    pub fn eights<E, const N: usize, const BITS: u32>(
        first: &[E; N],
        addrs: &[u32],
        hops: &mut [Option<NextHopId>],
        further: impl FnOnce(Gathered, &[u32], &mut [Option<NextHopId>]),
    ) {
        const { assert!(fits::<E, N>(BITS)) };
        let all = _mm256_set1_epi32(all(BITS));
        let mut gathered = Gathered::default();
        for (hops, addrs) in hops.as_chunks_mut::<8>().0.iter_mut().zip(addrs.as_chunks::<8>().0) {
            // SAFETY: eight numbers of 4 bytes are 32 bytes; no alignment is needed.
            let addrs = unsafe { _mm256_lddqu_si256(addrs.as_ptr().cast()) };
            let numbers = _mm256_srlv_epi32(addrs, _mm256_set1_epi32(to_word(BITS)));
            // SAFETY: as in `up_to_sixteen`.
            let words = unsafe { words8(first.as_ptr().cast(), numbers) };
            let places = _mm256_srlv_epi32(addrs, _mm256_set1_epi32(to_place(BITS)));
            let words = _mm256_srlv_epi32(words, _mm256_and_si256(places, _mm256_set1_epi32(within(BITS))));
            let bits = _mm256_and_si256(words, all);
            let ones = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, all)));
            gathered.ones |= u64::from(ones as u8) << gathered.count;
            gathered.count += 8;
            // SAFETY: room for eight values of 4 bytes, of which every pattern is valid (`NextHopId` is transparent,
            // and zero is `None`); no alignment is needed.
            unsafe { _mm256_storeu_si256(hops.as_mut_ptr().cast(), bits) };
        }
        if gathered.count < addrs.len() || gathered.ones != 0 {
            further(gathered, addrs, hops);
        }
    }

    /// The words with these numbers, counted from 0.
    ///
    /// # Safety
    /// There must be a word of each number behind `first`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn words16(first: *const u8, numbers: __m512i) -> __m512i {
        let mut words = _mm512_setzero_si512();
        // SAFETY: reads the words that the caller vouches for, all of them; the mask is used up.
        unsafe {
            asm!(
                // Not by `kxnor` of mask registers: it waits for what they last held, and that is the gather before.
                "kmovw {mask}, {ones:e}",
                "vpgatherdd {words} {{{mask}}}, dword ptr [{first} + {numbers} * 4]",
                words = inout(zmm_reg) words,
                ones = in(reg) u32::from(u16::MAX),
                mask = out(kreg) _,
                first = in(reg) first,
                numbers = in(zmm_reg) numbers,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }

    /// As [`words16`].
    ///
    /// # Safety
    /// As there.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn words8(first: *const u8, numbers: __m256i) -> __m256i {
        let mut words = _mm256_setzero_si256();
        // SAFETY: reads the words that the caller vouches for, all of them; the mask is used up.
        unsafe {
            asm!(
                "vpcmpeqd {mask}, {mask}, {mask}",
                "vpgatherdd {words}, dword ptr [{first} + {numbers} * 4], {mask}",
                words = inout(ymm_reg) words,
                mask = out(ymm_reg) _,
                first = in(reg) first,
                numbers = in(ymm_reg) numbers,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Puts down what is left to do, if anything.
    type How<E, const N: usize> = fn(&[E; N], &[u32], &mut [Option<NextHopId>], &mut Option<Gathered>);

    /// The ways that this processor has, each with the number of addresses of which it does a multiple.
    fn ways<E, const N: usize, const BITS: u32>() -> Vec<(How<E, N>, usize)> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut ways: Vec<(How<E, N>, usize)> = Vec::new();
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512.
                ways.push((
                    |first, addrs, hops, left| unsafe {
                        x86::sixteens::<E, N, BITS>(first, addrs, hops, |done, _, _| *left = Some(done));
                    },
                    1,
                ));
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                ways.push((
                    |first, addrs, hops, left| unsafe {
                        x86::eights::<E, N, BITS>(first, addrs, hops, |done, _, _| *left = Some(done));
                    },
                    8,
                ));
            }
            ways
        }
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// `load` gives the entry with a number.
    fn agree<E, const N: usize, const BITS: u32>(
        first: &[E; N],
        load: impl Fn(&[E; N], usize) -> u32,
        addrs: &[u32],
    ) -> Result<(), TestCaseError> {
        let expected: Vec<u32> = addrs.iter().map(|addr| load(first, (addr >> 8) as usize)).collect();
        for (way, lanes) in ways::<E, N, BITS>() {
            let mut hops = vec![NextHopId::new(0xDEAD); addrs.len()];
            let mut left = None;
            way(first, addrs, &mut hops, &mut left);
            let is_all = addrs.len().is_multiple_of(lanes) && !expected.contains(&((1 << BITS) - 1));
            prop_assert_eq!(left.is_none(), is_all);
            let gathered = left.unwrap_or(Gathered { count: addrs.len(), ones: 0 });
            prop_assert_eq!(gathered.count, addrs.len() / lanes * lanes);
            for (lane, (&hop, &bits)) in hops.iter().zip(&expected).enumerate() {
                let done = lane < gathered.count;
                prop_assert_eq!(hop, if done { NextHopId::from_bits(bits) } else { NextHopId::new(0xDEAD) });
                prop_assert_eq!(gathered.ones >> lane & 1 == 1, done && bits == (1 << BITS) - 1);
            }
        }
        Ok(())
    }

    fn array<E, const N: usize>(entry: impl Fn(u32) -> E) -> Box<[E; N]> {
        (0..N as u32).map(entry).collect::<Vec<_>>().try_into().ok().unwrap()
    }

    #[test]
    fn gathering_gives_what_loading_one_by_one_gives() {
        // Every 256th entry has all bits set, neighbours differ.
        let nibbles = array(|i| AtomicU8::new((i ^ i >> 8) as u8));
        let bytes = array(|i| AtomicU8::new((i ^ i >> 8) as u8));
        let halves = array(|i| AtomicU16::new(if i % 7 == 0 { u16::MAX } else { (i ^ i >> 16) as u16 }));
        let addr = prop_oneof![any::<u32>(), 0..2048u32, u32::MAX - 2048..=u32::MAX];
        let mut runner = proptest::test_runner::TestRunner::default();
        let done = runner.run(&prop::collection::vec(addr, 0..=LANES), |addrs| {
            let byte = |entry: &AtomicU8| u32::from(entry.load(Ordering::Relaxed));
            agree::<_, PAIRS, 4>(&nibbles, |all, i| byte(&all[i / 2]) >> (i % 2 * 4) & 15, &addrs)?;
            agree::<_, ENTRIES, 8>(&bytes, |all, i| byte(&all[i]), &addrs)?;
            agree::<_, ENTRIES, 16>(&halves, |all, i| u32::from(all[i].load(Ordering::Relaxed)), &addrs)
        });
        assert_eq!(done, Ok(()));
    }
}
