//! What a queue holds: batches as they came, so that nobody has to look at packets that only wait.

use packet::{Batch, Pieces};
use std::collections::VecDeque;

/// Batches of fewer packets than this join the one before them.
const SMALL: usize = 16;
/// With more batches than this in store, each joins the one before it as far as there is room: memory then goes with packets.
const MANY: usize = 64;

/// Packets, first in, first out.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// What is left of a batch of which some have gone.
    begun: Pieces,
    /// Those behind it; none is empty.
    batches: VecDeque<Batch>,
    packets: usize,
}

impl Store {
    /// Packets in it.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Takes packets in.
    pub fn push(&mut self, mut batch: Batch) {
        self.packets += batch.len();
        let many = self.batches.len() > MANY;
        if let Some(last) = self.batches.back_mut()
            && (many || batch.len() < SMALL && last.len() < SMALL)
        {
            last.append(&mut batch);
        }
        if !batch.is_empty() {
            self.batches.push_back(batch);
        }
    }

    /// The `max` oldest packets, or as many as there are and a batch can hold.
    pub fn pop(&mut self, max: usize) -> Batch {
        let max = max.min(Batch::MAX);
        let mut oldest = self.begun.take(max);
        while oldest.len() < max
            && let Some(mut next) = self.batches.pop_front()
        {
            let room = max - oldest.len();
            if next.len() > room {
                self.begun = next.into();
                next = self.begun.take(room);
            }
            oldest.append(&mut next);
        }
        self.packets -= oldest.len();
        oldest
    }

    /// Some of the newest packets, at least one and at most `max`, if there are any.
    pub fn pop_newest(&mut self, max: usize) -> Batch {
        let mut newest = self.batches.pop_back().unwrap_or_else(|| self.begun.take_all());
        if newest.len() > max {
            let gone = newest.split_off(newest.len() - max);
            self.batches.push_back(std::mem::replace(&mut newest, gone));
        }
        self.packets -= newest.len();
        newest
    }

    /// Gives all packets back to their pools because the queue ends ([`packet::held`]).
    pub fn free_held(mut self) {
        self.begun.take_all().free_held();
        self.batches.into_iter().for_each(Batch::free_held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Packet, Pool};
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Pop(usize),
        PopNewest(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop_oneof![4 => 0usize..20, 1 => 20usize..=256].prop_map(Step::Push),
            2 => prop_oneof![4 => 0usize..20, 1 => 20usize..300].prop_map(Step::Pop),
            1 => (1usize..40).prop_map(Step::PopNewest),
        ]
    }

    /// The numbers that packets carry; frees them.
    fn numbers(batch: Batch) -> Vec<u32> {
        let numbers = batch.iter().map(Packet::dst_ip).collect();
        batch.free();
        numbers
    }

    proptest! {
        #[test]
        fn first_in_first_out(steps in proptest::collection::vec(step(), 0..200)) {
            let pool = Pool::heap(1 << 16, 64);
            let (mut store, mut want) = (Store::default(), VecDeque::new());
            let mut next = 0u32;
            for step in steps {
                match step {
                    Step::Push(n) => {
                        let batch: Batch = (0..n).filter_map(|_| {
                            let mut packet = pool.packet(b"x")?;
                            packet.set_dst_ip(next);
                            want.push_back(next);
                            next += 1;
                            Some(packet)
                        }).collect();
                        prop_assert_eq!(batch.len(), n);
                        store.push(batch);
                    }
                    Step::Pop(max) => {
                        let all = max.min(want.len()).min(Batch::MAX);
                        let oldest: Vec<u32> = want.drain(..all).collect();
                        prop_assert_eq!(numbers(store.pop(max)), oldest);
                    }
                    Step::PopNewest(max) => {
                        let newest = numbers(store.pop_newest(max));
                        prop_assert!(newest.len() <= max && newest.is_empty() == want.is_empty());
                        let last = want.split_off(want.len() - newest.len());
                        prop_assert_eq!(newest, Vec::from(last));
                    }
                }
                prop_assert_eq!(store.len(), want.len());
            }
            store.free_held();
            prop_assert_eq!(pool.in_use(), 0);
        }
    }
}
