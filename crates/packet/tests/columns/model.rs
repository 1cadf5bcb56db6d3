//! Batches are changed at random, and compared with what they should be.

use crate::look::{Find, HEADERS, destination, received_from, tag, write_destinations};
use packet::lanes::four;
use packet::{Batch, Packet, Pool, Settle};
use proptest::prelude::*;

/// What may be done to a batch.
#[derive(Clone, Copy, Debug)]
enum Step {
    Find,
    FindUnusual(u8),
    Route(u32),
    SetDestination(usize, u32),
    SetNextHop(usize, u32),
    Pull,
    PutLink,
    ChangeNetwork(u8),
    SplitAndAppend(usize),
    Deal,
    Pop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Find),
        1 => (0u8..20).prop_map(Step::FindUnusual),
        3 => (1u32..50).prop_map(Step::Route),
        1 => (0usize..20, any::<u32>()).prop_map(|(i, n)| Step::SetDestination(i, n)),
        1 => (0usize..20, any::<u32>()).prop_map(|(i, n)| Step::SetNextHop(i, n)),
        1 => Just(Step::Pull),
        1 => Just(Step::PutLink),
        1 => (0u8..20).prop_map(Step::ChangeNetwork),
        1 => (0usize..20).prop_map(Step::SplitAndAppend),
        1 => Just(Step::Deal),
        1 => Just(Step::Pop),
    ]
}

/// A packet as it should be: tag; where in the buffer it begins, and its MAC, network and transport mark, as it began at
/// [`BEGIN`]; next hop, destination.
#[derive(Clone, Debug, PartialEq)]
struct Model(u8, usize, [Option<usize>; 3], u32, u32);

const BEGIN: usize = 1000;

fn model(p: &Packet) -> Model {
    let begin = BEGIN + 60 - p.len();
    let mark = |offset: Option<usize>| offset.map(|offset| offset + begin);
    let marks = [p.mac_offset(), p.network_offset(), p.transport_offset()].map(mark);
    Model(tag(p), begin, marks, p.next_hop(), p.dst_ip())
}

fn find_in_model(all: &mut [Model], unusual: Option<u8>) {
    for Model(tag, begin, marks, _, destination) in all {
        if Some(*tag) == unusual {
            *destination = 5;
        } else {
            (marks[1], marks[2]) = (Some(*begin + 14), Some(*begin + 34));
            *destination = 1000 + u32::from(*tag);
        }
    }
}

/// Finds the headers of all but the one with this tag, and in what the batch should be.
fn find_all_but(batch: &mut Batch, want: &mut [Model], unusual: Option<u8>, by_itself: bool) {
    let is_usual = |tag: u8| Some(tag) != unusual;
    let one = |p: &mut Packet| is_usual(tag(p)).then(|| destination(tag(p)));
    let second = |mut p: Packet| {
        p.set_dst_ip(5);
        Some(p)
    };
    if by_itself {
        batch.find_each_header(HEADERS, one, second);
    } else {
        let many = |tags: &[u8], to: &mut [u32]| {
            write_destinations(tags, to);
            tags.iter().copied().all(is_usual).then_some(u32::MAX)
        };
        four(Find { batch, many, one, second });
    }
    find_in_model(want, unusual);
}

/// Shows network headers, and frees the packet with this tag.
fn change_network(batch: &mut Batch, want: &mut Vec<Model>, unusual: u8) {
    let (mut shown, mut again) = (Vec::new(), Vec::new());
    batch.sift_network::<1>(
        |head| {
            shown.push(head[0]);
            head[0] != unusual
        },
        |p| {
            again.push(tag(&p));
            if tag(&p) != unusual {
                return Some(p);
            }
            p.free();
            None
        },
    );
    let is_marked = |model: &&Model| model.2[1].is_some();
    assert_eq!(shown, want.iter().filter(is_marked).map(|model| model.0).collect::<Vec<_>>());
    let is_again = |model: &&Model| model.0 == unusual || model.2[1].is_none();
    assert_eq!(again, want.iter().filter(is_again).map(|model| model.0).collect::<Vec<_>>());
    want.retain(|model| model.0 != unusual);
}

/// Does a step to the batch and to what it should be.
fn apply(step: Step, batch: &mut Batch, want: &mut Vec<Model>) {
    match step {
        Step::Find => find_all_but(batch, want, None, batch.len().is_multiple_of(2)),
        Step::FindUnusual(tag) => find_all_but(batch, want, Some(tag), batch.len().is_multiple_of(2)),
        Step::Route(first) => {
            (first..).zip(batch.columns().next_hops).for_each(|(n, hop)| *hop = n);
            (first..).zip(want).for_each(|(n, model)| model.3 = n);
        }
        Step::SetDestination(i, n) if i < batch.len() => {
            batch.as_mut_slice()[i].set_dst_ip(n);
            want[i].4 = n;
        }
        Step::SetNextHop(i, n) if i < batch.len() => {
            batch.as_mut_slice()[i].set_next_hop(n);
            want[i].3 = n;
        }
        Step::Pull => {
            batch.iter_mut().for_each(|p| assert!(p.pull(1)));
            want.iter_mut().for_each(|model| {
                model.1 += 1;
                // What lies before the data is not marked any more.
                model.2 = model.2.map(|mark| mark.filter(|&mark| mark >= model.1));
            });
        }
        // Behind one of these, network headers are where the tags are.
        Step::PutLink if want.iter().all(|model| model.1 >= BEGIN) => {
            batch.put_link(&[0xee; 14], |_| panic!("there is room"));
            want.iter_mut().for_each(|model| {
                model.1 -= 14;
                model.2[0] = Some(model.1);
            });
        }
        Step::ChangeNetwork(unusual) => change_network(batch, want, unusual),
        Step::SplitAndAppend(at) => {
            let mut rest = batch.split_off(at);
            batch.append(&mut rest);
            assert!(rest.is_empty());
        }
        Step::Deal => {
            let facts: Vec<usize> = (0..batch.len()).map(|i| i % 2).collect();
            let mut bins = [Batch::empty(), Batch::empty()];
            std::mem::take(batch).deal(&facts, &mut bins, |bin| bin);
            let [mut odd, mut even] = bins;
            odd.append(&mut even);
            *batch = odd;
            let parts = [0, 1].map(|bin| want.iter().skip(bin).step_by(2).cloned().collect::<Vec<_>>());
            *want = parts.concat();
        }
        Step::Pop => {
            batch.pop().into_iter().for_each(Packet::free);
            want.pop();
        }
        Step::SetDestination(..) | Step::SetNextHop(..) | Step::PutLink => {}
    }
}

proptest! {
    #[test]
    fn nobody_can_tell_when_it_was_noted(
        n in 0u8..20,
        due in prop_oneof![Just(Settle::ClearHash), Just(Settle::KeepHash)],
        steps in proptest::collection::vec(step(), 0..12),
        look_every in 1usize..6,
    ) {
        let pool = Pool::heap(32, 512);
        let mut batch = if n == 0 { Batch::empty() } else { received_from(&pool, 0..n, due) };
        let mut want: Vec<Model> = (0..n).map(|tag| Model(tag, BEGIN, [Some(BEGIN), None, None], 0, 0)).collect();
        for (i, step) in steps.into_iter().enumerate() {
            apply(step, &mut batch, &mut want);
            if i % look_every == 0 {
                prop_assert_eq!(batch.iter().map(model).collect::<Vec<_>>(), want.clone());
            }
        }
        prop_assert_eq!(batch.iter().map(model).collect::<Vec<_>>(), want);
        prop_assert!(batch.iter().all(|p| p.flow_hash() == 0));
        batch.free();
        prop_assert_eq!(pool.in_use(), 0);
    }
}
