//! Several packets looked at together.
#![allow(unsafe_code)]

use crate::lanes::Lanes;
use crate::packet::Packet;

impl Packet {
    /// The `LEN` bytes from `offset` on of each packet, and the lengths of all; `None` if a packet ends before.
    #[inline(always)]
    pub fn heads<V: Lanes<N>, const N: usize, const LEN: usize>(
        packets: &[Packet; N],
        offset: usize,
    ) -> Option<([&[u8; LEN]; N], V)> {
        let lens = lengths(packets, offset.saturating_add(LEN))?;
        let heads = packets.each_ref().map(|packet| {
            let h = packet.header();
            // SAFETY: data_off + offset + LEN <= data_off + data_len <= buf_len, as no lane of `need` is above `lens`
            // (only this crate implements `Lanes`), and the buffer's bytes are initialised (`from_raw`).
            unsafe { &*h.buf_addr.add(offset + usize::from(h.data_off)).cast::<[u8; LEN]>() }
        });
        Some((heads, lens))
    }
    /// [`Packet::heads`] from the first byte on, to change.
    #[inline(always)]
    pub fn heads_mut<V: Lanes<N>, const N: usize, const LEN: usize>(
        packets: &mut [Packet; N],
    ) -> Option<([&mut [u8; LEN]; N], V)> {
        let lens = lengths(packets, LEN)?;
        let heads = packets.each_mut().map(|packet| {
            let h = packet.header();
            // SAFETY: data_off + LEN <= data_off + data_len <= buf_len, as `lengths` found (only this crate implements
            // `Lanes`), and the buffer's bytes are initialised (`from_raw`). Each packet owns its buffer alone, and is
            // borrowed as long as its bytes are.
            unsafe { &mut *h.buf_addr.add(usize::from(h.data_off)).cast::<[u8; LEN]>() }
        });
        Some((heads, lens))
    }
}

/// The lengths of all; `None` if one has fewer than `need` bytes.
#[inline(always)]
fn lengths<V: Lanes<N>, const N: usize>(packets: &[Packet; N], need: usize) -> Option<V> {
    let lens = V::from_halves(packets.each_ref().map(|p| p.header().data_len));
    // A packet has less than 2^16 bytes.
    let need = V::splat(need.min(1 << 16) as u32);
    need.above(lens).is_zero().then_some(lens)
}
