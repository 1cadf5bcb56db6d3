//! Batches are changed at random, and compared with what they should be.

use crate::look::{Find, HEADERS, destination, received_from, tag, write_destinations};
use packet::lanes::four;
use packet::{Batch, Packet, Pieces, Pool, Settle};
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
    Strip(usize),
    PutLink,
    ChangeNetwork(u8),
    SplitAndAppend(usize),
    TakePieces(usize),
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
        2 => (1usize..24).prop_map(Step::Strip),
        2 => Just(Step::PutLink),
        1 => (0u8..20).prop_map(Step::ChangeNetwork),
        1 => (0usize..20).prop_map(Step::SplitAndAppend),
        1 => (1usize..20).prop_map(Step::TakePieces),
        1 => Just(Step::Deal),
        1 => Just(Step::Pop),
    ]
}

/// A packet as it should be.
#[derive(Clone, Debug)]
struct Model {
    tag: u8,
    /// Where in the buffer it begins, as it began at [`BEGIN`].
    begin: usize,
    /// From [`FLOOR`] on.
    bytes: [u8; END - FLOOR],
    /// Where the MAC, network and transport header are marked. What is not in the packet cannot be seen.
    marks: [Option<usize>; 3],
    next_hop: u32,
    destination: u32,
}

/// What can be seen of a packet: its bytes, marks, next hop, destination.
type Seen = (Vec<u8>, [Option<usize>; 3], u32, u32);

const BEGIN: usize = 1000;
const END: usize = BEGIN + 60;
/// No packet begins before.
const FLOOR: usize = BEGIN - LINK.len();
const LINK: [u8; 14] = [0xee; 14];

impl Model {
    fn new(tag: u8) -> Model {
        let marks = [Some(BEGIN), None, None];
        Model { tag, begin: BEGIN, bytes: [tag; END - FLOOR], marks, next_hop: 0, destination: 0 }
    }

    fn seen(&self) -> Seen {
        let marks = self.marks.map(|mark| mark.filter(|mark| (self.begin..=END).contains(mark)));
        (self.bytes[self.begin - FLOOR..].to_vec(), marks, self.next_hop, self.destination)
    }

    /// One byte is left of each packet, so that it can be told apart.
    fn has_more_than(&self, len: usize) -> bool {
        END - self.begin > len
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes[at - FLOOR]
    }

    /// The first byte of the network header, even if that lies before the packet.
    fn network_byte(&self) -> Option<u8> {
        self.marks[1].filter(|mark| *mark < END).map(|mark| self.byte(mark))
    }

    fn find(&mut self, unusual: Option<u8>) {
        if Some(self.tag) == unusual {
            self.destination = 5;
        } else {
            (self.marks[1], self.marks[2]) = (Some(self.begin + 14), Some(self.begin + 34));
            self.destination = destination(self.tag);
        }
    }
}

fn seen(p: &Packet) -> Seen {
    let begin = END - p.len();
    let mark = |offset: Option<usize>| offset.map(|offset| offset + begin);
    let marks = [p.mac_offset(), p.network_offset(), p.transport_offset()].map(mark);
    (p.data().to_vec(), marks, p.next_hop(), p.dst_ip())
}

/// Finds the headers of all but the one with this tag, and in what the batch should be.
fn find_all_but(batch: &mut Batch, want: &mut [Model], unusual: Option<u8>, by_itself: bool) {
    let is_usual = |tag: u8| Some(tag) != unusual;
    let one = |p: &mut Packet, _: usize| is_usual(tag(p)).then(|| destination(tag(p)));
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
    want.iter_mut().for_each(|model| model.find(unusual));
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
    assert_eq!(shown, want.iter().filter_map(Model::network_byte).collect::<Vec<_>>());
    let is_again = |model: &Model| model.network_byte().is_none_or(|byte| byte == unusual);
    assert_eq!(again, want.iter().filter(|m| is_again(m)).map(|model| model.tag).collect::<Vec<_>>());
    want.retain(|model| !(is_again(model) && model.tag == unusual));
}

/// Removes bytes from all packets; if one would have none left then, more than any has, so that all go.
fn strip(batch: &mut Batch, want: &mut Vec<Model>, len: usize) {
    if want.iter().all(|model| model.has_more_than(len)) {
        batch.strip(len, |_| panic!("all have as many"));
        want.iter_mut().for_each(|model| model.begin += len);
        return;
    }
    let mut gone = Vec::new();
    batch.strip(99, |p| {
        gone.push(tag(&p));
        p.free();
    });
    assert_eq!(gone, want.drain(..).map(|model| model.tag).collect::<Vec<_>>());
}

/// Does a step to the batch and to what it should be.
fn apply(step: Step, batch: &mut Batch, want: &mut Vec<Model>) {
    match step {
        Step::Find => find_all_but(batch, want, None, batch.len().is_multiple_of(2)),
        Step::FindUnusual(tag) => find_all_but(batch, want, Some(tag), batch.len().is_multiple_of(2)),
        Step::Route(first) => {
            (first..).zip(batch.columns().next_hops).for_each(|(n, hop)| *hop = n);
            (first..).zip(want).for_each(|(n, model)| model.next_hop = n);
        }
        Step::SetDestination(i, n) if i < batch.len() => {
            batch.as_mut_slice()[i].set_dst_ip(n);
            want[i].destination = n;
        }
        Step::SetNextHop(i, n) if i < batch.len() => {
            batch.as_mut_slice()[i].set_next_hop(n);
            want[i].next_hop = n;
        }
        Step::Pull if want.iter().all(|model| model.has_more_than(1)) => {
            batch.iter_mut().for_each(|p| assert!(p.pull(1)));
            want.iter_mut().for_each(|model| model.begin += 1);
        }
        Step::Strip(len) => strip(batch, want, len),
        // Behind one of these, network headers are where the tags are.
        Step::PutLink if want.iter().all(|model| model.byte(model.begin) == model.tag) => {
            batch.put_link(&LINK, |_| panic!("there is room"));
            for model in want {
                model.begin -= LINK.len();
                model.bytes[model.begin - FLOOR..][..LINK.len()].copy_from_slice(&LINK);
                model.marks[0] = Some(model.begin);
            }
        }
        Step::ChangeNetwork(unusual) => change_network(batch, want, unusual),
        Step::SplitAndAppend(at) => {
            let mut rest = batch.split_off(at);
            batch.append(&mut rest);
            assert!(rest.is_empty());
        }
        Step::TakePieces(most) => {
            let mut pieces = Pieces::from(std::mem::take(batch));
            assert_eq!(pieces.len(), want.len());
            while !pieces.is_empty() {
                let mut piece = pieces.take(most);
                assert!((1..=most).contains(&piece.len()));
                batch.append(&mut piece);
            }
        }
        Step::Deal => {
            let facts: Vec<u16> = (0..2).cycle().take(batch.len()).collect();
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
        Step::SetDestination(..) | Step::SetNextHop(..) | Step::Pull | Step::PutLink => {}
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
        let mut want: Vec<Model> = (0..n).map(Model::new).collect();
        for (i, step) in steps.into_iter().enumerate() {
            apply(step, &mut batch, &mut want);
            if i % look_every == 0 {
                prop_assert_eq!(batch.iter().map(seen).collect::<Vec<_>>(), want.iter().map(Model::seen).collect::<Vec<_>>());
            }
        }
        prop_assert_eq!(batch.iter().map(seen).collect::<Vec<_>>(), want.iter().map(Model::seen).collect::<Vec<_>>());
        prop_assert!(batch.iter().all(|p| p.flow_hash() == 0));
        batch.free();
        prop_assert_eq!(pool.in_use(), 0);
    }
}
