//! Random IPv6 extension headers (RFC 8200 §4), right and wrong ones.

use crate::packets6::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use crate::rng::Rng;

/// The number of no header.
const NO_NEXT_HEADER: u8 = 59;

/// Extension headers, and what is special about them.
#[derive(Debug)]
pub struct Extensions {
    /// The number of the first of them.
    pub first: u8,
    /// All of them; what follows is the upper layer.
    pub bytes: Vec<u8>,
    /// In words.
    pub note: &'static str,
}

/// Headers before an upper layer with this number.
pub fn extensions(rng: &mut Rng, upper: u8) -> Extensions {
    let (chain, note): (Vec<(u8, Vec<u8>)>, _) = match rng.within(1..=13) {
        1 => (vec![(HOP_BY_HOP, options(rng, 0))], "hop-by-hop options"),
        2 => (vec![(HOP_BY_HOP, vec![5, 2, 0, 0, 1, 0])], "router alert"),
        3 => {
            let action = rng.pick(&[0x00, 0x40, 0x80, 0xc0]);
            (vec![(HOP_BY_HOP, options(rng, action | 0x1e))], "unknown hop-by-hop option")
        }
        4 => {
            let action = rng.pick(&[0x00, 0x40, 0x80, 0xc0]);
            (vec![(DESTINATION_OPTIONS, options(rng, action | 0x1e))], "destination options")
        }
        5 => (vec![(ROUTING, routing(rng))], "routing header"),
        6..=7 => (vec![(FRAGMENT, fragment(0, rng))], "atomic fragment"),
        8 => {
            let offset = rng.within(0..=0x1fff) as u16;
            let more = u16::from(offset == 0 || rng.chance(50));
            (vec![(FRAGMENT, fragment(offset << 3 | more, rng))], "fragment")
        }
        9 => {
            let chain = vec![
                (HOP_BY_HOP, options(rng, 0)),
                (DESTINATION_OPTIONS, options(rng, 0)),
                (ROUTING, routing(rng)),
                (FRAGMENT, fragment(0, rng)),
            ];
            (chain, "chain of headers")
        }
        10 => {
            let count = rng.within(2..=20);
            let chain = (0..count).map(|_| (DESTINATION_OPTIONS, options(rng, 0))).collect();
            (chain, "many headers")
        }
        11 => {
            let chain = vec![(DESTINATION_OPTIONS, options(rng, 0)), (HOP_BY_HOP, options(rng, 0))];
            (chain, "hop-by-hop options amid")
        }
        12 => {
            // An option that says it is longer than the header.
            let kind = rng.pick(&[HOP_BY_HOP, DESTINATION_OPTIONS]);
            (vec![(kind, vec![1, rng.within(5..=255) as u8, 0, 0, 0, 0])], "malformed option")
        }
        _ => {
            let kind = rng.pick(&[HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING]);
            return Extensions {
                first: kind,
                bytes: longer_than_packet(rng, upper),
                note: "header over end",
            };
        }
    };
    let upper = if rng.chance(5) { NO_NEXT_HEADER } else { upper };
    let mut next = upper;
    let mut bytes = Vec::new();
    for (kind, body) in chain.into_iter().rev() {
        bytes = [header(next, &body, kind), bytes].concat();
        next = kind;
    }
    Extensions { first: next, bytes, note }
}

/// A header with this body after its first two octets; a fragment header has no length.
fn header(next: u8, body: &[u8], kind: u8) -> Vec<u8> {
    let words = if kind == FRAGMENT { 0 } else { ((body.len() + 2) / 8 - 1) as u8 };
    [&[next, words][..], body].concat()
}

/// Padding, and an option of this type if it is not 0, in a header of 8 to 24 octets.
fn options(rng: &mut Rng, kind: u8) -> Vec<u8> {
    let room = rng.within(0..=2) as usize * 8 + 6;
    if kind != 0 {
        let mut body = vec![kind, room as u8 - 2];
        body.extend(rng.octets(room - 2));
        return body;
    }
    let mut body = vec![0; room];
    // One Pad1, else PadN.
    let start = usize::from(rng.chance(50));
    body[start] = 1;
    body[start + 1] = (room - start - 2) as u8;
    body
}

/// A routing header of a type that is used or not, with segments left or not.
fn routing(rng: &mut Rng) -> Vec<u8> {
    let kind = rng.pick(&[0, 2, 77, 253]);
    let left = rng.pick(&[0, 0, 1]);
    let mut body = vec![kind, left, 0, 0, 0, 0];
    body.extend(rng.octets(16));
    body
}

fn fragment(offset_and_more: u16, rng: &mut Rng) -> Vec<u8> {
    [&offset_and_more.to_be_bytes()[..], &rng.octets(4)].concat()
}

fn longer_than_packet(rng: &mut Rng, upper: u8) -> Vec<u8> {
    let mut bytes = vec![upper, rng.within(200..=255) as u8];
    bytes.extend([1, 4, 0, 0, 0, 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_end_at_the_upper_layer() {
        let mut rng = Rng::new(1);
        for _ in 0..5_000 {
            let Extensions { first, bytes, note } = extensions(&mut rng, 17);
            if note == "header over end" {
                continue;
            }
            let (mut next, mut at) = (first, 0);
            while at < bytes.len() {
                let length = if next == FRAGMENT { 8 } else { 8 * (usize::from(bytes[at + 1]) + 1) };
                next = bytes[at];
                at += length;
            }
            assert_eq!(at, bytes.len(), "{note}: {bytes:?}");
            assert!([17, NO_NEXT_HEADER].contains(&next), "{note}: {bytes:?}");
        }
    }
}
