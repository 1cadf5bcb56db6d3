//! Sharing a line fairly: deficit round robin by input node, max-min shares, Jain's index.

use std::collections::VecDeque;

/// Bytes that a queue may send in its turn: more than a large frame, so that each turn sends something.
const QUANTUM: u32 = 2048;

/// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a queue for each input node, each with the same share of the
/// line in bytes as long as it has anything. A queue that is full loses its own packets and nobody else's.
#[derive(Debug, Clone)]
pub struct Drr<T> {
    queues: Vec<Queue<T>>,
    /// Queues with packets; the first has its turn.
    turns: VecDeque<usize>,
    /// Bytes that each queue may hold.
    limit: u32,
    /// Packets that each queue may hold.
    most: usize,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Queue<T> {
    packets: VecDeque<(u32, T)>,
    bytes: u32,
    deficit: u32,
}

impl<T> Drr<T> {
    /// Queues for `inputs` input nodes, each of up to `limit` bytes.
    pub fn new(inputs: usize, limit: u32) -> Drr<T> {
        let queue = || Queue { packets: VecDeque::new(), bytes: 0, deficit: 0 };
        Drr {
            queues: std::iter::repeat_with(queue).take(inputs).collect(),
            turns: VecDeque::with_capacity(inputs),
            limit,
            most: usize::MAX,
            bytes: 0,
        }
    }

    /// The same of up to `most` packets each, too.
    #[must_use]
    pub fn of_packets(self, most: usize) -> Drr<T> {
        Drr { most, ..self }
    }

    /// Whether [`Drr::push`] would take such a packet.
    pub fn admits(&self, input: usize, len: u32) -> bool {
        let has_room = |queue: &Queue<T>| {
            len <= self.limit.saturating_sub(queue.bytes) && queue.packets.len() < self.most
        };
        self.queues.get(input).is_some_and(has_room)
    }

    /// Adds a packet of an input node.
    ///
    /// # Errors
    ///
    /// The packet, if its queue is full or there is no such input.
    pub fn push(&mut self, input: usize, len: u32, packet: T) -> Result<(), T> {
        if !self.admits(input, len) {
            return Err(packet);
        }
        let queue = &mut self.queues[input];
        if queue.packets.is_empty() {
            queue.deficit = QUANTUM;
            self.turns.push_back(input);
        }
        queue.packets.push_back((len, packet));
        queue.bytes += len;
        self.bytes += u64::from(len);
        Ok(())
    }

    /// The packet that goes next, with its input node and length.
    pub fn pop(&mut self) -> Option<(usize, u32, T)> {
        loop {
            let &input = self.turns.front()?;
            let queue = &mut self.queues[input];
            match queue.packets.pop_front_if(|&mut (len, _)| len <= queue.deficit) {
                Some((len, packet)) => {
                    queue.deficit -= len;
                    queue.bytes -= len;
                    self.bytes -= u64::from(len);
                    if queue.packets.is_empty() {
                        self.turns.pop_front();
                    }
                    return Some((input, len, packet));
                }
                None => {
                    queue.deficit = queue.deficit.saturating_add(QUANTUM);
                    self.turns.rotate_left(1);
                }
            }
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes everything out, as when the line fails.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.turns.clear();
        self.bytes = 0;
        self.queues.iter_mut().flat_map(|queue| {
            queue.bytes = 0;
            queue.packets.drain(..).map(|(_, packet)| packet)
        })
    }
}

/// The max-min fair shares of a line: nobody gets more than asked for, and what is left goes to those who ask for more, in
/// equal parts.
pub fn max_min(capacity: f64, demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|&a, &b| demands[a].total_cmp(&demands[b]));
    let mut shares = vec![0.0; demands.len()];
    let mut left = capacity;
    for (served, &input) in order.iter().enumerate() {
        shares[input] = demands[input].min(left / (demands.len() - served) as f64);
        left -= shares[input];
    }
    shares
}

/// Jain's index of fairness: (Σx)² / (n · Σx²), 1 if all are equal, 1/n if one has everything; 1 for nothing.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

/// Jain's index of what inputs got, each as a part of its max-min fair share. Inputs that asked for nothing do not count.
pub fn fairness(capacity: f64, demands: &[f64], got: &[f64]) -> f64 {
    let shares = max_min(capacity, demands);
    let parts: Vec<f64> =
        got.iter().zip(&shares).filter(|&(_, &share)| share > 0.0).map(|(got, share)| got / share).collect();
    jain(&parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_examples() {
        // Jain, Chiu, Hawe (DEC-TR-301, 1984): equal shares, and k of n.
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[20.0; 20]), 1.0);
        assert_eq!(jain(&[]), 1.0);
        // Demands 2, 2.6, 4, 5 on a line of 10.
        let shares = max_min(10.0, &[2.0, 2.6, 4.0, 5.0]);
        let expected = [2.0, 2.6, 2.7, 2.7];
        assert!(shares.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{shares:?}");
        assert_eq!(fairness(10.0, &[2.0, 0.0, 20.0], &[2.0, 0.0, 8.0]), 1.0);
        assert_eq!(fairness(10.0, &[20.0, 20.0], &[10.0, 0.0]), 0.5);
    }

    #[test]
    fn a_full_queue_loses_its_own() {
        let mut drr = Drr::new(2, 1000);
        assert_eq!(drr.push(0, 600, 'a'), Ok(()));
        assert_eq!(drr.push(0, 600, 'b'), Err('b'));
        assert_eq!(drr.push(1, 600, 'c'), Ok(()));
        assert_eq!(drr.push(2, 1, 'd'), Err('d'));
        assert_eq!(drr.bytes(), 1200);
        assert_eq!([drr.pop(), drr.pop(), drr.pop()], [Some((0, 600, 'a')), Some((1, 600, 'c')), None]);
        drr.push(1, 9, 'e').unwrap();
        drr.push(0, 9, 'f').unwrap();
        assert_eq!(drr.drain().collect::<Vec<_>>(), ['f', 'e']);
        assert_eq!((drr.bytes(), drr.pop()), (0, None));
        drr.push(1, 1000, 'g').unwrap();
        assert_eq!(drr.pop(), Some((1, 1000, 'g')));
    }

    #[test]
    fn a_queue_is_full_of_packets_or_of_bytes() {
        let mut drr = Drr::new(2, 1000).of_packets(2);
        assert_eq!([1, 1, 1].map(|len| drr.push(0, len, 'a')), [Ok(()), Ok(()), Err('a')]);
        assert_eq!([600, 600].map(|len| drr.push(1, len, 'b')), [Ok(()), Err('b')]);
        drr.pop().unwrap();
        assert!(drr.admits(0, 1) && !drr.admits(0, 1000));
    }

    #[test]
    fn longer_packets_than_a_turn_go_in_several() {
        let mut drr = Drr::new(2, 100_000);
        (0..3).for_each(|n| drr.push(0, 9000, n).unwrap());
        (0..30).for_each(|n| drr.push(1, 900, n).unwrap());
        let sent: u32 =
            (0..22).filter_map(|_| drr.pop()).filter(|packet| packet.0 == 0).map(|packet| packet.1).sum();
        assert_eq!(sent, 18_000, "of 36,000");
    }

    proptest! {
        #[test]
        fn queues_that_have_packets_get_the_same_bytes(
            lengths in prop::collection::vec(prop::collection::vec(64u32..1515, 100..200), 2..6),
        ) {
            let mut drr = Drr::new(lengths.len(), u32::MAX);
            for (input, lengths) in lengths.iter().enumerate() {
                lengths.iter().enumerate().for_each(|(n, &len)| drr.push(input, len, n).unwrap());
            }
            let mut sent = vec![0i64; lengths.len()];
            let mut count = vec![0; lengths.len()];
            while let Some((input, len, n)) = drr.pop() {
                prop_assert_eq!((count[input], lengths[input][n]), (n, len), "in order");
                count[input] += 1;
                sent[input] += i64::from(len);
                if count.iter().zip(&lengths).any(|(&count, lengths)| count == lengths.len()) {
                    break;
                }
                let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
                prop_assert!(most - least <= i64::from(QUANTUM) + 2 * 1514);
            }
        }

        #[test]
        fn max_min_by_filling_drop_by_drop(demands in prop::collection::vec(0u32..50, 1..8), capacity in 0u32..200) {
            // Each drop goes to one who has least of those who want more.
            let mut naive = vec![0u32; demands.len()];
            for _ in 0..capacity * 60 {
                let wants = |&i: &usize| naive[i] < demands[i] * 60;
                let Some(poorest) = (0..demands.len()).filter(wants).min_by_key(|&i| naive[i]) else { break };
                naive[poorest] += 1;
            }
            let shares = max_min(capacity.into(), &demands.iter().map(|&d| f64::from(d)).collect::<Vec<_>>());
            for (share, naive) in shares.iter().zip(naive) {
                prop_assert!((share * 60.0 - f64::from(naive)).abs() < 1.001, "{} {}", share * 60.0, naive);
            }
        }

        #[test]
        fn jain_is_between_one_over_n_and_one(values in prop::collection::vec(0.0f64..100.0, 1..9)) {
            let index = jain(&values);
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / values.len() as f64 - 1e-12);
            let scaled: Vec<f64> = values.iter().map(|x| x * 3.0).collect();
            prop_assert!((jain(&scaled) - index).abs() < 1e-12);
        }
    }
}
