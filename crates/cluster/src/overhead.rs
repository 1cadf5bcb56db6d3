//! What of a link is not for traffic: hellos, markers, and frames for and from the Linux of the control node.

use crate::numbering::marker_gap;
use crate::utilisation::SECOND;

/// Frames for and from Linux take one part in so many of a link at most.
pub const PUNT_PART: u64 = 32;
/// The shortest frame with preamble, check sequence and gap, in bits: what a marker takes, and a hello of fewer than 200 nodes.
const FRAME: u64 = 84 * 8;
/// A path that carries nothing has a marker every so many nanoseconds at most.
const MARKER: u64 = 2_000_000;

/// Bits per second that are not for traffic, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    /// Of hellos.
    pub hellos: u64,
    /// Of markers of all streams.
    pub markers: u64,
    /// Of frames for and from Linux.
    pub punted: u64,
}

impl Overhead {
    /// On a link of this rate in a full mesh of `nodes`, with hellos every `hello` nanoseconds. `is_strict`: packets are numbered.
    pub fn new(nodes: u16, rate: u64, hello: u64, is_strict: bool) -> Overhead {
        let streams = (2 * u64::from(nodes)).saturating_sub(3);
        let gap = marker_gap(nodes, FRAME, rate).max(MARKER);
        Overhead {
            hellos: FRAME * SECOND / hello.max(1),
            markers: if is_strict { streams * FRAME * SECOND / gap } else { 0 },
            punted: rate / PUNT_PART,
        }
    }

    /// All of it.
    pub fn sum(&self) -> u64 {
        self.hellos + self.markers + self.punted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_links_have_fewer_markers() {
        let on = |rate| Overhead::new(4, rate, 10_000_000, true);
        let fast = Overhead { hellos: 67_200, markers: 1_680_000, punted: 312_500_000 };
        assert_eq!(on(10_000_000_000), fast);
        let slow = on(11_000_000);
        assert_eq!((slow.hellos, slow.punted), (67_200, 343_750));
        assert!((1_370_000..=1_375_000).contains(&slow.markers), "an eighth at most: {slow:?}");
        assert_eq!(Overhead::new(4, 11_000_000, 10_000_000, false).markers, 0);
    }
}
