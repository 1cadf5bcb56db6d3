//! The packet of a source, as arguments say it.

use graph::Args;

/// What a source sends of which nothing is said.
pub const DEFAULT_DATA: &[u8; 64] = b"A packet of RouteBricks: sixty-four bytes of text, neither more.";

/// Reads `LENGTH` and repeats or cuts the packet to it.
pub fn with_length(args: &mut Args, data: &[u8]) -> Vec<u8> {
    let length = args.keyword("LENGTH", data.len());
    if length > data.len() && data.is_empty() {
        args.error("LENGTH", "there is no DATA to repeat");
    } else if length > usize::from(u16::MAX) {
        args.error("LENGTH", "out of range, bound 65535");
    } else {
        return data.iter().copied().cycle().take(length).collect();
    }
    Vec::new()
}
