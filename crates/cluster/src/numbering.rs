//! Sequence numbers at the input node, and markers for idle paths.
//!
//! A stream is what one worker of one input node sends to one egress worker in one class. Its packets are numbered in the
//! order in which they go out, after the transmit queue has taken them, so that what is lost before leaves no gap. The
//! output node takes a missing number for lost once every path has delivered something later (multilink PPP's rule, RFC
//! 1990 §4.1). A path that carries nothing cannot say so; a marker on it says it instead.

use crate::header::SEQUENCES;
use crate::utilisation::SECOND;

/// The numbers of one stream. They begin with 0 in each incarnation of the input node.
#[derive(Debug, Clone)]
pub struct Numbering {
    next: u64,
    paths: Vec<Path>,
    /// When each path had its last marker.
    marked: Vec<u64>,
}

/// Markers take one part in so many of a link at most.
const PART: u64 = 8;

/// The least time between two markers of a stream on a path, in nanoseconds, if its slowest link has `rate` bits per second and a
/// marker takes `bits`: a link of a full mesh of `nodes` has those of N − 1 streams on their first way, and of N − 2 on
/// their second.
pub fn marker_gap(nodes: u16, bits: u64, rate: u64) -> u64 {
    let streams = (2 * u64::from(nodes)).saturating_sub(3);
    (streams * PART).saturating_mul(bits).saturating_mul(SECOND) / rate.max(1)
}

#[derive(Debug, Clone, Default)]
struct Path {
    /// The number in its last marker. Packets say as much, but may be lost, and at the end of a burst nothing follows them.
    marked: u64,
    /// When it carried something last.
    at: u64,
}

impl Numbering {
    /// A stream over this many paths.
    pub fn new(paths: usize) -> Numbering {
        Numbering { next: 0, paths: vec![Path::default(); paths], marked: vec![0; paths] }
    }

    /// The number of a packet that goes over this path now.
    #[inline]
    pub fn number(&mut self, path: usize, now: u64) -> u32 {
        let number = self.next;
        self.next += 1;
        self.paths[path].at = now;
        short(number)
    }

    /// The number that comes next.
    #[inline]
    pub fn next(&self) -> u32 {
        short(self.next)
    }

    /// So many packets were given the next numbers, and go over this path now.
    #[inline]
    pub fn take(&mut self, path: usize, count: u32, now: u64) {
        self.next += u64::from(count);
        self.paths[path].at = now;
    }

    /// Paths that need a marker: they have carried nothing for `idle` nanoseconds, and the stream has since their last one. Gives
    /// each path, once, with the number that goes in the header; the marker must go behind all packets of the stream on that path.
    /// A path has none before the `gap` of its number, in nanoseconds, since its last one.
    pub fn markers(
        &mut self,
        now: u64,
        idle: u64,
        gap: impl Fn(usize) -> u64,
    ) -> impl Iterator<Item = (usize, u32)> {
        let next = self.next;
        let paths = self.paths.iter_mut().zip(&mut self.marked).enumerate();
        paths.filter_map(move |(number, (path, last))| {
            let is_due = path.marked < next && now.saturating_sub(path.at) >= idle;
            (is_due && now.saturating_sub(*last) >= gap(number)).then(|| {
                *last = now;
                *path = Path { marked: next, at: now };
                (number, short(next))
            })
        })
    }
}

/// The part of a number that the header carries.
fn short(number: u64) -> u32 {
    (number % u64::from(SEQUENCES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_paths_are_marked_once() {
        let mut stream = Numbering::new(3);
        assert_eq!(stream.markers(1000, 10, |_| 0).count(), 0, "nothing was sent");
        assert_eq!([stream.number(0, 1000), stream.number(0, 1001), stream.number(1, 1005)], [0, 1, 2]);
        assert_eq!(stream.markers(1009, 10, |_| 0).collect::<Vec<_>>(), [(2, 3)], "idle since ever");
        assert_eq!(stream.markers(1011, 10, |_| 0).collect::<Vec<_>>(), [(0, 3)]);
        assert_eq!(
            stream.markers(9999, 10, |_| 0).collect::<Vec<_>>(),
            [(1, 3)],
            "its last packet may be lost"
        );
        assert_eq!(stream.markers(9999, 10, |_| 0).count(), 0);
        assert_eq!(stream.number(2, 10_000), 3);
        let gap = |path| if path == 1 { 20 } else { 10 };
        assert_eq!(
            stream.markers(10_009, 10, gap).collect::<Vec<_>>(),
            [(0, 4)],
            "the other had one at 9,999"
        );
        assert_eq!(stream.markers(10_019, 10, gap).collect::<Vec<_>>(), [(1, 4), (2, 4)]);
        // 13 streams, 512 bits each, an eighth of 2.5 Mbit/s.
        assert_eq!(marker_gap(8, 512, 2_500_000), 21_299_200);
        assert_eq!((marker_gap(1, 512, 1), marker_gap(2, 1, 0)), (0, 8 * SECOND));
    }

    #[test]
    fn numbers_have_24_bits() {
        let mut stream = Numbering::new(1);
        stream.next = u64::from(SEQUENCES) - 1;
        assert_eq!([stream.number(0, 0), stream.number(0, 0)], [SEQUENCES - 1, 0]);
    }
}
