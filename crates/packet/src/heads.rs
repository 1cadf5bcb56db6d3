//! Changing the headers of all packets of a batch, without putting in order first what is due: where network headers were found
//! ([`Due::HEADERS`]) says enough.
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::{Frame, Headers};
use crate::packet::Packet;
use crate::sift::Reasons;

impl Batch {
    /// Shows the first `LEN` bytes of each packet's network header, to change, and then, in order, the packets again of which
    /// `first` says false, and those that have none or end before: `second` gives a packet back, which keeps its place, or
    /// sees to its end.
    #[inline]
    pub fn sift_network<const LEN: usize>(
        &mut self,
        mut first: impl FnMut(&mut [u8; LEN]) -> bool,
        mut second: impl FnMut(Packet) -> Option<Packet>,
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        let mut reasons = Reasons::new();
        if frame.due.get().has(Due::HEADERS) {
            frame.due.set(frame.due.get().without(Due::PLAIN_TTLS));
            let offset = usize::from(frame.headers.network);
            sift(frame, &mut reasons, |packet| packet.head_mut(offset).is_some_and(&mut first));
        } else {
            frame.settle();
            sift(frame, &mut reasons, |packet| packet.network_head_mut().is_some_and(&mut first));
        }
        if let Some(unusual) = reasons.some() {
            frame.settle();
            self.sift_again(unusual, |packet, ()| second(packet));
        }
    }

    /// Puts a link-layer header before each packet, and marks it. Packets without room for it are given to `refused`.
    #[inline]
    pub fn put_link<const LEN: usize>(&mut self, header: &[u8; LEN], refused: impl FnMut(Packet)) {
        const { assert!(LEN < 1 << 15) };
        let Some(frame) = self.0.as_mut() else { return };
        let (packets, _, _) = frame.columns();
        if !packets.iter().all(|packet| packet.headroom() >= LEN) {
            return self
                .retain(|packet| packet.push(LEN) && packet.pull(LEN) && packet.put_link(header), refused);
        }
        for packet in packets {
            packet.put_link(header);
        }
        let Headers { network, transport } = frame.headers;
        let behind = |offset: u16| offset.wrapping_add(LEN as u16);
        frame.headers = Headers { network: behind(network), transport: behind(transport) };
    }
}

impl Packet {
    /// The `N` bytes from this offset of [`Packet::data`], to change; `None` if the packet ends before.
    #[inline(always)]
    fn head_mut<const N: usize>(&mut self, offset: usize) -> Option<&mut [u8; N]> {
        let h = self.header();
        if usize::from(h.data_len) < offset + N {
            return None;
        }
        // SAFETY: data_off + offset + N <= data_off + data_len <= buf_len, the buffer's bytes are initialised (`from_raw`), and
        // `&mut self` is the only access to them.
        unsafe { Some(&mut *h.buf_addr.add(usize::from(h.data_off) + offset).cast::<[u8; N]>()) }
    }

    /// Puts a link-layer header before the data and marks it. False, and nothing changed, if there is no headroom for it.
    #[inline(always)]
    fn put_link<const LEN: usize>(&mut self, header: &[u8; LEN]) -> bool {
        if self.headroom() < LEN || !self.push(LEN) {
            return false;
        }
        let h = self.header_mut();
        h.port = h.data_off;
        if let Some(front) = self.head_mut(0) {
            *front = *header;
        }
        true
    }
}

/// Notes the packets for which `usual` says false.
#[inline(always)]
fn sift(frame: &mut Frame, reasons: &mut Reasons<()>, mut usual: impl FnMut(&mut Packet) -> bool) {
    let (packets, _, _) = frame.columns();
    for packet in packets {
        if !usual(packet) {
            reasons.note(packet, ());
        }
    }
}
