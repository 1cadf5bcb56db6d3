//! Packets of one kind: headers compared with what is known of the kind.

use super::outlet::OVERHEAD;
use super::switch::Network;
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
/// Bits behind the number in the last 8 octets.
const SEQUENCE_SHIFT: u32 = 16;
/// Bits below the EtherType in [`Row::back`].
const TYPE_SHIFT: u32 = 48;

/// The bits of [`Row`] that are the same in all packets of a kind.
const SAME: Row = {
    let [a, b, c] = Glance::ALIKE;
    Row {
        front: a as u64 | (b as u64) << 32,
        back: (b as u64) >> 16 | (c as u64) << 16 | 0xFFFF << TYPE_SHIFT,
    }
};

/// A frame's Ethernet header as two little-endian words that overlap: how a machine reads it fastest.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// The first 8 octets.
    front: u64,
    /// The last 8, with the EtherType.
    back: u64,
}

impl Row {
    /// That of a frame.
    #[inline(always)]
    fn new([a, b, c, d, e, f, g, h, w, x, y, z, m, n]: &[u8; HEADER_LEN]) -> Row {
        let front = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        Row { front, back: u64::from_le_bytes([*g, *h, *w, *x, *y, *z, *m, *n]) }
    }

    /// What packets like this have in common: 0 where they may differ.
    #[inline(always)]
    fn common(glance: &Glance, ethertype: [u8; 2]) -> Row {
        let [a, b, c] = glance.words().map(u64::from);
        let ethertype = u64::from(u16::from_le_bytes(ethertype));
        Row {
            front: (a | b << 32) & SAME.front,
            back: (b >> 16 | c << 16 | ethertype << TYPE_SHIFT) & SAME.back,
        }
    }

    /// The adjacency, in those bits where it stands, of a header that begins like the common one.
    #[inline(always)]
    fn adjacency(&self, common: &Row) -> Option<u64> {
        let differs = self.front ^ common.front;
        (differs & SAME.front == 0).then_some(differs)
    }

    /// The number of the adjacency of a header that begins like the common one; of others a number that none has.
    #[inline(always)]
    fn number(&self, common: &Row) -> usize {
        let differs = (self.front ^ common.front).swap_bytes();
        // What is before and behind the adjacency stands above it now.
        usize::try_from(differs.rotate_right(ADJACENCY_SHIFT)).unwrap_or(usize::MAX)
    }

    /// Whether it ends like the common one, but for the number; the EtherType does not matter to a relay.
    #[inline(always)]
    fn ends_like<const TYPED: bool>(&self, common: &Row) -> bool {
        const UNTYPED: u64 = SAME.back & !(0xFFFF << TYPE_SHIFT);
        (self.back ^ common.back) & if TYPED { SAME.back } else { UNTYPED } == 0
    }

    /// Whether it ends like the common one, with this number, which stands [`SEQUENCE_SHIFT`] higher.
    #[inline(always)]
    fn is_numbered(&self, common: &Row, number: u64) -> bool {
        (self.back ^ common.back).swap_bytes() == number
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
    let common = Row::common(&like.glance, [0; 2]);
    let mut bytes = 0;
    for (passed, packet) in packets.iter_mut().enumerate() {
        // A packet's length has 16 bits.
        let length = packet.len() as u32;
        let Some(head) = packet.data_mut().first_chunk_mut() else { return Passed::new(passed, bytes) };
        let row = Row::new(head);
        // Markers are not traffic, and have adjacency 0.
        let Some(1..) = row.adjacency(&common) else { return Passed::new(passed, bytes) };
        if !row.ends_like::<false>(&common) {
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
    let common = Row::common(&like.glance, network.ethertype);
    let mut number = u64::from(like.next) << SEQUENCE_SHIFT;
    let mut bytes = 0;
    for (passed, packet) in packets[..most].iter_mut().enumerate() {
        // A packet's length has 16 bits.
        let length = packet.len() as u32;
        let Some(head) = packet.first_mut() else { return Passed::new(passed, bytes) };
        let row = Row::new(head);
        // No list has more adjacencies than headers have numbers for.
        let adjacency = network.at(row.number(&common)).filter(|adjacency| adjacency.output == like.line);
        let Some(adjacency) = adjacency else { return Passed::new(passed, bytes) };
        let is_right = if STRICT { row.is_numbered(&common, number) } else { row.ends_like::<true>(&common) };
        if !is_right {
            return Passed::new(passed, bytes);
        }
        head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
        bytes += length;
        number += 1 << SEQUENCE_SHIFT;
    }
    Passed::new(most, bytes)
}
