//! Dealing out to two bins with the instructions of AVX2 that put lanes in any order: four packets at a time, to each bin those that are
//! for it first. What stands behind them there is written over by the next four.

use super::Dealt;
use crate::Packet;
use crate::frame::Frame;
use std::arch::x86_64::*;

/// Packets that are moved together.
const PACKETS: usize = 4;
/// With fewer it is quicker one by one.
pub(super) const LEAST: usize = 20;
const _: () = assert!(size_of::<Packet>() == size_of::<i64>());

/// The places of four lanes after which those of a set come first, by the bits of the set.
type Orders<const N: usize> = Aligned<[[u32; N]; 1 << PACKETS]>;

#[repr(align(64))]
struct Aligned<T>(T);

/// Of lanes of `N / 4` 32-bit numbers each.
const fn orders<const N: usize>() -> Orders<N> {
    let (width, mut orders, mut set) = (N / PACKETS, [[0; N]; 1 << PACKETS], 0);
    while set < orders.len() {
        let (mut lane, mut end) = (0, 0);
        while lane < PACKETS {
            if set >> lane & 1 == 1 {
                let mut part = 0;
                while part < width {
                    orders[set][end + part] = (lane * width + part) as u32;
                    part += 1;
                }
                end += width;
            }
            lane += 1;
        }
        set += 1;
    }
    Aligned(orders)
}

/// Of packets, and of what stands beside them in columns.
static OF_PACKETS: Orders<8> = orders();
static OF_COLUMNS: Orders<4> = orders();

/// The proof that the processor has these instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permute(());

impl Permute {
    #[inline(always)]
    pub fn detect() -> Option<Permute> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt");
        has.then_some(Permute(()))
    }

    /// Deals the packets of a frame to itself and to another one, by the numbers of their bins. `COLUMNS`: with what stands in the
    /// columns.
    ///
    /// # Safety
    /// There is a packet for each number.
    #[inline(always)]
    pub unsafe fn deal<const COLUMNS: bool>(
        self,
        frame: &mut Frame,
        other: &mut Frame,
        fours: &[[u8; PACKETS]],
    ) -> Dealt {
        // SAFETY: the processor has the instructions; the rest is the caller's.
        unsafe { deal::<COLUMNS>(frame, other, fours) }
    }
}

/// See [`Permute::deal`].
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
unsafe fn deal<const COLUMNS: bool>(frame: &mut Frame, other: &mut Frame, fours: &[[u8; PACKETS]]) -> Dealt {
    let (mut at, mut first, mut second, mut bits) = (0, 0, 0, 0);
    for numbers in fours {
        let numbers = u32::from_le_bytes(*numbers);
        bits |= numbers;
        // Bit i is number i, which is 0 or 1.
        let set = (numbers.wrapping_mul(0x0102_0408) >> 24 & 0xf) as usize;
        let rest = set ^ 0xf;
        // SAFETY: from `at` on there are four packets that are still to be dealt out, so no bin has more than `at`. They are read
        // before their slots are written to, and of the copies of each one is counted.
        unsafe {
            let packets = _mm256_loadu_si256(frame.packets.as_ptr().add(at).cast());
            let in_order = |set: usize| {
                let order = _mm256_load_si256(OF_PACKETS.0[set].as_ptr().cast());
                _mm256_permutevar8x32_epi32(packets, order)
            };
            _mm256_storeu_si256(frame.packets.as_mut_ptr().add(first).cast(), in_order(rest));
            _mm256_storeu_si256(other.packets.as_mut_ptr().add(second).cast(), in_order(set));
        }
        if COLUMNS {
            // SAFETY: columns are as long as the array of packets.
            unsafe {
                let destinations = _mm_loadu_ps(frame.destinations.as_ptr().add(at).cast());
                let next_hops = _mm_loadu_ps(frame.next_hops.as_ptr().add(at).cast());
                for (to, end, set) in [(&mut *frame, first, rest), (&mut *other, second, set)] {
                    let order = _mm_load_si128(OF_COLUMNS.0[set].as_ptr().cast());
                    let destinations = _mm_permutevar_ps(destinations, order);
                    _mm_storeu_ps(to.destinations.as_mut_ptr().add(end).cast(), destinations);
                    let next_hops = _mm_permutevar_ps(next_hops, order);
                    _mm_storeu_ps(to.next_hops.as_mut_ptr().add(end).cast(), next_hops);
                }
            }
        }
        at += PACKETS;
        first += rest.count_ones() as usize;
        second += set.count_ones() as usize;
    }
    let bins = bits.to_le_bytes().into_iter().fold(0, |all, bits| all | bits);
    Dealt { ends: [first, second], bins: bins.into() }
}
