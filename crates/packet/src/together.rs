//! Several packets looked at together.
#![allow(unsafe_code)]

use crate::lanes::Lanes;
use crate::packet::Packet;

/// A look at the network headers of some packets.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, V, const N: usize, const LEN: usize> {
    /// Their first bytes.
    pub bytes: [&'a [u8; LEN]; N],
    /// Bytes from the header to the end of each packet.
    pub room: V,
}

/// Some packets, and how long they are.
pub(crate) struct Group<'a, const N: usize> {
    packets: &'a mut [Packet; N],
    lengths: &'a [u32; N],
}

impl<'a, const N: usize> Group<'a, N> {
    /// These packets; `lengths` gets the length of each.
    ///
    /// All are measured before the first is given: then little has to be kept of each while heads are looked at.
    #[inline(always)]
    pub fn measure<V: Lanes<N>>(
        packets: &'a mut [[Packet; N]],
        lengths: &'a mut [[u32; N]],
    ) -> impl Iterator<Item = Group<'a, N>> {
        for (packets, lengths) in packets.iter().zip(&mut *lengths) {
            lens::<V, N>(packets).store(lengths);
        }
        packets.iter_mut().zip(lengths).map(|(packets, lengths)| Group { packets, lengths })
    }

    /// Shows the `LEN` bytes from `offset` on of each; `None` if one ends before.
    #[inline(always)]
    pub fn show<V: Lanes<N>, R, const LEN: usize>(
        &self,
        offset: usize,
        seen: impl FnOnce(Heads<'_, V, N, LEN>) -> R,
    ) -> Option<R> {
        let lens = V::from_array(*self.lengths);
        if !are_long::<V, N>(lens, offset.saturating_add(LEN)) {
            return None;
        }
        // SAFETY: the group has had the packets to itself since they were measured: each is long enough.
        let bytes = unsafe { heads(self.packets, offset) };
        Some(seen(Heads { bytes, room: lens - V::splat(offset as u32) }))
    }

    /// The packets.
    #[inline(always)]
    pub fn into_packets(self) -> &'a mut [Packet; N] {
        self.packets
    }

    /// Cuts packets to so many bytes from `offset` on.
    #[inline(never)]
    pub fn cut(self, to: [u32; N], offset: usize) {
        for (packet, len) in self.packets.iter_mut().zip(to) {
            packet.truncate(offset + len as usize);
        }
    }
}

impl Packet {
    /// The `LEN` bytes from `offset` on of each packet, and the lengths of all; `None` if a packet ends before.
    #[inline(always)]
    pub fn heads<V: Lanes<N>, const N: usize, const LEN: usize>(
        packets: &[Packet; N],
        offset: usize,
    ) -> Option<([&[u8; LEN]; N], V)> {
        let lens = lens(packets);
        if !are_long::<V, N>(lens, offset.saturating_add(LEN)) {
            return None;
        }
        // SAFETY: each is long enough.
        let heads = unsafe { heads(packets, offset) };
        Some((heads, lens))
    }
}

/// The lengths of all.
#[inline(always)]
fn lens<V: Lanes<N>, const N: usize>(packets: &[Packet; N]) -> V {
    // As `data_len`, but of the width of lanes.
    V::from_array(packets.each_ref().map(|p| p.header().pkt_len))
}

/// True if all lengths are at least `need`.
#[inline(always)]
fn are_long<V: Lanes<N>, const N: usize>(lens: V, need: usize) -> bool {
    // A packet has less than 2^16 bytes.
    let need = V::splat(need.min(1 << 16) as u32);
    need.above(lens).is_zero()
}

/// The `LEN` bytes from `offset` on of these packets.
///
/// # Safety
/// Each has as many.
#[inline(always)]
unsafe fn heads<const N: usize, const LEN: usize>(packets: &[Packet; N], offset: usize) -> [&[u8; LEN]; N] {
    packets.each_ref().map(|packet| {
        let h = packet.header();
        // SAFETY: data_off + offset + LEN <= data_off + data_len <= buf_len, as the caller says, and the buffer's bytes are
        // initialised (`from_raw`).
        unsafe { &*packet.buffer().add(offset + usize::from(h.data_off)).cast::<[u8; LEN]>() }
    })
}
