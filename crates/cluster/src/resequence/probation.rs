//! Frames outside the window: whether the stream is there.

use super::distance;
use crate::header::SEQUENCES;

/// Frames ahead of the window, in a row and each a little after the one before, after which the stream is taken to be there.
/// One stray frame cannot move the window, and a stream that was away for long is found again.
const AHEAD: u32 = 3;

/// Frames behind the window may just be very late. The stream is taken to be there only after so many deadlines of nothing
/// else: that is how it is found again if forged frames moved the window.
const BEHIND: u64 = 16;

/// Frames in a row outside the window, with none within since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probation {
    last: u32,
    seen: u32,
    since: u64,
}

impl Probation {
    /// With one more frame outside a window of so many numbers. One that does not follow begins a row.
    pub fn after(before: Option<Probation>, sequence: u32, window: u64, now: u64) -> Probation {
        let follows = |before: &Probation| (1..window).contains(&distance(before.last, sequence));
        let (seen, since) = match before.filter(follows) {
            Some(before) => (before.seen.saturating_add(1), before.since),
            None => (1, now),
        };
        Probation { last: sequence, seen, since }
    }

    /// Whether a stream whose window begins at `next` is where these frames are.
    pub fn is_passed(self, next: u32, deadline: u64, now: u64) -> bool {
        let is_ahead = distance(next, self.last) < u64::from(SEQUENCES / 2);
        let patience = BEHIND.saturating_mul(deadline);
        self.seen >= AHEAD && (is_ahead || now.saturating_sub(self.since) > patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these frames, at these times, shows that the stream has left a window of 64 at 1000.
    fn passed(frames: &[(u32, u64)]) -> Vec<bool> {
        let mut row = None;
        let pass = |&(sequence, now): &(u32, u64)| {
            let longer = Probation::after(row, sequence, 64, now);
            row = Some(longer);
            longer.is_passed(1000, 100, now)
        };
        frames.iter().map(pass).collect()
    }

    #[test]
    fn three_in_a_row_are_enough_ahead() {
        assert_eq!(passed(&[(5000, 0), (5001, 0), (5064, 0)]), [false, false, true]);
        // Too far from each other, the same again, and back.
        assert_eq!(passed(&[(5000, 0), (5001, 0), (5065, 0)]), [false; 3]);
        assert_eq!(passed(&[(5000, 0), (5001, 0), (5001, 0), (5000, 0)]), [false; 4]);
    }

    #[test]
    fn behind_nothing_else_must_come_for_sixteen_deadlines() {
        let late = [(10, 7), (11, 8), (12, 1607), (13, 1608)];
        assert_eq!(passed(&late), [false, false, false, true]);
        // A row that is broken begins anew.
        assert_eq!(passed(&[(10, 7), (500, 8), (501, 1607), (502, 1608), (503, 1609)])[..4], [false; 4]);
        assert!(passed(&[(10, 7), (500, 8), (501, 1607), (502, 1609)])[3]);
    }

    #[test]
    fn a_row_goes_round_with_the_numbers() {
        assert_eq!(passed(&[(SEQUENCES - 1, 0), (0, 0), (1, 2000)]), [false, false, true]);
    }
}
