//! One packet: an owned buffer of a pool.
#![allow(unsafe_code)]

use crate::anno::{self, PacketType};
use crate::header::{Header, Private};
use crate::pool::{self, Pool};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that fell out of scope instead of being sent or lost for a named reason.
static UNACCOUNTED: AtomicU64 = AtomicU64::new(0);

/// How many packets of this process fell out of scope without being accounted for. Anything but 0 is a bug.
pub fn unaccounted() -> u64 {
    UNACCOUNTED.load(Ordering::Relaxed)
}

/// Packets that whoever held them still had when it ended.
static HELD: AtomicU64 = AtomicU64::new(0);

/// How many packets of this process were neither sent nor lost, but held by an element or a device when it ended: by
/// [`Packet::free_held`] and [`crate::Batch::free_held`].
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed)
}

pub(crate) fn count_held(n: usize) {
    HELD.fetch_add(n as u64, Ordering::Relaxed);
}

pub(crate) fn count_unaccounted(n: usize) {
    UNACCOUNTED.fetch_add(n as u64, Ordering::Relaxed);
}

/// One packet. Owns its buffer alone: its bytes may always be changed in place.
///
/// Dropping a packet gives the buffer back and counts it as [`unaccounted`]; [`Packet::free`] is the deliberate way.
#[repr(transparent)]
#[derive(Debug)]
pub struct Packet(NonNull<Header>);

// SAFETY: a packet is the only owner of its buffer (refcnt 1, one segment), and pools take buffers back from any thread.
unsafe impl Send for Packet {}
// SAFETY: through a shared reference a packet can only be read.
unsafe impl Sync for Packet {}

impl Packet {
    /// Takes ownership of a buffer.
    ///
    /// # Safety
    /// `header` points to a live buffer that nobody else uses: one segment, `refcnt` 1, [`crate::PRIVATE_SIZE`] private bytes
    /// behind the header and behind these, at `buf_addr`, `buf_len` initialised bytes, all reachable by this pointer;
    /// `data_off + data_len <= buf_len`, `pkt_len == data_len`, and `pool` either a pool of [`crate::HeapPool`] or one that
    /// the installed [`crate::ForeignPool`] takes back.
    #[inline]
    pub unsafe fn from_raw(header: NonNull<Header>) -> Packet {
        Packet(header)
    }

    /// Where the buffer's bytes begin. Not read from `buf_addr`: that takes a load, and whoever waits for it waits longer.
    #[inline(always)]
    pub(crate) fn buffer(&self) -> *mut u8 {
        Header::buffer(self.0.as_ptr())
    }

    /// Gives up ownership without freeing; the counterpart of [`Packet::from_raw`].
    #[inline]
    pub fn into_raw(self) -> NonNull<Header> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    /// Gives the buffer back to its pool.
    pub fn free(self) {
        let mut raw = [self.into_raw()];
        pool::free(&mut raw);
    }

    /// Gives the buffer back because its owner ends, and counts it as [`held`].
    pub fn free_held(self) {
        count_held(1);
        self.free();
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the invariant of `from_raw`: the header lives as long as the packet owns it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`; `&mut self` is the only access.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    fn private(&self) -> &Private {
        // SAFETY: every pool places a private area of PRIVATE_SIZE bytes right behind the header (`from_raw`).
        unsafe { self.0.add(1).cast::<Private>().as_ref() }
    }

    #[inline]
    fn private_mut(&mut self) -> &mut Private {
        // SAFETY: as in `private`; `&mut self` is the only access.
        unsafe { self.0.add(1).cast::<Private>().as_mut() }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.header().data_len)
    }

    /// True if the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let h = self.header();
        // SAFETY: data_off + data_len <= buf_len and the buffer has buf_len initialised bytes (`from_raw`).
        unsafe {
            std::slice::from_raw_parts(self.buffer().add(usize::from(h.data_off)), usize::from(h.data_len))
        }
    }

    /// The packet's bytes, to change.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let h = self.header();
        let (start, len) = (usize::from(h.data_off), usize::from(h.data_len));
        // SAFETY: as in `data`; the packet is the only owner and `&mut self` the only access.
        unsafe { std::slice::from_raw_parts_mut(self.buffer().add(start), len) }
    }

    /// Free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.header().data_off)
    }

    /// Free bytes behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let h = self.header();
        usize::from(h.buf_len) - usize::from(h.data_off) - usize::from(h.data_len)
    }

    /// Removes `n` bytes from the front (Click's `Strip`). False, and nothing changed, if there are fewer.
    #[inline]
    pub fn pull(&mut self, n: usize) -> bool {
        let h = self.header_mut();
        if n > usize::from(h.data_len) {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "n <= data_len, which is 16 bits")]
        let n = n as u16;
        h.data_off += n;
        h.set_len(h.data_len - n);
        true
    }

    /// Adds `n` bytes to the front (Click's `Unstrip`); they keep what the buffer held there. Moves the data back
    /// if there is too little headroom but enough tailroom. False, and nothing changed, if the buffer is too small.
    #[inline]
    pub fn push(&mut self, n: usize) -> bool {
        if n > self.headroom() && !self.make_headroom(n) {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "n <= headroom, which is 16 bits")]
        let n = n as u16;
        let h = self.header_mut();
        h.data_off -= n;
        h.set_len(h.data_len + n);
        true
    }

    /// Puts a link-layer header before the data and marks it. False, and nothing changed, if the buffer has no room for it.
    #[inline]
    pub fn put_link<const LEN: usize>(&mut self, header: &[u8; LEN]) -> bool {
        self.put_link_in_headroom(header) || self.make_headroom(LEN) && self.put_link_in_headroom(header)
    }

    /// [`put_link`](Self::put_link) where the data stays where it is.
    #[inline(always)]
    pub(crate) fn put_link_in_headroom<const LEN: usize>(&mut self, header: &[u8; LEN]) -> bool {
        const { assert!(LEN < 1 << 15) };
        // One reference throughout: each new one would make the compiler load the pointer again.
        let h = self.header_mut();
        let Some(start) = h.data_off.checked_sub(LEN as u16) else { return false };
        (h.data_off, h.port) = (start, start);
        h.set_len(h.data_len + LEN as u16);
        // SAFETY: start + LEN is what data_off was, which is at most buf_len.
        unsafe { self.buffer().add(usize::from(start)).cast::<[u8; LEN]>().write(*header) };
        true
    }

    /// Moves data and marks towards the end of the buffer so that `n` bytes fit before them.
    #[cold]
    fn make_headroom(&mut self, n: usize) -> bool {
        let Some(shift) = n.checked_sub(self.headroom()).filter(|&s| s <= self.tailroom()) else {
            return false;
        };
        let buffer = self.buffer();
        let h = self.header_mut();
        let (from, len) = (usize::from(h.data_off), usize::from(h.data_len));
        // SAFETY: from + shift + len <= buf_len since shift <= tailroom; both ranges lie in the buffer.
        unsafe { std::ptr::copy(buffer.add(from), buffer.add(from + shift), len) };
        #[expect(clippy::cast_possible_truncation, reason = "shift <= tailroom, which is 16 bits")]
        let shift = shift as u16;
        h.data_off += shift;
        for mark in [&mut h.port, &mut h.vlan_tci, &mut h.vlan_tci_outer] {
            if *mark != 0 {
                *mark += shift;
            }
        }
        true
    }

    /// Appends `n` bytes of unspecified content. False, and nothing changed, if the buffer is too small.
    #[inline]
    pub fn put(&mut self, n: usize) -> bool {
        if n > self.tailroom() {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "data_len + n <= buf_len, which is 16 bits")]
        let len = (self.len() + n) as u16;
        self.header_mut().set_len(len);
        true
    }

    /// Appends these bytes. False, and nothing changed, if the buffer is too small.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let old = self.len();
        if !self.put(bytes.len()) {
            return false;
        }
        self.data_mut()[old..].copy_from_slice(bytes);
        true
    }

    /// Cuts the packet to at most `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            #[expect(clippy::cast_possible_truncation, reason = "len < data_len, which is 16 bits")]
            self.header_mut().set_len(len as u16);
        }
    }

    /// A copy of bytes, marks and annotations in a buffer of `pool`; `None` if the pool is empty or its buffers are
    /// too small.
    pub fn duplicate(&self, pool: &Pool) -> Option<Packet> {
        let mut copy = pool.alloc()?;
        let (from, h) = (self.header(), copy.header_mut());
        if usize::from(from.data_off) + usize::from(from.data_len) > usize::from(h.buf_len) {
            copy.free();
            return None;
        }
        h.data_off = from.data_off;
        h.data_len = from.data_len;
        h.pkt_len = from.pkt_len;
        h.port = from.port;
        h.packet_type = from.packet_type;
        h.vlan_tci = from.vlan_tci;
        h.vlan_tci_outer = from.vlan_tci_outer;
        h.hash_lo = from.hash_lo;
        h.hash_hi = from.hash_hi;
        copy.data_mut().copy_from_slice(self.data());
        *copy.private_mut() = self.private().clone();
        Some(copy)
    }

    /// Clears what the last user of the buffer left in the fields of [`Header`] that we use between receive and
    /// transmit. Drivers do not do it.
    #[inline]
    pub fn clear_marks(&mut self) {
        let h = self.header_mut();
        h.port = 0;
        h.packet_type = 0;
        h.vlan_tci = 0;
        h.vlan_tci_outer = 0;
        h.hash_hi = 0;
    }

    /// Clears the annotations in the private area (a second and colder cache line), timestamp and packet type too.
    #[inline]
    pub fn clear_annos(&mut self) {
        self.header_mut().hash_hi = 0;
        *self.private_mut() = Private::EMPTY;
    }

    /// Copies all annotations, timestamp and packet type from another packet.
    pub fn copy_annos(&mut self, from: &Packet) {
        self.header_mut().hash_hi = from.header().hash_hi;
        self.header_mut().packet_type = from.header().packet_type;
        self.header_mut().hash_lo = from.header().hash_lo;
        *self.private_mut() = from.private().clone();
    }

    /// The `N` bytes from this offset of [`Packet::data`]; `None` if the packet ends before.
    #[inline]
    pub fn head<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        let h = self.header();
        if usize::from(h.data_len) < offset.saturating_add(N) {
            return None;
        }
        // SAFETY: data_off + offset + N <= data_off + data_len <= buf_len, and the buffer's bytes are initialised
        // (`from_raw`).
        unsafe { Some(&*self.buffer().add(usize::from(h.data_off) + offset).cast::<[u8; N]>()) }
    }

    /// The `N` bytes from this offset of [`Packet::data`], to change; `None` if the packet ends before.
    #[inline(always)]
    pub(crate) fn head_mut<const N: usize>(&mut self, offset: usize) -> Option<&mut [u8; N]> {
        let h = self.header();
        if usize::from(h.data_len) < offset.saturating_add(N) {
            return None;
        }
        // SAFETY: data_off + offset + N <= data_off + data_len <= buf_len, the buffer's bytes are initialised (`from_raw`), and
        // `&mut self` is the only access to them.
        unsafe { Some(&mut *self.buffer().add(usize::from(h.data_off) + offset).cast::<[u8; N]>()) }
    }

    /// The first `N` bytes, to change; `None` if there are fewer.
    #[inline(always)]
    pub fn first_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.head_mut(0)
    }

    /// Destination IPv4 address annotation (host byte order).
    #[inline]
    pub fn dst_ip(&self) -> u32 {
        self.header().hash_hi
    }

    /// Sets the destination IPv4 address annotation (host byte order).
    #[inline]
    pub fn set_dst_ip(&mut self, address: u32) {
        self.header_mut().hash_hi = address;
    }

    /// Number of the next hop that a lookup chose.
    #[inline]
    pub fn next_hop(&self) -> u32 {
        self.header().packet_type
    }

    /// Notes the number of the next hop.
    #[inline]
    pub fn set_next_hop(&mut self, number: u32) {
        self.header_mut().packet_type = number;
    }

    /// Flow hash: the device's where it computes one, else what software steering computed; 0 = none.
    #[inline]
    pub fn flow_hash(&self) -> u32 {
        self.header().hash_lo
    }

    /// Notes the flow hash.
    #[inline]
    pub fn set_flow_hash(&mut self, hash: u32) {
        self.header_mut().hash_lo = hash;
    }

    /// Copies `out.len()` annotation bytes from `offset`; bytes outside the 48 read as 0.
    pub fn read_anno(&self, offset: usize, out: &mut [u8]) {
        let dst = self.dst_ip().to_be_bytes();
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = match offset + i {
                o @ 0..4 => dst[o],
                o if o < anno::SIZE => self.private().anno[o],
                _ => 0,
            };
        }
    }

    /// Writes annotation bytes from `offset` on; bytes outside the 48 are ignored.
    pub fn write_anno(&mut self, offset: usize, bytes: &[u8]) {
        let mut dst = self.dst_ip().to_be_bytes();
        for (i, &byte) in bytes.iter().enumerate() {
            match offset + i {
                o @ 0..4 => dst[o] = byte,
                o if o < anno::SIZE => self.private_mut().anno[o] = byte,
                _ => {}
            }
        }
        self.set_dst_ip(u32::from_be_bytes(dst));
    }

    /// One annotation byte; 0 if `offset` is out of range.
    #[inline]
    pub fn anno_u8(&self, offset: usize) -> u8 {
        match offset {
            0..4 => self.dst_ip().to_be_bytes()[offset],
            _ => self.private().anno.get(offset).copied().unwrap_or(0),
        }
    }

    /// Sets one annotation byte; ignored if `offset` is out of range.
    #[inline]
    pub fn set_anno_u8(&mut self, offset: usize, value: u8) {
        if offset < 4 {
            self.write_anno(offset, &[value]);
        } else if let Some(byte) = self.private_mut().anno.get_mut(offset) {
            *byte = value;
        }
    }

    /// Four annotation bytes in host order (Click keeps numbers in the host's order); 0 if out of range.
    pub fn anno_u32(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.read_anno(offset, &mut bytes);
        u32::from_ne_bytes(bytes)
    }

    /// Sets four annotation bytes, host order.
    pub fn set_anno_u32(&mut self, offset: usize, value: u32) {
        self.write_anno(offset, &value.to_ne_bytes());
    }

    /// Timestamp in nanoseconds since the Unix epoch; 0 = none.
    #[inline]
    pub fn timestamp(&self) -> u64 {
        self.private().timestamp
    }

    /// Sets the timestamp, nanoseconds since the Unix epoch.
    #[inline]
    pub fn set_timestamp(&mut self, nanos: u64) {
        self.private_mut().timestamp = nanos;
    }

    /// How the link layer addressed the packet.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        PacketType::from_u8(self.private().packet_type)
    }

    /// Notes how the link layer addressed the packet.
    #[inline]
    pub fn set_packet_type(&mut self, t: PacketType) {
        self.private_mut().packet_type = t as u8;
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        count_unaccounted(1);
        let mut raw = [self.0];
        pool::free(&mut raw);
    }
}
