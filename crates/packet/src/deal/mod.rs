//! Dealing out the packets of a batch, each to one of several: what a graph does where paths part.
//!
//! With AVX-512 many at a time, with AVX2 some to two, else one by one; all do the same.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod compress;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod permute;

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::{self, Frame, MAX};

impl Batch {
    /// Deals the packets out: each goes to the end of that of `bins` which `bin` says for its place in `facts`.
    ///
    /// # Panics
    /// If there are fewer facts than packets, no bin of that number, or no room in it.
    #[inline]
    pub fn deal<T: Copy>(mut self, facts: &[T], bins: &mut [Batch], bin: impl Fn(T) -> u16) {
        assert!(self.len() <= facts.len(), "a fact for each packet");
        if bins.iter().any(|bin| !bin.is_empty()) {
            // What is noted once for a batch is not that of the packets there.
            return self
                .into_iter()
                .zip(facts)
                .for_each(|(packet, fact)| bins[usize::from(bin(*fact))].push(packet));
        }
        let Some(mut frame) = self.0.take() else { return };
        // From here on the packets are nobody's until they are in a bin: a panic would leak them, and no more.
        let len = std::mem::replace(&mut frame.len, 0);
        let facts = &facts[..len];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(compress) = compress::Compress::detect().filter(|c| c.is_worth_it(len, bins.len())) {
            compress.deal(&frame, facts, bins, bin);
            return frame::recycle(frame);
        }
        one_by_one(frame, facts, bins, bin);
    }
}

/// The number of a bin for each packet, [`NO_BIN`] where there is none.
#[cfg(all(target_arch = "x86_64", not(miri)))]
type Numbers = [u8; MAX];
#[cfg(all(target_arch = "x86_64", not(miri)))]
const NO_BIN: u8 = u8::MAX;

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn numbers<T: Copy>(facts: &[T], bin: impl Fn(T) -> u16) -> Numbers {
    let mut numbers = [NO_BIN; MAX];
    for (number, fact) in numbers.iter_mut().zip(facts) {
        *number = bin(*fact).min(NO_BIN.into()) as u8;
    }
    numbers
}

/// Deals the packets of a frame, one for each of `facts`, which are the frame's no more, to bins that are empty.
#[inline(always)]
fn one_by_one<T: Copy>(mut frame: Box<Frame>, facts: &[T], bins: &mut [Batch], bin: impl Fn(T) -> u16) {
    let due = frame.due.take();
    if let [Batch(first @ None), Batch(second @ None)] = bins {
        (*first, *second) = match due.is_in_columns() {
            true => part::<T, true>(frame, due, facts, bin),
            false => part::<T, false>(frame, due, facts, bin),
        };
        return;
    }
    match due.is_in_columns() {
        true => scatter::<T, true>(&mut frame, facts, bins, bin),
        false => scatter::<T, false>(&mut frame, facts, bins, bin),
    }
    if due != Due::NOTHING {
        for to in bins.iter_mut().filter_map(|bin| bin.0.as_mut()) {
            to.note_as(&frame);
            to.due.set(due);
        }
    }
    frame::recycle(frame);
}

/// Deals the packets of a frame, one for each of `facts`, which are the frame's no more, to bins that are empty. `COLUMNS`: with
/// what stands in the columns.
///
/// By itself, so that nothing of its caller is in registers.
#[inline(never)]
fn scatter<T: Copy, const COLUMNS: bool>(
    frame: &mut Frame,
    facts: &[T],
    bins: &mut [Batch],
    bin: impl Fn(T) -> u16,
) {
    let Frame { packets, destinations, next_hops, .. } = frame;
    let columns = packets.iter().zip(destinations).zip(next_hops);
    for (fact, ((packet, destination), next_hop)) in facts.iter().zip(columns) {
        let to = &mut **bins[usize::from(bin(*fact))].0.get_or_insert_with(frame::take);
        // Not full: there is room for all that the frame has.
        let end = to.len % MAX;
        // SAFETY: there is a packet for each fact, and nobody else has it: each is moved out once.
        to.packets[end].write(unsafe { packet.assume_init_read() });
        if COLUMNS {
            (to.destinations[end], to.next_hops[end]) = (*destination, *next_hop);
        }
        to.len = end + 1;
    }
}

/// Deals the packets of a frame, one for each of `facts`, which are the frame's no more, to two that are empty. `COLUMNS`: with
/// what stands in the columns.
///
/// By itself, as `scatter`.
///
/// # Panics
/// If a bin is neither 0 nor 1.
#[inline(never)]
fn part<T: Copy, const COLUMNS: bool>(
    mut frame: Box<Frame>,
    due: Due,
    facts: &[T],
    bin: impl Fn(T) -> u16,
) -> (Option<Box<Frame>>, Option<Box<Frame>>) {
    let mut other = frame::take();
    let fours = part_fours::<T, COLUMNS>(&mut frame, &mut other, facts, &bin);
    let dealt = part_rest::<T, COLUMNS>(&mut frame, &mut other, fours, facts, bin);
    halves(frame, other, dealt, due)
}

/// The two bins when all have been dealt out.
#[inline(always)]
fn halves(
    mut frame: Box<Frame>,
    mut other: Box<Frame>,
    dealt: Dealt,
    due: Due,
) -> (Option<Box<Frame>>, Option<Box<Frame>>) {
    assert!(dealt.bins < 2, "no such bin");
    (frame.len, other.len) = dealt.ends.into();
    other.note_as(&frame);
    let keep = |frame: Box<Frame>| {
        if frame.len > 0 {
            frame.due.set(due);
            return Some(frame);
        }
        frame::recycle(frame);
        None
    };
    (keep(frame), keep(other))
}

/// How far packets have been dealt out to two bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dealt {
    /// Packets in each.
    ends: [usize; 2],
    /// The bits of all numbers of bins: if there are others than 0 and 1, packets may be anywhere.
    bins: usize,
}

/// Deals out those that the processor can deal out together.
#[inline(always)]
fn part_fours<T: Copy, const COLUMNS: bool>(
    frame: &mut Frame,
    other: &mut Frame,
    facts: &[T],
    bin: impl Fn(T) -> u16,
) -> Dealt {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(permute) = permute::Permute::detect().filter(|_| facts.len() >= permute::LEAST) {
        let (numbers, len) = (numbers(facts, bin), facts.len());
        let (fours, _) = numbers[..len].as_chunks();
        // SAFETY: there is a packet for each fact.
        return unsafe { permute.deal::<COLUMNS>(frame, other, fours) };
    }
    Dealt::default()
}

/// Deals out those that have not been: each is written to both frames, and counted in one. So the counts stay in registers, where
/// `scatter` waits for each to come back from memory.
#[inline(always)]
fn part_rest<T: Copy, const COLUMNS: bool>(
    frame: &mut Frame,
    other: &mut Frame,
    Dealt { mut ends, mut bins }: Dealt,
    facts: &[T],
    bin: impl Fn(T) -> u16,
) -> Dealt {
    for (i, fact) in facts.iter().enumerate().skip(ends[0] + ends[1]) {
        let bin = usize::from(bin(*fact));
        bins |= bin;
        // SAFETY: slots are read in order and written at most as far (`ends` add up to i): each packet is read once, and of
        // the two copies only the one that is counted will be a packet.
        let packet = unsafe { std::ptr::read(&frame.packets[i]) };
        let (first, second) = (&mut frame.packets[ends[0]], &mut other.packets[ends[1]]);
        // SAFETY: as above; MaybeUninit<Packet> is not dropped.
        unsafe {
            std::ptr::copy_nonoverlapping(&raw const packet, first, 1);
            std::ptr::copy_nonoverlapping(&raw const packet, second, 1);
        }
        if COLUMNS {
            let (destination, next_hop) = (frame.destinations[i], frame.next_hops[i]);
            (frame.destinations[ends[0]], frame.next_hops[ends[0]]) = (destination, next_hop);
            (other.destinations[ends[1]], other.next_hops[ends[1]]) = (destination, next_hop);
        }
        ends = [ends[0] + (bin ^ 1), ends[1] + bin];
    }
    Dealt { ends, bins }
}

#[cfg(test)]
mod tests;
