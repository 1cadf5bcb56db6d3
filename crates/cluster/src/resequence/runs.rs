//! Packets with numbers that follow each other, taken in together.

use super::{Held, Place, Resequencer};

impl<T> Resequencer<T> {
    /// Takes in packets that came by `path`, whose numbers follow each other from `sequence` on, up to the first that is not
    /// merely to wait for others; at most `most`. How many of `items` were taken. The next, if there is one, is for
    /// [`Resequencer::accept`], which would do the same with all, one by one.
    #[inline]
    pub fn hold_run(
        &mut self,
        path: usize,
        incarnation: u8,
        sequence: u32,
        most: usize,
        items: impl Iterator<Item = T>,
        now: u64,
    ) -> usize {
        let Place::Ahead(first) = self.place(sequence) else { return 0 };
        // While another path may still deliver what is next, nothing that comes by this one lets any packet go.
        let is_open = |(other, floor): (usize, &Option<u64>)| {
            other != path && floor.is_some_and(|floor| floor <= self.next)
        };
        let waits = first > self.next && self.floors.iter().enumerate().any(is_open);
        if !waits || path >= self.floors.len() || incarnation != self.incarnation {
            return 0;
        }
        let room = (self.next + self.slots.len() as u64 - first) as usize;
        while self.waiting.front().is_some_and(|&number| number < self.next) {
            self.waiting.pop_front();
        }
        let mut number = first;
        for item in items.take(most.min(self.free_from(first, most.min(room)))) {
            let slot = self.slot(number);
            self.slots[slot] = Some(Held { item, since: now });
            self.waiting.push_back(number);
            number += 1;
        }
        let taken = (number - first) as usize;
        if taken > 0 {
            self.probation = None;
            self.raise_floor(path, number);
            self.held += taken;
            self.counts.waited += taken as u64;
        }
        taken
    }

    /// How many slots in a row are free from this number on, at most `most`.
    fn free_from(&self, first: u64, most: usize) -> usize {
        (0..most).take_while(|&ahead| self.slots[self.slot(first + ahead as u64)].is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::SEQUENCES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_run_is_as_its_packets(
            runs in prop::collection::vec((0..3usize, -8..24i64, 1..12usize, 0..4u32), 1..120),
            start in prop::sample::select(vec![0, u64::from(SEQUENCES) - 20]),
        ) {
            let new = || {
                let mut one = Resequencer::<u64>::new(3, 16, 1000, 0);
                one.next = start;
                one.floors.fill(Some(start));
                one
            };
            let (mut together, mut alone) = (new(), new());
            let (mut out, mut out_alone) = (Vec::new(), Vec::new());
            for (now, (path, offset, count, other)) in (0..).step_by(100).zip(runs) {
                let first = alone.next.saturating_add_signed(offset);
                let low = |number: u64| (number % u64::from(SEQUENCES)) as u32;
                let mut at = 0;
                while at < count {
                    let number = first + at as u64;
                    let items = number..first + count as u64;
                    let taken = together.hold_run(path, 0, low(number), count - at, items, now);
                    if taken == 0 {
                        let _ = together.accept(path, 0, low(number), number, now, &mut out);
                    }
                    at += taken.max(1);
                }
                for number in first..first + count as u64 {
                    let _ = alone.accept(path, 0, low(number), number, now, &mut out_alone);
                }
                match other {
                    0 => [(&mut together, &mut out), (&mut alone, &mut out_alone)].map(|(r, out)| r.poll(now, out)),
                    1 => [(&mut together, &mut out), (&mut alone, &mut out_alone)].map(|(r, out)| {
                        if r.is_path_up(path) { r.path_down(path, out) } else { r.path_up(path) }
                    }),
                    _ => [(), ()],
                };
                prop_assert_eq!(&out, &out_alone);
                prop_assert_eq!(together.counts(), alone.counts());
                prop_assert_eq!((together.held(), together.next, together.due()), (alone.held(), alone.next, alone.due()));
                prop_assert_eq!(&together.floors, &alone.floors);
            }
        }
    }
}
