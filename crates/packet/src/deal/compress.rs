//! Dealing out with the instructions of AVX-512 that move the chosen lanes of a vector together: no packet's place in its bin depends
//! on how many went there before it.
//!
//! With two bins packets themselves are moved together, sixteen at a time. That takes as many stores for each bin, however few packets
//! are for it, so with more bins it is their places, 64 at a time, and then packets are copied one by one.

use super::{Numbers, numbers};
use crate::batch::Batch;
use crate::due::Due;
use crate::frame::{self, Frame, MAX};
use std::arch::x86_64::*;

/// Packets that are moved together, and places.
const PACKETS: usize = 16;
const PLACES: usize = 64;
const _: () = assert!(MAX.is_multiple_of(PLACES) && PLACES.is_multiple_of(PACKETS) && MAX <= 1 << u8::BITS);
/// With more bins it is places.
const FEW_BINS: usize = 2;
/// With fewer packets it is quicker one by one.
const LEAST: usize = 16;
/// With more bins than this it is quicker one by one.
const MOST_BINS: usize = 8;

/// The proof that the processor has these instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compress(());

impl Compress {
    #[inline(always)]
    pub fn detect() -> Option<Compress> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Compress(()))
    }

    /// True if so many packets go to so many bins in less time than one by one.
    #[inline(always)]
    pub fn is_worth_it(self, packets: usize, bins: usize) -> bool {
        packets >= LEAST && (1..=MOST_BINS).contains(&bins)
    }

    /// Deals the packets of a frame, one for each of `facts`, which are the frame's no more, to bins that are empty.
    ///
    /// # Panics
    /// If there is no bin of a packet's number.
    #[inline(always)]
    pub fn deal<T: Copy>(self, frame: &Frame, facts: &[T], bins: &mut [Batch], bin: impl Fn(T) -> u16) {
        self.deal_by(frame, facts.len(), &numbers(facts, bin), bins);
    }

    /// [`deal`](Self::deal) by the numbers of bins of the first `len` packets.
    #[inline(never)]
    fn deal_by(self, frame: &Frame, len: usize, numbers: &Numbers, bins: &mut [Batch]) {
        let due = frame.due.take();
        let (few, columns) = (bins.len() <= FEW_BINS, due.is_in_columns());
        let (mut dealt, mut places) = (0, [0; MAX + PLACES]);
        for (number, bin) in (0..).zip(bins) {
            let mut to = frame::take();
            // SAFETY: the processor has the instructions.
            to.len = unsafe {
                match (few, columns) {
                    (true, true) => choose::<true>(frame, len, numbers, number, &mut to),
                    (true, false) => choose::<false>(frame, len, numbers, number, &mut to),
                    (false, true) => {
                        copy::<true>(frame, places_of(number, numbers, len, &mut places), &mut to)
                    }
                    (false, false) => {
                        copy::<false>(frame, places_of(number, numbers, len, &mut places), &mut to)
                    }
                }
            };
            dealt += to.len;
            if to.len == 0 {
                frame::recycle(to);
                continue;
            }
            if due != Due::NOTHING {
                to.note_as(frame);
                to.due.set(due);
            }
            *bin = Batch(Some(to));
        }
        assert!(dealt == len, "no such bin");
    }
}

/// Copies the packets of one bin to the front of an empty frame; returns how many. `COLUMNS`: with what stands in the columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
fn choose<const COLUMNS: bool>(
    frame: &Frame,
    len: usize,
    numbers: &Numbers,
    number: i8,
    to: &mut Frame,
) -> usize {
    let mut end = 0;
    for (at, numbers) in (0..len.min(MAX)).step_by(PACKETS).zip(numbers.as_chunks::<PACKETS>().0) {
        // SAFETY: sixteen bytes.
        let numbers = unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) };
        // Behind the last packet there are numbers of no bin.
        let chosen = _mm_cmpeq_epi8_mask(numbers, _mm_set1_epi8(number));
        let (low, high) = (chosen as u8, (chosen >> 8) as u8);
        let middle = end + low.count_ones() as usize;
        // SAFETY: `at` and sixteen more are within the arrays, and so are `end` and `middle` with as many slots behind them as are
        // stored, since no more packets have been chosen than looked at: at most `at`, and eight more. Of what is loaded only the
        // chosen are initialised; masks keep the others from being read.
        unsafe {
            let from = frame.packets.as_ptr().add(at).cast::<i64>();
            let slots = to.packets.as_mut_ptr().cast::<i64>();
            let first = _mm512_maskz_compress_epi64(low, _mm512_maskz_loadu_epi64(low, from));
            let second = _mm512_maskz_compress_epi64(high, _mm512_maskz_loadu_epi64(high, from.add(8)));
            _mm512_storeu_epi64(slots.add(end), first);
            _mm512_storeu_epi64(slots.add(middle), second);
            if COLUMNS {
                let pairs = [
                    (frame.destinations.as_ptr(), to.destinations.as_mut_ptr()),
                    (frame.next_hops.as_ptr(), to.next_hops.as_mut_ptr()),
                ];
                for (from, to) in pairs {
                    let all = _mm512_loadu_epi32(from.add(at).cast());
                    _mm512_storeu_epi32(to.add(end).cast(), _mm512_maskz_compress_epi32(chosen, all));
                }
            }
        }
        end = middle + high.count_ones() as usize;
    }
    end
}

/// The places of the packets with this number, in order.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn places_of<'p>(number: i8, numbers: &Numbers, len: usize, places: &'p mut [u8; MAX + PLACES]) -> &'p [u8] {
    const FIRST: [u8; PLACES] = {
        let (mut first, mut i) = ([0; PLACES], 0);
        while i < PLACES {
            first[i] = i as u8;
            i += 1;
        }
        first
    };
    let mut end = 0;
    // SAFETY: 64 bytes.
    let mut at = unsafe { _mm512_loadu_si512(FIRST.as_ptr().cast()) };
    for numbers in numbers.as_chunks::<PLACES>().0.iter().take(len.div_ceil(PLACES)) {
        // SAFETY: 64 bytes.
        let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        // Behind the last packet there are numbers of no bin.
        let chosen = _mm512_cmpeq_epi8_mask(numbers, _mm512_set1_epi8(number));
        if let Some(places) = places[end..].first_chunk_mut::<PLACES>() {
            // SAFETY: 64 bytes.
            unsafe {
                _mm512_storeu_si512(places.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(chosen, at));
            }
        }
        end += chosen.count_ones() as usize;
        at = _mm512_add_epi8(at, _mm512_set1_epi8(PLACES as i8));
    }
    &places[..end]
}

/// Copies the packets at these places to the front of an empty frame; returns how many. `COLUMNS`: with what stands in the columns.
#[inline(always)]
fn copy<const COLUMNS: bool>(frame: &Frame, places: &[u8], to: &mut Frame) -> usize {
    let slots = to.packets.iter_mut().zip(&mut to.destinations).zip(&mut to.next_hops);
    for (((packet, destination), next_hop), &place) in slots.zip(places) {
        let place = usize::from(place);
        // SAFETY: a number was given to each packet at its place, which is initialised; no place comes twice, and nobody takes
        // packets from the frame any more.
        packet.write(unsafe { frame.packets[place].assume_init_read() });
        if COLUMNS {
            (*destination, *next_hop) = (frame.destinations[place], frame.next_hops[place]);
        }
    }
    places.len()
}
