//! Where the headers of a packet are: marks in its buffer, which stay when bytes before them are stripped or put there.
#![allow(unsafe_code)]

use crate::packet::Packet;

impl Packet {
    #[inline]
    fn mark_at(&self, mark: u16) -> Option<usize> {
        if mark == 0 {
            return None;
        }
        usize::from(mark).checked_sub(self.headroom()).filter(|&o| o <= self.len())
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an offset beyond the packet makes a mark that nobody reads"
    )]
    fn mark_of(&self, offset: usize) -> u16 {
        // A mark of 0 means "not marked"; a header at the very start of the buffer cannot be marked.
        self.header().data_off.wrapping_add(offset as u16)
    }

    /// Offset of the MAC header in [`Packet::data`]; `None` if it is not marked or has been stripped.
    #[inline]
    pub fn mac_offset(&self) -> Option<usize> {
        self.mark_at(self.header().port)
    }

    /// Marks the MAC header at this offset of [`Packet::data`].
    #[inline]
    pub fn set_mac_offset(&mut self, offset: usize) {
        self.header_mut().port = self.mark_of(offset);
    }

    /// The MAC header mark even when it lies before the data (stripped): the first `N` bytes from there.
    #[inline]
    pub fn mac_bytes<const N: usize>(&self) -> Option<&[u8; N]> {
        let h = self.header();
        let (mark, end) = (usize::from(h.port), usize::from(h.data_off) + usize::from(h.data_len));
        if mark == 0 || mark + N > end {
            return None;
        }
        // SAFETY: mark + N <= data_off + data_len <= buf_len, and the buffer's bytes are initialised (`from_raw`).
        unsafe { Some(&*self.buffer().add(mark).cast::<[u8; N]>()) }
    }

    /// Offset of the network header in [`Packet::data`]; `None` if it is not marked or has been stripped.
    #[inline]
    pub fn network_offset(&self) -> Option<usize> {
        self.mark_at(self.header().vlan_tci_outer)
    }

    /// Marks the network header at this offset of [`Packet::data`].
    #[inline]
    pub fn set_network_offset(&mut self, offset: usize) {
        self.header_mut().vlan_tci_outer = self.mark_of(offset);
    }

    /// The bytes from the network header to the end.
    #[inline]
    pub fn network(&self) -> Option<&[u8]> {
        self.data().get(self.network_offset()?..)
    }

    /// The bytes from the network header to the end, to change.
    #[inline]
    pub fn network_mut(&mut self) -> Option<&mut [u8]> {
        let offset = self.network_offset()?;
        self.data_mut().get_mut(offset..)
    }

    /// The first `N` bytes of the network header, to change, even when it lies before the data (stripped); `None` if it is
    /// not marked or the packet ends before.
    #[inline]
    pub fn network_head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let h = self.header();
        let (mark, end) = (usize::from(h.vlan_tci_outer), usize::from(h.data_off) + usize::from(h.data_len));
        if mark == 0 || mark + N > end {
            return None;
        }
        // SAFETY: mark + N <= data_off + data_len <= buf_len, the buffer's bytes are initialised (`from_raw`), and
        // `&mut self` is the only access to them.
        unsafe { Some(&mut *self.buffer().add(mark).cast::<[u8; N]>()) }
    }

    /// True if the network header is marked at this offset of [`Packet::data`], which may end before.
    #[inline(always)]
    pub(crate) fn has_network_at(&self, offset: u16) -> bool {
        let h = self.header();
        usize::from(h.vlan_tci_outer) == usize::from(h.data_off) + usize::from(offset)
    }

    /// Offset of the transport header in [`Packet::data`]; `None` if it is not marked or has been stripped.
    #[inline]
    pub fn transport_offset(&self) -> Option<usize> {
        self.mark_at(self.header().vlan_tci)
    }

    /// Marks the transport header at this offset of [`Packet::data`].
    #[inline]
    pub fn set_transport_offset(&mut self, offset: usize) {
        self.header_mut().vlan_tci = self.mark_of(offset);
    }

    /// The bytes from the transport header to the end.
    #[inline]
    pub fn transport(&self) -> Option<&[u8]> {
        self.data().get(self.transport_offset()?..)
    }

    /// The bytes from the transport header to the end, to change.
    #[inline]
    pub fn transport_mut(&mut self) -> Option<&mut [u8]> {
        let offset = self.transport_offset()?;
        self.data_mut().get_mut(offset..)
    }
}
