//! Packets of one kind: headers compared with what is known of the kind.

use super::adjacencies::Network;
use super::outlet::OVERHEAD;
use cluster::header::{Glance, Header, LEN, SEQUENCES};
use packet::Packet;
use packet::wire::ethernet::HEADER_LEN;

/// How many packets got ready to be sent on, and the bytes that they take on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    pub packets: usize,
    pub bytes: u32,
}

/// What headers of a kind have in common.
#[derive(Debug, Clone, Copy)]
pub struct Alike {
    /// One of them.
    pub glance: Glance,
    /// The line by which they leave, if they leave the cluster here.
    pub line: u16,
    /// The number of the next, if they are numbered.
    pub next: u32,
    /// How many from there on may pass.
    pub room: usize,
}

/// Bits behind the adjacency in the first 8 octets.
const ADJACENCY_SHIFT: u32 = 16;

/// The bits of [`Row`] that are the same in all packets of a kind.
const SAME: Row = {
    let [a, b, c] = Glance::ALIKE;
    Row { front: a as u64 | (b as u64) << 32, back: c }
};

/// A header as two little-endian words: how a machine reads it fastest.
#[derive(Debug, Clone, Copy)]
struct Row {
    front: u64,
    back: u32,
}

impl Row {
    /// That of a frame.
    #[inline(always)]
    fn new([a, b, c, d, e, f, g, h, w, x, y, z, ..]: &[u8; HEADER_LEN]) -> Row {
        let front = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        Row { front, back: u32::from_le_bytes([*w, *x, *y, *z]) }
    }

    /// What packets like this have in common: 0 where they may differ.
    #[inline(always)]
    fn common(glance: &Glance) -> Row {
        let [a, b, c] = glance.words();
        Row { front: (u64::from(a) | u64::from(b) << 32) & SAME.front, back: c & SAME.back }
    }

    /// Of a header that begins like the common one the adjacency, in those bits where it stands.
    #[inline(always)]
    fn adjacency(&self, common: &Row) -> Option<u64> {
        let differs = self.front ^ common.front;
        (differs & SAME.front == 0).then_some(differs)
    }

    /// Whether it ends like the common one, but for the number.
    #[inline(always)]
    fn ends_like(&self, common: &Row) -> bool {
        (self.back ^ common.back) & SAME.back == 0
    }
}

impl Passed {
    /// So many packets, with so many bytes that are not only on the wire.
    #[inline(always)]
    fn new(packets: usize, bytes: u32) -> Passed {
        // A batch has fewer than 2^16 packets.
        Passed { packets, bytes: bytes + packets as u32 * OVERHEAD }
    }
}

/// Gets packets of a kind ready to be sent on, up to the first that is another or a marker.
#[inline(never)]
pub fn pass_on(packets: &mut [Packet], like: &Alike) -> Passed {
    let common = Row::common(&like.glance);
    let mut bytes = 0;
    for (passed, packet) in packets.iter_mut().enumerate() {
        // A packet's length has 16 bits.
        let length = packet.len() as u32;
        let Some(head) = packet.data_mut().first_chunk_mut() else { return Passed::new(passed, bytes) };
        let row = Row::new(head);
        // Markers are not traffic, and have adjacency 0.
        let Some(1..) = row.adjacency(&common) else { return Passed::new(passed, bytes) };
        if !row.ends_like(&common) {
            return Passed::new(passed, bytes);
        }
        head.first_chunk_mut().into_iter().for_each(Header::relay);
        bytes += length;
    }
    Passed::new(packets.len(), bytes)
}

/// Gets packets of a kind ready for their line, up to the first that is another, or not the next.
#[inline(never)]
pub fn pass_out<const STRICT: bool>(packets: &mut [Packet], like: &Alike, network: &Network<'_>) -> Passed {
    // Numbers do not come round among packets that are looked at together.
    let before_first = (SEQUENCES - like.next) as usize;
    let most = if STRICT { like.room.min(packets.len()).min(before_first) } else { packets.len() };
    let common = Row::common(&like.glance);
    let mut last = like.glance.numbered(like.next);
    let mut bytes = 0;
    for (passed, packet) in packets[..most].iter_mut().enumerate() {
        // A packet's length has 16 bits.
        let length = packet.len() as u32;
        let Some(head) = packet.data_mut().first_chunk_mut() else { return Passed::new(passed, bytes) };
        let row = Row::new(head);
        let Some(adjacency) = row.adjacency(&common) else { return Passed::new(passed, bytes) };
        // The adjacency is all that is left of the word.
        let adjacency = network.get(head, (adjacency.swap_bytes() >> ADJACENCY_SHIFT) as usize);
        let Some(adjacency) = adjacency.filter(|adjacency| adjacency.output == like.line) else {
            return Passed::new(passed, bytes);
        };
        let is_right = if STRICT { row.back.swap_bytes() == last } else { row.ends_like(&common) };
        if !is_right {
            return Passed::new(passed, bytes);
        }
        head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
        bytes += length;
        last = last.wrapping_add(1);
    }
    Passed::new(most, bytes)
}
