//! Changing the headers of all packets of a batch, without putting in order first what is due: where network headers were found
//! ([`Due::HEADERS`]) says enough.

use crate::batch::Batch;
use crate::due::Due;
use crate::frame::Frame;
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
        // The offset of a header that was stripped wraps.
        let is_inside = frame.headers.network < 1 << 15;
        if frame.due.get().has(Due::HEADERS) && is_inside {
            frame.due.set(frame.due.get().without(Due::UNCHANGED));
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

    /// Shows the first `LEN` bytes of each packet, to change. Packets that have fewer are given to `refused`.
    #[inline]
    pub fn change_front<const LEN: usize>(
        &mut self,
        mut change: impl FnMut(&mut [u8; LEN]),
        mut refused: impl FnMut(Packet),
    ) {
        let Some(frame) = self.0.as_mut() else { return };
        frame.due.set(frame.due.get().without(Due::UNCHANGED));
        let mut reasons = Reasons::new();
        sift(frame, &mut reasons, |packet| packet.first_mut().map(&mut change).is_some());
        if let Some(short) = reasons.some() {
            frame.settle();
            self.sift_again(short, |packet, ()| {
                refused(packet);
                None
            });
        }
    }

    /// Removes the first `len` bytes of each packet. Packets that have fewer are given to `refused`.
    #[inline]
    pub fn strip(&mut self, len: usize, refused: impl FnMut(Packet)) {
        let Some(frame) = self.0.as_mut() else { return };
        let (packets, _, _) = frame.columns();
        if let Some(short) = packets.iter_mut().position(|packet| !packet.pull(len)) {
            // All back, so that what is due is right for each.
            packets[..short].iter_mut().for_each(|packet| _ = packet.push(len));
            return self.retain(|packet| packet.pull(len), refused);
        }
        frame.due.set(frame.due.get().without(Due::FRAMED));
        // No packet has more than 16 bits can say.
        frame.move_front((len as u16).wrapping_neg());
    }

    /// Puts a link-layer header before each packet, and marks it. Packets without room for it are given to `refused`.
    #[inline]
    pub fn put_link<const LEN: usize>(&mut self, header: &[u8; LEN], refused: impl FnMut(Packet)) {
        let Some(frame) = self.0.as_mut() else { return };
        let (packets, _, _) = frame.columns();
        if let Some(full) = packets.iter_mut().position(|packet| !packet.put_link_in_headroom(header)) {
            // As above; each gets its mark again.
            packets[..full].iter_mut().for_each(|packet| _ = packet.pull(LEN));
            return self.retain(|packet| packet.put_link(header), refused);
        }
        frame.due.set(frame.due.get().without(Due::FRAMED));
        frame.move_front(LEN as u16);
        frame.mac = 0;
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
