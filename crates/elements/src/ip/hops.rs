//! What `DecIPTTL` and `DecIP6HLIM` have in common: what becomes of packets that cannot go on.

use epoch::Count;
use graph::{Loss, Out};
use packet::Packet;

pub const LOSSES: [&str; 2] = ["expired", "no_header"];
/// No hop is left.
pub const EXPIRED: Loss = Loss(0);
/// There is no header to take a hop from.
pub const NO_HEADER: Loss = Loss(1);

/// Gives back a packet from which a hop was taken. Others go to output 1, counted in `drops`, if they have expired, or are lost.
pub fn go_on(packet: Packet, taken: Result<(), Loss>, drops: &Count, out: &mut Out<'_>) -> Option<Packet> {
    match taken {
        Ok(()) => return Some(packet),
        Err(EXPIRED) => {
            drops.add(1);
            out.reject(1, packet, EXPIRED);
        }
        Err(other) => out.lose(packet, other),
    }
    None
}
