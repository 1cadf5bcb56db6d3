//! Packets as a driver leaves them, and a look for their headers.

#![allow(unsafe_code)]

use packet::lanes::{Lanes, Work, four};
use packet::{Batch, Headers, Heads, Packet, Pool, Settle};

pub const HEADERS: Headers = Headers { network: 14, transport: 34 };

/// Packets with these tags, as a driver may leave them that computes no flow hashes.
pub fn received(pool: &Pool, tags: std::ops::Range<u8>) -> Batch {
    received_from(pool, tags, Settle::ClearHash)
}

/// The same of a driver that says what it knows of hashes: of none of these packets anything.
pub fn received_from(pool: &Pool, tags: std::ops::Range<u8>, due: Settle) -> Batch {
    let raw: Vec<_> = tags
        .map(|tag| {
            let mut packet = pool.packet(&[tag; 60]).unwrap_or_else(|| panic!("no buffer"));
            packet.set_next_hop(0x77);
            packet.set_dst_ip(0x99);
            packet.set_transport_offset(3);
            packet.set_flow_hash(0x55);
            packet.into_raw()
        })
        .collect();
    // SAFETY: all came from packets just now.
    unsafe {
        Batch::receive_raw(raw.len(), |slots| {
            slots.iter_mut().zip(&raw).for_each(|(slot, raw)| {
                slot.write(*raw);
            });
            (raw.len(), due)
        })
    }
}

/// Tag; MAC, network, transport offset; next hop, destination.
pub type Facts = (u8, [Option<usize>; 3], [u32; 2]);

pub fn facts(p: &Packet) -> Facts {
    let offsets = [p.mac_offset(), p.network_offset(), p.transport_offset()];
    (tag(p), offsets, [p.next_hop(), p.dst_ip()])
}

/// Of a packet for which the headers were found, with this next hop.
pub fn found(tag: u8, hop: u32) -> Facts {
    (tag, [Some(0), Some(14), Some(34)], [hop, 1000 + u32::from(tag)])
}

pub fn all(batch: &Batch) -> Vec<Facts> {
    batch.iter().map(facts).collect()
}

/// Looks for headers, four at a time. `many` gets the tags, writes down where they want to go, and says to how many bytes from
/// the header on they are cut; `None` if each is to be looked at by itself.
pub struct Find<'a, M, O, S> {
    pub batch: &'a mut Batch,
    pub many: M,
    pub one: O,
    pub second: S,
}

impl<M, O, S> Work for Find<'_, M, O, S>
where
    M: FnMut(&[u8], &mut [u32]) -> Option<u32>,
    O: FnMut(&mut Packet, usize) -> Option<u32>,
    S: FnMut(Packet) -> Option<Packet>,
{
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(mut self) {
        let many = |heads: Heads<'_, V, N, 20>, to: &mut [u32; N]| {
            assert!(heads.room.to_array().iter().all(|room| *room >= 20));
            (self.many)(&heads.bytes.map(|head| head[0]), to).map(V::splat)
        };
        self.batch.find_headers(HEADERS, many, self.one, self.second);
    }
}

/// Headers may be put before packets, so it is their last byte.
pub fn tag(p: &Packet) -> u8 {
    p.data()[p.len() - 1]
}

pub fn destination(tag: u8) -> u32 {
    1000 + u32::from(tag)
}

pub fn write_destinations(tags: &[u8], to: &mut [u32]) {
    tags.iter().zip(to).for_each(|(tag, to)| *to = destination(*tag));
}

/// Finds the headers, four at a time unless one of them is in `alone`; those in `unusual` are given back with another next hop.
pub fn find(batch: &mut Batch, alone: &[u8], unusual: &[u8]) {
    four(Find {
        batch,
        many: |tags: &[u8], to: &mut [u32]| {
            write_destinations(tags, to);
            (!tags.iter().any(|tag| alone.contains(tag) || unusual.contains(tag))).then_some(46)
        },
        one: |p: &mut Packet, _| (!unusual.contains(&tag(p))).then(|| destination(tag(p))),
        second: |mut p: Packet| {
            assert_eq!((p.network_offset(), p.transport_offset(), p.dst_ip()), (None, None, 0));
            p.set_dst_ip(5);
            Some(p)
        },
    });
}
