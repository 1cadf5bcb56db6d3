//! Every way to deal packets out, compared with the plainest one.

use super::*;
use crate::{Packet, Pool};
use proptest::prelude::*;

/// More bins than any way has a form of its own for.
const MOST_BINS: usize = 9;

/// Deals the packets of a frame, one for each number of a bin, to bins that are empty.
type Way = fn(Box<Frame>, &[u16], &mut [Batch]);

/// Length, destination and next hop of each packet in each bin.
type Seen = Vec<Vec<(usize, u32, u32)>>;

/// Packets with lengths 0, 1, 2, …; if they are `routed` with destinations from 7 and next hops from 9 on.
fn deal(way: Way, numbers: &[u16], bins: usize, routed: bool) -> Seen {
    let pool = Pool::heap(MAX, 512);
    let all = (0..numbers.len()).filter_map(|len| pool.packet(&[0; MAX][..len]));
    let mut batch: Batch = all.collect();
    if routed {
        let columns = batch.columns();
        (7..).zip(columns.destinations).for_each(|(n, to)| *to = n);
        (9..).zip(columns.next_hops).for_each(|(n, to)| *to = n);
    }
    let mut dealt: Vec<Batch> = (0..bins).map(|_| Batch::empty()).collect();
    let mut frame = batch.0.take().expect("packets");
    frame.len = 0;
    way(frame, numbers, &mut dealt);
    let of = |p: &Packet| (p.len(), p.dst_ip(), p.next_hop());
    let seen = dealt.iter().map(|bin| bin.iter().map(of).collect()).collect();
    dealt.into_iter().for_each(Batch::free);
    assert_eq!(pool.in_use(), 0);
    seen
}

/// What must come of it.
fn expected(numbers: &[u16], bins: usize, routed: bool) -> Seen {
    let packet = |i: usize| if routed { (i, 7 + i as u32, 9 + i as u32) } else { (i, 0, 0) };
    let of = |bin: usize| (0..).zip(numbers).filter(move |(_, number)| usize::from(**number) == bin);
    (0..bins).map(|bin| of(bin).map(|(i, _)| packet(i)).collect()).collect()
}

/// To two bins, none of them together with others.
fn two_one_by_one(mut frame: Box<Frame>, numbers: &[u16], bins: &mut [Batch]) {
    let (mut other, due) = (frame::take(), frame.due.take());
    let rest = match due.is_in_columns() {
        true => part_rest::<u16, true>,
        false => part_rest::<u16, false>,
    };
    let dealt = rest(&mut frame, &mut other, Dealt::default(), numbers, |bin| bin);
    let (first, second) = halves(frame, other, dealt, due);
    bins.iter_mut().zip([first, second]).for_each(|(bin, half)| *bin = Batch(half));
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn by_compressing(frame: Box<Frame>, numbers: &[u16], bins: &mut [Batch]) {
    if let Some(compress) = compress::Compress::detect() {
        compress.deal(&frame, numbers, bins, |bin| bin);
    }
    frame::recycle(frame);
}

proptest! {
    #[test]
    fn all_ways_do_the_same(
        numbers in proptest::collection::vec(0..MOST_BINS as u16, 1..=MAX),
        bins in prop_oneof![Just(2), 1..=MOST_BINS],
        routed in any::<bool>(),
    ) {
        let numbers: Vec<u16> = numbers.into_iter().map(|bin| bin % bins as u16).collect();
        let want = expected(&numbers, bins, routed);
        let mut ways: Vec<Way> = vec![|frame, numbers, bins| one_by_one(frame, numbers, bins, |bin| bin)];
        if bins == 2 {
            ways.push(two_one_by_one);
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        match compress::Compress::detect() {
            Some(compress) if compress.is_worth_it(MAX, bins) => ways.push(by_compressing),
            Some(_) => {}
            None => println!("skipped: no AVX-512 (VBMI2)"),
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if permute::Permute::detect().is_none() {
            println!("skipped: no AVX2");
        }
        for way in ways {
            prop_assert_eq!(&deal(way, &numbers, bins, routed), &want);
        }
    }
}

/// Gives so many packets, one in the middle of which is for a third bin, to two.
fn give_to_a_third(packets: usize) {
    let pool = Pool::heap(MAX, 256);
    let batch: Batch = (0..packets).filter_map(|_| pool.packet(&[0; 20])).collect();
    let mut numbers = vec![0; packets];
    numbers[packets / 2] = 2;
    batch.deal(&numbers, &mut [Batch::empty(), Batch::empty()], |bin: u16| bin);
}

#[test]
#[should_panic(expected = "no such bin")]
fn a_third_bin_of_two_is_none() {
    give_to_a_third(5);
}

#[test]
#[should_panic(expected = "no such bin")]
fn nor_is_it_for_packets_that_move_together() {
    give_to_a_third(64);
}
