//! An even split of bytes over paths, for each destination.
//!
//! Each path has a credit in bytes, and a packet takes its length from the credit of the path that it goes. When a round
//! of bytes is used up, all paths get their share of the next one. The sum of the credits is what is left of the round, so it
//! is positive: some path has credit, and [`Spread::next`] finds it in turn. A flow that wants to stay on its path may
//! overdraw its credit by a bounded number of bytes ([`Spread::may_stay`]).
//!
//! So over any time a path of share `s` carries `s` of the bytes of its destination, give or take a number of bytes that
//! depends on neither time nor traffic. That bound is what the throughput of the whole cluster rests on.

use crate::random::mix;

/// Bytes that a path of weight 1 gets in a round: more than a large frame.
pub const QUANTUM: i32 = 2048;
/// The largest weight.
pub const MAX_WEIGHT: u8 = 32;
/// The largest overdraft, in bytes.
pub const MAX_OVERDRAFT: u32 = 1 << 18;
/// The most bytes that are counted as what they are: a run and its last packet.
const MAX_LEN: u32 = 1 << 17;

/// Splits for several destinations over the same paths. No path has weight 0 for all: such a destination is not reachable.
#[derive(Debug, Clone)]
pub struct Spread {
    paths: usize,
    /// By destination and path. |credit| < 2³¹ for up to 4,096 paths, by the bounds above.
    credit: Vec<i32>,
    quantum: Vec<i32>,
    rounds: Vec<Round>,
}

#[derive(Debug, Clone, Default)]
struct Round {
    /// Bytes left of this round, the sum of the credits; 0 if there is no path.
    left: i32,
    /// Bytes of a round.
    size: i32,
    /// The path that had the last turn.
    turn: u32,
}

impl Spread {
    /// Splits for `destinations` destinations over at most `paths` paths (up to 4,096), none of which has a share yet.
    pub fn new(destinations: usize, paths: usize) -> Spread {
        Spread {
            paths,
            credit: vec![0; destinations * paths],
            quantum: vec![0; destinations * paths],
            rounds: vec![Round::default(); destinations],
        }
    }

    /// Sets the weights of the paths to a destination, each up to [`MAX_WEIGHT`], and begins anew. Missing ones are 0.
    pub fn set_weights(&mut self, to: usize, weights: &[u8]) {
        let start = to * self.paths;
        let mut size = 0;
        for path in 0..self.paths {
            let weight = weights.get(path).copied().unwrap_or(0).min(MAX_WEIGHT);
            let quantum = QUANTUM * i32::from(weight);
            self.quantum[start + path] = quantum;
            self.credit[start + path] = quantum;
            size += quantum;
        }
        // Who starts is not the same for all destinations, or all would begin with the same relay.
        self.rounds[to] = Round { left: size, size, turn: (to % self.paths.max(1)) as u32 };
    }

    /// Whether there is a path to this destination.
    pub fn is_reachable(&self, to: usize) -> bool {
        self.rounds[to].size > 0
    }

    /// Whether this path has a share for this destination.
    #[inline]
    pub fn has_share(&self, to: usize, path: usize) -> bool {
        path < self.paths && self.quantum[to * self.paths + path] > 0
    }

    /// The path whose turn it is, if there is a path at all: the same as before while it has credit, then the next that has.
    /// So packets go in runs of some 2,048 bytes, which keeps batches together.
    #[inline]
    pub fn next(&mut self, to: usize) -> Option<usize> {
        let round = &mut self.rounds[to];
        if round.size == 0 {
            return None;
        }
        let start = to * self.paths;
        let credit = &self.credit[start..start + self.paths];
        let turn = round.turn as usize;
        if credit.get(turn).is_some_and(|&credit| credit > 0) {
            return Some(turn);
        }
        // The sum of the credits is positive, so one of them is.
        let after = credit.iter().skip(turn + 1).position(|&credit| credit > 0).map(|ahead| turn + 1 + ahead);
        let path = after.or_else(|| credit.iter().position(|&credit| credit > 0))?;
        round.turn = path as u32;
        Some(path)
    }

    /// Bytes after which it is another path's turn, of the path whose turn it is.
    #[inline]
    pub fn left(&self, to: usize, path: usize) -> i32 {
        self.credit[to * self.paths + path].min(self.rounds[to].left)
    }

    /// The path with the most credit for its weight, if there is a path at all: where a new flowlet goes.
    pub fn emptiest(&self, to: usize) -> Option<usize> {
        let range = to * self.paths..(to + 1) * self.paths;
        let (credit, quantum) = (&self.credit[range.clone()], &self.quantum[range]);
        let paths = (0..self.paths).filter(|&path| quantum[path] > 0);
        // credit/quantum compared without dividing.
        paths.reduce(|a, b| {
            let (a_is, b_is) =
                (i64::from(credit[a]) * i64::from(quantum[b]), i64::from(credit[b]) * i64::from(quantum[a]));
            if b_is > a_is { b } else { a }
        })
    }

    /// The path that a hash of a flow draws, by weight, if there is a path at all. It changes only with the weights.
    pub fn drawn(&self, to: usize, flow: u32) -> Option<usize> {
        let size = u64::from(self.rounds[to].size.unsigned_abs());
        let mut at = ((mix(flow.into()) >> 32) * size) >> 32;
        let range = to * self.paths..(to + 1) * self.paths;
        self.quantum[range].iter().position(|&quantum| {
            let here = u64::from(quantum.unsigned_abs());
            let is_here = at < here;
            at = at.wrapping_sub(here);
            is_here
        })
    }

    /// Whether a flow may stay on this path: it has a share, and is overdrawn by less than `overdraft` bytes.
    #[inline]
    pub fn may_stay(&self, to: usize, path: usize, overdraft: u32) -> bool {
        self.room(to, path, overdraft) > 0
    }

    /// Bytes after which [`Spread::may_stay`] says no; not positive if it says so now.
    #[inline]
    pub fn room(&self, to: usize, path: usize, overdraft: u32) -> i32 {
        let overdraft = overdraft.min(MAX_OVERDRAFT) as i32;
        if self.has_share(to, path) { self.credit[to * self.paths + path] + overdraft } else { 0 }
    }

    /// Takes a packet's bytes from the credit of the path that it goes.
    #[inline]
    pub fn charge(&mut self, to: usize, path: usize, bytes: u32) {
        let round = &mut self.rounds[to];
        if path >= self.paths || round.size == 0 {
            return;
        }
        let bytes = bytes.min(MAX_LEN) as i32;
        self.credit[to * self.paths + path] -= bytes;
        round.left -= bytes;
        if round.left <= 0 {
            self.next_round(to);
        }
    }

    #[cold]
    fn next_round(&mut self, to: usize) {
        let round = &mut self.rounds[to];
        let range = to * self.paths..(to + 1) * self.paths;
        // Who had the last turn of a round does not have the first of the next.
        round.turn = if round.turn as usize + 1 < self.paths { round.turn + 1 } else { 0 };
        while round.left <= 0 {
            round.left += round.size;
            for (credit, quantum) in self.credit[range.clone()].iter_mut().zip(&self.quantum[range.clone()]) {
                *credit += quantum;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_paths_take_turns_of_some_2_kb() {
        let mut spread = Spread::new(2, 3);
        assert!(!spread.is_reachable(1));
        assert_eq!((spread.next(1), spread.emptiest(1)), (None, None));
        spread.charge(1, 0, 100);
        spread.set_weights(1, &[1, 1, 1]);
        let mut take = |len| {
            let path = spread.next(1).unwrap();
            spread.charge(1, path, len);
            path
        };
        assert_eq!([0; 7].map(|_| take(1024)), [1, 1, 2, 2, 0, 0, 1]);
        assert_eq!([0; 4].map(|_| take(2000)), [1, 2, 2, 0], "overdrawn, it waits for longer");
        assert_eq!(spread.next(0), None);
    }

    #[test]
    fn a_path_without_weight_is_not_taken() {
        let mut spread = Spread::new(1, 4);
        spread.set_weights(0, &[0, 3]);
        assert!(!spread.has_share(0, 0) && spread.has_share(0, 1) && !spread.has_share(0, 9));
        for _ in 0..100 {
            assert_eq!((spread.next(0), spread.emptiest(0)), (Some(1), Some(1)));
            spread.charge(0, 1, 1500);
        }
        assert!(!spread.may_stay(0, 0, 1000), "nor is it stayed on");
    }

    proptest! {
        #[test]
        fn bytes_are_split_by_weight_within_a_bound(
            weights in prop::collection::vec(0u8..5, 2..9),
            lengths in prop::collection::vec(64u32..1515, 500..1500),
            stay in prop::collection::vec(any::<bool>(), 1500),
            overdraft in 0u32..20_000,
        ) {
            let total: i64 = weights.iter().map(|&w| i64::from(w)).sum();
            prop_assume!(total > 0);
            let mut spread = Spread::new(1, weights.len());
            spread.set_weights(0, &weights);
            let mut sent = vec![0i64; weights.len()];
            let mut favourite = 0;
            for (length, stay) in lengths.into_iter().zip(stay) {
                // A heavy flow that stays wherever it is let, among packets in turn.
                let path = if stay && spread.may_stay(0, favourite, overdraft) {
                    favourite
                } else {
                    favourite = spread.emptiest(0).unwrap();
                    spread.next(0).unwrap()
                };
                prop_assert!(weights[path] > 0);
                spread.charge(0, path, length);
                sent[path] += i64::from(length);
                let all: i64 = sent.iter().sum();
                let slack = i64::from(overdraft) + 1514 + i64::from(QUANTUM) * total;
                for (path, &weight) in weights.iter().enumerate() {
                    // sent <= share · all + slack, multiplied by the sum of the weights.
                    prop_assert!(sent[path] * total <= i64::from(weight) * all + slack * total);
                }
            }
        }
    }
}
